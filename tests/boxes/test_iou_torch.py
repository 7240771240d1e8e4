"""Pairwise overlaps within torch: opcheck, compile, vmap, torch.func, fake tensors, threads."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from suppression.nms_cases import LAYOUTS
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from boxes.iou_cases import FUNCTIONS, pair_of_sets, rotated_boxes

OPS = torch.ops.visops
ALL: dict[str, Callable[..., Tensor]] = {**FUNCTIONS, "rotated": visops.box_iou_rotated}
every_function = pytest.mark.parametrize("name", ALL)


def sample(
    name: str, count1: int = 9, count2: int = 14, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    if name == "rotated":
        rng = np.random.default_rng(0)
        boxes = torch.from_numpy(rotated_boxes(rng, count1 + count2)).to(dtype)
        return boxes[:count1], boxes[count1:]
    return pair_of_sets("clusters", count1, count2, dtype)


def arguments(name: str) -> tuple[Any, ...]:
    """The operators' arguments after the boxes."""
    return () if name == "rotated" else (name, 1e-7)


def operators(name: str) -> tuple[Any, Any]:
    if name == "rotated":
        return OPS.box_iou_rotated, OPS.box_iou_rotated_backward
    return OPS.box_iou, OPS.box_iou_backward


# What takes turns over the functions.
VARIANTS = [
    (torch.float64, "contiguous"),
    (torch.float32, "transposed"),
    (torch.float16, "sliced"),
]
COUNTS = [(0, 3), (3, 0), (1, 1)]
QUICK = ("test_schema", "test_autograd_registration", "test_faketensor")  # without tracing


@every_function
def test_opcheck(name: str) -> None:
    """Everything for one dtype, layout and size; forward and backward, with and without grad."""
    forward, backward = operators(name)
    turn = list(ALL).index(name)
    dtype, layout = VARIANTS[turn % 3]
    boxes1, boxes2 = (LAYOUTS[layout](b) for b in sample(name, dtype=dtype))
    grad = torch.rand(9, 14, dtype=torch.promote_types(dtype, torch.float32))
    torch.library.opcheck(backward, (grad, boxes1, boxes2, *arguments(name)))
    boxes = [b.detach().requires_grad_() for b in (boxes1, boxes2)]
    torch.library.opcheck(forward, (*boxes, *arguments(name)))
    few = [b.requires_grad_() for b in sample(name, *COUNTS[turn % 3])]
    torch.library.opcheck(forward, (*few, *arguments(name)))


@every_function
def test_opcheck_of_variants(name: str) -> None:
    """What depends on dtype, layout and size: schemas, registrations and fake tensors."""
    forward, backward = operators(name)
    for (dtype, layout), counts in zip(VARIANTS, COUNTS, strict=True):
        for size in ((9, 14), counts):
            plain = [LAYOUTS[layout](b) for b in sample(name, *size, dtype=dtype)]
            grad = torch.rand(size, dtype=torch.promote_types(dtype, torch.float32))
            differentiable = [t.detach().requires_grad_() for t in (*plain, grad)]
            for boxes1, boxes2, of_result in ((*plain, grad), differentiable):
                given = (boxes1, boxes2, *arguments(name))
                torch.library.opcheck(forward, given, test_utils=QUICK)
                torch.library.opcheck(backward, (of_result, *given), test_utils=QUICK)


def test_opcheck_of_second_derivatives() -> None:
    """Traces the formula of the measure that has all terms, which takes seconds."""
    boxes1, boxes2 = (b.requires_grad_() for b in sample("complete", dtype=torch.float64))
    grad = torch.rand(9, 14, dtype=torch.float64, requires_grad=True)
    torch.library.opcheck(OPS.box_iou_backward, (grad, boxes1, boxes2, *arguments("complete")))


@every_function
@pytest.mark.parametrize("counts", [(0, 3), (3, 0), (0, 0)], ids=str)
def test_derivatives_of_none(counts: tuple[int, int], name: str) -> None:
    boxes = [b.requires_grad_() for b in sample(name, *counts)]
    first = torch.autograd.grad(ALL[name](*boxes).sum(), boxes, create_graph=True)
    second = torch.autograd.grad(sum(g.sum() for g in first), boxes)  # type: ignore[arg-type]
    for box, *derivatives in zip(boxes, first, second, strict=True):
        assert all(torch.equal(d, torch.zeros_like(box)) for d in derivatives)


def test_defaults_of_the_operator() -> None:
    boxes1, boxes2 = sample("iou")
    assert torch.equal(OPS.box_iou(boxes1, boxes2), visops.box_iou(boxes1, boxes2))
    found = OPS.box_iou(boxes1, boxes2, "distance")
    assert torch.equal(found, visops.distance_box_iou(boxes1, boxes2))


@pytest.mark.parametrize(
    ("name", "backend"), [*((name, "aot_eager") for name in ALL), ("distance", "eager")]
)
def test_compile(name: str, backend: str) -> None:
    """A loss and its gradients in one graph, for any number of boxes."""

    def loss(boxes1: Tensor, boxes2: Tensor) -> Tensor:
        return (1 - ALL[name](boxes1 * 1.5, boxes2)).square().sum()

    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, dynamic=True, backend=backend)
    for i, counts in enumerate(((9, 14), (20, 5), (3, 70))):
        boxes = [b.requires_grad_() for b in sample(name, *counts)]
        with torch._dynamo.config.patch(error_on_recompile=i > 0):
            value = compiled(*boxes)
        wanted = loss(*boxes)
        assert torch.equal(value, wanted)
        found = torch.autograd.grad(value, boxes)
        for ours, theirs in zip(found, torch.autograd.grad(wanted, boxes), strict=True):
            assert torch.equal(ours, theirs)


@every_function
@pytest.mark.parametrize("in_dims", [(0, 0), (0, None), (None, 0), (2, 1)], ids=str)
def test_vmap(in_dims: tuple[int | None, int | None], name: str) -> None:
    function = ALL[name]
    sets = [sample(name, 6, 7, torch.float64) for _ in range(3)]
    for i, pair in enumerate(sets):
        pair[0].add_(i)
        pair[1].mul_(1 + i / 8)
    batches = [
        sets[0][k] if dim is None else torch.stack([s[k] for s in sets], dim)
        for k, dim in enumerate(in_dims)
    ]
    found = torch.vmap(function, in_dims=in_dims)(*batches)
    for i in range(3):
        own = [sets[0 if dim is None else i][k] for k, dim in enumerate(in_dims)]
        assert torch.equal(found[i], function(*own))


@every_function
def test_gradients_of_a_batch(name: str) -> None:
    function = ALL[name]
    boxes1 = torch.stack([sample(name, 5, 6, torch.float64)[0] + i for i in range(3)])
    boxes2 = sample(name, 5, 6, torch.float64)[1]

    def loss(boxes: Tensor) -> Tensor:
        return function(boxes, boxes2).square().sum()

    found = torch.vmap(torch.func.grad(loss))(boxes1)
    for i in range(3):
        boxes = boxes1[i].clone().requires_grad_()
        assert torch.equal(found[i], torch.autograd.grad(loss(boxes), boxes)[0])


@every_function
def test_jacobian(name: str) -> None:
    """torch.func's against autograd's, of the overlap and of its gradient."""
    function = ALL[name]
    boxes1, boxes2 = sample(name, 3, 4, torch.float64)
    boxes2 = boxes2 + 0.01
    found = torch.func.jacrev(function, argnums=(0, 1))(boxes1, boxes2)
    wanted = torch.autograd.functional.jacobian(function, (boxes1, boxes2))
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-15)

    def total(boxes: Tensor) -> Tensor:
        return function(boxes, boxes2).square().sum()

    second = torch.func.jacrev(torch.func.grad(total))(boxes1)
    hessian = torch.autograd.functional.hessian(total, boxes1)
    assert float(second.abs().max()) > 0
    np.testing.assert_allclose(second, hessian, rtol=1e-12, atol=1e-14)


@every_function
def test_forward_mode_is_refused(name: str) -> None:
    boxes1, boxes2 = sample(name)
    with pytest.raises(NotImplementedError, match="jvp"):
        torch.func.jvp(lambda b: ALL[name](b, boxes2), (boxes1,), (boxes1,))


@every_function
def test_no_gradient_is_wanted(name: str) -> None:
    boxes1, boxes2 = sample(name)
    expected = ALL[name](boxes1, boxes2)
    boxes1.requires_grad_()
    with torch.no_grad():
        assert not ALL[name](boxes1, boxes2).requires_grad
    with torch.inference_mode():
        assert torch.equal(ALL[name](boxes1.detach().clone(), boxes2), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(ALL[name](boxes1, boxes2), expected)
    whole = boxes2.to(torch.int64)
    assert not ALL[name](whole, whole).requires_grad


@every_function
def test_changed_boxes_are_noticed(name: str) -> None:
    boxes1, boxes2 = sample(name)
    boxes = boxes1.clone().requires_grad_()
    value = ALL[name](boxes, boxes2)
    boxes2.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.sum().backward()


@every_function
def test_fake_tensors(name: str) -> None:
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        boxes1, boxes2 = (mode.from_tensor(t.requires_grad_()) for t in sample(name))
        value = ALL[name](boxes1, boxes2)
        assert (tuple(value.shape), value.dtype) == ((9, 14), torch.float32)
        gradients = torch.autograd.grad(value.sum(), (boxes1, boxes2), create_graph=True)
        assert [g.shape for g in gradients] == [boxes1.shape, boxes2.shape]
        total = sum(g.square().sum() for g in gradients)
        second = torch.autograd.grad(total, (boxes1, boxes2))  # type: ignore[arg-type]
        assert [g.shape for g in second] == [boxes1.shape, boxes2.shape]
    meta1, meta2 = (t.to("meta") for t in sample(name))
    value = ALL[name](meta1, meta2.double())
    assert (tuple(value.shape), value.dtype, value.is_meta) == ((9, 14), torch.float64, True)


@pytest.mark.usefixtures("restored_threads")
@every_function
def test_threads_change_nothing(name: str) -> None:
    boxes = sample(name, 400, 500)
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        leaves = [b.detach().clone().requires_grad_() for b in boxes]
        value = ALL[name](*leaves)
        results.append((value.detach(), *torch.autograd.grad(value.cos().sum(), leaves)))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@pytest.mark.cuda
@every_function
def test_cuda_waits_for_nothing(name: str) -> None:
    boxes = [b.cuda().requires_grad_() for b in sample(name)]
    grad = torch.rand(9, 14, device="cuda")
    torch.autograd.grad(ALL[name](*boxes), boxes, grad)
    torch.cuda.set_sync_debug_mode("error")
    try:
        value = ALL[name](*boxes)
        torch.autograd.grad(value, boxes, grad)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.cuda
@every_function
def test_cuda_arrays(name: str) -> None:
    arrays = [b.numpy() for b in sample(name)]
    assert np.array_equal(ALL[name](*arrays, device="cuda"), ALL[name](*arrays))
