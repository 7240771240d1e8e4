"""The table for torch.onnx.export: complete, and clear about what ONNX can't express."""

import re
import sys
from pathlib import Path
from typing import Any

import fresh
import pytest
import torch
import visops
import visops.onnx
from onnxscript import ir
from visops._torch.declaring import DECLARED, NOT_IN_ONNX, Refused

from exporting.inputs import suppressed
from exporting.onnx_programs import Program

OPS = torch.ops.visops
PAGE = Path(__file__).resolve().parents[2] / "docs" / "export.md"


def value(*shape: int, dtype: ir.DataType = ir.DataType.FLOAT) -> ir.Value:
    """What the exporter calls translations with."""
    return ir.Value(name="x", shape=ir.Shape(shape), type=ir.TensorType(dtype))


# In a process of its own, where nothing else has imported what declares operators.
MISSING = """
import torch, visops.onnx
names = {n for n in torch._C._dispatch_get_all_op_names() if n.startswith("visops::")}
print(names - {op.name() for op in visops.onnx.translation_table()})
"""


def test_table_has_every_operator() -> None:
    run = fresh.run(MISSING)
    assert run.stdout == "{'visops::build_info'}\n", run.stderr


def test_the_page_names_what_is_special() -> None:
    """What is translated, and what is refused for a reason or with a way out of its own."""
    special = set()
    for declared in DECLARED.values():
        reason, instead = declared.onnx if isinstance(declared.onnx, Refused) else ("", "")
        is_usual = reason == NOT_IN_ONNX.reason and instead.startswith(NOT_IN_ONNX.instead)
        if not (declared.private or is_usual):
            special.add(declared.documented_as)
    assert {"deform_conv2d", "roi_align_rotated", "nms"} <= special
    assert special <= set(re.findall(r"`(?:torch\.ops\.visops\.)?(\w+)", PAGE.read_text()))


# One for each kind of reason and way out; all are in the operators' declarations.
WHOLE = {
    "batched_soft_nms": "call visops.batched_soft_nms on the arrays that come, or use batched_nms",
    "deform_conv2d": "table writes opset 18; make its arguments outputs of the model, and call",
    "adjust_pixels": "call visops.transforms.Compose on the arrays",
    "roi_align_rotated": "AOTInductor",
    "affine_out": "call the function without out",
    "roi_pool_at": "export the model in eval() and under torch.no_grad()",
}


@pytest.mark.parametrize("name", WHOLE)
def test_operators_outside_of_onnx(name: str) -> None:
    translate = visops.onnx.translation_table()[getattr(OPS, name).default]
    with pytest.raises(NotImplementedError) as caught:
        translate(value(3, 4))
    message = str(caught.value)
    assert message.startswith(f"visops.{name}: ONNX can't express this: ")
    assert WHOLE[name] in message


INT, DOUBLE = ir.DataType.INT32, ir.DataType.DOUBLE
MAPS, ROWS = value(2, 3, 9, 9), value(5, 5)
BATCH, MATRIX = value(2, 3, 9, 9), value(2, 2, 3, dtype=DOUBLE)
SIZE = [4, value(dtype=ir.DataType.INT64)]

ARGUMENTS: list[tuple[str, tuple[Any, ...], str]] = [
    (
        "nms",
        (value(5, 4, dtype=DOUBLE), value(5), 0.5),
        "visops.nms: ONNX can't express boxes of float64; its NonMaxSuppression takes float32; "
        "pass boxes.float()",
    ),
    (
        "batched_nms",
        (value(5, 4, dtype=INT), value(5), value(5, dtype=INT), 0.5),
        "visops.batched_nms: ONNX can't express boxes of int32",
    ),
    (
        "roi_align",
        (MAPS, ROWS, SIZE),
        "visops.roi_align: ONNX can't express the argument output_size where it depends on "
        "sizes; give an integer",
    ),
    (
        "roi_align_max",
        (MAPS, ROWS, [2, 2], 1.0, -1, False),
        "maxima over a number of samples for each box; give a sampling_ratio > 0",
    ),
    ("crop_rois", (MAPS, ROWS, [2, 2], "nearest"), "interpolation 'nearest' of regions"),
    (
        "crop_rois",
        (MAPS, ROWS, [2, 2], "bilinear", "reflect"),
        "padding_mode 'reflect' of regions; crop by warp_affine",
    ),
    ("affine", (value(2, 3, 9, 9, dtype=INT), MATRIX, [4, 4], "nearest"), "samples of int32"),
    ("conv2d", (value(2, 3, 9, 9, dtype=INT), value(2, 3, 3, 3, dtype=INT)), "sums of int32"),
    ("conv2d", (BATCH, value(2, 3, 3, 3), None, SIZE), "the argument stride where it depends"),
    (
        "convolve2d",
        (value(4, 9, 9), value(4, 3, 3), [0, 0], [9, 9]),
        "a kernel for each image; convolve all images with one kernel",
    ),
    ("col2im", (value(3, 4, dtype=INT), [3], [2], [1], [0, 0], [1]), "sums of int32"),
    (
        "col2im",
        (value(3, 8, 8), [3] * 3, [2] * 3, [1] * 3, [0] * 6, [1] * 3),
        "images of 3 dimensions; make the columns an output",
    ),
    ("augment", (BATCH, MATRIX, [4, 4], "bilinear", "constant", [0.0], True), "antialias=True"),
    (
        "augment",
        (BATCH, MATRIX, [4, 4], "bilinear", "reflect", [0.0], False, value(2, 4)),
        "the argument window beside 'bilinear', padding_mode 'reflect'",
    ),
]


@pytest.mark.parametrize(("name", "arguments", "message"), ARGUMENTS)
def test_arguments_outside_of_onnx(name: str, arguments: Any, message: str) -> None:
    translate = visops.onnx.translation_table()[getattr(OPS, name).default]
    with pytest.raises(NotImplementedError, match=re.escape(message)):
        translate(*arguments)


def test_exporter_shows_the_message() -> None:
    with pytest.raises(Exception, match=r"visops\.soft_nms: ONNX can't express this"):
        Program(visops.soft_nms, suppressed(0)[:2], suppressed(1)[:2])


def test_onnxscript_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ImportError, match=r"visops\.onnx.*run: pip install onnx onnxscript"):
        visops.onnx.translation_table()
