"""Draws the pictures of the documentation: run ``python scripts/figures``."""

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import visops
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `demo` and `figures` are packages

from figures import augment, deform_conv2d, infer, masks, nms, points, roi_align, roi_crops
from figures.drawing import BLUE, GREY, IMAGES, RED, draw_grid, frame, legend, panels, save

WIDTH, HEIGHT = 4, 3  # pixels of the drawn image


def draw_pixels(axes: Axes, centre: float, title: str, users: str) -> None:
    """One image in a convention's coordinates: pixel (0, 0)'s centre is at (centre, centre)."""
    low = centre - 0.5  # the image's outer corner
    draw_grid(axes, WIDTH, HEIGHT, low, ("#f3f6fa", "#dfe8f2"), "#9fb3c8")
    xs, ys = np.meshgrid(np.arange(WIDTH) + centre, np.arange(HEIGHT) + centre)
    axes.plot(xs.ravel(), ys.ravel(), "o", color=BLUE, ms=7)
    axes.plot(low, low, "s", color=RED, ms=8, clip_on=False)
    axes.plot(low + WIDTH / 2, low + HEIGHT / 2, "P", color="black", ms=9)
    middle = low + WIDTH / 2, low + HEIGHT / 2
    for (x, y), shift, colour in (
        ((centre, centre), (0, -15), BLUE),
        ((low, low), (-4, 9), RED),
        (middle, (0, -17), "black"),
    ):
        style: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "fontsize": 10}
        axes.annotate(f"({x:g}, {y:g})", (x, y), shift, color=colour, **style)
    axes.set_xticks(np.arange(WIDTH) + centre)
    axes.set_yticks(np.arange(HEIGHT) + centre)
    axes.tick_params(labelsize=9, colors=BLUE, length=3)
    axes.set_xlim(low - 0.55, low + WIDTH + 0.25)
    axes.set_ylim(low + HEIGHT + 0.25, low - 0.6)  # y points down
    axes.set_xlabel("x →", color=GREY)
    axes.set_ylabel("← y", color=GREY)
    heading: dict[str, Any] = {"transform": axes.transAxes, "ha": "center", "va": "bottom"}
    axes.text(0.5, 1.06, title, fontsize=12, fontweight="bold", family="monospace", **heading)
    axes.text(0.5, 1.0, users, fontsize=9.5, color=GREY, **heading)


def pixel_centres() -> Figure:
    """The same 4 x 3 image in both conventions."""
    figure, (left, right) = panels(2, 10.5, 4.9)
    draw_pixels(left, 0.0, 'convention="integer"', "OpenCV, kornia, scikit-image, SciPy")
    draw_pixels(
        right, 0.5, 'convention="half_pixel"', "torchvision, Pillow, DALI; boxes of detectors"
    )
    handles = [
        Line2D([], [], marker="o", ls="", color=BLUE, ms=7, label="pixel centres"),
        Line2D([], [], marker="s", ls="", color=RED, ms=8, label="corner of the image"),
        Line2D([], [], marker="P", ls="", color="black", ms=9, label="middle of the image"),
    ]
    legend(figure, handles, 10)
    return figure


def padding_modes() -> Figure:
    """A row of five pixels, extended by each padding mode."""
    mode: Any
    row = np.array([[40, 90, 140, 190, 240]], np.uint8)
    around = 7
    total = row.shape[1] + 2 * around
    modes = ("constant", "replicate", "reflect", "symmetric", "circular")
    figure, grid = plt.subplots(len(modes), 1, figsize=(9.5, 3.6), layout="constrained")
    shift = [[1, 0, around], [0, 1, 0]]
    letters = {int(value): letter for value, letter in zip(row[0], "abcde", strict=True)}
    for mode, axes in zip(modes, grid, strict=True):
        padded = visops.warp_affine(row, shift, (1, total), padding_mode=mode, mode="nearest")
        axes.imshow(padded, cmap="gray", vmin=0, vmax=255, aspect="equal")
        for x, value in enumerate(padded[0]):
            axes.text(
                x, 0, letters.get(int(value), "fill"), ha="center", va="center", fontsize=9,
                color="white" if value < 128 else "black",
            )  # fmt: skip
        frame(axes, (around - 0.5, -0.5, around - 0.5 + row.shape[1], 0.5), RED, 2.2)
        axes.set_yticks([0], [mode], fontsize=10, family="monospace")
        axes.set_xticks([])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    return figure


PICTURES = {
    "pixel_centres.png": pixel_centres,
    "padding_modes.png": padding_modes,
    "one_pass.jpg": augment.one_pass,
    "one_pixel.png": augment.one_pixel,
    "edges_and_filters.jpg": augment.edges_and_filters,
    "cut_off.jpg": augment.cut_off,
    "preview.jpg": augment.preview,
    "deform_conv2d.jpg": deform_conv2d.sampled_positions,
    "nms.png": nms.suppression,
    "roi_crops.jpg": roi_crops.there_and_back,
    "paste_masks.png": masks.pasted_masks,
    "mask_operators.png": masks.mask_operators,
    "infer_regions.jpg": infer.anonymised,
    "roi_align.png": roi_align.bins_and_samples,
    "point_samples.jpg": points.uncertain_points,
    "match_cost.jpg": points.matched_boxes,
}

if __name__ == "__main__":
    mpl.use("Agg")
    IMAGES.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        save(draw(), name)
