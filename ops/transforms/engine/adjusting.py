"""Arguments that are set as attributes after a transform was made: they act, or are refused.

NOTE on adjusting. Much of what a transform computes from its arguments is computed once, so an
attribute by itself would have no effect. Setting an attribute with the name of an argument makes
the transform anew, in place, with that argument: it is checked as it always is. Any other new name
is refused.
"""

import functools
import inspect
import pickle
from collections.abc import Callable, Mapping
from typing import Any

from ..._torch.outside_graphs import outside_graphs

_GIVEN = "_given"  # the arguments, once a transform has been made
_MAKING = "_making"


class Adjustable:
    """What has arguments that may be set as attributes.

    Attributes
    ----------
    fixed : tuple of str
        Arguments that can't be set.
    _edits : int
        Another number whenever an attribute has been set.
    """

    fixed: tuple[str, ...] = ()
    _edits: int = 0

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            cls.__init__ = _noting(vars(cls)["__init__"])  # type: ignore[method-assign]

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__["_edits"] = self._edits + 1
        if _GIVEN not in self.__dict__:  # it is being made
            super().__setattr__(name, value)
            return
        cls: type = type(self)
        if name in _parameters(cls):
            self._adjust(name, value)
        elif name.startswith("_") or hasattr(self, name) or not _is_ours(cls):
            super().__setattr__(name, value)
        else:
            raise AttributeError(
                f"visops.transforms.{cls.__name__}: {name} is no argument of it; must be one of "
                f"{', '.join(_parameters(cls))}"
            )

    def _adjust(self, name: str, value: Any) -> None:
        given, before = self.__dict__[_GIVEN], dict(self.__dict__)
        if given is None or name in self.fixed:
            raise AttributeError(
                f"visops.transforms.{type(self).__name__}: {name} can't be set any more, must be "
                "given when it is made"
            )
        del self.__dict__[_GIVEN]
        try:
            self.__init__(**{**given, name: value})  # type: ignore[misc]
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def picklable(self) -> dict[str, Any]:
        """Return the attributes for a copy; arguments that can't be pickled are left behind."""
        state = dict(self.__dict__)
        try:
            pickle.dumps(state.get(_GIVEN))
        except Exception:  # whatever an argument raises
            state[_GIVEN] = None
        return state


def _noting(make: Callable[..., None]) -> Callable[..., None]:
    """Return an `__init__` that notes its arguments, unless another one has called it."""

    @outside_graphs  # the compiler can't follow how a transform is made
    @functools.wraps(make)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        inner = _MAKING in self.__dict__
        self.__dict__[_MAKING] = True
        try:
            make(self, *args, **kwargs)
        finally:
            if not inner:
                self.__dict__.pop(_MAKING, None)
        if not inner:
            self.__dict__[_GIVEN] = _arguments(type(self), args, kwargs)

    return made


@functools.cache
def _parameters(cls: type) -> Mapping[str, inspect.Parameter]:
    """Return the arguments of a class by name."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    found = inspect.signature(cls.__init__).parameters  # type: ignore[misc]
    return {name: p for name, p in list(found.items())[1:] if p.kind not in kinds}


def _arguments(
    cls: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return arguments by name; None if a class takes any number of them."""
    if len(args) > len(_parameters(cls)) or not set(kwargs) <= set(_parameters(cls)):
        return None
    return {**dict(zip(_parameters(cls), args, strict=False)), **kwargs}


def _is_ours(cls: type) -> bool:
    return cls.__module__.startswith("visops.")
