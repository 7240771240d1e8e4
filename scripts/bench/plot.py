"""Renders benchmark results: a page of tables and a picture for each operator.

All ``docs/benchmarks/<op>_<chip>.json`` become ``docs/benchmarks/<op>.md``, with their chips side
by side, and ``docs/images/bench_<op>.png``, with a marker for each chip.
"""

import argparse
import math
import statistics
import sys
import textwrap
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that `bench` is a package

from bench.harness import pages
from bench.harness.report import ROOT

Result = dict[str, Any]

COLOURS = {
    "OpenCV": "#5b8c5a",
    "affine_grid + grid_sample": "#d1603d",
    "kornia": "#7d5ba6",
    "torchvision": "#3d6cb9",
    "torchvision PIL": "#7fa3dc",
    "albumentations": "#c9a227",
    "OpenCV warp alone": "#a3c4a2",
}
SPARE_COLOURS = ("#8c6d31", "#636363", "#17a2b8", "#b5487a")
MARKERS = "os^Dv"


def chip(result: Result) -> str:
    """The chip that the rows of a result ran on."""
    machine = result["machine"]
    name = f"{machine['cpu']}, {machine['isa']} kernels"
    return f"{machine['gpu']}, and {name}" if pages.on_gpu(result) else name


def versions(result: Result) -> str:
    """The versions of every library in the run."""
    return ", ".join(f"{k} {v}" for k, v in result["machine"]["versions"].items() if v)


def groups(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The rows of each table, in the order of the run."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        name = row["group"] if row["device"] == "cpu" else f"{row['group']}, {row['device']}"
        found.setdefault(name, []).append(row)
    return found


def picture(chips: list[Result], path: Path) -> None:
    """Ratios of all rows, peer by peer: a dot is a case on a chip, the bar their median."""
    tables = groups([{**row, "chip": i} for i, of in enumerate(chips) for row in of["rows"]])
    bars = [
        (name, peer, _ratios(rows, peer))
        for name, rows in tables.items()
        for peer in dict.fromkeys(
            c["name"] for row in rows for c in row["cells"][1:] if not c["bound"]
        )
    ]
    bars = [bar for bar in bars if bar[2]]
    spare = iter(SPARE_COLOURS)
    colours = dict(COLOURS)
    for _, peer, _ in bars:
        if peer not in colours:
            colours[peer] = next(spare, SPARE_COLOURS[-1])

    position, positions, labels = 0.0, [], []
    last = bars[0][0] if bars else ""
    for name, _, _ in bars:
        position += 1.0 if name == last else 2.0
        last = name
        positions.append(position)
    figure, axes = plt.subplots(figsize=(9.5, 1.3 + 0.24 * position), layout="constrained")
    everything = [ratio for _, _, found in bars for ratio, _ in found]
    low, high = min(everything, default=1.0), max(everything, default=1.0)
    left = 2.0 ** math.floor(math.log2(min(0.5, low * 0.9)))
    for at, (_, peer, found) in zip(positions, bars, strict=True):
        ratios = [ratio for ratio, _ in found]
        middle = statistics.median(ratios)
        axes.barh(at, middle - 1.0, left=1.0, height=0.72, color=colours[peer], alpha=0.35)
        for ratio, i in found:  # each chip at its own height
            height = at + 0.44 * (i / max(1, len(chips) - 1) - 0.5)
            axes.plot(ratio, height, MARKERS[i], ms=3.2, color=colours[peer], mew=0, alpha=0.8)
        axes.annotate(
            f"{middle:.1f}×",
            (max(ratios), at),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color="#333333",
        )
        labels.append(peer)
    axes.set_yticks(positions, labels, fontsize=8)
    named: set[str] = set()
    for at, (name, _, _) in zip(positions, bars, strict=True):
        if name not in named:
            named.add(name)
            axes.annotate(
                name,
                (left, at - 0.9),
                xytext=(4, 0),
                textcoords="offset points",
                fontsize=8.5,
                fontweight="bold",
                va="center",
            )
    axes.set_xscale("log", base=2)
    axes.set_xlim(left, high * 1.35)
    axes.set_ylim(positions[-1] + 0.7 if positions else 1, (positions[0] if positions else 0) - 1.5)
    axes.xaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda value, _: f"{value:g}×"))
    axes.axvline(1.0, color="#b00020", lw=1.2)
    axes.axvspan(left, 1.0, color="#b00020", alpha=0.05, lw=0)
    axes.grid(axis="x", color="#dddddd", lw=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.set_xlabel(
        "time of the peer ÷ time of visops, log scale; left of the red line visops is slower\n"
        "bar: median over the cases; dot: one case at one thread count",
        fontsize=8.5,
    )
    text = textwrap.fill(versions(max(chips, key=_date)), 110)
    space = "\n" * len(text.splitlines())
    axes.set_title(f"visops {chips[0]['op']}{space}", loc="left", fontsize=11, fontweight="bold")
    axes.annotate(
        text, (0, 1), xycoords="axes fraction", xytext=(0, 3), textcoords="offset points",
        va="bottom", fontsize=7.5, color="#555555",
    )  # fmt: skip
    for marker, of in zip(MARKERS, chips, strict=False):
        axes.plot([], [], marker, ms=4, color="#333333", label=chip(of))
    figure.legend(loc="outside upper right", ncols=len(chips), fontsize=8, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)
    plt.close(figure)


def _ratios(rows: list[dict[str, Any]], peer: str) -> list[tuple[float, int]]:
    """The ratios of one peer, each with the number of its chip."""
    return [
        (cell["ratio"], row["chip"])
        for row in rows
        for cell in row["cells"][1:]
        if cell["name"] == peer and cell["ratio"] is not None
    ]


def _date(result: Result) -> str:
    return str(result["machine"]["date"])


def render(paths: list[Path], docs: Path = ROOT / "docs") -> list[Path]:
    """Write the pages next to the results, and the pictures; returns what was written."""
    written = []
    for op, chips in pages.by_operator(paths).items():
        table = paths[0].parent / f"{op}.md"
        table.write_text(pages.page(op, chips), "utf-8")
        image = docs / "images" / f"bench_{op}.png"
        chart = pages.chart_of(chips[0])
        if chart is None:
            picture(chips, image)
        else:
            chart.picture(max(chips, key=_date), image)
        written += [table, image]
    return written


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "results", nargs="*", type=Path, help="JSON files (default: docs/benchmarks/*.json)"
    )
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="pictures go below it")
    options = parser.parse_args()
    paths = options.results or sorted((ROOT / "docs" / "benchmarks").glob("*.json"))
    if not paths:
        print("no results: run a scripts/bench/<op>.py first", file=sys.stderr)
        return 2
    mpl.use("Agg")
    for path in render(paths, options.docs):
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
