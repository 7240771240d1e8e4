"""From a Python loop to the fastest kernel: times by size, and where each step spends its time.

    python examples/profile_conv.py --size 64 256 1024 --kernel 7

One channel of float32 is convolved by a Python loop, NumPy, other libraries and visops. Results are
compared before they are timed, and what would take too long at a size is left out there. The slow
ones then run under an event profiler (cProfile) and a sampling profiler (pyinstrument), side by
side, and the fast ones under torch.profiler, whose trace opens in https://ui.perfetto.dev. All of
it goes to --out: docs/profiling.md reads what it shows.
"""

import argparse
import cProfile
import io
import itertools
import pstats
import re
import sys
import time
import timeit
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cv2
import matplotlib as mpl
import numpy as np
import pyinstrument
import torch
import visops
from pyinstrument.renderers import ConsoleRenderer
from scipy import signal
from torch.profiler import profile, record_function

# The Python loops are the test suite's references.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from references import conv as reference

Call = Callable[[], Any]
SIZES = (16, 32, 64, 128, 256, 512, 1024)
COLUMNS = 2**28  # bytes of a column matrix that is still made
TOLERANCE = 1e-3  # float32 sums in another order
PROFILED = 0.3  # seconds that a profiler looks on, where the sizes allow it
INTERVAL = 1e-3  # seconds between two samples


def calls_of(size: int, side: int) -> dict[str, Call]:
    """Every way that fits, the slowest first and our fastest last, on the same data."""
    rng = np.random.default_rng(0)
    image = rng.uniform(-1, 1, (size, size)).astype(np.float32)
    kernel = rng.uniform(-1, 1, (side, side)).astype(np.float32)
    tensors = torch.from_numpy(image), torch.from_numpy(kernel)
    turned = np.ascontiguousarray(np.flip(kernel))

    def recursive(*arguments: Any) -> np.ndarray:
        return reference.im2col_recursive(*arguments, fall_back_dim=1)

    def product(im2col: Any) -> Call:
        return lambda: reference.convolve_im2col(image, kernel, im2col=im2col)

    def ours(method: str) -> Call:
        return lambda: visops.convolve2d(*tensors, "same", method=method)

    border = cv2.BORDER_CONSTANT
    found: dict[str, Call] = {
        "Python loop": lambda: reference.convolve_naive(image, kernel),
        "im2col in Python + product": product(reference.im2col_naive),
        "im2col recursive + product": product(recursive),
        "NumPy slices": lambda: reference.convolve_slices(image, kernel),
        "SciPy convolve2d": lambda: signal.convolve2d(image, kernel, "same"),
        "OpenCV filter2D": lambda: cv2.filter2D(image, -1, turned, borderType=border),
        "visops im2col + product": ours("im2col"),
        "visops FFT": ours("fft"),
        "visops direct": ours("direct"),
    }
    if 4 * image.size * kernel.size > COLUMNS:
        found = {name: call for name, call in found.items() if "im2col" not in name}
    return found


PYTHON = ("Python loop", "im2col in Python + product", "im2col recursive + product", "NumPy slices")


def seconds_of(call: Call, limit: float) -> float:
    """Return the least time of a call, of repeats for about a third of a second."""
    timer = timeit.Timer(call)
    once = timer.timeit(1)
    if once > limit:
        return once
    loops = max(1, round(1e-3 / once))
    return min(timer.repeat(min(50, max(3, round(0.3 / (once * loops)))), loops)) / loops


def climb(sizes: Sequence[int], side: int, limit: float) -> dict[str, dict[int, float]]:
    """Seconds of a call by name and size; raises where a result differs."""
    times: dict[str, dict[int, float]] = {}
    for size in sorted(sizes):
        calls = calls_of(size, side)
        exact = np.asarray([*calls.values()][-1]())
        for name, call in calls.items():
            known = times.setdefault(name, {})
            nearest = max(known, default=size)
            if known and known[nearest] * (size / nearest) ** 2 > limit:
                continue  # time grows as the number of pixels does
            worst = float(np.abs(np.asarray(call()) - exact).max())
            if not worst <= TOLERANCE:
                raise ValueError(f"size {size}: {name} differs by {worst:.3g}")
            known[size] = seconds_of(call, limit)
    return times


def duration(seconds: float) -> str:
    """Three digits and a unit."""
    unit, scale = next((u for u in (("s", 1.0), ("ms", 1e-3)) if seconds >= u[1]), ("µs", 1e-6))
    return f"{seconds / scale:.3g} {unit}"


def table(times: dict[str, dict[int, float]], sizes: Sequence[int]) -> str:
    """Write a line for each way, a column for each size."""
    lines = [" " * 28 + "".join(f"{size:>9,}" for size in sizes)]
    for name, known in times.items():
        cells = (duration(known[size]) if size in known else "" for size in sizes)
        lines.append(f"{name:<28}" + "".join(f"{cell:>9}" for cell in cells).rstrip())
    return "\n".join(lines)


def picture(times: dict[str, dict[int, float]], path: Path) -> None:
    """Time by size on logarithmic axes: parallel lines differ by a factor."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(10, 6), layout="constrained")
    for name, known in times.items():
        style = "--" if name.startswith(("SciPy", "OpenCV")) else "-"
        axes.loglog(list(known), list(known.values()), style, marker="o", ms=3.5, label=name)
    axes.set_xlabel("side of the image")
    axes.set_ylabel("seconds of a call")
    axes.grid(color="#dddddd", lw=0.6)
    axes.legend(loc="upper left")
    figure.savefig(path, dpi=140)
    plt.close(figure)


def thread_seconds(call: Call, count: int) -> float:
    """CPU time of this thread, which other processes don't change."""
    began = time.thread_time()
    for _ in range(count):
        call()
    return time.thread_time() - began


def events(call: Call, count: int) -> tuple[float, str]:
    """CProfile is told of every call and return: exact counts, at a price for each."""
    watched = cProfile.Profile()
    watched.enable()
    seconds = thread_seconds(call, count)
    watched.disable()
    stream = io.StringIO()
    pstats.Stats(watched, stream=stream).strip_dirs().sort_stats("tottime").print_stats(8)
    return seconds, "\n".join(line for line in stream.getvalue().splitlines() if line.strip())


def samples(call: Call, count: int) -> tuple[float, str]:
    """Pyinstrument looks at the stack once in a while: shares, and no counts."""
    watched = pyinstrument.Profiler(interval=INTERVAL, async_mode="disabled")
    with watched:
        seconds = thread_seconds(call, count)
    tree = watched.output(ConsoleRenderer(unicode=True, color=False, show_all=True))
    return seconds, "\n".join(line for line in tree.splitlines() if re.match(r"\W*\d", line))


def side_by_side(left: str, right: str, width: int = 72) -> str:
    """Two texts in columns; long lines are cut."""
    pairs = itertools.zip_longest(left.splitlines(), right.splitlines(), fillvalue="")
    return "\n".join(f"{a[:width]:<{width}} │ {b[:width]}".rstrip() for a, b in pairs)


def profiled(times: dict[str, dict[int, float]], side: int) -> str:
    """Show what is written in Python under both profilers, at a size that takes some tenths."""
    parts = []
    for name in (name for name in PYTHON if name in times):
        size = max((s for s, t in times[name].items() if t <= PROFILED), default=min(times[name]))
        call = calls_of(size, side)[name]
        count = max(1, round(PROFILED / times[name][size]))
        plain = thread_seconds(call, count)
        (by_events, left), (by_samples, right) = events(call, count), samples(call, count)
        parts.append(
            f"{name}, size {size}, {count} calls: {duration(plain)} alone, "
            f"×{by_events / plain:.2f} under cProfile, ×{by_samples / plain:.2f} under "
            f"pyinstrument\n\n{side_by_side(left, right)}"
        )
    return "\n\n\n".join(parts)


def traced(times: dict[str, dict[int, float]], side: int, path: Path) -> str:
    """Show what happens below Python: torch's operators, at the largest size."""
    size = max(times["visops direct"])
    calls = {name: c for name, c in calls_of(size, side).items() if name not in PYTHON}
    with profile() as watched:
        for name, call in calls.items():
            with record_function(f"rung: {name}"):
                call()
    watched.export_chrome_trace(str(path))
    totals = watched.key_averages().table(sort_by="self_cpu_time_total", row_limit=14)
    return f"size {size}, one call of each of: {', '.join(calls)}\n{totals}"


def main(words: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, nargs="+", default=SIZES, help="sides of images")
    parser.add_argument("--kernel", type=int, default=7, help="its side")
    parser.add_argument("--limit", type=float, default=2.0, help="seconds that a call may take")
    parser.add_argument("--out", type=Path, default=Path("out", "profile_conv"))
    options = parser.parse_args(words)
    options.out.mkdir(parents=True, exist_ok=True)
    times = climb(options.size, options.kernel, options.limit)
    picture(times, options.out / "times.png")
    texts = {
        "times": table(times, sorted(options.size)),
        "profilers": profiled(times, options.kernel),
        "trace": traced(times, options.kernel, options.out / "trace.json"),
    }
    for name, text in texts.items():
        print(f"{text}\n")
        (options.out / f"{name}.txt").write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
