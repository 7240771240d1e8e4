"""Climbs from a Python loop to the fastest kernel and shows where each rung spends its time.

One channel of float32 is convolved by a Python loop, NumPy, other libraries and visops, on
one thread, all threads, and a GPU when there is one. Results are compared before they are timed.
Rungs that would take too long at a size are left out there.

Written to --out: the times as a table and as JSON, a picture of time by size with the speed-up of
every rung, the reports of cProfile and pyinstrument side by side, and a trace of torch.profiler.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from tqdm import tqdm

# The Python loops are the test suite's references.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from bench.harness import set_threads
from profiling import climb, conv, plot, profilers, report, trace


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not a positive number")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--size",
        type=_positive,
        nargs="+",
        metavar="N",
        help="sides of images (default: a few, up to large ones)",
    )
    side = parser.add_mutually_exclusive_group()
    side.add_argument(
        "--kernel", type=_positive, default=conv.KERNEL, metavar="K", help="its side (7)"
    )
    side.add_argument(
        "--image",
        type=_positive,
        metavar="N",
        help="an image of this side, and --size are sides of kernels",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: out/profile_conv")
    parser.add_argument(
        "--threads",
        type=_positive,
        default=torch.get_num_threads(),
        help="threads of the widest rung",
    )
    parser.add_argument(
        "--limit", type=float, default=2.0, help="seconds that a call may take (default: 2)"
    )
    parser.add_argument(
        "--seconds", type=float, default=0.3, help="to repeat each call for (default: 0.3)"
    )
    parser.add_argument(
        "--no-profilers", action="store_true", help="times and the picture only, no reports"
    )
    return parser


def main(argv: Sequence[str] | None = None, write: Callable[[str], object] = print) -> int:
    """Command line; returns the exit status."""
    options = _parser().parse_args(argv)
    sides = options.image is not None
    ladder = conv.by_kernel(options.image) if sides else conv.by_image(options.kernel)
    out: Path = options.out or Path("out") / f"profile_{ladder.op}"
    out.mkdir(parents=True, exist_ok=True)
    before = torch.get_num_threads()
    set_threads(options.threads)
    try:
        with tqdm(bar_format="{desc}", leave=False, disable=None) as bar:

            def progress(line: str) -> None:
                bar.set_description_str(line)

            found = climb(
                ladder,
                options.size or ladder.sizes,
                limit=options.limit,
                seconds=options.seconds,
                write=progress,
            )
        text = f"{report.table(found)}\n\n{report.machine()}"
        write(text)
        (out / "times.txt").write_text(text + "\n", encoding="utf-8")
        report.write_json(found, out / "times.json")
        plot.draw(found, out / "times.png")
        if not options.no_profilers:
            text = "\n\n\n".join(profiled.text() for profiled in profilers.profile(found))
            write(f"\n{text}")
            (out / "profilers.txt").write_text(text + "\n", encoding="utf-8")
            text = trace.trace(found, out / "trace.json")
            write(f"\ntorch.profiler: {text}")
            (out / "trace.txt").write_text(text + "\n", encoding="utf-8")
            write("trace.json opens in https://ui.perfetto.dev and chrome://tracing")
    finally:
        set_threads(before)
    write(f"\nwrote {', '.join(sorted(str(path) for path in out.iterdir()))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
