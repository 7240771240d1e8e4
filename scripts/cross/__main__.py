"""Tests the builds for other systems on this x86 machine with Linux.

    python scripts/cross arm                  # all but the wheel, and a part of the tests of values
    python scripts/cross arm --part 3/6       # that part; by default it changes from day to day
    python scripts/cross arm --all            # all tests of values, as before a release
    python scripts/cross arm --only machine,build,wheel
    python scripts/cross windows              # in Wine: every operator's bits
    python scripts/cross macos                # what its libraries say of themselves; nothing is run

What each looks at is said in arm.py, windows.py and macos.py.
"""

import argparse
import datetime
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cross import arm, macos, windows
from cross.here import fail


def main() -> None:
    """Do the steps that the command line asks for, and say what came of each."""
    today = datetime.date.today().toordinal() % arm.PARTS + 1
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("system", choices=["arm", "windows", "macos"])
    parser.add_argument("--part", default=f"{today}/{arm.PARTS}", help="of the tests of values")
    parser.add_argument("--all", action="store_true", help="all tests of values")
    parser.add_argument("--only", help="steps, separated by commas")
    arguments = parser.parse_args()
    steps: dict[str, Callable[[], object]] = {
        "arm": lambda: arm.steps(arguments.part, arguments.all),
        "windows": windows.steps,
        "macos": macos.steps,
    }[arguments.system]()
    left_out = ["wheel"]
    names = arguments.only.split(",") if arguments.only else [n for n in steps if n not in left_out]
    if unknown := [name for name in names if name not in steps]:
        fail(f"no step {', '.join(unknown)}; there are {', '.join(steps)}")
    lines = []
    for name in names:
        print(f"== {name}", flush=True)
        began = time.monotonic()
        found = steps[name]()
        lines.append(f"{name:8} {time.monotonic() - began:5.0f} s  {found}")
    print("\n".join(["", *lines]))


if __name__ == "__main__":
    main()
