"""Splits a chain of transforms into passes over the pixels.

A pass is one call of :func:`visops.augment`: geometry, colour, normalisation, erased rectangles and
dtype conversion, in this order. A transform joins the pass of its predecessor if that order can
express what both do. Only types and arguments decide, never an image or a draw: a chain has the
same passes for every sample.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from .effects import Effects, Fusable, TargetStep, step_of
from .integers import INTEGERS
from .nesting import Container

MAX_COLORS = 8

_FULL_PRECISION = (torch.float32, torch.float64)


@dataclass
class Pass:
    """Transforms that run together, and the options of the call that runs them."""

    transforms: list[Any] = field(default_factory=list)
    first: int = 0  # index in the chain
    reason: str = ""  # why it is a new pass; empty for the first
    kind: str = "fused"  # or "values", "foreign" or "alone"
    exact: bool = False
    interpolation: str | tuple[str, ...] | None = None
    antialias: bool | None = None
    resizes: bool = False
    fill: tuple[float, ...] | None = None  # None: so far nothing outside the image can show
    padding_mode: str = "constant"
    colors: int = 0
    channels: int | None = None  # that it makes, if not as many as it takes
    normalizes: bool = False
    dtype: torch.dtype | None = None
    erases: tuple[float, ...] | None = None
    changed: bool = False  # values changed since the first erase
    aligned: bool = True
    last_cut: str = ""  # the last transform whose cut no window can describe
    compiled: Any = None  # the pass in C++: compile.py
    steps: list[TargetStep] = field(default_factory=list)  # those of targets alone
    # Whether images of integers become floats, or change colours, after they were interpolated. One
    # by one, transforms would saturate there.
    saturates: bool = False
    reduces: bool = False  # whether files may be decoded at a lower scale

    @property
    def has_plan(self) -> bool:
        """Whether its images are made by a plan; the only transform of another pass is called."""
        return self.kind in ("fused", "values")

    @property
    def shown_padding(self) -> str:
        """What shows outside the image, if anything does."""
        return "constant" if self.fill is None else self.padding_mode

    @property
    def changes_masks(self) -> bool:
        """Whether masks change by their values as images do, once they have moved."""
        return any(
            getattr(own, "changes_masks", False) for t in self.transforms for own in t.watched()
        )

    def takes_values(self, new: Effects) -> bool:
        """Whether a transform that changes pixels by their values can join."""
        if self.kind != "values" or (new.moves and self.changes_masks):
            return False
        if not new.moves or self.interpolation is None:
            return True
        return (new.interpolation, new.fill) == (self.interpolation, self.fill)

    def refusal(self, name: str, new: Effects) -> str | None:
        """Return why a transform can't join, or None if it can."""
        if self.kind != "fused" or self.channels is not None:
            return f"{name_of(self.transforms[-1])} ends its pass"
        if new.channels is not None:
            return f"{name} changes the number of channels"
        if new.moves and (reason := self._geometry_refusal(name, new)) is not None:
            return reason
        if new.colors:
            if self.erases is not None:
                return f"{name} changes colours after the erased rectangle"
            if self.normalizes:
                return f"{name} changes colours after Normalize"
            if self.exact and isinstance(self.interpolation, tuple):
                return f"{name} changes colours after a drawn interpolation"
            saturations = self.exact and overshoots(self.interpolation)  # a step that clamps
            if self.colors + new.colors + saturations > MAX_COLORS:
                return f"{name} makes more than {MAX_COLORS} colour steps"
        if new.dtype is not None and self.dtype not in (None, new.dtype, *_FULL_PRECISION):
            return f"{name} converts from {_name(self.dtype)}"
        if new.dtype in INTEGERS and self.normalizes:
            return f"{name} rounds to {_name(new.dtype)} after Normalize"
        if new.normalizes and self.dtype in INTEGERS:
            return f"{name} follows the conversion to {_name(self.dtype)}"
        if new.erases is not None and self.erases is not None:
            if self.changed:
                return f"{name} erases again, in other units"
            if new.erases != self.erases:
                return f"{name} erases with another value"
        return None

    def _geometry_refusal(self, name: str, new: Effects) -> str | None:
        for transform in self.transforms:
            if isinstance(transform, TargetStep) and not transform.commutes:
                return f"{name} moves targets after {name_of(transform)}"
        if self.erases is not None:
            return f"{name} moves the erased rectangle"
        mode, old = new.interpolation, self.interpolation
        drawn = isinstance(mode, tuple)
        if None not in (mode, old) and (mode != old or drawn):
            return f"{name} has interpolation {mode!r} after {old!r}"
        if self.exact and self.colors and drawn:
            return f"{name} draws its interpolation after a change of colours"
        if None not in (new.antialias, self.antialias) and new.antialias != self.antialias:
            return f"{name} has antialias={new.antialias} after antialias={self.antialias}"
        if None not in (new.fill, self.fill) and new.padding_mode != self.padding_mode:
            return f"{name} pads with {new.padding_mode!r} after {self.padding_mode!r}"
        mirrors = new.aligned and mode is None and new.size is None and new.fill is None
        if self.exact and self.shown_padding != "constant" and not mirrors:
            return f"{name} moves what was padded with {self.padding_mode!r}"
        if new.fill is None:
            return None
        constant = new.padding_mode == "constant"
        if not constant and new.padding_mode == self.shown_padding != "replicate":
            return f"{name} pads again with {new.padding_mode!r}"
        if self.exact and not constant and old is not None:
            return f"{name} pads with {new.padding_mode!r} what was interpolated"
        if self.fill is not None and constant and new.fill != self.fill:
            return f"{name} has fill {_shown(new.fill)} after {_shown(self.fill)}"
        if constant:
            if self.normalizes:
                return f"{name} can show its fill after Normalize"
            if self.dtype is not None and any(new.fill):
                return f"{name} can show its fill after ToDtype"
            if self.exact and self.colors:
                return f"{name} can show its fill after a change of colours"
        if self.exact and self.last_cut:
            return f"{name} could show again what {self.last_cut} cut off"
        return None

    def join(self, transform: Any, new: Effects) -> None:
        """Add a transform, which must be one that can join."""
        self.transforms.append(transform)
        if isinstance(transform, TargetStep):
            self.steps.append(transform)
        if new.moves:
            self.interpolation = self.interpolation or new.interpolation
            self.antialias = new.antialias if self.antialias is None else self.antialias
            self.resizes = self.resizes or new.antialias is not None
            if self.fill is None and new.fill is not None:
                self.fill, self.padding_mode = new.fill, new.padding_mode
            self.aligned = self.aligned and new.aligned
            if not self.aligned:
                self.last_cut = name_of(transform)
        if self.dtype is None and (new.dtype is not None or new.colors):
            self.saturates = self.saturates or overshoots(self.interpolation)
        self.colors += new.colors
        if self.erases is not None and (new.normalizes or new.dtype is not None):
            self.changed = True
        self.channels = new.channels
        self.normalizes = self.normalizes or new.normalizes
        self.dtype = new.dtype or self.dtype
        self.erases = new.erases if self.erases is None else self.erases

    def describe(self, number: int) -> str:
        """Describe the pass on one line, and each transform on lines below it."""
        what = _KINDS[self.kind]
        why = f": {self.reason}" if self.reason else ""
        lines = [f"  pass {number} ({what}){why}"]
        for transform in self.transforms:
            lines += [f"    {line}" for line in repr(transform).splitlines()]
        return "\n".join(lines)


_KINDS = {
    "fused": "one pass",
    "values": "value by value",
    "foreign": "as it is",
    "alone": "by itself",
}


def split_passes(transforms: Sequence[Callable[..., Any]], exact: bool) -> list[Pass]:
    """Split a chain into passes.

    Examples
    --------
    >>> from visops import transforms
    >>> from visops.transforms.chain.fuse import split_passes
    >>> chain = [transforms.RandomRotation(9), transforms.RandomErasing(), transforms.Resize(8)]
    >>> [p.reason for p in split_passes(chain, exact=False)]
    ['', 'Resize moves the erased rectangle']
    """
    passes: list[Pass] = []
    height, width = 0, 0  # lower bounds on the image's size
    for index, transform in enumerate(transforms):
        name = name_of(transform)
        if not isinstance(transform, Fusable):
            own = isinstance(transform, Container)
            reason = f"{name} runs sample by sample" if own else f"{name} is not one of visops"
            passes.append(Pass([transform], index, reason, "foreign", exact))
            height, width = 0, 0
            continue
        effects = transform.effects()
        inside = effects.inside
        if inside is not None and inside[0] <= height and inside[1] <= width:
            effects = replace(effects, fill=None)
        height, width = effects.size or (height, width)
        if transform.changes_values():
            if not (passes and passes[-1].takes_values(effects)):
                reason = f"{name} changes values by themselves" if passes else ""
                passes.append(Pass([], index, reason, "values", exact))
            passes[-1].join(transform, effects)
            continue
        if effects.alone is not None:
            passes.append(Pass([transform], index, f"{name}: {effects.alone}", "alone", exact))
            continue
        refusal = passes[-1].refusal(name, effects) if passes else ""
        if refusal is not None:
            passes.append(Pass([], index, refusal, "fused", exact))
        passes[-1].join(transform, effects)
        if effects.channels is not None:
            height, width = 0, 0
    if passes:
        passes[0].reduces = _reduces(transforms)
    return passes


def overshoots(interpolation: str | tuple[str, ...] | None) -> bool:
    """Return whether an interpolation may make values beyond those of the pixels around."""
    modes = interpolation if isinstance(interpolation, tuple) else (interpolation,)
    return not {"bicubic", "lanczos"}.isdisjoint(modes)


def _reduces(transforms: Sequence[Callable[..., Any]]) -> bool:
    """Return whether a chain may decode files at a lower scale: by default, if it draws."""
    reduced = getattr(transforms[0], "reduced", False)
    if reduced is not None:
        return bool(reduced)
    return any(map(_draws, transforms))


def _draws(transform: Any) -> bool:
    if not isinstance(transform, Fusable):
        return isinstance(transform, Container)
    if transform.draws == 0:
        return False
    step = step_of(transform)
    return step is None or step.num_params > 0  # Grayscale has a number, but draws nothing


def name_of(transform: Any) -> str:
    """Return a transform's name for messages and parameters."""
    if isinstance(transform, Fusable):
        return transform._get_name()
    return getattr(transform, "__name__", type(transform).__name__)


def _name(dtype: torch.dtype | None) -> str:
    return str(dtype).removeprefix("torch.")


def _shown(fill: tuple[float, ...]) -> str:
    return f"{fill[0]:g}" if len(fill) == 1 else f"({', '.join(f'{v:g}' for v in fill)})"
