"""Chains within chains: what is flattened, and which options an inner chain takes or refuses."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from torch import nn

from ..sample.leaf import Leaf, Reading, imported
from ..targets.options import TargetOptions
from .effects import Adjustable, Fusable
from .options import DEFAULTS, OutputTypes, restored, stored

_SETTABLE = ("seed", "keys", "memory_format")  # options that every call reads


class Chain(nn.Module):
    """What `Compose` is to the functions that form and run it, and to chains that hold it.

    Attributes
    ----------
    transforms : list
    names : list of str
        The transforms' names.
    slices : list of slice
        Where each transform's uniform numbers lie among a sample's.
    draws : int
        How many a sample has.
    given : dict
        The options that its caller gave it.
    named : dict
        All options.
    options : TargetOptions
        Those that concern targets.
    output_types : OutputTypes
        The types in which results come out.
    reading : Reading
        How it reads plain values.
    reads_files : bool
        Whether its images are JPEG files.
    pipeline : Pipeline, optional
        What runs calls in C++; None: `reason_for_python` says why nothing does.
    """

    transforms: list[Any]
    names: list[str]
    slices: list[slice]
    draws: int
    given: dict[str, Any]
    named: dict[str, Any]
    options: TargetOptions
    output_types: OutputTypes
    reading: Reading
    reads_files: bool
    pipeline: Any
    seed: int | None
    exact: bool
    keys: Mapping[str, Sequence[str]] | None
    memory_format: torch.memory_format

    @property
    def passes(self) -> list[Any]:
        """The passes that the transforms form."""
        raise AttributeError("a chain has passes once it is a Compose")

    def split(self, sample: Any) -> tuple[list[Leaf], Callable[[list[Leaf]], Any]]:
        """Split a sample, for a chain whose passes are formed."""
        raise AttributeError("a chain splits samples once it is a Compose")

    def source(self, generator: Any, index: Any, epoch: Any, params: Any) -> Any:
        """Return where the numbers of a call come from."""
        raise AttributeError("a chain has a source once it is a Compose")

    def __setattr__(self, name: str, value: Any) -> None:
        made = "options" in self.__dict__
        if made and name in DEFAULTS and name not in _SETTABLE:
            raise AttributeError(
                f"visops.transforms.Compose: {name} can't be set any more, must be given when it "
                "is made"
            )
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        options = {"named": stored(self.named), "given": stored(self.given)}
        return {**stored(self.__dict__), **options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        options = {name: restored(state[name]) for name in ("named", "given")}
        super().__setstate__({**restored(state), **options})


class Container(Adjustable, nn.Module, ABC):
    """Transforms of which each sample takes some. Unfused, it runs with all targets."""

    fixed = ("transforms",)  # chains around it have taken them over

    def fused(self, exact: bool) -> Fusable | None:
        """Return a transform that does the same in a fused pass, or None."""
        return None

    @abstractmethod
    def passes(self) -> list[Any]:
        """Return the passes of all chains in it."""

    @abstractmethod
    def run(self, leaves: list[Leaf], number: float) -> None:
        """Transform the leaves of one sample in place; its draws follow from a number in [0, 1)."""

    @abstractmethod
    def geometry(self, number: float, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
        """Return how `run` moves one sample's pixels, without running.

        Parameters
        ----------
        number : float
            As in `run`.
        sizes : ndarray, int64 ``[1, 2]``
            Height and width of its images.

        Returns
        -------
        matrix : ndarray, float64 ``[1, 3, 3]``
        sizes : ndarray, int64 ``[1, 2]``
            Heights and widths afterwards.
        interpolation : str
        """


class OfBatches(Adjustable, nn.Module):
    """What combines the samples of a batch. A chain, where each is on its own, can't hold it."""


def flatten(transforms: Iterable[Any], options: Mapping[str, Any]) -> Iterator[Any]:
    """Return the transforms of a chain and of the chains in it, one after another.

    Parameters
    ----------
    transforms : iterable
    options : mapping
        Those of the outermost chain, by name. With ``exact``, transforms are taken apart.

    Raises
    ------
    TypeError
        Something can't be called.
    ValueError
        An inner chain has other options.
    """
    for transform in transforms:
        if isinstance(transform, Chain):
            _reject_other_options(transform.given, options)
            yield from flatten(transform.transforms, options)
        elif isinstance(transform, Container):
            yield transform.fused(options["exact"]) or transform
        elif isinstance(transform, Fusable):
            yield from transform.parts() if options["exact"] else [transform]
        elif isinstance(transform, OfBatches):
            raise TypeError(
                f"visops.transforms.Compose: transforms holds a {transform._get_name()}, which "
                "combines the samples of a batch; must be called with the batch, after the chain"
            )
        elif isinstance(transform, type):
            name = transform.__name__
            raise TypeError(
                f"visops.transforms.Compose: transforms holds the class {name}, must hold its "
                f"instances, {name}(...)"
            )
        elif (inner := _contents(transform)) is not None:
            yield from flatten(inner, options)
        elif callable(transform):
            replacement = _replacement_of(transform)
            yield transform if replacement is None else replacement(transform)
        else:
            raise TypeError(
                f"visops.transforms.Compose: transforms holds a {type(transform).__name__}, must "
                "hold transforms or other callables"
            )


# Transforms that stand for torchvision's, by its classes' names: from theirs to ours.
REPLACEMENTS: dict[str, Callable[[Any], Fusable]] = {}


def _replacement_of(transform: Any) -> Callable[[Any], Fusable] | None:
    cls = type(transform)
    theirs = cls.__module__.startswith("torchvision.transforms")
    return REPLACEMENTS.get(cls.__name__) if theirs else None


def _reject_other_options(given: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if value != options[name]:
            raise ValueError(
                f"visops.transforms.Compose: transforms holds a Compose with {name}={value!r}, "
                f"this one has {name}={options[name]!r}; must be the same (an inner Compose runs "
                "with the outer one's options)"
            )


def _contents(transform: Any) -> list[Any] | None:
    """Return what another library's container calls in turn; None if it is not one."""
    if type(transform) is nn.Sequential:
        inner = list(transform)
        # Networks stay whole.
        known = any(_moves_targets(t) or _contents(t) is not None for t in inner)
        return inner if known else None
    if type(transform) is imported("torchvision.transforms", "Compose"):
        return list(transform.transforms)
    if type(transform) is imported("torchvision.transforms.v2", "Compose"):
        inner = list(transform.transforms)
        # It gives functions the whole sample, which a chain doesn't.
        return inner if all(_moves_targets(t) for t in inner) else None
    return None


def _moves_targets(transform: Any) -> bool:
    if isinstance(transform, (Fusable, Chain, Container)):
        return True
    return isinstance(transform, imported("torchvision.transforms.v2", "Transform") or ())


# The options of the chain that is running a transform from another package.
_outer: ContextVar[Mapping[str, Any] | None] = ContextVar("visops_outer_options", default=None)


@contextmanager
def within(options: Mapping[str, Any]) -> Iterator[None]:
    """Let chains that are called from inside another package's transform find these options."""
    token = _outer.set(options)
    try:
        yield
    finally:
        _outer.reset(token)


def outer_options() -> Mapping[str, Any] | None:
    """Return the options of the chain around a call, or None."""
    return _outer.get()
