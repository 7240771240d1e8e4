"""What the pictures share: colours, the photo, and how axes are filled and files written."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import skimage.data
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from torch import Tensor

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
RED, BLUE, GREEN, GREY, GOLD = "#c0392b", "#2c6fbb", "#3b7d4f", "#666666", "#d68910"
SAVED: dict[str, Any] = {"dpi": 110, "bbox_inches": "tight", "pad_inches": 0.06}


def save(figure: Figure, name: str) -> None:
    """Write a picture of the documentation."""
    quality: dict[str, Any] = {"pil_kwargs": {"quality": 88}} if name.endswith(".jpg") else {}
    figure.savefig(IMAGES / name, **SAVED, **quality)
    plt.close(figure)


def panels(count: int, width: float, height: float, **options: Any) -> tuple[Figure, Any]:
    """A row of axes, of so many inches in all."""
    return plt.subplots(1, count, figsize=(width, height), layout="constrained", **options)


def photo() -> Tensor:
    """The photo in most of the pictures, uint8 [3, 512, 512]."""
    return torch.from_numpy(skimage.data.astronaut()).permute(2, 0, 1).contiguous()


def picture(image: Tensor) -> npt.NDArray[np.float64]:
    """An image as matplotlib wants it; normalised values are mapped back to the visible range."""
    values = image.to(torch.float64) / (1.0 if image.is_floating_point() else 255.0)
    if values.min() < -0.5:
        values = values * 0.25 + 0.5
    array: npt.NDArray[np.float64] = values.clamp(0, 1).permute(1, 2, 0).numpy()
    return array


def show(axes: Axes, image: Tensor, title: str, colour: str = "black") -> None:
    """An image and its title."""
    axes.imshow(picture(image), interpolation="nearest")
    axes.set_title(title, fontsize=8.5, color=colour, pad=4)
    axes.set_axis_off()


def frame(axes: Axes, box: Sequence[float], colour: str, lw: float, **style: Any) -> None:
    """The outline of a box: x1, y1, x2, y2."""
    x1, y1, x2, y2 = box
    outline = Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, edgecolor=colour, lw=lw, **style)
    axes.add_patch(outline)


def draw_grid(
    axes: Axes, width: int, height: int, low: float, shades: Sequence[str], edge: str
) -> None:
    """The squares of pixels, in two shades by turns; the first one begins at (low, low)."""
    for y in range(height):
        for x in range(width):
            corner, shade = (low + x, low + y), shades[(x + y) % 2]
            axes.add_patch(Rectangle(corner, 1, 1, facecolor=shade, edgecolor=edge, lw=0.8))
    axes.set_aspect("equal")
    axes.spines[:].set_visible(False)


def without_ticks(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])


def legend(figure: Figure, handles: Sequence[Line2D], size: float = 9) -> None:
    """A row of marks and what they mean, below the axes."""
    place: dict[str, Any] = {"loc": "outside lower center", "ncols": len(handles)}
    figure.legend(handles=handles, frameon=False, fontsize=size, **place)
