"""Samples at points: values against loops and grid_sample, gradients, errors."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from threads import torch_threads
from torch import Tensor
from torchvision import tv_tensors

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
    smooth_problem,
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


@pytest.mark.matrix
@every_option
def test_gradients_of_grid_sample(mode: str, padding: str, align_corners: bool) -> None:
    made = smooth_problem(channels=3, count=40)
    leaves = [tensor.requires_grad_() for tensor in made]
    grad = torch.rand(2, 3, 40, dtype=torch.float64)
    options = (mode, padding, align_corners)
    ours = torch.autograd.grad(sample(made, *options), leaves, grad, allow_unused=True)
    theirs = torch.autograd.grad(by_grid_sample(made, *options), leaves, grad)
    torch.testing.assert_close(ours[0], theirs[0], rtol=0, atol=1e-12)
    if mode == "nearest":
        assert ours[1] is None
        assert not theirs[1].any()
    else:
        torch.testing.assert_close(ours[1], theirs[1], rtol=0, atol=1e-11)


@pytest.mark.matrix
def test_order_of_sums() -> None:
    """By index: float32 sums of one pixel, from most to least, from every thread count."""
    maps = torch.zeros(1, 1, 5, 6, requires_grad=True)
    points = torch.full((1, 3000, 2), 0.55)
    grad = torch.rand(1, 1, 3000) * torch.logspace(4, -4, 3000)
    found = torch.autograd.grad(visops.point_sample(maps, points), maps, grad)[0]
    weights = visops.point_sample(torch.eye(30).view(1, 30, 5, 6), points[:, :1]).flatten()
    total = torch.zeros(30)
    for g in grad.flatten():
        total += weights * g
    assert torch.equal(found.flatten(), total)
    for threads in (1, 3):
        with torch_threads(threads):
            again = torch.autograd.grad(visops.point_sample(maps, points), maps, grad)[0]
        assert torch.equal(again, found)


def test_second_derivatives() -> None:
    made = smooth_problem(count=4, size=(3, 4), channels=2)
    maps, points = made.maps.requires_grad_(), made.points
    assert torch.autograd.gradgradcheck(lambda m: visops.point_sample(m, points), maps)
    points.requires_grad_()

    def of_maps(maps: Tensor, points: Tensor, incoming: Tensor) -> Tensor:
        found = visops.point_sample(maps, points)
        return torch.autograd.grad(found, maps, incoming, create_graph=True)[0]

    incoming = torch.rand(2, 2, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(of_maps, (maps, points, incoming))
    found = torch.autograd.grad(visops.point_sample(maps, points).sum(), points, create_graph=True)[
        0
    ]
    with pytest.raises(RuntimeError, match="can't be differentiated again"):
        found.sum().backward()


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", MASKS, ids=str)
def test_points_on_masks(dtype: torch.dtype) -> None:
    given = problem(dtype, count=40)
    points = given.points.requires_grad_()
    grad = torch.rand(2, 3, 40)
    theirs = torch.autograd.grad(visops.point_sample(given.maps.float(), points), points, grad)[0]
    for maps in (given.maps, *([any_bytes(given.maps)] if dtype == torch.bool else [])):
        ours = torch.autograd.grad(visops.point_sample(maps, points), points, grad)[0]
        assert torch.equal(ours, theirs)


def test_points_that_do_not_count() -> None:
    for mode, padding, align_corners in OPTIONS:
        maps = torch.rand(1, 2, 3, 4, requires_grad=True)
        points = torch.tensor([[[float("nan"), 0.5], [0.5, float("-inf")]]], requires_grad=True)
        found = visops.point_sample(
            maps, points, mode=mode, padding_mode=padding, align_corners=align_corners
        )
        grads = torch.autograd.grad(found.sum(), (maps, points), allow_unused=True)
        assert not found.any()
        assert all(g is None or not g.any() for g in grads)


OPS = torch.ops.visops


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast(dtype: torch.dtype) -> None:
    """Half-precision logits beside float32 points: nothing is cast."""
    given = problem()
    project = torch.nn.Conv2d(3, 1, 1)
    with torch.autocast("cpu", dtype=dtype):
        logits = project(given.maps)
        found = visops.point_sample(logits, given.points)
        assert (logits.dtype, found.dtype) == (dtype, dtype)
        found.sum().backward()
        assert visops.point_sample(*given).dtype == torch.float32
    assert project.weight.grad is not None
    assert bool(project.weight.grad.isfinite().all())


def test_defaults_of_the_operator() -> None:
    given = problem()
    assert torch.equal(OPS.point_sample(*given), visops.point_sample(*given))


def test_masks_and_key_points_of_torchvision() -> None:
    """Each kind of tensor leaves a call with the other to somebody else."""
    given = problem(torch.float32, count=5)
    points = given.points.clone().requires_grad_()
    typed = tv_tensors.KeyPoints(points, canvas_size=(1, 1))
    typed.requires_grad_()
    found = visops.point_sample(tv_tensors.Mask(given.maps), typed)
    assert type(found) is Tensor
    assert torch.equal(found, visops.point_sample(given.maps, points))
    expected = torch.autograd.grad(visops.point_sample(given.maps, points).sum(), points)
    torch.testing.assert_close(torch.autograd.grad(found.sum(), typed), expected)


MAPS, POINTS = torch.zeros(2, 3, 4, 5), torch.zeros(2, 6, 2)


def test_expanded_maps() -> None:
    """Maps larger than any memory, of one element."""
    maps = torch.ones(1, 1, 1, 1).expand(1, 2, 2**20, 2**20)
    found = visops.point_sample(maps, torch.rand(1, 50, 2) * 0.9 + 0.05)
    torch.testing.assert_close(found, torch.ones(1, 2, 50))
