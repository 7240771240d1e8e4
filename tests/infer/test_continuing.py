"""Runs that continue with other options or models: what is replaced, kept, computed or refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from visops import infer
from visops.infer import Counts, Job, Model, Pipeline, Preprocess, Raw, StageError
from visops.infer.images.decode import Decoder

from infer.folders import Network, Refusing, comparable, files, fill, records, save

OPTIONS: dict[str, Any] = {"batch_size": 4, "workers": 0, "preprocess": Preprocess((16, 16))}
COUNTS = Counts(listed=19, ok=13, failed=4, skipped=2)


class Counting(Network):
    """A network that counts the images it sees."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.seen = 0

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        self.seen += len(batch)
        return super().forward(batch)


class Picky(Counting):
    """A network that raises on inputs of any size but 8 x 8."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        assert batch.shape[2:] == (8, 8)
        return super().forward(batch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("images"))


def run(images: Path, out: Path, models: Any, **options: Any) -> infer.Summary:
    return infer.run(images, out, models, **(OPTIONS | options))


# Plans without results


def test_a_run_that_began_with_a_wrong_size_begins_anew(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(StageError, match="has never worked"):
        run(folder, tmp_path, {"net": Picky()})
    assert (tmp_path / "plan.jsonl").exists()
    right = Preprocess((8, 8))
    assert run(folder, tmp_path, {"net": Picky()}, preprocess=right).counts == COUNTS
    with pytest.raises(ValueError, match="preprocess is "):
        run(folder, tmp_path, {"net": Picky()})


def test_a_run_that_began_on_a_wrong_device_or_folder_begins_anew(
    folder: Path, tmp_path: Path
) -> None:
    missing = f"cuda:{torch.cuda.device_count()}"
    other = tmp_path / "other"
    save(other / "a.png")
    with pytest.raises(RuntimeError, match="torch sees"):
        run(other, tmp_path / "out", {"net": Network()}, device=missing)
    planned = Pipeline({"net": Network()}, **OPTIONS).dry_run(folder, tmp_path / "out")
    assert planned.pending == 19
    assert run(folder, tmp_path / "out", {"net": Network()}).counts == COUNTS


def test_failures_of_files_are_no_results(folder: Path, tmp_path: Path) -> None:
    images = tmp_path / "images"
    for i in range(6):
        save(images / f"{i}.png", i)
    for i in range(4):
        (images / f"{i}.png").write_bytes(b"damaged")
    with pytest.raises(StageError):
        run(images, tmp_path / "out", {"net": Picky()})
    assert (tmp_path / "out" / "manifest.jsonl").read_bytes().count(b"\n") == 1
    counts = run(images, tmp_path / "out", {"net": Network()}).counts
    assert counts == Counts(listed=6, ok=2, failed=4)


def test_ranks_do_not_replace_a_plan(folder: Path, tmp_path: Path) -> None:
    ours, other = (Pipeline({"net": Network()}, **OPTIONS, seed=seed) for seed in range(2))
    Job.open(folder, tmp_path, ours.models, ours.options).close()
    with pytest.raises(ValueError, match="seed is 1"):
        Job.open(folder, tmp_path, other.models, other.options, create=False)
    with Job.open(folder, tmp_path, ours.models, ours.options, create=False):
        pass


# Plans of earlier versions


def test_plans_of_earlier_versions_are_resumed(folder: Path, tmp_path: Path) -> None:
    """Modules of post-processing have moved, and there were fewer options."""
    model = Model("net", Network(), postprocess=Raw().__call__)
    options = Pipeline([model], **OPTIONS).options
    with Job.open(folder, tmp_path, [model], options) as job:
        job.process(job.pending()[:2])
    path = tmp_path / "plan.jsonl"
    head, *lines = path.read_text().splitlines(keepends=True)
    before = json.loads(head)
    described = before["options"]["models"]["net"]
    moved = described["postprocess"].replace("infer.models.postprocess", "infer.postprocess")
    assert moved != described["postprocess"]
    described["postprocess"] = moved
    for name in ("max_bytes", "max_batch_pixels", "masks"):
        del before["options"][name]
    path.write_text(json.dumps(before) + "\n" + "".join(lines))
    with pytest.raises(ValueError, match=r"max_bytes is 5, .* were begun with 1073741824"):
        run(folder, tmp_path, [model], max_bytes=5)
    with pytest.raises(ValueError, match=r"masks is png, .* were begun with rle"):
        run(folder, tmp_path, [model], masks="png")
    other = Model("net", Network(), postprocess=Raw())
    with pytest.raises(ValueError, match=r"postprocess=Raw\(\), .* begun with .*Raw.__call__ of"):
        run(folder, tmp_path, [other])
    summary = run(folder, tmp_path, [model])
    assert summary.counts == COUNTS
    assert summary.done < 19


# Other models


def test_a_model_that_is_added_runs_alone(folder: Path, tmp_path: Path) -> None:
    first, second = Counting(), Counting(1)
    run(folder, tmp_path / "out", {"first": first})
    first.seen = 0
    summary = run(folder, tmp_path / "out", {"first": first, "second": second})
    assert (first.seen, second.seen) == (0, 13)
    assert (summary.counts, summary.exit_code) == (COUNTS, 0)
    run(folder, tmp_path / "both", {"first": first, "second": second})
    assert comparable(tmp_path / "out") == comparable(tmp_path / "both")


def test_a_model_that_is_removed_leaves_nothing_to_do(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Counting(), Counting(1)
    run(folder, tmp_path / "out", {"first": first, "second": second})
    both = comparable(tmp_path / "out")
    run(folder, tmp_path / "one", {"first": first})
    first.seen = second.seen = 0
    with monkeypatch.context() as patch:
        patch.setattr(Decoder, "image", lambda *_: pytest.fail("an image is decoded"))
        assert run(folder, tmp_path / "out", {"first": first}).counts == COUNTS
        assert comparable(tmp_path / "out") == comparable(tmp_path / "one")
        # What was removed can come back: its parts are still there.
        assert run(folder, tmp_path / "out", {"first": first, "second": second}).done == 0
        assert comparable(tmp_path / "out") == both
    assert (first.seen, second.seen) == (0, 0)


def test_models_change_in_the_middle(folder: Path, tmp_path: Path) -> None:
    """Batches that were not begun run with all models; new images too."""
    images = tmp_path / "images"
    fill(images)
    first, second, third = Counting(), Counting(1), Counting(2)
    start = Pipeline({"first": first, "second": second}, **OPTIONS)
    with Job.open(images, tmp_path / "out", start.models, start.options) as job:
        job.process(job.pending()[:2])
    after = Pipeline({"second": second, "third": third}, **OPTIONS)
    with Job.open(images, tmp_path / "out", after.models, after.options) as job:
        job.process(job.pending()[:1])
    save(images / "new.png", 40)
    known = first.seen
    second.seen = third.seen = 0
    assert after.run(images, tmp_path / "out").counts == Counts(20, 14, 4, 2)
    assert first.seen == known
    assert (second.seen, third.seen) == (14 - known, 14 - 4)
    run(images, tmp_path / "whole", {"second": second, "third": third})
    found, whole = records(tmp_path / "out"), records(tmp_path / "whole")
    assert {**found, "new.png": 0} == {**whole, "new.png": 0}


def test_parts_that_are_gone_are_computed_again(folder: Path, tmp_path: Path) -> None:
    first, second = Counting(), Counting(1)
    run(folder, tmp_path / "out", {"first": first})
    gone, changed, *_ = sorted((tmp_path / "out" / "parts").iterdir())
    gone.unlink()
    changed.write_bytes(changed.read_bytes().replace(b"0", b"1"))
    first.seen = 0
    run(folder, tmp_path / "out", {"first": first, "second": second})
    assert (first.seen, second.seen) == (8, 13)
    run(folder, tmp_path / "both", {"first": first, "second": second})
    assert comparable(tmp_path / "out") == comparable(tmp_path / "both")


def test_images_that_a_removed_model_refused_are_done(tmp_path: Path) -> None:
    images = tmp_path / "images"
    for i in range(6):
        save(images / f"{i}.png", i)
    Image.new("RGB", (30, 20), "white").save(images / "3.png")
    options = {"preprocess": Preprocess((8, 8), mean=None, std=None)}
    net = Counting()
    both = {"net": net, "refusing": Refusing()}
    assert run(images, tmp_path / "out", both, **options).counts.failed == 1
    net.seen = 0
    assert run(images, tmp_path / "out", {"net": net}, **options).counts.ok == 6
    assert net.seen == 4  # the batch with the image, whole
    run(images, tmp_path / "one", {"net": net}, **options)
    assert comparable(tmp_path / "out") == comparable(tmp_path / "one")


def test_pictures_show_all_models(folder: Path, tmp_path: Path) -> None:
    models = {"first": Network(), "second": Network(1)}
    options = {"annotate": "png", "reduced": False}
    run(folder, tmp_path / "out", {"first": Network()}, **options)
    run(folder, tmp_path / "out", models, **options)
    run(folder, tmp_path / "both", models, **options)
    assert comparable(tmp_path / "out") == comparable(tmp_path / "both")
    run(folder, tmp_path / "out", {"second": Network(1)}, **options)
    run(folder, tmp_path / "one", {"second": Network(1)}, **options)
    assert comparable(tmp_path / "out") == comparable(tmp_path / "one")


def test_pictures_show_the_models_of_the_last_run(folder: Path, tmp_path: Path) -> None:
    """Also where an earlier run had the same models, and its records still hold."""
    options = {"annotate": "png", "reduced": False}
    first, second = Counting(), Counting(1)
    both = {"first": first, "second": second}
    for models in ({"first": first}, both, {"first": first}, both, {"first": first}):
        run(folder, tmp_path / "out", models, **options)
    assert (first.seen, second.seen) == (13, 13)
    run(folder, tmp_path / "one", {"first": Network()}, **options)
    assert comparable(tmp_path / "out") == comparable(tmp_path / "one")


def test_other_changes_of_models_are_refused(folder: Path, tmp_path: Path) -> None:
    run(folder, tmp_path, {"first": Network(), "second": Network(1)})
    before = files(tmp_path)
    for models, options, message in (
        ({"first": Network(2), "second": Network(1)}, {}, "models is first=weights="),
        ({"first": Network(2)}, {}, "models is first=weights="),
        ({"other": Network()}, {}, "models is first=None"),
        ({"first": Network()}, {"seed": 1}, "models is second=None"),
    ):
        with pytest.raises(ValueError, match=message):
            run(folder, tmp_path, models, **options)
    assert files(tmp_path) == before
