"""The pictures of the pages on points and matching: `python scripts/figures` draws them."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import torch
import visops
from matplotlib.patches import Rectangle
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from figures.augment import BLUE, JPEG, RED, TIGHT, photo, picture

COUNT = 400


def face_logits(height: int, width: int) -> Tensor:
    """[1, 1, height, width]: a mask that is sure inside and outside, and not at its edge."""
    y = (torch.arange(height) - 0.27 * height) / (0.24 * height)
    x = (torch.arange(width) - 0.44 * width) / (0.15 * width)
    return (8 * (1 - (y[:, None] ** 2 + x**2).sqrt()))[None, None].clamp(-6, 6)


def uncertain_points(path: Path) -> None:
    """Points drawn evenly, and where a mask is uncertain, on a photo."""
    image = photo()
    height, width = image.shape[-2:]
    logits = face_logits(height // 4, width // 4)
    figure, grid = plt.subplots(1, 3, figsize=(11, 3.9), layout="constrained")
    grid[0].imshow(picture(image))
    grid[0].imshow(
        logits[0, 0].sigmoid(), extent=(-0.5, width - 0.5, height - 0.5, -0.5), cmap="Blues",
        alpha=0.55,
    )  # fmt: skip
    grid[0].set_title("a predicted mask", fontsize=9)
    for axes, share in zip(grid[1:], (0.0, 0.75), strict=True):
        points = visops.sample_points_by_uncertainty(
            logits,
            COUNT,
            importance_sample_ratio=share,
            generator=torch.Generator().manual_seed(0),
        )[0]
        chosen = int(share * COUNT)
        axes.imshow(picture(image), alpha=0.75)
        for part, colour in ((points[chosen:], BLUE), (points[:chosen], RED)):
            axes.plot(part[:, 0] * width - 0.5, part[:, 1] * height - 0.5, ".", ms=3, color=colour)
        axes.set_title(f"importance_sample_ratio={share}", fontsize=9, family="monospace")
    for axes in grid:
        axes.set_axis_off()
        axes.set_xlim(-0.5, width - 0.5)
        axes.set_ylim(height - 0.5, -0.5)
    figure.savefig(path, **JPEG, **TIGHT)
    plt.close(figure)


def matched_boxes(path: Path) -> None:
    """Predictions and targets on a photo, their costs, and the assignment."""
    image = photo()
    height, width = image.shape[-2:]
    targets = torch.tensor(
        [[0.44, 0.25, 0.26, 0.42], [0.5, 0.68, 0.8, 0.64], [0.86, 0.3, 0.2, 0.5]]
    )
    labels = torch.tensor([0, 1, 2])
    generator = torch.Generator().manual_seed(4)
    order = torch.tensor([2, 0, 1, 0, 1, 2])
    noise = torch.rand(6, 4, generator=generator) - 0.5
    boxes = targets[order] + noise * 0.16
    logits = torch.full((6, 3), -3.0)
    logits[torch.arange(6), labels[order]] = torch.tensor([2.0, 1.5, 1.0, -1.0, -2.0, 0.0])
    (costs,) = visops.match_cost(logits[None], boxes[None], [labels], [targets], weights=(2, 5, 2))
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9.5, 4.2), layout="constrained", width_ratios=[1.2, 0.8]
    )
    left.imshow(picture(image), alpha=0.8)
    for group, colour, sign in ((boxes, BLUE, "q"), (targets, RED, "t")):
        for i, (cx, cy, w, h) in enumerate(group.tolist()):
            corner = ((cx - w / 2) * width, (cy - h / 2) * height)
            left.add_patch(
                Rectangle(corner, w * width, h * height, fill=False, edgecolor=colour, lw=1.6)
            )
            left.text(
                corner[0] + 4, corner[1] + (14 if sign == "t" else h * height - 4), f"{sign}{i}",
                color=colour, fontsize=9, weight="bold",
            )  # fmt: skip
    left.set_axis_off()
    right.imshow(costs, cmap="Greys", aspect="auto")
    middle = float(costs.mean())
    for q in range(6):
        for t in range(3):
            colour = "white" if costs[q, t] > middle else "black"
            right.text(t, q, f"{float(costs[q, t]):.1f}", ha="center", va="center", color=colour)
    for q, t in zip(*linear_sum_assignment(costs), strict=True):
        right.add_patch(Rectangle((t - 0.5, q - 0.5), 1, 1, fill=False, edgecolor=RED, lw=2.4))
    right.set_xticks(range(3), [f"t{i}" for i in range(3)])
    right.set_yticks(range(6), [f"q{i}" for i in range(6)])
    right.set_title("match_cost, and the assignment", fontsize=9)
    figure.savefig(path, **JPEG, **TIGHT)
    plt.close(figure)
