"""RoIAlign's maxima and boxes' gradients, and properties that hold for any maps and boxes."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from references import roi_align as reference
from references import roi_align_gradients
from torch import Tensor

from roi.align_cases import (
    BOXES,
    FLOATING,
    LAYOUTS,
    OPTIONS,
    SIZE,
    boxes_of,
    channels_last,
    maps_of,
    proposals,
    same_bits,
)

OPS = torch.ops.visops
LANES = 32
F32 = np.float32


def random_like(values: Tensor, seed: int = 5) -> Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.standard_normal(values.shape)).to(values.dtype)


def maps_and_boxes(
    channels: int, kind: str, scale: float = 1.0, count: int = 8
) -> tuple[Tensor, Tensor]:
    """float32; maps within [-0.5, 0.5]."""
    maps = torch.from_numpy(maps_of((SIZE[0], channels, *SIZE[2:])) - 0.5).float()
    return maps, torch.from_numpy(boxes_of(kind, count, scale)).float()


def bins_of(
    boxes: Tensor, options: Any
) -> Iterator[tuple[int, int, int, reference.Axis, reference.Axis]]:
    """Yield box, row and column of every bin, and the box along y and x."""
    bins, *rest = options
    for k, box in enumerate(boxes.numpy()):
        along_y, along_x = reference.axes(box, bins, *rest)
        for ph, pw in np.ndindex(*bins):
            yield k, ph, pw, along_y, along_x


@pytest.mark.matrix
@pytest.mark.parametrize("kind", ["overhanging", "flat", "grid"])
def test_samples_by_number(kind: str) -> None:
    """Every sample of every bin, and 0 for numbers that are no sample, in any layout."""
    layouts = itertools.cycle(LAYOUTS.values())
    for options in OPTIONS:
        maps, boxes = maps_and_boxes(3, kind, options[1], 4)
        grids = [
            y.grid * x.grid for _, ph, pw, y, x in bins_of(boxes, options) if ph == 0 and pw == 0
        ]
        for number in (*range(min(max(grids), 30)), -1, -(2**62), max(grids), 2**62):
            index = torch.full((4, 3, *options[0]), number)
            wanted = torch.zeros(index.shape)
            for k, ph, pw, along_y, along_x in bins_of(boxes, options):
                if not 0 <= number < along_y.grid * along_x.grid:
                    continue
                row, column = divmod(number, along_x.grid)
                y = list(reference.coordinates(along_y, ph))[row]
                x = list(reference.coordinates(along_x, pw))[column]
                near_y = reference.neighbours(y, SIZE[2])
                near_x = reference.neighbours(x, SIZE[3])
                if near_y is not None and near_x is not None:
                    plane = maps[int(boxes[k, 0])].numpy()
                    wanted[k, :, ph, pw] = torch.from_numpy(reference.sample(plane, near_y, near_x))
            found = OPS.roi_align_max_at(next(layouts)(maps), index, boxes, *options)
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", [*FLOATING, torch.uint8], ids=str)
def test_maxima_are_their_samples(dtype: torch.dtype) -> None:
    for kind, options in itertools.product(BOXES, OPTIONS):
        maps, boxes = maps_and_boxes(5, kind, options[1])
        maps = (maps * 100).abs().to(dtype)
        bins, *rest = options
        for layout in LAYOUTS.values():
            values, index = OPS.roi_align_max(layout(maps), boxes, bins, *rest)
            assert index.stride() == values.stride()
            assert same_bits(OPS.roi_align_max_at(maps, index, boxes, bins, *rest), values)


@pytest.mark.matrix
def test_infinities() -> None:
    """If all samples are -inf the first counts, unless the 0 of one outside is above them."""
    maps = torch.full((1, 2, 6, 6), -float("inf"))
    maps[:, 1] = float("inf")
    boxes = torch.tensor([[0, 1.1, 1.1, 4, 4], [0, -3.9, 1.1, 4, 4], [0, -9, -9, -5, -5]])
    for layout in (Tensor.contiguous, channels_last):
        values, index = OPS.roi_align_max(layout(maps), boxes, (1, 1), 1.0, 2, False)
        assert values.flatten().tolist() == [-float("inf"), float("inf"), 0, float("inf"), 0, 0]
        assert index.flatten().tolist() == [0, 0, -1, 1, -1, -1]


def long_boxes() -> Tensor:
    """For a map of 4 x 700: bins of hundreds of pixels and short ones, some across borders."""
    return torch.tensor(
        [
            [0.0, 3, 0, 690, 3],
            [0, -300, -3, 702, 6],
            [0, 400, 1, 402, 3],
            [0, -90, 1, 1500, 2],
        ],
        dtype=torch.float64,
    )


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("turned", "channels", "bins"), [(False, 2, 1), (True, 33, 2), (False, 2, 150), (True, 33, 150)]
)
def test_long_bins(turned: bool, channels: int, bins: int) -> None:
    """More pixels in a bin, bins in a row, and samples than kernels list."""
    maps = torch.from_numpy(maps_of((1, 1, 4, 700))) - 0.5
    boxes, size = long_boxes(), [2, bins]
    if turned:
        maps, boxes, size = maps.mT, boxes[:, [0, 2, 1, 4, 3]], size[::-1]
    maps = maps * torch.linspace(-1, 2, channels)[:, None, None]
    maps = channels_last(maps) if turned else maps
    options = (1.0, 3 if bins > 2 else -1, True)
    given, leaf = maps.detach().requires_grad_(), boxes.detach().requires_grad_()
    grad = random_like(torch.empty(len(boxes), channels, *size, dtype=torch.float64))

    wanted = roi_align_gradients.roi_align(given, leaf, size, *options)
    (of_boxes,) = torch.autograd.grad(wanted, leaf, grad)
    found = OPS.roi_align_backward_boxes(grad, maps, boxes, *options)
    torch.testing.assert_close(found, of_boxes, rtol=1e-9, atol=1e-9)

    wanted = roi_align_gradients.roi_align(given, leaf, size, *options, "max")
    of_maps, of_boxes = torch.autograd.grad(wanted, (given, leaf), grad)
    values, index = OPS.roi_align_max(maps, boxes, size, *options)
    torch.testing.assert_close(values, wanted.detach(), rtol=0, atol=1e-12)
    found = OPS.roi_align_max_backward_input(grad, index, boxes, maps.shape, *options, turned)
    torch.testing.assert_close(found, of_maps, rtol=0, atol=1e-9)
    found = OPS.roi_align_max_backward_boxes(grad, index, maps, boxes, *options)
    torch.testing.assert_close(found, of_boxes, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gradients_of_large_maps(dtype: torch.dtype) -> None:
    """Gradients without adjacent channels are summed in bands of rows: the same bits."""
    size, options = (1, 20, 400, 300), (1.0, 2, True)
    boxes = proposals(np.random.default_rng(0), 40, 400, 300, 1)
    grad = random_like(torch.empty(40, 20, 3, 3)).to(dtype)
    index = torch.randint(-1, 4, grad.shape, generator=torch.Generator().manual_seed(0))
    wide = grad.float()
    for op, of in (
        (OPS.roi_align_backward_input, ()),
        (OPS.roi_align_max_backward_input, (index,)),
    ):
        wanted = op(wide, *of, boxes, size, *options, True).to(dtype)
        for last in (False, True):
            found = op(grad, *of, boxes, size, *options, last)
            assert same_bits(found, wanted)
            assert found.is_contiguous(memory_format=torch.channels_last) == last


def test_strides_of_what_comes_in() -> None:
    maps, boxes = maps_and_boxes(34, "overhanging")
    options = (1.0, 2, False)
    _, index = OPS.roi_align_max(maps, boxes, (3, 4), *options)
    one = random_like(torch.empty(8, 1, 1, 4))
    for grad in (random_like(index.float()), one.expand(index.shape)):
        plain = grad.contiguous()
        wanted = (
            OPS.roi_align_backward_boxes(plain, maps, boxes, *options),
            OPS.roi_align_max_backward_boxes(plain, index, maps, boxes, *options),
            OPS.roi_align_max_backward_input(plain, index, boxes, maps.shape, *options, False),
            OPS.roi_align_max_at(maps, index, boxes, (3, 4), *options),
        )
        layouts = list(LAYOUTS.values())
        for i, (layout, laid) in enumerate(itertools.product(layouts, layouts)):
            given, numbers, m = layout(grad), laid(index), layouts[i % len(layouts)](maps)
            if i % 3 == 0:
                given = grad
            found = (
                OPS.roi_align_backward_boxes(given, m, boxes, *options),
                OPS.roi_align_max_backward_boxes(given, numbers, m, boxes, *options),
                OPS.roi_align_max_backward_input(
                    given, numbers, boxes, maps.shape, *options, False
                ),
                OPS.roi_align_max_at(m, numbers, boxes, (3, 4), *options),
            )
            for a, b in zip(found, wanted, strict=True):
                assert same_bits(a, b)


def parts_along(along: reference.Axis, bin: int, bins: int, length: int, factor: Any) -> np.ndarray:
    """[3, length] for a bin: each pixel's weight, and its slopes by begin and end."""
    sums = np.zeros((3, length), F32)
    for i, at in enumerate(reference.coordinates(along, bin)):
        near = reference.neighbours(at, length)
        if near is None:
            continue
        sums[0, near.low] += near.weight_low
        sums[0, near.high] += near.weight_high if near.high != near.low else F32(0)
        if at <= 0 or near.low == near.high or int(at) >= length - 1:
            continue
        u = (F32(bin) + F32(i + 0.5) / F32(along.grid)) / F32(bins)
        for j, part in ((1, F32(1) - u), (2, u)):
            sums[j, near.low] -= part
            sums[j, near.high] += part
    return sums * factor


def changes_of_mean(
    plane: np.ndarray, along_y: np.ndarray, along_x: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Return a bin's changes [C] with x1, y1, x2 and y2."""
    result = [np.zeros(len(plane), F32) for _ in range(4)]
    for row in np.flatnonzero(along_y.any(0)):
        sums = np.zeros((3, len(plane)), F32)
        for column in np.flatnonzero(along_x.any(0)):
            for j in range(3):
                sums[j] += along_x[j, column] * plane[:, row, column]
        result[0] += along_y[0, row] * sums[1]
        result[1] += along_y[1, row] * sums[0]
        result[2] += along_y[0, row] * sums[2]
        result[3] += along_y[2, row] * sums[0]
    return tuple(result)


def in_lanes(terms: np.ndarray) -> np.ndarray:
    """[4, rows of bins, channels, bins] -> [4], summed in the documented order."""
    total = np.zeros((4, LANES), F32)
    for row in range(terms.shape[1]):
        lanes = np.zeros((4, LANES), F32)
        for c, b in np.ndindex(*terms.shape[2:]):
            lanes[:, c % LANES] += terms[:, row, c, b]
        total += lanes
    half = LANES // 2
    while half:
        total = total[:, :half] + total[:, half : 2 * half]
        half //= 2
    return total[:, 0]


@pytest.mark.matrix
@pytest.mark.parametrize("channels", [3, 70])
def test_order_of_the_gradient_of_boxes(channels: int) -> None:
    """NOTE [ Gradient of the boxes ], to the last bit of float32."""
    options: Any = ((2, 3), 0.5, 2, True)
    maps, boxes = maps_and_boxes(channels, "overhanging", 0.5, 6)
    grad = random_like(torch.empty(6, channels, 2, 3))
    found = OPS.roi_align_backward_boxes(grad, maps, boxes, *options[1:])
    terms = np.zeros((6, 4, 2, channels, 3), F32)
    for k, ph, pw, along_y, along_x in bins_of(boxes, options):
        factor = F32(1) / F32(along_y.grid * along_x.grid)
        changes = changes_of_mean(
            maps[int(boxes[k, 0])].numpy(),
            parts_along(along_y, ph, 2, SIZE[2], factor),
            parts_along(along_x, pw, 3, SIZE[3], F32(1)),
        )
        terms[k, :, ph, :, pw] = grad[k, :, ph, pw].numpy() * np.stack(changes)
    for k in range(6):
        np.testing.assert_array_equal(found[k, 1:], in_lanes(terms[k]) * F32(0.5))
    assert not found[:, 0].any()
    assert found[:, 1:].any()


@pytest.mark.matrix
def test_order_of_the_gradient_of_maps() -> None:
    """Boxes by index, bins by index: to the last bit of float32."""
    options: Any = ((3, 3), 1.0, 2, True)
    maps, boxes = maps_and_boxes(2, "inside", count=40)
    grad = random_like(torch.empty(40, 2, 3, 3))
    _, index = OPS.roi_align_max(maps, boxes, *options)
    wanted = np.zeros(maps.shape, F32)
    for k, ph, pw, along_y, along_x in bins_of(boxes, options):
        for c in range(2):
            row, column = divmod(int(index[k, c, ph, pw]), along_x.grid)
            y = reference.neighbours(list(reference.coordinates(along_y, ph))[row], SIZE[2])
            x = reference.neighbours(list(reference.coordinates(along_x, pw))[column], SIZE[3])
            assert y is not None
            assert x is not None
            plane = wanted[int(boxes[k, 0]), c]
            rows = ((y.low, y.weight_low), (y.high, y.weight_high))
            columns = ((x.low, x.weight_low), (x.high, x.weight_high))
            for (r, wy), (q, wx) in itertools.product(rows, columns):
                plane[r, q] += (wy * wx) * grad[k, c, ph, pw].numpy()
    for last in (False, True):
        arguments = (grad, index, boxes, maps.shape, *options[1:], last)
        np.testing.assert_array_equal(OPS.roi_align_max_backward_input(*arguments), wanted)
