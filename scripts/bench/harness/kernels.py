"""Which kernels a row launches, and how long each takes; and what its Python costs."""

import time
import traceback
from collections.abc import Sequence

import torch
from torch.profiler import ProfilerActivity, profile

from .contender import Case

CALLS = 5


def wait(device: str) -> None:
    """Until the device has done what it was told."""
    if device != "cpu":
        torch.cuda.synchronize()


def trace(cases: Sequence[Case]) -> int:
    """Print a table for each row; one that fails is named, and the next follows. Exit status."""
    failed = 0
    for row in cases:
        device = row.device
        activities = [ProfilerActivity.CPU if device == "cpu" else ProfilerActivity.CUDA]
        try:
            call = row.contenders()[0].call
            for _ in range(3):
                call()
            wait(device)
            began = time.perf_counter()
            for _ in range(CALLS):
                call()
            told = time.perf_counter() - began  # the device may still be at work
            wait(device)
            done = time.perf_counter() - began
            with profile(activities=activities) as profiler:
                for _ in range(CALLS):
                    call()
                wait(device)
        except Exception:
            print(f"{row.key} failed:\n{traceback.format_exc()}", flush=True)
            failed = 1
            continue
        micro = 1e6 / CALLS
        print(f"{row.key}: {done * micro:.0f} µs, told after {told * micro:.0f} µs")
        events = profiler.key_averages()
        spent = {e: e.self_cpu_time_total if device == "cpu" else e.self_device_time_total
                 for e in events}  # fmt: skip
        for event in sorted(spent, key=lambda e: -spent[e])[:8]:
            each = spent[event] / CALLS
            if each > 0:
                print(f"    {each:8.1f} µs  {event.count / CALLS:5.1f} ×  {event.key[:150]}")
        print(flush=True)
    return failed
