"""Input that looks bad and is allowed: inverted boxes, boxes beyond float32, any indices."""

import torch
import visops
from torch import Tensor

OPS = torch.ops.visops


def boxes(*rows: list[float], dtype: torch.dtype = torch.float32) -> Tensor:
    """Good boxes, followed by the given rows."""
    return torch.tensor([[0.0, 1, 1, 5, 5], [0, 1, 1, 5, 5], *rows], dtype=dtype)


def test_boxes_are_checked_on_their_map() -> None:
    """Boxes may overflow on a float32 map and not on a float64 one."""
    far = boxes([0, 1, 1, 1e30, 5], dtype=torch.float64)
    maps = torch.zeros(2, 3, 8, 9)
    assert visops.roi_align(maps.double(), far, 7, 1e10).shape == (3, 3, 7, 7)
    inverted = boxes([0, 5, 5, 1, 1])
    assert visops.roi_align(maps, inverted, 7).shape == (3, 3, 7, 7)
    assert visops.roi_pool(maps, inverted, 2).shape == (3, 3, 2, 2)


def test_indices_of_no_sample() -> None:
    """Whatever the index, nothing out of bounds is read."""
    maps, grad, options = torch.ones(2, 3, 8, 9), torch.ones(2, 3, 7, 7), (1.0, 2, False)
    for value in (-(2**62), -2, 4, 10**6, 2**62):
        index = torch.full((2, 3, 7, 7), value)
        found = OPS.roi_align_max_at(maps, index, boxes(), [7, 7], *options)
        assert bool(((found == 0) | (found - 1).abs().lt(1e-6)).all())
        OPS.roi_align_max_backward_input(grad, index, boxes(), [2, 3, 8, 9], *options, False)
        OPS.roi_align_max_backward_boxes(grad, index, maps, boxes(), *options)


def test_indices_of_no_pixel() -> None:
    """An index that is no pixel of the map counts as no pixel taken."""
    index = torch.tensor([-1, 72, 2**31 - 1, -(2**31)], dtype=torch.int32)
    index = index.reshape(1, 1, 2, 2).expand(2, 4, 2, 2)
    values = OPS.roi_pool_at(torch.ones(2, 4, 8, 9), index, boxes(), 1.0)
    assert torch.equal(values, torch.zeros(2, 4, 2, 2))
    gradient = OPS.roi_pool_backward(
        torch.ones(2, 4, 2, 2), index, boxes(), (2, 4, 8, 9), 1.0, True
    )
    assert torch.equal(gradient, torch.zeros(2, 4, 8, 9))
