"""Boxes as the bounds of moved masks or polygons."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from bad_input import check, table
from torch import Tensor
from visops import masks_to_rle, transforms

T: Any = transforms  # arguments of any type

ops = pytest.importorskip("torchvision.ops")
tv = pytest.importorskip("torchvision.tv_tensors")

SIZE = (40, 60)
IMAGE = torch.zeros(3, *SIZE)


def discs(count: int = 4, seed: int = 0) -> dict[str, Any]:
    """A sample of discs, their masks, their bounds and polygons around them."""
    rng = np.random.default_rng(seed)
    rows, columns = np.indices(SIZE) + 0.5
    masks, boxes, polygons = [], [], []
    for x, y, r in rng.uniform((8, 8, 3), (52, 32, 8), (count, 3)):
        masks.append((columns - x) ** 2 + (rows - y) ** 2 <= r * r)
        boxes.append([x - r, y - r, x + r, y + r])
        turns = np.linspace(0, 2 * np.pi, 40)[:-1]
        polygons.append([np.stack((x + r * np.cos(turns), y + r * np.sin(turns)), -1)])
    return {
        "image": IMAGE,
        "boxes": torch.tensor(boxes, dtype=torch.float32),
        "masks": torch.from_numpy(np.array(masks)),
        "segmentation": polygons,
        "labels": list(range(count)),
    }


def bounds(masks: Tensor) -> Tensor:
    """torchvision's, which count to the middle of the last pixel."""
    return ops.masks_to_boxes(masks) + torch.tensor([0.0, 0, 1, 1])


@pytest.mark.parametrize("seed", range(5))
def test_equals_masks_to_boxes(seed: int) -> None:
    steps = [
        T.RandomRotation((45, 45)),
        T.RandomHorizontalFlip(),
        T.RandomResizedCrop(48, (0.5, 1.0)),
    ]
    chain = T.Compose(steps, seed=seed, boxes="sanitize", boxes_from="masks")
    sample = discs(seed=seed)
    result = chain(sample, index=0)
    assert len(result["boxes"]) == len(result["masks"]) == len(result["labels"]) > 0
    assert torch.equal(result["boxes"], bounds(result["masks"]))
    loose = T.Compose(steps, seed=seed, boxes="sanitize")(sample, index=0)
    kept = [loose["labels"].index(label) for label in result["labels"]]
    assert (result["boxes"][:, :2] >= loose["boxes"][kept, :2] - 1).all()
    areas = [ops.box_area(b).sum() for b in (result["boxes"], loose["boxes"][kept])]
    assert areas[0] < areas[1]


def test_polygons() -> None:
    chain = T.Compose([T.RandomRotation((33, 33)), T.CenterCrop(30)], boxes_from="polygons")
    for boxes in ("keep", "clamp", "sanitize"):
        chain = T.Compose([*chain.transforms], boxes_from="polygons", boxes=boxes)
        result = chain(discs())
        for box, polygons in zip(result["boxes"], result["segmentation"], strict=True):
            points = np.concatenate(polygons) if polygons else np.zeros((1, 2))
            expected = np.concatenate((points.min(0), points.max(0)))
            np.testing.assert_allclose(box.numpy(), expected, atol=1e-5)
    # A disc's bounds don't grow when it turns.
    turned = T.Compose([T.RandomRotation((33, 33))], boxes_from="polygons")(discs())["boxes"]
    sides = [b[:, 2:] - b[:, :2] for b in (turned, discs()["boxes"])]
    torch.testing.assert_close(sides[0], sides[1], rtol=0.02, atol=0)


def test_forms() -> None:
    sample = discs()
    chain = T.Compose([T.RandomRotation((20, 20))], boxes_from="masks")
    expected = chain(sample)["boxes"]
    typed = tv.BoundingBoxes(sample["boxes"], format="XYXY", canvas_size=SIZE)
    for form in ("XYXY", "XYWH", "CXCYWH"):
        own = T.ConvertBoundingBoxFormat(form)(typed)
        got = chain({**sample, "boxes": own, "masks": tv.Mask(sample["masks"])})["boxes"]
        assert got.format.value == form
        back = T.ConvertBoundingBoxFormat("XYXY")(got).as_subclass(Tensor)
        torch.testing.assert_close(back, expected)
    arrays = chain({**sample, "boxes": sample["boxes"].tolist(), "masks": sample["masks"].numpy()})
    assert arrays["boxes"] == expected.tolist()
    integers = chain({**sample, "boxes": sample["boxes"].long()})["boxes"]
    assert integers.dtype == torch.int64
    assert torch.equal(integers, expected.long())
    dense = {key: torch.stack([sample[key]] * 2) for key in ("image", "boxes", "masks")}
    assert torch.equal(chain(dense)["boxes"], torch.stack([expected] * 2))
    listed = {key: [sample[key]] * 2 for key in ("image", "boxes", "masks")}
    assert torch.equal(chain(listed)["boxes"][1], expected)
    empty = chain({"image": IMAGE, "boxes": torch.zeros(0, 4), "masks": torch.zeros(0, *SIZE)})
    assert empty["boxes"].shape == (0, 4)


def test_what_is_gone_has_no_area() -> None:
    mask = torch.zeros(2, *SIZE, dtype=torch.uint8)
    mask[0, 2:4, 2:4] = 7
    mask[1, 18:22, 28:33] = 1
    sample = {"image": IMAGE, "boxes": torch.tensor([[0.0, 0, 60, 40]] * 2), "masks": mask}
    crop = T.CenterCrop(20)
    kept = T.Compose([crop], boxes_from="masks")(sample)["boxes"]
    assert kept.tolist() == [[0, 0, 0, 0], [8, 8, 13, 12]]
    dropped = T.Compose([crop], boxes_from="masks", boxes="sanitize")(sample)
    assert dropped["boxes"].tolist() == [[8, 8, 13, 12]]
    assert dropped["masks"].shape == (1, 20, 20)


def test_inverse_moves_corners() -> None:
    chain = T.Compose([T.RandomHorizontalFlip(1)], boxes_from="masks")
    sample = discs()
    result, params = chain(sample, return_params=True)
    back = chain.inverse({"boxes": result["boxes"]}, params)["boxes"]
    assert torch.equal(back, bounds(sample["masks"]))


@pytest.mark.parametrize("source", ["boxes", "masks"])
@pytest.mark.parametrize("boxes", ["clamp", "sanitize"])
def test_inverse_keeps_boxes_as_they_are(boxes: str, source: str) -> None:
    """Also beside masks, and beyond the picture: a network found them."""
    chain = T.Compose([T.CenterCrop(20)], boxes=boxes, boxes_from=source)
    params = chain.make_params(IMAGE)
    found = torch.tensor([[-30.0, 2, 5, 9], [3, 3, 3, 8]])
    sample = {"boxes": found, "masks": torch.ones(2, 20, 20), "labels": [1, 2]}
    back = chain.inverse(sample, params)
    assert back["boxes"].tolist() == [[-10, 12, 25, 19], [23, 13, 23, 18]]
    assert back["labels"] == [1, 2]


@table(
    (
        ValueError,
        "transforms: boxes_from is 'corners', must be 'boxes', 'masks' or 'polygons'",
        lambda: T.Compose([T.Pad(1)], boxes_from="corners"),
    ),
    (
        ValueError,
        "transforms: boxes_from is 'masks', sample['boxes'] has 0 of them beside it; must have one",
        lambda: T.Compose([T.Pad(1)], boxes_from="masks")(
            {"image": IMAGE, "boxes": torch.zeros(2, 4)}
        ),
    ),
    (
        ValueError,
        "transforms: boxes_from is 'masks', sample['boxes'] has rotated boxes; must be upright",
        lambda: T.Compose([T.Pad(1)], boxes_from="masks")(
            {
                "image": IMAGE,
                "boxes": tv.BoundingBoxes(torch.ones(1, 5), format="XYWHR", canvas_size=SIZE),
                "masks": torch.zeros(1, *SIZE),
            }
        ),
    ),
)
def test_bad_input(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@pytest.mark.parametrize("source", ["masks", "polygons"])
def test_shares_do_not_depend_on_the_number_of_passes(source: str) -> None:
    sample = {**discs(20), "area": torch.full((20,), 100.0)}
    crop = T.CenterCrop(24)
    later = T.Compose([T.GaussianBlur(3), T.RandomHorizontalFlip(0.0)])
    for options in ({"min_visibility": 0.5}, {}):
        results = [
            T.Compose(steps, boxes="sanitize", boxes_from=source, **options)(sample)
            for steps in ([crop], [crop, *later.transforms])
        ]
        assert results[0]["labels"] == results[1]["labels"]
        assert len(results[0]["labels"]) < 20
        torch.testing.assert_close(results[0]["area"], results[1]["area"])
        assert options or (results[0]["area"] < 100).any()


@pytest.mark.parametrize("source", ["masks", "polygons"])
@pytest.mark.parametrize("batched", [False, True])
def test_objects_of_every_outline(source: str, batched: bool) -> None:
    """COCO's crowds have an RLE, other objects polygons, some nothing: each keeps what it has."""
    mask = torch.zeros(SIZE, dtype=torch.bool)
    mask[5:15, 30:50] = True
    objects = [
        {"bbox": [22, 2, 8, 8], "segmentation": [[22, 2, 30, 2, 30, 10, 22, 10]], "iscrowd": 0},
        {"bbox": [30, 5, 20, 10], "segmentation": masks_to_rle(mask), "iscrowd": 1},
        {"bbox": [20, 20, 6, 4], "segmentation": [], "iscrowd": 0},
        {"bbox": [0, 30, 8, 8], "segmentation": [[0, 30, 8, 30, 8, 38, 0, 38]], "iscrowd": 0},
    ]
    objects = [{**own, "category_id": index} for index, own in enumerate(objects)]
    chain = T.Compose(
        [T.RandomHorizontalFlip(1.0), T.CenterCrop((40, 40))], boxes_from=source, boxes="clamp"
    )
    if batched:
        _, found = chain.collate([(IMAGE, objects), (IMAGE, objects[:2])])
        (found, few) = found
        assert [own["bbox"] for own in few] == [own["bbox"] for own in found[:2]]
    else:
        _, found = chain((IMAGE, objects))
    boxes = [own["bbox"] for own in found]
    assert boxes == [[20, 2, 8, 8], [0, 5, 20, 10], [24, 20, 6, 4], [0, 0, 0, 0]]
