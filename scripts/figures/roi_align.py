"""The picture of the page on RoIAlign: `python scripts/figures` draws it."""

import math
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

RED, BLUE, GREY, GOLD = "#c0392b", "#2c6fbb", "#666666", "#d68910"
WIDTH, HEIGHT = 9, 7  # pixels of the drawn map
BOX = (1.2, 1.1, 7.5, 5.2)
OVER = (-2.2, -1.4, 5.6, 4.4)
BINS = (2, 3)  # rows, columns
RATIO = 2


def region(low: float, high: float, aligned: bool) -> tuple[float, float]:
    """The range of a box that is pooled along an axis, where pixel i covers i to i + 1."""
    if aligned:
        return low, high
    return low + 0.5, low + 0.5 + max(high - low, 1.0)


def samples(low: float, high: float, bins: int) -> np.ndarray:
    """Coordinates of all samples of a region."""
    side = (high - low) / bins
    within = (np.arange(RATIO) + 0.5) * side / RATIO
    return (low + np.arange(bins)[:, None] * side + within).ravel()


def draw_map(axes: Axes) -> None:
    for y in range(HEIGHT):
        for x in range(WIDTH):
            shade = "#e3eaf3" if (x + y) % 2 else "#f4f7fb"
            axes.add_patch(Rectangle((x, y), 1, 1, facecolor=shade, edgecolor="#c3d0de", lw=0.7))
    xs, ys = np.meshgrid(np.arange(WIDTH) + 0.5, np.arange(HEIGHT) + 0.5)
    axes.plot(xs.ravel(), ys.ravel(), ".", color="#9fb3c8", ms=4)
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(False)


def draw_bins(axes: Axes, box: tuple[float, ...], aligned: bool) -> tuple[np.ndarray, np.ndarray]:
    """Draw the box and its bins; returns the samples' coordinates."""
    x1, x2 = region(box[0], box[2], aligned)
    y1, y2 = region(box[1], box[3], aligned)
    axes.add_patch(
        Rectangle(
            (box[0], box[1]), box[2] - box[0], box[3] - box[1], fill=False, edgecolor=RED, lw=2,
            ls=(0, (4, 2)), zorder=4,
        )
    )  # fmt: skip
    for i in range(BINS[0] + 1):
        y = y1 + (y2 - y1) * i / BINS[0]
        axes.plot([x1, x2], [y, y], color=BLUE, lw=1.8, zorder=3)
    for i in range(BINS[1] + 1):
        x = x1 + (x2 - x1) * i / BINS[1]
        axes.plot([x, x], [y1, y2], color=BLUE, lw=1.8, zorder=3)
    xs, ys = np.meshgrid(samples(x1, x2, BINS[1]), samples(y1, y2, BINS[0]))
    return xs.ravel(), ys.ravel()


def draw_sample(axes: Axes, x: float, y: float) -> None:
    """Draw one sample, and the four pixels it is interpolated from."""
    left, top = math.floor(x - 0.5) + 0.5, math.floor(y - 0.5) + 0.5
    for px, py in ((left, top), (left + 1, top), (left, top + 1), (left + 1, top + 1)):
        axes.plot([x, px], [y, py], color=GREY, lw=0.9, zorder=5)
        axes.plot(px, py, ".", color=GREY, ms=7, zorder=5)
    axes.plot(x, y, "o", color="black", ms=6, zorder=6)


def draw_whole(axes: Axes, aligned: bool) -> None:
    draw_map(axes)
    xs, ys = draw_bins(axes, BOX, aligned)
    axes.plot(xs, ys, "o", color="black", ms=4, zorder=5)
    draw_sample(axes, xs[3], ys[3])


def draw_border(axes: Axes) -> None:
    """Draw which samples of a box across the border count."""
    draw_map(axes)
    xs, ys = draw_bins(axes, OVER, True)
    outside = (np.minimum(xs, ys) < -0.5) | (xs > WIDTH + 0.5) | (ys > HEIGHT + 0.5)
    clamped = ~outside & (np.minimum(xs, ys) < 0.5)
    style: dict[str, Any] = {"ls": "", "marker": "o", "ms": 5, "zorder": 5}
    axes.plot(xs[outside], ys[outside], color="white", markeredgecolor="black", **style)
    axes.plot(xs[clamped], ys[clamped], color=GOLD, markeredgecolor="black", **style)
    inside = ~(outside | clamped)
    axes.plot(xs[inside], ys[inside], color="black", **style)
    axes.add_patch(
        Rectangle(
            (-0.5, -0.5), WIDTH + 1, HEIGHT + 1, fill=False, edgecolor=GOLD, lw=1, ls=":", zorder=2
        )
    )


def bins_and_samples(path: Path) -> None:
    """Both values of `aligned`, and a box across the border."""
    figure, grid = plt.subplots(
        1, 3, figsize=(13.0, 4.0), width_ratios=(1, 1, 1.22), layout="constrained"
    )
    draw_whole(grid[0], False)
    draw_whole(grid[1], True)
    draw_border(grid[2])
    names = ("aligned=False", "aligned=True", "over the border")
    for axes, name in zip(grid, names, strict=True):
        axes.set_xlim(-2.5 if name == names[2] else -0.2, WIDTH + 0.7)
        axes.set_ylim(HEIGHT + 0.7, -1.6)  # y points down
        axes.set_title(name, fontsize=10, family="monospace" if "=" in name else None)
    point: dict[str, Any] = {"marker": "o", "ls": "", "markeredgecolor": "black"}
    handles = [
        Line2D([], [], color=RED, lw=2, ls=(0, (4, 2)), label="box"),
        Line2D([], [], color=BLUE, lw=1.8, label="bins"),
        Line2D([], [], marker=".", ls="", color="#9fb3c8", ms=8, label="pixels' centres"),
        Line2D([], [], color="black", ms=5, label="sample", **point),
        Line2D([], [], color=GOLD, ms=5, label="sample with the border's value", **point),
        Line2D([], [], color="white", ms=5, label="sample that is 0", **point),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=6, frameon=False, fontsize=9)
    figure.savefig(path, dpi=110, bbox_inches="tight", pad_inches=0.08)
    plt.close(figure)
