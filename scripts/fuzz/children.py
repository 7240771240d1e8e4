"""Makes calls in child processes and finds the call that ended one.

A child is a fork, so it starts at once. Before each call it writes the call's number into memory
shared with its parent. The parent watches the clock and the child's memory; when a child dies, it
starts another one after the fatal call.
"""

import faulthandler
import json
import mmap
import os
import re
import resource
import signal
import struct
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .calls import Call
from .ways import FindingError, is_sanitized, make

WAIT = 10  # times the limit: how long a call may wait for a busy machine
_HEADER = struct.Struct("=qdi")  # the call's number, when it began, length of its text
_JOURNAL_BYTES = 1 << 16
_PAGE = resource.getpagesize()
_CONFIRMATIONS = 8  # calls: a corrupt heap is not noticed at once
# By exact type: a subclass such as NotImplementedError means that nobody thought of the case.
ALLOWED = ("RuntimeError", "ValueError", "TypeError", "DamagedFileError")
# Messages of torch and the C++ library that no user should see.
FORBIDDEN = re.compile(
    "INTERNAL ASSERT|std::bad_alloc|length_error|vector::|basic_string::|please report a bug"
)


@dataclass(frozen=True)
class Limits:
    """What a call may use."""

    seconds: float = 10.0  # of the processor
    memory: int = 1 << 30  # bytes, on top of those at the start


@dataclass(frozen=True)
class Report:
    """A finding: what happened in which call."""

    number: int
    kind: str  # crash, hang, memory or exception
    call: str
    details: str


class _Journal:
    """The current call, in memory that outlives the process making it."""

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, _JOURNAL_BYTES)

    def begin(self, number: int, text: str = "(being drawn)") -> None:
        data = text.encode()[: _JOURNAL_BYTES - _HEADER.size]
        header = _HEADER.pack(number, time.monotonic(), len(data))
        self._map[: _HEADER.size + len(data)] = header + data

    def read(self) -> tuple[int, float, str]:
        number, began, length = _HEADER.unpack_from(self._map)
        text = self._map[_HEADER.size : _HEADER.size + length]
        return number, began, text.decode(errors="replace")

    def close(self) -> None:
        self._map.close()


class _Child:
    """A process that makes calls, as its parent sees it."""

    def __init__(self, draw: Callable[[int], Call], numbers: Sequence[int], limits: Limits) -> None:
        self.numbers = numbers
        self._limits = limits
        self._journal = _Journal()
        self._journal.begin(numbers[0])
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the child has ended)
        read, write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(read)
            _work(draw, numbers, limits, self._journal, write, self._output.fileno())
        os.close(write)
        os.set_blocking(read, False)
        self._pipe = read
        self._base = _resident(self.pid)
        self._number, self._used = -1, 0.0  # the current call, and the time used before it
        self._received = b""
        self._killed = ""

    def poll(self) -> tuple[list[Report], bool]:
        """Return new findings, and whether the process has ended."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        reports = list(self._messages())
        if pid == 0:
            self._enforce()
            return reports, False
        if status != 0:
            reports.append(self._death(status))
        os.close(self._pipe)
        self._journal.close()
        self._output.close()
        return reports, True

    def _messages(self) -> Iterator[Report]:
        while True:
            try:
                data = os.read(self._pipe, 1 << 16)
            except BlockingIOError:
                break
            if not data:
                break
            self._received += data
        *lines, self._received = self._received.split(b"\n")
        for line in lines:
            yield Report(**json.loads(line))

    def _enforce(self) -> None:
        number, began, _ = self._journal.read()
        used, waited = _cpu_seconds(self.pid), time.monotonic() - began
        if number != self._number:
            self._number, self._used = number, used
        if used - self._used > self._limits.seconds or waited > WAIT * self._limits.seconds:
            self._killed = self._killed or f"hang after {waited:.0f} s"
        elif _resident(self.pid) - self._base > self._limits.memory:
            self._killed = self._killed or f"memory beyond {self._limits.memory >> 20} MiB"
        if self._killed:
            os.kill(self.pid, signal.SIGKILL)

    def _death(self, status: int) -> Report:
        number, _, text = self._journal.read()
        if self._killed:
            kind, _, details = self._killed.partition(" ")
            return Report(number, kind, text, details)
        code = os.waitstatus_to_exitcode(status)
        how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        self._output.seek(0)
        output = self._output.read().decode(errors="replace")
        return Report(number, "crash", text, f"{how}\n{_interesting(output)}")


def _interesting(output: str) -> str:
    """Return a sanitizer's report without Python's frames, or the last lines."""
    start = "==[0-9]+==ERROR|WARNING: ThreadSanitizer|[^\n]*runtime error"
    found = re.search(f"(?s)({start}).*", output)
    lines = (found[0] if found else output).splitlines()
    lines = [line for line in lines if "python3" not in line and "libtorch" not in line]
    return "\n".join(lines[:30] if found else lines[-5:])


def _cpu_seconds(pid: int) -> float:
    """Return the processor time of all threads of a process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def verdict(error: BaseException) -> str | None:
    """Return what is wrong with an exception, or None."""
    if isinstance(error, FindingError):
        return str(error)
    kind, message = type(error).__name__, str(error)
    if kind == "MemoryError" and message.startswith("visops."):
        return None
    if isinstance(error, OSError) and "visops." in message:
        return None
    if kind not in ALLOWED:
        return f"{kind}: {message}"
    match = FORBIDDEN.search(message)
    return f"{kind} with {match[0]!r}: {message}" if match else None


def _work(
    draw: Callable[[int], Call],
    numbers: Iterable[int],
    limits: Limits,
    journal: _Journal,
    pipe: int,
    output: int,
) -> None:
    """Run the child; never returns."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    warnings.simplefilter("ignore")
    faulthandler.disable()  # it would write to the parent's stderr
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not is_sanitized():
        # Requests for terabytes then fail at once. Sanitizers need that much themselves.
        space = int(Path("/proc/self/statm").read_text().split()[0]) * _PAGE + 4 * limits.memory
        resource.setrlimit(resource.RLIMIT_AS, (space, space))
    for number in numbers:
        journal.begin(number)
        text = "(being drawn)"
        try:
            call = draw(number)
            text = str(call)
            journal.begin(number, text)
            make(call, lambda number=number: draw(number))  # type: ignore[misc]
        except BaseException as error:
            wrong = verdict(error)
            if wrong is not None:
                line = json.dumps(vars(Report(number, "exception", text, wrong[:2000])))
                os.write(pipe, line.encode() + b"\n")
    os._exit(0)


def make_calls(
    draw: Callable[[int], Call],
    numbers: Sequence[int],
    limits: Limits,
    jobs: int = 1,
    notify: Callable[[Report], None] = lambda report: None,
    each: int = 250,
) -> list[Report]:
    """Make these calls, `each` in a process and `jobs` at a time; return the findings by number."""
    waiting = [numbers[i : i + each] for i in range(0, len(numbers), each)][::-1]
    children: list[_Child] = []
    reports: list[Report] = []
    while waiting or children:
        while waiting and len(children) < jobs:
            children.append(_Child(draw, waiting.pop(), limits))
        time.sleep(0.01)
        for child in children.copy():
            found, ended = child.poll()
            if ended:
                children.remove(child)
            for report in found:
                attributed: Report | None = report
                if report.kind == "crash":
                    attributed = _attribute(draw, child.numbers, report, limits)
                elif report.kind == "hang":
                    attributed = _alone(draw, report.number, limits, times=1)
                if attributed is not None:
                    reports.append(attributed)
                    notify(attributed)
                if report.kind != "exception":
                    rest = child.numbers[child.numbers.index(report.number) + 1 :]
                    waiting += [rest] if rest else []
    return sorted(reports, key=lambda report: report.number)


def _attribute(
    draw: Callable[[int], Call], numbers: Sequence[int], report: Report, limits: Limits
) -> Report:
    """Find the call that caused a crash: the last one, or an earlier one that broke the heap."""
    before = numbers[: numbers.index(report.number) + 1]
    for number in reversed(before):
        again = _alone(draw, number, limits)
        if again is not None:
            return again
    text = f"{report.details}\n(only after the calls from {numbers[0]} on)"
    return Report(report.number, report.kind, report.call, text)


def _alone(
    draw: Callable[[int], Call], number: int, limits: Limits, times: int = _CONFIRMATIONS
) -> Report | None:
    """Make a call again in a process of its own; return how it ended that."""
    child = _Child(draw, [number] * times, limits)
    while True:
        found, ended = child.poll()
        if ended:
            return next((r for r in found if r.kind != "exception"), None)
        time.sleep(0.002)
