"""What a pass needs in C++: its transforms' steps, and how it samples images."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ..._native import Chain, Step
from .effects import step_of
from .fuse import Pass
from .plan import Plan

DTYPE_NAMES = {
    dtype: str(dtype).removeprefix("torch.")
    for dtype in (torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.float64)
}

# Mean, standard deviation, erased value and dtype of a pass: the same for every draw.
Settled = tuple[list[float], list[float], "list[float] | None", torch.dtype]


class Sampling(NamedTuple):
    """How a pass samples images, as a chain in C++ takes it."""

    modes: list[str]  # a plan takes one for each sample
    padding_mode: str
    fill: list[float]  # in the images' units
    antialias: bool
    saturates: bool  # where integers are interpolated and floats follow: Pass.saturates


class Compiled:
    """One pass in C++.

    Attributes
    ----------
    steps : list
        The step of each transform; None: its methods in Python are to run.
    is_whole : bool
        Whether all of them are in C++.
    chain : Chain
        All steps, and the options of sampling; without steps unless `is_whole`.
    settled : dict
        By dtype and channels of the images, for a pass that is whole.
    least : pair of int, optional
        The least height and width of a result; None: those of the image.
    """

    def __init__(self, pass_: Pass, slices: Sequence[slice]) -> None:
        self.steps: list[Step | None] = [step_of(transform) for transform in pass_.transforms]
        self.is_whole = None not in self.steps
        firsts = [own.start for own in slices[pass_.first : pass_.first + len(self.steps)]]
        steps = list(zip(self.steps, firsts, strict=True)) if self.is_whole else []
        self.sampling = sampling_of(pass_)
        self.shows_window = pass_.resizes and pass_.fill is not None and not pass_.antialias
        self.chain: Any = Chain(steps, *self.sampling, self.shows_window)
        self.settled: dict[tuple[torch.dtype, int], Settled] = {}
        sizes = (transform.effects().size for transform in pass_.transforms)
        self.least = next((size for size in reversed([*sizes]) if size is not None), None)

    def settle(self, pass_: Pass, plan: Plan) -> None:
        """Add to the plan of a whole pass what no draw changes."""
        key = plan.source_dtype, plan.channels
        found = self.settled.get(key)
        if found is None:
            for transform in pass_.transforms:
                transform.settle(plan)
            self.settled[key] = plan.mean, plan.std, plan.erase_value, plan.dtype
        else:
            plan.mean, plan.std, plan.erase_value, plan.dtype = found

    def __reduce__(self) -> tuple[Any, ...]:
        return _nothing, ()  # copies and other processes compile it anew


def _nothing() -> None:
    return None


def compiled(pass_: Pass, slices: Sequence[slice]) -> Compiled:
    """Return what a pass needs in C++.

    It is kept as long as the pass: a chain forms new ones when an attribute of a transform is set.
    """
    if pass_.compiled is None:
        pass_.compiled = Compiled(pass_, slices)
    return pass_.compiled  # type: ignore[no-any-return]


def sampling_of(pass_: Pass) -> Sampling:
    """Return how a pass samples its images."""
    mode, antialias = pass_.interpolation or "nearest", bool(pass_.antialias)
    modes = list(mode) if isinstance(mode, tuple) else [mode]
    if pass_.fill is None:
        # Nothing outside can show, and none of it may leak into a resized image's rim.
        padding_mode = "replicate" if pass_.resizes and not antialias else "constant"
        return Sampling(modes, padding_mode, [0.0], antialias, pass_.saturates)
    return Sampling(modes, pass_.padding_mode, list(pass_.fill), antialias, pass_.saturates)
