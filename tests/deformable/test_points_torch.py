"""Point samples as torch sees them: opcheck, compile, vmap, torch.func, autocast, fakes."""

import pytest
import torch
import visops
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torchvision import tv_tensors

from deformable.point_cases import MODES, problem

OPS = torch.ops.visops
every_mode = pytest.mark.parametrize("mode", MODES)


@every_mode
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_opcheck(dtype: torch.dtype, mode: str) -> None:
    given = problem(dtype, count=5)
    grad = torch.rand(2, 3, 5).to(dtype)
    last = given.maps.contiguous(memory_format=torch.channels_last)
    options = (mode, "border", False)
    for leaves in (False, True):
        for tensor in (given.maps, last, given.points, grad):
            tensor.requires_grad_(leaves)
        for maps in (given.maps, last):
            torch.library.opcheck(OPS.point_sample, (maps, given.points, *options))
        torch.library.opcheck(
            OPS.point_sample_backward_input, (grad, given.points, [2, 3, 7, 9], *options)
        )
        if mode == "bilinear" and not leaves:
            torch.library.opcheck(
                OPS.point_sample_backward_points, (grad, last, given.points, *options)
            )
    masks = problem(torch.bool, count=5)
    torch.library.opcheck(OPS.point_sample, (masks.maps, masks.points, *options))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(dynamic: bool) -> None:
    """Fullgraph, with gradients; points of each image, a grid of them, and shared ones."""
    torch.compiler.reset()
    compiled = torch.compile(
        visops.point_sample, fullgraph=True, dynamic=dynamic, backend="aot_eager"
    )
    for count in (6, 10):
        made = problem(count=count)
        leaves = [tensor.requires_grad_() for tensor in made]
        for points in (made.points, made.points.view(2, 2, count // 2, 2), made.points[:1]):
            found, wanted = compiled(made.maps, points), visops.point_sample(made.maps, points)
            assert torch.equal(found, wanted)
            ours = torch.autograd.grad(found.sum(), leaves)
            theirs = torch.autograd.grad(wanted.sum(), leaves)
            assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("mapped", [(0, 0), (None, 0), (0, None), (2, 1), (1, 2)])
def test_vmap(mapped: tuple[int | None, int | None]) -> None:
    parts = [problem(torch.float64, seed=seed, count=6) for seed in range(4)]
    leaves = [
        torch.stack([part[i] for part in parts], dim) if dim is not None else parts[0][i]
        for i, dim in enumerate(mapped)
    ]
    found = torch.vmap(visops.point_sample, in_dims=mapped)(*leaves)

    def loss(maps: Tensor, points: Tensor) -> Tensor:
        return visops.point_sample(maps, points).square().sum()

    grads = torch.vmap(torch.func.grad(loss, argnums=(0, 1)), in_dims=mapped)(*leaves)
    for i in range(4):
        own = [
            (leaf if dim is None else leaf.select(dim, i)).clone().requires_grad_()
            for leaf, dim in zip(leaves, mapped, strict=True)
        ]
        wanted = visops.point_sample(*own)
        assert torch.equal(found[i], wanted)
        theirs = torch.autograd.grad(wanted.square().sum(), own)
        for ours, other in zip(grads, theirs, strict=True):
            torch.testing.assert_close(ours[i], other, rtol=0, atol=1e-13)


def test_vmap_of_nothing() -> None:
    none = problem(count=0)
    stacked = [torch.stack([tensor] * 2) for tensor in none]
    assert torch.vmap(visops.point_sample)(*stacked).shape == (2, 2, 3, 0)
    assert torch.vmap(visops.point_sample)(stacked[0][:0], stacked[1][:0]).shape == (0, 2, 3, 0)


def test_jacobian() -> None:
    given = problem(torch.float64, batch=1, channels=2, size=(3, 4), count=3)
    found = torch.func.jacrev(visops.point_sample)(*given)
    basis = torch.eye(24, dtype=torch.float64).view(-1, *given.maps.shape)
    columns = torch.stack([visops.point_sample(b, given.points) for b in basis], -1)
    torch.testing.assert_close(found, columns.view(found.shape), rtol=0, atol=1e-14)


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


def test_fake_tensors() -> None:
    given = problem(torch.float16)
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        maps, points = (mode.from_tensor(tensor.requires_grad_()) for tensor in given)
        found = visops.point_sample(maps, points)
        assert (tuple(found.shape), found.dtype) == ((2, 3, 50), torch.float16)
        grads = torch.autograd.grad(found.sum(), (maps, points))
        assert [g.shape for g in grads] == [maps.shape, points.shape]
        assert visops.point_sample(maps > 0, points.float()).dtype == torch.float32


def test_defaults_of_the_operator() -> None:
    given = problem()
    assert torch.equal(OPS.point_sample(*given), visops.point_sample(*given))


def test_no_gradient_is_wanted() -> None:
    given = problem()
    wanted = visops.point_sample(*given)
    given.maps.requires_grad_()
    with torch.no_grad():
        assert not visops.point_sample(*given).requires_grad
    with torch.inference_mode():
        assert torch.equal(visops.point_sample(*given), wanted)


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
