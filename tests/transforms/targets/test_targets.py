"""Splitting samples into leaves and putting them together again: every structure and type."""

import collections
import datetime
import pathlib
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor
from visops.transforms.sample.images import image_sizes
from visops.transforms.sample.split import split_sample

tv = pytest.importorskip("torchvision.tv_tensors")
pil = pytest.importorskip("PIL.Image")

IMAGE = torch.arange(3 * 5 * 7, dtype=torch.uint8).reshape(3, 5, 7)
SIZE = (5, 7)


def kinds(sample: Any, **options: Any) -> list[str]:
    return [leaf.kind for leaf in split_sample(sample, **options)[0]]


def round_trip(sample: Any) -> Any:
    leaves, rebuild = split_sample(sample)
    image_sizes(leaves)
    return rebuild(leaves)


@pytest.mark.parametrize(
    ("shape", "array", "layout", "size", "batch"),
    [
        ((3, 5, 7), False, "CHW", (5, 7), None),
        ((5, 7, 3), False, "HWC", (5, 7), None),
        ((3, 5, 4), False, "CHW", (5, 4), None),  # ambiguous: CHW for a tensor,
        ((3, 5, 4), True, "HWC", (3, 5), None),  # HWC for an array
        ((5, 5, 5), False, "CHW", (5, 5), None),
        ((2, 5, 7, 1), False, "HWC", (5, 7), 2),
        ((2, 1, 5, 7), True, "CHW", (5, 7), 2),
        ((5, 7), True, "HWC", (5, 7), None),
    ],
)
def test_where_channels_are(
    shape: tuple[int, ...], array: bool, layout: str, size: tuple[int, int], batch: int | None
) -> None:
    image = np.zeros(shape, np.uint8) if array else torch.zeros(shape, dtype=torch.uint8)
    for sample in (image, {"image": image}, (image, 3)):
        leaf = split_sample(sample)[0][0]
        assert (leaf.kind, leaf.layout, leaf.batch) == ("image", layout, batch)
        assert image_sizes([leaf]).tolist() == [list(size)] * (batch or 1)


def test_bare_images_come_back_as_tensors() -> None:
    for image in (IMAGE, IMAGE.permute(1, 2, 0), IMAGE.permute(1, 2, 0).numpy()):
        result = round_trip(image)
        assert type(result) is Tensor
        assert torch.equal(result, IMAGE)
    picture = pil.fromarray(IMAGE.permute(1, 2, 0).numpy())
    assert torch.equal(round_trip(picture), IMAGE)
    typed = round_trip(tv.Image(IMAGE))
    assert type(typed) is tv.Image
    assert torch.equal(typed, IMAGE)


def test_pillow_modes() -> None:
    palette = pil.fromarray(np.arange(35, dtype=np.uint8).reshape(5, 7)).convert("P")
    assert round_trip(palette).shape == (3, 5, 7)  # colours, not indices
    for mode, channels in (("L", 1), ("RGB", 3), ("RGBA", 4)):
        assert round_trip(pil.new(mode, (7, 5))).shape == (channels, 5, 7)
    sample = {"image": pil.new("RGB", (7, 5)), "mask": palette}
    leaves, _ = split_sample(sample)
    assert [leaf.kind for leaf in leaves] == ["image", "mask"]
    assert leaves[1].value.shape == (5, 7)  # indices, not colours


def test_every_structure_comes_back() -> None:
    class Pair(NamedTuple):
        image: Any
        label: int

    class Names(dict):  # type: ignore[type-arg]
        pass

    boxes = tv.BoundingBoxes([[0, 0, 2, 2]], format="XYXY", canvas_size=SIZE)
    now = datetime.datetime(2024, 1, 1)
    sample = {
        "image": IMAGE,
        "target": {"boxes": torch.tensor([[1.0, 1, 2, 2]]), "labels": torch.tensor([4])},
        "deep": [{"more": (tv.Mask(torch.zeros(5, 7)), boxes)}, None],
        "id": 5,
        "name": "a",
        "path": pathlib.Path("a"),
        "when": now,
        "scalar": np.float32(2.0),
        "vector": torch.arange(3),
        "sizes": [5, 7],
    }
    result = round_trip(sample)
    assert list(result) == list(sample)
    assert result is not sample
    assert result["target"] is not sample["target"]
    assert result["target"]["boxes"].tolist() == [[1, 1, 2, 2]]
    more = result["deep"][0]["more"]
    assert isinstance(more, tuple)
    assert type(more[0]) is tv.Mask
    assert type(more[1]) is tv.BoundingBoxes
    assert result["deep"][1] is None
    for key in ("id", "name", "path", "when", "scalar", "vector", "sizes"):
        assert result[key] is sample[key]

    pair = round_trip(Pair(IMAGE, 3))
    assert type(pair) is Pair
    assert pair.label == 3
    assert type(round_trip(Names(image=IMAGE))) is Names
    default = round_trip(collections.defaultdict(list, image=IMAGE))
    assert default.default_factory is list
    assert type(round_trip([IMAGE, 3])) is list


def test_targets_come_back_as_they_were() -> None:
    numbers = [[1, 1, 2, 2], [0, 0, 3, 4]]
    sample = {
        "image": IMAGE,
        "boxes": numbers,
        "masks": [np.ones(SIZE, np.uint8), np.zeros(SIZE, np.uint8)],
        "keypoints": [(1.0, 2.0)],
        "mask": np.ones(SIZE, np.int32),
        "labels": ["a", "b"],
    }
    leaves, _ = split_sample(sample)
    by_name = {leaf.key: leaf for leaf in leaves}
    assert by_name["boxes"].value.shape == (2, 4)
    assert by_name["masks"].value.shape == (2, *SIZE)
    result = round_trip(sample)
    assert result["boxes"] == numbers
    assert result["keypoints"] == [[1.0, 2.0]]
    assert [type(mask) for mask in result["masks"]] == [np.ndarray] * 2
    assert result["mask"].dtype == np.int32
    assert result["labels"] == ["a", "b"]
    empty = round_trip({"image": IMAGE, "boxes": [], "masks": [], "keypoints": [], "labels": []})
    assert [empty[key] for key in ("boxes", "masks", "keypoints", "labels")] == [[], [], [], []]


def test_names_in_dicts() -> None:
    mask = torch.zeros(5, 7, dtype=torch.int64)
    boxes = torch.zeros(0, 4)
    assert kinds({"img": IMAGE, "mask": mask, "bboxes": boxes}) == ["image", "mask", "boxes"]
    sample = {"photo": IMAGE, "seg": mask, "faces": boxes, "embedding": torch.zeros(4, 8)}
    keys = {"image": ["photo"], "mask": ["seg"], "boxes": ["faces"], "other": ["embedding"]}
    assert kinds(sample, keys=keys) == ["image", "mask", "boxes", "other"]
    # Types take precedence over names.
    assert kinds({"labels": tv.Image(IMAGE), "x": tv.Mask(mask)}) == ["image", "mask"]
    assert kinds({"image": IMAGE, "anything": object()}, keys={"other": ["anything"]}) == [
        "image",
        "other",
    ]


def test_the_first_array_of_a_tuple_is_the_image() -> None:
    assert kinds((IMAGE, 3)) == ["image", "other"]
    assert kinds((3, IMAGE, torch.tensor(4), torch.arange(6))) == [
        "other",
        "image",
        "other",
        "other",
    ]
    assert kinds((IMAGE, {"boxes": torch.zeros(1, 4)})) == ["image", "boxes"]
    assert kinds((IMAGE, tv.Mask(torch.zeros(5, 7)))) == ["image", "mask"]


def test_lists_of_images_are_batches() -> None:
    images = [IMAGE, IMAGE[:, :4, :6]]
    leaf = split_sample(images)[0][0]
    assert leaf.batch == 2
    assert image_sizes([leaf]).tolist() == [[5, 7], [4, 6]]
    sample = {
        "images": images,
        "boxes": [torch.zeros(1, 4), torch.zeros(0, 4)],
        "mask": [torch.zeros(5, 7), torch.zeros(4, 6)],
        "labels": [torch.tensor([1]), torch.tensor([])],
        "keypoints": [[[0.0, 1.0]], []],
        "id": [1, 2],
    }
    leaves, rebuild = split_sample(sample)
    assert {leaf.kind: leaf.batch for leaf in leaves if leaf.kind != "other"} == {
        "image": 2,
        "boxes": 2,
        "mask": 2,
        "labels": 2,
        "keypoints": 2,
    }
    assert image_sizes(leaves).tolist() == [[5, 7], [4, 6]]
    result = rebuild(leaves)
    assert [box.shape for box in result["boxes"]] == [(1, 4), (0, 4)]
    assert result["keypoints"] == [[[0.0, 1.0]], []]
    assert result["id"] == [1, 2]
    # An image that could have either layout has that of the others.
    arrays = [np.zeros((5, 7, 3)), np.zeros((3, 9, 4)), np.zeros((4, 9, 3))]
    leaf = split_sample([np.moveaxis(arrays[0], 2, 0), arrays[1]])[0][0]
    assert (leaf.layout, image_sizes([leaf]).tolist()) == ("CHW", [[5, 7], [9, 4]])


def test_batches() -> None:
    images = torch.zeros(2, 3, 5, 7)
    sample = {
        "image": images,
        "mask": torch.zeros(2, 5, 7, dtype=torch.bool),
        "boxes": torch.zeros(2, 6, 4),
        "keypoints": torch.zeros(2, 3, 2),
        "labels": torch.zeros(2, 6),
        "class": torch.zeros(2),
    }
    leaves, _ = split_sample(sample)
    assert [leaf.batch for leaf in leaves] == [2, 2, 2, 2, 2, None]
    assert [leaf.per_box for leaf in leaves] == [False, False, False, False, True, False]
    assert image_sizes(leaves).tolist() == [[5, 7]] * 2


def test_videos() -> None:
    leaf = split_sample(tv.Video(torch.zeros(6, 3, 5, 7)))[0][0]
    assert (leaf.frames, leaf.batch, image_sizes([leaf]).tolist()) == (True, None, [[5, 7]])
    leaf = split_sample(tv.Video(torch.zeros(2, 6, 3, 5, 7)))[0][0]
    assert (leaf.frames, leaf.batch) == (True, 2)


def test_what_belongs_to_boxes() -> None:
    sample = {
        "image": IMAGE,
        "boxes": torch.zeros(2, 4),
        "labels": ["a", "b"],
        "scores": torch.zeros(2),
        "area": [1.0, 2.0],
        "masks": torch.zeros(2, 5, 7),
        "keypoints": torch.zeros(2, 4, 3),
        "mask": torch.zeros(2, 5, 7),  # as many planes as boxes, but its name is for the image
        "orig_size": torch.tensor([5, 7]),  # as many entries as boxes, but not a label
        "image_id": torch.tensor([1]),
    }
    leaves, _ = split_sample(sample)
    per_box = {leaf.key for leaf in leaves if leaf.per_box}
    assert per_box == {"labels", "scores", "area", "masks", "keypoints"}
    no_boxes = {key: value for key, value in sample.items() if key != "boxes"}
    assert not any(leaf.per_box for leaf in split_sample(no_boxes)[0])
    scalar = split_sample({"image": IMAGE, "boxes": torch.zeros(2, 4), "labels": 3})[0]
    assert not scalar[2].per_box


def test_the_callers_containers_are_not_changed() -> None:
    boxes = torch.tensor([[1, 1, 2, 2]])
    target = {"boxes": boxes, "keypoints": torch.zeros(1, 2)}
    sample = {"image": IMAGE, "target": target}
    leaves, rebuild = split_sample(sample)
    leaves[1].value = leaves[1].value + 1
    result = rebuild(leaves)
    assert result["target"]["boxes"].tolist() == [[2, 2, 3, 3]]
    assert target["boxes"] is boxes
    assert boxes.tolist() == [[1, 1, 2, 2]]
