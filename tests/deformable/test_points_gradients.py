"""Gradients of point samples: gradcheck, grid_sample, determinism, second derivatives."""

import pytest
import torch
import visops
from torch import Tensor

from deformable.point_cases import (
    FLOATING,
    MASKS,
    OPTIONS,
    any_bytes,
    by_grid_sample,
    every_option,
    problem,
    sample,
    smooth_problem,
)


@pytest.mark.matrix
@every_option
def test_grid_sample(mode: str, padding: str, align_corners: bool) -> None:
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


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_types(dtype: torch.dtype) -> None:
    """Sums are float32 and rounded once."""
    made = problem(dtype, count=400)
    wide = [tensor.double().requires_grad_() for tensor in made]
    leaves = [tensor.requires_grad_() for tensor in made]
    grad = torch.rand(2, 3, 400).to(dtype)
    ours = torch.autograd.grad(visops.point_sample(*made), leaves, grad)
    theirs = torch.autograd.grad(visops.point_sample(*wide), wide, grad.double())
    bounds = {torch.float64: 1e-12, torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}
    for found, wanted in zip(ours, theirs, strict=True):
        assert found.dtype == dtype
        bound = bounds[dtype] * float(wanted.abs().max())
        torch.testing.assert_close(found.double(), wanted, rtol=0, atol=bound)


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
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        again = torch.autograd.grad(visops.point_sample(maps, points), maps, grad)[0]
        torch.set_num_threads(before)
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


@pytest.mark.parametrize("channels", [1, 3, 20])
def test_layouts(channels: int) -> None:
    made = problem(channels=channels)
    grad = torch.rand(2, channels, 50)
    wanted = torch.autograd.grad(
        visops.point_sample(*(t.requires_grad_() for t in made)), list(made), grad
    )
    last = made.maps.detach().contiguous(memory_format=torch.channels_last).requires_grad_()
    turned = grad.transpose(1, 2).contiguous().transpose(1, 2)
    found = torch.autograd.grad(visops.point_sample(last, made.points), (last, made.points), turned)
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))
