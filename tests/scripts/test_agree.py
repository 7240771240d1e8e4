"""scripts/agree.py: the comparison with the CPU, on the CPU itself."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import agree
import pytest
import torch


def test_agree_compares() -> None:
    """On the CPU alone, an operator agrees with itself."""
    command = [sys.executable, agree.__file__, "--device", "cpu"]
    command += ["--tries", "1", "--only", "box_iou"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 results of 4 operators compared\n0 findings; never compared: none\n" in done.stdout


def test_what_differs() -> None:
    nan = float("nan")
    one = torch.tensor([1.0, nan, 3.0])
    assert agree.difference([one], [one.clone()], 0.0) == ""
    found = agree.difference([one, one], [one, torch.tensor([1.0, nan, 4.0])], 0.0)
    assert found == "result 1 differs at 1 of 3 places, first [2]: 3.0 against 4.0"
    assert "3 places, first [1]: nan" in agree.difference([one], [one.nan_to_num()], 0.0)
    assert agree.difference([one], [], 0.0) == "1 results against 0"
    for other in (one.half(), one[:2]):
        assert agree.difference([one], [other], 0.0).startswith("result 0 is ")


def test_rounding_is_allowed_to_sums_in_another_order() -> None:
    image = torch.ones(1, 1, 4, 4)
    rounding = agree.rounding_of("conv2d", {"input": image})
    assert rounding == torch.finfo(torch.float32).eps
    assert agree.rounding_of("nms", {"boxes": image}) == 0
    assert agree.difference([image], [image + 1e-6], rounding) == ""
    assert agree.difference([image], [image + 1e-6], 0.0) != ""
    assert agree.difference([image], [image + 1e-4], rounding) != ""


def test_refusals_on_one_side() -> None:
    """Only the CPU looks at the values in tensors."""
    shape, values = "visops.nms: boxes is [3], must be [N, 4]", "visops.nms: boxes[2] has x2 < x1"
    assert agree.is_finding("", shape)
    assert agree.is_finding(shape, "")
    assert not agree.is_finding(shape, shape)
    assert not agree.is_finding(values, "")


def test_agree_goes_on_after_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the call behind the one that crashed."""
    starts = []

    def crashing(command: list[str], **_: Any) -> Any:
        starts.append(int(command[command.index("--start") + 1]))
        Path(command[command.index("--journal") + 1]).write_text(f"{starts[-1] + 4} nms, seed 2   ")
        return SimpleNamespace(returncode=-11 if len(starts) < 3 else 0)

    monkeypatch.setattr(subprocess, "run", crashing)
    assert agree.watched(["--tries", "3"], tmp_path / "agree.json", 100.0) == 1
    assert starts == [0, 5, 10]
