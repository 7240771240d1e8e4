"""The tables of docs/moving.md that say of every public name of a module what ours is."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "moving.md"
SAME, NONE = "the same", "–"


def rows(module: str) -> dict[str, tuple[str, str]]:
    """What the table of a module says of each name: the second and third column."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(
        f"| {module} | visops | what differs |\n|-|-|-|\n"
    )
    table = rest.split("\n\n")[0]
    found = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ?([^|]*) ?\|$", table, re.MULTILINE)
    assert len(found) == len(table.splitlines()), "a row has another form"
    assert len({name for name, _, _ in found}) == len(found)
    return {name: (ours.strip(), differs.strip()) for name, ours, differs in found}
