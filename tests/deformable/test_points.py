"""Samples at points: values against loops and grid_sample, gradients, errors."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from bad_input import check
from threads import torch_threads
from torch import Tensor
from torch.nn import functional
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
    padding: Any
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


def by_steps(
    logits: Tensor,
    count: int,
    oversample: float,
    importance: float,
    uncertainty: str,
    generator: torch.Generator,
) -> Tensor:
    """Draw, sample by grid_sample, choose, draw the rest: one image at a time."""
    tried = int(count * oversample)
    points = torch.rand(len(logits), tried, 2, generator=generator, dtype=logits.dtype)
    chosen = []
    for image, own in zip(logits, points, strict=True):
        values = functional.grid_sample(
            image[None], 2 * own[None, :, None] - 1, align_corners=False
        )[0, :, :, 0]
        if uncertainty == "logit":
            doubt = -values[0].abs()
        else:
            ordered = values.sort(0, descending=True).values
            doubt = ordered[1] - ordered[0]
        rank = sorted(range(tried), key=lambda i: (-float(doubt[i]), i))
        chosen.append(own[rank[: int(importance * count)]])
    rest = count - int(importance * count)
    made = torch.rand(len(logits), rest, 2, generator=generator, dtype=logits.dtype)
    return torch.cat([torch.stack(chosen), made], 1)


def smooth_logits(channels: int, batch: int = 3) -> Tensor:
    torch.manual_seed(0)
    small = torch.randn(batch, channels, 5, 6, dtype=torch.float64)
    return functional.interpolate(small, size=(20, 24), mode="bilinear")


@pytest.mark.parametrize(
    ("count", "oversample", "importance"),
    [(50, 3, 0.75), (7, 1, 1.0), (13, 2.5, 0.0), (1, 4, 0.5), (0, 3, 0.75)],
)
@pytest.mark.parametrize("uncertainty", ["logit", "margin"])
def test_same_points(count: int, oversample: float, importance: float, uncertainty: Any) -> None:
    """In float64, where no two uncertainties are equal up to rounding."""
    logits = smooth_logits(1 if uncertainty == "logit" else 4)
    generators = [torch.Generator().manual_seed(7) for _ in range(2)]
    found = visops.sample_points_by_uncertainty(
        logits,
        count,
        oversample_ratio=oversample,
        importance_sample_ratio=importance,
        uncertainty=uncertainty,
        generator=generators[0],
    )
    wanted = by_steps(logits, count, oversample, importance, uncertainty, generators[1])
    assert torch.equal(found, wanted)
    # As much was drawn, so what follows is the same too.
    assert torch.equal(*(torch.rand(3, generator=generator) for generator in generators))


def test_float32_draws() -> None:
    """The default generator; the same set of points up to a few of equal uncertainty."""
    logits = smooth_logits(1).float()
    torch.manual_seed(3)
    found = visops.sample_points_by_uncertainty(logits, 200)
    torch.manual_seed(3)
    again = visops.sample_points_by_uncertainty(logits, 200)
    assert torch.equal(found, again)
    generator = torch.Generator().manual_seed(3)
    wanted = by_steps(logits, 200, 3, 0.75, "logit", generator)
    assert found.dtype == torch.float32
    assert (found != wanted).any(-1).sum() <= 4


def test_ties_and_nan() -> None:
    """NaN first, then equal values in the order in which they were drawn."""
    logits = torch.zeros(1, 1, 2, 2)
    generator = torch.Generator().manual_seed(0)
    found = visops.sample_points_by_uncertainty(
        logits, 10, importance_sample_ratio=1.0, generator=generator
    )
    drawn = torch.rand(1, 30, 2, generator=torch.Generator().manual_seed(0))
    assert torch.equal(found, drawn[:, :10])
    logits = torch.tensor([0.0, 0.0, float("nan"), 0.0]).view(1, 1, 1, 4)
    found = visops.sample_points_by_uncertainty(logits, 5, importance_sample_ratio=1.0)
    assert bool(visops.point_sample(logits, found).isnan().all())


def test_uncertain_edges() -> None:
    """Points gather at the edge of a mask; zeros outside the map make its borders uncertain too."""
    across = torch.linspace(-8, 8, 64).repeat(2, 1, 64, 1)
    found = visops.sample_points_by_uncertainty(across, 1000, importance_sample_ratio=1.0)
    assert found.shape == (2, 1000, 2)
    assert float(((found[..., 0] - 0.5).abs() < 0.2).float().mean()) > 0.95


def test_no_gradient_and_types() -> None:
    logits = smooth_logits(1).to(torch.bfloat16).requires_grad_()
    found = visops.sample_points_by_uncertainty(logits, 9)
    assert found.dtype == torch.float32
    assert not found.requires_grad


def test_compile() -> None:
    compiled = torch.compile(
        visops.sample_points_by_uncertainty, fullgraph=True, backend="aot_eager"
    )
    logits = smooth_logits(1)
    torch.manual_seed(1)
    found = compiled(logits, 12)
    torch.manual_seed(1)
    assert torch.equal(found, visops.sample_points_by_uncertainty(logits, 12))


LOGITS = torch.zeros(2, 1, 4, 5)


@pytest.mark.parametrize(
    ("error", "message", "arguments", "options"),
    [
        (TypeError, "logits is a list, must be a torch.Tensor", ([[0.0]], 3), {}),
        (RuntimeError, "logits has shape [1, 4, 5], must be [B, C, H, W]", (LOGITS[0], 3), {}),
        (
            RuntimeError,
            "logits has dtype int64, must be a floating type",
            (LOGITS.long(), 3),
            {},
        ),
        (TypeError, "num_points is 2.5, must be an integer", (LOGITS, 2.5), {}),
        (ValueError, "num_points is -1, must be >= 0", (LOGITS, -1), {}),
        (
            ValueError,
            "oversample_ratio is 0.5, must be finite and at least 1",
            (LOGITS, 3),
            {"oversample_ratio": 0.5},
        ),
        (
            ValueError,
            "num_points is 3, oversample_ratio 1e+308; their product must be below 2147483648",
            (LOGITS, 3),
            {"oversample_ratio": 1e308},
        ),
        (
            ValueError,
            "importance_sample_ratio is nan, must be from 0 to 1",
            (LOGITS, 3),
            {"importance_sample_ratio": float("nan")},
        ),
        (
            ValueError,
            "uncertainty is 'entropy', must be 'logit' or 'margin'",
            (LOGITS, 3),
            {"uncertainty": "entropy"},
        ),
        (
            RuntimeError,
            "logits has 2 channels, must have 1 for uncertainty 'logit'",
            (LOGITS.repeat(1, 2, 1, 1), 3),
            {},
        ),
        (
            RuntimeError,
            "logits has 1 channels, must have at least 2 for uncertainty 'margin'",
            (LOGITS, 3),
            {"uncertainty": "margin"},
        ),
    ],
)
def test_messages(error: Any, message: str, arguments: Any, options: Any) -> None:
    check(
        error,
        f"sample_points_by_uncertainty: {message}",
        lambda: visops.sample_points_by_uncertainty(*arguments, **options),
    )
