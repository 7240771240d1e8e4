"""The picture of the page on crops: `python scripts/figures` draws it."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import torch
import visops
from matplotlib.axes import Axes
from matplotlib.patches import ConnectionPatch, Rectangle
from torch import Tensor

from figures.augment import BLUE, JPEG, RED, TIGHT, photo, picture, show

FACE = [161.5, 22.25, 301.5, 198.75]  # of the photo
SIZE = 160


def processed(patches: Tensor) -> Tensor:
    """Stands in for a model: turns a region into pop art, which is easy to spot."""
    lightness = patches.float().mean(1, keepdim=True) / 255
    low, high = torch.tensor([70.0, 10, 120]), torch.tensor([255.0, 220, 40])
    colours = low[:, None, None] + (high - low)[:, None, None] * lightness
    return colours.round().to(torch.uint8)


def outline(axes: Axes, box: list[float], colour: str) -> None:
    x1, y1, x2, y2 = (v - 0.5 for v in box)  # imshow has pixel centres at integers
    axes.add_patch(Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, edgecolor=colour, lw=1.6))


def ellipse(height: int, width: int) -> Tensor:
    """[1, height, width]: 1 within an ellipse, with a soft edge."""
    y = (torch.arange(height) + 0.5) / height * 2 - 1
    x = (torch.arange(width) + 0.5) / width * 2 - 1
    radius = (y[:, None] ** 2 + x**2).sqrt()
    return ((0.95 - radius) * 6).clamp(0, 1)[None]


def there_and_back(path: Path) -> None:
    """A face cut out, processed, and pasted back with each blend."""
    images = photo()[None]
    boxes = torch.tensor([[0, *FACE]])
    patches = visops.crop_rois(images, boxes, (SIZE, SIZE))
    art = processed(patches)
    figure, grid = plt.subplots(
        1, 6, figsize=(13.4, 2.75), layout="constrained", width_ratios=[1.25, 0.9, 0.9, 1, 1, 1]
    )
    show(grid[0], images[0, :, :340, 80:420], "images, boxes")
    outline(grid[0], [FACE[0] - 80, FACE[1], FACE[2] - 80, FACE[3]], RED)
    show(grid[1], patches[0], f"crop_rois(…, {SIZE})", RED)
    show(grid[2], art[0], "processed")
    blends: list[dict[str, Any]] = [
        {"blend": "replace"},
        {"blend": "feather", "feather": 40},
        {"blend": "alpha", "alpha": ellipse(SIZE, SIZE)},
    ]
    for axes, options in zip(grid[3:], blends, strict=True):
        pasted = visops.paste_rois(images, art, boxes, **options)
        axes.imshow(picture(pasted[0, :, :250, 110:350]), interpolation="nearest")
        axes.set_title(f'paste_rois(…, blend="{options["blend"]}")', fontsize=8, color=BLUE, pad=4)
        axes.set_axis_off()
    for left, right in ((0, 1), (1, 2), (2, 3)):
        figure.add_artist(
            ConnectionPatch(
                (1.01, 0.5), (-0.01, 0.5), coordsA=grid[left].transAxes,
                coordsB=grid[right].transAxes, arrowstyle="-|>", mutation_scale=10,
                color="#666666", lw=1.3,
            )
        )  # fmt: skip
    figure.savefig(path, **JPEG, **TIGHT)
    plt.close(figure)
