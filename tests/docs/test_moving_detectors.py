"""Tables on other libraries in nms.md, box_fusion.md, roi_align.md, convolve2d.md, …: every row."""

import re

import numpy as np
import pytest
import visops

from docs import convolution_rows as convolutions
from docs import deformable_rows as deformable
from docs import overlap_rows as overlaps
from docs import region_rows as regions
from docs.fusion_rows import ENSEMBLE_BOXES
from docs.names import DOCS, PAGE, lines_of
from docs.suppression_rows import DETECTRON2, MMCV, ONNX, SOLO, ULTRALYTICS, Row

TWO = " | visops |\n|-|-|\n"

# A page, the heading of a table, its rows by their first cells, and those that can't be run.
TABLES: dict[str, tuple[str, str, dict[str, Row], tuple[str, ...]]] = {
    "ultralytics": ("nms.md", "| ultralytics" + TWO, ULTRALYTICS, ()),
    "mmcv": ("nms.md", "| mmcv" + TWO, MMCV, ()),
    "detectron2": ("nms.md", "| detectron2" + TWO, DETECTRON2, ()),
    "onnx": ("nms.md", "| NonMaxSuppression" + TWO, ONNX, ()),
    "solo": ("box_fusion.md", "| theirs" + TWO, SOLO, ()),
    "ensemble-boxes": (
        "box_fusion.md",
        "| ensemble-boxes | visops | what differs |\n|-|-|-|\n",
        ENSEMBLE_BOXES,
        (),
    ),
    "roi_align of torchvision": (
        "roi_align.md",
        "| torchvision" + TWO,
        regions.TORCHVISION,
        # A GPU; more memory than machines for tests have.
        ("CUDA: ", "CUDA under ", "more than 2³¹ elements"),
    ),
    "roi_align of detectron2": ("roi_align.md", "| detectron2" + TWO, regions.DETECTRON2, ()),
    "roi_align of mmcv": ("roi_align.md", "| mmcv" + TWO, regions.MMCV, ()),
    "roi_align of mmdet": ("roi_align.md", "| mmdet" + TWO, regions.MMDET, ()),
    "deform_conv2d": (
        "deform_conv2d.md",
        "| elsewhere | here |\n|-|-|\n",
        deformable.CONVOLUTIONS,
        (),
    ),
    "attention": (
        "deformable_attention.md",
        "| elsewhere | here |\n|-|-|\n",
        deformable.ATTENTION,
        (),
    ),
    "overlaps": ("box_iou.md", "| torchvision" + TWO, overlaps.OVERLAPS, ()),
    "conv2d": (
        "conv2d.md",
        "| `torch.nn.functional.conv2d` | `visops.conv2d` |\n|-|-|\n",
        overlaps.CONVOLUTIONS,
        (),
    ),
    "convolve2d": ("convolve2d.md", "| | SciPy | visops |\n|-|-|-|\n", convolutions.SCIPY, ()),
    "im2col": (
        "api/convolution/im2col.md",
        "| | `F.unfold`, `F.fold` | `visops.im2col`, `visops.col2im` |\n|-|-|-|\n",
        convolutions.COLUMNS,
        (),
    ),
    "poolings": ("api/roi/pooling.md", "| elsewhere | here |\n|-|-|\n", regions.POOLING, ()),
}
CALLS = [(table, name) for table, (_, _, rows, _) in TABLES.items() for name in rows]


@pytest.mark.parametrize("table", TABLES)
def test_every_row_is_run(table: str) -> None:
    page, heading, rows, others = TABLES[table]
    lines = lines_of(DOCS / page, heading)
    cells = [line.removeprefix("| ").split(" | ")[0].replace("`", "") for line in lines]
    run = [cell for cell in cells if not cell.startswith(others or ("\n",))]
    assert len(cells) == len(run) + len(others)
    for cell, name in zip(run, rows, strict=True):
        assert cell.startswith(name)


def test_operators_of_detectors_are_there() -> None:
    """The table of moving.md that leads to these pages names what exists."""
    heading = "| torchvision, detectron2, mmcv | visops | what differs |\n|-|-|-|\n"
    lines = lines_of(PAGE, heading)
    assert len(lines) > 10
    for line in lines:
        name, ours, _ = line.strip("| ").split(" | ")
        named = re.findall(r"`(?:compat\.)?(\w+)", name if "the same names" in ours else ours)
        assert named or "below" in ours
        for word in named:
            assert hasattr(visops, word) or hasattr(visops.compat, word), word


@pytest.mark.parametrize(("table", "row"), CALLS)
def test_both_agree(table: str, row: str) -> None:
    call, tolerance = TABLES[table][2][row]
    ours, theirs = (np.asarray(a, np.float64) for a in call())
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance)
