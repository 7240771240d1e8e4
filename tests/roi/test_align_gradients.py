"""Gradients of RoIAlign: numerical ones, autograd's of the definition, torchvision's."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import visops
from memory import at_most_memory
from references import roi_align_gradients as reference
from torch import Tensor

from roi.align_cases import (
    BOXES,
    LAYOUTS,
    OPTIONS,
    SIZE,
    boxes_of,
    every_reduce,
    maps_of,
    pyramid_of,
    random_like,
    same_bits,
)

OPS = torch.ops.visops
every_kind = pytest.mark.parametrize("kind", BOXES)


def size_for(kind: str) -> tuple[int, int, int, int]:
    return (2, 3, 10, 10) if kind == "torchvision" else SIZE


def sample(kind: str, scale: float, count: int = 8, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Maps in [-0.5, 0.5] and boxes, float64."""
    maps = torch.from_numpy(maps_of(size_for(kind), seed)) - 0.5
    return maps, torch.from_numpy(boxes_of(kind, count, scale, seed))


def gradients(
    pool: Callable[[Tensor, Tensor], Tensor],
    maps: Tensor,
    boxes: Tensor,
    grad: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return gradients with respect to maps and boxes."""
    maps, boxes = maps.detach().requires_grad_(), boxes.detach().requires_grad_()
    values = pool(maps, boxes)
    grad = random_like(values) if grad is None else grad
    of_maps, of_boxes = torch.autograd.grad(values, (maps, boxes), grad, materialize_grads=True)
    return of_maps, of_boxes


def assert_near(found: Tensor, wanted: Tensor, within: float) -> None:
    """Assert equality within a fraction of the largest element."""
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    size = float(wanted.abs().max()) if wanted.numel() else 1.0
    torch.testing.assert_close(found, wanted, rtol=0, atol=within * max(size, 1e-3))


@pytest.mark.matrix
@every_reduce
@every_kind
def test_reference(kind: str, reduce: Any) -> None:
    """Both gradients; samples on pixels and borders take the slope of the same side."""
    layouts = itertools.cycle(LAYOUTS.values())
    for options in OPTIONS:
        if kind == "large" and options[2] <= 0:
            continue
        maps, boxes = sample(kind, options[1])
        wanted = gradients(
            lambda m, b, o=options: reference.roi_align(m, b, *o, reduce=reduce),  # type: ignore[misc]
            maps,
            boxes,
        )
        found = gradients(
            lambda m, b, o=options: visops.roi_align(m, b, *o, reduce=reduce),  # type: ignore[misc]
            next(layouts)(maps),
            boxes,
        )
        assert_near(found[0], wanted[0], 1e-12)
        assert_near(found[1], wanted[1], 1e-11)
        assert torch.equal(found[1][:, 0], torch.zeros(len(boxes), dtype=torch.float64))


@every_reduce
def test_boxes_of_another_dtype(reduce: Any) -> None:
    """Their gradient has their dtype; integer boxes have none."""
    maps, boxes = sample("overhanging", 1.0, 20)
    whole = torch.cat([boxes[:, :1], boxes[:, 1:].round()], 1)

    def pool(m: Tensor, b: Tensor) -> Tensor:
        return visops.roi_align(m, b, 3, 1.0, 2, True, reduce=reduce)

    wanted = gradients(pool, maps.float(), whole.float())
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        found = gradients(pool, maps.float(), whole.to(dtype))
        assert same_bits(found[0], wanted[0])
        assert found[1].dtype == dtype
        within = {torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float64: 1e-6}[dtype]
        assert_near(found[1].float(), wanted[1], within)
    leaf = maps.float().requires_grad_()
    values = pool(leaf, whole.long())
    (found_1,) = torch.autograd.grad(values, leaf, random_like(values))
    assert same_bits(found_1, wanted[0])


def test_only_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    from visops.roi import align_autograd as formulas

    calls = []
    for name in ("backward_input", "backward_boxes"):
        original = getattr(formulas, name)

        def counted(*arguments: Any, name: str = name, original: Any = original) -> Tensor:
            calls.append(name)
            result: Tensor = original(*arguments)
            return result

        monkeypatch.setattr(formulas, name, counted)
    maps, boxes = sample("inside", 1.0)
    for needed, wanted in ((maps, ["backward_input"]), (boxes, ["backward_boxes"])):
        calls.clear()
        needed.requires_grad_()
        visops.roi_align(maps, boxes, 2).sum().backward()
        needed.requires_grad_(False)
        assert calls == wanted


def test_a_box_finds_its_object() -> None:
    """What the boxes' gradient is for: a box moves to where the map is large."""
    y, x = torch.meshgrid(torch.arange(40.0), torch.arange(40.0), indexing="ij")
    bright = torch.exp(-((x - 22) ** 2 + (y - 15) ** 2) / 60)[None, None]
    centre = torch.tensor([11.0, 11.0], requires_grad=True)
    optimiser = torch.optim.Adam([centre], lr=0.5)
    for _ in range(100):
        optimiser.zero_grad()
        corners = torch.cat([centre - 6, centre + 6])[None]
        (-visops.roi_align(bright, [corners], 4, 1.0, 2, True).mean()).backward()
        optimiser.step()
    assert (centre.detach() - 0.5).tolist() == pytest.approx([22, 15], abs=0.3)


@every_reduce
def test_more_images_than_memory_has_room_for_lists(reduce: Any) -> None:
    """Maps without channels take no memory, however many there are."""
    images = 2**31 - 1
    maps = torch.empty(images, 0, 8, 8)
    boxes = torch.tensor([[0.0, 1, 1, 5, 5], [images - 1, 0, 0, 9, 9]], dtype=torch.float64)
    boxes.requires_grad_()
    with at_most_memory(1 << 30):
        pooled = visops.roi_align(maps, boxes, 2, reduce=reduce)
        (found,) = torch.autograd.grad(pooled.sum(), boxes)
        assert torch.equal(found, torch.zeros(2, 5, dtype=torch.float64))
        pooled = visops.multiscale_roi_align([maps, maps], boxes, 2, [1.0, 0.5])
        (found,) = torch.autograd.grad(pooled.sum(), boxes)
        assert torch.equal(found, torch.zeros(2, 5, dtype=torch.float64))
    # 4 GiB of lists: what other tests have freed may hold 1 GiB, without new memory.
    maps = torch.empty(2**29, 1, 1, 1, dtype=torch.float16)
    with (
        at_most_memory(1 << 29),
        pytest.raises(RuntimeError, match=r"^visops\.roi_align: scratch .* not enough memory"),
    ):
        visops.roi_align(maps, boxes[:1].detach(), 2)


# No sample lies on a pixel's centre or on a border, where slopes change.
SMOOTH = torch.tensor(
    [[0.31, 0.73, 3.137, 4.271], [-2.1, 1.3, 3.39, 7.9], [2.2, 2.31, 2.73, 3.1]],
    dtype=torch.float64,
)

INDEX = torch.tensor([[0.0], [1], [1]], dtype=torch.float64)
SMALL = (2, 1, 5, 6)


def small_maps() -> Tensor:
    return (torch.from_numpy(maps_of(SMALL)) * 4).requires_grad_()


def of_corners(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a function of corners [K, 4], along which numerical gradients may step."""
    return lambda maps, corners: function(maps, torch.cat([INDEX, corners], 1))


def weighted(op: Any, reduce: str) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the maps' gradient as a function of the incoming gradient and boxes."""

    def backward(grad: Tensor, boxes: Tensor) -> Tensor:
        arguments = (boxes, [*SMALL], 1.1, 2, True, False)
        if reduce == "mean":
            result: Tensor = OPS.roi_align_backward_input(grad, *arguments)
        else:
            index = torch.arange(grad.numel()).reshape(grad.shape) % 5 - 1
            result = OPS.roi_align_max_backward_input(grad, index, *arguments)
        return result

    return of_corners(backward)


@every_reduce
def test_gradcheck_of_the_backward(reduce: str) -> None:
    """With respect to the incoming gradient and boxes: mixed derivatives."""
    grad = random_like(torch.empty(3, 1, 2, 3, dtype=torch.float64)).requires_grad_()
    corners = SMOOTH.clone().requires_grad_()
    backward = weighted(OPS, reduce)
    assert torch.autograd.gradcheck(backward, (grad, corners), nondet_tol=0)
    assert torch.autograd.gradgradcheck(
        lambda g: backward(g, corners.detach()), (grad,), nondet_tol=0, fast_mode=True
    )


def test_gradcheck_of_the_backward_of_pyramids() -> None:
    grad = random_like(torch.empty(3, 1, 2, 3, dtype=torch.float64)).requires_grad_()
    corners = (SMOOTH * 2).requires_grad_()

    def backward(grad: Tensor, corners: Tensor) -> tuple[Tensor, ...]:
        boxes = torch.cat([INDEX, corners], 1)
        levels = ([0.5, 0.25], 2, True, 8.0, 2, "detectron2", [True, False])
        sizes = [5, 6, 3, 3]
        return tuple(OPS.multiscale_roi_align_backward_input(grad, boxes, sizes, 2, *levels))

    assert torch.autograd.gradcheck(backward, (grad, corners), nondet_tol=0)


@every_reduce
def test_third_derivatives(reduce: Any) -> None:
    """Nothing is left of a linear function; of its square there is."""
    maps = (small_maps().detach() + 1).requires_grad_()
    boxes = torch.cat([INDEX, SMOOTH], 1)

    def cube(m: Tensor) -> Tensor:
        return visops.roi_align(m, boxes, 2, 1.0, 2, reduce=reduce) ** 3

    (first,) = torch.autograd.grad(cube(maps).sum(), maps, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), maps, create_graph=True)
    (third,) = torch.autograd.grad(second.sum(), maps)
    # By Euler's theorem for a function of degree 3, along a direction of ones.
    ones = torch.ones_like(maps)
    pooled = visops.roi_align(ones, boxes, 2, 1.0, 2, reduce=reduce)
    assert float(third.sum()) == pytest.approx(float((6 * pooled**3).sum()))


@every_reduce
def test_boxes_have_one_derivative(reduce: Any) -> None:
    maps = small_maps()
    boxes = torch.cat([INDEX, SMOOTH], 1).requires_grad_()
    values = visops.roi_align(maps, boxes, 2, 1.0, 2, reduce=reduce)
    (gradient,) = torch.autograd.grad(values.sum(), boxes, create_graph=True)
    message = (
        r"^visops\.roi_align: the gradient with respect to the boxes can't be differentiated again"
    )
    with pytest.raises(RuntimeError, match=message):
        gradient.sum().backward()
    pyramid = [m.requires_grad_() for m in pyramid_of(2, 16, 18, torch.float64)]
    values = visops.multiscale_roi_align(pyramid, boxes, 2, [1.0, 0.5])
    (gradient,) = torch.autograd.grad(values.sum(), boxes, create_graph=True)
    with pytest.raises(RuntimeError, match=r"^visops\.multiscale_roi_align: the gradient with"):
        gradient.sum().backward()
