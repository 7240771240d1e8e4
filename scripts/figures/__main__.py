"""Draws the pictures of the documentation: run ``python scripts/figures``."""

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import visops
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `demo` and `figures` are packages

from figures import augment as augment_figures
from figures import deform_conv2d as deform_conv2d_figures
from figures import infer as infer_figures
from figures import masks as masks_figures
from figures import nms as nms_figures
from figures import points as point_figures
from figures import roi_align as roi_align_figures
from figures import roi_crops as roi_crops_figures

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
RED, BLUE, GREY = "#c0392b", "#2c6fbb", "#666666"
WIDTH, HEIGHT = 4, 3  # pixels of the drawn image


def draw_pixels(axes: Axes, centre: float, title: str, users: str) -> None:
    """One image in a convention's coordinates: pixel (0, 0)'s centre is at (centre, centre)."""
    low = centre - 0.5  # the image's outer corner
    for y in range(HEIGHT):
        for x in range(WIDTH):
            shade = "#dfe8f2" if (x + y) % 2 else "#f3f6fa"
            corner = (low + x, low + y)
            axes.add_patch(Rectangle(corner, 1, 1, facecolor=shade, edgecolor="#9fb3c8", lw=1))
    xs, ys = np.meshgrid(np.arange(WIDTH) + centre, np.arange(HEIGHT) + centre)
    axes.plot(xs.ravel(), ys.ravel(), "o", color=BLUE, ms=7)
    axes.plot(low, low, "s", color=RED, ms=8, clip_on=False)
    axes.plot(low + WIDTH / 2, low + HEIGHT / 2, "P", color="black", ms=9)
    axes.annotate(
        f"({centre:g}, {centre:g})", (centre, centre), (0, -15), textcoords="offset points",
        ha="center", color=BLUE, fontsize=10,
    )  # fmt: skip
    axes.annotate(
        f"({low:g}, {low:g})", (low, low), (-4, 9), textcoords="offset points",
        ha="center", color=RED, fontsize=10,
    )  # fmt: skip
    middle = (low + WIDTH / 2, low + HEIGHT / 2)
    axes.annotate(
        f"({middle[0]:g}, {middle[1]:g})", middle, (0, -17), textcoords="offset points",
        ha="center", fontsize=10,
    )  # fmt: skip
    axes.set_xticks(np.arange(WIDTH) + centre)
    axes.set_yticks(np.arange(HEIGHT) + centre)
    axes.tick_params(labelsize=9, colors=BLUE, length=3)
    axes.set_xlim(low - 0.55, low + WIDTH + 0.25)
    axes.set_ylim(low + HEIGHT + 0.25, low - 0.6)  # y points down
    axes.set_aspect("equal")
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_xlabel("x →", color=GREY)
    axes.set_ylabel("← y", color=GREY)
    heading: dict[str, Any] = {"transform": axes.transAxes, "ha": "center", "va": "bottom"}
    axes.text(0.5, 1.06, title, fontsize=12, fontweight="bold", family="monospace", **heading)
    axes.text(0.5, 1.0, users, fontsize=9.5, color=GREY, **heading)


def pixel_centres(path: Path) -> None:
    """The same 4 x 3 image in both conventions."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.9), layout="constrained")
    draw_pixels(left, 0.0, 'convention="integer"', "OpenCV, kornia, scikit-image, SciPy")
    draw_pixels(
        right, 0.5, 'convention="half_pixel"', "torchvision, Pillow, DALI; boxes of detectors"
    )
    handles = [
        Line2D([], [], marker="o", ls="", color=BLUE, ms=7, label="pixel centres"),
        Line2D([], [], marker="s", ls="", color=RED, ms=8, label="corner of the image"),
        Line2D([], [], marker="P", ls="", color="black", ms=9, label="middle of the image"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=110, bbox_inches="tight", pad_inches=0.1)
    plt.close(figure)


def padding_modes(path: Path) -> None:
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
        axes.add_patch(
            Rectangle((around - 0.5, -0.5), row.shape[1], 1, fill=False, edgecolor=RED, lw=2.2)
        )
        axes.set_yticks([0], [mode], fontsize=10, family="monospace")
        axes.set_xticks([])
        axes.tick_params(length=0)
        for side in axes.spines.values():
            side.set_visible(False)
    figure.savefig(path, dpi=110, bbox_inches="tight", pad_inches=0.1)
    plt.close(figure)


if __name__ == "__main__":
    mpl.use("Agg")
    IMAGES.mkdir(exist_ok=True)
    pixel_centres(IMAGES / "pixel_centres.png")
    padding_modes(IMAGES / "padding_modes.png")
    augment_figures.one_pass(IMAGES / "one_pass.jpg")
    augment_figures.one_pixel(IMAGES / "one_pixel.png")
    augment_figures.edges_and_filters(IMAGES / "edges_and_filters.jpg")
    augment_figures.cut_off(IMAGES / "cut_off.jpg")
    augment_figures.preview(IMAGES / "preview.jpg")
    deform_conv2d_figures.sampled_positions(IMAGES / "deform_conv2d.jpg")
    nms_figures.suppression(IMAGES / "nms.png")
    roi_crops_figures.there_and_back(IMAGES / "roi_crops.jpg")
    masks_figures.pasted_masks(IMAGES / "paste_masks.png")
    masks_figures.mask_operators(IMAGES / "mask_operators.png")
    infer_figures.anonymised(IMAGES / "infer_regions.jpg")
    roi_align_figures.bins_and_samples(IMAGES / "roi_align.png")
    point_figures.uncertain_points(IMAGES / "point_samples.jpg")
    point_figures.matched_boxes(IMAGES / "match_cost.jpg")
