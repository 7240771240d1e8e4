"""Takes away each barrier of the CUDA kernels in turn and says what notices.

    make build/cuda-check/.built
    PYTHONPATH=build/cuda-check python scripts/cuda_barriers.py --write

A barrier is passed at run time, so nothing is compiled anew. Each is taken away from the calls of
tests/cuda_check/calls.py that reach it, in a process of its own, until the checks of memory
(tests/cuda_check) speak. The table goes to docs/cuda_barriers.md.
"""

import argparse
import ctypes
import multiprocessing
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "csrc" / "cuda"
PAGE = ROOT / "docs" / "cuda_barriers.md"
BARRIER = re.compile(r"\b(__syncthreads|__syncwarp)\(")


@dataclass(frozen=True)
class Barrier:
    """One call in the sources."""

    file: str  # relative to csrc/cuda
    line: int
    name: str
    number: int  # of those in the file, from 1
    of: int

    @property
    def position(self) -> str:
        """As the checks name it."""
        return f"csrc/cuda/{self.file}:{self.line}"


def barriers() -> list[Barrier]:
    """All barriers of the kernels, by file and line; comments hold none."""
    found = []
    for path in sorted([*KERNELS.rglob("*.h"), *KERNELS.rglob("*.cu")]):
        lines = path.read_text().splitlines()
        calls = [
            (i + 1, match[1])
            for i, line in enumerate(lines)
            if (match := BARRIER.search(line.split("//")[0]))
        ]
        file = path.relative_to(KERNELS).as_posix()
        found += [
            Barrier(file, line, name, i + 1, len(calls)) for i, (line, name) in enumerate(calls)
        ]
    return found


def is_checked() -> bool:
    """Whether the library was built with the checks of memory."""
    from visops._loader import LIBRARY

    return hasattr(ctypes.CDLL(str(LIBRARY)), "visops_skip_barrier")


class Library:
    """The functions of tests/cuda_check/control.cpp."""

    def __init__(self) -> None:
        from visops._loader import LIBRARY

        library = ctypes.CDLL(str(LIBRARY))
        if not is_checked():
            raise SystemExit(f"{LIBRARY} was not built with VISOPS_SANITIZE=cuda")
        self._skip = library.visops_skip_barrier
        self._skip.argtypes = [ctypes.c_char_p, ctypes.c_int]
        self._take = library.visops_take_barriers
        self._take.restype = ctypes.c_char_p

    def skip(self, position: str) -> None:
        """Take this barrier away."""
        file, line = position.rsplit(":", 1)
        self._skip(file.encode(), int(line))

    def take_reached(self) -> set[str]:
        """Places of the barriers that threads came to since the last call."""
        return set(self._take().decode().split())


def in_a_process(work: Callable[..., Any], *arguments: Any, seconds: float) -> Any:
    """Return work(*arguments) of a forked process; a string where it failed or took too long."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def run() -> None:
        sender.send(work(*arguments))

    process = context.Process(target=run)
    process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            return "it does not end"
        return receiver.recv()
    except EOFError:
        return "the process dies"
    finally:
        process.kill()
        process.join()


def error_of(call: Callable[[], None]) -> str:
    """Call it; return the first error."""
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return ""


def baseline(library: Library, call: Callable[[], None]) -> tuple[float, set[str], str]:
    """Seconds, barriers reached, and the first error, with all barriers in place."""
    library.take_reached()
    start = time.perf_counter()
    error = error_of(call)
    return time.perf_counter() - start, library.take_reached(), error


def notice(library: Library, call: Callable[[], None], position: str) -> str:
    """What is said without this barrier, or nothing."""
    library.skip(position)
    return error_of(call)


KINDS = {
    ": a race: ": "race",
    ": uninitialised memory: ": "uninitialised",
    ": out of bounds: ": "bounds",
    "CUDA emulation: ": "barrier",
}


def kind_of(message: str) -> str:
    """The first kind of finding in a message."""
    found = [(message.find(text), kind) for text, kind in KINDS.items() if text in message]
    return min(found)[1] if found else message.splitlines()[0][:60]


def row(barrier: Barrier, call: str, seen: str) -> str:
    """One row of the table."""
    kernel = re.match(r"CUDA (?:check|emulation): (\w+)", seen)
    noticed = f"{kind_of(seen)}, in `{kernel[1]}`" if kernel else kind_of(seen) if seen else "no"
    name = f"`{barrier.file}`"
    return f"| {name} | {barrier.number} of {barrier.of} | `{barrier.name}` | {noticed} | {call} |"


class Survey:
    """Which calls reach which barriers, and what is said without them."""

    def __init__(self, calls: dict[str, Callable[[], None]], seconds: float) -> None:
        self.calls, self.seconds, self.library = calls, seconds, Library()
        self.reached: dict[str, tuple[float, set[str]]] = {}
        self.errors: dict[str, str] = {}
        for name, call in calls.items():
            found = in_a_process(baseline, self.library, call, seconds=seconds)
            taken, positions, error = found if isinstance(found, tuple) else (0.0, set(), found)
            self.reached[name] = (taken, positions)
            if error:
                self.errors[name] = error

    def users(self, barrier: Barrier) -> list[str]:
        """Names of the calls that reach it, the fastest first."""
        found = [
            (taken, name)
            for name, (taken, positions) in self.reached.items()
            if barrier.position in positions
        ]
        return [name for _, name in sorted(found)]

    def without(self, barrier: Barrier) -> tuple[str, str]:
        """The first call that notices that the barrier is missing, and what it says; or nothing."""
        users = self.users(barrier)
        for name in users:
            seen = in_a_process(
                notice, self.library, self.calls[name], barrier.position, seconds=self.seconds
            )
            if seen:
                return name, seen
        return (users or ["not reached"])[0], ""


def main() -> int:
    """Print a row per barrier; return how many nobody notices."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="barriers whose place holds this text")
    parser.add_argument("--calls", nargs="*", help="of tests/cuda_check/calls.py; by default all")
    parser.add_argument("--seconds", type=float, default=300, help="the most that a call may take")
    parser.add_argument("--write", action="store_true", help="write docs/cuda_barriers.md")
    arguments = parser.parse_args()

    sys.path.insert(0, str(ROOT / "tests"))
    from cuda_check.calls import CALLS
    from kernels import use_slot

    torch.set_num_threads(1)
    chosen = {name: CALLS[name] for name in arguments.calls or CALLS}
    rows, unnoticed = [], 0
    with use_slot("cuda_emulated"):
        survey = Survey(chosen, arguments.seconds)
        for name, (taken, positions) in survey.reached.items():
            print(f"{name}: {taken:.1f} s, {len(positions)} barriers {survey.errors.get(name, '')}")
        for barrier in barriers():
            if arguments.only not in barrier.position:
                continue
            call, seen = survey.without(barrier)
            unnoticed += not seen
            rows.append(row(barrier, call, seen))
            print(f"{barrier.position} {rows[-1]}", flush=True)
    if arguments.write:
        write(rows)
    return unnoticed


def write(rows: list[str]) -> None:
    """Replace the table of the page."""
    text = PAGE.read_text()
    start = text.index("| file |")
    end = text.find("\n\n", start)
    head = "| file | | barrier | without it | by the calls of |\n|-|-|-|-|-|"
    tail = text[end:] if end >= 0 else "\n"
    PAGE.write_text(text[:start] + "\n".join([head, *rows]) + tail)


if __name__ == "__main__":
    sys.exit(main())
