"""The pictures of the page on masks: `python scripts/figures` draws them."""

from typing import Any

import torch
import visops
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from figures.drawing import BLUE, RED, frame, panels, without_ticks

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
    without_ticks(axes)


def pasted_masks() -> Figure:
    """A small mask, its numbers pasted, and its masks in both conventions."""
    convention: Any
    masks, boxes = probabilities(), torch.tensor([BOX])
    figure, axes = panels(4, 11, 2.5, width_ratios=[0.72, 1, 1, 1])
    show_plane(axes[0], masks[0], "14 × 14 probabilities")
    numbers = visops.paste_masks(masks, boxes, SIZE, out="float")
    show_plane(axes[1], numbers[0], 'out="float"')
    for axis, convention in zip(axes[2:], ("detectron2", "torchvision"), strict=True):
        inside = visops.paste_masks(masks, boxes, SIZE, convention=convention)
        show_plane(axis, inside[0].float(), f'out="bool", "{convention}"')
        other = visops.paste_masks(masks, boxes, SIZE)
        outline(axis, (inside ^ other)[0])
    for axis in axes[1:]:
        frame(axis, [v - 0.5 for v in BOX], BLUE, 1.4)  # imshow has pixel centres at integers
    return figure


def blots() -> Tensor:
    """[40, 60], bool: smooth noise above a level."""
    noise = torch.rand(1, 1, 10, 15, generator=torch.Generator().manual_seed(3))
    smooth = torch.nn.functional.interpolate(noise, SIZE, mode="bicubic")[0, 0]
    fine = torch.rand(SIZE, generator=torch.Generator().manual_seed(4))
    return (smooth > 0.55) ^ (fine > 0.985)


def outline(axes: Axes, mask: Tensor) -> None:
    """Draws the pixels of a mask as squares."""
    for y, x in mask.nonzero().tolist():
        frame(axes, (x - 0.5, y - 0.5, x + 0.5, y + 0.5), RED, 0.8)


def mask_operators() -> Figure:
    """Components with their boxes, what small regions change, distances and a polygon."""
    mask = blots()
    figure, axes = panels(4, 12, 2.3)
    clean, _ = visops.remove_small_regions(mask, 6, "holes")
    clean, _ = visops.remove_small_regions(clean, 6, "islands")
    labels, stats = visops.connected_components(clean, return_stats=True)
    show_plane(axes[0], mask.float(), "remove_small_regions")
    outline(axes[0], mask ^ clean)
    show_plane(axes[1], labels.float(), "connected_components")
    axes[1].imshow(labels.float().where(labels > 0, torch.nan), cmap="tab20")
    for box in (stats.boxes[: int(stats.counts)] - 0.5).tolist():
        frame(axes[1], box, BLUE, 1.0)
    distances = visops.distance_transform(clean)
    show_plane(axes[2], distances / distances.max(), "distance_transform")
    corners = [4.0, 35.0, 16.0, 3.0, 30.0, 25.0, 42.0, 5.0, 56.0, 36.0]
    drawn = visops.polygons_to_masks([[corners]], SIZE)
    show_plane(axes[3], drawn[0].float(), "polygons_to_masks")
    closed = [*corners, *corners[:2]]
    xs, ys = ([v - 0.5 for v in closed[i::2]] for i in (0, 1))
    axes[3].plot(xs, ys, color=RED, lw=1.2)
    return figure
