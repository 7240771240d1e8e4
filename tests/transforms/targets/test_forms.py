"""Targets: dtypes, areas, batches, gradients, extremes and CUDA."""

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from references.targets import move_point
from torch import Tensor
from visops import transforms
from visops.transforms.sample.images import image_sizes
from visops.transforms.sample.split import split_sample
from visops.transforms.targets.finish import finish_targets
from visops.transforms.targets.move import move_targets
from visops.transforms.targets.options import Geometry, TargetOptions

from transforms.targets.cases import (
    IMAGE,
    SIZE,
    affine,
    moved_boxes,
    moved_points,
    random_affine,
    random_boxes,
    random_perspective,
    transformed,
)

tv = pytest.importorskip("torchvision.tv_tensors")


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
    assert moved_boxes(typed, shift).tolist() == [[2, 2, 2, 3]]  # a shift keeps sizes
    array = moved_boxes(np.array([[1, 2, 3, 4]], np.int16), shift)
    assert (array.dtype, array.tolist()) == (np.int16, [[2, 2, 4, 4]])
    points, _ = moved_points(np.array([[1, 2]], np.float32), shift)
    assert points.dtype == np.float32
    # Nothing is rounded between passes.
    leaves, rebuild = split_sample({"image": IMAGE, "boxes": torch.tensor([[1, 2, 3, 4]])})
    sizes, options = image_sizes(leaves), TargetOptions()
    third = Geometry(affine([1, 0, 1 / 3], [0, 1, 1 / 3])[None], sizes, sizes)
    for _ in range(3):
        move_targets(leaves, third, options)
    finish_targets(leaves, sizes, options)
    assert rebuild(leaves)["boxes"].tolist() == [[2, 3, 4, 5]]


def test_arrays_of_a_foreign_byte_order_are_collated() -> None:
    sample = {
        "image": IMAGE,
        "boxes": np.array([[1, 2, 3, 4]], ">f4"),
        "labels": np.array([7], ">i4"),
        "keypoints": np.array([[[1, 2]]], ">f8")[::-1],
        "mask": np.full(SIZE, 300, ">u2"),
    }
    chain = transforms.Compose([transforms.RandomHorizontalFlip(0.0)])
    batch = chain.collate([sample, sample])
    for name in ("boxes", "labels", "keypoints", "mask"):
        assert isinstance(batch[name][1], Tensor), name
        np.testing.assert_array_equal(batch[name][1], sample[name])


def test_tensors_whose_memory_is_negated() -> None:
    """Torch's views of imaginary parts; no array can be one."""
    targets = {
        "boxes": torch.tensor([[1.0, 2, 3, 4]]),
        "area": torch.tensor([4.0]),
        "keypoints": torch.tensor([[[1.0, 2]]]),
        "mask": torch.rand(SIZE),
    }
    flip = transforms.Compose([transforms.RandomHorizontalFlip(1.0)])
    negated = {name: torch.complex(own, -own).conj().imag for name, own in targets.items()}
    assert all(own.is_neg() for own in negated.values())
    expected = flip({"image": IMAGE, **targets})
    for name, own in flip({"image": IMAGE, **negated}).items():
        assert torch.equal(own, expected[name]), name


@pytest.mark.parametrize("scale", [100.0, -100.0])
@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int64], ids=str)
def test_integers_saturate(dtype: torch.dtype, scale: float) -> None:
    ends = torch.iinfo(dtype)
    corner = ends.max // 2
    far = affine([abs(scale), 0, 0], [0, scale, 0])
    limit = ends.max if dtype is not torch.int64 else 2**63 - 1024  # of float64
    rows = [[limit, limit, limit, limit] if scale > 0 else [limit, ends.min, limit, ends.min]]
    boxes = torch.tensor([[corner] * 4], dtype=dtype)
    assert moved_boxes(boxes, far, boxes="keep").tolist() == rows
    assert moved_boxes(boxes.numpy(), far, boxes="keep").tolist() == rows
    assert moved_points(boxes[:, :2], far)[0].tolist() == [rows[0][:2]]


def test_areas() -> None:
    """Areas scale with the plane, and with what clamping leaves of the box."""
    boxes = torch.tensor([[0.0, 0, 10, 10], [50, 0, 60, 10]])
    areas: Any = torch.tensor([100.0, 40.0])
    sample = {"image": IMAGE, "boxes": boxes, "area": areas}
    double = affine([2, 0, 0], [0, 1.5, 0])
    assert transformed(sample, double)["area"].tolist() == [300, 120]
    half_out = affine([1, 0, 5], [0, 1, 0])
    assert transformed(sample, half_out, boxes="clamp")["area"].tolist() == [100, 20]
    assert transformed(sample, half_out)["area"].tolist() == [100, 40]
    # The window cuts a fifth off the first box, and clamping half off the second.
    window = np.array([2.0, 0, 60, 40])
    cut = transformed(sample, half_out, boxes="clamp", window=window)["area"]
    assert cut.tolist() == [80, 20]
    turn = affine([np.cos(0.5), -np.sin(0.5), 0], [np.sin(0.5), np.cos(0.5), 0])
    torch.testing.assert_close(transformed(sample, turn)["area"], sample["area"])
    sample["area"] = [100, 40]
    assert transformed(sample, double)["area"] == [300, 120]
    # Under a perspective, a small box scales like the quadrilateral of its corners.
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


def test_batches_equal_their_samples() -> None:
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
    """Without boxes and points, shapes and types stay."""
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
    """Whatever the matrix, finite boxes have no negative sides."""
    x, y = sorted(numbers[:2]), sorted(numbers[2:])
    box = np.array([[x[0], y[0], x[1], y[1] + 1.5]])  # below 1, it may be shares of the sides
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
    sanitized = transformed(on_device, matrices, boxes="sanitize")  # synchronizes
    expected = transformed(sample, matrices, boxes="sanitize")
    for own, other in zip(sanitized["boxes"], expected["boxes"], strict=True):
        torch.testing.assert_close(own.cpu(), other)
