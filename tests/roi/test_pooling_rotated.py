"""roi_align_rotated agrees with roi_align, with turned maps and with rotated overlaps."""

import math

import numpy as np
import pytest
import torch
import visops
from torch import Tensor

from roi.align_cases import boxes_of, maps_of, rotated_of


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
