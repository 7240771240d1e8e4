"""Boxes that don't say their format are read in the chain's `box_format`, and come out in it."""

from typing import Any

import numpy as np
import pytest
import torch
from visops import transforms

T: Any = transforms  # arguments of any type

HEIGHT, WIDTH = 40, 60
IMAGE = torch.zeros(3, HEIGHT, WIDTH)
SIDES = np.array([WIDTH, HEIGHT, WIDTH, HEIGHT])
FORMATS = ["xyxy", "xywh", "cxcywh", "yolo", "albumentations"]
STEPS: list[Any] = [
    T.RandomHorizontalFlip(1.0),
    T.RandomCrop((30, 30)),
    T.GaussianBlur(3),
    T.Resize((48, 20)),
]


def corners_as(corners: np.ndarray, form: str, size: tuple[int, int]) -> np.ndarray:
    low, high = corners[:, :2], corners[:, 2:]
    first = (low + high) / 2 if form in ("cxcywh", "yolo") else low
    second = high if form in ("xyxy", "albumentations") else high - low
    rows = np.concatenate((first, second), 1)
    shares = form in ("yolo", "albumentations")
    return rows / np.tile(size[::-1], 2) if shares else rows


def corners(seed: int, count: int = 12) -> np.ndarray:
    rng = np.random.default_rng(seed)
    points = rng.uniform(0, 1, (count, 2, 2)) * (WIDTH, HEIGHT)
    return np.concatenate((points.min(1), points.max(1)), 1)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("options", [{}, {"boxes": "sanitize", "min_visibility": 0.3}], ids=str)
def test_every_format_moves_alike(form: str, options: dict[str, Any]) -> None:
    chain = T.Compose(STEPS, seed=0, box_format=form, **options)
    plain = T.Compose(STEPS, seed=0, **options)
    for index in range(4):
        given = corners(index)
        expected = plain({"image": IMAGE, "boxes": torch.from_numpy(given)}, index=index)["boxes"]
        expected = corners_as(expected.numpy(), form, (48, 20))
        own = corners_as(given, form, (HEIGHT, WIDTH))
        for value in (torch.from_numpy(own), torch.from_numpy(own).float(), own, own.tolist()):
            found = chain({"image": IMAGE, "boxes": value}, index=index)["boxes"]
            assert type(found) is type(value)
            np.testing.assert_allclose(found, expected, atol=1e-4)
    batch: dict[str, Any] = {
        "image": torch.stack([IMAGE] * 2),
        "boxes": [corners_as(corners(i), form, (HEIGHT, WIDTH)) for i in (0, 1)],
    }
    found = chain(batch, index=[0, 1])["boxes"]
    for index in (0, 1):
        one = chain({"image": IMAGE, "boxes": batch["boxes"][index]}, index=index)["boxes"]
        np.testing.assert_allclose(found[index], one)
    if not options:
        dense = chain({**batch, "boxes": np.stack(batch["boxes"])}, index=[0, 1])["boxes"]
        np.testing.assert_allclose(dense, np.stack(found))


def test_what_says_its_format_keeps_it() -> None:
    tv = pytest.importorskip("torchvision.tv_tensors")
    flip = T.Compose([T.RandomHorizontalFlip(1.0)], box_format="yolo")
    typed = tv.BoundingBoxes([[10.0, 5, 30, 25]], format="XYXY", canvas_size=(HEIGHT, WIDTH))
    assert flip({"image": IMAGE, "boxes": typed})["boxes"].tolist() == [[30, 5, 50, 25]]
    annotation = {"bbox": [10, 5, 20, 20], "category_id": 1, "area": 4}
    assert flip((IMAGE, [annotation]))[1][0]["bbox"] == [30, 5, 20, 20]


def test_inverse() -> None:
    chain = T.Compose([T.Letterbox((64, 64), fill=0)], box_format="yolo")
    given = corners_as(corners(0), "yolo", (HEIGHT, WIDTH))
    out, params = chain({"image": IMAGE, "boxes": given}, return_params=True)
    back = chain.inverse({"image": out["image"], "boxes": out["boxes"]}, params)["boxes"]
    np.testing.assert_allclose(back, given, atol=1e-6)


@pytest.mark.parametrize(
    "value", [[[0.1, 0.1, 0.4, 0.4]], [[0.0, 0.0, 1.0, 1.0], [0.2, 0.3, 0.4, 0.9]]]
)
@pytest.mark.parametrize("form", ["tensor", "array", "list", "dense"])
def test_shares_are_refused_where_pixels_are_meant(value: Any, form: str) -> None:
    make: Any = {
        "tensor": torch.tensor,
        "array": np.array,
        "list": list,
        "dense": lambda v: np.array([v, v]),
    }
    image = torch.stack([IMAGE] * 2) if form == "dense" else IMAGE
    for options in ({}, {"boxes": "sanitize"} if form != "dense" else {"boxes": "clamp"}):
        chain = T.Compose([T.RandomHorizontalFlip(1.0)], **options)
        with pytest.raises(ValueError, match=r"lies within \[0, 1\] of an image of 40 rows and 60"):
            chain({"image": image, "boxes": make[form](value)})
    corner = [[0, 0, 1, 1]], [[0.0, 0.0, 1.0, 1.0]], [[0.5, 0.5, 9.5, 3.5]], np.zeros((0, 4))
    for allowed in corner:
        T.Compose([T.RandomHorizontalFlip(1.0)])({"image": IMAGE, "boxes": allowed})


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="box_format is 'coco', must be one of 'xyxy', 'xywh'"):
        T.Compose([T.Resize(8)], box_format="coco")
    with pytest.raises(TypeError, match="has dtype int64, must be floating: box_format='yolo'"):
        T.Compose([T.Resize(8)], box_format="yolo")(
            {"image": IMAGE, "boxes": np.array([[1, 1, 1, 1]])}
        )


@pytest.mark.parametrize("form", FORMATS)
def test_mixes(form: str) -> None:
    tall, wide = (HEIGHT, WIDTH), (30, 70)
    boxes = [corners(0), corners(1) * ((wide[1] / WIDTH, wide[0] / HEIGHT) * 2)]
    masks = [torch.ones(12, *size, dtype=torch.uint8) for size in (tall, wide)]
    for name in ("Mosaic", "CutMix", "MixUp", "CopyPaste"):
        sizes = (tall, wide) if name in ("Mosaic", "CopyPaste") else (tall, tall)
        results = []
        for own in (form, "xyxy"):
            arguments = {"size": 32, "fill": 0} if name == "Mosaic" else {}
            mix = getattr(T, name)(**arguments, seed=0, box_format=own)
            rows = [corners_as(b, own, size) for b, size in zip(boxes, sizes, strict=True)]
            batch = {"image": [torch.zeros(3, *size) for size in sizes], "boxes": rows}
            batch["labels"] = [list(range(12)), list(range(12, 24))]
            if name == "CopyPaste":
                batch["masks"] = masks
            results.append(mix(batch))
        found, expected = results
        assert found["labels"] == expected["labels"]
        for index, rows in enumerate(found["boxes"]):
            size = tuple(found["image"][index].shape[-2:])
            np.testing.assert_allclose(
                rows, corners_as(np.array(expected["boxes"][index]), form, size), atol=1e-9
            )
