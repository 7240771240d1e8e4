"""scripts/fuzz and agree.py: whatever a call does is found, and blamed on that call."""

import ctypes
import math
import mmap
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import agree
import fresh
import pytest
import torch
from fuzz.__main__ import main
from fuzz.calls import (
    WAYS,
    Call,
    Target,
    all_targets,
    draw_call,
    reads_for_long,
    takes_gigabytes,
    valid_arguments,
)
from fuzz.children import Limits, Report, make_calls
from fuzz.draws import Draw

ROOT = Path(__file__).resolve().parents[2]
AS_A_SCRIPT = """
import os.path, runpy, sys
sys.argv.pop(0)
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""
LIMITS = Limits(seconds=10, memory=64 << 20)
IMPATIENT = Limits(seconds=0.5, memory=1 << 30)  # for calls that hang


def well(size: int) -> torch.Tensor:
    """Behave."""
    return torch.zeros(size)


def crash(size: int) -> None:
    """Read where nothing is."""
    ctypes.string_at(0)


def hang(size: int) -> None:
    """Never return."""
    while True:
        pass


def children() -> set[str]:
    """The processes that this one has started."""
    files = Path("/proc/self/task").glob("*/children")
    return {number for file in files for number in file.read_text().split()}


def overrun(size: int) -> None:
    """Take memory, and use it, until it is stopped."""
    kept = []
    while True:
        # Fresh pages: this process may hold gigabytes that tests before have freed.
        block = mmap.mmap(-1, 1 << 22, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for index in range(0, len(block), mmap.PAGESIZE):
            block[index] = 1
        kept.append(block)
        time.sleep(0.01)  # or the address space would run out before the parent looks


def no_memory(size: int) -> None:
    """Fail to allocate, as C++ says it."""
    raise RuntimeError("std::bad_alloc")


def wrong_type(size: int) -> None:
    """Raise what no user should see."""
    raise IndexError("list index out of range")


def asserts(size: int) -> None:
    """Raise a type that is allowed, with a message that is not."""
    raise RuntimeError("x INTERNAL ASSERT FAILED at y")


def refuses(size: int) -> None:
    """Raise what operators may raise."""
    raise ValueError("visops.nms: size is 3, must be 4")


_numbers = iter(range(1 << 30))


def changes(size: int) -> torch.Tensor:
    """Return something else every time."""
    return torch.tensor([next(_numbers)])


def run(functions: Mapping[int, Callable[[int], Any]], limits: Limits = LIMITS) -> list[Report]:
    """Make calls that behave, but for those at these numbers."""

    def draw(number: int) -> Call:
        function = functions.get(number, well)
        target = Target(f"fake.{function.__name__}", function, {"size": "int"})
        return Call(target, "plain", {"size": number})

    return make_calls(draw, range(12), limits, jobs=2)


@pytest.mark.skipif(sys.platform != "linux", reason="fork() and /proc")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("function", "kind", "details"),
    [
        (crash, "crash", "SIGSEGV"),
        (hang, "hang", "after "),
        (overrun, "memory", "beyond 64 MiB"),
        (no_memory, "exception", "RuntimeError with 'std::bad_alloc'"),
        (wrong_type, "exception", "IndexError: list index out of range"),
        (asserts, "exception", "RuntimeError with 'INTERNAL ASSERT'"),
        (changes, "exception", "different bits"),
    ],
)
def test_findings_are_attributed(function: Callable[[int], Any], kind: str, details: str) -> None:
    """Calls before and after it are made, and not blamed."""
    (report,) = run({5: function}, IMPATIENT if function is hang else LIMITS)
    assert (report.number, report.kind) == (5, kind)
    assert report.call == f"fake.{function.__name__}(size=5) [plain]"
    assert details in report.details


@pytest.mark.skipif(sys.platform != "linux", reason="fork() and /proc")
@pytest.mark.filterwarnings("ignore")
def test_findings_one_after_another() -> None:
    """The process that follows goes on after the call; in the end, none is left."""
    functions = {2: crash, 3: hang, 4: wrong_type, 11: crash, 7: refuses}
    before = children()
    reports = run(functions, IMPATIENT)
    kinds = [(2, "crash"), (3, "hang"), (4, "exception"), (11, "crash")]
    assert [(report.number, report.kind) for report in reports] == kinds
    assert children() <= before  # other tests may have left some


@pytest.mark.skipif(sys.platform != "linux", reason="fork() and /proc")
@pytest.mark.filterwarnings("ignore")
def test_a_crash_is_blamed_on_the_call_that_prepared_it() -> None:
    """A broken heap is noticed later: where the call breaks it again, it is found out."""
    rotten = []

    def rots(size: int) -> None:
        rotten.append(size)
        if len(rotten) > 4:  # so not when it is called twice
            crash(size)

    def collapses(size: int) -> None:
        if rotten:
            crash(size)

    (report,) = run({3: rots, 8: collapses})
    assert (report.number, report.kind) == (3, "crash")


@pytest.mark.skipif(sys.platform != "linux", reason="fork() and /proc")
@pytest.mark.filterwarnings("ignore")
def test_a_crash_that_no_call_repeats() -> None:
    """It is told with the calls before it."""
    laid = []

    def lays(size: int) -> None:
        laid.append(size)

    def steps(size: int) -> None:
        if laid:
            crash(size)

    (report,) = run({3: lays, 8: steps})
    assert report.number == 8
    assert "only after the calls from 0 on" in report.details


@pytest.mark.skipif(sys.platform != "linux", reason="fork() and /proc")
@pytest.mark.filterwarnings("ignore")
def test_calls_are_replayable() -> None:
    """A seed and a number give the same call in any process, whatever was called before."""
    targets = all_targets()
    calls = [str(draw_call(targets, 7, number)) for number in range(60)]
    assert len(set(calls)) > 50
    for number in reversed(range(60)):
        assert str(draw_call(targets, 7, number)) == calls[number]
    assert str(draw_call(targets, 8, 0)) != calls[0]


@pytest.mark.skipif(sys.platform != "linux", reason="fork() and /proc")
@pytest.mark.filterwarnings("ignore")
def test_no_call_asks_for_gigabytes() -> None:
    """Results may be as large as memory allows, but a call has little; terabytes are refused."""
    targets = [t for t in all_targets() if t.name == "torch.ops.visops.roi_pool_backward"]
    products = []
    for number in range(1000):
        sizes = draw_call(targets, 2, number).arguments["input_size"]
        if isinstance(sizes, list) and all(isinstance(size, int) for size in sizes):
            products.append(math.prod(size for size in sizes if size > 0))
    assert not any(1 << 24 <= product <= 1 << 34 for product in products)
    assert max(products) > 1 << 40
    pixels = {"input": torch.empty(1, 4, 2, 8), "kernel_size": [3, 1]}
    assert not takes_gigabytes({**pixels, "padding": [1, 4096]})
    assert takes_gigabytes({**pixels, "padding": 4096})  # on each side of both dimensions


@pytest.mark.skipif(sys.platform != "linux", reason="fork() and /proc")
@pytest.mark.filterwarnings("ignore")
def test_no_call_reads_whole_images_for_long() -> None:
    """Degenerate homographies may read every window 16 times for each output pixel."""
    given: dict[str, Any] = {
        "images": torch.empty(3, 5, 64, 64),
        "matrix": torch.empty(3, 3, 3),
        "size": [64, 64],
        "mode": "bicubic",
        "antialias": True,
    }
    assert reads_for_long(given)
    smaller = ({"size": [3, 64]}, {"mode": "bilinear"})
    others = ({"antialias": False}, {"matrix": torch.empty(3, 2, 3)}, *smaller)
    assert not any(reads_for_long({**given, **other}) for other in others)
    given["images"] = list(given["images"])
    given["out"] = torch.empty(3, 5, 64, 64)
    del given["size"]
    assert reads_for_long(given)


@pytest.mark.skipif(sys.platform != "linux", reason="fork() and /proc")
@pytest.mark.filterwarnings("ignore")
def test_what_is_called() -> None:
    """All operators and public functions, in every way, with arrays too."""
    names = {target.name for target in all_targets()}
    assert {"torch.ops.visops.augment_backward", "visops.im2col", "visops.compat.nms"} <= names
    targets = all_targets()
    calls = [draw_call(targets, 0, number) for number in range(300)]
    assert {call.way for call in calls} == set(WAYS)
    for target in targets:  # each has an entry, or is called by one
        assert target.arguments.keys() >= valid_arguments(Draw(target.name), target).keys()
    assert any("ndarray" in str(call) for call in calls)


@pytest.mark.skipif(sys.platform != "linux", reason="fork() and /proc")
@pytest.mark.filterwarnings("ignore")
def test_most_calls_are_valid() -> None:
    """Else only checks of arguments would be tested."""
    targets = [t for t in all_targets() if t.name.startswith("torch.ops.")]
    returned = 0
    for number in range(400):
        call = draw_call(targets, 1, number)
        try:
            call.target.function(**call.arguments)
            returned += 1
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            pass
    assert returned > 150


@pytest.mark.skipif(sys.platform != "linux", reason="fork() and /proc")
@pytest.mark.filterwarnings("ignore")
def test_command() -> None:
    """A short run of real operators finds nothing and says so; one valid call is made alone.

    In a process of its own: a fork of this one would wait for OpenMP's threads, which forks lack,
    once a test has used them here.
    """

    def printed(*words: str) -> str:
        command = ("scripts/fuzz", "--only", "nms_rotated", "--seed", "0", *words)
        return fresh.run(AS_A_SCRIPT, *command, cwd=ROOT, check=True).stdout

    assert "40 calls of" in printed("--calls", "40", "--jobs", "1")
    assert "no finding" in printed("--call", "23")
    with pytest.raises(SystemExit, match="nothing is called frobnicate"):
        main(["--only", "frobnicate"])


@pytest.mark.skipif(sys.platform != "linux", reason="fork() and /proc")
@pytest.mark.filterwarnings("ignore")
def test_bytes_of_strangers() -> None:
    """Files and texts are so near to valid ones that some are read, but not all."""
    targets = [target for target in all_targets() if target.name.startswith("bytes.")]
    assert len(targets) == 3
    read = Counter[str]()
    for number in range(600):
        call = draw_call(targets, 3, number)
        assert str(call) == str(draw_call(targets, 3, number))
        try:
            call.target.function(**call.arguments)
            read[call.target.name] += 1
        except ValueError:  # the fuzzer looks at the message
            pass
    assert all(10 < read[target.name] < 190 for target in targets), read


def test_agree_compares() -> None:
    """On the CPU alone, an operator agrees with itself."""
    words = ("--device", "cpu", "--tries", "1", "--only", "box_iou")
    done = fresh.run(AS_A_SCRIPT, agree.__file__, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 results of 4 operators compared\n0 findings; never compared: none\n" in done.stdout


def test_what_differs() -> None:
    nan = float("nan")
    one = torch.tensor([1.0, nan, 3.0])
    assert agree.difference([one], [one.clone()], 0.0) == ""
    found = agree.difference([one, one], [one, torch.tensor([1.0, nan, 4.0])], 0.0)
    assert found == "result 1 differs at 1 of 3 places, first [2]: 3.0 against 4.0"
    assert "3 places, first [1]: nan" in agree.difference([one], [one.nan_to_num()], 0.0)
    assert agree.difference([one], [], 0.0) == "1 results against 0"
    for other in (one.half(), one[:2]):
        assert agree.difference([one], [other], 0.0).startswith("result 0 is ")


def test_rounding_is_allowed_to_sums_in_another_order() -> None:
    image = torch.ones(1, 1, 4, 4)
    rounding = agree.rounding_of("conv2d", {"input": image})
    assert rounding == torch.finfo(torch.float32).eps
    assert agree.rounding_of("nms", {"boxes": image}) == 0
    assert agree.difference([image], [image + 1e-6], rounding) == ""
    assert agree.difference([image], [image + 1e-6], 0.0) != ""
    assert agree.difference([image], [image + 1e-4], rounding) != ""


def test_refusals_on_one_side() -> None:
    """Only the CPU looks at the values in tensors."""
    shape, values = "visops.nms: boxes is [3], must be [N, 4]", "visops.nms: boxes[2] has x2 < x1"
    assert agree.is_finding("", shape)
    assert agree.is_finding(shape, "")
    assert not agree.is_finding(shape, shape)
    assert not agree.is_finding(values, "")


def test_agree_goes_on_after_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the call behind the one that crashed."""
    starts = []

    def crashing(command: list[str], **_: Any) -> Any:
        starts.append(int(command[command.index("--start") + 1]))
        Path(command[command.index("--journal") + 1]).write_text(f"{starts[-1] + 4} nms, seed 2   ")
        return SimpleNamespace(returncode=-11 if len(starts) < 3 else 0)

    monkeypatch.setattr(subprocess, "run", crashing)
    assert agree.watched(["--tries", "3"], tmp_path / "agree.json", 100.0) == 1
    assert starts == [0, 5, 10]
