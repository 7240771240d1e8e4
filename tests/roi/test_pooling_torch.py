"""The other poolings within torch: gradients, opcheck, compile, vmap, fake tensors, threads."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import visops
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from roi.align_cases import LAYOUTS, channels_last, same_bits
from roi.pooling_cases import OPS, OUTPUT_SIZE, POOLINGS, problem

every_pooling = pytest.mark.parametrize("name", POOLINGS)


def pool(name: str, boxes: Tensor, **options: Any) -> Callable[[Tensor], Tensor]:
    return lambda maps: POOLINGS[name].function(maps, boxes, OUTPUT_SIZE, **options)


@every_pooling
@pytest.mark.parametrize(
    ("layout", "kind"),
    [("contiguous", "inside"), ("channels_last", "overhanging"), ("contiguous", "flat")],
)
def test_gradcheck(layout: str, kind: str, name: str) -> None:
    """First and second derivatives, the same every time."""
    for options in POOLINGS[name].options:
        scale = options.get("spatial_scale", 1.0)
        maps, boxes = problem(name, kind, 5, channels=1, scale=scale)
        leaf = LAYOUTS[layout](maps).detach().requires_grad_()
        function = pool(name, boxes, **options)
        torch.autograd.gradcheck(function, leaf, fast_mode=kind != "inside", nondet_tol=0.0)
        torch.autograd.gradgradcheck(function, leaf, fast_mode=True, nondet_tol=0.0)


@every_pooling
def test_gradients_of_all_layouts_and_dtypes(name: str) -> None:
    """Sums are in float32 and rounded once; layouts change no bit."""
    maps, boxes = problem(name, count=40, channels=3)
    grad = torch.randn(40, 3, *OUTPUT_SIZE, generator=torch.Generator().manual_seed(0))
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        double = torch.float64 if dtype == torch.float64 else torch.float32
        values, rounded = maps.to(dtype), grad.to(dtype)
        wanted = None
        for layout, lay in LAYOUTS.items():
            for lying in (rounded, channels_last(rounded), LAYOUTS["spaced"](rounded)):
                leaf = lay(values).detach().requires_grad_()
                found = torch.autograd.grad(pool(name, boxes.to(double))(leaf), leaf, lying)[0]
                assert found.dtype == dtype
                if wanted is None:
                    leaf = values.to(double).requires_grad_()
                    result = pool(name, boxes.to(double))(leaf)
                    wanted = torch.autograd.grad(result, leaf, rounded.to(double))[0].to(dtype)
                assert same_bits(found, wanted)
                last = layout in ("channels_last", "sliced_channels_last")
                assert found.is_contiguous(
                    memory_format=torch.channels_last if last else torch.contiguous_format
                )


@every_pooling
def test_third_derivative(name: str) -> None:
    """Everything is linear, so gradients can be differentiated again and again."""
    maps, boxes = problem(name, count=4, channels=1)
    index = OPS.roi_pool(maps, boxes[:, :5], OUTPUT_SIZE)[1]
    grad = torch.randn(4, 1, *OUTPUT_SIZE).double().requires_grad_()
    if name == "roi_pool":
        leaf = maps.clone().requires_grad_()

        def at(values: Tensor) -> Tensor:
            return visops.roi.pooling_autograd._pool_at(values, index, boxes, 1.0)  # type: ignore[attr-defined,no-any-return]

        assert torch.equal(at(maps), visops.roi_pool(maps, boxes, OUTPUT_SIZE))
        torch.autograd.gradcheck(at, leaf, fast_mode=True, nondet_tol=0.0)
        torch.autograd.gradgradcheck(at, leaf, fast_mode=True)

    def gradient(g: Tensor) -> Tensor:
        leaf = maps.clone().requires_grad_()
        result = pool(name, boxes)(leaf)
        return torch.autograd.grad(result, leaf, g, create_graph=True)[0]

    torch.autograd.gradcheck(gradient, grad, fast_mode=True, nondet_tol=0.0)
    torch.autograd.gradgradcheck(gradient, grad, fast_mode=True)


@every_pooling
def test_boxes_have_no_gradient(name: str) -> None:
    maps, boxes = problem(name)
    boxes.requires_grad_()
    result = pool(name, boxes)(maps.requires_grad_())
    found = torch.autograd.grad(result.sum(), (maps, boxes), allow_unused=True)
    assert found[1] is None
    assert found[0] is not None
    # If the maps need no gradient, the result has none.
    assert not pool(name, boxes)(maps.detach()).requires_grad


def operators(name: str) -> tuple[Any, Any, tuple[Any, ...]]:
    """Return forward, backward, and the options both take after sizes."""
    options: tuple[Any, ...] = {
        "roi_pool": (0.5,),
        "ps_roi_align": (0.5, 2),
        "roi_align_rotated": (0.5, 2, True, False, False),
    }[name]
    return getattr(OPS, name), getattr(OPS, f"{name}_backward"), options


@pytest.mark.parametrize(
    ("name", "dtype", "layout", "count"),
    [
        ("roi_pool", torch.float64, "contiguous", 5),
        ("roi_pool", torch.float16, "sliced_channels_last", 1),
        ("ps_roi_align", torch.float32, "channels_last", 5),
        ("ps_roi_align", torch.float64, "sliced", 0),
        ("roi_align_rotated", torch.float16, "sliced", 5),
        ("roi_align_rotated", torch.float32, "channels_last", 0),
    ],
    ids=str,
)
def test_opcheck(dtype: torch.dtype, layout: str, count: int, name: str) -> None:
    forward, backward, options = operators(name)
    maps, boxes = problem(name, count=count, dtype=dtype)
    maps = LAYOUTS[layout](maps).requires_grad_()
    torch.library.opcheck(forward, (maps, boxes, OUTPUT_SIZE, *options))
    result = forward(maps, boxes, OUTPUT_SIZE, *options)
    values, *index = result if name == "roi_pool" else (result,)
    grad = torch.rand_like(values).requires_grad_()
    last = layout == "channels_last"
    torch.library.opcheck(backward, (grad, *index, boxes, maps.shape, *options, last))
    if index:
        torch.library.opcheck(OPS.roi_pool_at, (maps, *index, boxes, 0.5))


@every_pooling
def test_compile(name: str) -> None:
    """A loss and its gradient in one graph, for lists with any number of boxes."""

    def loss(maps: Tensor, boxes: list[Tensor]) -> Tensor:
        return (POOLINGS[name].function(maps * 1.5, boxes, OUTPUT_SIZE) ** 2).sum()

    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, dynamic=True, backend="aot_eager")
    for i, count in enumerate((10, 20, 34)):
        maps, boxes = problem(name, count=count)
        lists = [boxes[: count // 3, 1:], boxes[count // 3 :, 1:]]
        maps.requires_grad_()
        with torch._dynamo.config.patch(error_on_recompile=i > 0):
            value = compiled(maps, lists)
        wanted = loss(maps, lists)
        assert torch.equal(value, wanted)
        found = torch.autograd.grad(value, maps)[0]
        assert torch.equal(found, torch.autograd.grad(wanted, maps)[0])


@every_pooling
@pytest.mark.parametrize("in_dims", [(0, 0), (0, None), (None, 0), (2, 1)], ids=str)
def test_vmap(in_dims: tuple[int | None, int | None], name: str) -> None:
    problems = [problem(name, count=6, seed=i) for i in range(3)]
    batches = [
        problems[0][k] if dim is None else torch.stack([p[k] for p in problems], dim)
        for k, dim in enumerate(in_dims)
    ]

    def loss(maps: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
        result = POOLINGS[name].function(maps, boxes, OUTPUT_SIZE)
        return result.square().sum(), result

    calls = torch.func.grad_and_value(loss, has_aux=True)
    found = torch.vmap(calls, in_dims=in_dims)(*batches)
    for i in range(3):
        maps, boxes = (problems[0 if d is None else i][k] for k, d in enumerate(in_dims))
        leaf = maps.clone().requires_grad_()
        value, result = loss(leaf, boxes)
        assert torch.equal(found[1][1][i], result)
        torch.testing.assert_close(found[0][i], torch.autograd.grad(value, leaf)[0])


@every_pooling
def test_no_gradient_is_wanted(name: str) -> None:
    maps, boxes = problem(name, dtype=torch.float32)
    expected = pool(name, boxes)(maps)
    with torch.no_grad():
        assert not pool(name, boxes)(maps.clone().requires_grad_()).requires_grad
    with torch.inference_mode():
        assert torch.equal(pool(name, boxes)(maps.clone()), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(pool(name, boxes)(maps), expected)


@every_pooling
def test_changed_boxes_are_noticed(name: str) -> None:
    maps, boxes = problem(name)
    value = pool(name, boxes)(maps.requires_grad_())
    boxes.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.sum().backward()


@every_pooling
def test_fake_tensors(name: str) -> None:
    maps, boxes = problem(name)
    leaf = channels_last(maps).requires_grad_()
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        fake = mode.from_tensor(leaf)
        value = pool(name, mode.from_tensor(boxes))(fake)
        assert tuple(value.shape) == (10, 2, *OUTPUT_SIZE)
        assert value.stride(1) == 1  # is_contiguous() of symbolic sizes is False in torch 2.11
        (gradient,) = torch.autograd.grad(value.sum(), fake)
        assert gradient.shape == maps.shape
    value = pool(name, boxes.to("meta"))(maps.to("meta"))
    assert (tuple(value.shape), value.dtype, value.is_meta) == (
        (10, 2, *OUTPUT_SIZE),
        maps.dtype,
        True,
    )


@pytest.mark.usefixtures("restored_threads")
@every_pooling
def test_threads_change_nothing(name: str) -> None:
    maps, boxes = problem(name, count=150, dtype=torch.float32, channels=40)
    for lay in (Tensor.contiguous, channels_last):
        results = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            leaf = lay(maps).detach().requires_grad_()
            value = pool(name, boxes)(leaf)
            results.append((value.detach(), *torch.autograd.grad(value.cos().sum(), leaf)))
        for other in results[1:]:
            assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@pytest.mark.cuda
@every_pooling
def test_cuda_waits_for_nothing(name: str) -> None:
    maps, boxes = (t.cuda() for t in problem(name))
    maps.requires_grad_()
    torch.autograd.grad(pool(name, boxes)(maps).sum(), maps)
    torch.cuda.set_sync_debug_mode("error")
    try:
        torch.autograd.grad(pool(name, boxes)(maps).sum(), maps)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.cuda
@every_pooling
def test_cuda_boxes_that_are_not_valid(name: str) -> None:
    """Zeros, and no gradient."""
    maps, boxes = problem(name, count=8)
    good = boxes[:1].clone()
    bad = good.repeat(8, 1)
    for i, (column, number) in enumerate(
        ((0, 2), (0, -1), (0, 0.5), (0, torch.nan), (1, torch.nan), (2, torch.inf), (4, 1e300))
    ):
        bad[i, column] = number
    if name == "roi_pool":
        bad[7, 0] = 1e30
    else:
        bad[7, 3] = -100
    leaf = maps.cuda().requires_grad_()
    value = pool(name, bad.cuda().float())(leaf.float())
    assert torch.equal(value, torch.zeros_like(value))
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    assert torch.equal(gradient, torch.zeros_like(leaf))
