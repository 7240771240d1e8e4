"""The results of a climb as a table and as JSON."""

import json
from pathlib import Path

from bench.harness.report import describe, duration, machine_facts

from .ladder import Climb


def ratio(value: float) -> str:
    """Format with two or three digits."""
    rounded = float(f"{value:.{3 if value >= 10 else 2}g}")
    return f"{rounded:,.0f}×" if rounded >= 100 else f"{rounded:g}×"


def speed_up(found: Climb, name: str) -> str:
    """Format the speed-up over the first rung, whose time may be an estimate."""
    value, size, measured = found.speed_up(name)
    return f"{'' if measured else '≈'}{ratio(value)} at {size:,}"


def table(found: Climb) -> str:
    """One row per rung: its times and its speed-up over the first."""
    names = list(found.times)
    width = max(len(name) for name in names)
    heads = [f"{size:>9,}" for size in found.sizes]
    lines = [
        f"{found.ladder.op}: {found.ladder.job}; minimum of a call by {found.ladder.unit}",
        f"{'':<{width}} {''.join(heads)}   over the first",
    ]
    for name in names:
        times = [found.minimum(name, size) for size in found.sizes]
        cells = "".join(f"{'' if t is None else duration(t):>9}" for t in times)
        lines.append(f"{name:<{width}} {cells}   {speed_up(found, name)}")
    lines.append("≈ over what the first rung would take, if its time went on growing as its work")
    return "\n".join(lines)


def write_json(found: Climb, path: Path) -> None:
    """Write everything that was measured."""
    rungs = [
        {
            "name": name,
            "threads": found.rungs[name].threads,
            "device": found.rungs[name].device,
            "peer": found.rungs[name].peer,
            "speed_up": found.speed_up(name)[0],
            "max_abs": found.differences[name].max_abs,
            "times": [
                {"size": size, "min_s": timing.minimum, "median_s": timing.median}
                for size, timing in timed.items()
            ],
        }
        for name, timed in found.times.items()
    ]
    ladder = found.ladder
    content = {
        "op": ladder.op,
        "job": ladder.job,
        "unit": ladder.unit,
        "rungs": rungs,
        "machine": machine_facts(),
    }
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def machine() -> str:
    """Describe the machine."""
    return describe(machine_facts())
