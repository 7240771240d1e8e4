"""What happens below Python: torch's profiler, on all rungs that are fast enough."""

import os
import textwrap
from pathlib import Path

from bench.harness import set_threads
from bench.harness.report import duration
from torch.profiler import ProfilerActivity, profile, record_function

from .ladder import Climb, same_threads

CALLS = 3  # of each rung
ROWS = 14  # of the table


def trace(found: Climb, path: Path) -> str:
    """Trace the rungs at a size where all fast ones were timed; return the totals."""
    size = min(max(found.times[name]) for name, rung in found.rungs.items() if not rung.profiled)
    built = found.ladder.build(size)
    rungs = [rung for rung in built if size in found.times.get(rung.name, {})]
    os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # or it calls a missing GPU an error
    activities = [ProfilerActivity.CPU]
    if any(rung.device != "cpu" for rung in rungs):
        activities.append(ProfilerActivity.CUDA)
    with same_threads():
        for rung in rungs:
            rung.call()
        with profile(activities=activities) as profiler:
            for rung in rungs:
                set_threads(rung.threads)
                with record_function(f"rung: {rung.name}"):
                    for _ in range(CALLS):
                        rung.call()
    path.parent.mkdir(parents=True, exist_ok=True)
    profiler.export_chrome_trace(str(path))
    events = [
        event
        for event in profiler.key_averages()
        if event.self_cpu_time_total > 0 and not event.key.startswith("rung: ")
    ]
    events.sort(key=lambda event: event.self_cpu_time_total, reverse=True)
    names = "; ".join(rung.name for rung in rungs)
    lines = [
        *textwrap.wrap(f"size {size}, {CALLS} calls of each of: {names}", 100),
        f"{'self time':>10} {'calls':>6}  function",
    ]
    lines += [
        f"{duration(event.self_cpu_time_total * 1e-6):>10} {event.count:>6}  {event.key}"
        for event in events[:ROWS]
    ]
    return "\n".join(lines)
