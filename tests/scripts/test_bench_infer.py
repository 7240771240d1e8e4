"""scripts/bench/infer.py: both ways do the same job, and it detects if they don't."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("skimage")
pytest.importorskip("sklearn")
pytest.importorskip("tqdm")

from bench import infer
from bench.five_networks import DETECTOR, SIDE

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
def networks() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    return {"colours": Classifier().eval(), DETECTOR: Boxes().eval()}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine photos, of which one is cut off."""
    folder = infer.make_photos(tmp_path_factory.mktemp("photos"), 9)
    first = min(folder.iterdir())
    first.write_bytes(first.read_bytes()[:500])
    return folder


def test_both_write_the_same(photos: Path, networks: dict[str, nn.Module]) -> None:
    ours, script = infer.contenders(photos, networks, 4, CPU)
    assert ours.output() is None
    assert script.output() is None
    assert script.comparable is not None
    with pytest.raises(RuntimeError, match=r"^the runs differ in which photos they have"):
        script.comparable({})


def scale(values: list[float], factor: float) -> list[float]:
    values[:] = [value * factor for value in values]
    return values


# What is done to the records and to one of them, its boxes and its classes.
CHANGES: dict[str, Any] = {
    "lost": lambda records, ok, boxes, classes: records.pop(ok["image"]),
    "status": lambda records, ok, boxes, classes: ok.update(status="failed"),
    "box": lambda records, ok, boxes, classes: [scale(box, 1.01) for box in boxes["boxes"]],
    "NaN": lambda records, ok, boxes, classes: [scale(box, np.nan) for box in boxes["boxes"]],
    "label": lambda records, ok, boxes, classes: scale(boxes["labels"], 2),
    "no boxes": lambda records, ok, boxes, classes: [own.clear() for own in boxes.values()],
    "score": lambda records, ok, boxes, classes: scale(boxes["scores"], 1.01),
    "probability": lambda records, ok, boxes, classes: scale(classes["scores"], 1.01),
    "classes": lambda records, ok, boxes, classes: classes["labels"].reverse(),
}


@pytest.fixture(scope="module")
def records(
    photos: Path, networks: dict[str, nn.Module], tmp_path_factory: pytest.TempPathFactory
) -> infer.Records:
    out = tmp_path_factory.mktemp("script")
    found = infer.by_script(photos, out, networks, CPU)
    assert sum(record["status"] == "ok" for record in found.values()) == len(found) - 1 == 8
    assert len(list(out.glob("*.jpg"))) == 8
    boxes = [len(r["outputs"][DETECTOR]["boxes"]) for r in found.values() if r["outputs"]]
    assert min(boxes) > 5
    return found


@pytest.mark.parametrize("change", CHANGES)
def test_comparison_sees(records: infer.Records, change: str) -> None:
    infer.check(records, records)
    wrong = copy.deepcopy(records)
    ok = next(record for record in wrong.values() if record["status"] == "ok")
    CHANGES[change](wrong, ok, ok["outputs"][DETECTOR], ok["outputs"]["colours"])
    for pair in ((records, wrong), (wrong, records)):
        with pytest.raises(RuntimeError, match=r"in one run only|differ in which photos"):
            infer.check(*pair)
