"""scripts/bench/infer.py: both ways do the same job, and it detects if they don't."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("skimage")
pytest.importorskip("sklearn")
pytest.importorskip("tqdm")

from bench import infer
from bench.inference.agreement import compare
from bench.inference.naive import list_files, read_records, run_naive
from bench.inference.networks import DETECTOR, MOST, SCORE, SIDE
from bench.inference.photos import file_name
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
    """The same as boxes and scores of 40 anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(48, 40 * 95)
        self.centres = torch.rand(40, 2) * SIDE

    def forward(self, pixels: Tensor) -> dict[str, Tensor]:
        parts = nn.functional.adaptive_avg_pool2d(pixels, 4).flatten(1)
        outputs = (6 * self.body(parts)).view(-1, 40, 95)
        half = 10 + 20 * outputs[..., 91:93].sigmoid()
        boxes = torch.cat([self.centres - half, self.centres + half], -1).clamp(0, SIDE)
        return {"boxes": boxes, "scores": outputs[..., :91].softmax(-1)[..., 1:].contiguous()}


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
    run_naive(photos, list_files(photos), out, networks, CPU)
    found = read_records(out)
    assert [record["status"] for record in found].count("ok") == COUNT - 1
    boxes = [len(r["outputs"][DETECTOR]["boxes"]) for r in found if r["status"] == "ok"]
    assert min(boxes) > 5
    assert len(list(out.rglob("*.jpg"))) == COUNT - 1
    return found


def test_both_write_the_same(photos: Path, networks: dict[str, nn.Module]) -> None:
    ours, script = infer.contenders(photos, networks, 4, CPU)
    assert ours.output() is None
    assert script.output() is None
    assert script.comparable is not None
    with pytest.raises(RuntimeError, match=r"^outputs differ from the script's: "):
        script.comparable([])


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
    assert compare(records, _changed(records, change)).errors
    assert compare(_changed(records, change), records).errors


def test_comparison_of_ties() -> None:
    """The last bit may decide about a box at the threshold, or in last place."""

    def record(scores: list[float]) -> list[dict[str, Any]]:
        boxes = [[60.0 * i, 0.0, 60.0 * i + 50, 50.0] for i in range(len(scores))]
        found = {"boxes": boxes, "labels": [1] * len(scores), "scores": scores}
        return [{"image": "a.jpg", "status": "ok", "outputs": {DETECTOR: found}}]

    limit = SCORE
    at_the_threshold = compare(record([0.9, limit + 1e-6]), record([0.9]))
    assert not at_the_threshold.errors
    assert at_the_threshold.ties == 1
    assert compare(record([0.9, limit + 0.01]), record([0.9])).errors
    many = [0.9] * (MOST - 1)
    assert not compare(record([*many, 0.5]), record([*many, 0.50001])).errors


def test_a_tie_may_bring_further_boxes() -> None:
    """A box at the overlap limit, kept in one run only, suppresses others there."""

    def record(*kept: tuple[float, float]) -> list[dict[str, Any]]:
        boxes = [[x, 0.0, x + 90, 50.0] for x, _ in kept]
        scores = [score for _, score in kept]
        found = {"boxes": boxes, "labels": [1] * len(boxes), "scores": scores}
        return [{"image": "a.jpg", "status": "ok", "outputs": {DETECTOR: found}}]

    best, tied, third = (0.0, 0.9), (30.0, 0.8), (50.0, 0.7)  # tied: 60 / 120 of the best one
    found = compare(record(best, tied), record(best, third))
    assert (found.ties, found.errors) == (2, [])
    assert compare(record(best, tied, third), record(best, tied)).errors  # wrong in the first
