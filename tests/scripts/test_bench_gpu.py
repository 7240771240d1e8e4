"""scripts/bench/gpu.py: its rows, rehearsed on the CPU; and a row that fails costs no other."""

import functools
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

for package in ("torchvision", "tqdm"):
    pytest.importorskip(package)

from bench import gpu  # noqa: E402
from bench.chip import loading, masks, regions  # noqa: E402
from bench.chip.rows import COPY, count, size_of  # noqa: E402
from bench.harness import Case, Contender, compare, main, results  # noqa: E402

ROWS = gpu.all_cases("cpu", 0.01)
ONCE = ["--no-memory", "--min-time", "0.001", "--threads", "1"]
# On the CPU, torch's grid_sample of half precision reads what it should not, and gives NaN.
HALVES = ("float16", "bfloat16")


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Photos of a size that takes no time, as large as the largest region."""
    for family in (masks, regions):
        monkeypatch.setattr(family, "IMAGE", (512, 544))


def keys(rows: Sequence[Case]) -> list[str]:
    return [row.key for row in rows]


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("row", ROWS, ids=keys(ROWS))
def test_contenders(row: Case) -> None:
    """Ours comes first, a copy of bytes last; and peers do the same job, or they'd not be timed.

    Files are no bytes to copy: there the bound is ours with the chain on the other side.
    """
    contenders = row.build()
    names = [contender.name for contender in contenders]
    assert names[0] == "visops"
    assert len(set(names)) == len(names)
    bound = loading.OTHER_SIDE if row.group == "files" else names[-1]
    assert bound in (loading.OTHER_SIDE, COPY)
    assert [contender.bound for contender in contenders] == [name == bound for name in names]
    ours = contenders[0].output()
    for peer in contenders[1:]:
        if peer.name == "grid_sample" and any(dtype in row.label for dtype in HALVES):
            continue
        difference = compare(ours, peer.output())
        assert difference.within(peer.tolerance), f"{peer.name}: {difference}, {peer.tolerance}"


def test_the_copy_moves_as_many_bytes() -> None:
    """box_iou reads two lists of boxes (one is ours to flip) and writes a matrix."""
    (row,) = [row for row in ROWS if "box_iou" in row.label]
    contenders = row.build()
    copied = contenders[-1].call()
    assert copied.dtype == torch.uint8
    assert 2 * copied.numel() == (100 * 4 + 100 * 100) * 4


def test_shares_and_sizes() -> None:
    assert [count(64, share) for share in (1.0, 0.5, 0.02, 1e-9)] == [64, 32, 2, 1]
    given = {"a": torch.zeros(3, dtype=torch.int64), "b": [torch.zeros(2, 2), None, 7]}
    assert size_of(given) == 3 * 8 + 4 * 4


@pytest.mark.usefixtures("restored_threads")
def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own options and those of all benchmarks."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)  # restored at the end
    rehearsal = ["--device", "cpu", "--share", "0.01"]
    assert gpu.command_line([*rehearsal, "--list"]) == 0
    assert capsys.readouterr().out.splitlines() == keys(ROWS)
    path = tmp_path / "rows.json"
    words = [*rehearsal, *ONCE, "--filter", "box_iou", "--json", str(path)]
    assert gpu.command_line(words) == 0
    assert not torch.backends.cudnn.allow_tf32
    assert f"wrote {path}\n" in capsys.readouterr().out
    (found,) = results.read(path)["rows"]
    assert (found["label"], found["device"]) == ("box_iou, 100²", "cpu")
    assert [cell["name"] for cell in found["cells"]] == ["visops", "torchvision", COPY]
    assert [cell["bound"] for cell in found["cells"]] == [False, False, True]


def recorded(called: list[str], name: str) -> list[Contender]:
    return [
        Contender(who, functools.partial(called.append, f"{name}, {who}"))
        for who in ("ours", "peer")
    ]


def test_profilers_get_one_call_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """In rows with one of these words."""
    called: list[str] = []
    rows = [
        Case("group", name, functools.partial(recorded, called, name)) for name in ("a", "b1", "b2")
    ]
    monkeypatch.setattr(gpu, "all_cases", lambda *_: rows)
    assert gpu.command_line(["--device", "cpu", "--once", "b2|/a"]) == 0
    assert called == ["a, ours", "b2, ours"]


def test_kernels_of_a_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table for each row, and a row that fails is named."""
    images = torch.ones(100, 100)
    ours = [Contender("visops", lambda: images @ images)]
    rows = [Case("group", "fails", broken), Case("group", "works", lambda: ours)]
    monkeypatch.setattr(gpu, "all_cases", lambda *_: rows)
    assert gpu.command_line(["--device", "cpu", "--kernels"]) == 1
    shown = capsys.readouterr()
    assert "cpu/group/works: " in shown.out
    assert "aten::mm" in shown.out
    assert "RuntimeError: no such kernel" in shown.out
    assert "cpu/group/fails failed" in shown.out


# Rows that fail


def broken() -> list[Contender]:
    raise RuntimeError("no such kernel")


def broken_call() -> list[Contender]:
    return [Contender("visops", lambda: torch.ones(1)), Contender("peer", lambda: 1 / 0)]


def sound() -> list[Contender]:
    return [Contender("visops", lambda: torch.ones(1))]


@pytest.mark.usefixtures("restored_threads")
def test_a_row_that_fails_costs_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether its builder or a call raises; it is named, and the exit status tells."""
    path = tmp_path / "rows.json"
    builders = {"first": broken, "second": sound, "third": broken_call, "last": sound}
    rows = [Case("group", label, build) for label, build in builders.items()]
    assert main("gpu", "what is compared", rows, [*ONCE, "--json", str(path)]) == 1
    shown = capsys.readouterr()
    assert "cpu/group/first failed:\nTraceback" in shown.err
    assert "RuntimeError: no such kernel" in shown.err
    assert "cpu/group/third failed:\nTraceback" in shown.err
    assert "ZeroDivisionError" in shown.err
    assert "second failed" not in shown.err
    assert "group on cpu" in shown.out
    kept = results.read(path)["rows"]
    assert [row["label"] for row in kept] == ["second", "last"]
    good = [row for row in rows if row.label in ("second", "last")]
    assert main("gpu", "", good, [*ONCE, "--json", str(path)]) == 0


@pytest.mark.usefixtures("restored_threads")
def test_every_row_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*ONCE, "--json", str(tmp_path / "rows.json")]
    assert main("gpu", "", [Case("group", "label", broken)], words) == 1
    assert "floors met: 0 of 0" in capsys.readouterr().out
