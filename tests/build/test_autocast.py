"""Autocast changes the networks' layers and nothing else: no float32 result hides a lower sum."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import visops
from exporting.cases import CASES, leaves
from torch import Tensor
from visops import transforms

# Cast as torch's convolutions and linear layers are.
LAYERS = {"conv2d", "deform_conv2d", "DeformConv2d", "MultiScaleDeformableAttention"}

IMAGES, KERNEL = torch.rand(2, 3, 20, 30), torch.rand(5, 4) - 0.5
GRID = torch.rand(3, 4, 2)
MATRIX = torch.rand(12, 12)
FILTERS = (visops.convolve2d, visops.correlate2d, visops.filter2d)
PRODUCTS: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    **{f.__name__: (functools.partial(f, method="im2col"), (IMAGES, KERNEL)) for f in FILTERS},
    "displacement_field": (lambda g: visops.displacement_field(g, (9, 8), spline=True), (GRID,)),
    "remap": (
        lambda g: torch.ops.visops.remap(
            *(IMAGES, g[None, ..., 0], g[None, ..., 1], [20, 30], torch.eye(3).double()[None]),
            *("spline", True, "bilinear", "reflect", [0.0]),
        ),
        (GRID,),
    ),
    "LinearTransformation": (
        transforms.LinearTransformation(MATRIX, torch.zeros(12)),
        (IMAGES[0, :, :2, :2],),
    ),
}


def derivatives(call: Callable[..., Any], inputs: Any) -> list[Tensor | None]:
    """Return results and the gradients of their sum, weighted."""

    def leaf(value: Any) -> Any:
        if isinstance(value, Tensor):
            copy = value.detach().clone()
            return copy.requires_grad_() if copy.is_floating_point() else copy
        return type(value)(map(leaf, value))

    given = leaf(tuple(inputs))
    results = leaves(call(*given))
    wanted = [result for result in results if result.requires_grad]
    sources = [tensor for tensor in leaves(given) if tensor.requires_grad]
    weights = [torch.linspace(0.5, 1.5, r.numel(), dtype=r.dtype).view(r.shape) for r in wanted]
    found = torch.autograd.grad(wanted, sources, weights, allow_unused=True) if wanted else ()
    return [*results, *found]


def assert_left_alone(call: Callable[..., Any], inputs: Any) -> None:
    expected = derivatives(call, inputs)
    with torch.autocast("cpu", torch.bfloat16):
        found = derivatives(call, inputs)
        with torch.no_grad():
            found += leaves(call(*inputs))
    with torch.no_grad():
        expected += leaves(call(*inputs))
    for a, b in zip(found, expected, strict=True):
        if a is not None and b is not None:
            assert a.dtype == b.dtype
            scale = (
                max(1.0, float(b.detach().double().abs().max())) if b.numel() else 1.0
            )  # a product's other order
            torch.testing.assert_close(a, b, rtol=0, atol=1e-5 * scale, equal_nan=True)


@pytest.mark.parametrize("name", [name for name in CASES if name.split()[0] not in LAYERS])
def test_functions_are_left_alone(name: str) -> None:
    assert_left_alone(CASES[name].call, CASES[name].inputs(0))


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_left_alone(name: str) -> None:
    assert_left_alone(*PRODUCTS[name])


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_products_under_compile_and_torch_func(half: torch.dtype) -> None:
    call = PRODUCTS["convolve2d"][0]
    torch._dynamo.reset()
    compiled = torch.compile(call, backend="aot_eager", fullgraph=True)
    expected = derivatives(call, (IMAGES, KERNEL))
    each = torch.vmap(call, (0, None))(IMAGES, KERNEL)
    with torch.autocast("cpu", half):
        found = derivatives(compiled, (IMAGES, KERNEL))
        mapped = torch.vmap(call, (0, None))(IMAGES, KERNEL)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(mapped, each, rtol=1e-5, atol=1e-5)
