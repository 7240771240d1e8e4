"""Workers that die, full shared memory, and cleaning up afterwards."""

import multiprocessing
import os
import signal
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
import visops.infer.images.loading
from torch.utils.data import DataLoader
from visops.infer import Model, Options, Preprocess, StageError
from visops.infer.engine.job import Job
from visops.infer.engine.work import Work
from visops.infer.frames import Frame
from visops.infer.images.decode import Decoder
from visops.infer.images.isolation import DIED, decode_apart
from visops.infer.images.loading import DecodedBatches
from visops.infer.store.plan import Entry, PlannedBatch
from waiting import until

from infer.folders import Network, save


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for dead workers more often than every 5 seconds."""
    look = torch.utils.data.dataloader._MultiProcessingDataLoaderIter._try_get_data
    monkeypatch.setattr(look, "__defaults__", (0.1,))


class Deadly(Decoder):
    """Kills the process at some images, like a crash in a decoder."""

    def image(self, path: str, room: int | None = None) -> tuple[torch.Tensor, Frame]:
        if path == "2.png":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().image(path, room)


class Wrong(Decoder):
    """A decoder with a bug."""

    def batch(self, plan: PlannedBatch, allocate: Any = None) -> Any:
        raise ZeroDivisionError("a mistake")


class Waiting(Decoder):
    """Writes its process id, and takes its time."""

    def image(self, path: str, room: int | None = None) -> tuple[torch.Tensor, Frame]:
        Path(self.root, "pid.part").write_text(str(os.getpid()))
        Path(self.root, "pid.part").rename(Path(self.root, "pid"))
        time.sleep(60)
        return super().image(path, room)


def planned(folder: Path, batches: int = 3) -> list[PlannedBatch]:
    """Batches of two images."""
    names = [f"{i}.png" for i in range(2 * batches)]
    for i, name in enumerate(names):
        save(folder / name, i, 20 + i)
    return [PlannedBatch(n, tuple(map(Entry, names[2 * n : 2 * n + 2]))) for n in range(batches)]


def same(batch: Any, whole: Any) -> None:
    """Check that a batch has the pixels of an undisturbed one, except for failures."""
    kept = [frame for frame in whole.frames if frame.index not in batch.failures]
    assert [frame.index for frame in batch.frames] == [frame.index for frame in kept]
    for frame, before in zip(batch.frames, kept, strict=True):
        size = frame.height * frame.width * 3
        found = batch.pixels[frame.offset : frame.offset + size]
        assert torch.equal(found, whole.pixels[before.offset : before.offset + size])


@pytest.mark.usefixtures("soon")
def test_images_that_kill_workers_fail_and_the_others_go_on(tmp_path: Path) -> None:
    """The test runs in the main thread, where DataLoader's signal handler would raise."""
    plans = planned(tmp_path)
    with closing(DecodedBatches(plans, Deadly(str(tmp_path)), 2)) as source:
        batches = list(source)
    assert [batch.number for batch in batches] == [0, 1, 2]
    assert [batch.failures for batch in batches] == [{}, {0: DIED}, {}]
    for batch, plan in zip(batches, plans, strict=True):
        same(batch, Decoder(str(tmp_path)).batch(plan))


@pytest.mark.parametrize("error", [ConnectionResetError, EOFError, FileNotFoundError])
def test_a_worker_may_die_while_its_batch_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """The connection breaks before the system calls the worker dead."""
    iterator = torch.utils.data.dataloader._MultiProcessingDataLoaderIter
    fetch = iterator._try_get_data
    left = [error("a broken connection")]

    def breaking(self: Any, *args: Any, **options: Any) -> Any:
        if left:
            raise left.pop()
        return fetch(self, *args, **options)

    monkeypatch.setattr(iterator, "_try_get_data", breaking)
    plans = planned(tmp_path)
    with closing(DecodedBatches(plans, Decoder(str(tmp_path)), 2)) as source:
        batches = list(source)
    assert [(batch.number, batch.failures) for batch in batches] == [(0, {}), (1, {}), (2, {})]
    for batch, plan in zip(batches, plans, strict=True):
        same(batch, Decoder(str(tmp_path)).batch(plan))


def test_decoding_apart_gives_the_same_batch(tmp_path: Path) -> None:
    (plan,) = planned(tmp_path, 1)
    (tmp_path / "empty.png").write_bytes(b"")
    plan = PlannedBatch(0, (*plan.entries, Entry("x", "skipped", "no"), Entry("empty.png")))
    whole, apart = (one(plan) for one in (Decoder(str(tmp_path)).batch, forked(tmp_path)))
    assert apart.failures == whole.failures == {3: "the file is empty"}
    same(apart, whole)


def forked(folder: Path) -> Any:
    return lambda plan: decode_apart(Decoder(str(folder)), plan, "fork")


def test_a_process_apart_ends_with_its_parent(tmp_path: Path) -> None:
    """The kernel ends the child however the parent ends; nothing else would."""
    (plan,) = planned(tmp_path, 1)
    context = multiprocessing.get_context("fork")
    parent = context.Process(target=decode_apart, args=(Waiting(str(tmp_path)), plan, "fork"))
    parent.start()
    until((tmp_path / "pid").exists)
    child = int((tmp_path / "pid").read_text())
    os.kill(parent.pid or 0, signal.SIGKILL)
    parent.join()
    try:
        until(lambda: not runs(child), "it goes on decoding")
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def runs(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_full_shared_memory_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue's own thread would only print the error, and the batch would never arrive."""

    def full(count: int) -> Any:
        raise RuntimeError("unable to allocate shared memory(shm): No space left on device (28)")

    monkeypatch.setattr(torch.UntypedStorage, "_new_shared", full)
    plans = planned(tmp_path)
    message = r"/dev/shm, for 3936 bytes .*No space left.* --shm-size.* --workers 0 needs none"
    with closing(DecodedBatches(plans, Decoder(str(tmp_path)), 1)) as source:
        with pytest.raises(OSError, match=message) as caught:
            next(source)
        assert "Traceback" not in str(caught.value)
    with closing(DecodedBatches(plans, Decoder(str(tmp_path)), 0)) as source:
        assert len(list(source)) == 3


def test_pixels_are_in_shared_memory_before_they_are_sent(tmp_path: Path) -> None:
    dataset = visops.infer.images.loading._Batches(Decoder(str(tmp_path)), shared=True)
    batch: Any = dataset[planned(tmp_path, 1)[0]]
    assert batch.pixels.is_shared()
    missing: Any = dataset[PlannedBatch(0, (Entry("none.png"),))]
    assert list(missing.failures) == [0]


def test_a_death_while_workers_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first worker installs DataLoader's signal handler, which may raise at once."""
    whole = DataLoader.__iter__
    raised: list[Any] = []

    def dying(self: Any) -> Any:
        if not raised:
            raised.append(RuntimeError("DataLoader worker (pid 1) is killed by signal: Killed."))
            raise raised[0]
        return whole(self)

    monkeypatch.setattr(DataLoader, "__iter__", dying)
    with closing(DecodedBatches(planned(tmp_path), Decoder(str(tmp_path)), 1)) as source:
        assert len(list(source)) == 3
    assert raised


def test_the_signal_handler_is_restored(tmp_path: Path) -> None:
    plans = planned(tmp_path)
    with closing(DecodedBatches(plans, Decoder(str(tmp_path)), 1)):
        pass
    before = signal.getsignal(signal.SIGCHLD)
    with closing(DecodedBatches(plans, Decoder(str(tmp_path)), 1)):
        assert signal.getsignal(signal.SIGCHLD) is not before
    assert signal.getsignal(signal.SIGCHLD) is before


# Jobs


def opened(folder: Path, network: Any = None, **options: Any) -> Any:
    images = folder / "images"
    planned(images, 3)
    chosen = {"batch_size": 2, "preprocess": Preprocess((8, 8)), **options}
    return Job.open(images, folder / "out", [Model("net", network or Network())], Options(**chosen))


def workers() -> set[int]:
    return {process.pid or 0 for process in multiprocessing.active_children()}


@pytest.mark.usefixtures("soon")
def test_a_death_while_models_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading takes seconds on CUDA, in the main thread."""
    job = opened(tmp_path, workers=1)
    job.work.decoder = Deadly(job.work.decoder.root, job.work.decoder.targets)
    load = Work.load

    def slowly(self: Work) -> None:
        started = workers()
        assert started
        until(lambda: not any(map(runs, started)))
        load(self)

    monkeypatch.setattr(Work, "load", slowly)
    done = job.process(job.pending())
    assert [(commit.ok, commit.failed) for commit in done.commits] == [(2, 0), (1, 1), (2, 0)]


@pytest.mark.parametrize("stage", ["decode", "models"])
def test_errors_keep_no_workers(tmp_path: Path, stage: str) -> None:
    """The chain, its error and the traceback refer to each other, and to the workers."""

    def broken(batch: Any) -> Any:
        raise SystemExit("the network gives up")

    job = opened(tmp_path, broken, workers=2)
    if stage == "decode":
        job.work.decoder = Wrong(job.work.decoder.root)
    before = workers()
    with pytest.raises(StageError) as caught:
        job.process(job.pending())
    assert caught.value.stage == stage
    assert workers() <= before


def test_batches_in_the_stages_are_committed_if_the_wait_is_interrupted(tmp_path: Path) -> None:
    def network(batch: Any) -> Any:
        time.sleep(0.2)
        return batch.mean((2, 3))

    def tick(chain: Any) -> None:
        if chain.times[0].batches == 3:
            raise KeyboardInterrupt

    job = opened(tmp_path, network, workers=0)
    with pytest.raises(KeyboardInterrupt):
        job.process(job.pending(), tick=tick, wait=0.01)
    assert sorted(job.committed()) == [0, 1, 2]
