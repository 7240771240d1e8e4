"""No barrier of the CUDA kernels is there in vain, and none can go without a test that fails.

A barrier is passed at run time, so nothing is compiled anew. Each is taken away from the calls of
tests/cuda_on_cpu/calls.py that reach it, in a process of its own, until the checks of memory
(tests/cuda_on_cpu/checks) speak.
"""

import ctypes
import multiprocessing
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kernels import use_slot

from .calls import CALLS

KERNELS = Path(__file__).resolve().parents[2] / "csrc" / "cuda"
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
    """The functions of tests/cuda_on_cpu/checks/control.cpp."""

    def __init__(self) -> None:
        from visops._loader import LIBRARY

        library = ctypes.CDLL(str(LIBRARY))
        if not is_checked():
            raise RuntimeError(f"{LIBRARY} was not built with VISOPS_SANITIZE=cuda")
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

    def notices(self, barrier: Barrier) -> bool:
        """Whether some call says anything without the barrier."""
        given = barrier.position
        return any(
            in_a_process(notice, self.library, self.calls[name], given, seconds=self.seconds)
            for name in self.users(barrier)
        )


BARRIERS = barriers() if is_checked() else []
checked = pytest.mark.skipif(not is_checked(), reason="VISOPS_SANITIZE=cuda was not built")


@pytest.fixture(scope="module")
def survey() -> Iterator[Survey]:
    with use_slot("cuda_emulated"):
        yield Survey(CALLS, seconds=600)


@checked
@pytest.mark.xdist_group("barriers")
def test_calls_have_no_faults(survey: Survey) -> None:
    assert not survey.errors


@checked
@pytest.mark.xdist_group("barriers")
@pytest.mark.parametrize("barrier", BARRIERS, ids=lambda barrier: str(barrier.position))
def test_missing_barrier_is_noticed(survey: Survey, barrier: Barrier) -> None:
    assert survey.notices(barrier)
