"""The picture of the page on crops: `python scripts/figures` draws it."""

import itertools
from typing import Any

import torch
import visops
from matplotlib.figure import Figure
from matplotlib.patches import ConnectionPatch
from torch import Tensor

from figures.drawing import BLUE, GREY, RED, frame, panels, photo, picture, show

FACE = [161.5, 22.25, 301.5, 198.75]  # of the photo
SIZE = 160


def processed(patches: Tensor) -> Tensor:
    """Stands in for a model: turns a region into pop art, which is easy to spot."""
    lightness = patches.float().mean(1, keepdim=True) / 255
    low, high = torch.tensor([70.0, 10, 120]), torch.tensor([255.0, 220, 40])
    colours = low[:, None, None] + (high - low)[:, None, None] * lightness
    return colours.round().to(torch.uint8)


def ellipse(height: int, width: int) -> Tensor:
    """[1, height, width]: 1 within an ellipse, with a soft edge."""
    y = (torch.arange(height) + 0.5) / height * 2 - 1
    x = (torch.arange(width) + 0.5) / width * 2 - 1
    radius = (y[:, None] ** 2 + x**2).sqrt()
    return ((0.95 - radius) * 6).clamp(0, 1)[None]


def there_and_back() -> Figure:
    """A face cut out, processed, and pasted back with each blend."""
    images = photo()[None]
    boxes = torch.tensor([[0, *FACE]])
    patches = visops.crop_rois(images, boxes, (SIZE, SIZE))
    art = processed(patches)
    figure, grid = panels(6, 13.4, 2.75, width_ratios=[1.25, 0.9, 0.9, 1, 1, 1])
    show(grid[0], images[0, :, :340, 80:420], "images, boxes")
    # The panel begins 80 pixels from the left, and imshow has pixel centres at integers.
    x1, y1, x2, y2 = FACE
    frame(grid[0], (x1 - 80.5, y1 - 0.5, x2 - 80.5, y2 - 0.5), RED, 1.6)
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
    style: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 10, "color": GREY, "lw": 1.3}
    for left, right in itertools.pairwise(grid[:4]):
        ends = {"coordsA": left.transAxes, "coordsB": right.transAxes}
        figure.add_artist(ConnectionPatch((1.01, 0.5), (-0.01, 0.5), **ends, **style))
    return figure
