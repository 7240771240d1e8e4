"""Numerical checks of RoIAlign's gradients, of every order that exists."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import visops
from torch import Tensor

from roi.align_cases import every_reduce, maps_of, pyramid_of, random_like

OPS = torch.ops.visops

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
def test_third_derivatives(reduce: str) -> None:
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
def test_boxes_have_one_derivative(reduce: str) -> None:
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
