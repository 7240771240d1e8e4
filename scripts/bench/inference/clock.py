"""Where time goes: seconds of each stage, of the whole run, and of CPU time."""

import contextlib
import resource
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

STAGES = ("decode", "preprocess", "models", "post-process", "write")
CPU = torch.device("cpu")


@dataclass
class Timing:
    """Seconds of a run, or the sum of several runs."""

    wall: float = 0.0
    cpu: float = 0.0  # of all threads and worker processes
    stages: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    # The number of threads or processes of stages that have their own; the other stages take turns
    # in one thread.
    apart: dict[str, int] = field(default_factory=dict)
    device: torch.device = CPU

    def _settle(self) -> None:
        """Wait for the GPU, so that its pending work counts for the stage that launched it."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the block's time to a stage; only in the thread of the loop."""
        began = time.perf_counter()
        try:
            yield
            self._settle()
        finally:
            self.stages[name] += time.perf_counter() - began

    def add(self, other: "Timing") -> None:
        """Add the times of another run."""
        self.wall += other.wall
        self.cpu += other.cpu
        self.apart = other.apart
        for name, seconds in other.stages.items():
            self.stages[name] += seconds

    def limits(self) -> tuple[str, float]:
        """Return the stage that limits the run, and its share of the time.

        That of all that runs side by side which is at work most of the time; of stages that take
        turns in one thread, the longest.
        """
        shares = {name: self.stages[name] / (n * self.wall) for name, n in self.apart.items()}
        in_turn = {n: s / self.wall for n, s in self.stages.items() if n not in self.apart}
        busiest = max(shares, key=lambda name: shares[name], default=None)
        if busiest is not None and shares[busiest] > sum(in_turn.values()):
            return busiest, shares[busiest]
        longest = max(in_turn, key=lambda name: in_turn[name])
        return longest, in_turn[longest]


def _cpu() -> float:
    """Return the CPU time of this process and its finished children."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


@contextlib.contextmanager
def whole(timing: Timing) -> Iterator[None]:
    """Time a whole run, whose processes must have ended at the end of the block."""
    cpu, began = _cpu(), time.perf_counter()
    yield
    timing.wall += time.perf_counter() - began
    timing.cpu += _cpu() - cpu
