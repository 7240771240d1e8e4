"""The pages of the documentation that are made of benchmark results."""

from pathlib import Path
from typing import Any

import pytest
from bench import render
from bench.harness import report, results

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize(
    ("brand", "family", "model", "name"),
    [
        ("AMD EPYC", "25", "1", "AMD EPYC Zen 3"),
        ("AMD EPYC", "25", "17", "AMD EPYC Zen 4"),
        ("AMD EPYC 9R45 Processor", "26", "2", "AMD EPYC 9R45 Zen 5"),
        ("AMD EPYC", "99", "0", "AMD EPYC"),
        ("AMD EPYC", None, None, "AMD EPYC"),
        ("Intel(R) Xeon(R) Processor @ 2.10GHz", "25", "1", "Intel Xeon"),
    ],
)
def test_chips_have_names_of_their_own(
    brand: str, family: str | None, model: str | None, name: str
) -> None:
    assert report.chip_name(brand, family, model) == name


def test_pages_have_the_results() -> None:
    paths = sorted((DOCS / "benchmarks").glob("*.json"))
    operators = render.by_operator(paths)
    assert {path.name for path in paths} == {
        path.name for path in paths if any(path.name.startswith(f"{op}_") for op in operators)
    }
    for op, chips in operators.items():
        page = render.page(op, chips)
        labels = [row["label"] for chip in chips for row in chip.get("rows", [])]
        assert all(str(label) in page for label in labels), op
    for path in paths:
        assert path.read_text(encoding="utf-8") == results.dumps(results.read(path)), path


def test_a_row_of_some_chips() -> None:
    """What a chip did not run is a dash; a row that others win is bold on that chip alone."""

    def chip(name: str, *rows: dict[str, Any]) -> dict[str, Any]:
        machine = {"cpu": name, "isa": "avx2", "cores": 2, "date": "2026-01-01", "versions": {}}
        return {"op": "op", "machine": machine, "rows": list(rows)}

    def row(label: str, ratio: float) -> dict[str, Any]:
        cell = {**results.CELL, "median_s": 1.0}
        ours = {**cell, "name": "visops", "min_s": 1.0, "extra_bytes": 0}
        peer = {**cell, "name": "peer", "min_s": ratio, "ratio": ratio, "extra_bytes": 1 << 21}
        row = {"group": "g", "label": label, "device": "cpu", "threads": 1, "facts": {}}
        return {**row, "cells": [ours, peer]}

    page = render.page("op", [chip("A", row("a", 3.0), row("b", 0.5)), chip("B", row("b", 1.5))])
    assert "In each cell: A / B." in page
    assert "| a | 1 | 1.00 s / – | 3.0× / – +2M |" in page
    assert "| b | 1 | 1.00 s / 1.00 s | **0.50× (lost)** / 1.50× +2M |" in page


def test_main_rows_are_those_of_the_results() -> None:
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    for op, (_, *lines) in render.specified().items():
        if op == "headlines":
            continue
        chips = render.on_chips(op)
        assert len({chip["machine"]["cpu"] for chip in chips}) == len(chips) >= 2
        for _, *where in lines:
            lacking = [chip for chip in chips if render.select(chip["rows"], *where) is None]
            # CPU time can't be told of rows with workers.
            assert all("clock" in chip["machine"] for chip in lacking), where
            assert len(lacking) < len(chips), where
        assert f"{render.BEGIN.format(op)}\n{render.main_rows(op, chips)}\n" in page


def test_headlines_have_their_rows() -> None:
    ratios = [render.worst(headline)[0] for headline in render.specified()["headlines"]]
    assert min(ratios) < 1  # a row that we lose is among them


def test_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    render.all_ratios(render.on_chips("nms"), tmp_path / "bench.png")
    render.headlines(tmp_path / "headlines.png")
    assert min(path.stat().st_size for path in tmp_path.iterdir()) > 10_000


def test_written_and_read(tmp_path: Path) -> None:
    cells = [
        report.Cell("visops", min_s=1.0, median_s=1.5, rounds=9, ratio=1.0, extra_bytes=0),
        report.Cell("peer", 2.0, 2.5, 9, 2.0, 1.7, floor=1.5, max_abs=0.25, fraction=0.5),
        report.Cell("part", 0.5, 0.75, 9, 0.5, 0.5, bound=True),
        report.Cell("wrong", max_abs=7.0, mean_abs=3.0, refused=True),
    ]
    rows = [report.Row("a group", "a × b", "cpu", 2, cells, {"job": "x", "sizes": [1, 2]})]
    machine: dict[str, Any] = {"cpu": "A chip", "versions": {"torch": "2"}}
    path = tmp_path / "results" / "op.json"
    report.write_json(path, "op", "\n What it compares. \n", machine, rows)
    found = results.read(path)
    assert found["description"] == "What it compares."
    assert found["machine"] == machine
    (row,) = found["rows"]
    assert row["facts"] == {"job": "x", "sizes": [1, 2]}
    ours, peer, part, wrong = row["cells"]
    assert (ours["min_s"], ours["extra_bytes"], ours["floor"]) == (1.0, 0, None)
    assert (peer["median_s"], peer["ratio"], peer["floor"], peer["max_abs"]) == (
        2.5,
        2.0,
        1.5,
        None,
    )
    assert (part["bound"], peer["bound"]) == (True, False)
    assert (wrong["min_s"], wrong["max_abs"]) == (None, 7.0)
