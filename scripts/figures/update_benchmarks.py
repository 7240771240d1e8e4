"""Writes the main rows of the newest benchmarks into docs/benchmarks.md and docs/infer.md.

``python scripts/figures/update_benchmarks.py`` takes each operator's newest result on every CPU in
docs/benchmarks, and replaces the text between that operator's comment markers. Chips stand side by
side. It also draws the README's chart, of the worse ratios. `make bench` runs it last.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))  # `bench` and `figures` are packages

from bench.harness import results  # noqa: E402
from bench.harness.pages import machine_text, on_gpu, ratio_text, side_by_side  # noqa: E402
from bench.harness.report import duration  # noqa: E402

from figures import headlines  # noqa: E402

DOCS = ROOT / "docs"
BEGIN = "<!-- benchmark {}: written by scripts/figures/update_benchmarks.py -->"
END = "<!-- end of benchmark -->"

Row = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """The rows of one benchmark that docs/benchmarks.md shows."""

    op: str
    head: str
    peers: tuple[str, ...]
    rows: dict[str, dict[str, Any]]  # label -> the row of the benchmark with these facts


_ROTATED = {"geometry": "rotate", "batch": 1}
_ONE = {**_ROTATED, "size": "512²"}
_BACKWARD = {**_ROTATED, "api": "backward NCHW", "size": "224²"}
AFFINE = Table(
    "affine",
    "`warp_affine`, one image of 512², rotated; one thread",
    ("OpenCV", "affine_grid + grid_sample", "kornia", "torchvision"),
    {
        "NumPy u8 HWC, bilinear": {**_ONE, "api": "ndarray", "mode": "bilinear"},
        "NumPy u8 HWC, bicubic": {**_ONE, "api": "ndarray", "mode": "bicubic"},
        "NumPy u8 HWC, nearest": {**_ONE, "api": "ndarray", "mode": "nearest"},
        "tensor u8 NCHW": {**_ONE, "api": "tensor u8 NCHW", "mode": "bilinear"},
        "tensor u8 channels_last": {**_ONE, "api": "tensor u8 channels_last", "mode": "bilinear"},
        "tensor f32 NCHW": {**_ONE, "api": "tensor f32 NCHW", "mode": "bilinear"},
        "tensor f32 channels_last": {**_ONE, "api": "tensor f32 channels_last", "mode": "bilinear"},
        "forward + backward, image (224²)": {**_BACKWARD, "matrix_gradient": False},
        "forward + backward, image and matrix (224²)": {**_BACKWARD, "matrix_gradient": True},
        "one 16×16 image, NumPy u8": {**_ROTATED, "api": "overhead ndarray u8"},
        "one 16×16 image, tensor f32": {**_ROTATED, "api": "overhead tensor f32"},
        "one 16×16 image, tensor u8": {**_ROTATED, "api": "overhead tensor u8"},
    },
)
AUGMENT = Table(
    "augment",
    "`augment`, 512² u8 HWC → 224² f32 CHW unless noted; one thread",
    (
        "visops.transforms",
        "OpenCV warp alone",
        "albumentations",
        "torchvision",
        "kornia",
        "affine_grid + grid_sample",
    ),
    {
        "rotation, colour matrix, normalisation": {"job": "by hand", "batch": 1},
        "crop, flip, affine, full jitter": {
            "job": "chain",
            "chain": "crop, flip, affine, hue",
            "batch": 1,
        },
        "affine, crop, flip, full jitter": {
            "job": "chain",
            "chain": "affine, crop, flip, hue",
            "batch": 1,
        },
        "the same, 16 images": {
            "job": "chain",
            "chain": "affine, crop, flip, hue",
            "batch": 16,
        },
        "32 photos of mixed sizes, resized with antialias": {
            "job": "ragged",
            "batch": 32,
            "antialias": True,
        },
        "128 JPEG files, crop to jitter, DataLoader of 2": {"job": "files", "chain": "all"},
        "forward + backward, 16 × 224² f32, image and matrix": {
            "job": "backward",
            "batch": 16,
            "size": 224,
            "color_gradient": False,
        },
    },
)
NMS = Table(
    "nms",
    "suppression of float32 boxes; one thread",
    (
        "torchvision",
        "torchvision, a loop over classes",
        "torchvision, image by image",
        "mmcv's loop",
        "a loop over all pairs",
    ),
    {
        **{
            f"{count:,} boxes, {layout}": {"job": "nms", "count": count, "layout": layout}
            for layout in ("uniform", "clustered")
            for count in (100, 1_000, 10_000, 100_000)
        },
        "50,000 boxes, 80 classes": {"job": "batched", "count": 50_000},
        "4 images × 8,400 boxes × 80 classes, 1 % of the scores": {"job": "detector"},
        **{
            f"soft, {method}, 5,000 boxes, {layout}": {
                "job": "soft",
                "count": 5_000,
                "method": method,
                "layout": layout,
            }
            for method in ("linear", "gaussian")
            for layout in ("uniform", "clustered")
        },
        **{
            f"rotated, 10,000 boxes, {layout}": {
                "job": "rotated",
                "count": 10_000,
                "layout": layout,
            }
            for layout in ("uniform", "clustered")
        },
    },
)
_PAIRS = {"count": 1_000_000}
BOX_IOU = Table(
    "box_iou",
    "all pairs of 1,000 and 1,000 boxes, float32; one thread",
    ("torchvision",),
    {
        **{
            f"{measure}, {job}": {"job": job, "measure": measure, **_PAIRS}
            for job in ("values", "values and gradients")
            for measure in ("iou", "generalized", "distance", "complete")
        },
        "rotated": {"job": "rotated", **_PAIRS, "width": 1000.0},
        "rotated, a hundred times denser": {"job": "rotated", **_PAIRS, "width": 100.0},
    },
)

ROI_ALIGN = Table(
    "roi_align",
    "`roi_align`, 1,000 boxes, 7 × 7, 256 channels of 200 × 336, float32; one thread",
    ("torchvision",),
    {
        label: {"job": job, "layout": layout, "bins": 7, "ratio": ratio}
        for layout in ("channels_last", "NCHW")
        for label, job, ratio in (
            (f"{layout}, 2 × 2 samples", "forward", 2),
            (f"{layout}, adaptive samples", "forward", 0),
            (f"{layout}, backward", "backward", 2),
            (f"{layout}, pyramid of four levels", "pyramid", 2),
        )
    },
)
CONV = Table(
    "conv",
    "convolution, a 1080 × 1920 image unless noted; one thread",
    ("SciPy", "cv2.filter2D", "F.conv2d", "clone() of the result", "F.unfold", "F.fold"),
    {
        **{
            f"`convolve2d`, {dtype}, {side} × {side}": {
                "job": "new array",
                "dtype": dtype,
                "side": side,
            }
            for dtype, sides in (
                ("float32", (3, 7, 15, 25, 51)),
                ("uint8", (7,)),
                ("complex64", (7,)),
            )
            for side in sides
        },
        "`convolve2d`, float64, 25 × 25, 270 × 480": {"job": "float64"},
        "`im2col`, float32, 8 × 64 × 56 × 56, 3 × 3": {
            "job": "im2col",
            "dtype": "float32",
            "shape": [8, 64, 56, 56],
        },
        "`col2im`, the same": {"job": "col2im", "dtype": "float32", "shape": [8, 64, 56, 56]},
        **{
            f"`conv2d`, {label}": {"job": "conv2d", "layer": layer}
            for label, layer in (
                ("64 → 64 channels of 56 × 56, batch 8, 3 × 3", "64 channels"),
                ("3 → 64 channels of 224 × 224, batch 8, 7 × 7, stride 2", "stem"),
                ("1 → 1 channel, 3 × 3", "one channel"),
                ("float64, 64 → 64 channels of 56 × 56, batch 4, 3 × 3", "float64"),
            )
        },
    },
)


def on_chips(op: str) -> list[Row]:
    """An operator's result on each CPU, in the order of their names."""
    found = []
    for path in sorted((DOCS / "benchmarks").glob(f"{op}_*.json")):
        result = results.read(path)
        if result["op"] == op and not on_gpu(result):
            found.append(result)
    return found


def newest(op: str) -> Row | None:
    """The newest result on a CPU."""
    return max(on_chips(op), key=lambda result: str(result["machine"]["date"]), default=None)


def select(rows: list[Row], facts: dict[str, Any]) -> Row | None:
    """The row on one thread that has these facts."""
    for row in rows:
        one = row["device"] == "cpu" and row["threads"] == 1
        if one and facts.items() <= row["facts"].items():
            return row
    return None


def text_of(table: Table, chips: list[Row]) -> str:
    """A table with the chips side by side, and how each run went."""
    names = " / ".join(chip["machine"]["cpu"] for chip in chips)
    lines = [
        f"| {table.head} ({names}) | visops | {' | '.join(table.peers)} |",
        "|-|-|" + "-|" * len(table.peers),
    ]
    for label, facts in table.rows.items():
        found = [select(chip["rows"], facts) for chip in chips]
        if not any(found):
            continue
        times = [duration(row["cells"][0]["min_s"]) if row else "–" for row in found]
        texts = [_ratios_of(found, peer) for peer in table.peers]
        lines.append(f"| {label} | {' / '.join(times)} | {' | '.join(texts)} |")
    lines += [
        "",
        "visops: minimum time of a call. Others: how many times as long they take (ratio of the "
        "minima in one interleaved run).",
    ]
    for chip in chips:
        lines += ["", *_summary(chip)]
    return "\n".join(lines)


def _ratios_of(rows: list[Row | None], peer: str) -> str:
    cells = [{cell["name"]: cell for cell in row["cells"]} if row else {} for row in rows]
    return side_by_side(ratio_text(found.get(peer)) for found in cells)


def _summary(chip: Row) -> list[str]:
    """Where a run was, and which rows it lost."""
    rows: list[Row] = chip["rows"]
    beside = [(row, cell) for row in rows for cell in row["cells"][1:]]
    peers = [(row, cell) for row, cell in beside if not cell["bound"] and cell["ratio"] is not None]
    lost = [(row, cell) for row, cell in peers if cell["ratio"] < 1.0]
    text = f"{machine_text(chip)} visops lost {len(lost)} of {len(peers)} comparisons."
    if not lost:
        return [text]
    return [f"{text} Lost:", "", *(f"- {_lost_text(found)}" for found in lost)]


def _lost_text(found: tuple[Row, Row]) -> str:
    row, cell = found
    threads = f"{row['threads']} thread{'s' if row['threads'] > 1 else ''}"
    return f"{row['group']}, {row['label']}, {threads}: {cell['ratio']:.2f}× {cell['name']}"


def inference_text(result: Row) -> str:
    """The table of scripts/bench/infer.py, which times whole runs."""
    images = result["images"]
    lines = [
        f"| five networks over {images:,} files, workers: {result['limits']['workers']} | images/s "
        "| time saved | processor time | bottleneck |",
        "|-|-|-|-|-|",
    ]
    group = ""
    for row in result["variants"]:
        if row["group"] != group:
            group = row["group"]
            lines.append(f"| **{group}** | | | | |")
        saved = "" if row["key"] == "naive" else f"{row['saved']:.0%}"
        lines.append(
            f"| {row['label']} | {row['images_per_s']:.1f} | {saved} "
            f"| {row['cpu_s'] / images * 1e3:.0f} ms an image "
            f"| {row['limits']}, {row['limits_share']:.0%} of the time |"
        )
    return "\n".join([*lines, "", machine_text(result)])


def put(text: str, op: str, path: Path) -> None:
    """Replace what is between an operator's markers in a file."""
    begin = BEGIN.format(op)
    before, _, rest = path.read_text(encoding="utf-8").partition(begin)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"{path} lacks the markers {begin} and {END}")
    path.write_text(f"{before}{begin}\n{text}\n{END}{after}", encoding="utf-8")


def main() -> None:
    """Rewrite the tables, and draw the README's chart."""
    written = []
    for shown in (AUGMENT, AFFINE, NMS, BOX_IOU, ROI_ALIGN, CONV):
        chips = on_chips(shown.op)
        if chips:
            put(text_of(shown, chips), shown.op, DOCS / "benchmarks.md")
            written += chips
    inference = newest("infer")
    if inference is not None:
        for page in ("benchmarks.md", "infer.md"):
            put(inference_text(inference), "infer", DOCS / page)
        written.append(inference)
    if not written:
        raise SystemExit("no CPU result in docs/benchmarks: run scripts/bench/affine.py first")
    for result in written:
        print(f"docs/benchmarks.md: {result['op']} of {result['machine']['date']}")
    print(f"wrote {headlines.draw(DOCS / 'images' / 'headlines.png', on_chips)}")


if __name__ == "__main__":
    main()
