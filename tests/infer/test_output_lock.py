"""Opening a job: one run at a time, with its own images and outputs."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from visops import infer
from visops.infer import Job, Pipeline, Preprocess
from visops.infer.engine import job, pipeline
from visops.infer.engine.output_lock import OutputsLock
from visops.infer.engine.pipeline import conclude
from visops.infer.images import listing as listings
from visops.infer.images.listing import list_images
from visops.infer.store.durable import LockedFile, atomic_file
from visops.infer.store.manifest import Manifest, committed_batches

from infer.folders import Network, records, save

OPTIONS: dict[str, Any] = {"batch_size": 2, "workers": 0, "preprocess": Preprocess((8, 8))}
LEFTOVER = "0123456789abcdef.tmp"


@pytest.fixture
def images(tmp_path: Path) -> Path:
    for i in range(5):
        save(tmp_path / "images" / f"{i}.png", i)
    return tmp_path / "images"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def opened(images: Path, out: Path, seed: int = 0, **how: Any) -> Job:
    ours = Pipeline({"net": Network(seed)}, **OPTIONS)
    return Job.open(images, out, ours.models, ours.options, **how)


def run(images: Path, out: Path, seed: int = 0, **options: Any) -> infer.Summary:
    return infer.run(images, out, {"net": Network(seed)}, **(OPTIONS | options))


def test_another_first_run_is_refused_while_one_plans(
    images: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def listing(*arguments: Any, **how: Any) -> Any:
        with pytest.raises(RuntimeError, match=f"another run is using {out}; wait"):
            opened(images, out, seed=1)
        return list_images(*arguments, **how)

    monkeypatch.setattr(listings, "list_images", listing)
    with opened(images, out) as first:
        monkeypatch.undo()
        before = (out / "plan.jsonl").read_bytes()
        with pytest.raises(RuntimeError, match="another run is using"):
            run(images, out, seed=1)
        assert (out / "plan.jsonl").read_bytes() == before
        assert len(first.pending()) == 3
    assert run(images, out).counts.ok == 5


def test_processes_of_one_run_share_its_outputs(images: Path, out: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no plan yet: no file .*plan.jsonl"):
        opened(images, out, create=False)
    assert not out.exists()
    first = opened(images, out)
    second = opened(images, out, create=False)
    first.close()
    with pytest.raises(RuntimeError, match="another run is using"):
        opened(images, out)
    opened(images, out, dry_run=True).close()
    second.close()
    opened(images, out).close()


def test_a_run_that_raises_lets_others_in(images: Path, out: Path) -> None:
    def postprocess(output: Any, placements: Any) -> Any:
        raise ZeroDivisionError

    broken = {"net": (Network(), postprocess)}
    with pytest.raises(infer.StageError) as kept:
        infer.run(images, out, broken, **OPTIONS)
    with pytest.raises(infer.StageError):
        infer.run(images, out, broken, **OPTIONS)
    assert kept.value.stage == "postprocess"


@contextmanager
def fork() -> Iterator[None]:
    """Fork an idle child that lives until the end of the block."""
    reading, writing = os.pipe()
    ready, begun = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writing)
        os.write(begun, b"x")
        os.read(reading, 1)  # until the parent closes it or dies
        os._exit(0)
    for end in (reading, begun):
        os.close(end)
    os.read(ready, 1)
    os.close(ready)
    try:
        yield
    finally:
        os.close(writing)
        os.waitpid(pid, 0)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize(
    "kind", [Manifest, lambda path: OutputsLock(os.path.dirname(path), shared=False)]
)
def test_a_child_holds_no_lock_of_its_parent(tmp_path: Path, kind: Callable[..., Any]) -> None:
    held = kind(str(tmp_path / "manifest.jsonl"))
    with fork():
        with pytest.raises(RuntimeError):
            kind(str(tmp_path / "manifest.jsonl"))  # the parent's lock is still held
        held.close()
        kind(str(tmp_path / "manifest.jsonl")).close()


def test_file_systems_without_locks_are_supported(
    images: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LockedFile, "lock", lambda self, **how: False)
    with opened(images, out):
        (out / "parts" / LEFTOVER).write_text("")
        assert run(images, out).counts.ok == 5
    assert (out / "parts" / LEFTOVER).exists(), "it may belong to another run"


def test_other_images_are_refused(images: Path, out: Path, tmp_path: Path) -> None:
    run(images, out)
    other = tmp_path / "other"
    save(other / "0.png", 9)
    with pytest.raises(
        ValueError, match=f"images is {other}, but the outputs in {out} .* {images}"
    ):
        run(other, out)
    with pytest.raises(ValueError, match="link to them from the old path"):
        Pipeline({"net": Network()}, **OPTIONS).dry_run(other, out)
    (tmp_path / "link").symlink_to(images)
    assert run(tmp_path / "link", out).done == 0
    # Ranks accept the plan as it is: on their machine the images may lie elsewhere.
    opened(other, out, create=False).close()


def test_images_that_have_moved(images: Path, out: Path, tmp_path: Path) -> None:
    run(images, out)
    images.rename(tmp_path / "moved")
    with pytest.raises(ValueError, match="the outputs in"):
        run(tmp_path / "moved", out)
    images.symlink_to(tmp_path / "moved")
    assert run(tmp_path / "moved", out).done == 0


def test_outputs_in_the_folder_of_images_are_refused(images: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(images)
    before = sorted(images.iterdir())
    for out in (images, tmp_path / "link"):
        with pytest.raises(ValueError, match=f"out is {out}, which is also the folder of images"):
            run(images, out)
    assert sorted(images.iterdir()) == before
    assert run(images, images / "out").counts.listed == 5
    assert run(images, images / "out").counts.listed == 5


def test_without_a_folder_of_images_no_outputs_are_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="none: there is no such folder or file"):
        run(tmp_path / "none", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_merging_leaves_the_files_of_others(images: Path, out: Path) -> None:
    with opened(images, out) as first, opened(images, out, create=False) as second:
        done = first.process(first.pending())
        with atomic_file(str(out / "summary.rank-00001.json")) as file:
            file.write(b"{}")
            assert conclude(first, done).results is not None
        assert conclude(second, done, merge=False).results is None
        assert (out / "summary.rank-00001.json").read_bytes() == b"{}"


def test_leftovers_are_removed_by_the_next_run(images: Path, out: Path) -> None:
    names = ["", "parts", "annotated/a/b", "pictures/net", "masks/net/a"]
    for name in names:
        (out / name).mkdir(parents=True, exist_ok=True)
        (out / name / LEFTOVER).write_text("")
        (out / name / "other.tmp").write_text("")
    run(images, out)
    assert {str(path.relative_to(out)) for path in out.rglob("*.tmp")} == {
        os.path.join(name, "other.tmp") for name in names
    }


@pytest.mark.parametrize("seed", [0, 1])
def test_results_of_another_plan_are_not_taken(images: Path, out: Path, seed: int) -> None:
    run(images, out)
    (out / "plan.jsonl").unlink()
    assert run(images, out, seed).done == (0 if seed == 0 else 5)
    expected = torch.tensor(records(out)["0.png"]["outputs"]["net"]["scores"])
    (out / "plan.jsonl").unlink()
    save(images / "00.png", 7)  # shifts the others to other batches
    assert run(images, out, seed).counts.ok == 6
    found = torch.tensor(records(out)["0.png"]["outputs"]["net"]["scores"])
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


def test_formats_that_cannot_be_written_are_refused_before_the_work(
    images: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ModuleNotFoundError, match="format is 'parquet', which needs pyarrow; pip"):
        run(images, out, format="parquet")
    assert not out.exists()
    assert run(images, out).counts.ok == 5
    (out / "results.parquet").write_bytes(b"")
    with pytest.raises(ModuleNotFoundError, match=f"{out} has results in the format 'parquet'"):
        run(images, out)


def test_manifests_are_read_twice(images: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read before and after the work: with millions of batches it takes a while."""
    calls = []

    def counted(*arguments: Any) -> Any:
        calls.append(1)
        return committed_batches(*arguments)

    monkeypatch.setattr(job, "committed_batches", counted)
    run(images, out)
    assert len(calls) == 2


def test_threads_start_after_the_workers(
    images: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers are forks, and none may happen while a profiler's thread holds its lock."""
    order = []

    def watched(kind: Any) -> Any:
        def made(*arguments: Any) -> Any:
            order.append(kind.__name__)
            return kind(*arguments)

        return made

    for module, name in ((job, "DecodedBatches"), (pipeline, "Progress"), (pipeline, "Trace")):
        monkeypatch.setattr(module, name, watched(getattr(module, name)))
    Pipeline({"net": Network()}, **OPTIONS).run(images, out, progress=True, profile=True)
    assert order == ["DecodedBatches", "Progress", "Trace"]
