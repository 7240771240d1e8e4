"""scripts/bench/loader.py: what it measures beside its rows, and how that is shown."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("albumentations")
pytest.importorskip("simplejpeg")

from bench import plot
from bench.harness import pages, results
from bench.loading import chart, costs, files

MACHINE: dict[str, Any] = {
    "cpu": "A chip",
    "isa": "avx2",
    "cores": 2,
    "load_average": 0.25,
    "date": "2026-01-02T03:04:05+00:00",
    "versions": {"torch": "2.15"},
}


def result_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "op": "loader_stages",
        "machine": MACHINE,
        "size": "640×480",
        "epochs": rows,
        "first_batch_s": {"Loader": 0.06, "DataLoader": 1.25},
        "processor_s": {"640×480": {"Loader": 1e-3, "bound": 9e-4}},
        "lock_s": 5e-6,
        "paths": 1_000_000,
        "memory_bytes": {"Loader, 8 threads": 3 << 20},
    }


def epoch(threads: int, rate: float, **shares: float) -> dict[str, Any]:
    own = dict.fromkeys(chart.STAGES, 0.0) | shares
    return {"threads": threads, "images_per_s": rate, "shares": own}


ROWS = [epoch(1, 1000.4, decoding=0.75, reading=0.25), epoch(2, 1900.0, decoding=0.5, python=0.5)]


def test_each_number_of_threads_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "COUNT", 6)
    monkeypatch.setattr(files, "BATCH", 3)
    monkeypatch.setattr(costs, "SIZE", (48, 64))
    files.paths_of.cache_clear()
    try:
        rows = costs.by_threads()
    finally:
        files.paths_of.cache_clear()
    assert [row["threads"] for row in rows] == list(costs.THREADS)
    for row in rows:
        assert row["images_per_s"] > 0
        assert [*row["shares"]] == [*chart.STAGES]
        assert sum(row["shares"].values()) == pytest.approx(1.0, abs=0.01)
        assert row["shares"]["decoding"] > 0


def test_the_page_says_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "loader_stages_a_chip.json"
    results.write(path, result_of(ROWS))
    assert len(path.read_text(encoding="utf-8").splitlines()) == 14
    page = pages.page("loader_stages", [results.read(path)])
    assert page.startswith("# Loading, by threads and stages, all rows\n")
    assert "A chip (avx2 kernels), 2 cores, 2026-01-02, load average 0.2 at the start" in page
    assert "| 1 | 1000 | 25% | 75% | 0% | 0% | 0% | 0% |" in page
    assert "Loader 0.06 s, DataLoader 1.25 s" in page
    assert "1000 µs; decoding the same windows and augmenting them, prepared: 900 µs, 0.90" in page
    assert "no number of threads makes more than 200,000 photos a second" in page
    assert "Loader, 8 threads: 3 MiB" in page
    assert [line.split()[:2] for line in chart.text(result_of(ROWS)).splitlines()[1:3]] == [
        ["1", "1000"],
        ["2", "1900"],
    ]


def test_pages_and_pictures_are_drawn(tmp_path: Path) -> None:
    path = tmp_path / "loader_stages_a_chip.json"
    results.write(path, result_of(ROWS))
    written = plot.render([path], tmp_path)
    assert written == [
        tmp_path / "loader_stages.md",
        tmp_path / "images" / "bench_loader_stages.png",
    ]
    assert all(file.stat().st_size > 500 for file in written)
