"""Boxes and key points against loops and torchvision; visibility; dropping; dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from references.targets import distance, move_box, move_point
from torch import Tensor
from visops.transforms._images import image_sizes
from visops.transforms._sample import split_sample
from visops.transforms._targets import (
    Geometry,
    TargetOptions,
    finish_targets,
    move_targets,
    visible,
)

v2 = pytest.importorskip("torchvision.transforms.v2.functional")
tv = pytest.importorskip("torchvision.tv_tensors")
interpolation = pytest.importorskip("torchvision.transforms").InterpolationMode.BILINEAR
pytestmark = pytest.mark.slow  # tests no kernel

SIZE = (40, 60)
NOWHERE = -32768.0


def affine(*rows: Any) -> np.ndarray:
    return np.array([[*rows[0]], [*rows[1]], [0.0, 0.0, 1.0]])


def random_affine(rng: np.random.Generator) -> np.ndarray:
    turn = np.linalg.qr(rng.normal(size=(2, 2)))[0] * rng.uniform(0.3, 2.0)
    middle = np.array([30.0, 20.0])
    shift = middle + rng.uniform(-10, 10, 2) - turn @ middle
    return affine([*turn[0], shift[0]], [*turn[1], shift[1]])


def random_perspective(rng: np.random.Generator) -> np.ndarray:
    """Horizon within or beyond the image; either sign of w in its middle."""
    matrix = random_affine(rng)
    matrix[2, :2] = rng.uniform(-0.1, 0.1, 2)
    matrix[2, 2] = 1.0 - matrix[2, :2] @ (30.0, 20.0)
    return matrix * rng.choice([-2.0, 1.0])


def random_boxes(rng: np.random.Generator, count: int) -> np.ndarray:
    first = rng.uniform(-10, 50, (count, 2))
    return np.concatenate((first, first + rng.uniform(0, 40, (count, 2))), 1)


def transformed(
    sample: Any,
    matrix: Any,
    size_out: Any = SIZE,
    window: Any = None,
    keys: Any = None,
    **options: Any,
) -> Any:
    """Move a sample's targets by a matrix [3, 3] or [B, 3, 3]; its images stay."""
    leaves, rebuild = split_sample(sample, keys)
    sizes = image_sizes(leaves)
    matrices = np.broadcast_to(matrix, (len(sizes), 3, 3)).copy()
    sizes_out = np.broadcast_to(np.array(size_out), sizes.shape).copy()
    windows = None if window is None else np.broadcast_to(window, (len(sizes), 4)).copy()
    geometry = Geometry(matrices, sizes, sizes_out, windows)
    target_options = TargetOptions(**options)
    move_targets(leaves, geometry, target_options)
    finish_targets(leaves, sizes_out, target_options)
    return rebuild(leaves)


IMAGE = torch.zeros(3, *SIZE)


def moved_boxes(rows: Any, matrix: Any, **options: Any) -> Any:
    return transformed({"image": IMAGE, "boxes": rows}, matrix, **options)["boxes"]


def moved_points(points: Any, matrix: Any, **options: Any) -> tuple[Any, Any]:
    result = transformed({"image": IMAGE, "keypoints": points}, matrix, **options)
    return result["keypoints"], result.get("keypoints_visible")


@pytest.mark.parametrize("draw", [random_affine, random_perspective])
@pytest.mark.parametrize("on", ["numpy", "torch", "gradient"])
def test_boxes_equal_loops(draw: Callable[[np.random.Generator], np.ndarray], on: str) -> None:
    rng = np.random.default_rng(0)
    behind = cut = 0
    for _ in range(30):
        matrix, boxes = draw(rng), random_boxes(rng, 6)
        given_boxes: Any = boxes
        if on != "numpy":
            given_boxes = torch.tensor(boxes, requires_grad=on == "gradient")
        result = np.asarray(torch.as_tensor(moved_boxes(given_boxes, matrix)).detach())
        expected = [move_box(matrix, SIZE, box) for box in boxes.tolist()]
        np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)
        behind += sum(box == [0.0] * 4 for box in expected)
        cut += sum(max(map(abs, box)) > 1e4 for box in expected)
    if draw is random_perspective:  # else the test would show nothing
        assert behind > 3
        assert cut > 10


@pytest.mark.parametrize("draw", [random_affine, random_perspective])
@pytest.mark.parametrize(("convention", "shift"), [("integer", 0.5), ("half_pixel", 0.0)])
def test_points_equal_loops(
    draw: Callable[[np.random.Generator], np.ndarray], convention: str, shift: float
) -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        matrix, points = draw(rng), rng.uniform(-20, 80, (10, 2))
        for give in (np.asarray, torch.tensor):
            result, seen = moved_points(give(points), matrix, keypoint_convention=convention)
            for point, new, is_visible in zip(points, result, seen, strict=True):
                x, y = (point + shift).tolist()
                if distance(matrix, SIZE, x, y) <= 0:
                    expected = (NOWHERE, NOWHERE)
                else:
                    expected = move_point(matrix, x, y)
                np.testing.assert_allclose(np.asarray(new) + shift, expected, rtol=1e-9, atol=shift)
                # Within both pictures: beyond the first there was nothing to be seen.
                inside = all(
                    0 <= px < SIZE[1] and 0 <= py < SIZE[0] for px, py in ((x, y), expected)
                )
                assert bool(is_visible) == inside


def test_integer_coordinates_move_exactly() -> None:
    """Flips, quarter turns and shifts leave no rounding error behind."""
    flip = affine([-1, 0, 60], [0, 1, 0])
    turn = affine([0, -1, 40], [1, 0, 0])
    boxes = torch.tensor([[3.0, 4, 10, 20]])
    assert moved_boxes(boxes, flip).tolist() == [[50, 4, 57, 20]]
    assert moved_boxes(boxes, turn, size_out=(60, 40)).tolist() == [[20, 3, 36, 10]]
    points, _ = moved_points(torch.tensor([[0.0, 0], [59, 39]]), flip)
    assert points.tolist() == [[59, 0], [0, 39]]
    points, _ = moved_points(
        torch.tensor([[0.0, 0], [60, 40]]), flip, keypoint_convention="half_pixel"
    )
    assert points.tolist() == [[60, 0], [0, 40]]


def test_against_torchvision() -> None:
    """The boxes that torchvision's functions give for the same geometry, in every format."""
    rng = np.random.default_rng(2)
    first = rng.uniform(0, 30, (8, 2))
    corners = torch.tensor(np.concatenate((first, first + rng.uniform(0, 10, (8, 2))), 1))
    boxes = tv.BoundingBoxes(corners, format="XYXY", canvas_size=SIZE, clamping_mode=None)
    height, width = SIZE
    middle = np.array([width / 2, height / 2])

    def about_middle(linear: Any, shift: Any = (0, 0), size: tuple[int, int] = SIZE) -> np.ndarray:
        linear = np.array(linear)
        offset = np.array([size[1] / 2, size[0] / 2]) + shift - linear @ middle
        return affine([*linear[0], offset[0]], [*linear[1], offset[1]])

    angle = np.deg2rad(25.0)
    cos, sin = np.cos(angle), np.sin(angle)
    turn = np.array([[cos, -sin], [sin, cos]])
    start = [[0, 0], [59, 0], [59, 39], [0, 39]]
    end = [[4, 2], [55, 6], [50, 36], [8, 30]]
    # torchvision's coefficients map destination to source.
    coefficients = v2._geometry._get_perspective_coeffs(start, end)
    perspective = np.linalg.inv(np.array([*coefficients, 1.0]).reshape(3, 3))
    cases = {
        "affine": (
            lambda b: v2.affine(b, 25.0, [5, -3], 1.2, [0.0, 0.0], interpolation),
            about_middle(1.2 * turn, (5, -3)),
            SIZE,
        ),
        "rotate": (lambda b: v2.rotate(b, -25.0), about_middle(turn), SIZE),
        "resize": (
            lambda b: v2.resize(b, [50, 45]),
            affine([45 / 60, 0, 0], [0, 50 / 40, 0]),
            (50, 45),
        ),
        "crop": (lambda b: v2.crop(b, 3, 7, 20, 30), affine([1, 0, -7], [0, 1, -3]), (20, 30)),
        "pad": (lambda b: v2.pad(b, [1, 2, 3, 4]), affine([1, 0, 1], [0, 1, 2]), (46, 64)),
        "resized_crop": (
            lambda b: v2.resized_crop(b, 3, 7, 20, 30, [10, 60]),
            affine([2, 0, -14], [0, 0.5, -1.5]),
            (10, 60),
        ),
        "horizontal_flip": (v2.horizontal_flip, affine([-1, 0, 60], [0, 1, 0]), SIZE),
        "vertical_flip": (v2.vertical_flip, affine([1, 0, 0], [0, -1, 40]), SIZE),
        "perspective": (
            lambda b: v2.perspective(b, None, None, interpolation, coefficients=coefficients),
            perspective,
            SIZE,
        ),
    }
    for name, (function, matrix, size_out) in cases.items():
        expected = function(boxes)
        result = moved_boxes(boxes, matrix, size_out=size_out)
        assert type(result) is tv.BoundingBoxes
        assert tuple(result.canvas_size) == size_out == tuple(expected.canvas_size), name
        torch.testing.assert_close(
            result.as_subclass(Tensor), expected.as_subclass(Tensor), rtol=1e-4, atol=1e-3, msg=name
        )
        clamped = moved_boxes(boxes, matrix, size_out=size_out, boxes="clamp")
        torch.testing.assert_close(
            clamped.as_subclass(Tensor),
            v2.clamp_bounding_boxes(expected, clamping_mode="soft").as_subclass(Tensor),
            rtol=1e-4,
            atol=1e-3,
            msg=name,
        )
        for form in ("XYWH", "CXCYWH"):
            other = v2.convert_bounding_box_format(boxes, new_format=tv.BoundingBoxFormat[form])
            back = moved_boxes(other, matrix, size_out=size_out)
            assert back.format.value == form
            torch.testing.assert_close(
                v2.convert_bounding_box_format(back, new_format=tv.BoundingBoxFormat.XYXY),
                result,
                rtol=1e-9,
                atol=1e-9,
            )


def test_points_against_torchvision() -> None:
    """torchvision's flips count pixels in the integer convention, its resizes from the edge."""
    points = tv.KeyPoints(torch.rand(5, 3, 2, dtype=torch.float64) * 35, canvas_size=SIZE)
    flip = affine([-1, 0, 60], [0, 1, 0])
    result, _ = moved_points(points, flip)
    assert type(result) is tv.KeyPoints
    torch.testing.assert_close(result, v2.horizontal_flip(points))
    resize = affine([45 / 60, 0, 0], [0, 50 / 40, 0])
    result, _ = moved_points(points, resize, size_out=(50, 45), keypoint_convention="half_pixel")
    expected = v2.resize(points, [50, 45])
    torch.testing.assert_close(result, expected)
    assert tuple(result.canvas_size) == tuple(expected.canvas_size)


def test_clamp_and_window() -> None:
    shift = affine([1, 0, 20], [0, 1, -5])
    boxes = torch.tensor([[0.0, 0, 30, 20], [50, 0, 55, 3], [-10, -10, 70, 60]])
    # The third is cut to the picture that it comes from, too.
    expected = [[20, 0, 50, 15], [60, 0, 60, 0], [20, 0, 60, 35]]
    assert moved_boxes(boxes, shift, boxes="clamp").tolist() == expected
    assert moved_boxes(boxes, shift)[2].tolist() == [10, -15, 90, 55]
    window = np.array([5.0, 6, 40, 30])
    cut = moved_boxes(boxes, shift, boxes="clamp", window=window)
    assert cut.tolist() == [[25, 1, 50, 15], [60, 1, 60, 1], [25, 1, 60, 25]]
    assert moved_boxes(boxes, shift, window=window)[2].tolist() == [10, -15, 90, 55]


def test_sanitize_drops_what_goes_with_boxes() -> None:
    boxes = torch.tensor([[0.0, 0, 30, 20], [50, 0, 55, 3], [10, 10, 12, 30]])
    masks = torch.arange(3, dtype=torch.uint8)[:, None, None].expand(3, *SIZE)
    sample = {
        "image": IMAGE,
        "target": {
            "boxes": boxes,
            "labels": ["a", "b", "c"],
            "scores": torch.tensor([0.1, 0.2, 0.3]),
            "iscrowd": np.array([0, 1, 0]),
            "masks": masks,
            "keypoints": torch.tensor([[[1.0, 1, 2]], [[2, 2, 2]], [[3, 3, 2]]]),
            "image_id": torch.tensor([7]),
            "orig_size": torch.tensor([40, 60, 3]),
        },
        "labels": torch.arange(3),  # in another dict than the boxes
    }
    shift = affine([1, 0, 20], [0, 1, 0])
    result = transformed(sample, shift, boxes="sanitize")
    target = result["target"]
    assert target["boxes"].tolist() == [[20, 0, 50, 20], [30, 10, 32, 30]]
    assert target["labels"] == ["a", "c"]
    assert target["scores"].tolist() == pytest.approx([0.1, 0.3])
    assert target["iscrowd"].tolist() == [0, 0]
    assert target["masks"].shape == (2, *SIZE)
    assert target["masks"][:, 0, 30].tolist() == [0, 2]
    assert target["masks"][:, 0, 5].tolist() == [0, 0]  # beside single boxes nothing is "ignore"
    assert target["keypoints"].tolist() == [[[21, 1, 2]], [[23, 3, 2]]]
    assert target["image_id"].tolist() == [7]
    assert target["orig_size"].tolist() == [40, 60, 3]
    assert result["labels"].tolist() == [0, 1, 2]
    small = transformed(sample, shift, boxes="sanitize", min_size=3.0)["target"]
    assert small["labels"] == ["a"]
    nothing = transformed(sample, affine([1, 0, 90], [0, 1, 0]), boxes="sanitize", min_size=0.0)
    assert nothing["target"]["boxes"].shape == (0, 4)
    assert nothing["target"]["labels"] == []


def test_sanitize_keeps_visibilities_together() -> None:
    points = torch.tensor([[[1.0, 1], [58, 1]], [[50, 2], [51, 2]], [[3, 3], [4, 4]]])
    boxes = torch.tensor([[0.0, 0, 30, 20], [50, 0, 55, 3], [10, 10, 12, 30]])
    sample = {"image": IMAGE, "boxes": boxes, "keypoints": points}
    shift = affine([1, 0, 20], [0, 1, 0])
    result = transformed(sample, shift, boxes="sanitize")
    assert result["keypoints_visible"].tolist() == [[True, False], [True, True]]
    sample["keypoints_visible"] = torch.tensor([[2, 2], [2, 2], [0, 1]])
    result = transformed(sample, shift, boxes="sanitize")
    assert result["keypoints_visible"].tolist() == [[2, 0], [0, 1]]
    assert result["keypoints"].shape == (2, 2, 2)


def test_visibility() -> None:
    points = torch.tensor([[0.0, 0], [30, 20], [59, 39], [float("nan"), 3]])
    shift = affine([1, 0, 20], [0, 1, 0])
    result, seen = moved_points(points, shift)
    assert seen.tolist() == [True, True, False, False]
    assert torch.isnan(result[3]).all()
    # As a third column, 0, 1 or 2: it stays in its place, and no key is added.
    column = torch.tensor([2.0, 1.0, 2.0, 2.0])[:, None]
    result, extra = moved_points(torch.cat((points, column), 1), shift)
    assert result[:, 2].tolist() == [2, 1, 0, 0]
    assert extra is None
    # What was in the dict is ANDed with it, in its own dtype and form.
    for given_flags, expected in (
        (torch.tensor([True, False, True, True]), [True, False, False, False]),
        (np.array([2, 1, 2, 2]), [2, 1, 0, 0]),
        ([1.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0]),
    ):
        sample = {"image": IMAGE, "keypoints": points, "keypoints_visible": given_flags}
        flags = transformed(sample, shift)["keypoints_visible"]
        assert type(flags) is type(given_flags)
        assert list(flags) == expected
    # The window hides what lies outside of it, though the place is in the picture.
    _, seen = moved_points(points, shift, window=np.array([10.0, 10, 60, 40]))
    assert seen.tolist() == [False, True, False, False]
    for convention, low in (("integer", -0.5), ("half_pixel", 0.0)):
        edges = torch.tensor([[low, low], [low + 60, low], [low + 59.9, low + 39.9]])
        assert visible(edges, SIZE, convention=convention).tolist() == [True, False, True]
        _, seen = moved_points(edges, np.eye(3), keypoint_convention=convention)
        assert seen.tolist() == [True, False, True]
    assert visible([[1, 1], [70, 1]], SIZE).tolist() == [True, False]


def test_points_lost_in_one_pass_stay_lost() -> None:
    """A point behind the horizon, or cut off, doesn't return when a later pass moves it back."""
    leaves, rebuild = split_sample(
        {"image": IMAGE, "keypoints": torch.tensor([[5.0, 5], [30, 20]])}
    )
    sizes, options = image_sizes(leaves), TargetOptions()
    there = Geometry(np.eye(3)[None], sizes, sizes, np.array([[10.0, 10, 50, 30]]))
    back = Geometry(np.eye(3)[None], sizes, sizes)
    for geometry in (there, back):
        move_targets(leaves, geometry, options)
    finish_targets(leaves, sizes, options)
    assert rebuild(leaves)["keypoints_visible"].tolist() == [False, True]


def test_what_leaves_the_picture_between_passes_is_cut_off() -> None:
    sample = {
        "image": IMAGE,
        "boxes": torch.tensor([[0.0, 0, 10, 20]]),
        "keypoints": torch.tensor([[3.0, 5], [8, 5]]),
    }
    leaves, rebuild = split_sample(sample)
    sizes, options = image_sizes(leaves), TargetOptions(boxes="clamp")
    for shift in (-6.0, 6.0):
        matrix = affine([1, 0, shift], [0, 1, 0])[None]
        move_targets(leaves, Geometry(matrix, sizes, sizes), options)
    finish_targets(leaves, sizes, options)
    result = rebuild(leaves)
    assert result["boxes"].tolist() == [[6, 0, 10, 20]]
    assert result["keypoints"].tolist() == [[3, 5], [8, 5]]
    assert result["keypoints_visible"].tolist() == [False, True]


def test_the_identity_is_exact_in_a_batch() -> None:
    points = torch.rand(2, 50, 2, dtype=torch.float64) * 40
    turn = random_affine(np.random.default_rng(0))
    result = transformed(
        {"image": torch.zeros(2, 3, *SIZE), "keypoints": points}, np.stack([np.eye(3), turn])
    )
    assert torch.equal(result["keypoints"][0], points[0])


def test_dtypes() -> None:
    shift = affine([1, 0, 0.6], [0, 1, 0.5])
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        boxes = moved_boxes(torch.tensor([[1.0, 2, 3, 4]], dtype=dtype), shift)
        assert boxes.dtype == dtype
        assert boxes[0, 1] == 2.5
    for integer in (torch.int32, torch.int64):
        boxes = moved_boxes(torch.tensor([[1, 2, 3, 4]], dtype=integer), shift)
        assert boxes.dtype == integer
        assert boxes.tolist() == [[2, 2, 4, 4]]  # rounded, half to even
    typed = tv.BoundingBoxes([[1, 2, 2, 3]], format="XYWH", canvas_size=SIZE)
    assert moved_boxes(typed, shift).tolist() == [[2, 2, 2, 3]]  # a shift leaves sizes
    array = moved_boxes(np.array([[1, 2, 3, 4]], np.int16), shift)
    assert (array.dtype, array.tolist()) == (np.int16, [[2, 2, 4, 4]])
    points, _ = moved_points(np.array([[1, 2]], np.float32), shift)
    assert points.dtype == np.float32
    # Between two passes nothing is rounded.
    leaves, rebuild = split_sample({"image": IMAGE, "boxes": torch.tensor([[1, 2, 3, 4]])})
    sizes, options = image_sizes(leaves), TargetOptions()
    third = Geometry(affine([1, 0, 1 / 3], [0, 1, 1 / 3])[None], sizes, sizes)
    for _ in range(3):
        move_targets(leaves, third, options)
    finish_targets(leaves, sizes, options)
    assert rebuild(leaves)["boxes"].tolist() == [[2, 3, 4, 5]]


def test_areas() -> None:
    """They scale as the plane does, and with what clamping leaves of the box."""
    boxes = torch.tensor([[0.0, 0, 10, 10], [50, 0, 60, 10]])
    areas: Any = torch.tensor([100.0, 40.0])
    sample = {"image": IMAGE, "boxes": boxes, "area": areas}
    double = affine([2, 0, 0], [0, 1.5, 0])
    assert transformed(sample, double)["area"].tolist() == [300, 120]
    half_out = affine([1, 0, 5], [0, 1, 0])
    assert transformed(sample, half_out, boxes="clamp")["area"].tolist() == [100, 20]
    assert transformed(sample, half_out)["area"].tolist() == [100, 40]
    window = np.array([2.0, 0, 60, 40])  # cuts a fifth off the first box, and clamping half
    cut = transformed(sample, half_out, boxes="clamp", window=window)["area"]  # off the second
    assert cut.tolist() == [80, 20]
    turn = affine([np.cos(0.5), -np.sin(0.5), 0], [np.sin(0.5), np.cos(0.5), 0])
    torch.testing.assert_close(transformed(sample, turn)["area"], sample["area"])
    sample["area"] = [100, 40]
    assert transformed(sample, double)["area"] == [300, 120]
    # Of a small box in a perspective: as that of its corners' quadrilateral.
    matrix = np.array([[1.0, 0.1, 3], [0.05, 1.2, 2], [0.002, 0.004, 1]])
    small = {"image": IMAGE, "boxes": np.array([[20.0, 20, 20.1, 20.1]]), "area": np.array([0.01])}
    corners = [
        move_point(matrix, x, y) for x, y in ((20, 20), (20.1, 20), (20.1, 20.1), (20, 20.1))
    ]
    xs, ys = np.array(corners).T
    expected = 0.5 * abs(np.dot(xs, np.roll(ys, -1)) - np.dot(ys, np.roll(xs, -1)))
    np.testing.assert_allclose(transformed(small, matrix)["area"], expected, rtol=1e-3)


def test_gradients_flow_to_boxes_and_points() -> None:
    rng = np.random.default_rng(3)
    matrix = random_affine(rng)
    boxes = torch.tensor([[3.0, 4, 10, 20]], dtype=torch.float64, requires_grad=True)
    points = torch.rand(3, 2, dtype=torch.float64, requires_grad=True)

    def both(b: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        result = transformed({"image": IMAGE, "boxes": b, "keypoints": p}, matrix)
        return result["boxes"], result["keypoints"]

    assert torch.autograd.gradcheck(both, (boxes, points))


def test_batches_are_their_samples() -> None:
    rng = np.random.default_rng(4)
    matrices = np.stack([random_affine(rng), random_perspective(rng), random_affine(rng)])
    images = torch.zeros(3, 3, *SIZE)
    boxes, points = random_boxes(rng, 15).reshape(3, 5, 4), rng.uniform(0, 40, (3, 5, 2, 2))
    areas = rng.uniform(1, 9, (3, 5))
    flags = rng.integers(0, 2, (3, 5, 2))
    batch = {
        "image": images,
        "boxes": torch.tensor(boxes),
        "area": torch.tensor(areas),
        "keypoints": torch.tensor(points),
        "keypoints_visible": torch.tensor(flags),
    }
    ragged = {
        "image": list(images),
        "boxes": [torch.tensor(b[: 5 - i]) for i, b in enumerate(boxes)],
        "area": [torch.tensor(a[: 5 - i]) for i, a in enumerate(areas)],
        "keypoints": [p[: 5 - i] for i, p in enumerate(points)],
    }
    dense, lists = transformed(batch, matrices), transformed(ragged, matrices)
    sanitized = transformed(ragged, matrices, boxes="sanitize")
    for i, matrix in enumerate(matrices):
        sample = {key: value[i] for key, value in batch.items()}
        single = transformed(sample, matrix)
        for key in ("boxes", "area", "keypoints", "keypoints_visible"):
            assert torch.equal(dense[key][i], single[key])
        sample = {key: value[i] for key, value in ragged.items()}
        single = transformed(sample, matrix)
        np.testing.assert_array_equal(lists["boxes"][i], single["boxes"])
        np.testing.assert_array_equal(lists["area"][i], single["area"])
        np.testing.assert_array_equal(lists["keypoints"][i], single["keypoints"])
        np.testing.assert_array_equal(lists["keypoints_visible"][i], single["keypoints_visible"])
        single = transformed(sample, matrix, boxes="sanitize")
        assert torch.equal(sanitized["boxes"][i], single["boxes"])
        assert torch.equal(sanitized["area"][i], single["area"])


def test_typed_batches() -> None:
    images = torch.zeros(2, 3, *SIZE)
    boxes = [
        tv.BoundingBoxes([[1.0, 2, 3, 4]] * count, format="XYWH", canvas_size=SIZE)
        for count in (1, 3)
    ]
    points = tv.KeyPoints(torch.rand(2, 4, 2), canvas_size=SIZE)
    crop = affine([1, 0, -1], [0, 1, 0])
    result = transformed({"image": images, "boxes": boxes, "keypoints": points}, crop, (30, 20))
    for box, count in zip(result["boxes"], (1, 3), strict=True):
        assert type(box) is tv.BoundingBoxes
        assert box.format.value == "XYWH"
        assert tuple(box.canvas_size) == (30, 20)
        assert box.tolist() == [[0, 2, 3, 4]] * count
    assert tuple(result["keypoints"].canvas_size) == (30, 20)


def test_nothing_to_move() -> None:
    """No boxes, no points: shapes and types stay."""
    empty = {
        "image": IMAGE,
        "boxes": torch.zeros(0, 4),
        "labels": torch.zeros(0, dtype=torch.int64),
        "masks": torch.zeros(0, *SIZE, dtype=torch.uint8),
        "keypoints": torch.zeros(0, 5, 3),
        "area": torch.zeros(0),
    }
    rng = np.random.default_rng(5)
    for matrix in (random_affine(rng), random_perspective(rng)):
        for policy in ("keep", "clamp", "sanitize"):
            result = transformed(empty, matrix, (20, 30), boxes=policy)
            assert result["boxes"].shape == (0, 4)
            assert result["masks"].shape == (0, 20, 30)
            assert result["keypoints"].shape == (0, 5, 3)
            assert result["area"].shape == (0,)


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=9, max_size=9),
    st.lists(st.floats(-1e4, 1e4), min_size=4, max_size=4),
)
def test_results_are_always_defined(elements: list[float], numbers: list[float]) -> None:
    """Whatever the matrix, boxes are finite and have no negative sides."""
    x, y = sorted(numbers[:2]), sorted(numbers[2:])
    box = np.array([[x[0], y[0], x[1], y[1]]])
    with np.errstate(all="ignore"):
        result = moved_boxes(box, np.array(elements).reshape(3, 3))
        points, seen = moved_points(box[:, :2], np.array(elements).reshape(3, 3))
    if np.isfinite(result).all():
        assert (result[:, 2:] >= result[:, :2]).all()
    assert points.shape == (1, 2)
    assert seen.shape == (1,)


@pytest.mark.cuda
def test_cuda_without_a_sync() -> None:
    rng = np.random.default_rng(6)
    matrices = np.stack([random_affine(rng), random_perspective(rng)])
    sample: dict[str, Any] = {
        "image": torch.zeros(2, 3, *SIZE, dtype=torch.uint8),
        "mask": torch.randint(0, 9, (2, *SIZE)),
        "boxes": [torch.tensor(random_boxes(rng, n)) for n in (3, 5)],
        "keypoints": torch.rand(2, 4, 2) * 40,
    }
    expected = transformed(sample, matrices, boxes="clamp")
    on_device = {
        key: [v.cuda() for v in value] if isinstance(value, list) else value.cuda()
        for key, value in sample.items()
    }
    transformed(on_device, matrices, boxes="clamp")  # allocates
    torch.cuda.set_sync_debug_mode("error")
    try:
        result = transformed(on_device, matrices, boxes="clamp")
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(result["mask"].cpu(), expected["mask"])
    assert torch.equal(result["keypoints_visible"].cpu(), expected["keypoints_visible"])
    torch.testing.assert_close(result["keypoints"].cpu(), expected["keypoints"])
    for own, other in zip(result["boxes"], expected["boxes"], strict=True):
        torch.testing.assert_close(own.cpu(), other)
    sanitized = transformed(on_device, matrices, boxes="sanitize")  # stops the device
    expected = transformed(sample, matrices, boxes="sanitize")
    for own, other in zip(sanitized["boxes"], expected["boxes"], strict=True):
        torch.testing.assert_close(own.cpu(), other)
