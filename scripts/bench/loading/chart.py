"""What `scripts/bench/loader.py --costs` has measured: as text, as a page, and as a picture."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

Result = dict[str, Any]

STAGES = {
    "reading": "#5b8c5a",
    "decoding": "#3d6cb9",
    "transforming": "#d1603d",
    "python": "#c9a227",
    "collating": "#7d5ba6",
    "waiting": "#b0b0b0",
}
NAMES = {"python": "Python, and waiting for it", "waiting": "waiting for the consumer"}


def _name(stage: str) -> str:
    return NAMES.get(stage, stage)


def _facts(result: Result) -> Iterator[str]:
    """Yield what is not by threads, a sentence each."""
    first = ", ".join(f"{k} {v:.2f} s" for k, v in result["first_batch_s"].items())
    yield f"First batch of 64 after construction, the least of 3: {first}."
    for size, times in result["processor_s"].items():
        own, bound = (1e6 * times[name] for name in ("Loader", "bound"))
        yield (
            f"Processor time for a photo of {size}, the least of 10 epochs in turn: {own:.0f} µs; "
            f"decoding the same windows and augmenting them, prepared: {bound:.0f} µs, "
            f"{bound / own:.2f} of it."
        )
    held = result["lock_s"]
    yield (
        f"A sample holds the interpreter's lock for {1e6 * held:.0f} µs around its call of C++, so "
        f"no number of threads makes more than {1 / held:,.0f} photos a second."
    )
    sizes = ", ".join(f"{k}: {v / 2**20:,.0f} MiB" for k, v in result["memory_bytes"].items())
    yield f"Memory with a list of {result['paths']:,} paths, shuffled: {sizes}."


def text(result: Result) -> str:
    """Return the table for the terminal."""
    lines = [f"{'threads':>7} {'images/s':>9}  shares of the threads' time"]
    for row in result["epochs"]:
        shares = ", ".join(f"{_name(stage)} {share:.0%}" for stage, share in row["shares"].items())
        lines.append(f"{row['threads']:>7} {row['images_per_s']:>9.0f}  {shares}")
    return "\n".join([*lines, "", *_facts(result)])


def markdown(result: Result) -> str:
    """Return the tables and sentences for the docs."""
    machine = result["machine"]
    lines = [
        f"Photos of {result['size']}, {machine['cpu']} ({machine['isa']} kernels), "
        f"{machine['cores']} cores, {machine['date'][:10]}, load average "
        f"{machine['load_average']:.1f} at the start; torch {machine['versions']['torch']}.",
        "",
        "The best of 5 epochs in turn, and shares of the threads' time:",
        "",
        f"| threads | photos/s | {' | '.join(map(_name, STAGES))} |",
        "|-|-|" + "-|" * len(STAGES),
    ]
    for row in result["epochs"]:
        shares = " | ".join(f"{row['shares'][stage]:.0%}" for stage in STAGES)
        lines.append(f"| {row['threads']} | {row['images_per_s']:.0f} | {shares} |")
    return "\n".join([*lines, "", *(f"- {fact}" for fact in _facts(result))]) + "\n"


def picture(result: Result, path: Path) -> None:
    """Draw photos per second, and where the threads' time goes, by the number of threads."""
    import matplotlib.pyplot as plt

    rows, machine = result["epochs"], result["machine"]
    places = range(len(rows))
    figure, (speed, stages) = plt.subplots(
        1, 2, figsize=(9.5, 1.7 + 0.42 * len(rows)), layout="constrained", sharey=True,
        gridspec_kw={"width_ratios": [2, 3]},
    )  # fmt: skip
    rates = [row["images_per_s"] for row in rows]
    speed.barh(places, rates, height=0.62, color="#2c6fbb")
    for at, rate in zip(places, rates, strict=True):
        speed.annotate(
            f"{rate:,.0f}", (rate, at), xytext=(4, 0), textcoords="offset points",
            va="center", fontsize=8,
        )  # fmt: skip
    speed.set_xlim(0, 1.2 * max(rates))
    speed.set_xlabel("photos a second", fontsize=8.5)
    left = [0.0] * len(rows)
    for stage, colour in STAGES.items():
        shares = [row["shares"][stage] for row in rows]
        stages.barh(places, shares, left=left, height=0.62, color=colour, label=_name(stage))
        for at, (share, begin) in enumerate(zip(shares, left, strict=True)):
            if share >= 0.05:
                stages.annotate(
                    f"{share:.0%}", (begin + share / 2, at), ha="center", va="center",
                    fontsize=8, color="white",
                )  # fmt: skip
        left = [begin + share for begin, share in zip(left, shares, strict=True)]
    stages.set_xlim(0, 1)
    stages.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    stages.set_xlabel("share of the threads' time", fontsize=8.5)
    speed.set_yticks(
        places, [f"{row['threads']} thread{'s' * (row['threads'] > 1)}" for row in rows], fontsize=8
    )
    speed.invert_yaxis()
    for axes in (speed, stages):
        axes.tick_params(axis="y", length=0)
        axes.tick_params(axis="x", labelsize=8)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
    figure.legend(
        *stages.get_legend_handles_labels(), loc="outside lower center", ncols=len(STAGES),
        fontsize=8, frameon=False,
    )  # fmt: skip
    figure.suptitle(
        f"transforms.Loader: photos of {result['size']} from JPEG files, {machine['cpu']}, "
        f"{machine['cores']} cores",
        x=0.01, ha="left", fontsize=11, fontweight="bold",
    )  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)
    plt.close(figure)
