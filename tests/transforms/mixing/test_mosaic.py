"""Mosaics against resized images that are pasted one by one."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from bad_input import check, table
from torch import Tensor
from visops import transforms as T

tv = pytest.importorskip("torchvision.tv_tensors")

SIZES = [(30, 40), (64, 20), (17, 90), (40, 40)]
SIZE = (32, 48)
CANVAS = (64, 96)


def photos(dtype: torch.dtype = torch.uint8) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    images = [torch.rand(3, *size, generator=generator) for size in SIZES]
    return [(x * 255).to(dtype) if dtype == torch.uint8 else x.to(dtype) for x in images]


def layout(step: dict[str, np.ndarray], sizes: Any = SIZES) -> Any:
    """For each mosaic: the sample, size and place of its four tiles, and what is seen of them."""
    for b in range(len(sizes)):
        x, y = int(step["x"][b]), int(step["y"][b])
        others = [int(step[name][b]) for name in ("first", "second", "third")]
        tiles = []
        for tile, source in enumerate([b, *others]):
            height, width = sizes[source]
            factor = min(SIZE[0] / height, SIZE[1] / width)
            h, w = max(round(height * factor), 1), max(round(width * factor), 1)
            left, top = (x if tile % 2 else x - w), (y if tile >= 2 else y - h)
            seen = (max(left, 0), max(top, 0), min(left + w, CANVAS[1]), min(top + h, CANVAS[0]))
            tiles.append((source, (h, w), (left, top), seen))
        yield tiles


def pasted(step: Any, values: Any, fill: float, resize: Callable[..., Any]) -> list[Tensor]:
    results = []
    for tiles in layout(step):
        canvas = torch.full((*values[0].shape[:-2], *CANVAS), fill, dtype=values[0].dtype)
        for source, size, (left, top), (x1, y1, x2, y2) in tiles:
            part = resize(values[source], size)[..., y1 - top : y2 - top, x1 - left : x2 - left]
            canvas[..., y1:y2, x1:x2] = part
        results.append(canvas)
    return results


def resized(image: Tensor, size: Any, **options: Any) -> Tensor:
    return T.Resize(size, **options)(image)  # type: ignore[no-any-return]


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_images(dtype: torch.dtype, mode: str, antialias: bool) -> None:
    images = photos(dtype)
    mosaic = T.Mosaic(SIZE, fill=0.25, interpolation=mode, antialias=antialias, seed=1)
    result, params = mosaic({"image": images}, return_params=True)
    assert result["image"].dtype == dtype
    expected = pasted(
        params.steps[0],
        images,
        0.25,
        lambda x, s: resized(x, s, interpolation=mode, antialias=antialias),
    )
    difference = (result["image"].double() - torch.stack(expected).double()).abs()
    if mode == "nearest":
        assert difference.max() == 0
    else:  # coordinates begin elsewhere and round differently
        assert difference.max() <= (1 if dtype == torch.uint8 else 1e-4)
        assert dtype != torch.uint8 or (difference > 0).double().mean() < 1e-3


def test_forms_of_images() -> None:
    batch = torch.stack([x[:, :17, :20] for x in photos()])
    mosaic = T.Mosaic(SIZE, seed=1)
    expected = mosaic(batch, index=range(4))
    for images in (
        list(batch),
        batch.permute(0, 2, 3, 1).contiguous().numpy(),
        [x.permute(1, 2, 0).numpy() for x in batch],
        batch.to(memory_format=torch.channels_last),
        tv.Image(batch),
    ):
        result = mosaic({"image": images}, index=range(4))["image"]
        assert torch.equal(result.as_subclass(Tensor), expected)
    clips = batch[:, None].expand(-1, 3, -1, -1, -1)
    result = mosaic(tv.Video(clips), index=range(4)).as_subclass(Tensor)
    assert torch.equal(result, expected[:, None].expand(-1, 3, -1, -1, -1))
    assert mosaic(batch[:0]).shape == (0, 3, *CANVAS)
    one = mosaic(batch[:1], index=[0])
    assert one.shape == (1, 3, *CANVAS)


@pytest.mark.parametrize("center", [(0.0, 0.0), (2.0, 2.0), (1.0, 1.0)])
def test_every_pixel_is_written(center: Any) -> None:
    """Where the point is at the edge, only some of the four are seen."""
    white = torch.full((2, 1, 32, 48), 9.0)
    result = T.Mosaic(SIZE, center=center, fill=0)(white)
    count = {0.0: 1, 1.0: 4, 2.0: 1}[center[0]]
    assert (result == 9).sum((1, 2, 3)).tolist() == [count * 32 * 48] * 2
    assert ((result == 9) | (result == 0)).all()


def test_fill() -> None:
    image = torch.zeros(1, 3, 10, 10, dtype=torch.uint8)
    result = T.Mosaic(SIZE, center=(0, 0), fill=(1.5, 2, 255))(image)
    assert result[0, :, -1, -1].tolist() == [2, 2, 255]  # rounded half to even
    sample = {"image": image, "mask": image[:, 0]}
    filled = T.Mosaic(SIZE, center=(0, 0), fill={tv.Image: 3, tv.Mask: 7})(sample)
    assert (filled["image"][0, 0, -1, -1], filled["mask"][0, -1, -1]) == (3, 7)
    assert T.Mosaic(SIZE, center=(0, 0))(sample)["mask"][0, -1, -1] == 0
    assert T.Mosaic(SIZE, center=(0, 0), mask_fill=8)(sample)["mask"][0, -1, -1] == 8


def test_masks_of_the_image() -> None:
    classes = [torch.randint(0, 90, size) for size in SIZES]
    sample = {"image": photos(), "mask": classes, "soft": None}
    result, params = T.Mosaic(SIZE)(sample, return_params=True)
    nearest = pasted(
        params.steps[0],
        classes,
        0,
        lambda x, s: resized(x[None].float(), s, interpolation="nearest")[0].long(),
    )
    assert isinstance(result["mask"], list)
    for got, expected in zip(result["mask"], nearest, strict=True):
        assert torch.equal(got, expected)
    arrays = T.Mosaic(SIZE)({**sample, "mask": [m.numpy() for m in classes]}, params=params)
    assert all(np.array_equal(a, e.numpy()) for a, e in zip(arrays["mask"], nearest, strict=True))
    dense = {"image": torch.zeros(2, 3, 8, 8), "mask": torch.zeros(2, 8, 8, dtype=torch.bool)}
    result = T.Mosaic(SIZE, fill=0)(dense)
    assert result["mask"].shape == (2, *CANVAS)
    assert not result["mask"].any()  # booleans have no class to spare


def detection() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    sample: dict[str, Any] = {"image": photos(), "file": list("abcd")}
    sample |= {name: [] for name in ("boxes", "labels", "masks", "area", "keypoints")}
    for b, (height, width) in enumerate(SIZES):
        first = rng.uniform(0, (width - 8, height - 8), (3, 2))
        boxes = np.concatenate((first, first + rng.uniform(2, 8, (3, 2))), 1)
        sample["boxes"].append(torch.from_numpy(boxes))
        sample["labels"].append(torch.tensor([10 * b, 10 * b + 1, 10 * b + 2]))
        sample["masks"].append(torch.from_numpy(rng.random((3, height, width)) < 0.5))
        sides = boxes[:, 2:] - boxes[:, :2]
        sample["area"].append(torch.from_numpy(sides.prod(1)))
        sample["keypoints"].append(
            torch.from_numpy(rng.uniform(0, (width, height), (3, 4, 2)) - 0.5)
        )
    return sample


@pytest.mark.parametrize("seed", range(5))
def test_targets(seed: int) -> None:
    sample = detection()
    mosaic = T.Mosaic(SIZE, seed=seed, min_size=2.0)
    result, params = mosaic(sample, return_params=True)
    dropped = 0
    for b, tiles in enumerate(layout(params.steps[0])):
        rows: dict[str, list[Any]] = {
            name: [] for name in ("boxes", "labels", "area", "points", "seen", "masks")
        }
        for source, (h, w), (left, top), (sx1, sy1, sx2, sy2) in tiles:
            scale = np.array([w / SIZES[source][1], h / SIZES[source][0]])
            moved = sample["masks"][source].to(torch.uint8)
            moved = resized(moved, (h, w), interpolation="nearest").bool()
            for i, box in enumerate(sample["boxes"][source].numpy().reshape(-1, 2, 2)):
                corners = box * scale + (left, top)
                clipped = np.clip(corners, 0, CANVAS[::-1])
                sides = clipped[1] - clipped[0]
                if sides.min() < 2.0:
                    dropped += 1
                    continue
                rows["boxes"].append(clipped.ravel())
                rows["labels"].append(10 * source + i)
                rows["area"].append(sides.prod())
                points = (sample["keypoints"][source][i].numpy() + 0.5) * scale + (left, top)
                rows["points"].append(points - 0.5)
                rows["seen"].append(((points >= 0) & (points < CANVAS[::-1])).all(-1))
                mask = np.zeros(CANVAS, bool)
                mask[sy1:sy2, sx1:sx2] = moved[i, sy1 - top : sy2 - top, sx1 - left : sx2 - left]
                rows["masks"].append(mask)
        np.testing.assert_allclose(result["boxes"][b], rows["boxes"], atol=1e-9)
        assert result["labels"][b].tolist() == rows["labels"]
        np.testing.assert_allclose(result["area"][b], rows["area"], rtol=1e-9)
        np.testing.assert_allclose(result["keypoints"][b], rows["points"], atol=1e-9)
        np.testing.assert_array_equal(result["keypoints_visible"][b], rows["seen"])
        np.testing.assert_array_equal(result["masks"][b], rows["masks"])
    assert dropped > 0  # otherwise the test shows less than it says
    assert result["file"] == list("abcd")


def test_typed_boxes_get_the_canvas() -> None:
    boxes = [tv.BoundingBoxes([[2.0, 2, 9, 9]], format="XYXY", canvas_size=size) for size in SIZES]
    result = T.Mosaic(SIZE, boxes="keep")({"image": photos(), "boxes": boxes})
    assert [b.canvas_size for b in result["boxes"]] == [CANVAS] * 4
    assert [len(b) for b in result["boxes"]] == [4] * 4


def test_collated() -> None:
    sample = detection()
    samples = [{key: value[b] for key, value in sample.items()} for b in range(4)]
    mosaic = T.Mosaic(SIZE, seed=5)
    expected, result = mosaic(sample, index=range(4)), mosaic.collate(samples, index=range(4))
    for name in ("image", "boxes", "labels", "masks"):
        for one, other in zip(expected[name], result[name], strict=True):
            assert torch.equal(one, other)


def test_gradients() -> None:
    images = torch.rand(2, 1, 9, 9, dtype=torch.float64, requires_grad=True)
    mosaic = T.Mosaic(6, fill=0, seed=0)
    assert torch.autograd.gradcheck(lambda x: mosaic(x, index=[0, 1]), (images,))


@table(
    (ValueError, "transforms.Mosaic: size is 0, must be", lambda: T.Mosaic(0)),
    (
        ValueError,
        "transforms.Mosaic: center is (0.5, 2.5), must be two numbers in [0, 2] (min, max)",
        lambda: T.Mosaic(9, center=(0.5, 2.5)),
    ),
    (TypeError, "transforms.Mosaic: mask_fill is 1.5, must be", lambda: T.Mosaic(9, mask_fill=1.5)),  # type: ignore[arg-type]
    (
        ValueError,
        "transforms.Mosaic: the sample is one image, must be a batch of them",
        lambda: T.Mosaic(9)(torch.zeros(3, 9, 9)),
    ),
    (
        ValueError,
        "transforms.Mosaic: fill has 2 numbers, the sample has 3 channels",
        lambda: T.Mosaic(9, fill=(1, 2))(torch.zeros(1, 3, 9, 9)),
    ),
    (
        ValueError,
        "transforms: mask_fill is 300, sample['mask'] has dtype torch.uint8; must be from 0 to 255",
        lambda: T.Mosaic(9, fill=0, mask_fill=300)(
            {"image": torch.zeros(1, 3, 9, 9), "mask": torch.zeros(1, 9, 9, dtype=torch.uint8)}
        ),
    ),
    (
        ValueError,
        "transforms.Mosaic: sample['mask'] has [9, 9] in sample 1, [2, 9, 9] in sample 0; must",
        lambda: T.Mosaic(9, fill=0)(
            {"image": torch.zeros(2, 3, 9, 9), "mask": [torch.zeros(2, 9, 9), torch.zeros(9, 9)]},
            params=T.Parameters(
                ["Mosaic"],
                [{k: np.ones(2) for k in ("x", "y", "first", "second", "third")}],
                np.array([[9, 9], [9, 9]]),
            ),
        ),
    ),
)
def test_bad_input(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)
