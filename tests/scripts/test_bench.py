"""The benchmarks: rows, clocks, what is measured beside them, contenders that agree."""

import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bench import box_iou, deformable, nms, points, render, roi_align, roi_pooling
from bench.__main__ import main as run
from bench.harness import Case, Contender, case, kernels, main, results
from bench.harness.timing import interleave
from bench.loading import by_torchvision, costs, files, ours, peers
from PIL import Image
from torch.utils import _pytree as pytree

pytest.importorskip("tqdm")


def contenders() -> list[Contender]:
    value = torch.rand(3)
    return [
        Contender("visops", lambda: value + 1),
        Contender("peer", lambda: value + 1),
        Contender("on the host", lambda: value.numpy(), on_host=True),
    ]


def test_peers_that_know_no_gpu_are_left_out() -> None:
    made = case("group", "label", contenders, on_cuda=True)
    assert [c.name for c in made.contenders()] == ["visops", "peer", "on the host"]
    elsewhere = Case("group", "label", contenders, device="meta").contenders()
    assert [c.name for c in elsewhere] == ["visops", "peer"]
    assert elsewhere[0].call().device.type == "meta"


CASES = [
    made
    for module in (box_iou, deformable, nms, points, roi_align, roi_pooling)
    for made in module.all_cases()
    if made.on_cuda and made.quick
]


def tensors_of(held: Any) -> Iterator[torch.Tensor]:
    """What there is in a value, and in what the functions hold that it has or calls."""
    for leaf in pytree.tree_leaves(held):
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif callable(leaf):
            cells = [cell.cell_contents for cell in getattr(leaf, "__closure__", None) or ()]
            yield from tensors_of(
                [*cells, getattr(leaf, "__self__", ()), getattr(leaf, "args", ())]
            )


@pytest.mark.parametrize("made", CASES, ids=lambda made: made.key)
def test_rows_are_built_on_the_default_device(made: Case) -> None:
    """All that a builder makes follows it: nothing is left on the CPU, to be refused."""
    for contender in Case("", "", made.build, device="meta").contenders():
        devices = {tensor.device.type for tensor in tensors_of(contender.call)}
        assert devices == {"meta"}, contender.name


def test_benchmarks_run_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["nms", "--list", "--filter", "growth"]) == 0
    assert capsys.readouterr().out.startswith("cpu/growth at constant density/100,000 boxes\n")
    assert run([]) == 0
    assert "Names: affine, augment, box_fusion," in capsys.readouterr().out


def test_a_row_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> list[Contender]:
        raise RuntimeError("no such row")

    rows: list[Any] = [case("group", "fails", fail), case("group", "runs", contenders)]
    options = ["--no-memory", "--min-time", "0.01", "--threads", "1"]
    assert main("op", "", rows, [*options, "--json", str(tmp_path / "op.json")]) == 1
    printed = capsys.readouterr()
    assert "cpu/group/fails failed:" in printed.err
    assert "runs" in printed.out
    assert kernels.trace(rows) == 1
    printed = capsys.readouterr()
    assert "cpu/group/fails failed:" in printed.out
    assert "cpu/group/runs: " in printed.out
    assert "told after" in printed.out


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main("op", "", [case("group", "row", contenders, on_cuda=True)], ["--device", "cuda"]) == 0
    )
    assert "torch sees no CUDA device" in capsys.readouterr().err


def wait() -> None:
    time.sleep(0.02)


@pytest.mark.parametrize(
    ("clock", "counted"), [(time.perf_counter, True), (time.process_time, False)]
)
def test_only_the_wall_clock_counts_waiting(clock: Callable[[], float], counted: bool) -> None:
    (timing,) = interleave([wait], min_time=0.001, clock=clock)
    assert (timing.minimum >= 0.02) is counted


def test_cpu_time_is_for_one_thread(capsys: pytest.CaptureFixture[str]) -> None:
    case = Case("group", "label", lambda: [Contender("visops", wait)])
    arguments = ["--cpu-time", "--no-memory", "--threads", "1,2", "--filter", "label"]
    assert main("waiting", "", [case], arguments) == 2
    assert "--cpu-time adds up all threads: use --threads 1" in capsys.readouterr().err


def test_cpu_time_skips_cases_with_workers(capsys: pytest.CaptureFixture[str]) -> None:
    contenders = [Contender("visops", wait)]
    cases = [
        Case("group", "alone", lambda: contenders),
        Case("group", "loader", lambda: contenders, workers=True),
    ]
    assert main("waiting", "", cases, ["--cpu-time", "--threads", "1", "--list"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "cpu/group/alone\n"
    assert shown.err == "--cpu-time skips cpu/group/loader: it has workers\n"


pytest.importorskip("matplotlib")
pytest.importorskip("albumentations")
pytest.importorskip("simplejpeg")

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
    assert len(path.read_text(encoding="utf-8").splitlines()) == 12
    page = render.page("loader_stages", [results.read(path)])
    assert page.startswith("# Loading, by threads and stages, all rows\n")
    assert "A chip (avx2 kernels), 2 cores, 2026-01-02; torch 2.15. Load average at the" in page
    assert "| 1 | 1000 | 25% | 75% | 0% | 0% |" in page
    assert "Loader 0.06 s, DataLoader 1.25 s" in page
    assert "Loader, 8 threads: 3 MiB" in page


for package in ("albumentations", "kornia", "simplejpeg", "skimage", "sklearn"):
    pytest.importorskip(package)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the peers, at their import
    from bench.augment import all_cases
    from bench.harness import Case, Contender
    from bench.harness.report import Cell, Row, summary

    from scripts.bench_contenders import check_contenders


# Those of a DataLoader start workers and compare means only.
CASES_AUGMENT = [
    case for case in all_cases() if case.quick and case.memory and case.device == "cpu"
]


@pytest.mark.parametrize("case", CASES_AUGMENT, ids=lambda case: case.key)
@pytest.mark.filterwarnings("ignore")
def test_contenders_agree(case: Case) -> None:
    check_contenders(case)


def test_bound_is_not_lost() -> None:
    cells = [
        Cell("ours", min_s=1.0, median_s=1.0, ratio=1.0),
        Cell("bound", min_s=0.5, median_s=0.5, ratio=0.5, bound=True),
        Cell("peer", min_s=0.9, median_s=0.9, ratio=0.9),
    ]
    assert [cell.verdict for cell in cells[1:]] == ["", "LOST"]
    row = Row("group", "label", "cpu", 1, cells)
    assert "lost (ratio below 1): 1" in summary([row])


def test_case_hands_its_settings_on() -> None:
    def build(value: int) -> list[Contender]:
        return [Contender("ours", lambda: torch.tensor(value))]

    from bench.harness import case

    made = case("group", "label", build, 3, threads=1, memory=False, images=8)
    assert int(made.build()[0].output()) == 3
    assert (made.threads, made.memory, made.images) == (1, False, 8)
