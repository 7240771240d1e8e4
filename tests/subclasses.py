"""Subclasses of torch.Tensor that don't take each other, as torchvision's boxes and masks don't."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import Tensor


class Reserved(Tensor):
    """A subclass that takes plain tensors and its own kind only."""

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if not all(issubclass(cls, kind) for kind in types):
            return NotImplemented
        return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[arg-type]


class Other(Reserved):
    """One of its kind."""


class Stranger(Reserved):
    """Another one."""
