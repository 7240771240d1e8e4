"""Operators on subclasses of torch.Tensor of which none takes the others."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import visops
from subclasses import Other, Stranger
from torch import Tensor
from visops._torch.unsupported_inputs import called

IMAGES = torch.rand(2, 4, 8, 9, generator=torch.Generator().manual_seed(0))
ROWS = torch.tensor([[0.0, 1, 1, 5, 6], [1, 0, 2, 7, 7]])
BOXES = ROWS[:, 1:]
MATRIX = torch.tensor([[0.9, 0.1, 0.3], [-0.1, 1.1, 0.2]])

# Each takes two ways to make a tensor: of the one kind, and of the other.
Call = Callable[[Callable[[Tensor], Any], Callable[[Tensor], Any]], Any]
CALLS: dict[str, Call] = {
    "roi_align": lambda a, b: visops.roi_align(a(IMAGES), b(ROWS), 2),
    "roi_align, max": lambda a, b: visops.roi_align(a(IMAGES), b(ROWS), 2, reduce="max"),
    "roi_align, list": lambda a, b: visops.roi_align(a(IMAGES), [a(BOXES), b(BOXES)], 2),
    "multiscale_roi_align": lambda a, b: visops.multiscale_roi_align(
        [a(IMAGES), b(IMAGES[:, :, ::2, ::2])], ROWS, 2, [1.0, 0.5]
    ),
    "roi_pool": lambda a, b: visops.roi_pool(a(IMAGES), b(ROWS), 2),
    "ps_roi_align": lambda a, b: visops.ps_roi_align(a(IMAGES), b(ROWS), 2),
    "roi_align_rotated": lambda a, b: visops.roi_align_rotated(
        a(IMAGES), b(torch.cat([ROWS, ROWS[:, :1]], 1)), 2
    ),
    "crop_rois": lambda a, b: visops.crop_rois(a(IMAGES), b(ROWS), 2),
    "warp_affine": lambda a, b: visops.warp_affine(a(IMAGES), b(MATRIX)),
    "warp_affine, out": lambda a, b: visops.warp_affine(
        a(IMAGES), MATRIX, out=b(torch.zeros(2, 4, 8, 9))
    ),
    "warp_perspective": lambda a, b: visops.warp_perspective(a(IMAGES), b(MATRIX)),
    "augment": lambda a, b: visops.augment(a(IMAGES), b(MATRIX), (5, 5)),
    "augment, list": lambda a, b: visops.augment([a(IMAGES[0]), b(IMAGES[1])], MATRIX, (5, 5)),
    "augment, out": lambda a, b: visops.augment(
        a(IMAGES), MATRIX, (5, 5), out=b(torch.zeros(2, 4, 5, 5))
    ),
    "box_iou": lambda a, b: visops.box_iou(a(BOXES), b(BOXES)),
    "nms": lambda a, b: visops.nms(a(BOXES), b(torch.tensor([0.5, 0.6])), 0.5),
    "conv2d": lambda a, b: visops.conv2d(a(IMAGES), b(IMAGES[:, :, :3, :3])),
}


@pytest.mark.parametrize("name", CALLS)
def test_they_count_as_plain_tensors(name: str) -> None:
    def same(tensor: Tensor) -> Tensor:
        return tensor.clone()

    wanted = CALLS[name](same, same)
    for first, second in ((Other, Stranger), (Stranger, Other)):
        found = CALLS[name](lambda t: t.as_subclass(first), lambda t: t.as_subclass(second))  # noqa: B023
        assert torch.equal(found.as_subclass(Tensor), wanted)


def test_gradients_reach_them() -> None:
    images = IMAGES.clone().requires_grad_()
    rows = ROWS.clone().requires_grad_()
    grads = torch.autograd.grad(visops.roi_align(images, rows, 2).sum(), (images, rows))
    pooled = visops.roi_align(images.as_subclass(Other), rows.as_subclass(Stranger), 2)
    found = torch.autograd.grad(pooled.sum(), (images, rows))
    assert all(torch.equal(*pair) for pair in zip(found, grads, strict=True))


def test_errors_are_the_operators() -> None:
    images, short = IMAGES.as_subclass(Other), BOXES.as_subclass(Stranger)
    with pytest.raises(RuntimeError, match=r"^visops\.roi_align: boxes has shape \[2, 4\], must"):
        visops.roi_align(images, short, 2)


def test_other_type_errors_are_not_tried_again() -> None:
    calls: list[Any] = []

    def operator(tensor: Tensor) -> None:
        calls.append(tensor)
        raise TypeError("visops.op: one call is enough")

    with pytest.raises(TypeError, match=r"^visops\.op: one call is enough$"):
        called(operator, IMAGES)
    assert len(calls) == 1
