"""Pages of results: every row of an operator, with its chips side by side."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..inference import chart as inference_chart
from ..loading import chart as loading_chart
from . import results
from .report import duration, mebibytes

Result = dict[str, Any]
Cells = dict[str, dict[str, Any]]  # of a row, by contender

TITLES = {
    "affine": "Affine warps",
    "augment": "Augmentation",
    "box_fusion": "Box fusion",
    "box_iou": "Overlaps",
    "conv": "Convolution",
    "deformable": "Deformable networks",
    "gpu": "On a GPU",
    "infer": "Inference",
    "loader": "Loading",
    "loader_stages": "Loading, by threads and stages",
    "masks": "Masks",
    "nms": "Suppression",
    "points": "Points and matching costs",
    "remap": "Maps and displacements",
    "roi_align": "RoIAlign",
    "roi_crops": "Crops and pasting",
    "roi_pooling": "Other poolings of regions",
}
# Results without rows, by what they have instead: each module has markdown() and picture().
CHARTS: dict[str, Any] = {"variants": inference_chart, "epochs": loading_chart}
PACKAGES = {"cv2": "OpenCV", "numpy": "NumPy", "scipy": "SciPy", "PIL": "Pillow"}


def on_gpu(result: Result) -> bool:
    """Whether any of a result's rows ran on a GPU."""
    return any(row.get("device", "cpu") != "cpu" for row in result.get("rows", [result]))


def chart_of(result: Result) -> Any:
    """Return the module that shows a result, or None if it has rows."""
    return next((chart for key, chart in CHARTS.items() if key in result), None)


def by_operator(paths: Iterable[Path]) -> dict[str, list[Result]]:
    """Read result files; those without rows are left out."""
    found: dict[str, list[Result]] = {}
    for path in paths:
        result = results.read(path)
        if result.get("rows", True):
            found.setdefault(result["op"], []).append(result)
    return found


def page(op: str, chips: Sequence[Result]) -> str:
    """The page of an operator: a heading, where it comes from, and its tables."""
    chart = chart_of(chips[0])
    tables = _tables(chips) if chart is None else "\n".join(map(chart.markdown, chips))
    return (
        f"# {TITLES.get(op, op)}, all rows\n\n"
        f"Written by `scripts/bench/plot.py` from the JSON files beside it. "
        f"[Benchmarks](../benchmarks.md) explains the method.\n\n{tables}"
    )


def _tables(chips: Sequence[Result]) -> str:
    lines = [f"- {machine_text(chip)}" for chip in chips]
    if len(chips) > 1:
        lines += ["", f"In each cell: {' / '.join(map(chip_name, chips))}."]
    lines += [
        "",
        "visops: minimum time of a call. Others: how many times as long they take, from the minima "
        "of one interleaved run; bold where visops is slower. +M: peak memory beyond the output, "
        "in MiB.",
    ]
    for group, rows in _groups(chips).items():
        columns = list(dict.fromkeys(name for row in rows.values() for of in row for name in of))
        lines += ["", f"**{group}**", "", f"| case | threads | {' | '.join(columns)} |"]
        lines.append("|-|-|" + "-|" * len(columns))
        for (label, threads, _), row in rows.items():
            texts = [_column(row, name, i == 0) for i, name in enumerate(columns)]
            lines.append(f"| {label} | {threads} | {' | '.join(texts)} |")
    return "\n".join(lines) + "\n"


def _groups(chips: Sequence[Result]) -> dict[str, dict[tuple[str, int, int], list[Cells]]]:
    """Each table's rows, and in each row a chip's cells or none."""
    found: dict[str, dict[tuple[str, int, int], list[Cells]]] = {}
    for i, chip in enumerate(chips):
        seen: dict[tuple[str, str, int], int] = {}
        for row in chip["rows"]:
            on = "" if row["device"] == "cpu" else f", {row['device']}"
            group = row["group"] + on
            key = (group, row["label"], row["threads"])
            seen[key] = seen.get(key, -1) + 1  # rows of one label are told apart by their order
            rows = found.setdefault(group, {})
            cells = rows.setdefault((*key[1:], seen[key]), [{} for _ in chips])
            cells[i] = {cell["name"]: cell for cell in row["cells"]}
    return found


def _column(row: Sequence[Cells], name: str, ours: bool) -> str:
    cells = [of.get(name) for of in row]
    text = side_by_side([_time(cell) for cell in cells] if ours else map(ratio_text, cells))
    memory = max((cell["extra_bytes"] or 0 for cell in cells if cell), default=0)
    return f"{text} {mebibytes(memory)}" if memory else text


def _time(cell: dict[str, Any] | None) -> str:
    return "–" if cell is None or cell["min_s"] is None else duration(cell["min_s"])


def side_by_side(texts: Any) -> str:
    """One text for all chips; a dash where none has any."""
    found = list(texts)
    return "–" if set(found) == {"–"} else " / ".join(found)


def ratio_text(cell: dict[str, Any] | None) -> str:
    """How many times as long as visops a peer takes."""
    if cell is None:
        return "–"
    if cell["ratio"] is None:
        return "differs"
    text = f"{cell['ratio']:.1f}×" if cell["ratio"] >= 2 else f"{cell['ratio']:.2f}×"
    return f"**{text} (lost)**" if cell["ratio"] < 1 and not cell["bound"] else text


def chip_name(result: Result) -> str:
    """The chip that a result stands for."""
    return str(result["machine"]["gpu" if on_gpu(result) else "cpu"])


def machine_text(result: Result) -> str:
    """Chip, date and versions."""
    machine = result["machine"]
    chip = f"{machine['cpu']} ({machine['isa']} kernels), {machine['cores']} cores"
    if on_gpu(result):
        chip = f"{machine['gpu']}, on {chip}"
    named = {PACKAGES.get(k, k): v for k, v in machine["versions"].items() if v and k != "visops"}
    return (
        f"{chip}, {machine['date'][:10]}{'; ' + machine['clock'] if 'clock' in machine else ''}; "
        f"{', '.join(f'{name} {v}' for name, v in named.items())}."
    )
