"""The README's chart: eight benchmark rows, each against its fastest peer on its worst chip."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

BLUE, RED, GREY = "#2c6fbb", "#c0392b", "#666666"


@dataclass(frozen=True)
class Headline:
    """A row of a benchmark, on one thread."""

    function: str
    case: str
    op: str
    facts: dict[str, Any]
    ours: str = "visops"  # the contender that a user would call


HEADLINES = (
    Headline(
        "transforms.Compose",
        "crop, flip, affine, full jitter: 512² uint8 → 224² float32",
        "augment",
        {"job": "chain", "chain": "crop, flip, affine, hue", "batch": 1},
        ours="visops.transforms",
    ),
    Headline(
        "transforms.Compose",
        "128 JPEG files, crop to jitter, DataLoader of 2 workers",
        "augment",
        {"job": "files", "chain": "all"},
    ),
    Headline(
        "warp_affine",
        "rotation, bilinear, 512² × 3 uint8, NumPy",
        "affine",
        {"api": "ndarray", "mode": "bilinear", "size": "512²", "geometry": "rotate", "batch": 1},
    ),
    Headline(
        "nms",
        "10,000 boxes in clusters",
        "nms",
        {"job": "nms", "layout": "clustered", "count": 10_000},
    ),
    Headline(
        "complete_box_iou",
        "1,000 × 1,000 boxes",
        "box_iou",
        {"job": "values", "measure": "complete", "count": 1_000_000},
    ),
    Headline(
        "roi_align",
        "1,000 boxes, 7 × 7 bins, 256 × 200 × 336 channels_last",
        "roi_align",
        {"job": "forward", "layout": "channels_last", "bins": 7, "ratio": 2},
    ),
    Headline(
        "convolve2d",
        "7 × 7 kernel, 1080 × 1920 float32",
        "conv",
        {"job": "new array", "dtype": "float32", "side": 7},
    ),
    Headline(
        "warp_affine",
        "rotation, 16 × 3 × 1080p float32 channels_last",
        "affine",
        {
            "api": "tensor f32 channels_last",
            "mode": "bilinear",
            "size": "1080p",
            "geometry": "rotate",
            "batch": 16,
        },
    ),
)


def best_peer(headline: Headline, rows: list[dict[str, Any]]) -> tuple[float, str] | None:
    """How many times as long the fastest peer takes, and its name; None without such a row."""
    for row in rows:
        if row["threads"] == 1 and headline.facts.items() <= row["facts"].items():
            break
    else:
        return None
    timed = {cell["name"]: cell for cell in row["cells"] if cell["min_s"] is not None}
    ours = timed[headline.ours]["min_s"]
    own = {row["cells"][0]["name"], headline.ours}
    peers = [
        (cell["min_s"] / ours, name)
        for name, cell in timed.items()
        if name not in own and not cell["bound"]
    ]
    return min(peers)


def worst(headline: Headline, chips: list[dict[str, Any]]) -> tuple[float, str]:
    """`best_peer` on the chip where it is closest to us."""
    found = [best_peer(headline, chip["rows"]) for chip in chips]
    peers = [peer for peer in found if peer is not None]
    if not peers:
        raise SystemExit(f"no CPU result of {headline.op} on one thread has {headline.facts}")
    return min(peers)


def draw(path: Path, on_chips: Callable[[str], list[dict[str, Any]]]) -> Path:
    """Draw the chart from an operator's results on each chip; returns its path."""
    results = {headline.op: on_chips(headline.op) for headline in HEADLINES}
    found = [(headline, *worst(headline, results[headline.op])) for headline in HEADLINES]

    mpl.use("Agg")
    figure, axes = plt.subplots(figsize=(10, 5.2), layout="constrained")
    for at, (headline, ratio, peer) in enumerate(found):
        colour = BLUE if ratio >= 1 else RED
        axes.barh(at + 0.16, ratio - 1, left=1, height=0.4, color=colour)
        text = (
            f"{ratio:.0f}×" if ratio >= 10 else f"{ratio:.1f}×" if ratio >= 2 else f"{ratio:.2f}×"
        )
        axes.annotate(
            f"{text}  {peer}", (max(ratio, 1.0), at + 0.16), xytext=(6, 0),
            textcoords="offset points", va="center", fontsize=9.5, color=colour,
        )  # fmt: skip
        axes.annotate(
            headline.function, (0, at + 0.16), xycoords=("axes fraction", "data"), xytext=(-8, 0),
            textcoords="offset points", ha="right", va="center", fontsize=10, family="monospace",
        )  # fmt: skip
        axes.annotate(
            headline.case, (1, at - 0.24), xytext=(2, 0), textcoords="offset points",
            va="center", fontsize=8.5, color=GREY,
        )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_xlim(0.4, 160)
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.xaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda value, _: f"{value:g}×"))
    axes.set_yticks([])
    axes.axvline(1.0, color="black", lw=1)
    axes.grid(axis="x", color="#dddddd", lw=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    chips = sorted({chip["machine"]["cpu"] for chips in results.values() for chip in chips})
    axes.set_xlabel(
        "time of the fastest peer ÷ time of visops (log scale); one thread, the worst of "
        f"{', '.join(chips[:-1])} and {chips[-1]}",
        fontsize=9,
    )
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path
