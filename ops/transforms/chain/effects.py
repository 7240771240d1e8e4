"""What a transform says about itself, so that passes can be formed before any image is seen.

Arguments that are set as attributes after a transform was made: they act, or are refused.

NOTE on adjusting. Much of what a transform computes from its arguments is computed once, so an
attribute by itself would have no effect. Setting an attribute with the name of an argument makes
the transform anew, in place, with that argument: it is checked as it always is. Any other new name
is refused.
"""

import functools
import inspect
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from ..._native import Step
from ..._torch.outside_graphs import outside_graphs
from .plan import Canvas, Plan

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


# The step of a transform that neither draws nor moves a pixel.
NO_STEP = Step("Identity", {})


@dataclass(frozen=True, slots=True)
class Effects:
    """What a transform can do, judging by its type and arguments alone.

    Passes are formed from this, before any image is seen. So it must cover every image and every
    draw: a transform that may turn an image by 0 to 90 degrees is not `aligned`.

    Attributes
    ----------
    moves : bool
        It has geometry: `extend` calls ``plan.shift``, ``scale``, ``affine`` or ``perspective``.
        The next six fields say more about geometry, and mean nothing without `moves`.
    aligned : bool
        Rows stay horizontal and columns vertical. False for anything but ``plan.shift`` and
        ``plan.scale``.
    interpolation : {"nearest", "bilinear", "bicubic", "lanczos"} or tuple of such, optional
        How to read between pixels. None if it moves by whole pixels or mirrors, and so can join a
        pass of any interpolation. Lanczos' only with `antialias`. Of several, the plan says which
        one each sample takes.
    antialias : bool, optional
        Whether to average over all pixels that an output pixel covers; not with "nearest". Give it
        if the transform may shrink the image, else None, and the rest of the pass decides.
    fill : tuple of float, optional
        Values of pixels from outside the image, one or one per channel, in the image's units. None
        if the result never shows any.
    padding_mode : {"constant", "replicate", "reflect", "symmetric", "circular"}
        What lies outside, where `fill` is not None; `fill` itself only for "constant".
    inside : pair of int, optional
        If the transform's image has at least this height and width, its result shows nothing from
        outside, whatever `fill` says.
    size : pair of int, optional
        The least height and width of its result, as far as the arguments tell; (0, 0) if they tell
        nothing. None if the result has the size of what it received.
    colors : int
        How many times `extend` calls ``plan.color``. A pass has room for 8.
    channels : int, optional
        How many channels the result has, if not as many as the image; they are equal. Such a
        transform is a pass by itself.
    normalizes : bool
        It calls ``plan.normalize``.
    dtype : torch.dtype, optional
        It calls ``plan.convert`` with this dtype.
    erases : tuple of float, optional
        It calls ``plan.erase`` with this value, one number or one per channel.
    alone : str, optional
        For transforms of this package that run without a plan: why.

    Examples
    --------
    >>> from visops import transforms
    >>> transforms.Resize(32).effects().size
    (32, 32)
    >>> transforms.RandomHorizontalFlip().effects().interpolation is None
    True
    """

    moves: bool = False
    aligned: bool = True
    interpolation: str | tuple[str, ...] | None = None
    antialias: bool | None = None
    fill: tuple[float, ...] | None = None
    padding_mode: str = "constant"
    inside: tuple[int, int] | None = None
    size: tuple[int, int] | None = None
    colors: int = 0
    channels: int | None = None
    normalizes: bool = False
    dtype: torch.dtype | None = None
    erases: tuple[float, ...] | None = None
    alone: str | None = None


class Fusable(Adjustable, nn.Module, ABC):
    """What the engine asks of a transform: effects, parameters, and an entry in a plan.

    Attributes
    ----------
    draws : int
        How many uniform numbers it needs per sample.
    form : str
        What a chain with it returns images as: "image" (tv_tensors), "pure" (plain tensors, and so
        targets), "pil" (PIL images), or "" if it doesn't say.
    """

    draws: int = 0
    form: str = ""
    reads_numbers: bool = False  # PIL images of a palette or of bits are read as their numbers
    changes_masks: bool = False  # by their values, as it changes images
    no_inverse: str = ""  # what it does to pixels' places that no recorded matrix undoes

    def run_leaves(self, leaves: Any, params: Mapping[str, Any], options: Any) -> None:
        """Change the leaves of a sample: only for transforms whose effects are `alone`."""
        for leaf in leaves:
            if leaf.kind == "image":
                self.run_images(leaf, params)

    def run_images(self, leaf: Any, params: Mapping[str, Any]) -> None:
        """Change the images of a leaf: only for transforms whose effects are `alone`."""
        raise TypeError(f"visops.transforms.{self._get_name()}: it joins a pass")

    def changes_values(self) -> bool:
        """Whether it changes pixels by their values, as no matrix can: in a pass of such alone."""
        return False

    def watched(self) -> list[Any]:
        """Return the transforms whose attributes decide what this one does."""
        return [self]

    @abstractmethod
    def effects(self) -> Effects:
        """Say what the transform does, for any image and any draw."""

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> dict[str, np.ndarray]:
        """Turn uniform numbers into parameters.

        Parameters
        ----------
        uniforms : ndarray, float64 ``[B, draws]``
            In [0, 1).
        canvas : Canvas
            The images that the transform receives.

        Returns
        -------
        dict of ndarray
            Each with a first dimension of B.
        """
        return {}

    @abstractmethod
    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        """Add to a plan what the transform does with these parameters."""

    def checked_params(self, uniforms: np.ndarray, canvas: Canvas) -> dict[str, np.ndarray]:
        """Call `make_params`, and check what it returns."""
        params = self.make_params(uniforms, canvas)
        if not isinstance(params, Mapping):
            raise TypeError(
                f"visops.transforms.{self._get_name()}: make_params returned a "
                f"{type(params).__name__}, must return a dict of arrays"
            )
        for name, value in params.items():
            if np.shape(value)[:1] != (len(uniforms),):
                raise ValueError(
                    f"visops.transforms.{self._get_name()}: make_params returned {name!r} of shape "
                    f"{list(np.shape(value))}, must have a first dimension of {len(uniforms)}, the "
                    "number of samples"
                )
        return {name: np.asarray(value) for name, value in params.items()}

    def set_constants(self, plan: Plan) -> None:
        """Add what is the same for every draw: normalisation, dtype, the erased value.

        Raises
        ------
        TypeError, ValueError
            It can't take images of the plan's dtype or channels.
        """

    def chain_step(self) -> Step | None:
        """Return the step in C++ that draws and extends a plan, or None where Python does.

        Names and fields are those of csrc/core/chain. A class that overrides this answers for its
        own methods; a subclass with others runs in Python.
        """
        return None

    def parts(self) -> "list[Fusable]":
        """Return the steps that, to be exact, may need passes of their own."""
        return [self]


class TargetStep(Fusable):
    """A transform of targets alone. It runs when those of its pass have moved.

    Attributes
    ----------
    commutes : bool
        Whether targets may still move afterwards, in the same pass.
    """

    commutes: bool = False

    def effects(self) -> Effects:
        return Effects()

    def chain_step(self) -> Step | None:
        return NO_STEP

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        """Add what is the same for every draw, if there is anything: no pixel moves."""
        self.set_constants(plan)

    @abstractmethod
    def run(self, leaves: Sequence[Any], sizes: np.ndarray) -> None:
        """Change the targets among the leaves; images have these sizes, ``[B, 2]``."""


_METHODS = ("extend", "make_params", "effects")


def step_of(transform: Fusable) -> Step | None:
    """Return a transform's step in C++, or None if its methods in Python are to run."""
    cls = type(transform)
    owner = next(base for base in cls.__mro__ if "chain_step" in vars(base))
    for method in _METHODS:
        if method in vars(transform) or getattr(cls, method) is not getattr(owner, method):
            return None
    return transform.chain_step()
