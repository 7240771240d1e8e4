"""The same calls under an event profiler (cProfile) and a sampling profiler (pyinstrument).

cProfile is told of every call and every return, and so counts calls exactly, at a price for each:
functions that call many small ones look slower than they are. pyinstrument looks at the stack once
in a while: it counts nothing, shows the whole stack, and misses what is short and rare; it is woken
by calls and returns too, so that it isn't cheaper. Neither sees into a C function, be it NumPy's or
ours: there `trace` goes on.
"""

import cProfile
import io
import itertools
import pstats
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyinstrument
from bench.harness import set_threads
from bench.harness.report import duration
from pyinstrument.renderers import ConsoleRenderer

from .ladder import Climb, Rung, same_threads

TARGET = 0.3  # seconds of a rung that are profiled, where the sizes allow it
ROUNDS = 3  # the fastest of which is reported
INTERVAL = 1e-3  # seconds between two samples
FUNCTIONS = 8  # lines of cProfile
COLUMN = 66  # characters


@dataclass(frozen=True)
class Profiled:
    """One rung under both profilers; times are CPU times of all calls."""

    name: str
    size: int
    calls: int
    plain_s: float
    events_s: float
    events: str
    samples_s: float
    samples: str

    def text(self) -> str:
        """Both reports, side by side."""
        cost = [duration(t) for t in (self.plain_s, self.events_s, self.samples_s)]
        ratios = self.events_s / self.plain_s, self.samples_s / self.plain_s
        calls = f"{self.calls} calls" if self.calls > 1 else "1 call"
        head = (
            f"{self.name}, size {self.size}, {calls}: {cost[0]} alone, "
            f"{cost[1]} under cProfile (×{ratios[0]:.2f}), "
            f"{cost[2]} under pyinstrument (×{ratios[1]:.2f})"
        )
        left = f"cProfile: every call\n\n{self.events}"
        right = f"pyinstrument: a look every {1e3 * INTERVAL:g} ms\n\n{self.samples}"
        return f"{head}\n\n{side_by_side(left, right)}"


def side_by_side(left: str, right: str, width: int = COLUMN) -> str:
    """Set two texts in columns and cut long lines."""

    def cut(line: str) -> str:
        return line if len(line) <= width else line[: width - 1] + "…"

    pairs = itertools.zip_longest(left.splitlines(), right.splitlines(), fillvalue="")
    return "\n".join(f"{cut(a):<{width}} │ {cut(b)}".rstrip() for a, b in pairs)


def _seconds(call: Callable[[], Any], calls: int) -> float:
    """CPU time of this thread, which other processes don't change."""
    began = time.thread_time()
    for _ in range(calls):
        call()
    return time.thread_time() - began


def _events(call: Callable[[], Any], calls: int) -> tuple[float, str]:
    profile = cProfile.Profile()
    profile.enable()
    seconds = _seconds(call, calls)
    profile.disable()
    stream = io.StringIO()
    pstats.Stats(profile, stream=stream).strip_dirs().sort_stats("tottime").print_stats(FUNCTIONS)
    lines = [line.rstrip() for line in stream.getvalue().splitlines() if line.strip()]
    # Leave out seconds per call, which follow from the other columns.
    table = r"^( *\S+ +\S+) +\S+( +\S+) +\S+ (\S.*)$"
    head = next(i for i, line in enumerate(lines) if line.lstrip().startswith("ncalls"))
    rows = [re.sub(table, r"\1\2 \3", line) for line in lines[head:]]
    return seconds, "\n".join([lines[0].strip(), *rows])


def _samples(call: Callable[[], Any], calls: int) -> tuple[float, str]:
    profiler = pyinstrument.Profiler(interval=INTERVAL, async_mode="disabled")
    with profiler:
        seconds = _seconds(call, calls)
    renderer = ConsoleRenderer(unicode=True, color=False, show_all=True)
    tree = profiler.output(renderer).splitlines()
    # Leave out the header, which has a date and a path, and this module's frames.
    body = [line for line in tree if re.match(r"\W*\d", line) and "profilers.py" not in line]
    indent = min((len(line) - len(line.lstrip(" │├└─")) for line in body), default=0)
    session = profiler.last_session
    count = 0 if session is None else session.sample_count
    return seconds, "\n".join([f"{count} samples", *(line[indent:] for line in body)])


def profile_rung(rung: Rung, size: int) -> Profiled:
    """Run under both profilers, after one run without."""
    set_threads(rung.threads)
    calls = max(1, round(TARGET / max(_seconds(rung.call, 1), 1e-9)))
    plain, events, samples = [], [], []
    for _ in range(ROUNDS):  # in turn, so that what disturbs one run disturbs all alike
        plain.append(_seconds(rung.call, calls))
        events.append(_events(rung.call, calls))
        samples.append(_samples(rung.call, calls))
    return Profiled(rung.name, size, calls, min(plain), *min(events), *min(samples))


def profile_size(found: Climb, name: str) -> int:
    """The largest size whose call fits the profiling time, or else the smallest."""
    short = [size for size, timing in found.times[name].items() if timing.minimum <= TARGET]
    return max(short, default=min(found.times[name]))


def profile(found: Climb) -> list[Profiled]:
    """The rungs that are worth profiling in Python."""
    names = [name for name, rung in found.rungs.items() if rung.profiled]
    with same_threads():
        return [
            profile_rung(_rung(found.ladder.build(size), name), size)
            for name in names
            for size in [profile_size(found, name)]
        ]


def _rung(rungs: Sequence[Rung], name: str) -> Rung:
    return next(rung for rung in rungs if rung.name == name)
