"""Listing folders, workers that die, full shared memory, and cleaning up afterwards."""

import json
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
from visops.infer import Entry, Model, Options, Preprocess, StageError, list_images, run
from visops.infer.engine.job import Job
from visops.infer.engine.work import Work
from visops.infer.frames import Frame
from visops.infer.images.decode import Decoder
from visops.infer.images.loading import DIED, DecodedBatches, decode_apart
from visops.infer.store.plan import PlannedBatch
from waiting import until

from infer.folders import Network, nested, recursion_limit, save


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


def paths(folder: Path) -> list[str]:
    return [entry.path for entry in list_images(folder)]


def test_order_is_that_of_bytes(tmp_path: Path) -> None:
    names = ["a/b.png", "a.png", "a-b.png", "B.png", "é.png", "a/a/a.png", "z.png", "日本.png"]
    for name in names:
        save(tmp_path / name)
    assert paths(tmp_path) == sorted(names, key=os.fsencode)


@pytest.mark.parametrize("folder", ["", "deep/"])
def test_order_of_bytes_is_not_that_of_text(tmp_path: Path, folder: str) -> None:
    """A byte that is no UTF-8 sorts above an emoji, but its text, a surrogate, sorts below."""
    names = [b"\xf0\x9f\x98\x80.jpg", b"\xff.jpg"]
    texts = [folder + os.fsdecode(name) for name in names]
    assert sorted(texts) != texts
    (tmp_path / folder).mkdir(exist_ok=True)
    for text in texts:
        (tmp_path / text).write_bytes(b"")
    assert paths(tmp_path) == texts


def test_the_first_of_two_links_goes_by_bytes(tmp_path: Path) -> None:
    save(tmp_path / "outside" / "b.png")
    (tmp_path / "images").mkdir()
    first, second = "😀", os.fsdecode(b"\xff")
    for name in (second, first):
        (tmp_path / "images" / name).symlink_to(tmp_path / "outside")
    assert paths(tmp_path / "images") == [f"{first}/b.png"]


def test_folders_within_each_other(tmp_path: Path) -> None:
    depth = 300
    with nested(tmp_path / "images", depth) as inner, recursion_limit(depth):
        (inner / "a.png").write_bytes(b"")
        (tmp_path / "images" / "z.png").write_bytes(b"")
        assert paths(tmp_path / "images") == ["d/" * depth + "a.png", "z.png"]


def test_a_path_that_is_too_long_to_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["x" * 200] * 19
    with nested(tmp_path / "images", 0):
        monkeypatch.chdir(tmp_path / "images")
        for name in names:
            os.mkdir(name)
            os.chdir(name)
        os.mkdir("y" * 250)
        monkeypatch.undo()
        (failed,) = list_images(tmp_path / "images")
    assert failed == Entry(
        "/".join([*names, "y" * 250]), "failed", "folder can't be listed: File name too long"
    )


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    with open(os.path.join(os.fsencode(tmp_path), b"\xff\xfe.jpg"), "wb") as file:
        file.write(b"x")
    (entry,) = list_images(tmp_path)
    assert os.fsencode(entry.path) == b"\xff\xfe.jpg"


def test_other_files_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "README").write_text("")
    os.mkfifo(tmp_path / "pipe.jpg")
    save(tmp_path / "A.JPEG", format="jpeg")
    assert list_images(tmp_path) == [
        Entry("A.JPEG"),
        Entry("README", "skipped", "a name without a suffix"),
        Entry("notes.txt", "skipped", ".txt is no image's suffix"),
        Entry("pipe.jpg", "skipped", "not a regular file"),
    ]


def test_links(tmp_path: Path) -> None:
    images = tmp_path / "images"
    save(images / "real" / "a.png")
    save(tmp_path / "outside" / "b.png")
    (images / "real" / "loop").symlink_to(images)
    (images / "a_first").symlink_to(images / "real")
    (images / "one").symlink_to(tmp_path / "outside")
    (images / "two").symlink_to(tmp_path / "outside")
    (images / "file.png").symlink_to(tmp_path / "outside" / "b.png")
    (images / "nothing.png").symlink_to("nowhere")
    # A folder under its own name, else its first link; files under each of their names.
    assert paths(images) == ["file.png", "nothing.png", "one/b.png", "real/a.png"]


def test_links_to_each_other_end(tmp_path: Path) -> None:
    for a, b in ("xy", "yx"):
        (tmp_path / a).mkdir()
        (tmp_path / a / "to").symlink_to(tmp_path / b)
        save(tmp_path / a / "i.png")
    assert paths(tmp_path) == ["x/i.png", "y/i.png"]


def test_links_to_themselves(tmp_path: Path) -> None:
    for a, b in (("c", "d"), ("d", "c"), ("a.jpg", "a.jpg")):
        (tmp_path / a).symlink_to(b)
    assert list_images(tmp_path) == [
        Entry("a.jpg"),
        Entry("c", "skipped", "a name without a suffix"),
        Entry("d", "skipped", "a name without a suffix"),
    ]


def test_outputs_below_are_left_out(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    save(tmp_path / "out" / "annotated" / "a.png.jpg")
    (tmp_path / "link").symlink_to(tmp_path / "out")
    listed = list_images(tmp_path, leave_out=tmp_path / "out")
    assert [entry.path for entry in listed] == ["a.png"]


def test_a_folder_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "a.png")
    (tmp_path / "closed").mkdir()
    scandir = os.scandir

    def refuse(path: Any) -> Any:
        if os.fspath(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert list_images(tmp_path) == [
        Entry("a.png"),
        Entry("closed", "failed", "folder can't be listed: Permission denied"),
    ]


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list_images(tmp_path / "none")


def network(batch: torch.Tensor) -> torch.Tensor:
    return batch.mean((2, 3))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for name in ("a.png", "b.jpg", "below/c.jpg"):
        save(tmp_path / "photos" / name)
    (tmp_path / "few.csv").write_text("label,image\n1,photos/below/c.jpg\n2,photos/a.png\n")
    (tmp_path / "few.txt").write_text("photos/below/c.jpg\n\nphotos/a.png\n")
    (tmp_path / "bare.csv").write_text("photos/a.png,1\n")
    return tmp_path


@pytest.mark.parametrize(
    ("images", "names"),
    [
        (lambda p: f"{p}/photos/*.jpg", ["b.jpg"]),
        (lambda p: f"{p}/photos/**/*.jpg", ["b.jpg", "below/c.jpg"]),
        (lambda p: p / "few.csv", ["below/c.jpg", "a.png"]),
        (lambda p: p / "few.txt", ["below/c.jpg", "a.png"]),
        (lambda p: p / "bare.csv", ["a.png"]),
        (lambda p: [p / "photos/b.jpg", f"{p}/photos/a.png"], ["b.jpg", "a.png"]),
        (lambda p: p / "photos/a.png", ["a.png"]),
        (lambda p: [p / "photos/a.png", p / "photos/none.png"], ["a.png", "none.png"]),
    ],
)
def test_patterns_and_lists(images: Any, names: list[str], photos: Path) -> None:
    """Results are in their order; a run continues them, and takes what is new."""
    out = photos / "out"
    for _ in range(2):
        counts = run(images(photos), out, {"net": network}, workers=0).counts
        assert (counts.listed, counts.failed) == (len(names), "none.png" in names)
        lines = (out / "results.jsonl").read_text().splitlines()
        assert [json.loads(line)["image"] for line in lines] == names
    more = run(photos / "photos", out, {"net": network}, workers=0) if len(names) == 2 else None
    assert more is None or more.counts.listed == 3 + ("none.png" in names)


@pytest.mark.parametrize(
    ("images", "error", "message"),
    [
        (lambda p: [p / "a.png"] * 2, ValueError, r"images names .*a\.png twice"),
        (lambda p: [], ValueError, "images is empty, must name at least one image"),
        (lambda p: f"{p}/*.gif", FileNotFoundError, "and no file fits this pattern"),
        (lambda p: p / "none", FileNotFoundError, "there is no such folder or file"),
    ],
)
def test_inputs_that_are_none(images: Any, error: Any, message: str, photos: Path) -> None:
    with pytest.raises(error, match=f"^visops.infer: .*{message}"):
        run(images(photos), photos / "out", {"net": network}, workers=0)
    assert not (photos / "out").exists()


@pytest.mark.parametrize(
    ("models", "options", "message"),
    [
        (network, {}, r'models is a function, must be a name, .*\{"function": network\}'),
        ({"n": network}, {"size": 224}, r"no option 'size'; use preprocess=.*Preprocess\(size="),
        ({"n": network}, {"num_workers": 2}, "no option 'num_workers'; use workers"),
        ({"n": network}, {"anotate": "png"}, "no option 'anotate'; use annotate"),
        ({"n": network}, {"zzz": 1}, "no option 'zzz'; use one of batch_size, workers"),
    ],
)
def test_wrong_names(models: Any, options: Any, message: str, photos: Path) -> None:
    with pytest.raises(TypeError, match=f"^visops.infer: .*{message}"):
        run(photos / "photos", photos / "out", models, **options)
