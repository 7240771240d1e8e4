"""Targets painted into images: after any transform they lie where the labels say."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from visops import transforms

HEIGHT, WIDTH = 60, 84
SEEDS = range(6)

Make = Callable[[Any], Any]

# Factories that take an interpolation, with the arguments that move most.
MOVING: dict[str, Make] = {
    "affine": lambda mode: transforms.RandomAffine(
        40, (0.2, 0.2), (0.7, 1.3), (-15, 15, -15, 15), interpolation=mode
    ),
    "affine about a corner": lambda mode: transforms.RandomAffine(
        30, interpolation=mode, center=(0, 0)
    ),
    "rotation": lambda mode: transforms.RandomRotation(60, interpolation=mode),
    "rotation with expand": lambda mode: transforms.RandomRotation(
        60, interpolation=mode, expand=True
    ),
    "quarter turn": lambda mode: transforms.RandomRotation(
        (90, 90), interpolation=mode, expand=True
    ),
    "perspective": lambda mode: transforms.RandomPerspective(0.5, 1.0, interpolation=mode),
    "resized crop": lambda mode: transforms.RandomResizedCrop(
        (50, 70), scale=(0.3, 0.9), interpolation=mode, antialias=mode != "nearest"
    ),
    "resize": lambda mode: transforms.Resize(
        (50, 100), interpolation=mode, antialias=mode != "nearest"
    ),
    "center crop": lambda mode: transforms.CenterCrop((41, 60)),
    "crop": lambda mode: transforms.RandomCrop((40, 50)),
    "padded crop": lambda mode: transforms.RandomCrop((60, 84), padding=9),
    "pad": lambda mode: transforms.Pad((1, 2, 3, 4)),
    "horizontal flip": lambda mode: transforms.RandomHorizontalFlip(1.0),
    "vertical flip": lambda mode: transforms.RandomVerticalFlip(1.0),
    "rand augment": lambda mode: transforms.RandAugment(
        2, 15, interpolation=mode, operations="linear"
    ),
    "trivial augment": lambda mode: transforms.TrivialAugment(
        interpolation=mode, operations="linear"
    ),
}
STAYING: dict[str, Make] = {
    "jitter": lambda mode: transforms.ColorJitter(0.3, 0.3, 0.3, 0.1),
    "grayscale": lambda mode: transforms.RandomGrayscale(1.0),
    "erasing": lambda mode: transforms.RandomErasing(1.0, scale=(0.02, 0.1)),
    "normalize": lambda mode: [
        transforms.ToDtype(torch.float32, scale=True),
        transforms.Normalize([0.4, 0.5, 0.6], [0.2, 0.3, 0.1]),
    ],
}
CHAINS: dict[str, Make] = {
    "detection": lambda mode: [
        MOVING["resized crop"](mode),
        transforms.RandomHorizontalFlip(),
        MOVING["affine"](mode),
        transforms.ColorJitter(0.3, 0.3, 0.3),
        transforms.ToDtype(torch.float32, scale=True),
    ],
    "two passes": lambda mode: [
        MOVING["perspective"](mode),
        transforms.RandomErasing(1.0, scale=(0.02, 0.05)),
        transforms.RandomRotation(20, interpolation=mode),
    ],
    "crop and back": lambda mode: [
        transforms.RandomCrop((40, 50)),
        transforms.RandomAffine(20, (0.2, 0.2), interpolation=mode),
        transforms.Pad(10),
    ],
}
ALL = MOVING | STAYING | CHAINS
# Single transforms take turns with `exact`; chains are run both ways.
WAYS = [(name, number % 2 == 1) for number, name in enumerate(MOVING | STAYING)]
WAYS += [(name, exact) for name in CHAINS for exact in (False, True)]


def compose(make: Make, mode: str, exact: bool, **options: Any) -> Any:
    made = make(mode)
    chain = made if isinstance(made, list) else [made]
    return transforms.Compose(chain, seed=3, exact=exact, **options)


def grey(image: torch.Tensor) -> np.ndarray:
    return image.double().mean(0).numpy()  # type: ignore[no-any-return]


def flat(spread: np.ndarray) -> bool:
    return bool(spread.max() - spread.min() < 1e-6)


@pytest.mark.parametrize(("name", "exact"), WAYS)
def test_masks(name: str, exact: bool) -> None:
    """With nearest sampling, each class of the mask has one colour in the image."""
    rng = np.random.default_rng(0)
    # Blocks of 3x3 pixels; neighbours rarely share a class.
    classes = rng.integers(1, 12, (HEIGHT // 3, WIDTH // 3)).repeat(3, 0).repeat(3, 1)
    palette = rng.integers(20, 236, (12, 3)).astype(np.uint8)
    image, mask = palette[classes], classes.astype(np.int64)
    chain = compose(ALL[name], "nearest", exact, mask_fill=255)
    seen = 0
    for index in SEEDS:
        result = chain({"image": image, "mask": mask}, index=index)
        pixels, labels = result["image"].double().numpy(), result["mask"]
        assert labels.shape == pixels.shape[1:]
        assert set(np.unique(labels)) <= {*range(1, 12), 255}
        # Erased pixels have a colour of their own, and are few.
        for label in np.unique(labels):
            colors, counts = np.unique(
                pixels[:, labels == label].round(6), axis=1, return_counts=True
            )
            erased = "erasing" in name or "two passes" in name
            if not erased:
                assert colors.shape[1] == 1, (index, label)
            else:
                assert counts.max() >= 0.5 * counts.sum()
                assert colors.shape[1] <= 3
            seen += 1
    assert seen > 30


@pytest.mark.parametrize(("name", "exact"), WAYS)
def test_interpolated_images_follow_their_masks(name: str, exact: bool) -> None:
    """Bilinear images match their mask away from borders between classes."""
    if name in ("grayscale", "rand augment", "trivial augment", "two passes", "erasing"):
        pytest.skip("colours tell little about the class here, or are erased")
    rng = np.random.default_rng(1)
    classes = rng.integers(0, 2, (HEIGHT // 12, WIDTH // 12)).repeat(12, 0).repeat(12, 1)
    image = torch.from_numpy(np.where(classes, 200, 50).astype(np.uint8)).expand(3, -1, -1)
    chain = compose(ALL[name], "bilinear", exact, mask_fill=2)
    for index in SEEDS:
        result = chain({"image": image, "mask": torch.from_numpy(classes)}, index=index)
        pixels, labels = grey(result["image"]), result["mask"].numpy()
        padded = np.pad(labels, 2, mode="edge")
        windows = np.lib.stride_tricks.sliding_window_view(padded, (5, 5))
        inside = (windows == labels[..., None, None]).all((2, 3))
        dark, bright = pixels[inside & (labels == 0)], pixels[inside & (labels == 1)]
        if dark.size and bright.size:
            assert dark.max() < bright.min(), index


def painted_box(box: list[int]) -> torch.Tensor:
    image = torch.full((3, HEIGHT, WIDTH), 20, dtype=torch.uint8)
    image[:, box[1] : box[3], box[0] : box[2]] = 220
    return image


# Rotated rectangles end in points less than half a pixel wide.
SLANTED = ("affine", "rotation", "perspective", "augment", "detection", "two passes", "crop and")


@pytest.mark.parametrize(("name", "exact"), WAYS)
def test_boxes(name: str, exact: bool) -> None:
    """Bright pixels fill the box, or the part of it in the picture."""
    box = [28, 20, 60, 42]
    make = ALL[name]
    clamping = compose(make, "bilinear", exact, boxes="clamp")
    keeping = compose(make, "bilinear", exact)
    slanted = any(word in name for word in SLANTED)
    seen = 0
    for index in SEEDS:
        sample = {"image": painted_box(box), "boxes": torch.tensor([box]).float()}
        result = clamping(sample, index=index)
        free = keeping(sample, index=index)["boxes"][0].tolist()
        height, width = result["image"].shape[1:]
        pixels = grey(result["image"])
        x1, y1, x2, y2 = result["boxes"][0].tolist()
        if min(x2 - x1, y2 - y1) < 6:  # hardly anything is left of it
            continue
        # What the box and the background have become.
        inside = pixels[int((y1 + y2) / 2), int((x1 + x2) / 2)]
        outside = 20.0 if result["image"].dtype == torch.uint8 else 20 / 255
        if "normalize" in name or "jitter" in name or "augment" in name:
            outside = pixels[0, 0]
        if "erasing" in name:
            inside = 220.0
        rows, columns = np.nonzero(abs(pixels - inside) < 0.5 * abs(inside - outside))
        found = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        tolerance = 3.0 if slanted else 1.0
        for value, low, high in zip(found, (x1, y1, x1, y1), (x2, y2, x2, y2), strict=True):
            assert low - tolerance <= value <= high + tolerance, (index, found, free)
        whole = free[0] >= 0 and free[1] >= 0 and free[2] <= width and free[3] <= height
        cut = name in CHAINS or "erasing" in name  # part of the visible box may be gone
        if not cut and (whole or not slanted):
            np.testing.assert_allclose(found, [x1, y1, x2, y2], atol=tolerance)
            seen += 1
    assert seen >= 2 or name in (*CHAINS, "perspective", "erasing")


def painted_point(x: float, y: float) -> torch.Tensor:
    """Paint a blob around x, y; pixel centres have whole coordinates."""
    columns, rows = np.arange(WIDTH) - x, np.arange(HEIGHT) - y
    blob = np.exp(-(rows[:, None] ** 2 + columns**2) / (2 * 1.5**2))
    return torch.from_numpy(0.2 + 0.6 * blob).float().expand(3, -1, -1)


@pytest.mark.parametrize(("name", "exact"), WAYS)
def test_key_points(name: str, exact: bool) -> None:
    """A blob's centre is where its key point is, to a fraction of a pixel."""
    # The two conventions take turns, with either way of `exact`.
    half_pixel = (list(ALL).index(name) // 2 + exact) % 2 == 1
    convention, shift = ("half_pixel", 0.5) if half_pixel else ("integer", 0.0)
    chain = compose(ALL[name], "bilinear", exact, keypoint_convention=convention)
    seen = hidden = 0
    for index in SEEDS:
        for x, y in ((30.0, 22.0), (52.25, 33.5), (41.0, 44.0)):
            points = torch.tensor([[x + shift, y + shift]], dtype=torch.float64)
            result = chain({"image": painted_point(x, y), "keypoints": points}, index=index)
            pixels = grey(result["image"])
            height, width = pixels.shape
            px, py = (result["keypoints"][0] - shift).tolist()
            in_picture = -0.5 <= px < width - 0.5 and -0.5 <= py < height - 0.5
            is_visible = bool(result["keypoints_visible"][0])
            assert is_visible == in_picture or (exact and not is_visible)
            reach = 8
            left, top = round(px) - reach, round(py) - reach
            if not is_visible:
                hidden += 1
                continue
            if left < 1 or top < 1 or left + 2 * reach + 2 > width or top + 2 * reach + 2 > height:
                continue
            patch = pixels[top : top + 2 * reach + 1, left : left + 2 * reach + 1]
            ring = np.concatenate((patch[0], patch[-1], patch[:, 0], patch[:, -1]))
            if ring.max() - ring.min() > 0.02 * abs(patch.max() - patch.min()):
                continue  # the edge of the image or of an erased rectangle
            if flat(patch):
                assert "erasing" in name or "two" in name
                continue
            weights = abs(patch - np.median(ring))
            if (weights < 1e-9).mean() > 0.5 and "erasing" in name:
                continue
            columns = np.arange(left, left + 2 * reach + 1)
            rows = np.arange(top, top + 2 * reach + 1)
            found = np.array([(weights * columns).sum(), (weights * rows[:, None]).sum()])
            found /= weights.sum()
            np.testing.assert_allclose(found, (px, py), atol=0.3, err_msg=f"{index}")
            seen += 1
    assert seen >= 3, hidden


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", CHAINS)
def test_batches_equal_their_samples(name: str, exact: bool) -> None:
    """Each sample of a batch comes out as if alone."""
    chain = compose(CHAINS[name], "bilinear", exact, boxes="clamp")
    rng = np.random.default_rng(2)
    images = torch.from_numpy(rng.integers(0, 256, (3, 3, HEIGHT, WIDTH), dtype=np.uint8))
    masks = torch.from_numpy(rng.integers(0, 9, (3, HEIGHT, WIDTH)))
    boxes = torch.tensor([[10.0, 20, 50, 40], [0, 0, 84, 60]])
    points = torch.from_numpy(rng.uniform(0, 60, (3, 5, 2)))
    batch = {"image": images, "mask": masks, "boxes": [boxes] * 3, "keypoints": points}
    indices = [4, 7, 9]
    result = chain(batch, index=indices)
    for i, index in enumerate(indices):
        sample = {"image": images[i], "mask": masks[i], "boxes": boxes, "keypoints": points[i]}
        single = chain(sample, index=index)
        for key, value in single.items():
            assert torch.equal(result[key][i], value), key


@pytest.mark.parametrize("name", [*MOVING, "detection"])
def test_inverse_brings_labels_back(name: str) -> None:
    chain = compose(ALL[name], "bilinear", False)
    boxes = torch.tensor([[28.0, 20, 60, 42]])
    points = torch.tensor([[30.0, 22], [52, 33]])
    sample = {"image": painted_box([28, 20, 60, 42]), "boxes": boxes, "keypoints": points}
    result, params = chain(sample, index=1, return_params=True)
    back = chain.inverse(result, params)
    assert back["image"].shape == sample["image"].shape
    assert back["keypoints"].dtype == points.dtype
    torch.testing.assert_close(back["keypoints"], points, atol=1e-3, rtol=1e-4)
    if not any(word in name for word in SLANTED):
        assert back["boxes"].dtype == boxes.dtype
        torch.testing.assert_close(back["boxes"], boxes, atol=1e-3, rtol=1e-4)


def test_sanitize_in_a_chain() -> None:
    """The dropped boxes are those that vanish from their painted masks."""
    chain = transforms.Compose([transforms.RandomCrop((30, 40))], seed=0, boxes="sanitize")
    rng = np.random.default_rng(3)
    kept = 0
    for index in range(20):
        corners = rng.integers(0, [[WIDTH - 10, HEIGHT - 10]], (6, 2))
        boxes = np.concatenate((corners, corners + rng.integers(2, 10, (6, 2))), 1)
        masks = np.zeros((6, HEIGHT, WIDTH), np.uint8)
        for number, (x1, y1, x2, y2) in enumerate(boxes):
            masks[number, y1:y2, x1:x2] = 1
        sample = {
            "image": np.zeros((HEIGHT, WIDTH, 3), np.uint8),
            "boxes": boxes,
            "masks": masks,
            "labels": np.arange(6),
        }
        result = chain(sample, index=index)
        alone = {"image": sample["image"], "masks": masks}
        still_there = (chain(alone, index=index)["masks"] == 1).any((1, 2))
        np.testing.assert_array_equal(result["labels"], np.nonzero(still_there)[0])
        for box, mask in zip(result["boxes"], result["masks"], strict=True):
            rows, columns = np.nonzero(mask)
            assert box.tolist() == [
                columns.min(),
                rows.min(),
                columns.max() + 1,
                rows.max() + 1,
            ]
            kept += 1
    assert 20 < kept < 110
