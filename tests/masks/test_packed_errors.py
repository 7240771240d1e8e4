"""Bad input of packed masks: each row has an input and the message that it must give."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import visops
from bad_input import check, table

MASKS = torch.zeros(2, 3, 70, dtype=torch.bool)
BITS = torch.zeros(2, 3, 2, dtype=torch.int64)
HUGE = torch.zeros(1, 1, dtype=torch.bool).expand(2**16, 2**15)
OPS = torch.ops.visops

Call = Callable[[], Any]


def overlap(one: Any = MASKS, other: Any = MASKS, **options: Any) -> Call:
    return lambda: visops.mask_iou(one, other, **options)


def packed_of(bits: Any, size: Any = (3, 70)) -> Any:
    return visops.masks.PackedMasks(bits, size)


ROWS: tuple[tuple[str, Callable[[Any], Any], Any], ...] = (
    (
        "PackedMasks: bits has dtype bool, must be int64, as pack_masks returns",
        packed_of,
        MASKS,
    ),
    (
        "PackedMasks: bits has shape [2, 3, 2], must be [..., 3, 1] for masks of 3 x 64",
        lambda bits: packed_of(bits, (3, 64)),
        BITS,
    ),
    (
        "PackedMasks: bits has shape [2], must be [..., 3, 2] for masks of 3 x 70",
        packed_of,
        BITS[0, 0],
    ),
    ("pack_masks: masks has dtype int64, must be bool or uint8", visops.pack_masks, MASKS.long()),
    ("pack_masks: masks has shape [70], must be [..., H, W]", visops.pack_masks, MASKS[0, 0]),
    ("mask_area: masks has dtype float32, must be bool or uint8", visops.mask_area, MASKS.float()),
    (
        "masks_to_boxes: masks has shape [70], must be [..., H, W]",
        visops.masks_to_boxes,
        MASKS[0, 0],
    ),
    (
        "mask_iou: masks1 has dtype int32, must be bool or uint8",
        lambda m: visops.mask_iou(m, m),
        MASKS.int(),
    ),
    (
        "mask_iou: masks1 has shape [3, 70], must be [N, H, W]",
        lambda m: visops.mask_iou(m, m),
        MASKS[0],
    ),
    (
        "mask_iou: masks1 are 3 x 70, masks2 are 3 x 69: masks must be of one size",
        lambda m: visops.mask_iou(m, m[..., :69]),
        MASKS,
    ),
    (
        "mask_iou: kind is 'giou', must be 'iou', 'ioa' or 'boundary'",
        lambda m: visops.mask_iou(m, m, kind="giou"),
        MASKS,
    ),
    (
        "mask_iou: iscrowd has shape [1], must be [2]",
        lambda m: visops.mask_iou(m, m, iscrowd=m[0, 0, :1]),
        MASKS,
    ),
    (
        "mask_iou: masks2 has shape [1, 2, 3, 2], must be [N, H, words]",
        lambda m: visops.mask_iou(m, visops.pack_masks(m[None])),
        MASKS,
    ),
)


@table(*((RuntimeError, message, lambda f=f, m=m: f(m)) for message, f, m in ROWS))
def test_tensors(error: type[Exception], message: str, call: Call) -> None:
    check(error, message, call)


@table(*((ValueError, message, lambda f=f, m=m: f(m.numpy())) for message, f, m in ROWS))
def test_arrays(error: type[Exception], message: str, call: Call) -> None:
    check(error, message, call)


@table(
    (
        TypeError,
        "PackedMasks: bits is a list, must be a torch.Tensor or a numpy.ndarray",
        lambda: packed_of([[1]]),
    ),
    (
        TypeError,
        "PackedMasks: masks have shape [3, 70], must be [N, H, W] to be counted or indexed",
        lambda: len(packed_of(BITS[0])),
    ),
    (
        IndexError,
        "PackedMasks: index is 2, must index the dimensions before height and width of masks "
        "[2, 3, 70]: ",
        lambda: packed_of(BITS)[2],
    ),
    (
        IndexError,
        "PackedMasks: index is (0, 1), must index the dimensions before height and width of masks "
        "[2, 3, 70]: ",
        lambda: packed_of(BITS)[0, 1],
    ),
    (
        IndexError,
        "PackedMasks: index is 'a', must index the dimensions before height and width of masks ",
        lambda: packed_of(BITS.numpy())["a"],
    ),
    (
        TypeError,
        "mask_iou: masks2 is a list, must be a torch.Tensor, a numpy.ndarray or PackedMasks",
        overlap(other=[[True]]),
    ),
    (
        TypeError,
        "mask_iou: masks2 is a ndarray, must be a torch.Tensor",
        overlap(other=MASKS.numpy()),
    ),
    (
        TypeError,
        "mask_iou: iscrowd is a list, must be a torch.Tensor",
        overlap(iscrowd=[0, 1]),
    ),
    (
        RuntimeError,
        "mask_iou: iscrowd has dtype int64, must be bool or uint8",
        overlap(iscrowd=torch.tensor([0, 1])),
    ),
    (
        TypeError,
        "mask_area: masks is a str, must be a torch.Tensor or a numpy.ndarray",
        lambda: visops.mask_area("mask"),  # type: ignore[arg-type]
    ),
    (
        TypeError,
        "pack_masks: device is for arrays; move tensors with .to('cpu')",
        lambda: visops.pack_masks(MASKS, device="cpu"),
    ),
    (
        RuntimeError,
        "pack_masks: masks are 65536 x 32768, must have fewer than 2^31 pixels each",
        lambda: visops.pack_masks(HUGE),
    ),
    (
        RuntimeError,
        "unpack_masks: width is 129, bits has shape [2, 3, 2]: its last dimension must be",
        lambda: OPS.unpack_masks(BITS, 129),
    ),
    (
        RuntimeError,
        "unpack_masks: width is -1, bits has shape [2, 3, 2]: its last dimension must be",
        lambda: OPS.unpack_masks(BITS, -1),
    ),
    (
        RuntimeError,
        "unpack_masks: bits has dtype int32, must be int64, as pack_masks returns",
        lambda: OPS.unpack_masks(BITS.int(), 70),
    ),
    (
        RuntimeError,
        "measure_masks: masks has shape [2], must be [..., H, W]",
        lambda: OPS.measure_masks(BITS[0, 0]),
    ),
    (
        RuntimeError,
        "mask_iou: masks1 has shape [2, 3, 2], masks2 has [2, 3, 1]: masks must be of one size",
        lambda: OPS.mask_iou(BITS, BITS[..., :1]),
    ),
    (
        RuntimeError,
        "mask_iou: masks2 has shape [3, 2], must be [N, H, words]",
        lambda: OPS.mask_iou(BITS, BITS[0]),
    ),
    (
        RuntimeError,
        "mask_iou: masks1 has shape [2, 3, 70], masks2 has [2, 3, 1]: masks must be of one size",
        lambda: OPS.mask_iou(MASKS, BITS[..., :1], packed1=False),
    ),
    (
        RuntimeError,
        "mask_iou: masks1 has shape [2, 3, 70], masks2 has [2, 3, 69]: masks must be of one size",
        lambda: OPS.mask_iou(MASKS, MASKS[..., 1:], packed1=False, packed2=False),
    ),
    (
        RuntimeError,
        "mask_iou: masks1 has dtype int64, must be bool or uint8",
        lambda: OPS.mask_iou(BITS, BITS, packed1=False),
    ),
    (
        RuntimeError,
        "measure_masks: masks has dtype bool, must be int64, as pack_masks returns",
        lambda: OPS.measure_masks(MASKS),
    ),
)
def test_kinds(error: type[Exception], message: str, call: Call) -> None:
    check(error, message, call)


def test_unequal_sizes_of_packed_masks() -> None:
    """The number of words is equal; the widths are not."""
    one = visops.pack_masks(np.zeros((2, 3, 70), bool))
    other = visops.pack_masks(np.zeros((2, 3, 71), bool))
    message = "mask_iou: masks1 are 3 x 70, masks2 are 3 x 71: masks must be of one size"
    check(ValueError, message, lambda: visops.mask_iou(one, other))
