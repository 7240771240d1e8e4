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
def test_images(dtype: torch.dtype, mode: Any, antialias: bool) -> None:
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


@pytest.mark.parametrize("seed", range(5))
def test_targets(seed: int) -> None:
    sample = detection()
    mosaic = T.Mosaic(SIZE, seed=seed, fill=0, min_size=2.0)
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
    mosaic = T.Mosaic(SIZE, seed=5, fill=0)
    expected, result = mosaic(sample, index=range(4)), mosaic.collate(samples, index=range(4))
    for name in ("image", "boxes", "labels", "masks"):
        for one, other in zip(expected[name], result[name], strict=True):
            assert torch.equal(one, other)


def test_gradients() -> None:
    images = torch.rand(2, 1, 6, 7, dtype=torch.float64, requires_grad=True)
    mosaic = T.Mosaic(6, fill=0, seed=0)
    assert torch.autograd.gradcheck(lambda x: mosaic(x, index=[0, 1]), (images,))


@table(
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


MOVED_SIZE = (64, 96)
UPRIGHT: dict[str, Any] = {"translate": (0.2, 0.1), "scale": (0.5, 1.5)}
ASKEW: dict[str, Any] = {"degrees": 40, "scale": (0.6, 1.2), "shear": (-9, 9, -5, 5)}
NAMES = ("x", "y", "first", "second", "third")
MOVES = ("angle", "translate_x", "translate_y", "scale", "shear_x", "shear_y")


def smooth_photos(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Smooth, so that one interpolation differs little from two."""
    found = []
    for number, (height, width) in enumerate(SIZES):
        y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        waves = [torch.sin(x / (9.0 + c) + number) * torch.cos(y / (8.0 + c)) for c in range(3)]
        image = torch.stack(waves) * 0.4 + 0.5
        found.append((image * 255).round().to(dtype) if dtype == torch.uint8 else image.to(dtype))
    return found


def detection() -> dict[str, Any]:
    """Photos with a class for each pixel, two boxes with labels, areas, masks and points."""
    generator = np.random.default_rng(0)
    boxes, points, masks = [], [], []
    for height, width in SIZES:
        corners = np.sort(generator.uniform(0, (width, height), (2, 2, 2)), 1)
        boxes.append(torch.from_numpy(corners.reshape(2, 4)))
        points.append(torch.from_numpy(generator.uniform(0, (width, height), (2, 3, 2)) - 0.5))
        inside = np.zeros((2, height, width), bool)
        for mask, ((x1, y1), (x2, y2)) in zip(inside, corners.round().astype(int), strict=True):
            mask[y1:y2, x1:x2] = True
        masks.append(torch.from_numpy(inside))
    return {
        "image": smooth_photos(),
        "mask": [torch.full(size, i + 1, dtype=torch.uint8) for i, size in enumerate(SIZES)],
        "boxes": boxes,
        "area": [(own[:, 2:] - own[:, :2]).prod(1) for own in boxes],
        "labels": [torch.arange(2) + 10 * i for i in range(4)],
        "keypoints": points,
        "masks": masks,
        "file": list("abcd"),
    }


def by_canvas(sample: Any, params: T.Parameters, **options: Any) -> Any:
    """The same by a canvas and a chain, with the parameters of a call."""
    (step,) = params.steps
    kept = ("antialias", "interpolation")
    own = {name: options.pop(name) for name in kept if name in options}
    canvas = T.Mosaic(MOVED_SIZE, fill=0.25, boxes="clamp", **own)
    made = canvas(
        sample, params=T.Parameters(["Mosaic"], [{n: step[n] for n in NAMES}], params.size)
    )
    moved = {name: step.get(name, np.zeros(4)) for name in MOVES}
    size = np.tile(2 * np.array(MOVED_SIZE), (4, 1))
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
            T.CenterCrop(MOVED_SIZE),
        ],
        boxes="clamp",
    )
    crop = {"top": np.full(4, MOVED_SIZE[0] / 2.0), "left": np.full(4, MOVED_SIZE[1] / 2.0)}
    return chain(made, params=T.Parameters(["RandomAffine", "CenterCrop"], [moved, crop], size))


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.int16])
@pytest.mark.parametrize("movement", [UPRIGHT, ASKEW])
def test_moved_images(movement: Any, dtype: torch.dtype, mode: str, antialias: bool) -> None:
    images = smooth_photos(torch.float32 if dtype == torch.int16 else dtype)
    white = {torch.uint8: 255, torch.int16: 32767}.get(dtype, 1)
    if dtype == torch.int16:
        images = [(image * white).to(dtype) for image in images]
    options: Any = {"interpolation": mode, "antialias": antialias}
    mosaic = T.Mosaic(MOVED_SIZE, fill=0.25, **movement, **options, seed=3)
    result, params = mosaic({"image": images}, return_params=True)
    assert result["image"].dtype == dtype
    assert result["image"].shape == (4, 3, *MOVED_SIZE)
    expected = by_canvas({"image": images}, params, **options)["image"]
    difference = (result["image"].double() - expected.double()).abs() / white
    # Where pictures end, one of two neighbours is chosen here, and a mean of them there.
    assert difference.quantile(0.9) < (0.09 if mode == "nearest" else 0.02)
    assert difference.median() < (0.03 if mode == "nearest" else 0.006)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("movement", [UPRIGHT, ASKEW])
def test_moved_targets(movement: Any, seed: int) -> None:
    sample = detection()
    mosaic = T.Mosaic(MOVED_SIZE, fill=0.25, **movement, boxes="clamp", seed=seed)
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
        batch = T.Mosaic(MOVED_SIZE, **movement, fill=0, seed=seed)(detection())
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
    result = T.Mosaic(MOVED_SIZE, center=(1, 1), fill=0, **movement, seed=0)(white)
    assert torch.equal(result, torch.full((4, 1, *MOVED_SIZE), 9.0))


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
        MOVED_SIZE, center=(0.5, 0.5), degrees=degrees, scale=(scale, scale), fill=0, seed=0
    )
    seen = mosaic(torch.full((1, 1, 64, 96), 9.0))[0, 0]
    expected = torch.zeros(MOVED_SIZE)
    expected[rows[0] : rows[1] + 1, columns[0] : columns[1] + 1] = 9.0
    torch.testing.assert_close(seen, expected)  # a mean's weights have a sum of nearly 1


@pytest.mark.parametrize("movement", [UPRIGHT, ASKEW])
def test_forms_and_calls(movement: Any) -> None:
    batch = torch.stack([x[:, :17, :20] for x in smooth_photos(torch.uint8)])
    mosaic = T.Mosaic(MOVED_SIZE, **movement, seed=1)
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
    assert mosaic(batch[:0]).shape == (0, 3, *MOVED_SIZE)


def test_gradients_of_moved_mosaics() -> None:
    images = torch.rand(2, 1, 6, 7, dtype=torch.float64, requires_grad=True)
    for movement in (UPRIGHT, ASKEW):
        mosaic = T.Mosaic(6, **movement, fill=0, seed=0)
        assert torch.autograd.gradcheck(lambda x: mosaic(x, index=[0, 1]), (images,))  # noqa: B023
