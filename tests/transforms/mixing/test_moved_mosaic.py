"""Mosaics whose canvas moves, against canvases that are made, and moved by a chain."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from bad_input import check, table
from torch import Tensor
from visops import transforms as T

SIZES = [(30, 40), (64, 20), (17, 90), (40, 40)]
SIZE = (64, 96)
UPRIGHT: dict[str, Any] = {"translate": (0.2, 0.1), "scale": (0.5, 1.5)}
ASKEW: dict[str, Any] = {"degrees": 40, "scale": (0.6, 1.2), "shear": (-9, 9, -5, 5)}
NAMES = ("x", "y", "first", "second", "third")
MOVES = ("angle", "translate_x", "translate_y", "scale", "shear_x", "shear_y")


def photos(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Smooth, so that one interpolation differs little from two."""
    found = []
    for number, (height, width) in enumerate(SIZES):
        y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        waves = [torch.sin(x / (9.0 + c) + number) * torch.cos(y / (8.0 + c)) for c in range(3)]
        image = torch.stack(waves) * 0.4 + 0.5
        found.append((image * 255).round().to(dtype) if dtype == torch.uint8 else image.to(dtype))
    return found


def detection() -> dict[str, Any]:
    """Photos with a class for each pixel, two boxes with labels, masks and points."""
    generator = np.random.default_rng(0)
    boxes, points, masks = [], [], []
    for height, width in SIZES:
        corners = np.sort(generator.uniform(0, (width, height), (2, 2, 2)), 1)
        boxes.append(torch.from_numpy(corners.reshape(2, 4)))
        points.append(torch.from_numpy(generator.uniform(0, (width, height), (2, 3, 2))))
        inside = np.zeros((2, height, width), bool)
        for mask, ((x1, y1), (x2, y2)) in zip(inside, corners.round().astype(int), strict=True):
            mask[y1:y2, x1:x2] = True
        masks.append(torch.from_numpy(inside))
    return {
        "image": photos(),
        "mask": [torch.full(size, i + 1, dtype=torch.uint8) for i, size in enumerate(SIZES)],
        "boxes": boxes,
        "labels": [torch.arange(2) + 10 * i for i in range(4)],
        "keypoints": points,
        "masks": masks,
    }


def by_canvas(sample: Any, params: T.Parameters, **options: Any) -> Any:
    """The same by a canvas and a chain, with the parameters of a call."""
    (step,) = params.steps
    kept = ("antialias", "interpolation")
    own = {name: options.pop(name) for name in kept if name in options}
    canvas = T.Mosaic(SIZE, fill=0.25, boxes="clamp", **own)
    made = canvas(
        sample, params=T.Parameters(["Mosaic"], [{n: step[n] for n in NAMES}], params.size)
    )
    moved = {name: step.get(name, np.zeros(4)) for name in MOVES}
    size = np.tile(2 * np.array(SIZE), (4, 1))
    chain = T.Compose(
        [
            T.RandomAffine(
                180,
                (1, 1),
                (0.1, 9),
                (-50, 50, -50, 50),
                own.get("interpolation", "bilinear"),
                0.25,
            ),
            T.CenterCrop(SIZE),
        ],
        boxes="clamp",
    )
    crop = {"top": np.full(4, SIZE[0] / 2.0), "left": np.full(4, SIZE[1] / 2.0)}
    return chain(made, params=T.Parameters(["RandomAffine", "CenterCrop"], [moved, crop], size))


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.int16])
@pytest.mark.parametrize("movement", [UPRIGHT, ASKEW])
def test_images(movement: Any, dtype: torch.dtype, mode: str, antialias: bool) -> None:
    images = photos(torch.float32 if dtype == torch.int16 else dtype)
    white = {torch.uint8: 255, torch.int16: 32767}.get(dtype, 1)
    if dtype == torch.int16:
        images = [(image * white).to(dtype) for image in images]
    options: Any = {"interpolation": mode, "antialias": antialias}
    mosaic = T.Mosaic(SIZE, fill=0.25, **movement, **options, seed=3)
    result, params = mosaic({"image": images}, return_params=True)
    assert result["image"].dtype == dtype
    assert result["image"].shape == (4, 3, *SIZE)
    expected = by_canvas({"image": images}, params, **options)["image"]
    difference = (result["image"].double() - expected.double()).abs() / white
    # Where pictures end, one of two neighbours is chosen here, and a mean of them there.
    assert difference.quantile(0.9) < (0.09 if mode == "nearest" else 0.02)
    assert difference.median() < (0.03 if mode == "nearest" else 0.006)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("movement", [UPRIGHT, ASKEW])
def test_targets(movement: Any, seed: int) -> None:
    sample = detection()
    mosaic = T.Mosaic(SIZE, fill=0.25, **movement, boxes="clamp", seed=seed)
    result, params = mosaic(sample, return_params=True)
    expected = by_canvas(sample, params)
    for b in range(4):
        left, boxes = areas(result["boxes"][b]) > 0.0, expected["boxes"][b]
        assert torch.equal(left, areas(boxes) > 0.0)
        np.testing.assert_allclose(result["boxes"][b][left], boxes[left], atol=1e-5)
        np.testing.assert_allclose(result["keypoints"][b], expected["keypoints"][b], atol=1e-5)
        assert torch.equal(result["labels"][b], expected["labels"][b])
        seen = result["keypoints_visible"][b], expected["keypoints_visible"][b]
        assert (seen[0] <= seen[1]).all()  # the chain has forgotten what the canvas cut off
        for name in ("mask", "masks"):
            same = result[name][b] == expected[name][b]
            assert same.double().mean() > 0.97


def areas(boxes: Tensor) -> Tensor:
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


@pytest.mark.parametrize("movement", [UPRIGHT, ASKEW])
def test_boxes_bound_their_masks(movement: Any) -> None:
    """In each result, a box lies around what its mask shows."""
    found = 0
    for seed in range(6):
        batch = T.Mosaic(SIZE, **movement, fill=0, seed=seed)(detection())
        for boxes, masks in zip(batch["boxes"], batch["masks"], strict=True):
            assert len(boxes) == len(masks)
            for (x1, y1, x2, y2), mask in zip(boxes.tolist(), masks, strict=True):
                rows, columns = mask.any(1).nonzero(), mask.any(0).nonzero()
                if len(rows) < 3 or len(columns) < 3:
                    continue
                found += 1
                edges = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
                distance = np.array([float(e) for e in edges]) - (x1, y1, x2, y2)
                outwards = distance * (-1, -1, 1, 1)
                assert outwards.max() <= 2.5  # masks' edges are whole pixels of small photos
                if movement is UPRIGHT:
                    assert outwards.min() >= -4.0
    assert found > 30


@pytest.mark.parametrize("movement", [{"scale": (1.3, 1.3)}, {**ASKEW, "scale": (1.9, 1.9)}])
def test_no_gap_between_tiles(movement: Any) -> None:
    """Four white photos fill the canvas, which is all that is seen."""
    white = torch.full((4, 1, 32, 48), 9.0)
    result = T.Mosaic(SIZE, center=(1, 1), fill=0, **movement, seed=0)(white)
    assert torch.equal(result, torch.full((4, 1, *SIZE), 9.0))


@pytest.mark.parametrize(
    ("scale", "rows", "columns"), [(0.25, (16, 39), (24, 59)), (0.3, (13, 41), (19, 61))]
)
@pytest.mark.parametrize("degrees", [None, (1e-9, 1e-9)])
def test_what_the_canvas_cuts_off_stays_away(
    degrees: Any, scale: float, rows: Any, columns: Any
) -> None:
    """The photo above left of the point is cut: where the canvas shrinks, there is fill.

    A canvas of 128 x 192 shrinks around the middle, and photos reach to 96 x 144 of it: pixels
    show them whose centres lie within.
    """
    mosaic = T.Mosaic(
        SIZE, center=(0.5, 0.5), degrees=degrees, scale=(scale, scale), fill=0, seed=0
    )
    seen = mosaic(torch.full((1, 1, 64, 96), 9.0))[0, 0]
    expected = torch.zeros(SIZE)
    expected[rows[0] : rows[1] + 1, columns[0] : columns[1] + 1] = 9.0
    torch.testing.assert_close(seen, expected)  # a mean's weights have a sum of nearly 1


@pytest.mark.parametrize("movement", [UPRIGHT, ASKEW])
def test_forms_and_calls(movement: Any) -> None:
    batch = torch.stack([x[:, :17, :20] for x in photos(torch.uint8)])
    mosaic = T.Mosaic(SIZE, **movement, seed=1)
    expected, params = mosaic(batch, index=range(4), return_params=True)
    assert torch.equal(mosaic(batch, params=params), expected)
    assert torch.equal(mosaic.collate(list(batch), index=range(4)), expected)
    for images in (
        list(batch),
        batch.permute(0, 2, 3, 1).contiguous().numpy(),
        batch.to(memory_format=torch.channels_last),
    ):
        result = mosaic({"image": images}, index=range(4))["image"]
        assert torch.equal(result, expected)
    arrays = {"image": batch, "mask": [m.numpy() for m in batch[:, 0]]}
    tensors = {"image": batch, "mask": list(batch[:, 0])}
    masks = [mosaic(own, index=range(4))["mask"] for own in (arrays, tensors)]
    assert all(np.array_equal(a, t.numpy()) for a, t in zip(*masks, strict=True))
    assert mosaic(batch[:0]).shape == (0, 3, *SIZE)


def test_gradients() -> None:
    images = torch.rand(2, 1, 9, 9, dtype=torch.float64, requires_grad=True)
    for movement in (UPRIGHT, ASKEW):
        mosaic = T.Mosaic(6, **movement, fill=0, seed=0)
        assert torch.autograd.gradcheck(lambda x: mosaic(x, index=[0, 1]), (images,))  # noqa: B023


@table(
    (
        ValueError,
        "transforms.Mosaic: translate is (2, 0), must be None or two numbers (x, y) in [0, 1]",
        lambda: T.Mosaic(9, translate=(2, 0)),
    ),
    (
        ValueError,
        "transforms.Mosaic: scale is (0, 1), must be None or two numbers > 0 (min, max)",
        lambda: T.Mosaic(9, scale=(0, 1)),
    ),
    (TypeError, "transforms.Mosaic: degrees is 'a', must be", lambda: T.Mosaic(9, degrees="a")),  # type: ignore[arg-type]
    (ValueError, "transforms.Mosaic: shear is -1, must be", lambda: T.Mosaic(9, shear=-1)),
)
def test_bad_input(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)
