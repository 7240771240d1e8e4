"""What goes wrong names its sample, and leaves no thread behind."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import pytest
import torch
from visops import transforms

from .photos import COUNT, FILES, chain, write

TINY = transforms.Compose([transforms.DecodeJpeg(), transforms.CenterCrop(8)], seed=3)


def make(samples: Any, own: Any = TINY, batch_size: int = 5, **options: Any) -> Any:
    return transforms.Loader(samples, own, batch_size, **{"threads": 3, **options})


def loader_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("visops-loader")]


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Any:
    assert not loader_threads()
    yield
    if loader_threads():
        gc.collect()
    assert not loader_threads()


DAMAGES = {
    "is truncated": FILES[12][: len(FILES[12]) // 2],
    "is empty, must be a JPEG file": b"",
    "is not a JPEG: it starts with": b"This is not a photo.",
    "can't be decoded": FILES[12][:2] + b"\xff\xdb\0\4\0\0" + FILES[12][2:],
}


@pytest.mark.parametrize("message", DAMAGES)
def test_a_damaged_file_names_the_sample(message: str, tmp_path: Path) -> None:
    paths = write(tmp_path)
    Path(paths[12]).write_bytes(DAMAGES[message])
    found: list[Any] = []
    beginning = f"^visops.transforms.Loader: sample 12, {paths[12]}: "
    with pytest.raises(ValueError, match=beginning) as caught:
        found.extend(make(paths))
    assert message in str(caught.value)
    assert len(found) == 2  # those before the one that it is in

    loader = make(paths, on_error="skip")
    assert [len(batch) for batch in loader] == [5, 5, 4, 5, 3]
    (skipped,) = loader.stats().skipped
    assert (skipped.index, skipped.path) == (12, paths[12])
    assert loader.stats().images == COUNT - 1


def test_the_rest_of_a_batch_keeps_its_bytes(tmp_path: Path) -> None:
    own, samples = chain(), [(file, index) for index, file in enumerate(FILES)]
    whole = list(make(samples, own))
    samples[6] = (b"\xff\xd8 no photo", 6)
    samples[8] = (FILES[8][:300], 8)
    images, labels = list(make(samples, own, on_error="skip"))[1]
    assert labels.tolist() == [5, 7, 9]
    assert torch.equal(images, whole[1][0][[0, 2, 4]])


def test_a_missing_file(tmp_path: Path) -> None:
    paths = [*write(tmp_path)[:3], str(tmp_path / "none.jpg")]
    with pytest.raises(FileNotFoundError) as caught:
        list(make(paths))
    assert os.fsdecode(caught.value.filename) == paths[3]
    assert f"Loader: sample 3, {paths[3]}" in caught.value.__notes__[0]
    assert [len(b) for b in make(paths, on_error="skip")] == [3]


def test_if_nothing_can_be_loaded_that_is_an_error(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{index}.jpg") for index in range(7)]
    with pytest.raises(FileNotFoundError):
        list(make(paths, on_error="skip"))


class Failing:
    def __init__(self, error: BaseException, at: int) -> None:
        self.error, self.at = error, at

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> bytes:
        if index == self.at:
            self.deep()
        return FILES[index]

    def deep(self) -> None:
        raise self.error


@pytest.mark.parametrize("error", [KeyError("x"), SystemExit(3), KeyboardInterrupt(), OSError()])
def test_an_exception_of_the_data_set_keeps_its_traceback(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        list(make(Failing(error, 7)))
    assert caught.value is error
    lines = "".join(traceback.format_exception(error))
    assert "in deep" in lines
    assert "visops.transforms.Loader: sample 7" in lines


def test_a_sample_ends_no_epoch() -> None:
    """As a StopIteration would, for the loop over the batches."""
    message = "Loader: what loads a batch raised StopIteration"
    with pytest.raises(RuntimeError, match=message) as caught:
        list(make(Failing(StopIteration(), 7)))
    cause: Any = caught.value.__cause__
    assert "visops.transforms.Loader: sample 7" in cause.__notes__


def test_a_folder_is_no_photo(tmp_path: Path) -> None:
    for own in (TINY, transforms.Compose([*TINY.transforms, torch.clone], seed=0)):
        with pytest.raises(IsADirectoryError) as caught:
            list(make([str(tmp_path)], own))
        assert caught.value.filename == str(tmp_path)
    assert [len(b) for b in make([FILES[0], tmp_path], on_error="skip")] == [1]


def test_errors_of_the_chain_are_never_skipped() -> None:
    def broken(image: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("broken")

    own = transforms.Compose([transforms.DecodeJpeg(), broken], seed=0)
    with pytest.raises(RuntimeError, match="broken") as caught:
        list(make(FILES, own, on_error="skip"))
    assert "sample 0" in caught.value.__notes__[0]


def test_the_first_error_in_order_is_raised() -> None:
    """Though that of a later sample came before it."""
    later = threading.Event()

    class Racing:
        def __len__(self) -> int:
            return COUNT

        def __getitem__(self, index: int) -> bytes:
            if index == 3:
                later.wait(60)
            if index == 5:  # thread 2 has noted the error of sample 4 by now
                later.set()
            if index in (3, 4):
                raise ValueError(f"number {index}")
            return FILES[index]

    with pytest.raises(ValueError, match="number 3"):
        list(make(Racing(), threads=2, batch_size=8))


def test_an_error_ends_the_iteration() -> None:
    iterator = iter(make([b"no photo", *FILES]))
    with pytest.raises(ValueError, match="sample 0"):
        next(iterator)
    assert not loader_threads()
    with pytest.raises(StopIteration):
        next(iterator)


def test_an_error_of_the_sampler_comes_in_its_position() -> None:
    class Sampler:
        def __iter__(self) -> Any:
            yield from range(10)
            raise LookupError("no more")

    found: list[Any] = []
    with pytest.raises(LookupError, match="no more"):
        found.extend(make(FILES, sampler=Sampler()))
    assert len(found) == 2


def test_an_error_of_collate() -> None:
    def collate(samples: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(make(FILES, collate=collate))


def test_open_and_break() -> None:
    loader = make(FILES, batch_size=1, threads=2, prefetch=1)
    for _ in range(300):
        for _batch in loader:
            break
        assert not loader_threads()


def test_an_iterator_in_a_cycle_is_collected() -> None:
    iterator = iter(make(FILES))
    next(iterator)
    cycle: list[Any] = [iterator]
    cycle.append(cycle)
    del iterator, cycle
    gc.collect()
    assert not loader_threads()


def test_two_iterations_at_once() -> None:
    loader = make(FILES, chain())
    pairs = list(zip(loader, loader, strict=True))
    assert len(pairs) == 5
    again = make(FILES, chain())
    first, second = list(again), list(again)
    assert all(torch.equal(a, b) for (a, _), b in zip(pairs, first, strict=True))
    assert all(torch.equal(a, b) for (_, a), b in zip(pairs, second, strict=True))


def test_a_thread_that_waits_is_interrupted() -> None:
    """Threads that wait for the consumer end with it."""
    iterator = iter(make(FILES, batch_size=1, prefetch=1))
    next(iterator)
    while not iterator.work.open or not all(b.ready for b in iterator.work.open.values()):
        time.sleep(0.001)
    iterator.close()
    assert not loader_threads()


def test_an_iteration_may_be_closed_before_it_begins() -> None:
    iterator = iter(make(FILES))
    iterator.close()
    assert list(iterator) == []


def test_threads_that_are_gone_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that was forked by other means than os.fork."""
    from visops.transforms.loading import iteration, threads

    monkeypatch.setattr(threads, "_CHECK", 0.01)
    monkeypatch.setattr(threads, "_END", 0.01)  # they say nothing when they end
    monkeypatch.setattr(iteration, "work", lambda *_: None)
    with pytest.raises(RuntimeError, match="its threads have ended before the epoch has"):
        list(make(FILES))


def test_an_error_of_a_thread_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    from visops.transforms.loading import threads

    def fail() -> None:
        raise MemoryError("no stack")

    monkeypatch.setattr(threads, "use_one_thread", fail)
    with pytest.raises(MemoryError, match="no stack"):
        list(make(FILES))


def _in_child(loader: Any, iterator: Any, queue: Any) -> None:
    try:
        next(iterator)
    except RuntimeError as error:
        queue.put(str(error))
    queue.put(len(list(loader)))
    del iterator
    queue.put("done")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system can't fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork() -> None:
    """The child's copy of an iteration says what to do; a new one works in both processes."""
    context = multiprocessing.get_context("fork")
    loader = make(FILES)
    iterator = iter(loader)
    next(iterator)
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(loader, iterator, queue))
    child.start()
    assert "begin a new one here" in queue.get(timeout=60)
    assert queue.get(timeout=60) == 5
    assert queue.get(timeout=60) == "done"
    child.join(60)
    assert child.exitcode == 0
    assert len(list(iterator)) == 4


SCRIPT = """
import sys, threading, time
sys.path.insert(0, {tests!r})
from transforms.loader.photos import FILES, chain
from visops import transforms

loader = transforms.Loader(FILES * 1000, chain(), 4, threads=3)
iterator = iter(loader)
next(iterator)
print("begun", flush=True)
{then}
"""


def run(then: str) -> subprocess.Popen[str]:
    tests = str(Path(__file__).resolve().parents[2])
    script = SCRIPT.format(tests=tests, then=then)
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", script], **pipes)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_keyboard_interrupts_and_the_end_of_a_process() -> None:
    """It may end while another iteration is open."""
    then = """
try:
    for number, batch in enumerate(iterator):
        if number == 1:
            print("looping", flush=True)
except KeyboardInterrupt:
    pass  # while it is handled, its traceback may hold the iterator
del iterator
threads = [t for t in threading.enumerate() if t.name.startswith("visops")]
print("interrupted", len(threads), flush=True)
iterator = iter(loader)
next(iterator)
"""
    process = run(then)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    assert process.stdout.readline() == "looping\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (0, "interrupted 0\n", "")


SLOW = """
import signal, sys, threading, time
import torch
from visops import transforms

signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let background jobs ignore it
reading, may_end = threading.Event(), threading.Event()


class Slow:
    def __len__(self):
        return 100

    def __getitem__(self, index):
        if index > 1:
            reading.set()
            may_end.wait(20)
        return torch.zeros(3, 4, 4)


def tell_when_main_waits():
    main = threading.main_thread().ident
    while True:
        frame = sys._current_frames()[main]
        while frame is not None and frame.f_code.co_name != "wait_for_end":
            frame = frame.f_back
        if frame is not None:
            break
        time.sleep(0.001)
    print("waiting", flush=True)


chain = transforms.Compose([transforms.CenterCrop(2)], seed=0)
threading.Thread(target=tell_when_main_waits, daemon=True).start()
try:
    for batch in transforms.Loader(Slow(), chain, 1, threads=1):
        reading.wait()
        break
    for _ in range(4000):
        time.sleep(0.005)
except KeyboardInterrupt:
    print("interrupted", flush=True)
may_end.set()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupt_while_a_loop_is_left_is_not_lost() -> None:
    """The loop's iterator waits for its threads then, where Python drops what is raised."""
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", SLOW], **pipes)
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (out, err, process.returncode) == ("interrupted\n", "", 0)


def test_by_default_each_thread_has_two_samples() -> None:
    """However small batches are: here all threads must read at the same time."""
    together = threading.Barrier(8)

    loader = transforms.Loader(Threads(together), TINY, 1, threads=8)
    batches = iter(loader)
    next(batches)
    work = batches.work
    while work.ahead < 16:
        time.sleep(0.001)
    assert work.ahead == 16
    assert len(list(batches)) == 31


class Threads(list[bytes]):
    """Files that only eight threads together can read."""

    def __init__(self, together: threading.Barrier) -> None:
        super().__init__((FILES * 2)[:32])
        self.together = together

    def __getitem__(self, index: Any) -> Any:
        self.together.wait(30)
        return super().__getitem__(index)


def test_prefetch_bounds_what_is_begun() -> None:
    asked: list[int] = []

    class Counting:
        def __len__(self) -> int:
            return 40

        def __getitem__(self, index: int) -> bytes:
            asked.append(index)
            return FILES[index % COUNT]

    iterator = iter(make(Counting(), batch_size=4, prefetch=2, threads=4))
    next(iterator)
    work = iterator.work
    while len(work.open) < 2 or not all(batch.ready for batch in work.open.values()):
        time.sleep(0.001)
    assert sorted(asked) == list(range(12))
