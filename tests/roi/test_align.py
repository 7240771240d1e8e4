"""Values of RoIAlign: against loops in float64, against torchvision, and by hand."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
import visops
from references import roi_align as reference
from torch import Tensor

from roi.align_cases import (
    BOXES,
    FLOATING,
    LAYOUTS,
    OPTIONS,
    SIZE,
    Options,
    boxes_of,
    maps_of,
    same_bits,
)

NAN, INF = float("nan"), float("inf")
OPS = torch.ops.visops
every_kind = pytest.mark.parametrize("kind", BOXES)
every_reduce = pytest.mark.parametrize("reduce", ["mean", "max"])


def size_for(kind: str) -> tuple[int, int, int, int]:
    return (2, 3, 10, 10) if kind == "torchvision" else SIZE


def few(options: Options) -> bool:
    """Whether loops over samples are short for large boxes."""
    return options[2] > 0


@pytest.mark.matrix
@every_kind
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_reference(dtype: torch.dtype, kind: str) -> None:
    layouts = itertools.cycle(LAYOUTS.values())
    within = 2e-6 if dtype == torch.float32 else 1e-13
    for options in OPTIONS:
        if kind == "large" and not few(options):
            continue
        maps = torch.from_numpy(maps_of(size_for(kind))).to(dtype)
        boxes = torch.from_numpy(boxes_of(kind, 8, options[1])).to(dtype)
        wanted = reference.roi_align(maps.numpy(), boxes.numpy(), *options)
        found = visops.roi_align(next(layouts)(maps), boxes, *options)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, wanted, rtol=0, atol=within)


@every_kind
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_torchvision(dtype: torch.dtype, kind: str) -> None:
    """More boxes and other maps than the reference's loops could handle."""
    within = 5e-6 if dtype == torch.float32 else 1e-13
    for seed, options in enumerate(OPTIONS):
        n, _, h, w = size_for(kind)
        maps = torch.from_numpy(maps_of((n, 5, h, w), seed)).to(dtype)
        boxes = torch.from_numpy(boxes_of(kind, 60, options[1], seed)).to(dtype)
        wanted = torchvision.ops.roi_align(maps, boxes, *options)
        for layout in (torch.contiguous_format, torch.channels_last):
            found = visops.roi_align(maps.contiguous(memory_format=layout), boxes, *options)
            torch.testing.assert_close(found, wanted, rtol=0, atol=within)


def test_torchvision_on_larger_maps() -> None:
    """Where a float32 coordinate's last bit is worth 3e-5 of a pixel."""
    rng = np.random.default_rng(0)
    maps = torch.from_numpy(rng.random((1, 4, 200, 336))).float()
    corners = rng.uniform(0, 1, (100, 2, 2)) * [1344, 800]
    boxes = torch.from_numpy(np.c_[np.zeros(100), np.sort(corners, 1).reshape(-1, 4)]).float()
    for bins, ratio, aligned in ((7, 2, False), (14, -1, True), (7, 0, False)):
        options: Any = (bins, 0.25, ratio, aligned)
        wanted = torchvision.ops.roi_align(maps, boxes, *options)
        for layout in (torch.contiguous_format, torch.channels_last):
            found = visops.roi_align(maps.contiguous(memory_format=layout), boxes, *options)
            torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)


def test_inverted_boxes() -> None:
    """Unless aligned, they have a size of 1, as in torchvision."""
    maps = torch.from_numpy(maps_of()).float()
    boxes = torch.from_numpy(boxes_of("overhanging", 20)).float()[:, [0, 3, 4, 1, 2]]
    for ratio in (-1, 1, 3):
        wanted = torchvision.ops.roi_align(maps, boxes, (2, 3), 0.8, ratio)
        found = visops.roi_align(maps, boxes, (2, 3), 0.8, ratio)
        torch.testing.assert_close(found, wanted, rtol=0, atol=5e-6)


@pytest.mark.matrix
@every_kind
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_largest_sample(dtype: torch.dtype, kind: str) -> None:
    """Values to the last bit, and which sample was taken."""
    layouts = itertools.cycle(LAYOUTS.values())
    for options in OPTIONS:
        if kind == "large" and not few(options):
            continue
        maps = torch.from_numpy(maps_of(size_for(kind)) - 0.5).to(dtype)
        boxes = torch.from_numpy(boxes_of(kind, 6, options[1])).to(dtype)
        wanted, where = reference.roi_align_max(maps.numpy(), boxes.numpy(), *options)
        values, index = OPS.roi_align_max(next(layouts)(maps), boxes, *options)
        assert (values.dtype, index.dtype) == (dtype, torch.int64)
        np.testing.assert_array_equal(values, wanted)
        np.testing.assert_array_equal(index, where)
        assert same_bits(visops.roi_align(maps, boxes, *options, reduce="max"), values)


@pytest.mark.matrix
def test_largest_of_equal_samples() -> None:
    """The first one counts; the 0 of samples outside counts only if it is larger than all."""
    boxes = boxes_of("overhanging", 12, seed=3)
    maps = np.random.default_rng(0).integers(-1, 2, SIZE).astype(np.float64)
    maps[0, 0], maps[1, 1] = -1.0, 0.0
    options: Any = ((3, 3), 1.0, 2, True)
    wanted, where = reference.roi_align_max(maps, boxes, *options)
    values, index = OPS.roi_align_max(torch.from_numpy(maps), torch.from_numpy(boxes), *options)
    np.testing.assert_array_equal(values, wanted)
    np.testing.assert_array_equal(index, where)
    assert len(np.unique(where)) == 5


@pytest.mark.matrix
def test_nan_is_the_largest() -> None:
    maps = maps_of()
    maps[0, 0, 4, 5], maps[1, 1, 2, 2], maps[1, 1, 5, 5] = NAN, NAN, -INF
    boxes = boxes_of("inside", 15)
    for layout in (torch.contiguous_format, torch.channels_last):
        tensor = torch.from_numpy(maps).contiguous(memory_format=layout)
        options: Any = ((2, 2), 1.0, 3, True)
        wanted, where = reference.roi_align_max(maps, boxes, *options)
        values, index = OPS.roi_align_max(tensor, torch.from_numpy(boxes), *options)
        assert 3 < np.isnan(wanted).sum() < 30
        np.testing.assert_array_equal(values, wanted)
        np.testing.assert_array_equal(index, where)


@pytest.mark.matrix
@every_reduce
def test_bytes(reduce: Any) -> None:
    """Rounded half to even."""
    maps = torch.from_numpy(maps_of() * 256).to(torch.uint8)
    for kind, options, layout in itertools.product(BOXES, OPTIONS, ("contiguous", "channels_last")):
        boxes = torch.from_numpy(boxes_of(kind, 9, options[1])).float()
        laid = LAYOUTS[layout](maps)
        wanted = visops.roi_align(laid.float(), boxes, *options, reduce=reduce)
        found = visops.roi_align(laid, boxes, *options, reduce=reduce)
        assert torch.equal(found, wanted.round().to(torch.uint8))
    halves = torch.tensor([[[[0, 1], [2, 3], [255, 255]]]], dtype=torch.uint8)
    rows = torch.tensor([[0.0, 0, i, 2, i + 1] for i in range(3)])
    assert visops.roi_align(halves, rows, 1, 1.0, 1, True).flatten().tolist() == [0, 2, 255]


@every_reduce
def test_expanded_maps(reduce: Any) -> None:
    """One map expanded over images, channels, rows or columns."""
    boxes = torch.from_numpy(boxes_of("overhanging", 20)).float()
    one = torch.from_numpy(maps_of((1, 5, 9, 11))).float()
    for maps in (one, one[:, :1], one[:, :, :1], one[..., :1]):
        expanded = maps.expand(2, 5, 9, 11)
        wanted = visops.roi_align(expanded.contiguous(), boxes, 3, reduce=reduce)
        assert same_bits(visops.roi_align(expanded, boxes, 3, reduce=reduce), wanted)


@pytest.mark.parametrize("maps_dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_boxes_of_any_kind(maps_dtype: torch.dtype) -> None:
    """Any dtype and strides; coordinates are such that float16 holds them exactly."""
    maps = torch.from_numpy(maps_of()).to(maps_dtype)
    whole = torch.from_numpy(np.c_[np.arange(8) % 2, boxes_of("inside", 8)[:, 1:].round()])
    wanted = visops.roi_align(maps, whole, (3, 2), 0.7, -1, True)
    whole_types = (torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.int64)
    for dtype in (*FLOATING, *whole_types):
        boxes = whole.to(dtype)
        wide = torch.full((16, 11), 99, dtype=dtype)
        wide[::2, 1::2] = boxes
        for form in (boxes, boxes.mT.contiguous().mT, wide[::2, 1::2]):
            found = visops.roi_align(maps, form, (3, 2), 0.7, -1, True)
            assert same_bits(found, wanted)
    row = whole[:1].expand(5, 5)
    assert same_bits(visops.roi_align(maps, row, 2), visops.roi_align(maps, row.clone(), 2))


@every_reduce
def test_lists_of_boxes(reduce: Any) -> None:
    maps = torch.from_numpy(maps_of((3, 2, 9, 11))).float()
    boxes = torch.from_numpy(boxes_of("inside", 9)).float()[:, 1:]
    for counts in ((4, 5, 0), (0, 9, 0), (3, 3, 3), (0, 0, 0)):
        parts = boxes[: sum(counts)].split(counts)
        index = torch.arange(3).repeat_interleave(torch.tensor(counts))
        rows = torch.cat([index[:, None], boxes[: sum(counts)]], 1)
        wanted = visops.roi_align(maps, rows, 3, reduce=reduce)
        for form in (list, tuple):
            assert same_bits(visops.roi_align(maps, form(parts), 3, reduce=reduce), wanted)
    theirs = torchvision.ops.roi_align(maps, list(boxes.split([4, 5, 0])), 3)
    ours = visops.roi_align(maps, list(boxes.split([4, 5, 0])), 3)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=5e-6)
    # float16 has no index above 2048, uint8 none above 255.
    many = [torch.tensor([[1, 1, 2, 2]]).to(torch.float16)] * 2500
    tall = torch.arange(2500.0)[:, None, None, None].expand(2500, 1, 3, 3)
    assert visops.roi_align(tall, many, 1).flatten().tolist() == list(range(2500))
    whole = [box.to(torch.uint8) for box in many]
    assert visops.roi_align(tall, whole, 1).flatten().tolist() == list(range(2500))


@every_reduce
@pytest.mark.parametrize(
    ("maps", "count", "bins"),
    [
        ((2, 3, 9, 11), 0, (7, 7)),
        ((0, 3, 9, 11), 0, (2, 2)),
        ((2, 0, 9, 11), 4, (2, 2)),
        ((2, 0, 9, 11), 0, (2, 2)),
        ((2, 3, 0, 11), 0, (2, 2)),
        ((0, 0, 0, 0), 0, (1, 1)),
        ((2, 3, 1, 1), 6, (2, 3)),
        ((2, 3, 1, 40), 6, (2, 3)),
        ((2, 3, 40, 1), 6, (2, 3)),
        ((2, 3, 2, 2), 6, (1, 1)),
        ((2, 100, 5, 5), 6, (2, 3)),
        ((2, 1, 9, 11), 6, (40, 1)),
        ((2, 1, 9, 11), 1, (1, 100)),
        ((2, 9, 9, 11), 300, (7, 7)),
    ],
    ids=str,
)
def test_sizes(maps: Any, count: int, bins: Any, reduce: Any) -> None:
    kinds = [*BOXES][:-1]
    numbers = torch.from_numpy(maps_of(maps)).float()
    boxes = torch.from_numpy(boxes_of(kinds[count % len(kinds)], count)).float()
    for layout in (torch.contiguous_format, torch.channels_last):
        laid = numbers.contiguous(memory_format=layout)
        found = visops.roi_align(laid, boxes, bins, 0.9, 2, reduce=reduce)
        assert found.shape == (count, maps[1], *bins)
        if reduce == "mean" and numbers.numel():
            wanted = torchvision.ops.roi_align(numbers, boxes, bins, 0.9, 2)
            torch.testing.assert_close(found, wanted, rtol=0, atol=5e-6)


def test_by_hand() -> None:
    """A ramp's mean is its value in the middle of a bin."""
    y, x = torch.meshgrid(torch.arange(20.0), torch.arange(30.0), indexing="ij")
    ramp = (100 * y + x)[None, None]
    box = torch.tensor([[0.0, 4, 6, 16, 14]])
    middle_y, middle_x = torch.tensor([8.0, 12.0]), torch.tensor([6.0, 10.0, 14.0])
    wanted = 100 * middle_y[:, None] + middle_x
    for ratio in (-1, 1, 2, 7):
        found = visops.roi_align(ramp, box, (2, 3), 1.0, ratio)[0, 0]
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-3)
        found = visops.roi_align(ramp, box, (2, 3), 1.0, ratio, True)[0, 0]
        torch.testing.assert_close(found, wanted - 50.5, rtol=0, atol=1e-3)
    halved = visops.roi_align(ramp, 2 * box * torch.tensor([0, 1, 1, 1, 1]), (2, 3), 0.5, 2)
    torch.testing.assert_close(halved[0, 0], wanted, rtol=0, atol=1e-3)
    pixels = visops.roi_align(ramp, box, (8, 12), 1.0, 1, True)[0, 0]
    assert torch.equal(pixels, ramp[0, 0, 6:14, 4:16])  # an aligned box of whole pixels is a crop


def test_what_is_not_touched_is_not_read() -> None:
    """NaN next to a box, under a weight of 0, and in other images."""
    maps = torch.full((3, 2, 12, 12), NAN)
    maps[1, :, 3:7, 4:9] = 5.0
    # Samples lie on pixels' centres, the last ones next to NaN.
    box = torch.tensor([[1.0, 4, 3, 9, 7]])
    for layout in (torch.contiguous_format, torch.channels_last):
        laid = maps.contiguous(memory_format=layout)
        found = visops.roi_align(laid, box, (4, 5), 1.0, 1, True)
        assert torch.equal(found, torch.full((1, 2, 4, 5), 5.0))
    touched = visops.roi_align(maps, torch.tensor([[1.0, 4, 3, 9.5, 7]]), (4, 5), 1.0, 2, True)
    assert bool(touched[..., -1].isnan().all())
    assert not bool(touched[..., 1:3, 1:3].isnan().any())
    maps[maps.isnan()] = INF
    found = visops.roi_align(maps, box, (2, 2), 1.0, 2, True)
    assert bool((found == 5.0).all())


def along(axis: reference.Axis, bins: int, length: int) -> np.ndarray:
    """[bins, length] weights of pixels, for more samples than loops can handle."""
    i = (np.arange(axis.grid) + 0.5) * axis.bin / axis.grid
    weights = np.zeros((bins, length))
    for b in range(bins):
        at = axis.start + b * axis.bin + i
        at = np.maximum(at[(at >= -1) & (at <= length)], 0)
        low = np.minimum(at.astype(np.int64), length - 1)
        part = np.where(low == length - 1, 0, at - low)
        np.add.at(weights[b], low, 1 - part)
        np.add.at(weights[b], np.minimum(low + 1, length - 1), part)
    return weights / max(axis.grid, 1)


def test_many_samples() -> None:
    """Boxes far larger than the map take only as long as the map."""
    maps = maps_of((1, 2, 6, 7))
    boxes = np.array([[0.0, -1e5, -2e5, 3e5, 1e5], [0, -3, -1e6, 9, 1e6], [0, -9e5, 1, 9e5, 3]])
    options: Any = ((2, 3), 1.0, -1, True)
    found = visops.roi_align(torch.from_numpy(maps), torch.from_numpy(boxes), *options)
    for k, box in enumerate(boxes):
        axis_y, axis_x = reference.axes(box, *options)
        weights_y, weights_x = along(axis_y, 2, 6), along(axis_x, 3, 7)
        wanted = np.einsum("py,cyx,qx->cpq", weights_y, maps[0], weights_x)
        np.testing.assert_allclose(found[k], wanted, rtol=1e-9, atol=0)
    largest = visops.roi_align(
        torch.from_numpy(maps) + 1, torch.from_numpy(boxes), *options, reduce="max"
    )
    assert float(largest.max()) <= float(maps.max()) + 1
    enormous = torch.tensor([[0.0, -1e30, -1e30, 1e30, 1e30], [0, 0, 0, 3e38, 1]])
    for reduce in ("mean", "max"):
        for ratio in (-1, 4096 if reduce == "mean" else 256):
            found = visops.roi_align(torch.ones(1, 2, 6, 7), enormous, 7, 1.0, ratio, reduce=reduce)
            assert bool(found.isfinite().all())


def test_more_elements_than_int32_can_count() -> None:
    """Pages that were never written to take no memory."""
    side = 46_400
    for channels in (1, 2):  # NCHW, channels_last
        numbers = np.zeros((1, side, side // channels, channels), np.uint8)
        maps = torch.from_numpy(numbers).permute(0, 3, 1, 2)
        assert maps.is_contiguous(memory_format=torch.channels_last)
        assert maps.numel() > 2**31
        maps[0, -1, -8:, -8:] = 200
        right, bottom = maps.shape[3], maps.shape[2]
        boxes = torch.tensor(
            [[0.0, right - 6, bottom - 6, right - 2, bottom - 2], [0, 3, 3, 9, 9]],
            dtype=torch.float64,
        )
        for reduce in ("mean", "max"):
            found = visops.roi_align(maps, boxes, 2, 1.0, 2, reduce=reduce)
            assert found[0, -1].flatten().tolist() == [200] * 4
            assert found.sum() == 800
    many = torch.full((1, 1, 2, 2), 3, dtype=torch.uint8).expand(1, 1 << 15, 2, 2)
    rows = torch.tensor([[0.0, 50, 50, 52, 52]]).repeat((1 << 16) + 8, 1)  # off the map: no work
    on_map = [0, 1 << 15, -1]
    rows[on_map, 1:] -= 50
    pooled = visops.roi_align(many, rows, 1)
    assert pooled.numel() > 2**31
    assert bool((pooled[on_map] == 3).all())
    assert not bool(pooled[-2].any())


def assert_crop(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=0, atol=5e-6)


def test_arguments() -> None:
    """A number stands for a pair; positions are torchvision's."""
    maps = torch.from_numpy(maps_of()).float()
    boxes = torch.from_numpy(boxes_of("inside", 5)).float()
    wanted = torchvision.ops.roi_align(maps, boxes, (3, 3), 0.5, 2, True)
    assert_crop(visops.roi_align(maps, boxes, 3, 0.5, 2, True), wanted)
    assert_crop(visops.roi_align(maps, boxes, [3, 3], 0.5, 2, True), wanted)
    assert_crop(
        visops.roi_align(
            input=maps,
            boxes=boxes,
            output_size=(3, 3),
            spatial_scale=0.5,
            sampling_ratio=2,
            aligned=True,
        ),
        wanted,
    )
    assert_crop(visops.roi_align(maps, boxes, 3), torchvision.ops.roi_align(maps, boxes, 3))
    assert_crop(OPS.roi_align(maps, boxes, [3, 3]), torchvision.ops.roi_align(maps, boxes, 3))
