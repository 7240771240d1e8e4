"""Interleaved timing on the CPU and on CUDA devices."""

import contextlib
import importlib
import random
import statistics
import time
import timeit
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

cv2: Any = None
with contextlib.suppress(ImportError):  # a benchmark without it as a peer does not need it
    cv2 = importlib.import_module("cv2")

SAMPLE_SECONDS = 2e-3  # a sample repeats its call for this long, to drown timer noise
MIN_ROUNDS, MAX_ROUNDS = 5, 400


@dataclass
class Timing:
    """Seconds per call, one number for each round."""

    samples: list[float]

    @property
    def minimum(self) -> float:
        return min(self.samples)

    @property
    def median(self) -> float:
        return statistics.median(self.samples)


def _sample(call: Callable[[], Any], loops: int, device: str, clock: Callable[[], float]) -> float:
    """Seconds per call over `loops` calls."""
    if device == "cpu":
        return timeit.Timer(call, timer=clock).timeit(loops) / loops
    event: Any = torch.cuda.Event  # not annotated
    start, end = event(enable_timing=True), event(enable_timing=True)
    torch.cuda.synchronize(device)
    start.record()
    for _ in range(loops):
        call()
    end.record()
    end.synchronize()
    milliseconds: float = start.elapsed_time(end)
    return milliseconds * 1e-3 / loops


def interleave(
    calls: Sequence[Callable[[], Any]],
    *,
    min_time: float = 0.2,
    device: str = "cpu",
    clock: Callable[[], float] = time.perf_counter,
) -> list[Timing]:
    """Time several calls in turn.

    Parameters
    ----------
    calls
        What to time; results are discarded.
    min_time
        Seconds to spend on each call, on average. Slow calls take longer: each has five rounds.
    device
        ``"cpu"`` uses `clock`, a CUDA device its own events.
    clock
        Seconds. ``time.process_time`` is fair to long calls where other programs run: only short
        ones are ever finished without an interruption, which the wall clock counts.

    Returns
    -------
    list of Timing
        One for each call.
    """
    loops = []
    for call in calls:
        _sample(call, 1, device, clock)  # first use: allocations, thread pools, lazy initialisation
        loops.append(max(1, round(SAMPLE_SECONDS / max(_sample(call, 1, device, clock), 1e-9))))
        if loops[-1] > 1:  # a single call is too short to go by
            once = max(_sample(call, max(2, loops[-1] // 8), device, clock), 1e-9)
            loops[-1] = max(1, round(SAMPLE_SECONDS / once))
    timings = [Timing([]) for _ in calls]
    budget = min_time * len(calls)
    order = random.Random(0)
    began = clock()
    for n in range(MAX_ROUNDS):
        if n >= MIN_ROUNDS and clock() - began > budget:
            break
        # A call finds the previous call's input in the cache, so the order changes each round.
        for i in order.sample(range(len(calls)), len(calls)):
            timings[i].samples.append(_sample(calls[i], loops[i], device, clock))
    return timings


def set_threads(count: int) -> None:
    """Let torch, everything on its pool, and OpenCV use `count` threads."""
    torch.set_num_threads(count)
    if cv2 is not None:
        cv2.setNumThreads(count)
