"""CUDA's gradients of RoIAlign's maps have the CPU's bits, at the borders of what blocks take."""

import math

import numpy as np
import pytest
import torch
from kernels import SLOTS, use_schedule, use_slot
from torch import Tensor

from roi.align_cases import LAYOUTS, channels_last

pytestmark = pytest.mark.skipif("cuda_emulated" not in SLOTS, reason="needs a test build")

FLOATS = (torch.float16, torch.float32, torch.float64)


def boxes_on(height: int, width: int, count: int, *, largest: float, images: int = 1) -> Tensor:
    """[K, 5] boxes of 1 / largest to `largest` pixels, some beyond a border."""
    rng = np.random.default_rng(count)
    extent = largest ** rng.uniform(-1, 1, (count, 2))
    low = rng.uniform(-0.2, 1.1, (count, 2)) * [width, height] - extent / 2
    index = rng.integers(0, images, (count, 1))
    return torch.from_numpy(np.concatenate([index, low, low + extent], 1)).float()


def assert_cuda_gradient(
    grad: Tensor, boxes: Tensor, size: tuple[int, ...], *, ratio: int = 2
) -> None:
    """The CPU's bits, whether the map is NCHW or channels_last."""
    boxes = boxes.double() if grad.dtype == torch.float64 else boxes.float()
    for last in (False, True):
        found, wanted = (
            gradient_on(slot, grad, boxes, size, ratio, last)
            for slot in ("cuda_emulated", "default")
        )
        assert (found.dtype, found.stride()) == (wanted.dtype, wanted.stride())
        assert torch.equal(found.isnan(), wanted.isnan())
        zeros = (part.nan_to_num(0, math.inf, -math.inf).numpy() for part in (found, wanted))
        assert len({part.tobytes() for part in zeros}) == 1


def gradient_on(
    slot: str, grad: Tensor, boxes: Tensor, size: tuple[int, ...], ratio: int, last: bool
) -> Tensor:
    with use_slot(slot), use_schedule(5):
        result: Tensor = torch.ops.visops.roi_align_backward_input(
            grad, boxes, list(size), 1.0, ratio, True, last
        )
    return result


def gradients(*size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    numbers = np.random.default_rng(len(size)).standard_normal(size)
    return torch.from_numpy(numbers).to(dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("channels", [1, 3, 32, 33, 64, 65, 128, 129, 260])
def test_channels(channels: int, dtype: torch.dtype) -> None:
    """Slices of a warp's channels or several warps', the last of them full or not."""
    boxes = boxes_on(11, 13, 9, largest=14)
    grad = gradients(9, channels, 3, 4, dtype=dtype)
    assert_cuda_gradient(grad, boxes, (1, channels, 11, 13))
    assert_cuda_gradient(channels_last(grad), boxes, (1, channels, 11, 13))


@pytest.mark.parametrize("size", [(1, 1), (8, 8), (7, 9), (9, 7), (17, 25)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_tiles_partly_outside(size: tuple[int, int], layout: str) -> None:
    """Incoming gradients of any layout; maps smaller and larger than tiles of 8 x 8."""
    boxes = boxes_on(*size, 12, largest=20, images=2)
    grad = LAYOUTS[layout](gradients(12, 40, 4, 3))
    assert_cuda_gradient(grad, boxes, (2, 40, *size))


@pytest.mark.parametrize(
    "bins",
    [(7, 7), (14, 14), (31, 2), (32, 2), (33, 2), (2, 40), (124, 1), (125, 1), (180, 3), (1, 300)],
    ids=str,
)
@pytest.mark.parametrize("channels", [5, 70])
def test_more_bins_than_slots(bins: tuple[int, int], channels: int) -> None:
    """Small boxes whose bins all reach one tile: several rounds, or fewer channels at a time."""
    boxes = boxes_on(10, 10, 4, largest=6)
    assert_cuda_gradient(gradients(4, channels, *bins), boxes, (1, channels, 10, 10))
    grad = channels_last(gradients(4, channels, *bins, dtype=torch.float64))
    assert_cuda_gradient(grad, boxes, (1, channels, 10, 10), ratio=1)


@pytest.mark.parametrize("bins", [(400, 1), (1, 400)], ids=str)
def test_more_bins_than_room(bins: tuple[int, int]) -> None:
    """No block has memory for the weights, or for a column of bins: no tiles."""
    boxes = boxes_on(5, 6, 2, largest=6)
    assert_cuda_gradient(gradients(2, 3, *bins), boxes, (1, 3, 5, 6), ratio=1)


def test_many_boxes_on_a_tile() -> None:
    """More than a block prepares at once, and more than a list holds, all in one place."""
    boxes = torch.tensor([[0.0, 2.2, 1.1, 6.3, 7.4]]).repeat(600, 1)
    boxes[::7, 1:] += 0.3
    assert_cuda_gradient(gradients(600, 2, 2, 2), boxes, (1, 2, 8, 9))
    assert_cuda_gradient(gradients(40, 70, 7, 7), boxes[:40], (1, 70, 8, 9))


def test_boxes_that_reach_nothing() -> None:
    """Invalid, off the map, without samples in the tile, or none at all: zeros everywhere."""
    boxes = torch.tensor(
        [
            [0, 90, 90, 99, 99],
            [0, -99, 2, -50, 4],
            [0, -400, -400, 400, 400],  # samples hundreds of pixels apart
            [0, 3, 3, 3, 3],
        ]
    ).float()
    assert_cuda_gradient(gradients(4, 33, 2, 2), boxes, (1, 33, 20, 20))
    assert_cuda_gradient(gradients(0, 33, 2, 2), boxes[:0], (1, 33, 20, 20))
    assert_cuda_gradient(gradients(4, 33, 2, 2), boxes, (1, 33, 20, 20), ratio=0)


def test_infinite_gradients_reach_pixels_of_their_bins_alone() -> None:
    """Not a weight of 0 times infinity: pixels that no sample of the bin reads stay finite."""
    boxes = boxes_on(18, 18, 8, largest=18)
    grad = gradients(8, 66, 5, 5)
    grad[2, :, 1, 3] = math.inf
    grad[5, 7] = math.nan
    grad[6, :, 4] = -math.inf
    assert_cuda_gradient(grad, boxes, (1, 66, 18, 18))
    assert_cuda_gradient(channels_last(grad), boxes, (1, 66, 18, 18))
