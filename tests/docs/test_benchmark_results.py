"""The pages of the documentation that are made of benchmark results."""

from pathlib import Path
from typing import Any

import pytest
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
    pytest.importorskip("matplotlib")
    from bench.harness import pages

    paths = sorted((DOCS / "benchmarks").glob("*.json"))
    operators = pages.by_operator(paths)
    assert {path.name for path in paths} == {
        path.name for path in paths if any(path.name.startswith(f"{op}_") for op in operators)
    }
    for op, chips in operators.items():
        page = pages.page(op, chips)
        labels = [row["label"] for chip in chips for row in chip.get("rows", [])]
        assert all(str(label) in page for label in labels), op
    for path in paths:
        assert path.read_text(encoding="utf-8") == results.dumps(results.read(path)), path


def test_a_row_of_some_chips() -> None:
    """What a chip did not run is a dash; a row that others win is bold on that chip alone."""
    from bench.harness import pages

    def chip(name: str, *rows: dict[str, Any]) -> dict[str, Any]:
        machine = {"cpu": name, "isa": "avx2", "cores": 2, "date": "2026-01-01", "versions": {}}
        return {"op": "op", "machine": machine, "rows": list(rows)}

    def row(label: str, ratio: float) -> dict[str, Any]:
        cell = {**results.CELL, "median_s": 1.0}
        ours = {**cell, "name": "visops", "min_s": 1.0, "extra_bytes": 0}
        peer = {**cell, "name": "peer", "min_s": ratio, "ratio": ratio, "extra_bytes": 1 << 21}
        row = {"group": "g", "label": label, "device": "cpu", "threads": 1, "facts": {}}
        return {**row, "cells": [ours, peer]}

    page = pages.page("op", [chip("A", row("a", 3.0), row("b", 0.5)), chip("B", row("b", 1.5))])
    assert "In each cell: A / B." in page
    assert "| a | 1 | 1.00 s / – | 3.0× / – +2M |" in page
    assert "| b | 1 | 1.00 s / 1.00 s | **0.50× (lost)** / 1.50× +2M |" in page


def test_main_rows_are_those_of_the_results(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from figures import update_benchmarks as update

    pages = {
        page: (DOCS / page).read_text(encoding="utf-8") for page in ("benchmarks.md", "infer.md")
    }
    tables = [update.AUGMENT, update.AFFINE, update.NMS, update.BOX_IOU, update.ROI_ALIGN]
    for table in (*tables, update.CONV):
        chips = update.on_chips(table.op)
        assert len({chip["machine"]["cpu"] for chip in chips}) == len(chips) >= 2
        for facts in table.rows.values():
            lacking = [chip for chip in chips if update.select(chip["rows"], facts) is None]
            # CPU time can't be told of rows with workers.
            assert all("clock" in chip["machine"] and "job" in facts for chip in lacking), facts
            assert len(lacking) < len(chips), facts
        assert (
            f"{update.BEGIN.format(table.op)}\n{update.text_of(table, chips)}\n"
            in pages["benchmarks.md"]
        )
    inference = update.newest("infer")
    assert inference is not None
    for page in pages.values():
        assert f"{update.BEGIN.format('infer')}\n{update.inference_text(inference)}\n" in page


def test_headlines_have_their_rows() -> None:
    pytest.importorskip("matplotlib")
    from figures import headlines, update_benchmarks

    ratios = []
    for headline in headlines.HEADLINES:
        ratios.append(headlines.worst(headline, update_benchmarks.on_chips(headline.op))[0])
    assert min(ratios) < 1  # a row that we lose is among them


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
