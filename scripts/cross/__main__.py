"""Builds visops for 64-bit ARM on this x86 machine and tests it in an emulator.

    python scripts/arm                  # everything, and a part of the tests of values
    python scripts/arm --part 3/6       # that part; by default it changes from day to day
    python scripts/arm --all            # all tests of values, as before a release
    python scripts/arm --only machine,build

Steps:

machine  the ARM machine: NOTE [ An ARM machine ] in machine.py
build    the cross build, with warnings as errors
code     no product is contracted with a sum, in the object code
there    the calls of tests/operators, of the fuzzer and of chains, recorded here and made there:
         every bit is compared
back     the same calls recorded there and made here
tests    tests marked `matrix`, run there
wheel    only if asked for: the wheel, audited, with some tests beside the oldest and newest torch

All it makes is in build/arm and build/ninja-aarch64, and is kept for the next run. The emulator
says nothing about speed, and little about the order in which ARM's cores see each other's writes:
on an x86 host they see them in x86's.
"""

import argparse
import datetime
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from arm.build import compile_for_arm, here, there
from arm.machine import HOME, ROOT, fail, make_machine, run
from arm.wheel import build_wheel, try_wheel

PARTS = 6  # of the tests of values; one takes a few minutes
RECORDS = Path(__file__).with_name("records.py")
MODULES = ("cases", "random", "chains")  # of its calls
JOBS = os.cpu_count() or 1


def shares(modules: Iterable[Path]) -> list[list[str]]:
    """Deal modules to as many processes as there are cores; the longest ones apart."""
    files = sorted(modules, key=lambda file: file.stat().st_size, reverse=True)
    return [[file.stem for file in files[job::JOBS]] for job in range(min(JOBS, len(files)))]


def check_code() -> str:
    """Disassemble the objects for ARM. The library here, if built to ship, has lost its names."""
    found = run(*here("-m", "pytest", "-q", "tests/build/test_kernels.py", "-k", "on_arm"))
    if "skipped" in found:
        fail(f"nothing was disassembled:\n{found}")
    return found.strip().splitlines()[-1]


def compare(
    name: str, recorder: Callable[..., list[str | Path]], player: Callable[..., list[str | Path]]
) -> str:
    """Record calls of all operators on one machine, make them on the other."""
    folder = HOME / f"calls-{name}"
    with ThreadPoolExecutor(JOBS) as pool:
        dealt = [MODULES[job::JOBS] for job in range(JOBS)]
        list(pool.map(lambda m: run(*recorder(RECORDS, "record", folder, *m)), filter(None, dealt)))
        recorded = (folder / f"{module}.calls" for module in MODULES)
        replay = lambda m: run(*player(RECORDS, "replay", folder, *m))  # noqa: E731
        printed = list(pool.map(replay, shares(recorded)))
    total: dict[str, int] = {}
    for text in printed:
        print(text, end="")
        for key, number in re.findall(r"'([^']+)': (\d+)", text.rpartition("TOTAL")[2]):
            total[key] = total.get(key, 0) + int(number)
    return (
        f"{total['calls']:,} calls, {total['tensors']:,} tensors: equal bits, "
        f"{total['NaN payloads']} of them but for NaNs' payloads"
    )


def run_tests(part: int, parts: int) -> str:
    """Run the tests of values there: part `part` of so many, or all of them."""
    marked = [f for f in sorted(ROOT.glob("tests/**/test_*.py")) if "mark.matrix" in f.read_text()]
    chosen = marked[part - 1 :: parts]
    options = ["-q", "-m", "matrix and not cluster", "-n", str(JOBS), "--dist", "loadgroup"]
    options += ["-p", "no:cacheprovider"]
    command = [str(word) for word in there("-m", "pytest", *options, *chosen)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, end="")
    if done.returncode:
        fail("tests failed on ARM")
    return f"part {part} of {parts}: {done.stdout.strip().splitlines()[-1]}"


def main() -> None:
    """Do the steps that the command line asks for, and say what came of each."""
    today = datetime.date.today().toordinal() % PARTS + 1
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", default=f"{today}/{PARTS}", help="of the tests of values: 3/6")
    parser.add_argument("--all", action="store_true", help="all tests of values")
    parser.add_argument("--only", help="steps, separated by commas")
    arguments = parser.parse_args()
    part, parts = (1, 1) if arguments.all else map(int, arguments.part.split("/"))
    steps: dict[str, Callable[[], object]] = {
        "machine": make_machine,
        "build": compile_for_arm,
        "code": check_code,
        "there": lambda: compare("here", here, there),
        "back": lambda: compare("there", there, here),
        "tests": lambda: run_tests(part, parts),
        "wheel": lambda: try_wheel(build_wheel()),
    }
    names = arguments.only.split(",") if arguments.only else [*steps][:-1]
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
