"""Calls every operator and public function with random arguments and reports what breaks.

    python scripts/fuzz --calls 20000
    python scripts/fuzz --seed 3 --call 1234           # repeat one of them in this process
    python scripts/fuzz --only nms --calls 1000
    python scripts/fuzz --only bytes. --calls 3000000 --each 20000  # damaged files and run lengths

A finding is a crash, a call that takes too long or too much memory, an exception that no user
should see (`verdict` in children.py), two equal calls with different results, or a fake kernel that
promises the wrong shape. With findings, the exit status is 1. The seed and its number determine a
call.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fuzz import entries
from fuzz.calls import Call, Target, all_targets, draw_call
from fuzz.children import Limits, Report, make_calls
from fuzz.ways import make


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    arguments = _parse(words)
    targets = [t for t in all_targets() if arguments.only in t.name]
    if not targets:
        raise SystemExit(f"nothing is called {arguments.only}")

    def draw(number: int) -> Call:
        return draw_call(targets, arguments.seed, number)

    if arguments.call is not None:
        call = draw(arguments.call)
        print(call, flush=True)
        make(call, lambda: draw(arguments.call))
        print("no finding")
        return 0
    with entries.one_thread():
        entries.callers()  # once, for all the processes to come
    began = time.monotonic()
    numbers = range(arguments.first, arguments.first + arguments.calls)
    limits = Limits(arguments.seconds, arguments.memory << 20)
    only = f" --only {arguments.only}" if arguments.only else ""

    def tell(report: Report) -> None:
        print(f"{report.kind}: {report.call}\n  {report.details}")
        print(f"  again: --seed {arguments.seed}{only} --call {report.number}\n", flush=True)

    reports = make_calls(draw, numbers, limits, arguments.jobs, tell, arguments.each)
    _summarise(reports, targets, len(numbers), time.monotonic() - began)
    return 1 if reports else 0


def _parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("scripts/fuzz", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--calls", type=int, default=20000, help="how many (default 20000)")
    parser.add_argument("--seed", type=int, default=0, help="which calls to make")
    parser.add_argument("--first", type=int, default=0, help="the number of the first call")
    parser.add_argument("--call", type=int, help="repeat this one, in this process")
    parser.add_argument("--each", type=int, default=250, help="calls that share a process")
    parser.add_argument("--only", default="", help="only targets whose name contains this")
    parser.add_argument("--jobs", type=int, default=2, help="processes to run at once (default 2)")
    parser.add_argument(
        "--seconds", type=float, default=10, help="processor time that a call may take"
    )
    parser.add_argument("--memory", type=int, default=1024, help="MiB that a call may take")
    return parser.parse_args(words)


def _summarise(
    reports: Sequence[Report], targets: Sequence[Target], calls: int, seconds: float
) -> None:
    rate = calls / max(seconds, 1e-9)
    print(f"{calls} calls of {len(targets)} functions in {seconds:.0f} s, {rate:.0f} a second")
    for kind, count in Counter(report.kind for report in reports).most_common():
        print(f"  {kind}: {count}")
    print(f"{len(reports)} findings")


if __name__ == "__main__":
    sys.exit(main())
