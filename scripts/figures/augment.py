"""Pictures for the pages on augmentation; `python scripts/figures` draws them all."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
import visops
from demo.augment import chain as demo_chain
from demo.objects import scene
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from torch import Tensor
from visops import transforms

from figures.drawing import BLUE, GREEN, GREY, RED, panels, photo, show

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
SIZE = 224


def steps_in_turn(
    chain: transforms.Compose, image: Tensor, params: transforms.Parameters
) -> list[Tensor]:
    """The image after each transform of a chain, run one by one."""
    results = []
    for transform, name, step in zip(chain.transforms, params.names, params.steps, strict=True):
        size = np.array([image.shape[-2:]])
        alone = transforms.Compose([transform], exact=True)
        image = alone(image, params=transforms.Parameters([name], [step], size))
        results.append(image)
    return results


def arrow(figure: Figure, x1: float, x2: float, y: float, colour: str) -> None:
    """An arrow between two points of a figure, in figure fractions."""
    axes = figure.axes[0]
    axes.annotate(
        "", (x2, y), (x1, y), xycoords="figure fraction", textcoords="figure fraction",
        arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.4, "shrinkA": 0, "shrinkB": 0},
    )  # fmt: skip


def one_pass() -> Figure:
    """A chain run one transform at a time, and the same chain in one pass."""
    chain = transforms.Compose(
        [
            transforms.RandomResizedCrop(SIZE, scale=(0.5, 0.5)),
            transforms.RandomHorizontalFlip(p=1),
            transforms.RandomAffine((12, 12), translate=(0.05, 0.05), shear=(5, 5)),
            transforms.ColorJitter((0.9, 0.9), (1.1, 1.1), (1.5, 1.5), (-0.06, -0.06)),
            transforms.ToDtype(torch.float32, scale=True),
            transforms.Normalize(MEAN, STD),
            transforms.RandomErasing(p=1, scale=(0.06, 0.06)),
        ],
        seed=8,
    )
    image = photo()
    fused, params = chain(image, index=2, return_params=True)
    turns = [image, *steps_in_turn(chain, image, params)]
    names = ["photo", "crop, resize", "flip", "turn, shear", "colours", "float32", "normalise"]
    names.append("erase")

    figure = plt.figure(figsize=(11, 3.9))
    count = len(turns)
    pitch, side = 1.0 / count, 0.8 / count
    height = side * 11 / 3.9
    for index, (result, name) in enumerate(zip(turns, names, strict=True)):
        left = index * pitch + 0.1 / count
        show(figure.add_axes((left, 0.57, side, height)), result, name)
        if index:
            arrow(figure, left - 0.19 / count, left - 0.01 / count, 0.57 + height / 2, RED)
    one: dict[str, Any] = {"va": "center", "transform": figure.transFigure}
    text = figure.text
    text(0.012, 0.94, "in turn: every arrow reads and writes all pixels", fontsize=11, color=RED)
    text(0.012, 0.44, "in one pass: one arrow in, one arrow out", fontsize=11, color=BLUE)
    first, last = 0.1 / count, (count - 1) * pitch + 0.1 / count
    show(figure.add_axes((first, 0.04, side, height)), image, "photo", BLUE)
    show(figure.add_axes((last, 0.04, side, height)), fused, "result", BLUE)
    middle = 0.04 + height / 2
    steps = [
        (0.15, 0.34, "one matrix for the place\n$M$  (3 × 3)\ncrop · flip · turn · shear", BLUE),
        (0.37, 0.56, "one matrix for the colour\n$A\\,|\\,a$  (3 × 4)\nbrightness … hue", GREEN),
        (0.59, 0.845, "on the way out\n$(v - mean)\\,/\\,std$, rectangles,\ndtype, layout", GREY),
    ]
    edges = [first + side + 0.006]
    for low, high, label, colour in steps:
        box = FancyBboxPatch(
            (low, middle - 0.13), high - low, 0.26, boxstyle="round,pad=0,rounding_size=0.012",
            transform=figure.transFigure, facecolor="white", edgecolor=colour, lw=1.4,
        )  # fmt: skip
        figure.add_artist(box)
        text((low + high) / 2, middle, label, fontsize=9, ha="center", color=colour, **one)
        arrow(figure, edges[-1], low - 0.003, middle, BLUE)
        edges.append(high + 0.003)
    arrow(figure, edges[-1], last - 0.005, middle, BLUE)
    return figure


def one_pixel() -> Figure:
    """The steps that an output pixel goes through, and the units of its values."""
    steps = [
        ("1  place", "$(u, v) = M^{-1}(x, y, 1)$", BLUE),
        ("2  sample", "window, edge,\nfilter, fill", BLUE),
        ("3  colour", "$v \\leftarrow A_k v + a_k$\n$k = 1 \\ldots K$, clamp", GREEN),
        ("4  normalise", "$(v - mean)\\,/\\,std$", GREEN),
        ("5  erase", "inside a rectangle:\nerase_value", GREY),
        ("6  store", "round, saturate;\nCHW or HWC", GREY),
    ]
    figure, axes = panels(1, 11, 2.5)
    pitch, width, height = 1.0, 0.86, 0.62
    for index, (name, what, colour) in enumerate(steps):
        box = FancyBboxPatch(
            (index * pitch, 0.0), width, height, boxstyle="round,pad=0,rounding_size=0.04",
            facecolor="white", edgecolor=colour, lw=1.6,
        )  # fmt: skip
        axes.add_patch(box)
        x = index * pitch + width / 2
        axes.text(
            x, height - 0.11, name, ha="center", va="center", color=colour, fontsize=11,
            fontweight="bold",
        )  # fmt: skip
        axes.text(x, 0.23, what, ha="center", va="center", fontsize=9.5)
        if index:
            axes.annotate(
                "", (index * pitch, height / 2), (index * pitch - 0.14, height / 2),
                arrowprops={"arrowstyle": "-|>", "color": GREY, "shrinkA": 0, "shrinkB": 0},
            )  # fmt: skip
    units = [
        (0.0, 1.86, "the image's units", "uint8: white is 255 · floating: white is 1", BLUE),
        (2.0, 3.86, "white is 1", "whatever the dtypes", GREEN),
        (4.0, 5.86, "the output's units", "uint8: white is 255 · floating: white is 1", GREY),
    ]
    for low, high, name, what, colour in units:
        axes.plot([low, high], [-0.16, -0.16], color=colour, lw=3, solid_capstyle="butt")
        axes.text((low + high) / 2, -0.29, name, ha="center", va="center", color=colour)
        axes.text((low + high) / 2, -0.46, what, ha="center", va="center", fontsize=9, color=GREY)
    axes.set_xlim(-0.05, 5.91)
    axes.set_ylim(-0.56, height + 0.04)
    axes.set_axis_off()
    return figure


def turned(scale: float, middle: float, out: int, degrees: float) -> Tensor:
    """Source to destination: rotate about the source's middle, scale, move to the output's."""
    return visops.get_affine_matrix(
        (middle, middle), degrees, translate=(out / 2 - middle, out / 2 - middle), scale=scale
    )


def edges_and_filters() -> Figure:
    """The edge of an enlarged image without and with a window; the detail of a shrunk one."""
    figure, grid = panels(4, 11, 3.25)
    y, x = np.indices((6, 6))
    tiny = torch.from_numpy((0.55 + 0.4 * ((x + y) % 2)).astype(np.float32))[None, None]
    enlarge = turned(26.0, 3.0, 200, 12.0)
    options: dict[str, Any] = {"convention": "half_pixel", "fill": 0.0}
    y, x = np.indices((600, 600)) - 299.5
    rings = 0.5 + 0.5 * np.cos((x * x + y * y) * (np.pi / 2 / 300))
    plate = torch.from_numpy(rings.astype(np.float32))[None, None]
    shrink = turned(1 / 3.0, 300.0, 200, 12.0)
    shown: list[tuple[torch.Tensor, Any, dict[str, Any], str]] = [
        (tiny, enlarge, {}, "enlarged 26 times"),
        (tiny, enlarge, {"window": [0, 0, 6, 6]}, "the same, with window"),
        (plate, shrink, {}, "shrunk to a third"),
        (plate, shrink, {"antialias": True}, "the same, with antialias"),
    ]
    for axes, (image, matrix, more, title) in zip(grid, shown, strict=True):
        result = visops.augment(image, matrix, (200, 200), **options, **more)
        axes.imshow(result[0, 0].numpy(), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axes.set_title(title, fontsize=10)
        axes.set_axis_off()
    return figure


def cut_off() -> Figure:
    """What a crop cuts off shows again in a fused chain, but not in an exact one."""
    chain = [transforms.CenterCrop(260), transforms.RandomRotation((25, 25), fill=(240, 240, 240))]
    image = photo()[:, 20:480, 0:460]
    crop = chain[0](image)
    figure, grid = panels(4, 11, 3.1)
    whole = transforms.Compose([transforms.CenterCrop(460)])(image)
    show(grid[0], whole, "photo")
    show(grid[1], crop, "CenterCrop(260)")
    for axes, exact, colour in ((grid[2], False, BLUE), (grid[3], True, GREEN)):
        both = transforms.Compose([transforms.Resize(460), *chain], exact=exact)(image)
        how = "exact=True" if exact else "fused"
        show(axes, both, f"then RandomRotation, {how}", colour)
    return figure


def preview() -> Figure:
    """The grid of the page on transforms: what the demo's chain does."""
    sample = scene("astronaut.png", photo().permute(1, 2, 0).numpy()).sample()
    return transforms.preview(demo_chain(), sample, n=9)
