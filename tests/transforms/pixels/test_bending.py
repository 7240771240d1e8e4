"""Transforms that bend the image: their fields are their peers', and targets follow."""

from collections.abc import Callable
from typing import Any

import albumentations.augmentations.geometric.functional as geometric
import cv2
import numpy as np
import pytest
import torch
import visops
from scipy.interpolate import RBFInterpolator
from torch import Tensor
from torchvision import tv_tensors as tv
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F
from visops import transforms as T

from transforms.pixels.steps import BENDS, picture


def ramps(height: int, width: int) -> Tensor:
    """An image that says where each of its pixels is."""
    y, x = np.mgrid[:height, :width]
    return torch.from_numpy(np.stack((x, y))).double()


def field_of(step: Any, size: tuple[int, int], index: int = 0) -> np.ndarray:
    """Where each pixel of a result is read, [2, H, W], inside of the image."""
    step.padding_mode = "replicate"
    chain = T.Compose([step], seed=0)
    return chain(ramps(*size)[[0, 1, 1]], index=index)[:2].numpy()  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", BENDS)
def test_pixels_are_those_of_opencv_by_the_same_map(name: str) -> None:
    image = picture()
    chain = T.Compose([BENDS[name]()], seed=0)
    expected_at = T.Compose([BENDS[name]()], seed=0)
    expected_at.transforms[0].padding_mode = "replicate"
    x, y = expected_at(ramps(*image.shape[-2:])[[0, 1, 1]], index=7)[:2].float().numpy()
    inside = (x > 1) & (y > 1) & (x < image.shape[2] - 2) & (y < image.shape[1] - 2)
    array = np.ascontiguousarray(image.permute(1, 2, 0).numpy())
    expected = cv2.remap(array, x, y, cv2.INTER_LINEAR)
    found = chain(image, index=7).permute(1, 2, 0).numpy()
    assert inside.mean() > 0.5
    assert np.abs(found.astype(int) - expected.astype(int))[inside].max() <= 1
    assert (found != array).mean() > 0.3


def test_elastic_fields_are_torchvision_s() -> None:
    """Fields of noise alone have the same spread and the same likeness of neighbours."""
    size, alpha, sigma = (160, 200), [60.0, 30.0], [4.0, 6.0]
    position = ramps(*size).numpy()
    ours, theirs = [], []
    torch.manual_seed(0)
    for index in range(12):
        ours.append(field_of(T.ElasticTransform(alpha, sigma), size, index) - position)
        drawn = v2.ElasticTransform(alpha, sigma).make_params([tv.Image(torch.zeros(3, *size))])
        shift = drawn["displacement"][0].permute(2, 0, 1).numpy()
        theirs.append(shift * np.array(size[::-1])[:, None, None] / 2)
    a, b = (np.stack(f)[:, :, 30:-30, 30:-30] for f in (ours, theirs))
    for axis in (0, 1):
        assert abs(a[:, axis].std() / b[:, axis].std() - 1) < 0.08
        for lag in (3, 8):
            likeness = [
                (f[:, axis, :, lag:] * f[:, axis, :, :-lag]).mean() / f[:, axis].var()
                for f in (a, b)
            ]
            assert abs(likeness[0] - likeness[1]) < 0.08
    assert abs(np.corrcoef(a[:, 0].ravel(), a[:, 1].ravel())[0, 1]) < 0.1
    rough = field_of(T.ElasticTransform(2.0, 0.0), size) - position
    assert 0.9 < np.abs(rough[:, 30:-30, 30:-30]).max() <= 1.0


def test_an_elastic_result_is_torchvision_s_by_the_same_field() -> None:
    image = picture().float() / 255
    height, width = image.shape[-2:]
    positions = field_of(T.ElasticTransform(50.0, 5.0), (height, width))
    shift = (
        (positions - ramps(height, width).numpy()) * 2 / np.array([width, height])[:, None, None]
    )
    grid = torch.from_numpy(shift).permute(1, 2, 0)[None].float()
    expected = F.elastic(image, grid, fill=[0.0])
    found = T.Compose([T.ElasticTransform(50.0, 5.0)], seed=0)(image, index=0)
    inner = (..., slice(12, -12), slice(12, -12))
    torch.testing.assert_close(found[inner], expected[inner], rtol=0, atol=2e-3)


@pytest.mark.parametrize("normalized", [False, True])
def test_a_grid_s_field_is_albumentations(normalized: bool) -> None:
    height, width, count = 97, 123, 5
    step = T.GridDistortion(count, 0.4, normalized=normalized, p=1)
    chain = T.Compose([step], seed=0)
    image = torch.zeros(3, height, width)
    params = chain.make_params(image, index=3).steps[0]
    x, y = params["x_factors"][0], params["y_factors"][0]
    expected = geometric.generate_grid((height, width), x.tolist(), y.tolist(), count)
    found = field_of(step, (height, width), 3)
    clipped = [np.clip(e, 0, n - 1) for e, n in zip(expected, (width, height), strict=True)]
    np.testing.assert_allclose(found, np.stack(clipped), atol=2e-3)
    if normalized:
        raw = T.Compose([T.GridDistortion(count, 0.4, normalized=False, p=1)], seed=0)
        plain = raw.make_params(image, index=3).steps[0]
        whole = geometric.normalize_grid_distortion_steps(
            (height, width), count, plain["x_factors"][0].tolist(), plain["y_factors"][0].tolist()
        )
        np.testing.assert_allclose(x, whole["steps_x"], rtol=1e-12)
        np.testing.assert_allclose(y, whole["steps_y"], rtol=1e-12)


@pytest.mark.parametrize("k", [-0.3, 0.4])
def test_lenses_are_albumentations(k: float) -> None:
    mode: Any
    size = (90, 130)
    for mode, maps in (
        ("camera", geometric.get_camera_matrix_distortion_maps),
        ("fisheye", geometric.get_fisheye_distortion_maps),
    ):
        found = field_of(T.OpticalDistortion((k, k), mode=mode, p=1), size)
        expected = maps(size, k)
        shift = 0.5 if mode == "camera" else 0.0  # theirs, even where nothing is distorted
        clipped = [np.clip(e - shift, 0, n - 1) for e, n in zip(expected, size[::-1], strict=True)]
        np.testing.assert_allclose(found, np.stack(clipped), atol=3e-3)


@pytest.mark.parametrize("count", [2, 4])
def test_a_plate_is_scipy_s(count: int) -> None:
    height, width = 85, 101
    step = T.ThinPlateSpline((0.3, 0.3), count, p=1)
    chain = T.Compose([step], seed=0)
    shifts = chain.make_params(torch.zeros(3, height, width), index=1).steps[0]["shifts"][0]
    points = np.array(step._points())
    spline = RBFInterpolator(points, points + shifts.reshape(-1, 2), kernel="thin_plate_spline")
    y, x = np.mgrid[:height, :width]
    sides = np.array([width, height])
    expected = spline(np.stack((x, y), -1).reshape(-1, 2) / sides) * sides
    expected = np.clip(expected, 0, sides - 1).T.reshape(2, height, width)
    assert np.abs(field_of(step, (height, width), 1) - expected).max() < 0.05


@pytest.mark.parametrize("name", BENDS)
def test_targets_follow(name: str) -> None:
    """Paint a dot and a box, bend the picture, and find them."""
    height, width = 150, 190
    generator = np.random.default_rng(3)
    chain = T.Compose([BENDS[name]()], seed=0)
    for index in range(6):
        x, y = generator.uniform(40, width - 40), generator.uniform(40, height - 40)
        rows, columns = np.mgrid[:height, :width]
        dot = np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / 18.0)
        mask = np.zeros((height, width), np.uint8)
        mask[int(y) - 12 : int(y) + 9, int(x) - 7 : int(x) + 15] = 3
        box = [int(x) - 7, int(y) - 12, int(x) + 15, int(y) + 9]
        polygon = np.array([box[:2], [box[2], box[1]], box[2:], [box[0], box[3]]], np.float64)
        sample = {
            "image": torch.from_numpy(np.stack([dot] * 3)),
            "mask": mask,
            "boxes": torch.tensor([box], dtype=torch.float64),
            "keypoints": torch.tensor([[x, y]], dtype=torch.float64),
            "polygons": [[polygon]],
        }
        out = chain(sample, index=index)
        found = out["image"][0].numpy()
        weight = found / found.sum()
        seen = (weight * columns).sum(), (weight * rows).sum()
        assert np.abs(out["keypoints"][0].numpy() - seen).max() < 1.2
        inside = out["mask"] == 3
        assert set(np.unique(out["mask"])) <= {0, 3, 255}
        positions = np.argwhere(inside)
        bounds = [*positions.min(0)[::-1], *(positions.max(0)[::-1] + 1)]
        assert np.abs(out["boxes"][0].numpy() - bounds).max() <= 1.5
        moved = out["polygons"][0][0]
        edges = out["boxes"][0].numpy()
        assert (moved >= edges[:2] - 1e-6).all()
        assert (moved <= edges[2:] + 1e-6).all()


def test_points_are_found_to_the_stated_tolerance() -> None:
    height, width = 120, 160
    step = T.ElasticTransform(100.0, 6.0)
    positions = field_of(step, (height, width))
    q = np.array([[70, 50], [90, 80], [30, 60]])  # pixels of the result
    sources = positions[:, q[:, 1], q[:, 0]].T
    sample = {"image": torch.zeros(3, height, width), "keypoints": torch.from_numpy(sources)}
    found = T.Compose([step], seed=0)(sample, index=0)["keypoints"].numpy()
    assert np.abs(found - q).max() < 1e-3
    half = T.Compose([step], seed=0, keypoint_convention="half_pixel")
    sample["keypoints"] = torch.from_numpy(sources + 0.5)
    assert np.abs(half(sample, index=0)["keypoints"].numpy() - q - 0.5).max() < 1e-3


@pytest.mark.parametrize("name", BENDS)
def test_dtypes(name: str) -> None:
    image = picture()
    chain = T.Compose([BENDS[name]()], seed=1)
    expected = chain(image, index=0).double()
    for dtype in (torch.float32, torch.float64, torch.int16):
        out = chain(image.to(dtype), index=0)
        assert out.dtype == dtype
        assert (out.double() - expected).abs().max() <= 0.51


def test_probability_and_choices() -> None:
    image = picture()[:, ::3, ::3].contiguous()
    for step in (T.GridDistortion(p=0.3), T.RandomApply([T.ElasticTransform(90.0, 2.0)], 0.3)):
        out = T.Compose([step], seed=0)(torch.stack([image] * 400), index=range(400))
        moved = (out != image).flatten(1).any(1).float().mean()
        assert 0.2 < moved < 0.4
    several = T.Compose([T.RandomChoice([T.ElasticTransform(), T.RandomHorizontalFlip(1)])], seed=0)
    sample = {"image": image, "boxes": torch.tensor([[4.0, 4, 20, 20]])}
    assert several(sample, index=1)["boxes"].shape == (1, 4)
    chain = T.Compose([T.RandomResizedCrop(32), T.ElasticTransform(), T.RandomHorizontalFlip()])
    assert [part.kind for part in chain.passes] == ["fused", "alone", "fused"]
    assert chain(torch.stack([image] * 2)).shape == (2, 3, 32, 32)


def test_inverse_refuses() -> None:
    image = picture()
    for step in (T.ElasticTransform(), T.RandomApply([T.GridDistortion(p=1)], 1.0)):
        chain = T.Compose([step])
        out, params = chain(image, return_params=True)
        with pytest.raises(TypeError, match="which bends images, as no matrix undoes"):
            chain.inverse(out, params)


def test_areas_and_clamped_boxes() -> None:
    sample = {
        "image": torch.zeros(3, 100, 100),
        "boxes": torch.tensor([[40.0, 40, 60, 60], [-20, 10, 30, 40]]),
        "area": torch.tensor([400.0, 1500.0]),
        "labels": torch.tensor([1, 2]),
    }
    chain = T.Compose([T.OpticalDistortion((0.5, 0.5), p=1)], boxes="sanitize", seed=0)
    out = chain(sample, index=0)
    assert len(out["boxes"]) == len(out["labels"]) == len(out["area"]) == 2
    sides = out["boxes"][0, 2:] - out["boxes"][0, :2]
    assert abs(float(out["area"][0] / sides.prod()) - 1) < 0.05
    assert out["boxes"].min() >= 0
    rotated = tv.BoundingBoxes(
        torch.tensor([[30.0, 30, 10, 10, 20]]), format="CXCYWHR", canvas_size=(100, 100)
    )
    with pytest.raises(TypeError, match="makes no rectangles of rotated boxes"):
        chain({"image": sample["image"], "boxes": rotated})


def test_remap_s_field_is_a_control_grid() -> None:
    grid = np.random.default_rng(0).normal(0, 3, (2, 4, 5, 2))
    for spline in (False, True):
        dx, dy = visops.displacement_field(grid, (40, 60), spline=spline)
        assert dx.shape == dy.shape == (2, 40, 60)
        wanted = torch.from_numpy(grid).requires_grad_()
        again, _ = visops.displacement_field(wanted, (40, 60), spline=spline)
        torch.testing.assert_close(again.float(), dx, rtol=0, atol=1e-5)
        again.sum().backward()
        assert wanted.grad is not None
        if not spline:
            for corner, point in (
                (dx[:, 0, 0], grid[:, 0, 0, 0]),
                (dx[:, -1, -1], grid[:, -1, -1, 0]),
            ):
                np.testing.assert_allclose(corner, point, rtol=1e-5)


@pytest.mark.parametrize("convention", ["integer", "half_pixel"])
def test_points_outside_stay_invisible(convention: Any) -> None:
    """A point is visible if it was inside at every step, wherever the bend has moved it."""
    outside = torch.tensor([[-3.0, 20], [62, 10], [30, 61.5], [20, -4], [30, 30]])
    shrink = T.OpticalDistortion((0.5, 0.5), p=1.0)
    for steps in ([shrink], [T.RandomApply([shrink], 1.0)]):
        chain = T.Compose(steps, seed=0, keypoint_convention=convention)
        found = chain({"image": torch.rand(3, 60, 60), "keypoints": outside})
        assert found["keypoints_visible"].tolist() == [False] * 4 + [True]


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("shrinks", lambda: T.OpticalDistortion((2.0, 2.0), p=1.0)),
        ("jumps", lambda: T.GridDistortion(distort_limit=0.9, normalized=False, p=1.0)),
        ("folds", lambda: T.ElasticTransform(50.0, 3.0)),
    ],
)
def test_points_are_where_the_image_shows_them(name: str, step: Callable[[], Any]) -> None:
    """An image of its own coordinates says what is read where, however fast the map changes."""
    side = 160
    image = torch.cat((ramps(side, side), torch.ones(1, side, side)))
    points = torch.from_numpy(np.random.default_rng(0).uniform(0, side - 1, (2000, 2)))
    checked = 0
    for index in range(4):
        out = T.Compose([step()], seed=0)({"image": image, "keypoints": points}, index=index)
        at = out["keypoints"]
        inside = out["keypoints_visible"] & ((at >= 0) & (at <= side - 1)).all(1)
        at, expected = at[inside], points[inside]
        low = at.floor().clamp(max=side - 2).long()
        share = (at - low)[:, None]
        corners = [
            out["image"][:, low[:, 1] + dy, low[:, 0] + dx].T for dy in (0, 1) for dx in (0, 1)
        ]
        above, below = (torch.lerp(corners[i], corners[i + 1], share[..., 0]) for i in (0, 2))
        read = torch.lerp(above, below, share[..., 1])
        whole = (torch.stack(corners)[..., 2] == 1.0).all(0)  # all of its pixels are of the image
        assert (read[:, :2] - expected)[whole].abs().max() < 1e-3
        checked += int(whole.sum())
    assert checked > 2000


def test_edges_of_polygons_bend() -> None:
    """A polygon covers what its mask does, though it has four corners only."""
    height, width = 160, 200
    mask = torch.zeros(1, height, width, dtype=torch.uint8)
    mask[:, 20:140, 20:180] = 1
    polygon = np.array([[20.0, 20], [180, 20], [180, 140], [20, 140]])
    for step in (T.OpticalDistortion((0.9, 0.9), p=1.0), T.ElasticTransform(300.0, 10.0)):
        sample = {"image": torch.zeros(3, height, width), "masks": mask, "polygons": [[polygon]]}
        sample["boxes"] = torch.tensor([[20.0, 20, 180, 140]])
        out = T.Compose([step], seed=0)(sample, index=1)
        drawn = np.zeros((height, width), np.uint8)
        points = (np.asarray(out["polygons"][0][0]).reshape(-1, 2) - 0.5) * 16
        cv2.fillPoly(drawn, [np.rint(points).astype(np.int32)], 1, shift=4)
        covered = out["masks"][0].numpy()
        assert (drawn != covered).sum() < 0.015 * covered.sum()


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_results_are_never_the_callers_memory(p: float) -> None:
    steps: list[Any] = [
        T.ElasticTransform(30.0),
        T.OpticalDistortion(p=p),
        T.SanitizeBoundingBoxes(),
    ]
    if p == 0.0:
        steps[0] = T.GridDistortion(p=p)
    array = np.full((20, 30, 3), 7, np.uint8)
    typed = tv.Image(torch.full((3, 20, 30), 7))
    for image in (array, typed, torch.full((3, 20, 30), 7), torch.full((2, 3, 20, 30), 7)):
        sample = {"image": image, "boxes": [[0.0, 0, 9, 9]], "labels": [1]}
        if image.ndim > 3:
            sample |= {"boxes": [sample["boxes"]] * 2, "labels": [[1], [1]]}
        for chain in (T.Compose(steps, seed=0), T.Compose(steps[2:], seed=0)):
            chain(sample, index=[0, 1] if image.ndim > 3 else 0)["image"].zero_()
            assert (image == 7).all()
