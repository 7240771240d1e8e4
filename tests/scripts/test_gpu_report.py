"""scripts/gpu_report.py: its steps end, their results are kept, and the report has them all."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import gpu_report
import pytest
import torch
from gpu_report import Result, Step, all_steps, report_of, run_all, run_step

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups")


def python(code: str, seconds: int = 60, name: str = "step") -> Step:
    return Step(name, [sys.executable, "-c", code], seconds)


def run(steps: list[Step], folder: Path, build: str = "1", again: bool = False) -> list[str]:
    """The statuses, and the names of the steps that ran."""
    said: list[str] = []
    results = run_all(steps, folder, build, again, said.append)
    ran = [text.split(":")[0] for text in said if text.endswith("at most")]
    return [result.status for result in results] + ran


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("print('well')", "passed"),
        ("print('badly'); raise SystemExit(3)", "failed"),
        ("print('no case matches; --list prints them all'); raise SystemExit(1)", "passed"),
    ],
)
def test_how_a_step_ends(code: str, status: str) -> None:
    result = run_step(python(code), "1")
    assert result.status == status
    assert result.output.split()[0] in code


def test_a_missing_program_is_no_failure() -> None:
    result = run_step(Step("check", ["no-such-program", "--version"], 5), "1")
    assert (result.status, result.output) == ("missing", "no-such-program is not installed")


def test_a_step_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    """The child holds the pipe: without its end, the report would wait for it."""
    code = f"""
import subprocess, sys, time
print("began", flush=True)
child = "import time; time.sleep(60); open({str(tmp_path / "late")!r}, 'w')"
subprocess.Popen([sys.executable, "-c", child])
time.sleep(60)
"""
    began = time.monotonic()
    result = run_step(python(code, seconds=3), "1")
    assert time.monotonic() - began < 30
    assert (result.status, result.output.strip()) == ("timed out", "began")


def test_only_the_end_of_long_output_is_kept() -> None:
    result = run_step(python("print('x' * 100000); print('summary')"), "1")
    assert len(result.output) == gpu_report.KEPT_CHARACTERS
    assert result.output.endswith("summary\n")


def test_steps_that_have_ended_are_not_run_again(tmp_path: Path) -> None:
    steps = [python("print(1)", name="a b"), python("raise SystemExit(1)", name="c")]
    assert run(steps, tmp_path) == ["passed", "failed", "a b", "c"]
    assert run(steps, tmp_path) == ["passed", "failed"]
    assert run(steps, tmp_path, again=True) == ["passed", "failed", "a b", "c"]
    assert run(steps, tmp_path, build="2") == ["passed", "failed", "a b", "c"]
    (tmp_path / "c.json").write_text('{"name": "c"')  # cut short
    assert run(steps, tmp_path, build="2") == ["passed", "failed", "c"]


def test_an_interrupted_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [python("print(1)", name="a"), python("print(2)", name="b")]
    whole = gpu_report.run_step

    def interrupted(step: Step, build: str) -> Result:
        if step.name == "b":
            raise KeyboardInterrupt
        return whole(step, build)

    monkeypatch.setattr(gpu_report, "run_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(steps, tmp_path)
    monkeypatch.undo()
    assert run(steps, tmp_path) == ["passed", "passed", "b"]


def test_the_report_has_every_step() -> None:
    steps = all_steps("python")
    names = [step.name for step in steps]
    assert len(set(names)) == len(names)
    assert {"versions", "chip", "tests", *gpu_report.TOOLS, "bench affine"} <= set(names)
    assert sum(step.seconds for step in steps) <= 40 * 60
    report = report_of([Result(n, "command", "passed", 1.5, f"of {n}", "1") for n in names])
    for name in names:
        assert f"| {name} | passed | 1.5 |" in report
        assert f"## {name}\n\n`command`: passed\n\n````text\nof {name}\n````" in report


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="torch sees no CUDA device"):
        gpu_report.main(["--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="no step is called racecheque"):
        gpu_report.main(["--out", str(tmp_path), "--only", "racecheque"])
