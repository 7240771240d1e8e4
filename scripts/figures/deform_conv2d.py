"""The picture of the page on deformable convolution: `python scripts/figures` draws it."""

import math

import torch
import visops
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from figures.drawing import BLUE, RED, panels, photo, show

SPREAD = 14  # pixels between the taps of the drawn kernels
# Output pixels (y, x), and the angle and scales (along, across) of the kernel there.
PLACES = {
    (110, 222): (0.0, 0.75, 1.6),
    (330, 330): (0.95, 0.5, 2.0),
    (240, 110): (-1.1, 0.35, 2.2),
    (430, 180): (0.4, 1.5, 1.5),
    (130, 420): (1.35, 0.6, 1.7),
}


def regular_taps() -> Tensor:
    """[9, 2] y and x of a 3 x 3 kernel's taps, around its output pixel."""
    steps = torch.arange(-1.0, 2.0) * SPREAD
    return torch.stack(torch.meshgrid(steps, steps, indexing="ij"), -1).flatten(0, 1)


def offsets(angle: float, along: float, across: float) -> Tensor:
    """[18] channels of `offset` that turn the taps and scale them."""
    taps = regular_taps()
    cos, sin = math.cos(angle), math.sin(angle)
    turn = torch.tensor([[cos, sin], [-sin, cos]])
    moved = taps * torch.tensor([across, along]) @ turn.T
    return (moved - taps).flatten()  # channel 2k is y, 2k + 1 is x


def draw_kernels(axes: Axes, deformed: bool) -> None:
    for (y, x), kind in PLACES.items():
        moved = offsets(*kind) if deformed else torch.zeros(18)
        taps = regular_taps() + moved.view(9, 2) + torch.tensor([y, x])
        if deformed:
            for start, end in zip(regular_taps() + torch.tensor([y, x]), taps, strict=True):
                axes.plot([start[1], end[1]], [start[0], end[0]], color="white", lw=0.8, zorder=3)
        axes.plot(taps[:, 1], taps[:, 0], "o", color=BLUE, mec="white", ms=5.5, zorder=5)
        axes.plot(x, y, "s", color=RED, mec="white", ms=5, zorder=4 if deformed else 6)


def swirl(height: int, width: int) -> Tensor:
    """[1, 2, height, width] offsets of a kernel of one element: a turn that fades outwards."""
    y = torch.arange(height)[:, None] - height / 2 + torch.zeros(width)
    x = torch.arange(width) - width / 2 + torch.zeros(height, 1)
    angle = 2.6 * torch.exp(-(y.square() + x.square()) / 150**2)
    turned_y, turned_x = y * angle.cos() - x * angle.sin(), y * angle.sin() + x * angle.cos()
    return torch.stack([turned_y - y, turned_x - x])[None]


def sampled_positions() -> Figure:
    """Where both convolutions read, and what offsets alone do."""
    image = photo()
    figure, grid = panels(3, 13.0, 4.6)
    for axes, name in zip(grid, ("conv2d", "deform_conv2d"), strict=False):
        show(axes, image, name)
        draw_kernels(axes, name != "conv2d")
    pixels = image[None].float()
    one = torch.eye(3)[:, :, None, None]  # each channel by itself
    turned = visops.deform_conv2d(pixels, swirl(*pixels.shape[2:]), one)
    whole = turned[0].round().clamp(0, 255).to(torch.uint8)
    show(grid[2], whole, "a 1 x 1 kernel, a field of offsets")
    return figure
