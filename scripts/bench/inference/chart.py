"""The results of scripts/bench/infer.py: a table for the terminal, one for the docs, a chart."""

from pathlib import Path
from typing import Any

from .clock import STAGES

Result = dict[str, Any]
Row = dict[str, Any]

COLOURS = {
    "decode": "#3d6cb9",
    "preprocess": "#5b8c5a",
    "models": "#b0b0b0",
    "post-process": "#d1603d",
    "write": "#c9a227",
}
IN_TURN = ("naive", "batches", "two", "three", "four", "memory", "last", "library")


def _stages(row: Row, images: int) -> list[float]:
    """Return the milliseconds per image of each stage."""
    return [row["stages_s"].get(stage, 0.0) / images * 1e3 for stage in STAGES]


def _limit(row: Row) -> str:
    return f"{row['limits']}, {row['limits_share']:.0%} of the time"


def _saved(row: Row) -> str:
    return "" if row["key"] == "naive" else f"{row['saved']:+.0%}"


def _comment(row: Row) -> str:
    if row["key"] == "naive":
        return ""
    saved = row["saved"]
    return f", {saved:.0%} saved" if saved >= 0 else f", {1 - saved:.2f} times as long"


def text(result: Result) -> str:
    """Return the table for the terminal."""
    images = result["images"]
    head = "  ".join(f"{stage:>12}" for stage in STAGES)
    lines = [
        f"{images} files on {result['device']}, torch threads: {result['threads']}, "
        f"workers: {result['limits']['workers']}, writers: {result['limits']['writers']}; "
        "stages in milliseconds an image",
        f"{'':<36}{'s':>7} {'img/s':>6} {'saved':>6} {'CPU s':>7}  {head}  limits",
    ]
    group = ""
    for row in result["variants"]:
        if row["group"] != group:
            group = row["group"]
            lines.append(f"{group}:")
        stages = "  ".join(f"{value:12.2f}" for value in _stages(row, images))
        lines.append(
            f"  {row['label']:<34}{row['wall_s']:7.1f} {row['images_per_s']:6.1f} "
            f"{_saved(row):>6} {row['cpu_s']:7.1f}  {stages}  {_limit(row)}"
        )
    compared = [row for row in result["variants"] if row["key"] != "naive"]
    if compared:
        lines += ["", _agreement(compared)]
    return "\n".join(lines)


def _agreement(rows: list[Row]) -> str:
    found = [row["agreement"] for row in rows]
    score, box = max(f["score"] for f in found), max(f["box"] for f in found)
    errors, ties = sum(f["errors"] for f in found), max(f["ties"] for f in found)
    exact = [r["label"] for r in rows if r["agreement"]["equal"] == r["agreement"]["images"]]
    return (
        f"Records of {found[0]['images']} files, {found[0]['boxes']} boxes, compared with the "
        f"script's: {errors} differ. Scores are within {score:.1g}, boxes within {box:.1g} pixels; "
        f"at most {ties} boxes or classes of a variant are decided by a last bit. The same to the "
        f"last bit: {'; '.join(exact) or 'none'}."
    )


def markdown(result: Result) -> str:
    """Return the table for the docs; the first change is in both groups."""
    images, machine = result["images"], result["machine"]
    chip = machine["cpu"] if result["device"] == "cpu" else machine["gpu"]
    versions = ", ".join(f"{name} {v}" for name, v in machine["versions"].items() if v)
    lines = [
        f"{images} files, {chip}, {machine['cores']} cores, torch threads: {result['threads']}, "
        f"workers: {result['limits']['workers']}, writing threads: {result['limits']['writers']}; "
        f"{versions}; commit {machine['commit']}.",
        "",
        "| | time | images/s | saved | processor time | " + " | ".join(STAGES) + " | what limits |",
        "|-|-|-|-|-|" + "-|" * len(STAGES) + "-|",
    ]
    group = ""
    for row in result["variants"]:
        if row["group"] != group:
            group = row["group"]
            lines.append(f"| **{group}** |" + " |" * (len(STAGES) + 5))
        stages = " | ".join(f"{value:.1f} ms" for value in _stages(row, images))
        lines.append(
            f"| {row['label']} | {row['wall_s']:.0f} s | {row['images_per_s']:.1f} | "
            f"{_saved(row)} | {row['cpu_s']:.0f} s | {stages} | {_limit(row)} |"
        )
    compared = [row for row in result["variants"] if row["key"] != "naive"]
    lines += [
        "",
        "Stages: milliseconds of work an image, wherever it is done; where workers or threads do "
        "it, they overlap with the rest. " + (_agreement(compared) if compared else ""),
    ]
    return "\n".join(lines) + "\n"


def picture(result: Result, path: Path) -> None:
    """Draw the time of each variant, and the work of its stages."""
    import matplotlib.pyplot as plt

    images = result["images"]
    rows = {row["key"]: row for row in result["variants"]}
    alone = [row for row in result["variants"] if row["group"] == "alone"]
    in_turn = [rows[key] for key in IN_TURN if key in rows]
    shown = [*in_turn, *alone]
    positions = [i + (0.9 if i >= len(in_turn) else 0.0) for i in range(len(shown))]
    longest = max(max(row["wall_s"], row["cpu_s"]) for row in shown) / images * 1e3
    figure, axes = plt.subplots(figsize=(9.5, 1.6 + 0.5 * len(shown)), layout="constrained")
    for at, row in zip(positions, shown, strict=True):
        wall, cpu = row["wall_s"] / images * 1e3, row["cpu_s"] / images * 1e3
        # Move the text past the red line if they would overlap.
        clear = cpu if wall < cpu < wall + 0.22 * longest else wall
        axes.barh(at - 0.2, wall, height=0.36, color="#333333")
        axes.annotate(
            f"{wall:.0f} ms{_comment(row)}",
            (clear, at - 0.2),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
        axes.plot([cpu, cpu], [at - 0.42, at + 0.02], color="#b00020", lw=1.6)
        left = 0.0
        for stage, value in zip(STAGES, _stages(row, images), strict=True):
            limiting = stage == row["limits"]
            axes.barh(
                at + 0.18,
                value,
                left=left,
                height=0.28,
                color=COLOURS[stage],
                edgecolor="black" if limiting else "none",
                linewidth=1.1 if limiting else 0,
                label=stage if at == positions[0] else None,
            )
            left += value
    labels = [
        f"+ {row['label']}" if row["key"] == "batches" and at < len(in_turn) else row["label"]
        for at, row in zip(positions, shown, strict=True)
    ]
    axes.set_yticks(positions, labels, fontsize=8.5)
    axes.set_ylim(max(positions) + 0.7, -1.0)
    titles = {"in turn": positions[0]}
    if alone:
        titles["alone"] = positions[len(in_turn)]
    for title, at in titles.items():
        axes.annotate(
            title,
            (0, at - 0.55),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            fontweight="bold",
        )
    axes.margins(x=0.25)
    axes.grid(axis="x", color="#dddddd", lw=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.legend(fontsize=8, ncols=len(STAGES), loc="upper right", frameon=False)
    axes.set_xlabel(
        "milliseconds an image; black: of the whole run, red line: of the processors; coloured:\n"
        "at work in each stage, which may overlap; outlined: the stage that limits",
        fontsize=8.5,
    )
    chip = result["machine"]["cpu"] if result["device"] == "cpu" else result["machine"]["gpu"]
    axes.set_title(
        f"Five networks over {images} files, {chip}, {result['machine']['cores']} cores\n",
        loc="left",
        fontsize=11,
        fontweight="bold",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)
    plt.close(figure)
