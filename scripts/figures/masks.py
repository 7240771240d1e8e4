"""The picture of the page on masks: `python scripts/figures` draws it."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import torch
import visops
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from figures.augment import BLUE, RED, TIGHT

SIZE = (40, 60)
BOX = [9.4, 5.7, 52.8, 34.2]


def probabilities() -> Tensor:
    """[1, 14, 14]: a pear, as a detector would see it."""
    y, x = torch.meshgrid(torch.arange(14) + 0.5, torch.arange(14) + 0.5, indexing="ij")
    large = 5.2 - ((x - 8.6) ** 2 + (y - 7.2) ** 2).sqrt()
    small = 3.0 - ((x - 3.6) ** 2 + (y - 6.4) ** 2).sqrt()
    return torch.sigmoid(1.6 * torch.maximum(large, small))[None]


def show_plane(axes: Axes, plane: Tensor, title: str) -> None:
    axes.imshow(plane, cmap="Blues", vmin=0, vmax=1.15, interpolation="nearest")
    axes.set_title(title, fontsize=10)
    axes.set_xticks([])
    axes.set_yticks([])


def pasted_masks(path: Path) -> None:
    """A small mask, its numbers pasted, and its masks in both conventions."""
    masks, boxes = probabilities(), torch.tensor([BOX])
    figure, axes = plt.subplots(
        1, 4, figsize=(11, 2.5), width_ratios=[0.72, 1, 1, 1], layout="constrained"
    )
    show_plane(axes[0], masks[0], "14 × 14 probabilities")
    numbers = visops.paste_masks(masks, boxes, SIZE, out="float")
    show_plane(axes[1], numbers[0], 'out="float"')
    for place, convention in zip(axes[2:], ("detectron2", "torchvision"), strict=True):
        inside = visops.paste_masks(masks, boxes, SIZE, convention=convention)
        show_plane(place, inside[0].float(), f'out="bool", "{convention}"')
        other = visops.paste_masks(masks, boxes, SIZE)
        for y, x in (inside ^ other)[0].nonzero().tolist():
            place.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, edgecolor=RED, lw=0.7))
    x1, y1, x2, y2 = (v - 0.5 for v in BOX)  # imshow has pixel centres at integers
    for place in axes[1:]:
        place.add_patch(Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, edgecolor=BLUE, lw=1.4))
    figure.savefig(path, **TIGHT)
    plt.close(figure)
