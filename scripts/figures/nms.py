"""The picture of the page on suppression: `python scripts/figures` draws it."""

from collections.abc import Sequence
from typing import Any

import torch
import visops
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon
from torch import Tensor

from figures.drawing import BLUE, RED, legend, panels, without_ticks

# Two objects, one partly behind the other: two boxes about the first, one about the second; and one
# apart.
BOXES = torch.tensor(
    [
        [1.5, 0.9, 5.5, 8.2],
        [0.5, 2.0, 4.5, 8.9],
        [3.0, 3.0, 7.0, 9.3],
        [7.8, 4.0, 9.7, 7.5],
    ]
)
SCORES = torch.tensor([0.95, 0.80, 0.85, 0.70])
THRESHOLD = 0.3

# Long boxes next to each other: centre, width, height, radians.
SHIPS = torch.tensor(
    [
        [4.9, 5.0, 9.0, 1.3, 0.70],
        [5.1, 4.9, 8.4, 1.5, 0.75],
        [6.2, 3.7, 8.0, 1.2, 0.70],
        [3.7, 6.3, 7.6, 1.2, 0.68],
        [3.8, 6.1, 7.0, 1.1, 0.60],
        [8.6, 1.5, 2.2, 0.9, 2.50],
    ]
)
SHIP_SCORES = torch.tensor([0.95, 0.8, 0.9, 0.85, 0.6, 0.7])


def corners(boxes: Tensor) -> Tensor:
    """Corners [N, 4, 2] of boxes [N, 4] or rotated boxes [N, 5]."""
    signs = torch.tensor([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    if boxes.shape[1] == 4:
        middle, half = (boxes[:, :2] + boxes[:, 2:]) / 2, (boxes[:, 2:] - boxes[:, :2]) / 2
        return middle[:, None] + signs * half[:, None]
    x, y = (signs * boxes[:, None, 2:4] / 2).unbind(-1)
    cos, sin = boxes[:, 4:].cos(), boxes[:, 4:].sin()
    return boxes[:, None, :2] + torch.stack([x * cos - y * sin, x * sin + y * cos], -1)


def draw(
    axes: Axes, title: str, boxes: Tensor, labels: Sequence[str], strength: Sequence[float]
) -> None:
    """Draw boxes with opacity `strength`, in (0, 1]; dashed where it is 0."""
    for outline, label, much in zip(corners(boxes), labels, strength, strict=True):
        kept = much > 0
        style: dict[str, Any] = {"lw": 0.7 + 2.2 * much, "edgecolor": BLUE}
        if not kept:
            style = {"lw": 1.1, "edgecolor": RED, "ls": (0, (3, 2.5))}
        face = (*(int(BLUE[i : i + 2], 16) / 255 for i in (1, 3, 5)), 0.16 * much)
        axes.add_patch(Polygon(outline.tolist(), facecolor=face, **style))
        x, y = outline[0].tolist()
        axes.text(
            x + 0.2, y + 0.2, label, fontsize=8, color=BLUE if kept else RED, va="top",
            bbox={"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 0.8},
        )  # fmt: skip
    axes.set_xlim(0.0, 10.2)
    axes.set_ylim(9.9, 0.1)  # y points down
    axes.set_aspect("equal")
    without_ticks(axes)
    axes.spines[:].set_color("#cccccc")
    axes.set_title(title, fontsize=8.5, family="monospace", pad=5)


def suppression() -> Figure:
    """The boxes that nms and soft_nms keep, and the long ones that nms_rotated keeps."""
    figure, grid = panels(4, 12.4, 3.7)
    given = [f"{score:.2f}" for score in SCORES.tolist()]
    draw(grid[0], "boxes, scores", BOXES, given, SCORES.tolist())

    kept = visops.nms(BOXES, SCORES, THRESHOLD).tolist()
    strength = [score if i in kept else 0.0 for i, score in enumerate(SCORES.tolist())]
    draw(grid[1], f"nms(…, {THRESHOLD})", BOXES, given, strength)

    left, lowered = visops.soft_nms(BOXES, SCORES, method="gaussian", min_score=0.05)
    strength = [0.0] * len(BOXES)
    labels = list(given)
    for i, score in zip(left.tolist(), lowered.tolist(), strict=True):
        strength[i] = score
        if f"{score:.2f}" != given[i]:
            labels[i] = f"{given[i]}→{score:.2f}"
    draw(grid[2], 'soft_nms(…, method="gaussian")', BOXES, labels, strength)

    kept = visops.nms_rotated(SHIPS, SHIP_SCORES, THRESHOLD).tolist()
    strength = [score if i in kept else 0.0 for i, score in enumerate(SHIP_SCORES.tolist())]
    draw(grid[3], f"nms_rotated(…, {THRESHOLD})", SHIPS, [""] * len(SHIPS), strength)
    handles = [
        Line2D([], [], color=BLUE, lw=2.4, label="kept; the stronger, the higher its score"),
        Line2D([], [], color=RED, lw=1.1, ls=(0, (3, 2.5)), label="dropped"),
    ]
    legend(figure, handles)
    return figure
