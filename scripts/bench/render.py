"""Renders benchmark results: pages of all rows, the main rows, and pictures.

    python scripts/bench render

All ``docs/benchmarks/<op>_<chip>.json`` become ``docs/benchmarks/<op>.md``, with their chips side
by side, and ``docs/images/bench_<op>.png``, with a marker for each chip. The main rows go between
an operator's markers in docs/benchmarks.md, and the README's chart has the worse of their ratios.
`make bench` runs it last; docs/conf.py writes the pages.
"""

import math
import statistics
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.harness import results
from bench.harness.report import ROOT, duration, mebibytes

Result = dict[str, Any]
Row = dict[str, Any]
Cells = dict[str, dict[str, Any]]  # of a row, by contender

DOCS = ROOT / "docs"
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
PACKAGES = {"cv2": "OpenCV", "numpy": "NumPy", "scipy": "SciPy", "PIL": "Pillow"}

BEGIN = "<!-- benchmark {}: written by scripts/bench/render.py -->"
END = "<!-- end of benchmark -->"


def specified() -> dict[str, list[list[str]]]:
    """The lines of main_rows.txt, which says what they mean, by section."""
    text = Path(__file__).with_name("main_rows.txt").read_text(encoding="utf-8")
    sections = (section.strip().splitlines() for section in text.split("\n# ")[1:])
    return {name: [line.split(" | ") for line in lines] for name, *lines in sections}


def on_gpu(result: Result) -> bool:
    """Whether any of a result's rows ran on a GPU."""
    return any(row["device"] != "cpu" for row in result.get("rows", []))


def by_operator(paths: Iterable[Path] | None = None) -> dict[str, list[Result]]:
    """Read result files; those without rows are left out."""
    found: dict[str, list[Result]] = {}
    for path in sorted((DOCS / "benchmarks").glob("*.json")) if paths is None else paths:
        result = results.read(path)
        if result.get("rows", True):
            found.setdefault(result["op"], []).append(result)
    return found


# A page of all rows


def page(op: str, chips: Sequence[Result]) -> str:
    """The page of an operator: a heading, where it comes from, and its tables."""
    tables = "\n".join(map(stages, chips)) if "epochs" in chips[0] else _tables(chips)
    return (
        f"# {TITLES.get(op, op)}, all rows\n\n"
        f"Written by `scripts/bench/render.py` from the JSON files beside it. "
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


def group_of(row: Row) -> str:
    """The table that a row is in."""
    return str(row["group"] if row["device"] == "cpu" else f"{row['group']}, {row['device']}")


def _groups(chips: Sequence[Result]) -> dict[str, dict[tuple[str, int, int], list[Cells]]]:
    """Each table's rows, and in each row a chip's cells or none."""
    found: dict[str, dict[tuple[str, int, int], list[Cells]]] = {}
    for i, chip in enumerate(chips):
        seen: dict[tuple[str, str, int], int] = {}
        for row in chip["rows"]:
            key = (group_of(row), row["label"], row["threads"])
            seen[key] = seen.get(key, -1) + 1  # rows of one label are told apart by their order
            rows = found.setdefault(key[0], {})
            cells = rows.setdefault((*key[1:], seen[key]), [{} for _ in chips])
            cells[i] = {cell["name"]: cell for cell in row["cells"]}
    return found


def _column(row: Sequence[Cells], name: str, ours: bool) -> str:
    cells = [of.get(name) for of in row]
    text = side_by_side(map(time_text if ours else ratio_text, cells))
    memory = max((cell["extra_bytes"] or 0 for cell in cells if cell), default=0)
    return f"{text} {mebibytes(memory)}" if memory else text


def time_text(cell: dict[str, Any] | None) -> str:
    """Our time, or a dash."""
    return "–" if cell is None or cell["min_s"] is None else duration(cell["min_s"])


def side_by_side(texts: Iterable[str]) -> str:
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


def stages(result: Result) -> str:
    """What `python scripts/bench loading.costs` has measured: by threads, and a sentence a fact."""
    names = list(result["epochs"][0]["shares"])
    lines = [
        f"Photos of {result['size']}; {machine_text(result)} Load average at the start: "
        f"{result['machine']['load_average']:.1f}.",
        "",
        "The best of 5 epochs in turn, and shares of the threads' time (python: Python, and "
        "waiting for it; waiting: for the consumer):",
        "",
        f"| threads | photos/s | {' | '.join(names)} |",
        "|-|-|" + "-|" * len(names),
    ]
    for row in result["epochs"]:
        shares = " | ".join(f"{row['shares'][stage]:.0%}" for stage in names)
        lines.append(f"| {row['threads']} | {row['images_per_s']:.0f} | {shares} |")
    first = ", ".join(f"{k} {v:.2f} s" for k, v in result["first_batch_s"].items())
    lines += ["", f"- First batch of 64 after construction, the least of 3: {first}."]
    sizes = ", ".join(f"{k}: {v / 2**20:,.0f} MiB" for k, v in result["memory_bytes"].items())
    lines.append(f"- Memory with a list of {result['paths']:,} paths, shuffled: {sizes}.")
    return "\n".join(lines) + "\n"


# The main rows


def on_chips(op: str) -> list[Result]:
    """An operator's result on each CPU, in the order of their names."""
    return [result for result in by_operator().get(op, []) if not on_gpu(result)]


def select(rows: list[Row], group: str, label: str) -> Row | None:
    """A row on one thread."""
    key = ("cpu", 1, group, label)
    names = ("device", "threads", "group", "label")
    return next((row for row in rows if tuple(row[name] for name in names) == key), None)


def main_rows(op: str, chips: list[Result]) -> str:
    """A table with the chips side by side, and how each run went."""
    (head, *peers), *lines = specified()[op]
    rows = {label: [select(chip["rows"], *where) for chip in chips] for label, *where in lines}
    cells = {
        label: [{c["name"]: c for c in row["cells"]} if row else {} for row in on]
        for label, on in rows.items()
    }
    chip_names = " / ".join(map(chip_name, chips))
    found = [
        f"| {head} ({chip_names}) | visops | {' | '.join(peers)} |",
        "|-|-|" + "-|" * len(peers),
    ]
    for label, on in cells.items():
        ours = side_by_side(time_text(next(iter(of.values()), None)) for of in on)
        texts = [side_by_side(ratio_text(of.get(peer)) for of in on) for peer in peers]
        found.append(f"| {label} | {ours} | {' | '.join(texts)} |")
    found += [
        "",
        "visops: minimum time of a call. Others: how many times as long they take.",
        f"Lost rows and versions are among [all rows](benchmarks/{op}.md).",
    ]
    found += ["", *map(_summary, chips)]
    return "\n".join(found)


def _summary(chip: Result) -> str:
    """When a run was, and how many comparisons it lost."""
    beside = [cell for row in chip["rows"] for cell in row["cells"][1:]]
    ratios = [c["ratio"] for c in beside if not c["bound"] and c["ratio"] is not None]
    lost = sum(ratio < 1.0 for ratio in ratios)
    machine = chip["machine"]
    when = f"{machine['date'][:10]}{', ' + machine['clock'] if 'clock' in machine else ''}"
    return f"- {chip_name(chip)}, {when}: visops lost {lost} of {len(ratios)} comparisons."


def put(text: str, op: str, path: Path) -> None:
    """Replace what is between an operator's markers in a file."""
    begin = BEGIN.format(op)
    before, _, rest = path.read_text(encoding="utf-8").partition(begin)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"{path} lacks the markers {begin} and {END}")
    path.write_text(f"{before}{begin}\n{text}\n{END}{after}", encoding="utf-8")


# Pictures


def chart(
    bars: Sequence[tuple[str, float, list[tuple[float, int]]]], about: str, path: Path
) -> None:
    """Ratios on a logarithmic scale, right of 1 where visops is faster.

    A bar has a label, where it ends, and dots: each with the number of its chip.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(10, 1.2 + 0.26 * len(bars)), layout="constrained")
    for at, (_, end, dots) in enumerate(bars):
        colour = "#2c6fbb" if end >= 1 else "#c0392b"
        axes.barh(at, end - 1, left=1, height=0.7, color=colour, alpha=0.4)
        for ratio, chip in dots:
            axes.plot(ratio, at, "os^Dv"[chip], ms=3.2, color=colour, mew=0)
        text = f"{end:.0f}×" if end >= 10 else f"{end:.1f}×" if end >= 2 else f"{end:.2f}×"
        farthest = max([end, 1.0, *(ratio for ratio, _ in dots)])
        axes.annotate(
            text, (farthest, at), (5, 0), textcoords="offset points", va="center", fontsize=8
        )
    everything = [r for _, end, dots in bars for r in (end, *(ratio for ratio, _ in dots))]
    axes.set_yticks(range(len(bars)), [label for label, _, _ in bars], fontsize=8)
    axes.set_xscale("log", base=2)
    axes.set_xlim(2.0 ** math.floor(math.log2(min([0.5, *everything]))), 1.4 * max(everything))
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.xaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda value, _: f"{value:g}×"))
    axes.axvline(1.0, color="black", lw=1)
    axes.grid(axis="x", color="#dddddd", lw=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xlabel(about, fontsize=8.5)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def all_ratios(chips: list[Result], path: Path) -> None:
    """Ratios of all rows, table by table and peer by peer: a dot is a case on a chip."""
    found: dict[str, list[tuple[float, int]]] = {}
    for i, chip in enumerate(chips):
        for row in chip["rows"]:
            for cell in row["cells"][1:]:
                if not cell["bound"] and cell["ratio"] is not None:
                    group = textwrap.shorten(group_of(row), 50, placeholder=" …")
                    found.setdefault(f"{group}: {cell['name']}", []).append((cell["ratio"], i))
    bars = [(name, statistics.median(r for r, _ in dots), dots) for name, dots in found.items()]
    marks = zip(("circle", "square", "triangle", "diamond", "down"), chips, strict=False)
    about = (
        "time of the peer ÷ time of visops, log scale; bar: median over the cases; a mark is a "
        "case at one thread count\n"
        + "; ".join(f"{mark}: {chip_name(chip)}" for mark, chip in marks)
    )
    chart(bars, about, path)


def worst(headline: Sequence[str]) -> tuple[float, str]:
    """How many times as long the fastest peer takes, on the chip where it is closest to us."""
    _, _, op, group, label = headline
    found = []
    for row in (select(chip["rows"], group, label) for chip in on_chips(op)):
        cells = [cell for cell in row["cells"] if cell["min_s"] is not None] if row else []
        # Users call visops.transforms, where a row has it beside the operator.
        own = [cell for cell in cells if cell["name"].startswith("visops")]
        peers = [cell for cell in cells if cell not in own and not cell["bound"]]
        found += [(cell["min_s"] / own[-1]["min_s"], cell["name"]) for cell in peers]
    if not found:
        raise SystemExit(f"no CPU result of {op} on one thread has {group}, {label}")
    return min(found)


def headlines(path: Path) -> None:
    """The README's chart."""
    rows = [(headline, *worst(headline)) for headline in specified()["headlines"]]
    bars: list[tuple[str, float, list[tuple[float, int]]]] = [
        (f"{row[0]}: {row[1]}\nbeside {peer}", ratio, []) for row, ratio, peer in rows
    ]
    chips = sorted({chip_name(chip) for row, _, _ in rows for chip in on_chips(row[2])})
    about = (
        "time of the fastest peer ÷ time of visops, log scale\none thread, the worst of "
        f"{', '.join(chips[:-1])} and {chips[-1]}"
    )
    chart(bars, about, path)


def main(_: Sequence[str] = ()) -> int:
    """Write everything."""
    for op, chips in by_operator().items():
        (DOCS / "benchmarks" / f"{op}.md").write_text(page(op, chips), "utf-8")
        image = DOCS / "images" / f"bench_{op}.png"
        if image.name in (DOCS / "benchmarks.md").read_text(encoding="utf-8"):
            all_ratios(chips, image)
        if op in specified():
            put(main_rows(op, on_chips(op)), op, DOCS / "benchmarks.md")
    headlines(DOCS / "images" / "headlines.png")
    return 0
