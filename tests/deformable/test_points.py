"""Samples at points: values against loops in float64 and against grid_sample."""

from typing import Any

import numpy as np
import pytest
import torch
import visops

from deformable.attention_cases import assert_near
from deformable.point_cases import (
    FLOATING,
    MASKS,
    OPTIONS,
    Problem,
    any_bytes,
    by_grid_sample,
    every_option,
    points_on_grid,
    problem,
    sample,
)

every_dtype = pytest.mark.parametrize("dtype", FLOATING, ids=str)


def exact(dtype: torch.dtype, channels: int, seed: int, size: tuple[int, int] = (8, 16)) -> Problem:
    """Coordinates that every format and every implementation has exactly; many are ties."""
    made = problem(dtype, channels=channels, size=size, seed=seed)
    rng = np.random.default_rng(seed)
    points = np.clip(points_on_grid(rng, 2, 60, size, 4), -0.25, 1.5)
    return Problem(made.maps, torch.from_numpy(points).to(made.points.dtype))


@pytest.mark.matrix
@every_option
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_reference(dtype: torch.dtype, mode: str, padding: str, align_corners: bool) -> None:
    """Bilinear anywhere; nearest where float32 does not round."""
    for channels in (1, 3, 20):
        given = problem(dtype, channels=channels)
        if mode == "nearest":
            given = exact(dtype, channels, 1, (8, 16) if not align_corners else (9, 17))
            given = Problem(given.maps, (given.points * 64).round() / 64)
        wanted = given.expected(mode, padding, align_corners)
        assert_near(sample(given, mode, padding, align_corners) / 5, wanted / 5, dtype)


@pytest.mark.matrix
@every_dtype
def test_types(dtype: torch.dtype) -> None:
    for channels in (2, 11):
        given = exact(dtype, channels, 3)
        for mode in ("bilinear", "nearest"):
            found = sample(given, mode, "zeros", False)
            assert found.dtype == dtype
            assert_near(found, given.expected(mode, "zeros", False), dtype)


@pytest.mark.matrix
@every_option
def test_masks(mode: str, padding: str, align_corners: bool) -> None:
    """Bits of the same masks in float32."""
    for dtype in MASKS:
        for channels in (1, 9):
            given = problem(dtype, channels=channels, size=(6, 31), count=600)
            wanted = sample(Problem(given.maps.float(), given.points), mode, padding, align_corners)
            assert torch.equal(sample(given, mode, padding, align_corners), wanted)
            assert wanted.dtype == torch.float32


@pytest.mark.matrix
@every_option
def test_masks_of_any_bytes(mode: str, padding: str, align_corners: bool) -> None:
    """Bytes seen as bools, such as OpenCV's 255, are true unless 0, in every layout of memory."""
    for channels in (1, 9, 40):
        made = problem(torch.bool, channels=channels, size=(6, 31), count=600)
        given = Problem(any_bytes(made.maps), made.points)
        wanted = sample(Problem(made.maps.float(), made.points), mode, padding, align_corners)
        for maps in (
            given.maps,
            given.maps.contiguous(memory_format=torch.channels_last),
            given.maps.transpose(2, 3).contiguous().transpose(2, 3),
        ):
            found = sample(Problem(maps, made.points), mode, padding, align_corners)
            assert torch.equal(found, wanted)
            assert found.dtype == torch.float32


@every_option
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_grid_sample(dtype: torch.dtype, mode: str, padding: str, align_corners: bool) -> None:
    given = exact(dtype, 4, 5) if mode == "nearest" else problem(dtype, channels=4, count=400)
    if mode == "nearest" and align_corners:
        made = exact(dtype, 4, 5, (9, 17))
        given = Problem(made.maps, (made.points * 64).round() / 64)
    found = sample(given, mode, padding, align_corners)
    wanted = by_grid_sample(given, mode, padding, align_corners)
    bound = 1e-12 if dtype == torch.float64 else 3e-5  # its coordinates are rounded once more
    torch.testing.assert_close(found, wanted, rtol=0, atol=bound)


@pytest.mark.matrix
def test_by_hand() -> None:
    maps = torch.arange(12.0).view(1, 1, 3, 4)
    positions = {
        (0.125, 1 / 6): (0.0, 0.0),
        (0.0, 0.0): (0.0, 0.0),
        (0.25, 1 / 6): (0.5, 0.5),
        (0.5, 0.5): (5.5, 5.5),
        (1.0, 0.5): (3.5, 7.0),
        (1.0, 1.0): (2.75, 11.0),
        (1.125, 0.5): (0.0, 7.0),
        (-9.0, 0.5): (0.0, 4.0),
        (float("nan"), 0.5): (0.0, 0.0),
        (0.5, float("inf")): (0.0, 0.0),
    }
    points = torch.tensor(list(positions))[None]
    for k, padding in enumerate(("zeros", "border")):
        found = visops.point_sample(maps, points, padding_mode=padding)
        torch.testing.assert_close(
            found.flatten(), torch.tensor([v[k] for v in positions.values()])
        )


@pytest.mark.matrix
def test_values_that_are_not_finite() -> None:
    """Only points that read them are affected; a tap outside is 0, whatever lies beside it."""
    for channels in (1, 9):
        maps = torch.ones(1, channels, 3, 4)
        maps[0, :, 0, 3] = float("inf")
        points = torch.tensor([[[0.9, 0.1], [0.1, 0.1], [-0.1, 0.1], [0.9, 0.9]]])
        found = visops.point_sample(maps, points)[0, 0]
        assert found.isinf().tolist() == [True, False, False, False]
        assert not found.isnan().any()


@every_dtype
@pytest.mark.parametrize("channels", [1, 5, 12, 40])
def test_layouts(dtype: torch.dtype, channels: int) -> None:
    given = problem(dtype, channels=channels, size=(9, 10))
    wanted = visops.point_sample(*given)
    maps = given.maps
    wide = torch.nn.functional.pad(maps, (2, 3, 1, 1))[:, :, 1:-1, 2:-3]
    turned = maps.transpose(2, 3).contiguous().transpose(2, 3)
    last = maps.contiguous(memory_format=torch.channels_last)
    for other in (wide, turned, last):
        assert torch.equal(visops.point_sample(other, given.points), wanted)
    expanded = visops.point_sample(maps[:1].expand(2, -1, -1, -1), given.points)
    assert torch.equal(expanded[0], wanted[0])
    if channels > 1:
        assert visops.point_sample(last, given.points).stride(1) == 1


def test_shapes_of_points() -> None:
    given = problem(channels=2, count=24)
    wanted = visops.point_sample(*given)
    grid = visops.point_sample(given.maps, given.points.view(2, 4, 3, 2, 2))
    assert torch.equal(grid, wanted.view(2, 2, 4, 3, 2))
    shared = visops.point_sample(given.maps, given.points[:1])
    assert torch.equal(shared[0], wanted[0])
    assert torch.equal(shared, visops.point_sample(given.maps, given.points[:1].expand(2, -1, -1)))
    last = given.maps.contiguous(memory_format=torch.channels_last)
    assert torch.equal(visops.point_sample(last, given.points[:1]), shared)


@pytest.mark.parametrize("empty", ["batch", "channels", "points"])
def test_nothing(empty: str) -> None:
    sizes = {"batch": 2, "channels": 3, "points": 4, empty: 0}
    maps = torch.rand(sizes["batch"], sizes["channels"], 5, 6, requires_grad=True)
    points = torch.rand(sizes["batch"], sizes["points"], 2, requires_grad=True)
    found = visops.point_sample(maps, points)
    assert found.shape == tuple(sizes.values())
    grads = torch.autograd.grad(found.sum(), (maps, points))
    assert all(not g.any() for g in grads)


@pytest.mark.parametrize("size", [(1, 1), (1, 5), (4, 1), (2, 2)])
@pytest.mark.parametrize("channels", [1, 9])
def test_small_maps(size: tuple[int, int], channels: int) -> None:
    given = problem(size=size, channels=channels)
    for options in OPTIONS:
        if options[0] == "bilinear":
            assert_near(sample(given, *options), given.expected(*options), torch.float32)


def test_nearest_is_half_to_even() -> None:
    maps = torch.arange(6.0).view(1, 1, 1, 6)
    points = torch.tensor([[[x / 6, 0.5] for x in range(1, 6)]])
    found: Any = visops.point_sample(maps, points, mode="nearest").flatten().tolist()
    assert found == [0, 2, 2, 4, 4]
