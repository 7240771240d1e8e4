"""Named tuples as results of exported programs."""

from typing import TypeVar

from torch.utils import _pytree

Class = TypeVar("Class", bound=type)


def exportable(cls: Class) -> Class:
    """Let torch.export save programs that take or return this named tuple (a class decorator)."""
    _pytree._register_namedtuple(cls, serialized_type_name=f"visops.{cls.__name__}")
    return cls
