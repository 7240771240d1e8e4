"""Passes whose parameters `_numpy.Chain` draws and composes, in one call for a whole batch.

NOTE on compiled passes. csrc/core/warp/chain*.cpp holds the arithmetic of this package's
transforms a second time: what `draw`, `extend` and a `Plan` do, operation by operation, and the
grey means of NOTE on the grey means in run.py. Results have the same bits. A pass is compiled if
every transform in it names its step in C++ (:meth:`Fusable.native_step`) and overrides nothing
that the class which names it has. A class of a user's own names none, and its whole pass runs in
Python. So do passes of an `exact` chain, of videos and of 16-bit images, calls that return or
take parameters, and a chain's first call for a dtype and a number of channels, which checks them
and finds what no draw changes. So do passes with a contrast of images that are not on the CPU:
C++ would wait for their grey means. Where C++ refuses a sample, Python runs it and says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..._torch.native import are_calls_watched
from ..sample.leaf import Leaf
from ..sample.native import Chain, place_of
from ..targets.options import Geometry
from .effects import Fusable
from .fuse import Pass
from .plan import Plan
from .run import Pixels, run_all, run_each, sampling_of, shows_window
from .source import Key

__all__ = ["DTYPE_NAMES", "Compiled", "Outcome", "compiled"]

# Name, place of the first draw and numbers of each step.
Steps = list[tuple[str, int, Sequence[float]]]
DTYPE_NAMES = {
    dtype: str(dtype).removeprefix("torch.")
    for dtype in (torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.float64)
}


@dataclass(slots=True)
class Outcome:
    """What a compiled pass has done."""

    matrix: np.ndarray  # [B, 2 or 3, 3]
    ties: np.ndarray  # [B, 2]
    size: tuple[int, int] | np.ndarray  # of all samples, or [B, 2]
    dtype: torch.dtype

    def sizes(self, batch: int) -> np.ndarray:
        """Return heights and widths, int64 [B, 2]."""
        if isinstance(self.size, np.ndarray):
            return self.size
        return np.array([self.size] * batch, np.int64)

    def geometry(self, size_in: np.ndarray, size_out: np.ndarray) -> Geometry:
        """Return how targets move, between images of these heights and widths."""
        matrix = self.matrix
        if matrix.shape[1] == 2:
            matrix = np.zeros((size_in.shape[0], 3, 3))
            matrix[:, :2] = self.matrix
            matrix[:, 2, 2] = 1.0
        return Geometry(matrix, size_in, size_out, None, self.ties)


class Compiled:
    """One pass in C++.

    Attributes
    ----------
    known : dict
        By dtype and channels of the images: what is the same for every draw.
    least : pair of int, optional
        The least height and width of a result; None: those of the image.
    reads_pixels : bool
        Whether what is drawn depends on the images: the grey mean of a contrast does.
    """

    def __init__(self, part: Pass, steps: Steps | None) -> None:
        self.chain: Any = None
        self.known: dict[tuple[torch.dtype, int], tuple[Any, ...]] = {}
        self.sampling = sampling_of(part)
        sizes = (transform.effects().size for transform in part.transforms)
        self.least = next((size for size in reversed([*sizes]) if size is not None), None)
        self.reads_pixels = any(getattr(t, "contrast", None) is not None for t in part.transforms)
        if steps is not None:
            self.chain = Chain(steps, *self.sampling, shows_window(part))

    def note(self, plan: Plan) -> None:
        """Note what a plan has that no draw changes."""
        if plan.source_dtype in DTYPE_NAMES and plan.dtype in DTYPE_NAMES:
            key = plan.source_dtype, plan.source.channels
            self.known[key] = plan.mean, plan.std, plan.erase_value, plan.dtype

    def run(
        self, leaf: Leaf, pixels: Pixels, key: Key, sizes: np.ndarray, channels_last: bool
    ) -> Outcome | None:
        """Apply the pass to a leaf's value, or return None where only Python can."""
        dtype = pixels.dtype
        known = self.known.get((dtype, pixels.channels))
        if known is None or leaf.frames:
            return None
        images = pixels.tensors(leaf)
        if not pixels.on_cpu:
            if self.reads_pixels or pixels.device.type != "cuda" or are_calls_watched():
                return None
            places: Any = None
        elif isinstance(images, list):
            places = [place_of(image) for image in images]
            if None in places:
                return None
        elif (places := place_of(images)) is None:
            return None
        found = self.chain.run(*key, sizes, pixels.channels, places, DTYPE_NAMES[dtype])
        if found is None:
            return None
        matrix, ties, size, window, color, erase = found
        mean, std, erase_value, out_dtype = known
        sampled = matrix
        if self.sampling[0] == "nearest" and matrix.shape[1] == 2:
            sampled = matrix.copy()
            sampled[:, :, 2] += ties
        options = (
            *self.sampling,
            None if window is None else pixels.put(window),
            None if color is None else pixels.put(color),
            color is not None,
            mean,
            std,
            None if erase is None else pixels.put(erase),
            erase_value,
            False,
            True,
            out_dtype,
            channels_last,
        )
        placed = pixels.put(sampled)
        if isinstance(size, tuple):
            results: Any = run_all(images, placed, size, options)
        else:
            results = run_each(images, placed, size.tolist(), options)
        pixels.store(leaf, results)
        return Outcome(matrix, ties, size, out_dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return _nothing, ()  # copies and other processes compile it anew


def _nothing() -> None:
    return None


def compiled(part: Pass, slices: Sequence[slice], exact: bool) -> Compiled | None:
    """Return a pass in C++, None if it can only run in Python.

    It is kept as long as the pass: a chain forms new ones when an attribute of a transform is set.
    """
    kept = part.compiled
    if kept is None:
        steps = None if exact or Chain is None else _steps(part, slices)
        kept = part.compiled = Compiled(part, steps)
    return kept if kept.chain is not None else None


def _steps(part: Pass, slices: Sequence[slice]) -> Steps | None:
    """Return name, place of the first draw and numbers of each step."""
    steps: Steps = []
    for place, transform in enumerate(part.transforms, part.first):
        step = _step_of(transform)
        if step is None:
            return None
        if step[0]:
            steps.append((step[0], slices[place].start, step[1]))
    return steps


_METHODS = ("draw", "extend", "make_params", "effects")


def _step_of(transform: Fusable) -> tuple[str, Sequence[float]] | None:
    cls = type(transform)
    owner = next(base for base in cls.__mro__ if "native_step" in vars(base))
    for method in _METHODS:
        if method in vars(transform) or getattr(cls, method) is not getattr(owner, method):
            return None
    return transform.native_step()
