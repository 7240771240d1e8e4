"""Result files: what a benchmark measured, as JSON with one case on a line.

A file has the operator, a description, facts about the machine and the rows. Each row is a case at
one thread count; each of its cells is a contender, visops first. Only what the tables and plots
need is stored, and values that equal their default are left out: `read` puts them back.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Result = dict[str, Any]
Row = dict[str, Any]

ROW = ("group", "label", "device", "threads", "facts")
CELL: dict[str, Any] = {
    "min_s": None,  # None: the output differs too much, so the contender was not timed
    "median_s": None,
    "ratio": None,  # its minimum over ours
    "extra_bytes": None,
    "bound": False,
    "max_abs": None,  # how much the output differs; only stored where it was not timed
}


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cell(cell: Row, ours: bool) -> Row:
    kept = {key: cell.get(key, default) for key, default in CELL.items()}
    if ours:
        kept["ratio"] = None
    if kept["min_s"] is not None:
        kept["max_abs"] = None
    kept = {key: value for key, value in kept.items() if value is not CELL[key]}
    return {"name": cell["name"], **kept}


def _row(row: Row) -> str:
    cells = [_cell(cell, i == 0) for i, cell in enumerate(row["cells"])]
    return f" {_line({**{key: row[key] for key in ROW}, 'cells': cells})}"


def _sections(result: Result) -> Iterator[str]:
    for key, value in result.items():
        if key == "rows":
            lines = ",\n".join(map(_row, value))
        elif key == "epochs":  # of `python scripts/bench loading.costs`
            lines = ",\n".join(f" {_line(epoch)}" for epoch in value)
        else:
            yield f"{_line(key)}: {_line(value)}"
            continue
        yield f"{_line(key)}: [\n{lines}\n]" if lines else f"{_line(key)}: []"


def dumps(result: Result) -> str:
    """The text of a result file."""
    return "{\n" + ",\n".join(_sections(result)) + "\n}\n"


def write(path: Path, result: Result) -> None:
    """Write a result file, and its folder where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dumps(result), encoding="utf-8")


def read(path: Path) -> Result:
    """A result file, with every cell's defaults filled in."""
    result: Result = json.loads(path.read_text(encoding="utf-8"))
    for row in result.get("rows", []):
        row["cells"] = [{**CELL, **cell} for cell in row["cells"]]
    return result
