"""The pictures of the pages on points and matching: `python scripts/figures` draws them."""

import torch
import visops
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from figures.drawing import BLUE, GREY, RED, frame, panels, photo, picture

COUNT = 400


def face_logits(height: int, width: int) -> Tensor:
    """[1, 1, height, width]: a mask that is sure inside and outside, and not at its edge."""
    y = (torch.arange(height) - 0.27 * height) / (0.24 * height)
    x = (torch.arange(width) - 0.44 * width) / (0.15 * width)
    return (8 * (1 - (y[:, None] ** 2 + x**2).sqrt()))[None, None].clamp(-6, 6)


def on_photo(axes: Axes, width: int, height: int) -> None:
    """Show all of the photo and nothing beyond."""
    axes.set_axis_off()
    axes.set_xlim(-0.5, width - 0.5)
    axes.set_ylim(height - 0.5, -0.5)


def uncertain_points() -> Figure:
    """Points drawn evenly, and where a mask is uncertain, on a photo."""
    image = photo()
    height, width = image.shape[-2:]
    logits = face_logits(height // 4, width // 4)
    figure, grid = panels(3, 11, 3.9)
    grid[0].imshow(picture(image))
    grid[0].imshow(
        logits[0, 0].sigmoid(), extent=(-0.5, width - 0.5, height - 0.5, -0.5), cmap="Blues",
        alpha=0.55,
    )  # fmt: skip
    grid[0].set_title("a predicted mask", fontsize=9)
    for axes, share in zip(grid[1:], (0.0, 0.75), strict=True):
        points = visops.sample_points_by_uncertainty(
            logits, COUNT, importance_sample_ratio=share, generator=torch.Generator().manual_seed(0)
        )[0]
        chosen = int(share * COUNT)
        axes.imshow(picture(image), alpha=0.75)
        for part, colour in ((points[chosen:], BLUE), (points[:chosen], RED)):
            axes.plot(part[:, 0] * width - 0.5, part[:, 1] * height - 0.5, ".", ms=3, color=colour)
        axes.set_title(f"importance_sample_ratio={share}", fontsize=9, family="monospace")
    for axes in grid:
        on_photo(axes, width, height)
    return figure


def matched_boxes() -> Figure:
    """Predictions and targets on a photo, their costs, and the assignment."""
    image = photo()
    height, width = image.shape[-2:]
    targets = torch.tensor(
        [[0.42, 0.24, 0.28, 0.4], [0.3, 0.78, 0.52, 0.4], [0.87, 0.33, 0.22, 0.56]]
    )
    names = ("face", "suit", "shuttle")
    labels = torch.arange(3)
    boxes = torch.tensor(
        [
            [0.4, 0.27, 0.31, 0.44],
            [0.34, 0.76, 0.46, 0.36],
            [0.36, 0.73, 0.3, 0.2],
            [0.85, 0.3, 0.2, 0.5],
        ]
    )
    classes = torch.tensor([0, 1, 2, 2])
    logits = torch.full((4, 3), -3.0)
    logits[torch.arange(4), classes] = torch.tensor([2.0, 1.5, 0.5, 1.0])
    (costs,) = visops.match_cost(logits[None], boxes[None], [labels], [targets], weights=(2, 5, 2))
    pairs = list(zip(*linear_sum_assignment(costs), strict=True))
    matched = {int(q): int(t) for q, t in pairs}

    figure, (left, right) = panels(2, 11, 5, width_ratios=[1, 0.9])
    left.imshow(picture(image), alpha=0.45)
    for t, box in enumerate(targets.tolist()):
        _outline(left, box, width, height, RED, f"{names[t]}", above=True)
    for q, box in enumerate(boxes.tolist()):
        label = f"query {q}: {names[int(classes[q])]}"
        _outline(left, box, width, height, BLUE if q in matched else GREY, label, above=False)
    left.set_title("targets (red), queries (blue: matched, grey: not)", fontsize=12)
    on_photo(left, width, height)

    right.imshow(costs, cmap="Greys", vmin=float(costs.min()) - 2, vmax=float(costs.max()) * 2)
    for q in range(len(boxes)):
        for t in range(len(targets)):
            weight = "bold" if matched.get(q) == t else "normal"
            cost = f"{float(costs[q, t]):.1f}"
            right.text(t, q, cost, ha="center", va="center", fontsize=15, weight=weight)
    for q, t in pairs:
        frame(right, (t - 0.48, q - 0.48, t + 0.48, q + 0.48), RED, 3)
    right.set_xticks(range(3), names, fontsize=12)
    right.set_yticks(range(len(boxes)), [f"query {q}" for q in range(len(boxes))], fontsize=12)
    right.tick_params(length=0)
    right.set_title("their costs, and the cheapest assignment", fontsize=12)
    return figure


def _outline(
    axes: Axes, box: list[float], width: int, height: int, colour: str, label: str, above: bool
) -> None:
    """Draw a box of centre and size in fractions, named at its top or bottom left corner."""
    cx, cy, w, h = box
    left, top = (cx - w / 2) * width, (cy - h / 2) * height
    frame(axes, (left, top, left + w * width, top + h * height), colour, 2.4)
    paper = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.5}
    x, y = min(max(left, 2) + 4, 0.71 * width), top + (8 if above else h * height - 8)
    side = "top" if above else "bottom"
    axes.text(x, y, label, color=colour, fontsize=11, weight="bold", va=side, bbox=paper)
