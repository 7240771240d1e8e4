"""scripts/bench/loader.py: what it measures beside its rows, and how that is shown."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("albumentations")
pytest.importorskip("simplejpeg")

import numpy as np
from bench import render
from bench.harness import results
from bench.loading import by_torchvision, costs, files, ours, peers
from PIL import Image

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
    own = dict.fromkeys(("reading", "decoding", "transforming", "python"), 0.0) | shares
    return {"threads": threads, "images_per_s": rate, "shares": own}


ROWS = [epoch(1, 1000.4, decoding=0.75, reading=0.25), epoch(2, 1900.0, decoding=0.5, python=0.5)]


@pytest.fixture
def few_files(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(files, "COUNT", 6)
    files.paths_of.cache_clear()
    yield
    files.paths_of.cache_clear()


@pytest.mark.usefixtures("few_files")
def test_each_number_of_threads_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BATCH", 3)
    monkeypatch.setattr(costs, "SIZE", (48, 64))
    rows = costs.by_threads()
    assert [row["threads"] for row in rows] == list(costs.THREADS)
    for row in rows:
        assert row["images_per_s"] > 0
        assert [*row["shares"]] == [
            "reading",
            "decoding",
            "transforming",
            "python",
            "collating",
            "waiting",
        ]
        assert sum(row["shares"].values()) == pytest.approx(1.0, abs=0.01)
        assert row["shares"]["decoding"] > 0


@pytest.mark.usefixtures("few_files")
def test_dense_photos_have_as_many_bits_as_imagenet() -> None:
    smooth, dense = (files.paths_of((120, 160), kind) for kind in ("smooth", "dense"))
    bits = [Path(path).stat().st_size * 8 / (120 * 160) for path in dense]
    assert bits == pytest.approx([files.DENSE] * 6, rel=0.01)
    for pair in zip(smooth, dense, strict=True):  # the same photos
        pixels, grainy = (by_torchvision.photo(path).astype(int) for path in pair)
        assert np.corrcoef(pixels.ravel(), grainy.ravel())[0, 1] > 0.5


@pytest.mark.usefixtures("few_files")
def test_peers_make_the_same_crops_of_files_of_each_kind() -> None:
    (path, *_) = files.paths_of((120, 160), "png")
    np.testing.assert_array_equal(by_torchvision.photo(path), np.asarray(Image.open(path)))
    shapes = [tuple(view.shape) for view in ours.views()(Path(path).read_bytes(), index=0)]
    assert shapes == [(3, 224, 224)] * 2 + [(3, 96, 96)] * 6
    for peer in (by_torchvision.ByTorchvision, peers.ByAlbumentations):
        assert [tuple(view.shape) for view in peer(files.VIEWS)(path)] == shapes
        assert peer()(path).shape == (3, 224, 224)


def test_a_line_says_which_peer_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert peers.importable("PIL", "PIL")
    assert not peers.importable("Nobody", "no_such_module")
    expected = "Nobody is left out, since it can't be imported: No module named 'no_such_module'\n"
    assert capsys.readouterr().err == expected


def test_the_page_says_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "loader_stages_a_chip.json"
    results.write(path, result_of(ROWS))
    assert len(path.read_text(encoding="utf-8").splitlines()) == 14
    page = render.page("loader_stages", [results.read(path)])
    assert page.startswith("# Loading, by threads and stages, all rows\n")
    assert "A chip (avx2 kernels), 2 cores, 2026-01-02; torch 2.15. Load average at the" in page
    assert "| 1 | 1000 | 25% | 75% | 0% | 0% |" in page
    assert "Loader 0.06 s, DataLoader 1.25 s" in page
    assert "1000 µs; decoding the same windows and augmenting them, prepared: 900 µs, 0.90" in page
    assert "no number of threads makes more than 200,000 photos a second" in page
    assert "Loader, 8 threads: 3 MiB" in page
