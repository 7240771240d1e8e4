"""What has an entry per box follows the boxes, whatever it is called and holds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from bad_input import check
from torch import Tensor
from visops import transforms

tv = pytest.importorskip("torchvision.tv_tensors")

IMAGE = torch.zeros(3, 10, 12)
# The second box is too small to keep.
BOXES = torch.tensor([[0.0, 0, 3, 3], [9, 9, 9.2, 9.5], [2, 2, 5, 5]])


def sanitized(sample: Any, **options: Any) -> Any:
    flip = transforms.RandomHorizontalFlip(1.0)
    return transforms.Compose([flip], boxes="sanitize", **options)(sample)


def beside_boxes(**entries: Any) -> dict[str, Any]:
    return sanitized({"image": IMAGE, "boxes": BOXES, **entries})  # type: ignore[no-any-return]


def test_flat_extras_follow_their_boxes() -> None:
    result = beside_boxes(
        class_labels=[1, 2, 3],
        names=("a", "b", "c"),
        difficult=torch.tensor([0, 1, 2]),
        weights=np.array([0.5, 1.0, 1.5]),
    )
    assert len(result["boxes"]) == 2
    assert result["class_labels"] == [1, 3]
    assert result["names"] == ("a", "c")
    assert torch.equal(result["difficult"], torch.tensor([0, 2]))
    assert result["weights"].tolist() == [0.5, 1.5]


def test_lists_of_anything_follow_their_boxes() -> None:
    objects = [{"id": 1, "tags": ["x"]}, {"id": 2}, {"id": 3}]
    vectors = [torch.zeros(8), torch.ones(8), torch.full((8,), 2.0)]
    result = beside_boxes(annotations=objects, features=vectors)
    assert result["annotations"] == [objects[0], objects[2]]
    assert [float(vector[0]) for vector in result["features"]] == [0.0, 2.0]
    typed = tv.BoundingBoxes(BOXES, format="XYXY", canvas_size=(10, 12))
    result = sanitized({"image": IMAGE, "found": typed, "annotations": objects})
    assert result["annotations"] == [objects[0], objects[2]]


def test_what_describes_the_image_stays() -> None:
    entries: dict[str, Any] = {
        "image_id": torch.tensor([7, 8, 9]),
        "img_shape": (10, 12, 3),
        "two": [1, 2],
        "four": torch.zeros(4),
        "file_name": ["a", "b", "c"],
        "scalar": torch.tensor(3),
    }
    result = beside_boxes(**entries)
    assert all(result[key] is value for key, value in entries.items())
    # Extras of another container belong to nothing here.
    result = sanitized({"image": IMAGE, "n": [1, 2, 3], "target": {"boxes": BOXES}})
    assert result["n"] == [1, 2, 3]


def test_named_tuples_are_not_lists_of_entries() -> None:
    class Camera(NamedTuple):
        focal: float
        x: float
        y: float

    camera = Camera(9.0, 6.0, 5.0)
    assert beside_boxes(camera=camera)["camera"] == camera


def test_keys_win() -> None:
    sample = {"image": IMAGE, "boxes": BOXES, "camera": [1, 2, 3], "size": [4, 5, 6]}
    result = sanitized(sample, keys={"other": ["camera"], "labels": ["size"]})
    assert result["camera"] == [1, 2, 3]
    assert result["size"] == [4, 6]


@pytest.mark.parametrize("policy", ["keep", "clamp"])
def test_extras_stay_whole_where_no_box_is_dropped(policy: str) -> None:
    names = ["a", "b", "c"]
    sample = {"image": IMAGE, "boxes": BOXES, "names": names}
    flip = transforms.RandomHorizontalFlip(1.0)
    assert transforms.Compose([flip], boxes=policy)(sample)["names"] is names


def test_batches_of_extras() -> None:
    counts = (3, 2)
    sample = {
        "image": torch.zeros(2, 3, 10, 12),
        "boxes": [BOXES, BOXES[1:]],
        "names": [["a", "b", "c"], ["d", "e"]],
        "difficult": [torch.arange(count) for count in counts],
        "batch_names": ["x", "y"],
    }
    result = sanitized(sample)
    assert [len(boxes) for boxes in result["boxes"]] == [2, 1]
    assert result["names"] == [["a", "c"], ["e"]]
    assert [flags.tolist() for flags in result["difficult"]] == [[0, 2], [1]]
    assert result["batch_names"] == ["x", "y"]


@pytest.mark.parametrize("counts", [(3, 2), (3, 3)])
def test_collated_extras(counts: tuple[int, ...]) -> None:
    chain = transforms.Compose([transforms.RandomVerticalFlip(1.0)], boxes="sanitize")
    samples = [
        {
            "image": IMAGE,
            "boxes": BOXES[:count],
            "names": ["a", "b", "c"][:count],
            "difficult": torch.arange(count),
        }
        for count in counts
    ]
    result = chain.collate(samples)
    assert [len(boxes) for boxes in result["boxes"]] == [count - 1 for count in counts]
    assert result["names"] == [["a", "c"][: count - 1] for count in counts]
    assert [flags.tolist() for flags in result["difficult"]] == [
        [0, 2][: count - 1] for count in counts
    ]


def test_extras_follow_after_foreign_transforms() -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2")
    chain = transforms.Compose([v2.RandomHorizontalFlip(1.0)], boxes="sanitize")
    sample = {"image": IMAGE, "boxes": BOXES, "names": ["a", "b", "c"]}
    assert chain(sample)["names"] == ["a", "c"]
    batch = {"image": IMAGE[None], "boxes": [BOXES], "names": [["a", "b", "c"]]}
    assert chain(batch)["names"] == [["a", "c"]]


def test_tables_with_a_row_per_box_are_in_doubt() -> None:
    message = "transforms: boxes='sanitize' can't tell whether sample['table'] belongs to sample"
    check(ValueError, message, lambda: beside_boxes(table=torch.zeros(3, 8)))
    for kind, rows in (("labels", 2), ("other", 3)):
        sample = {"image": IMAGE, "boxes": BOXES, "table": torch.zeros(3, 8)}
        assert len(sanitized(sample, keys={kind: ["table"]})["table"]) == rows
    other: Tensor = torch.zeros(5, 8)
    assert beside_boxes(table=other)["table"] is other
