"""Every row of the tables that lead from PointRend, Mask2Former and DETR to visops."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import visops
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn import functional as F
from torchvision.ops import box_convert, generalized_box_iou

DOCS = Path(__file__).resolve().parents[2] / "docs"
MAPS, POINTS = torch.randn(4, 3, 9, 11), torch.rand(4, 20, 2)
MASKS = torch.rand(6, 1, 9, 11) > 0.5
LOGITS, BOXES = torch.randn(2, 30, 5), torch.rand(2, 30, 4)
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
    p = LOGITS.flatten(0, 1).sigmoid()
    present = 0.25 * (1 - p) ** 2 * -(p + 1e-8).log()
    return matcher((present - 0.75 * p**2 * -(1 - p + 1e-8).log())[:, LABELS], 2)


def ours(weight: float, kind: str = "focal") -> list[Tensor]:
    found: list[Tensor] = visops.match_cost(
        LOGITS, BOXES, LABELS, TARGETS, weights=(weight, 5, 2), kind=kind, counts=SIZES
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
        visops.point_sample(MASKS, POINTS[:1]),
        by_grid(MASKS.float(), POINTS[:1].repeat(6, 1, 1)),
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
        flat(matcher(-LOGITS.flatten(0, 1).softmax(-1)[:, LABELS], 1)),
    ),
    "linear_sum_assignment(c[i])": lambda: (assigned(ours(2)), assigned(focal())),
}


def rows_of(page: str) -> list[str]:
    """The first cells of the table below "Coming from"."""
    section = (DOCS / page).read_text().split("## Coming from", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^\| (?!elsewhere)(.+?) \| ", section, re.MULTILINE)


PAGES = {"point_samples.md": POINT_ROWS, "match_cost.md": MATCH_ROWS}


@pytest.mark.parametrize("page", PAGES)
def test_every_row_is_run(page: str) -> None:
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
