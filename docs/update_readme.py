"""Puts the newest benchmark's main rows into README.md, between its two comment markers.

``python docs/update_readme.py`` takes the newest CPU result of docs/benchmarks; another file can be
named instead. `make bench` writes these results.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- benchmark: written by docs/update_readme.py -->", "<!-- end of benchmark -->"
PEERS = ("OpenCV", "affine_grid + grid_sample", "kornia", "torchvision")

Row = dict[str, Any]

# Row of the README -> the row of the benchmark with these facts.
ROWS: dict[str, dict[str, Any]] = {
    "NumPy u8 HWC, bilinear": {"api": "ndarray", "mode": "bilinear", "size": "512²"},
    "NumPy u8 HWC, bicubic": {"api": "ndarray", "mode": "bicubic", "size": "512²"},
    "NumPy u8 HWC, nearest": {"api": "ndarray", "mode": "nearest", "size": "512²"},
    "tensor u8 NCHW": {"api": "tensor u8 NCHW", "mode": "bilinear", "size": "512²"},
    "tensor u8 channels_last": {
        "api": "tensor u8 channels_last",
        "mode": "bilinear",
        "size": "512²",
    },
    "tensor f32 NCHW": {"api": "tensor f32 NCHW", "mode": "bilinear", "size": "512²"},
    "tensor f32 channels_last": {
        "api": "tensor f32 channels_last",
        "mode": "bilinear",
        "size": "512²",
    },
    "forward + backward, image (224²)": {
        "api": "backward NCHW",
        "size": "224²",
        "matrix_gradient": False,
    },
    "forward + backward, image and matrix (224²)": {
        "api": "backward NCHW",
        "size": "224²",
        "matrix_gradient": True,
    },
    "one 16×16 image, NumPy u8": {"api": "overhead ndarray u8"},
    "one 16×16 image, tensor f32": {"api": "overhead tensor f32"},
    "one 16×16 image, tensor u8": {"api": "overhead tensor u8"},
}


def duration(seconds: float) -> str:
    """Three digits, and a unit that suits."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def newest() -> Path:
    """The newest result on a CPU."""
    dated = []
    for path in (ROOT / "docs" / "benchmarks").glob("affine_*.json"):
        result = json.loads(path.read_text(encoding="utf-8"))
        if all(row["device"] == "cpu" for row in result["rows"]):
            dated.append((result["machine"]["date"], path))
    if not dated:
        raise SystemExit("no CPU result in docs/benchmarks: run scripts/bench/affine.py first")
    return max(dated)[1]


def select(rows: list[Row], facts: dict[str, Any]) -> Row | None:
    """The row of one image, rotated, on one thread, that has these facts."""
    wanted = {"geometry": "rotate", "batch": 1, **facts}
    for row in rows:
        if (
            row["device"] == "cpu"
            and row["threads"] == 1
            and wanted.items() <= row["facts"].items()
        ):
            return row
    return None


def ratio_text(cell: Row | None) -> str:
    """How many times as long as visops a peer takes."""
    if cell is None:
        return "–"
    if cell["ratio"] is None:
        return "differs"
    text = f"{cell['ratio']:.1f}×" if cell["ratio"] >= 2 else f"{cell['ratio']:.2f}×"
    return f"**{text} (lost)**" if cell["ratio"] < 1 else text


def table(result: dict[str, Any]) -> str:
    """The README's table, and how the whole run went."""
    rows: list[Row] = result["rows"]
    lines = [
        f"| one image of 512², rotated; one thread | visops | {' | '.join(PEERS)} |",
        "|-|-|" + "-|" * len(PEERS),
    ]
    for label, facts in ROWS.items():
        row = select(rows, facts)
        if row is None:
            continue
        cells = {cell["name"]: cell for cell in row["cells"]}
        texts = [ratio_text(cells.get(peer)) for peer in PEERS]
        lines.append(f"| {label} | {duration(row['cells'][0]['min_s'])} | {' | '.join(texts)} |")

    judged = [(row, c) for row in rows for c in row["cells"][1:] if not c.get("bound")]
    timed = [cell["ratio"] for _, cell in judged if cell["ratio"] is not None]
    lost = [(row, cell) for row, cell in judged if (cell["ratio"] or 1.0) < 1.0]
    floors = [c for _, c in judged if c["floor"] is not None and c["ratio"] is not None]
    met = sum(cell["ratio"] >= cell["floor"] for cell in floors)
    machine = result["machine"]
    versions = machine["versions"]
    lines += [
        "",
        "Time of a call for visops; for the others, how many times as long they take (ratio of the "
        f"minima, in one interleaved run). {machine['cpu']} ({machine['isa']} kernels), "
        f"{machine['cores']} cores, {machine['date'][:10]}; torch {versions['torch']}, OpenCV "
        f"{versions['cv2']}, kornia {versions['kornia']}, torchvision {versions['torchvision']}.",
        "",
        f"Of the {len(timed)} comparisons in that run visops lost {len(lost)}; it met {met} of "
        f"{len(floors)} ratios that the project has set itself."
        + (" Lost: " + "; ".join(map(_lost_text, lost)) + "." if lost else ""),
    ]
    return "\n".join(lines)


def _lost_text(found: tuple[Row, Row]) -> str:
    row, cell = found
    threads = f"{row['threads']} thread{'s' if row['threads'] > 1 else ''}"
    return f"{row['group']}, {row['label']}, {threads}: {cell['ratio']:.2f}× {cell['name']}"


def main() -> None:
    """Rewrite README.md."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else newest()
    result = json.loads(path.read_text(encoding="utf-8"))
    readme = ROOT / "README.md"
    before, _, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"README.md lacks the markers {BEGIN} and {END}")
    text = f"{before}{BEGIN}\n{table(result)}\n{END}{after}"
    readme.write_text(text, encoding="utf-8")
    print(f"README.md: the table is that of {path}")


if __name__ == "__main__":
    main()
