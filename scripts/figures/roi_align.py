"""The picture of the page on RoIAlign: `python scripts/figures` draws it."""

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from figures.drawing import BLUE, GOLD, GREY, RED, draw_grid, frame, legend, panels, without_ticks

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
    draw_grid(axes, WIDTH, HEIGHT, 0.0, ("#f4f7fb", "#e3eaf3"), "#c3d0de")
    xs, ys = np.meshgrid(np.arange(WIDTH) + 0.5, np.arange(HEIGHT) + 0.5)
    axes.plot(xs.ravel(), ys.ravel(), ".", color="#9fb3c8", ms=4)
    without_ticks(axes)


def draw_bins(axes: Axes, box: tuple[float, ...], aligned: bool) -> tuple[np.ndarray, np.ndarray]:
    """Draw the box and its bins; returns the samples' coordinates."""
    x1, x2 = region(box[0], box[2], aligned)
    y1, y2 = region(box[1], box[3], aligned)
    frame(axes, box, RED, 2, ls=(0, (4, 2)), zorder=4)
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
    frame(axes, (-0.5, -0.5, WIDTH + 0.5, HEIGHT + 0.5), GOLD, 1, ls=":", zorder=2)


def bins_and_samples() -> Figure:
    """Both values of `aligned`, and a box across the border."""
    figure, grid = panels(3, 13.0, 4.0, width_ratios=(1, 1, 1.22))
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
    legend(figure, handles)
    return figure
