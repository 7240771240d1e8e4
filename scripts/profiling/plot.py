"""Draws a climb: time by size on logarithmic axes, and the speed-up of every rung."""

import math
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

from .ladder import Climb
from .report import speed_up

COLOURS = ("#b00020", "#d1603d", "#c9a227", "#5b8c5a", "#17a2b8", "#3d6cb9", "#7d5ba6", "#222222")
PEER_COLOURS = ("#8a8a8a", "#8c6d31", "#b5487a")
LINE = 0.052  # of the axes' height: a label's


def spread(heights: list[float], gap: float) -> list[float]:
    """Move heights as little as possible so that they keep their order and are `gap` apart.

    What is too close becomes a block around its mean; blocks that then meet are joined.
    """
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    blocks: list[list[int]] = []
    starts: list[float] = []
    for i in order:
        block, start = [i], heights[i]
        while blocks and starts[-1] + gap * len(blocks[-1]) > start:
            block = blocks.pop() + block
            starts.pop()
            start = sum(heights[k] - gap * n for n, k in enumerate(block)) / len(block)
        blocks.append(block)
        starts.append(start)
    moved = list(heights)
    for block, start in zip(blocks, starts, strict=True):
        for n, k in enumerate(block):
            moved[k] = start + gap * n
    return moved


def draw(found: Climb, path: Path) -> None:
    """Write the picture."""
    mpl.use("Agg")
    figure, axes = plt.subplots(figsize=(10.5, 6), layout="constrained")
    axes.set_xscale("log", base=2 if max(found.sizes) <= 4096 else 10)
    axes.set_yscale("log")
    _lines(found, axes)
    axes.set_xticks(found.sizes, [f"{size:,}" for size in found.sizes])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(mpl.ticker.FuncFormatter(_seconds))
    axes.grid(color="#dddddd", lw=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_xlabel(found.ladder.unit)
    axes.set_ylabel("time of a call")
    axes.set_title(
        f"{found.ladder.op}: {found.ladder.job}", loc="left", fontsize=11, fontweight="bold"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=140)
    plt.close(figure)


def _seconds(value: float, _: Any) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= 0.999 * scale:
            return f"{value / scale:g} {unit}"
    return f"{value / 1e-9:g} ns"


def _lines(found: Climb, axes: Any) -> None:
    """Draw a line for each rung, and its label in the same colour on the right."""
    own, peers = iter(COLOURS * 2), iter(PEER_COLOURS * 3)
    largest = max(found.sizes)
    ends, labels, colours = [], [], []
    for name, timed in found.times.items():
        peer = found.rungs[name].peer
        colour = next(peers if peer else own)
        minima = [timing.minimum for timing in timed.values()]
        style = "--" if peer else "-"
        axes.plot(list(timed), minima, style, color=colour, marker="o", ms=3.5, lw=1.6)
        ends.append((max(timed), minima[-1]))
        labels.append(f"{name}  {speed_up(found, name)}" if name != found.first else name)
        colours.append(colour)
    last, seconds = ends[0]
    if last < largest:  # what the first rung would take
        estimate = found.estimate(found.first, largest)
        axes.plot([last, largest], [seconds, estimate], ":", color=colours[0], lw=1.2)
        ends[0] = (largest, estimate)

    low, high = (math.log10(limit) for limit in axes.get_ylim())
    heights = spread([(math.log10(y) - low) / (high - low) for _, y in ends], LINE)
    to_axes = axes.get_yaxis_transform()
    for (x, y), height, label, colour in zip(ends, heights, labels, colours, strict=True):
        at = 10 ** (low + height * (high - low))
        axes.annotate(
            label,
            (x, y),
            xytext=(1.03, at),
            textcoords=to_axes,
            color=colour,
            fontsize=9,
            va="center",
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "lw": 0.5,
                "alpha": 0.4,
                "relpos": (0, 0.5),
            },
            annotation_clip=False,
        )
