"""Fake kernels infer, and check nothing: messages come from the operator, when it runs."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import visops
from torch import Tensor

OPS = torch.ops.visops
BOXES, SCORES, ROIS = torch.rand(7, 4), torch.rand(7), torch.rand(3, 5)
IMAGES, MAPS = torch.rand(2, 3, 8, 9), torch.rand(2, 4, 8, 9)
MATRIX = torch.eye(2, 3)

# Arguments that are wrong, in every family, and what the operator says of them.
WRONG: list[tuple[str, Callable[..., Any], tuple[Tensor, ...]]] = [
    (
        r"(warp_)?affine: matrix has batch 3, image has batch 2",
        lambda image, matrix: visops.warp_affine(image, matrix, (4, 4)),
        (IMAGES, MATRIX.expand(3, 2, 3)),
    ),
    (
        r"augment: matrix has dtype int64, must be a floating type",
        lambda image, matrix: visops.augment(image, matrix, (4, 4)),
        (IMAGES, MATRIX.long()),
    ),
    (r"box_iou: boxes2 has shape \[3, 5\], must be \[N, 4\]", visops.box_iou, (BOXES, ROIS)),
    (
        r"nms: scores has shape \[6\], must be \[7\]",
        lambda boxes, scores: visops.nms(boxes, scores, 0.5),
        (BOXES, SCORES[:6]),
    ),
    (
        r"roi_align: boxes has shape \[7, 4\], must be \[K, 5\]",
        lambda maps, boxes: visops.roi_align(maps, boxes, 7),
        (MAPS, BOXES),
    ),
    (
        r"conv2d: weight has kernel height 9, must be <= the padded input's height 8",
        lambda input, weight: visops.conv2d(input, weight, method="implicit", padding=(0, 1)),
        (MAPS, torch.rand(2, 4, 9, 9)),
    ),
    (
        r"im2col: kernel_size is \[9, 9\] with dilation \[1, 1\], which covers",
        lambda input: visops.im2col(input, 9, padding=(0, 1)),
        (MAPS,),
    ),
    (
        r"deform_conv2d: offset has shape \[2, 17, 6, 7\], must be",
        visops.deform_conv2d,
        (MAPS, torch.rand(2, 17, 6, 7), torch.rand(2, 4, 3, 3)),
    ),
    (
        r"point_sample: points has shape \[3, 5, 2\], must be \[2, P, 2\]",
        visops.point_sample,
        (MAPS, torch.rand(3, 5, 2)),
    ),
    (r"measure_masks: masks has dtype bool, must be int64", OPS.measure_masks, (IMAGES > 0.5,)),
]


@pytest.mark.parametrize(("message", "call", "arguments"), WRONG, ids=[r[0][:30] for r in WRONG])
def test_a_compiled_function_says_what_is_wrong(
    message: str, call: Callable[..., Any], arguments: tuple[Tensor, ...]
) -> None:
    """As the function itself does."""
    torch._dynamo.reset()
    for function in (call, torch.compile(call, backend="aot_eager", fullgraph=True)):
        with pytest.raises(RuntimeError, match=rf"visops\.{message}"):
            function(*arguments)


def on_meta(*tensors: Tensor) -> list[Tensor]:
    return [tensor.to("meta") for tensor in tensors]


@pytest.mark.parametrize(
    ("op", "given", "arguments"),
    [
        ("nms_padded", "boxes [], scores [7]", (*on_meta(SCORES[0], SCORES), 0.5, 3)),
        ("conv2d", "input [4, 8, 9], weight", (*on_meta(MAPS[0], MAPS), None)),
        ("ps_roi_align", "input [2, 4, 8, 9], boxes", (*on_meta(MAPS, ROIS), [0, 2], 1.0, 2)),
    ],
)
def test_where_nothing_can_be_inferred(op: str, given: str, arguments: tuple[Any, ...]) -> None:
    """Not with an IndexError of Python's, which names no operator."""
    message = re.escape(f"visops.{op}: no result can be inferred from {given}")
    with pytest.raises(RuntimeError, match=rf"^{message}"):
        getattr(OPS, op)(*arguments)
