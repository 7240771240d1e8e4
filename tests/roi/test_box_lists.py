"""Lists of boxes, one tensor for each image: any dtypes, and no boxes at all."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import visops
from bad_input import check, table
from torch import Tensor
from visops.roi.arguments import as_boxes

from roi.align_cases import FLOATING, maps_of, same_bits

SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
ROWS = torch.tensor([[0.0, 1, 1, 5, 6], [1, 0, 2, 7, 7]], dtype=torch.float64)
MAPS = torch.from_numpy(maps_of((2, 3, 9, 11)))
HALF = torch.tensor([[1.0, 2, 3, 4]], dtype=torch.float16)


@pytest.mark.parametrize("dtype", [*FLOATING, *SIGNED, *UNSIGNED], ids=str)
def test_any_dtype(dtype: torch.dtype) -> None:
    """Also beside tensors of another one."""
    wanted = visops.roi_align(MAPS, ROWS, 3)
    first, second = ROWS[:1, 1:], ROWS[1:, 1:]
    for other in (dtype, torch.float16, torch.float32, torch.float64, torch.int64, torch.uint8):
        for parts in ([first.to(dtype), second.to(other)], [first.to(other), second.to(dtype)]):
            assert same_bits(visops.roi_align(MAPS, parts, 3), wanted)


def test_every_digit_stays() -> None:
    """Those of integers beyond 2^24 and of float64, beside float16 too."""
    scale = 2.0**-24
    far = torch.tensor([[2**24 + 1, 2**24 + 3, 2**26 + 5, 2**26 + 7]])
    for boxes in (far, far.double() + 2.0**-20):
        rows = torch.cat([torch.ones(1, 1), boxes.double()], 1)
        wanted = visops.roi_align(MAPS, rows, 2, scale, 2)
        assert not same_bits(visops.roi_align(MAPS, rows.float(), 2, scale, 2), wanted)
        for first in (HALF, HALF.float(), HALF.long(), HALF[:0]):
            found = visops.roi_align(MAPS, [first, boxes], 2, scale, 2)[-1:]
            assert same_bits(found, wanted)


@pytest.mark.parametrize(
    ("parts", "dtype"),
    [
        ([HALF], torch.float32),
        ([HALF.bfloat16(), HALF], torch.float32),
        ([HALF.float()], torch.float32),
        ([HALF, HALF.double()], torch.float64),
        ([HALF.byte()], torch.float64),
        ([HALF, HALF.long()], torch.float64),
        ([], torch.float32),
        ([HALF[:0]], torch.float32),
        ([HALF.long()[:0], HALF], torch.float64),
    ],
    ids=str,
)
def test_rows(parts: list[Tensor], dtype: torch.dtype) -> None:
    """float32 holds the indices of images; more is only for numbers that need it."""
    rows = as_boxes("roi_align", parts, torch.zeros(2, 3, 9, 11, dtype=torch.float16))
    assert (rows.dtype, rows.shape) == (dtype, (sum(len(part) for part in parts), 5))
    assert all(row.tolist()[1:] == [1, 2, 3, 4] for row in rows)


def test_no_boxes() -> None:
    """Empty tensors may have one dimension, as those of torch.tensor([])."""
    nothing = torch.zeros(0)
    for boxes in ([], (), [nothing], [nothing, nothing], nothing, nothing.long()):
        assert visops.roi_align(MAPS, boxes, 2).shape == (0, 3, 2, 2)
        assert visops.roi_pool(MAPS, boxes, 2).shape == (0, 3, 2, 2)
        assert visops.crop_rois(MAPS, boxes, 2).shape == (0, 3, 2, 2)
        assert visops.roi_align_rotated(MAPS, boxes, 2).shape == (0, 3, 2, 2)
        assert same_bits(visops.paste_rois(MAPS, MAPS[:0], boxes), MAPS)
    for arrays in ([], [nothing.numpy()], nothing.numpy()):
        assert visops.crop_rois(MAPS.numpy(), arrays, 2).shape == (0, 3, 2, 2)
    wanted = visops.roi_align(MAPS, ROWS[1:], 3)
    assert same_bits(visops.roi_align(MAPS, [nothing, ROWS[1:, 1:]], 3), wanted)
    turned = torch.cat([ROWS, ROWS[:, :1]], 1)
    wanted = visops.roi_align_rotated(MAPS, turned[1:], 3)
    assert same_bits(visops.roi_align_rotated(MAPS, [nothing, turned[1:, 1:]], 3), wanted)


def pool(boxes: Any, maps: Tensor = MAPS) -> Callable[[], Any]:
    return lambda: visops.roi_align(maps, boxes, 2)


@table(
    (
        ValueError,
        "roi_align: boxes[1] has dtype bool, must be a floating or integer type",
        pool([HALF, HALF.bool()]),
    ),
    (
        ValueError,
        "roi_align: boxes[0] has dtype complex64, must be a floating or integer type",
        pool([HALF.to(torch.complex64)]),
    ),
    (
        TypeError,
        "roi_align: boxes[1] has dtype float8_e5m2, must be float16, bfloat16, float32, float64 or",
        pool([HALF, HALF.to(torch.float8_e5m2)]),
    ),
    (
        ValueError,
        "roi_align: boxes[1] is on meta, boxes[0] is on cpu; all tensors must be on one device",
        pool([HALF, HALF.to("meta")]),
    ),
    (
        RuntimeError,
        "roi_align: input has shape [], must be [N, C, H, W]",
        pool([HALF], torch.zeros(())),
    ),
    (
        RuntimeError,
        "roi_align: input has shape [3, 9], must be [N, C, H, W]",
        pool([HALF], MAPS[0, :, :, 0]),
    ),
)
def test_bad_input(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)
