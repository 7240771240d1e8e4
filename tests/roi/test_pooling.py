"""roi_pool, ps_roi_align, roi_align_rotated: against loops, by hand, at random."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
import visops
from references import roi_pooling as reference
from torch import Tensor

from roi.align_cases import (
    BOXES,
    FLOATING,
    LAYOUTS,
    OPS,
    OUTPUT_SIZE,
    POOLINGS,
    boxes_of,
    channels_last,
    maps_of,
    problem,
    proposals,
    rotated_of,
    same_bits,
)

NAN, INF = float("nan"), float("inf")
every_pooling = pytest.mark.parametrize("name", POOLINGS)
every_kind = pytest.mark.parametrize("kind", BOXES)


def expected(name: str, maps: Tensor, boxes: Tensor, **options: Any) -> np.ndarray:
    result: Any = getattr(reference, name)(maps.numpy(), boxes.numpy(), OUTPUT_SIZE, **options)
    return np.asarray(result[0] if name == "roi_pool" else result)


@pytest.mark.matrix
@every_kind
@every_pooling
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_reference(dtype: torch.dtype, name: str, kind: str) -> None:
    layouts = itertools.cycle(LAYOUTS.values())
    within = 3e-6 if dtype == torch.float32 else 1e-13
    for options in POOLINGS[name].options:
        if kind == "large" and name != "roi_pool" and "sampling_ratio" not in options:
            continue  # some 10^5 samples a box
        scale = options.get("spatial_scale", 1.0)
        maps, boxes = problem(name, kind, 6, dtype, scale=scale)
        found = POOLINGS[name].function(next(layouts)(maps), boxes, OUTPUT_SIZE, **options)
        assert found.dtype == dtype
        wanted = expected(name, maps, boxes, **options)
        if name == "roi_pool":
            assert np.array_equal(found, wanted)
        else:
            np.testing.assert_allclose(found, wanted, rtol=0, atol=within)


@every_pooling
def test_of_all_layouts_and_dtypes(name: str) -> None:
    """Half precision and uint8 are the float32 result, rounded once; layouts change no bit."""
    function = POOLINGS[name].function
    maps, boxes = problem(name, count=12, channels=5)
    for dtype in (*FLOATING, torch.uint8):
        values = (maps * 255).round().to(dtype) if dtype == torch.uint8 else maps.to(dtype)
        for boxes_dtype in (torch.float32, torch.float16):
            lying = boxes.to(boxes_dtype)
            double = torch.float64 if dtype == torch.float64 else torch.float32
            wanted = function(values.to(double), lying.to(double), OUTPUT_SIZE)
            if dtype == torch.uint8:
                wanted = wanted.round().clamp(0, 255)
            for layout, lay in LAYOUTS.items():
                found = function(lay(values), lying.mT.contiguous().mT, OUTPUT_SIZE)
                assert same_bits(found, wanted.to(dtype))
                last = layout in ("channels_last", "sliced_channels_last")
                assert found.is_contiguous(
                    memory_format=torch.channels_last if last else torch.contiguous_format
                )


@every_kind
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
def test_torchvision(layout: Any, kind: str) -> None:
    """Values and gradients for more boxes and channels than the reference's loops could handle."""
    for seed, scale in enumerate((1.0, 0.25, 0.7)):
        boxes = torch.from_numpy(boxes_of(kind, 60, scale, seed)).float()
        maps = torch.from_numpy(maps_of((2, 36, 9, 11), seed)).float()
        if kind == "torchvision":
            maps = torch.nn.functional.pad(maps, (0, -1, 0, 1))
        maps = maps.contiguous(memory_format=layout).requires_grad_()
        for ours, theirs, more in (
            (visops.roi_pool, torchvision.ops.roi_pool, ()),
            (visops.ps_roi_align, torchvision.ops.ps_roi_align, (-1,)),
            (visops.ps_roi_align, torchvision.ops.ps_roi_align, (2,)),
        ):
            found, wanted = (f(maps, boxes, (3, 4), scale, *more) for f in (ours, theirs))
            wanted = wanted.nan_to_num()  # of boxes without area
            within = 0 if ours is visops.roi_pool else 2e-6
            torch.testing.assert_close(found, wanted, rtol=0, atol=within)
            grad = torch.randn(found.shape, generator=torch.Generator().manual_seed(seed))
            gradients = [torch.autograd.grad(v, maps, grad)[0] for v in (found, wanted)]
            torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=within * 20)


def test_ps_roi_align_is_slices_of_roi_align() -> None:
    """The same bits."""
    for seed, scale in enumerate((1.0, 0.4)):
        boxes = torch.from_numpy(boxes_of("overhanging", 30, scale, seed)).float()
        maps = torch.from_numpy(maps_of((2, 5 * 12, 9, 11), seed)).float()
        for ratio in (-1, 3):
            found = visops.ps_roi_align(maps, boxes, (3, 4), scale, ratio)
            every = visops.roi_align(maps, boxes, (3, 4), scale, ratio, aligned=True)
            every = every.unflatten(1, (5, 3, 4))
            diagonal = every.diagonal(0, 2, 4).diagonal(0, 2, 3)
            assert torch.equal(found, diagonal)


@pytest.mark.matrix
@every_pooling
def test_gradients_of_many_channels(name: str) -> None:
    """Where channels are adjacent, kernels may take 32 together; the last ones are fewer."""
    function = POOLINGS[name].function
    for channels in (33, 39):
        maps, boxes = problem(
            name, dtype=torch.float32, channels=-(-channels // POOLINGS[name].bins)
        )
        leaves = [lay(maps).requires_grad_() for lay in (Tensor.clone, channels_last)]
        results = [function(leaf, boxes, OUTPUT_SIZE).square().sum() for leaf in leaves]
        planes, adjacent = torch.autograd.grad(results, leaves)
        assert planes[:, -1].any()
        assert same_bits(adjacent, planes)


def test_on_maps_of_a_detector() -> None:
    """NCHW maps, which kernels turn to channels_last first if that pays."""
    rng = np.random.default_rng(0)
    maps = torch.from_numpy(rng.random((2, 20, 50, 68))).float()
    last = channels_last(maps)
    for count in (3, 300):
        boxes = proposals(rng, count, 800, 1088)
        found = visops.roi_pool(maps, boxes, 7, 1 / 16)
        assert torch.equal(found, torchvision.ops.roi_pool(maps, boxes, 7, 1 / 16))
        assert torch.equal(found, visops.roi_pool(last, boxes, 7, 1 / 16))
        sides = (boxes[:, 3:] - boxes[:, 1:3]).clamp(min=0)
        turned = torch.cat([boxes[:, :3], sides, torch.rand(count, 1)], 1)
        found = visops.roi_align_rotated(maps, turned, 7, 1 / 16, 2)
        assert torch.equal(found, visops.roi_align_rotated(last, turned, 7, 1 / 16, 2))


@pytest.mark.matrix
def test_roi_pool_of_ties_and_special_values() -> None:
    """The first of equal elements, NaN above everything; the index says which was taken."""
    maps = torch.zeros(1, 3, 2, 4)
    maps[0, 1] = -INF
    maps[0, 2] = torch.tensor([[1, NAN, 2, -INF], [INF, NAN, INF, INF]])
    boxes = torch.tensor([[0.0, 0, 0, 3, 1]])
    for layout in (Tensor.clone, channels_last):
        values, index = OPS.roi_pool(layout(maps), boxes, (1, 2), 1.0)
        assert values[0, :2].tolist() == [[[0, 0]], [[-INF, -INF]]]
        assert values[0, 2, 0, 0].isnan()
        assert values[0, 2, 0, 1] == INF
        assert index[0, :, 0].tolist() == [[0, 2], [0, 2], [1, 6]]


def test_roi_pool_rounds_halves_away_from_zero() -> None:
    maps = torch.arange(25.0).reshape(1, 1, 5, 5)
    for corner, column in ((0.5, 1), (1.5, 2), (2.49, 2), (-0.5, 0), (3.5, 4)):
        boxes = torch.tensor([[0.0, corner, 0, corner, 0]])
        value = visops.roi_pool(maps, boxes, 1)
        assert float(value) == (column if corner > 0 else 0)
    assert float(visops.roi_pool(maps, torch.tensor([[0.0, -0.51, 0, -0.51, 0]]), 1)) == 0


def test_inverted_boxes() -> None:
    """roi_pool treats them as one pixel, as torchvision does."""
    maps = torch.from_numpy(maps_of((2, 3, 9, 11)))
    boxes = torch.tensor([[0.0, 5, 5, 2, 3], [1, 2, 7, 8, 3]], dtype=torch.float64)
    found = visops.roi_pool(maps, boxes, (2, 3))
    assert torch.equal(found, torchvision.ops.roi_pool(maps, boxes, (2, 3)))


@every_pooling
def test_huge_boxes_take_no_time(name: str) -> None:
    """Samples beyond the map are not visited, however many there are."""
    maps, boxes = problem(name, count=2)
    sides = (1e5, 1.6e7) if name == "roi_align_rotated" else (1e5, 1e9, 1e30)
    for side in sides:
        if name == "roi_align_rotated":
            boxes[:, 3:5] = side
        else:
            boxes[:, 1:] = torch.tensor([-side, -side, side, side])
        for dtype in (torch.float32, torch.float64):
            found = POOLINGS[name].function(maps.to(dtype), boxes, OUTPUT_SIZE)
            assert found.isfinite().all()


@every_pooling
def test_nothing(name: str) -> None:
    function = POOLINGS[name].function
    maps, boxes = problem(name, count=3)
    for empty, some, shape in (
        (maps, boxes[:0], (0, 2, 2, 3)),
        (maps[:, :0], boxes, (3, 0, 2, 3)),
        (maps[:0], boxes[:0], (0, 2, 2, 3)),
        (maps[:, :, :0], boxes[:0], (0, 2, 2, 3)),
    ):
        leaf = empty.clone().requires_grad_()
        found = function(leaf, some, OUTPUT_SIZE)
        assert found.shape == shape
        (gradient,) = torch.autograd.grad(found.sum(), leaf)
        assert torch.equal(gradient, torch.zeros_like(empty))


@every_pooling
def test_lists_of_boxes(name: str) -> None:
    function = POOLINGS[name].function
    maps, boxes = problem(name, count=9, dtype=torch.float32)
    lists = [boxes[boxes[:, 0] == i, 1:] for i in range(2)]
    ordered = boxes[boxes[:, 0].argsort(stable=True)]
    assert torch.equal(function(maps, lists, OUTPUT_SIZE), function(maps, ordered, OUTPUT_SIZE))
    lists[0] = lists[0][:0]
    some = function(maps, lists, OUTPUT_SIZE)
    assert torch.equal(some, function(maps, ordered[ordered[:, 0] == 1], OUTPUT_SIZE))


@every_pooling
def test_an_integer_is_both_sides(name: str) -> None:
    function = POOLINGS[name].function
    maps, boxes = problem(name)
    maps = maps[:, :4] if name == "ps_roi_align" else maps
    assert torch.equal(function(maps, boxes, 2), function(maps, boxes, [2, 2]))


def test_more_than_two_billion_elements() -> None:
    """Offsets beyond 32 bits: the last pixels of one large plane, or of the last of several."""
    side = 46400
    plane = torch.from_numpy(np.zeros((1, 1, side, side), np.uint8))  # pages that nobody touches
    plane[0, 0, -2:, -2:] = torch.tensor([[10, 20], [30, 40]])
    box = torch.tensor([[0.0, side - 2, side - 2, side, side]], dtype=torch.float64)
    assert int(visops.ps_roi_align(plane, box, 1, sampling_ratio=1)) == 25
    turned = torch.tensor([[0.0, side - 1, side - 1, 2, 2, 0]], dtype=torch.float64)
    found = visops.roi_align_rotated(plane, turned, 2, sampling_ratio=1)
    assert found.flatten().tolist() == [10, 20, 30, 40]

    planes = plane.view(2, 2, 23200, 23200)
    planes[1, 1, 5, 7] = 50
    values, index = OPS.roi_pool(planes, torch.tensor([[1.0, 4, 4, 9, 9]]), (1, 1), 1.0)
    assert values.flatten().tolist() == [0, 50]
    assert index.flatten().tolist() == [4 * 23200 + 4, 5 * 23200 + 7]


def smooth_maps(height: int = 40, width: int = 50) -> Tensor:
    """Linear maps, on which bilinear samples are exact."""
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    return torch.stack([x, y, 2 * x - y + 3]).double()[None]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("kind", ["inside", "overhanging", "outside", "large", "flat"])
def test_without_a_turn_it_is_roi_align(kind: str, dtype: torch.dtype) -> None:
    for seed, (scale, ratio) in enumerate(((1.0, 2), (0.3, 3), (2.0, 1))):
        boxes = boxes_of(kind, 30, scale, seed)
        turned = rotated_of(boxes)
        turned[:, 5] = 0
        maps = torch.from_numpy(maps_of((2, 4, 9, 11), seed)).to(dtype)
        found, wanted = (
            pool(maps, torch.from_numpy(b).to(dtype), (3, 4), scale, ratio, aligned=True)
            for pool, b in ((visops.roi_align_rotated, turned), (visops.roi_align, boxes))
        )
        within = 1e-12 if dtype == torch.float64 else 2e-4 if kind == "large" else 5e-6
        torch.testing.assert_close(found, wanted, rtol=0, atol=within)


def test_sides_of_boxes_that_are_not_aligned() -> None:
    """A side shorter than a pixel counts as one, and the origin is at a pixel's centre."""
    maps = smooth_maps()
    boxes = torch.tensor([[0.0, 20, 10, 0.2, 6, 0.3], [0, 20, 10, -3, 6, 0.3]]).double()
    one = torch.tensor([[0.0, 20.5, 10.5, 1, 6, 0.3]]).double()
    found = visops.roi_align_rotated(maps, boxes, 3, aligned=False)
    wanted = visops.roi_align_rotated(maps, one, 3, aligned=True).expand(2, -1, -1, -1)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("quarter", range(-4, 5))
def test_quarters_of_a_turn(quarter: int) -> None:
    """Turning the box one way equals turning the map, or the bins, the other way."""
    maps = torch.from_numpy(maps_of((1, 2, 13, 13)))
    box = torch.tensor([[0.0, 6.5, 6.5, 8, 8, 90.0 * quarter]]).double()
    straight = box.clone()
    straight[:, 5] = 0
    found = visops.roi_align_rotated(maps, box, 4, 1.0, 2, degrees=True)
    # rot90 turns counter-clockwise where rows go down.
    of_map = visops.roi_align_rotated(maps.rot90(-quarter, (2, 3)), straight, 4, 1.0, 2)
    of_bins = visops.roi_align_rotated(maps, straight, 4, 1.0, 2).rot90(-quarter, (2, 3))
    torch.testing.assert_close(found, of_map, rtol=0, atol=1e-12)
    torch.testing.assert_close(found, of_bins, rtol=0, atol=1e-12)


def test_positions_of_bins() -> None:
    """On maps whose values are coordinates, a bin's value is its centre."""
    angle, width, height = 0.7, 12.0, 6.0
    box = torch.tensor([[0.0, 25.5, 20.5, width, height, angle]], dtype=torch.float64)
    found = visops.roi_align_rotated(smooth_maps(), box, (2, 3))[0]
    for i, j in np.ndindex(2, 3):
        u, v = ((j + 0.5) / 3 - 0.5) * width, ((i + 0.5) / 2 - 0.5) * height
        x = 25 + u * math.cos(angle) + v * math.sin(angle)
        y = 20 - u * math.sin(angle) + v * math.cos(angle)
        np.testing.assert_allclose(found[:, i, j], [x, y, 2 * x - y + 3], rtol=0, atol=1e-12)


def test_clockwise_angles_are_those_of_rotated_overlaps() -> None:
    """A box covers the same region as for box_iou_rotated."""
    for angle in (0.4, -1.1, 2.5):
        box = torch.tensor([[25.0, 20, 14, 6, angle]]).double()
        pixels = torch.zeros(1, 1, 40, 50).double()
        y, x = (
            t.flatten() for t in torch.meshgrid(torch.arange(40), torch.arange(50), indexing="ij")
        )
        unit = torch.ones(2000)
        each = torch.stack([x + 0.5, y + 0.5, unit, unit, 0 * unit], 1).double()
        inside = visops.box_iou_rotated(each, box)[:, 0] > 0.5 / (14 * 6)
        pixels[0, 0, y[inside], x[inside]] = 1
        rois = torch.cat([torch.zeros(1, 1).double(), box], 1)
        same = visops.roi_align_rotated(pixels, rois, (3, 7), clockwise=True)
        other = visops.roi_align_rotated(pixels, rois, (3, 7))
        assert float(same.mean()) > 0.92
        assert float(other.mean()) < 0.75


def test_ways_to_give_an_angle() -> None:
    maps = torch.from_numpy(maps_of((2, 3, 9, 11)))
    boxes = torch.from_numpy(rotated_of(boxes_of("overhanging", 20)))
    found = visops.roi_align_rotated(maps, boxes, 3)
    for sign, clockwise in ((1, False), (-1, True)):
        for unit, degrees in ((1, False), (180 / math.pi, True)):
            other = boxes.clone()
            other[:, 5] *= sign * unit
            again = visops.roi_align_rotated(maps, other, 3, clockwise=clockwise, degrees=degrees)
            torch.testing.assert_close(again, found, rtol=0, atol=1e-12)
    whole = boxes[:, :5].round().to(torch.int64)
    whole = torch.cat([whole, torch.arange(20)[:, None] * 30], 1)
    found = visops.roi_align_rotated(maps, whole, 3, degrees=True)
    assert torch.equal(found, visops.roi_align_rotated(maps, whole.double(), 3, degrees=True))


def test_a_turn_is_of_the_boxes_alone() -> None:
    """spatial_scale scales lengths only."""
    maps = torch.from_numpy(maps_of((2, 3, 9, 11)))
    boxes = torch.from_numpy(rotated_of(boxes_of("inside", 20)))
    scaled = boxes.clone()
    scaled[:, 1:5] *= 4
    found = visops.roi_align_rotated(maps, scaled, 3, 0.25, 2)
    assert torch.equal(found, visops.roi_align_rotated(maps, boxes, 3, 1.0, 2))


def test_samples_that_may_reach_the_map_are_not_missed() -> None:
    """For boxes much larger than the map, against all samples taken one by one."""
    rng = np.random.default_rng(0)
    maps = torch.from_numpy(maps_of((1, 1, 5, 7)))
    for _ in range(20):
        side = 2.0 ** rng.uniform(3, 9, 2)
        centre = rng.uniform(-0.5, 0.5, 2) * side + 3
        box = torch.tensor([[0.0, *centre, *side, rng.uniform(-4, 4)]])
        bins = [math.ceil(s) for s in side[::-1]]
        few = visops.roi_align_rotated(maps, box, 1)
        # As many bins as samples, and so one sample to a bin.
        each = visops.roi_align_rotated(maps, box, bins, sampling_ratio=1)
        torch.testing.assert_close(few.squeeze(), each.mean(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("channels_last", [False, True])
def test_gradients_of_one_pixel_have_the_promised_strides(channels_last: bool) -> None:
    backward = torch.ops.visops.roi_align_rotated_backward
    grad, boxes = torch.rand(2, 17, 3, 2), torch.rand(2, 6).floor()
    strides = [
        backward(*(t.to(device) for t in (grad, boxes)), [3, 17, 1, 1], 0.5, 2, True, True, False,
                 channels_last).stride()
        for device in ("cpu", "meta")
    ]  # fmt: skip
    assert strides[0] == strides[1]
