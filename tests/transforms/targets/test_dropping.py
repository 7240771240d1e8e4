"""Which boxes `sanitize` drops, by what is left of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torchvision import tv_tensors
from visops import transforms

from transforms.samples import assert_same, image, in_one_call, mixed, noted, typed_boxes
from transforms.test_pipeline import SAMPLES, detection, still

T: Any = transforms
IMAGE = torch.zeros(3, 40, 60)
# Widths and heights 20 x 10, 2 x 30, 6 x 6, and 10 x 10 cut in half by the left edge.
ROWS = [[10.0, 5, 30, 15], [30, 5, 32, 35], [50, 20, 56, 26], [-5, 0, 5, 10]]


def kept(transform: Any, sample: dict[str, Any] | None = None, **options: Any) -> Any:
    chain = T.Compose(transform, boxes="sanitize", **options)
    given = {"image": IMAGE, "boxes": torch.tensor(ROWS), "labels": [0, 1, 2, 3]}
    return chain(given if sample is None else sample)["labels"]


def test_sides_and_areas() -> None:
    still = [T.RandomHorizontalFlip(0.0)]
    assert kept(still) == [0, 1, 2, 3]
    assert kept(still, min_size=3) == [0, 2, 3]
    assert kept(still, min_size=5.5) == [0, 2]
    assert kept(still, min_area=50) == [0, 1, 3]
    assert kept(still, min_area=51) == [0, 1]
    assert kept(still, min_area=51, min_size=10) == [0]


def test_visibility() -> None:
    still = [T.RandomHorizontalFlip(0.0)]
    assert kept(still, min_visibility=0.5) == [0, 1, 2, 3]
    assert kept(still, min_visibility=0.51) == [0, 1, 2]
    # Growing doesn't count, and cuts in several passes do.
    assert kept([T.Resize((80, 120))], min_visibility=0.51) == [0, 1, 2]
    cut = [T.RandomCrop((40, 60)), T.RandomErasing(1.0), T.CenterCrop((40, 40))]  # cuts ten columns
    assert kept(cut, min_visibility=0.9) == [0, 1]
    twice = [*cut, T.RandomErasing(1.0), T.CenterCrop((40, 20))]  # columns 20 to 40 are left
    chain = T.Compose(twice)
    assert len(chain.passes) == 3
    assert kept(twice, min_visibility=0.5) == [0, 1]
    assert kept(twice, min_visibility=0.51) == [1]


@pytest.mark.parametrize("kind", ["tensor", "array", "list"])
def test_batches(kind: str) -> None:
    make: Any = {"tensor": torch.tensor, "array": np.array, "list": list}[kind]
    sample = {
        "image": torch.zeros(2, 3, 40, 60),
        "boxes": [make(ROWS), make(ROWS[2:])],
        "labels": [[0, 1, 2, 3], [2, 3]],
    }
    v2 = pytest.importorskip("torchvision.transforms.v2")
    for chain in ([T.Pad(0)], [T.Pad(0), v2.RandomHorizontalFlip(1.0)]):
        assert kept(chain, sample, min_visibility=0.6) == [[0, 1, 2], [2]]
        assert kept(chain, sample, min_area=60) == [[0, 1], []]


def test_shares_stay_with_their_boxes_across_other_transforms() -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2")
    chain = [T.CenterCrop((40, 40)), v2.RandomHorizontalFlip(1.0), T.Resize((80, 80))]
    assert kept(chain, min_visibility=0.9) == [0, 1]
    sample = {"image": IMAGE[None], "boxes": [torch.tensor(ROWS)], "labels": [[0, 1, 2, 3]]}
    assert kept(chain, sample, min_visibility=0.9) == [[0, 1]]


LATER: dict[str, Any] = {
    "turn": T.RandomRotation((30, 30)),
    "perspective": T.RandomPerspective(0.5, 1.0),
    "bend": T.ElasticTransform(100.0, 3.0),
    "lens": T.OpticalDistortion((0.5, 0.5), p=1.0),
}


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("kind", ["array", "tensor", "tracked", "batch"])
def test_what_a_crop_has_cut_off_stays_away(later: str, kind: str) -> None:
    """A box's side on the edge spans no box again when a later pass turns or bends it."""
    chain = T.Compose([T.CenterCrop(20), T.JPEG(90), LATER[later]], seed=0, boxes="sanitize")
    image = IMAGE.to(torch.uint8)
    boxes = torch.tensor([[0.0, 12, 15, 30], [45, 12, 58, 30], [24, 14, 34, 26], [22, 0, 38, 8]])
    given: Any = {"image": image, "boxes": boxes, "labels": [0, 1, 2, 3]}
    if kind == "array":
        given["boxes"] = boxes.numpy()
    elif kind == "tracked":
        given["boxes"] = boxes.requires_grad_()
    elif kind == "batch":
        given = {"image": image[None], "boxes": [boxes], "labels": [[0, 1, 2, 3]]}
    for index in range(5):
        found = chain(given, index=[index] if kind == "batch" else index)["labels"]
        assert found == ([[2]] if kind == "batch" else [2])
    clamped = T.Compose(chain.transforms, seed=0, boxes="clamp")
    x1, y1, x2, y2 = torch.as_tensor(clamped({"image": image, "boxes": boxes.detach()})["boxes"]).T
    assert (((x2 - x1) * (y2 - y1)) > 0).tolist() == [False, False, True, False]


@pytest.mark.parametrize("limits", [{}, {"min_size": 12.0, "min_area": 500.0}], ids=str)
@pytest.mark.parametrize("name", ["all", "detection", "no boxes", "boxes", "array boxes"])
def test_boxes_that_are_dropped(name: str, limits: dict[str, float]) -> None:
    """With all that belongs to them; what comes out has seen some of both kinds."""
    counts = set()
    for make in (detection, still, mixed):
        chain = transforms.Compose(make(), seed=0, boxes="sanitize", **limits)  # type: ignore[arg-type]
        sample = SAMPLES[name]()
        chain(sample)
        for index in range(12):
            found, expected = in_one_call(chain, sample, index=index)
            assert_same(found, expected)
            target = found if isinstance(found, dict) else found[1]
            counts.add(len(target["boxes"]))
    assert len(counts) > 1 or name == "no boxes"


LABELS: dict[str, tuple[Callable[[], Any], bool]] = {
    "list": (lambda: ["a", "b", "c"], True),
    "tuple": (lambda: (1, 2, 3), True),
    "rows": (lambda: torch.eye(3), True),
    "one for the image": (lambda: "night", True),
    "number": (lambda: torch.tensor(3), True),
    "array": (lambda: np.array([1, 2, 3]), True),
    "typed": (lambda: tv_tensors.Mask(torch.ones(3, 1)), False),
    "keys": (lambda: dict.fromkeys((1, 2, 3)).keys(), False),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_of_boxes_that_are_dropped(name: str) -> None:
    make, in_one_call = LABELS[name]
    chain = transforms.Compose(detection(), seed=0, boxes="sanitize")

    def outcome() -> Any:
        sample = {"image": image(), "boxes": typed_boxes(), "labels": make(), "id": [1, 2, 3]}
        try:
            return chain(sample, index=3)
        except (TypeError, ValueError) as error:
            return str(error)

    outcome()
    with noted(direct=False):
        expected = outcome()
    with noted() as went:
        found = outcome()
    assert went in ([in_one_call], [])
    assert_same(found, expected)
