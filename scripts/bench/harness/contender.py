"""Contenders, the cases they meet in, and how far their outputs may differ."""

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Tolerance:
    """How far a peer's output may differ from ours, in the output's own units."""

    max_abs: float = math.inf
    mean_abs: float = math.inf
    fraction: float = 1.0  # of elements that may differ at all
    why: str = ""


EXACT = Tolerance(max_abs=0.0, why="the same bits")


@dataclass(frozen=True)
class Difference:
    """How far a peer's output differs from ours."""

    max_abs: float
    mean_abs: float
    fraction: float

    def within(self, tolerance: Tolerance) -> bool:
        """Whether the tolerance allows this difference; a NaN is never allowed."""
        return (
            self.max_abs <= tolerance.max_abs
            and self.mean_abs <= tolerance.mean_abs
            and self.fraction <= tolerance.fraction
        )


@dataclass(frozen=True)
class Contender:
    """One way of doing the job.

    Parameters
    ----------
    name
        Column of the table.
    call
        What is timed. Its result is the job's output, so its memory is not "extra".
    tolerance
        How far the output may differ from ours.
    comparable
        Turns the result of `call` into what is compared, if not the result itself.
    bound
        Not a peer, but a part of our own work or another form of it: it may be faster.
    on_host
        A peer that knows no other device than the CPU.
    """

    name: str
    call: Callable[[], Any]
    tolerance: Tolerance = EXACT
    comparable: Callable[[Any], Any] | None = None
    bound: bool = False
    on_host: bool = False

    def output(self) -> Any:
        """The result in the form in which contenders are compared."""
        result = self.call()
        return result if self.comparable is None else self.comparable(result)


@dataclass(frozen=True)
class Case:
    """One row: a job, and how to make its contenders (ours first) when its turn comes."""

    group: str  # rows of one group share a table, so they share their contenders' names
    label: str
    build: Callable[[], Sequence[Contender]]
    device: str = "cpu"
    quick: bool = False  # also run by --quick
    images: int | None = None  # of a call, for a rate
    threads: int | None = None  # run at this number only, where threads don't matter
    memory: bool = True  # whether a call uses only this process's memory
    workers: bool = False  # whether other processes compute for it
    on_cuda: bool = False  # whether it runs on a GPU as well, where that is the default device

    def contenders(self) -> list[Contender]:
        """Ours first, then those peers that know the device."""
        if self.device == "cpu":
            return list(self.build())
        with torch.device(self.device):
            return [contender for contender in self.build() if not contender.on_host]

    @property
    def key(self) -> str:
        """What ``--filter`` matches."""
        return f"{self.device}/{self.group}/{self.label}"


def case(
    group: str,
    label: str,
    build: Callable[..., Sequence[Contender]],
    *arguments: Any,
    quick: bool = False,
    **more: Any,
) -> Case:
    """The case of `build` with these arguments."""
    return Case(group, label, functools.partial(build, *arguments), quick=quick, **more)


def rows(
    group: str,
    build: Callable[..., Sequence[Contender]],
    table: Mapping[str, Sequence[Any]],
    quick: str | None = None,
    **more: Any,
) -> list[Case]:
    """A case for each label of a table, with its arguments; quick where the pattern is found."""

    def is_quick(label: str) -> bool:
        return quick is not None and re.search(quick, label) is not None

    return [
        case(group, label, build, *arguments, quick=is_quick(label), **more)
        for label, arguments in table.items()
    ]


def pair(
    peer: str,
    ours: Callable[..., Any],
    theirs: Callable[..., Any],
    given: Sequence[Any] = (),
    tolerance: Tolerance = EXACT,
    **more: Any,
) -> list[Contender]:
    """Ours beside one peer: two functions of the same arguments."""
    return [
        Contender("visops", lambda: ours(*given)),
        Contender(peer, lambda: theirs(*given), tolerance, **more),
    ]


def gradients(
    function: Callable[..., torch.Tensor], leaves: Sequence[torch.Tensor], grad: torch.Tensor
) -> Callable[[], tuple[torch.Tensor, ...]]:
    """A call that computes a function of leaves, and the gradients of all of them."""
    return lambda: torch.autograd.grad(function(*leaves), leaves, grad)


def pair_of_gradients(
    peer: str,
    ours: Callable[..., torch.Tensor],
    theirs: Callable[..., torch.Tensor],
    given: Sequence[torch.Tensor],
    tolerance: Tolerance,
    **more: Any,
) -> list[Contender]:
    """The same two functions, and the gradients of all arguments for random incoming ones."""
    leaves = [tensor.requires_grad_() for tensor in given]
    grad = torch.rand_like(ours(*leaves))
    both = gradients(ours, leaves, grad), gradients(theirs, leaves, grad)
    return pair(peer, *both, (), tolerance, **more)


def _arrays(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _arrays(item)
    elif isinstance(value, np.ndarray):
        yield torch.from_numpy(value)
    elif isinstance(value, torch.Tensor):
        yield value.detach()
    elif value is not None:
        raise TypeError(f"cannot compare a {type(value).__name__}")


def compare(ours: Any, theirs: Any) -> Difference:
    """Largest and mean absolute difference over all arrays of two results."""
    worst = total = differing = 0.0
    count = 0
    for a, b in itertools.zip_longest(_arrays(ours), _arrays(theirs)):
        if a is None or b is None or a.shape != b.shape or a.dtype != b.dtype:
            return Difference(math.inf, math.inf, 1.0)
        wide = a.dtype if a.is_floating_point() else torch.int32
        gap = (a.to(wide) - b.to(wide)).abs_()
        if gap.numel():
            largest = float(gap.max())
            worst = largest if math.isnan(largest) else max(worst, largest)
            total += float(gap.sum(dtype=torch.float64))
            differing += float(torch.count_nonzero(gap))
            count += gap.numel()
    return Difference(worst, total / max(count, 1), differing / max(count, 1))
