"""Bad input of pasted masks: each row has an input and the message that it must give."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import visops
from bad_input import check, table

MASKS = torch.rand(2, 7, 7, generator=torch.Generator().manual_seed(0))
BOXES = torch.tensor([[0.0, 0, 4, 4], [1, 1, 5, 5]])
OPS = torch.ops.visops

Call = Callable[[], Any]


def paste(masks: Any = MASKS, boxes: Any = BOXES, size: Any = (8, 9), **options: Any) -> Call:
    return lambda: visops.paste_masks(masks, boxes, size, **options)


def boxes_with(*row: float) -> torch.Tensor:
    return torch.stack([BOXES[0], torch.tensor(row)])


ROWS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "paste_masks: masks has shape [7, 7], must be [N, h, w] or [N, 1, h, w]",
        {"masks": MASKS[0]},
    ),
    (
        "paste_masks: masks has shape [1, 2, 7, 7], must be [N, h, w] or [N, 1, h, w]",
        {"masks": MASKS[None]},
    ),
    ("paste_masks: masks has dtype int64, must be a floating type", {"masks": MASKS.long()}),
    ("paste_masks: boxes has shape [1, 4], must be [2, 4]", {"boxes": BOXES[:1]}),
    ("paste_masks: boxes has shape [2, 3], must be [2, 4]", {"boxes": BOXES[:, :3]}),
    ("paste_masks: boxes has dtype bool, must be a floating or integer", {"boxes": BOXES > 0}),
    (
        "paste_masks: boxes[1] is [5, 1, 1, 5], must be finite, with x2 >= x1 and y2 >= y1",
        {"boxes": boxes_with(5, 1, 1, 5)},
    ),
    ("paste_masks: boxes[1] is [1, nan, 5, 5], must be", {"boxes": boxes_with(1, torch.nan, 5, 5)}),
    ("paste_masks: boxes[1] is [1, 1, inf, 5], must be", {"boxes": boxes_with(1, 1, torch.inf, 5)}),
    (
        "paste_masks: size is (-1, 9), must have height and width >= 0 and below 2^30",
        {"size": (-1, 9)},
    ),
    ("paste_masks: size is (8, 1073741824), must have height", {"size": (8, 2**30)}),
    (
        "paste_masks: results are 65536 x 32768, must have fewer than 2^31 pixels each",
        {"size": (65536, 32768)},
    ),
    (
        "paste_masks: out is 'png', must be 'bool', 'uint8', 'packed', 'rle' or 'float'",
        {"out": "png"},
    ),
    (
        "paste_masks: results are 65536 x 32768, must have fewer than 2^31 pixels each",
        {"size": (65536, 32768), "out": "rle"},
    ),
    (
        "paste_masks: boxes[1] is [5, 1, 1, 5], must",
        {"boxes": boxes_with(5, 1, 1, 5), "out": "rle"},
    ),
    ("paste_masks: threshold is nan, must be a number", {"threshold": math.nan, "out": "rle"}),
    (
        "paste_masks: convention is 'mmdet', must be 'detectron2' or 'torchvision'",
        {"convention": "mmdet"},
    ),
    ("paste_masks: threshold is nan, must be a number", {"threshold": float("nan")}),
    (
        "paste_masks: padding is -1, must be >= 0 and below 2^30",
        {"convention": "torchvision", "padding": -1},
    ),
)


@table(*((RuntimeError, message, paste(**given)) for message, given in ROWS))
def test_tensors(error: type[Exception], message: str, call: Call) -> None:
    check(error, message, call)


@pytest.mark.parametrize(("message", "given"), ROWS)
def test_arrays(message: str, given: dict[str, Any]) -> None:
    all_given = {"masks": MASKS, "boxes": BOXES, **given}
    arrays = {k: v.numpy() if isinstance(v, torch.Tensor) else v for k, v in all_given.items()}
    check(ValueError, message, paste(**arrays))


@table(
    (TypeError, "paste_masks: size is 8, must be (height, width)", paste(size=8)),
    (TypeError, "paste_masks: size is (8, 9.5), must be (height, width)", paste(size=(8, 9.5))),
    (
        TypeError,
        "paste_masks: threshold is for masks; out='float' returns the numbers",
        paste(out="float", threshold=0.5),
    ),
    (TypeError, "paste_masks: padding is for convention='torchvision'", paste(padding=1)),
    (
        TypeError,
        "paste_masks: boxes is a list, must be a torch.Tensor",
        paste(boxes=BOXES.tolist()),
    ),
    (
        TypeError,
        "paste_masks: masks is a list, must be a torch.Tensor or a numpy.ndarray",
        paste(masks=MASKS.tolist()),
    ),
    (
        RuntimeError,
        "paste_masks: padding is 1, must be 0 for convention 'detectron2'",
        lambda: OPS.paste_masks(MASKS, BOXES, (8, 9), "detectron2", 1),
    ),
    (
        RuntimeError,
        "paste_masks: size is [8, 9, 10], must have two numbers",
        lambda: OPS.paste_masks(MASKS, BOXES, [8, 9, 10], "detectron2", 0),
    ),
    (
        RuntimeError,
        "paste_binary_masks: out is 'float', must be 'bool', 'uint8' or 'packed'",
        lambda: OPS.paste_binary_masks(MASKS, BOXES, (8, 9), 0.5, "float"),
    ),
    (
        RuntimeError,
        "paste_masks_backward: grad has shape [7, 7], must be [N, H, W]",
        lambda: OPS.paste_masks_backward(MASKS[0], BOXES, (7, 7), "detectron2", 0),
    ),
)
def test_kinds(error: type[Exception], message: str, call: Call) -> None:
    check(error, message, call)
