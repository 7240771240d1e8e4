"""scripts/bench/harness: what a GPU's rows are, and a row that fails costs no other."""

from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("tqdm")

from bench import box_iou, deformable, nms, points, roi_align, roi_pooling
from bench.harness import Case, Contender, case, kernels, main


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


@pytest.mark.parametrize("made", CASES, ids=lambda made: made.key)
def test_rows_are_built_on_the_default_device(made: Case) -> None:
    """All that a builder makes follows it: nothing is left on the CPU, to be refused."""
    for contender in Case("", "", made.build, device="meta").contenders():
        for cell in contender.call.__closure__ or ():
            if isinstance(cell.cell_contents, torch.Tensor):
                assert cell.cell_contents.device.type == "meta"


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
