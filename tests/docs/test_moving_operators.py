"""Tables on other libraries in the operators' pages: every row."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
import visops
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn import functional as F
from torchvision.ops import box_convert, generalized_box_iou

from docs import convolution_rows as convolutions
from docs import overlap_rows as overlaps
from docs import region_rows as regions
from docs import suppression_rows as rows
from docs.fusion_rows import ENSEMBLE_BOXES
from docs.mask_rows import LOGITS, MASKS, TENSORS
from docs.names import DOCS, MOVING, lines_of
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
        convolutions.CONVOLUTIONS,
        (),
    ),
    "attention": (
        "deformable_attention.md",
        "| elsewhere | here |\n|-|-|\n",
        convolutions.ATTENTION,
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
    """The table of moving/detectors.md that leads to these pages names what exists."""
    heading = "| torchvision, detectron2, mmcv | visops | what differs |\n|-|-|-|\n"
    lines = lines_of(MOVING, heading)
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


MAPS, POINTS = torch.randn(4, 3, 9, 11), torch.rand(4, 20, 2)
TARGET_MASKS = torch.rand(6, 1, 9, 11) > 0.5
QUERY_LOGITS, BOXES = torch.randn(2, 30, 5), torch.rand(2, 30, 4)
LABELS, SIZES = torch.tensor([0, 4, 2, 1, 1]), [2, 3]
TARGETS = torch.rand(5, 4)
Pair = tuple[Tensor, Tensor]


def by_grid(maps: Tensor, points: Tensor) -> Tensor:
    return F.grid_sample(maps, 2 * points[:, :, None] - 1, align_corners=False)[..., 0]


def uncertain(logits: Tensor, doubt: Callable[[Tensor], Tensor]) -> Tensor:
    """PointRend's steps, with topk()."""
    points = torch.rand(len(logits), 60, 2)
    chosen = doubt(by_grid(logits, points)).topk(15, dim=1).indices
    picked = points.gather(1, chosen[..., None].expand(-1, -1, 2))
    return torch.cat([picked, torch.rand(len(logits), 5, 2)], 1)


def seeded(*calls: Callable[[], Tensor]) -> Pair:
    made = []
    for call in calls:
        torch.manual_seed(1)
        made.append(call())
    return made[0], made[1]


def margin(values: Tensor) -> Tensor:
    highest = values.topk(2, dim=1).values
    return highest[:, 1] - highest[:, 0]


def matcher(of_class: Tensor, weight: float) -> list[Tensor]:
    flat = BOXES.flatten(0, 1)
    overlap = generalized_box_iou(*(box_convert(b, "cxcywh", "xyxy") for b in (flat, TARGETS)))
    costs = 5 * torch.cdist(flat, TARGETS, p=1) + weight * of_class - 2 * overlap
    return [part[i] for i, part in enumerate(costs.view(2, 30, -1).split(SIZES, -1))]


def focal() -> list[Tensor]:
    p = QUERY_LOGITS.flatten(0, 1).sigmoid()
    present = 0.25 * (1 - p) ** 2 * -(p + 1e-8).log()
    return matcher((present - 0.75 * p**2 * -(1 - p + 1e-8).log())[:, LABELS], 2)


def ours(weight: float, kind: Any = "focal") -> list[Tensor]:
    found: list[Tensor] = visops.match_cost(
        QUERY_LOGITS, BOXES, LABELS, TARGETS, weights=(weight, 5, 2), kind=kind, counts=SIZES
    )
    return found


def flat(parts: list[Tensor]) -> Tensor:
    return torch.cat([part.flatten() for part in parts])


def assigned(costs: list[Tensor]) -> Tensor:
    return torch.cat([torch.tensor(linear_sum_assignment(part)[0]) for part in costs])


POINT_ROWS: dict[str, Callable[[], Pair]] = {
    "point_sample(input, points, align_corners=False)": lambda: (
        visops.point_sample(MAPS, POINTS),
        by_grid(MAPS, POINTS),
    ),
    "point_sample(masks.float(), points.repeat": lambda: (
        visops.point_sample(TARGET_MASKS, POINTS[:1]),
        by_grid(TARGET_MASKS.float(), POINTS[:1].repeat(6, 1, 1)),
    ),
    "F.grid_sample(input, 2 * points": lambda: (
        visops.point_sample(MAPS, POINTS),
        by_grid(MAPS, POINTS),
    ),
    "get_uncertain_point_coords_with_randomness": lambda: seeded(
        lambda: visops.sample_points_by_uncertainty(MAPS[:, :1], 20),
        lambda: uncertain(MAPS[:, :1], lambda x: -x[:, 0].abs()),
    ),
    "calculate_uncertainty": lambda: seeded(
        lambda: visops.sample_points_by_uncertainty(MAPS, 20, uncertainty="margin"),
        lambda: uncertain(MAPS, margin),
    ),
}

MATCH_ROWS: dict[str, Callable[[], Pair]] = {
    "HungarianMatcher(cost_class=2, cost_bbox=5, cost_giou=2)": lambda: (
        flat(ours(2)),
        flat(focal()),
    ),
    "HungarianMatcher(cost_class=1, cost_bbox=5, cost_giou=2)": lambda: (
        flat(ours(1, "softmax")),
        flat(matcher(-QUERY_LOGITS.flatten(0, 1).softmax(-1)[:, LABELS], 1)),
    ),
    "linear_sum_assignment(c[i])": lambda: (assigned(ours(2)), assigned(focal())),
}


def rows_of(page: str) -> list[str]:
    """The first cells of the table below "Coming from"."""
    section = (DOCS / page).read_text().split("## Coming from", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^\| (?!elsewhere)(.+?) \| ", section, re.MULTILINE)


PAGES = {"point_samples.md": POINT_ROWS, "match_cost.md": MATCH_ROWS}


@pytest.mark.parametrize("page", PAGES)
def test_every_row_on_points_is_run(page: str) -> None:
    rows = rows_of(page)
    assert len(rows) == len(PAGES[page])
    for row, start in zip(rows, PAGES[page], strict=True):
        assert start in row


@pytest.mark.parametrize(
    ("page", "row"), [(page, row) for page, rows in PAGES.items() for row in rows]
)
def test_row(page: str, row: str) -> None:
    found, wanted = PAGES[page][row]()
    torch.testing.assert_close(found, wanted, rtol=0, atol=2e-5)


NAN, INF = float("nan"), float("inf")
GOOD = [0.0, 1, 1, 5, 5]
FLAT_MAPS = torch.rand(2, 3, 8, 9, generator=torch.Generator().manual_seed(0))
Pool = Callable[[Tensor, Tensor], Tensor]


def pool(**options: Any) -> Pool:
    return lambda maps, boxes: visops.roi_align(maps, boxes, 3, sampling_ratio=2, **options)


def pool_levels(maps: Tensor, boxes: Tensor) -> Tensor:
    return visops.multiscale_roi_align([maps, maps[..., ::2, ::2]], boxes, 3, [1, 0.5])


PLAIN, ALIGNED = pool(), pool(aligned=True)
INVERTED = [[1, 6.0, 2, 3, 4], [0, 1.0, 7, 5, 2]]

# By the first cell: calls and boxes, each of which is invalid for each of the calls.
ROWS: dict[str, tuple[list[Pool], list[list[float]]]] = {
    "batch index negative, too large or not whole": (
        [PLAIN, ALIGNED, pool_levels],
        [[-1, 1.0, 1, 5, 5], [2, 1.0, 1, 5, 5], [0.5, 1.0, 1, 5, 5]],
    ),
    "NaN, infinite, or infinite once it is scaled": (
        [PLAIN, ALIGNED, pool(spatial_scale=2.0)],
        [[0, 1.0, NAN, 5, 5], [NAN, 1.0, 1, 5, 5], [0, 1.0, 1, INF, 5]],
    ),
    "x2 < x1 or y2 < y1, `aligned=False`": ([PLAIN], INVERTED),
    "x2 < x1 or y2 < y1, `aligned=True`, or with several levels": (
        [ALIGNED, pool_levels],
        INVERTED,
    ),
}

TOO_LARGE = [0, 1.0, 1, 3e38, 5]  # infinite once it is scaled by two


def cells() -> dict[str, tuple[str, str]]:
    lines = lines_of(DOCS / "roi_align.md", "| box | CPU | CUDA |\n|-|-|-|\n")
    rows = [line.strip("| ").split(" | ") for line in lines]
    return {row[0]: (row[1], row[2]) for row in rows}


def cases(row: str) -> list[tuple[Pool, list[float]]]:
    pools, boxes = ROWS[row]
    found = [(call, box) for call in pools for box in boxes]
    if "scaled" in row:
        found.append((pool(spatial_scale=2.0), TOO_LARGE))
    return found


def has_a_side_of_1(call: Pool, box: list[float]) -> bool:
    """Whether the box gives what one with a side of a pixel gives, in torchvision too."""
    index, x1, y1, x2, y2 = box
    least = torch.tensor([[index, x1, y1, max(x2, x1 + 1), max(y2, y1 + 1)]])
    found = call(FLAT_MAPS, torch.tensor([box]))
    theirs = torchvision.ops.roi_align(FLAT_MAPS, torch.tensor([box]), 3, 1.0, 2)
    torch.testing.assert_close(found, theirs, rtol=0, atol=1e-5)
    wider = torch.tensor([[index, x1, y1, max(x2, x1 + 2), max(y2, y1 + 2)]])
    return torch.equal(found, call(FLAT_MAPS, least)) and not torch.equal(
        found, call(FLAT_MAPS, wider)
    )


def test_the_table_has_these_rows() -> None:
    assert list(cells()) == list(ROWS)
    assert {cell for row in cells().values() for cell in row} == {
        "an error",
        "an error that names the box",
        "that side is 1, as in torchvision",
        "that side is 1",
        "zeros, no gradient",
    }


@pytest.mark.parametrize("row", ROWS)
def test_on_the_cpu(row: str) -> None:
    says = cells()[row][0]
    for call, box in cases(row):
        if "side is 1" in says:
            assert has_a_side_of_1(call, box)
            continue
        with pytest.raises(RuntimeError, match=r"boxes\[1\]" if "names" in says else "boxes"):
            call(FLAT_MAPS, torch.tensor([GOOD, box]))


@pytest.mark.cuda
@pytest.mark.parametrize("row", ROWS)
def test_on_cuda(row: str) -> None:
    says = cells()[row][1]
    for call, box in cases(row):
        maps = FLAT_MAPS.cuda().requires_grad_()
        boxes = torch.tensor([GOOD, box], device="cuda", requires_grad=True)
        found = call(maps, boxes)
        of_maps, of_boxes = torch.autograd.grad(found.sum(), (maps, boxes))
        good = call(maps, boxes[:1])
        assert torch.equal(found[0], good[0])
        if "side is 1" in says:
            torch.testing.assert_close(found.cpu(), PLAIN(FLAT_MAPS, torch.tensor([GOOD, box])))
        else:
            assert not found[1].any()
            assert not of_boxes[1].any()
            assert torch.equal(of_maps, torch.autograd.grad(good.sum(), maps)[0])


@pytest.mark.parametrize(
    ("by", "options"),
    [
        ("ids", {"max_det": 20}),
        ("labels", {"multi_label": True}),
        ("none", {"agnostic": True}),
        ("ids", {"classes": [0, 2]}),
    ],
    ids=str,
)
def test_ultralytics(
    by: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("YOLO_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("YOLO_OFFLINE", "true")
    package = pytest.importorskip("ultralytics.utils.nms")
    prediction = rows.PREDICTION.clone()
    found = package.non_max_suppression(
        prediction, rows.CONF, rows.IOU, **{"max_det": 300, **options}
    )
    steps = rows.by_steps(rows.PREDICTION, **options)
    for theirs, ours in zip(found, steps, strict=True):
        assert torch.equal(theirs, ours)
    ours, _ = rows.detected(by, **options)
    assert torch.equal(torch.cat(found), ours)


def test_oriented_boxes_of_ultralytics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their overlap is that of Gaussians, so other boxes are kept."""
    monkeypatch.setenv("YOLO_CONFIG_DIR", str(tmp_path))
    package = pytest.importorskip("ultralytics.utils.nms")
    boxes, scores = rows.RADIANS.float(), rows.SCORES.float()
    theirs = package.TorchNMS.fast_nms(boxes, scores, 0.3, iou_func=package.batch_probiou)
    assert visops.nms_rotated(boxes, scores, 0.3).tolist() != theirs.tolist()


def test_segment_anything() -> None:
    package = pytest.importorskip("segment_anything.utils.amg")
    assert visops.masks_to_rle(TENSORS, compressed=False) == package.mask_to_rle_pytorch(TENSORS)
    theirs = package.calculate_stability_score(LOGITS, 0.5, 0.3)
    torch.testing.assert_close(visops.stability_score(LOGITS, 0.5, 0.3), theirs)
    for mode in ("holes", "islands"):
        found, changed = visops.remove_small_regions(TENSORS, 40, mode)
        pairs = [package.remove_small_regions(mask, 40, mode) for mask in MASKS]
        np.testing.assert_array_equal(found, [mask for mask, _ in pairs])
        assert changed.tolist() == [different for _, different in pairs]
