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
from bench.inference.networks import DETECTOR, MOST, SCORE, SIDE, Detector
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
    run_naive(photos, list_files(photos), out, networks, CPU)
    found = read_records(out)
    assert [record["status"] for record in found].count("ok") == COUNT - 1
    boxes = [len(r["outputs"][DETECTOR]["boxes"]) for r in found if r["status"] == "ok"]
    assert min(boxes) > 5
    assert len(list(out.rglob("*.jpg"))) == COUNT - 1
    return found


class Known(Detector):
    """The stand-in, of the type that the library's side looks for."""

    def __init__(self, inner: nn.Module) -> None:
        nn.Module.__init__(self)
        self.inner, self.anchors = inner, inner.anchors  # type: ignore[assignment]

    def forward(self, pixels: Tensor) -> dict[str, Tensor]:
        found: dict[str, Tensor] = self.inner(pixels)
        return found


def test_both_write_the_same(photos: Path, networks: dict[str, nn.Module]) -> None:
    known = {**networks, DETECTOR: Known(networks[DETECTOR])}
    ours, script = infer.contenders(photos, known, 4, CPU)
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
