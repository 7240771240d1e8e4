"""Samples at places that a network computes."""

import functools
from collections.abc import Callable

import torch
import torchvision
import visops
from bench.deformable import GRADIENT, GRID, HALF, POSITIONS, SHAPES, grid_sample, problem
from bench.harness import Case, Contender, Tolerance
from torch import Tensor

from .rows import against_copy, count, row

SUMS = Tolerance(max_abs=2e-2, mean_abs=1e-3, why="matrix products sum in another order")
CLOSE = Tolerance(max_abs=1e-2, mean_abs=1e-5, why="coordinates rounded once more")


def attend(value: Tensor, locations: Tensor, weights: Tensor) -> Tensor:
    found: Tensor = visops.multi_scale_deformable_attention(value, SHAPES, locations, weights)
    return found


def attention(queries: int, dtype: torch.dtype, device: str) -> list[Contender]:
    given = tuple(tensor.to(device) for tensor in problem(queries, dtype))
    tolerance = GRID if dtype == torch.float32 else HALF
    peer = Contender("grid_sample", lambda: grid_sample(*given), tolerance, floor=1.0)
    return against_copy(device, given, lambda: attend(*given), [peer])


def attention_gradients(queries: int, device: str) -> list[Contender]:
    leaves = [tensor.to(device).requires_grad_() for tensor in problem(queries, torch.float32)]
    grad = torch.rand(1, queries, 256, device=device)

    def of(function: Callable[..., Tensor]) -> Callable[[], tuple[Tensor, ...]]:
        return lambda: torch.autograd.grad(function(*leaves), leaves, grad)

    peer = Contender("grid_sample", of(grid_sample), GRADIENT, floor=1.0)
    return against_copy(device, (leaves, grad), of(attend), [peer])


def convolution(batch: int, with_gradients: bool, device: str) -> list[Contender]:
    """3 × 3 over 256 channels of 64 × 64, modulated."""
    torch.manual_seed(0)
    features = torch.randn(batch, 256, 64, 64, device=device)
    offset = torch.randn(batch, 18, 64, 64, device=device)
    mask = torch.rand(batch, 9, 64, 64, device=device)
    weight = torch.randn(256, 256, 3, 3, device=device) / 48
    leaves = [features, offset, weight, mask]

    def result(function: Callable[..., Tensor]) -> Tensor:
        return function(features, offset, weight, padding=(1, 1), mask=mask)

    ours, theirs = visops.deform_conv2d, torchvision.ops.deform_conv2d
    if not with_gradients:
        peer = Contender("torchvision", lambda: result(theirs), SUMS, floor=1.0)
        return against_copy(device, leaves, lambda: result(ours), [peer])
    for leaf in leaves:
        leaf.requires_grad_()
    grad = torch.randn(batch, 256, 64, 64, device=device)

    def of(function: Callable[..., Tensor]) -> Callable[[], tuple[Tensor, ...]]:
        found = result(function)
        return lambda: torch.autograd.grad(found, leaves, grad, retain_graph=True)

    loose = Tolerance(mean_abs=5e-2, why="sums of thousands in another order")
    peer = Contender("torchvision", of(theirs), loose, floor=1.0)
    return against_copy(device, (leaves, grad), of(ours), [peer])


def points(number: int, device: str) -> list[Contender]:
    """PointRend's samples of mask logits."""
    torch.manual_seed(0)
    logits = torch.randn(number, 1, 256, 256, device=device)
    positions = torch.rand(number, 12_544, 2, device=device)

    def theirs() -> Tensor:
        grid = (2 * positions - 1)[:, :, None]
        found = torch.nn.functional.grid_sample(logits, grid, align_corners=False)
        return found[..., 0]

    return against_copy(
        device,
        (logits, positions),
        lambda: visops.point_sample(logits, positions),
        [Contender("grid_sample", theirs, CLOSE, floor=1.0)],
    )


def cases(device: str, share: float) -> list[Case]:
    """Every row; `share` of the usual batches."""
    one = functools.partial(row, device=device)
    batch = count(8, share)
    queries = count(POSITIONS, share)
    return [
        one("attention", f"float32, {queries} queries", attention, queries, torch.float32),
        one("attention", f"bfloat16, {queries} queries", attention, queries, torch.bfloat16),
        one("attention", "decoder, float32, 300 queries", attention, 300, torch.float32),
        one("attention", f"with gradients, {queries}", attention_gradients, queries),
        one("deform_conv2d", f"{batch}×256×64², 3×3", convolution, batch, False),
        one("deform_conv2d", f"its gradients, {batch}", convolution, batch, True),
        one("points", f"point_sample {batch * 16}×256², 12544", points, batch * 16),
    ]
