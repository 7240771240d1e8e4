"""Point samples as torch sees them: opcheck, compile, vmap, torch.func, autocast, fakes."""

import pytest
import torch
import visops
from torch import Tensor
from torchvision import tv_tensors

from deformable.point_cases import problem

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
