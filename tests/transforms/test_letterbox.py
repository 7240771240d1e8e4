"""Letterboxes and centre crops: where the image lies, what is beside it, that they fuse."""

import math
from typing import Any

import numpy as np
import pytest
import torch
import visops
from torch import Tensor
from visops import transforms as T

from transforms.chains import photo

SIZES = [(48, 64), (64, 48), (31, 97), (20, 20), (1, 200)]


def slow(image: Tensor, size: tuple[int, int], center: bool, scaleup: bool) -> Tensor:
    """Letterbox by torch's own resize and a copy into the bars."""
    height, width = image.shape[-2:]
    factor = min(size[0] / height, size[1] / width)
    factor = factor if scaleup else min(factor, 1.0)
    rows, columns = (max(1, round(side * factor)) for side in (height, width))
    resized = torch.nn.functional.interpolate(
        image[None], (rows, columns), mode="bilinear", antialias=True
    )[0]
    out = torch.full((image.shape[0], *size), 0.25, dtype=image.dtype)
    top, left = ((size[0] - rows) // 2, (size[1] - columns) // 2) if center else (0, 0)
    out[:, top : top + rows, left : left + columns] = resized
    return out


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("scaleup", [True, False])
def test_letterbox_is_a_resize_between_bars(center: bool, scaleup: bool) -> None:
    for height, width in SIZES:
        image = torch.rand(3, height, width, dtype=torch.float64)
        for size in ((40, 40), (80, 61)):
            transform = T.Letterbox(size, 0.25, center, scaleup)
            expected = slow(image, size, center, scaleup)
            torch.testing.assert_close(transform(image), expected, rtol=0.0, atol=1e-6)


def test_batches_of_different_sizes_and_their_targets() -> None:
    images = [torch.rand(3, *size) for size in SIZES]
    boxes = [torch.tensor([[0.0, 0.0, width, height]]) for height, width in SIZES]
    chain = T.Compose([T.Letterbox(64, fill=0.5)])
    out, params = chain({"image": images, "boxes": boxes}, return_params=True)
    for i, (height, width) in enumerate(SIZES):
        assert torch.equal(out["image"][i], chain(images[i]))
        rows, columns, top, left = (
            float(params.steps[0][name][i]) for name in ("height", "width", "top", "left")
        )
        factor = 64 / max(height, width)
        assert (rows, columns) == (max(1, round(height * factor)), round(width * factor))
        assert (top, left) == (math.floor((64 - rows) / 2), math.floor((64 - columns) / 2))
        assert out["boxes"][i].tolist() == [[left, top, left + columns, top + rows]]
    back = chain.inverse({"boxes": out["boxes"]}, params)["boxes"]
    for one, other in zip(back, boxes, strict=True):
        torch.testing.assert_close(one, other, rtol=0.0, atol=1e-4)


@pytest.mark.parametrize("size", [(640, 100), (33, 500)])
def test_nearest_takes_exact_pixels(size: tuple[int, int]) -> None:
    for length in (50, 64, 250):
        image = torch.arange(1.0, length + 1).expand(1, length, length)
        out, params = T.Letterbox(size, 0.0, interpolation="nearest")(image, return_params=True)
        side, top, left = (int(params.steps[0][n][0]) for n in ("width", "top", "left"))
        wanted = [1 + (2 * i + 1) * length // (2 * side) for i in range(side)]
        assert out[0, top, left : left + side].tolist() == wanted
        assert (out[0, :, :left] == 0).all()
        assert (out[0, top + side :] == 0).all()


def test_masks_have_their_own_fill() -> None:
    sample = {"image": photo(), "mask": np.zeros((380, 440), np.uint8)}
    out = T.Compose([T.Letterbox(100)], mask_fill=7)(sample)
    assert (out["image"][:, :7] == 114).all()
    assert (out["mask"][:7] == 7).all()
    assert (out["mask"][7:93] == 0).all()


def test_letterbox_joins_its_neighbours() -> None:
    chain: list[Any] = [
        T.RandomHorizontalFlip(1.0),
        T.Letterbox(96),
        T.ColorJitter(0.2),
        T.ToDtype(torch.float32, scale=True),
    ]
    assert len(T.Compose(chain).passes) == 1
    assert len(T.Compose([T.Pad(4, fill=114), *chain]).passes) == 1
    reasons = [p.reason for p in T.Compose([T.Pad(4, fill=3), *chain]).passes]
    assert reasons == ["", "Letterbox has fill 114 after 3"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((0, 3),), "size is 0, must be a whole number >= 1"),
        ((8, float("nan")), "fill is nan, must be a finite number"),
        ((8, 0, True, True, "area"), "interpolation is 'area', must be"),
    ],
)
def test_wrong_arguments_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=rf"^visops\.transforms\.Letterbox: {message}"):
        T.Letterbox(*arguments)


def test_center_crop_fills_with_a_value() -> None:
    image = torch.arange(6, dtype=torch.uint8).reshape(1, 2, 3) + 1
    assert T.CenterCrop((4, 3), fill=9)(image)[0].tolist() == [
        *([9, 9, 9], [1, 2, 3], [4, 5, 6], [9, 9, 9])
    ]
    colours = T.CenterCrop((2, 5), fill=(7, 8, 9))(image.expand(3, -1, -1))
    assert colours[:, 0, 0].tolist() == [7, 8, 9]
    assert T.CenterCrop(4)(image)[0, 0].tolist() == [0] * 4
    with pytest.raises(TypeError, match="positional"):
        T.CenterCrop(4, 6)  # type: ignore[call-arg]  # albumentations' height and width
    reasons = [p.reason for p in T.Compose([T.Pad(1, fill=3), T.CenterCrop(9, fill=4)]).passes]
    assert reasons == ["", "CenterCrop has fill 4 after 3"]


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("scaleup", [True, False])
@pytest.mark.parametrize("size", [(31, 53), (90, 17), (12, 12), (80, 64)], ids=str)
def test_boxes_move_by_the_matrix_of_the_function(
    size: tuple[int, int], center: bool, scaleup: bool
) -> None:
    """visops.letterbox rounds as the transform does."""
    boxes = torch.tensor([[1.0, 2.0, size[1] - 1.0, size[0] - 3.0]])
    chain = T.Compose([T.Letterbox((64, 80), 0, center=center, scaleup=scaleup)])
    moved = chain({"image": torch.zeros(3, *size), "boxes": boxes})["boxes"]
    matrix = visops.letterbox(size, (64, 80), center=center, scaleup=scaleup)
    torch.testing.assert_close(moved, visops.transform_boxes(boxes, matrix.float()))
