"""scripts/bench/infer.py: its variants do the same job, and it detects if they don't."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("matplotlib")
pytest.importorskip("skimage")
pytest.importorskip("sklearn")
pytest.importorskip("tqdm")

from bench.inference import agreement, chart
from bench.inference.agreement import compare
from bench.inference.changes import Changes, Limits, run_changed
from bench.inference.clock import Timing
from bench.inference.naive import run_naive
from bench.inference.networks import DETECTOR, MOST, SCORE, SIDE
from bench.inference.photos import file_name
from bench.inference.steps import list_files, read_records
from PIL import Image

COUNT = 9
CPU = torch.device("cpu")


class Classifier(nn.Module):
    """Scores from the mean colours of sixteen parts."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(48, 10)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.head(nn.functional.adaptive_avg_pool2d(pixels, 4).flatten(1))


class Boxes(nn.Module):
    """The same as logits and shifts of 40 anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(48, 40 * 95)
        centres = torch.rand(40, 2) * SIDE
        self.register_buffer("anchors", torch.cat([centres, 20 + torch.rand(40, 2) * 60], dim=1))

    def forward(self, pixels: Tensor) -> dict[str, Tensor]:
        parts = nn.functional.adaptive_avg_pool2d(pixels, 4).flatten(1)
        outputs = (6 * self.body(parts)).view(-1, 40, 95)
        return {"logits": outputs[..., :91], "shifts": outputs[..., 91:]}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few small photos; one is cut off, and one file is not a photo."""
    folder = tmp_path_factory.mktemp("photos")
    generator = torch.Generator().manual_seed(0)
    for index in range(COUNT):
        path = folder / file_name(index)
        path.parent.mkdir(exist_ok=True)
        colours = torch.randint(256, (4, 4, 3), generator=generator, dtype=torch.uint8)
        Image.fromarray(colours.numpy()).resize((80, 60 + index)).save(path)
    path.write_bytes(path.read_bytes()[:500])
    (folder / "notes.txt").write_text("no photo")
    return folder


@pytest.fixture(scope="module")
def networks() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    return {"colours": Classifier().eval(), DETECTOR: Boxes().eval()}


@pytest.fixture(scope="module")
def records(
    photos: Path, networks: dict[str, nn.Module], tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    """Return what the script writes."""
    out = tmp_path_factory.mktemp("naive")
    timing = run_naive(photos, list_files(photos), out, networks, CPU)
    assert sum(timing.stages.values()) <= timing.wall
    found = read_records(out)
    assert [record["status"] for record in found].count("ok") == COUNT - 1
    boxes = [len(r["outputs"][DETECTOR]["boxes"]) for r in found if r["status"] == "ok"]
    assert min(boxes) > 5
    assert len(list(out.rglob("*.jpg"))) == COUNT - 1
    return found


@pytest.mark.parametrize(
    "changes",
    [
        Changes(),
        Changes(batches=True),
        Changes(workers=True),
        Changes(on_device=True),
        Changes(by_image=True),
        Changes(batches=True, by_image=True),
        Changes(writers=True),
        Changes(True, True, True, True),
        Changes(True, True, True, True, channels_last=True),
    ],
    ids=repr,
)
def test_changes_do_not_change_records(
    photos: Path,
    networks: dict[str, nn.Module],
    records: list[dict[str, Any]],
    tmp_path: Path,
    changes: Changes,
) -> None:
    limits = Limits(batch=4, workers=1, writers=2)
    timing = run_changed(photos, list_files(photos), tmp_path, networks, CPU, changes, limits)
    found = read_records(tmp_path)
    result = compare(records, found)
    assert result.fine, result.errors
    assert result.images == COUNT + 1
    assert len(list(tmp_path.rglob("*.jpg"))) == COUNT - 1
    assert set(timing.apart) == {
        name for name, apart in (("decode", changes.workers), ("write", changes.writers)) if apart
    }
    if changes == Changes():
        assert result.equal == result.images, "not the same script"


def test_library_writes_the_same(
    photos: Path, networks: dict[str, nn.Module], records: list[dict[str, Any]], tmp_path: Path
) -> None:
    from bench.inference import library
    from bench.inference.networks import Detector

    class Known(Detector):
        """The stand-in, of the type that the library's variant looks for."""

        def __init__(self, inner: nn.Module) -> None:
            nn.Module.__init__(self)
            self.inner, self.anchors = inner, inner.anchors  # type: ignore[assignment]

        def forward(self, pixels: Tensor) -> dict[str, Tensor]:
            found: dict[str, Tensor] = self.inner(pixels)
            return found

    known = {**networks, DETECTOR: Known(networks[DETECTOR])}
    limits = Limits(batch=4, workers=1, writers=2)
    timing = library.run_library(photos, tmp_path, known, CPU, channels_last=False, limits=limits)
    result = compare(records, library.read_library(tmp_path))
    assert result.fine, result.errors
    assert result.images == COUNT + 1
    assert set(timing.apart) == set(timing.stages)


def _changed(records: list[dict[str, Any]], change: str) -> list[dict[str, Any]]:
    """The same records, wrong."""
    wrong = copy.deepcopy(records)
    ok = next(record for record in wrong if record["status"] == "ok")
    boxes, colours = ok["outputs"][DETECTOR], ok["outputs"]["colours"]
    if change == "lost":
        wrong.remove(ok)
    elif change == "twice":
        wrong.append(ok)
    elif change == "status":
        ok["status"] = "failed"
    elif change == "box":
        boxes["boxes"][0][2] += 0.2
    elif change == "no box":
        for values in boxes.values():
            del values[0]
    elif change == "label":
        boxes["labels"][0] += 1
    elif change == "score":
        boxes["scores"][1] += 3e-4
    elif change == "NaN box":
        boxes["boxes"][0][2] = float("nan")
    elif change == "NaN score":
        boxes["scores"][1] = float("nan")
    elif change == "NaN probability":
        colours["scores"][0] = float("nan")
    elif change == "classes":
        for values in colours.values():
            del values[-1]
    elif change == "class":
        colours["labels"].reverse()
    elif change == "probability":
        colours["scores"][0] += 3e-4
    return wrong


@pytest.mark.parametrize(
    "change",
    [
        "lost",
        "twice",
        "status",
        "box",
        "NaN box",
        "no box",
        "label",
        "score",
        "NaN score",
        "class",
        "classes",
        "probability",
        "NaN probability",
    ],
)
def test_comparison_sees(records: list[dict[str, Any]], change: str) -> None:
    assert compare(records, records).equal == len(records)
    assert not compare(records, _changed(records, change)).fine
    assert not compare(_changed(records, change), records).fine


def test_comparison_of_ties() -> None:
    """The last bit may decide about a box at the threshold, or in last place."""

    def record(scores: list[float]) -> list[dict[str, Any]]:
        boxes = [[60.0 * i, 0.0, 60.0 * i + 50, 50.0] for i in range(len(scores))]
        found = {"boxes": boxes, "labels": [1] * len(scores), "scores": scores}
        return [{"image": "a.jpg", "status": "ok", "outputs": {DETECTOR: found}}]

    limit = SCORE
    at_the_threshold = compare(record([0.9, limit + 1e-6]), record([0.9]))
    assert at_the_threshold.fine
    assert at_the_threshold.ties == 1
    assert not compare(record([0.9, limit + 0.01]), record([0.9])).fine
    many = [0.9] * (MOST - 1)
    assert compare(record([*many, 0.5]), record([*many, 0.50001])).fine


def test_table_and_picture(tmp_path: Path) -> None:
    def row(key: str, group: str, wall: float) -> dict[str, Any]:
        timing = Timing(wall, 2 * wall, {"decode": wall / 2, "models": wall / 3})
        stage, share = timing.limits()
        return {
            "key": key,
            "group": group,
            "label": key,
            "wall_s": wall,
            "cpu_s": timing.cpu,
            "saved": 1 - wall / 8,
            "images_per_s": 100 / wall,
            "stages_s": timing.stages,
            "limits": stage,
            "limits_share": share,
            "agreement": vars(agreement.Agreement(100, 9, 50, 1e-6, 1e-4)) | {"errors": 0},
        }

    result = {
        "op": "infer",
        "machine": {"cpu": "A chip", "cores": 2, "commit": "0", "versions": {"torch": "2"}},
        "device": "cpu",
        "threads": 2,
        "limits": {"workers": 2, "writers": 2},
        "images": 100,
        "variants": [row("naive", "the script", 8.0), row("batches", "alone", 4.0)],
    }
    for text in (chart.text(result), chart.markdown(result)):
        assert "+50%" in text
        assert "decode, 50% of the time" in text
    chart.picture(result, tmp_path / "bench.png")
    assert (tmp_path / "bench.png").stat().st_size > 10_000
    json.dumps(result)
