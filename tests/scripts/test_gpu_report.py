"""scripts/gpu_report: its steps end, their results are kept, and the page has them all."""

import ast
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gpu_report.__main__ as program
import pytest
import torch
from gpu_report import agree, steps
from gpu_report.plan import SCRIPTS, all_steps, cuda_tests, that_fit
from gpu_report.steps import ROOT, Result, Step, run_all, run_step

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups")

# What a wheel holds, as far as a report looks into it; and a torch that takes no time to import.
FAKE = {
    "torch/__init__.py": "from . import cuda\n__version__ = '2.0.7'\n",
    "torch/cuda.py": "def is_available():\n    return False\n",
    "visops/__init__.py": "def build_info(): return {'version': '0.0.7', 'cuda_built': BUILT}\n",
    "visops/__main__.py": "import visops; print('this is', visops.__file__)\n",
    "visops/lib/libvisops_cuda.so": "kernels",
}


def python(code: str, seconds: int = 60, name: str = "step", group: int = 0) -> Step:
    return Step(name, [sys.executable, "-c", code], seconds, group)


def run(given: list[Step], folder: Path, build: str = "1", again: bool = False) -> list[str]:
    """The statuses, and the names of the steps that ran."""
    said: list[str] = []
    results = run_all(given, folder, build, again, said.append)
    ran = [text.split(":")[0] for text in said if text.endswith("at most")]
    return [result.status for result in results] + ran


def plan(out: Path = Path("out"), device: str = "cuda") -> list[Step]:
    return all_steps(sys.executable, out, device, 2, 1.0)


def fake_wheel(folder: Path, built: str) -> Path:
    """A wheel of another version, built for a CUDA version or none."""
    wheel = folder / "visops-0.0.7-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as files:
        for name, text in FAKE.items():
            files.writestr(name, text.replace("BUILT", built))
    return wheel


# Steps


@pytest.mark.parametrize(
    ("code", "status"),
    [("print('well')", "passed"), ("print('badly'); raise SystemExit(3)", "failed")],
)
def test_how_a_step_ends(code: str, status: str) -> None:
    result = run_step(python(code), "1")
    assert result.status == status
    assert result.output.strip() in code
    assert result.output.strip()


def test_a_missing_program_is_no_failure() -> None:
    result = run_step(Step("check", ["no-such-program", "--version"], 5), "1")
    assert (result.status, result.output) == ("missing", "no-such-program is not installed")


def test_a_step_that_hangs_is_ended_with_its_children() -> None:
    """The child holds the pipe: without its end, the report would wait for it."""
    code = """
import subprocess, sys, time
print("began", flush=True)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
time.sleep(60)
"""
    began = time.monotonic()
    result = run_step(python(code, seconds=3), "1")
    assert time.monotonic() - began < 30
    assert (result.status, result.output.strip()) == ("timed out", "began")


def test_steps_that_have_ended_are_not_run_again(tmp_path: Path) -> None:
    given = [
        python("print(1)", name="a b", group=0),
        python("raise SystemExit(1)", name="c", group=1),
    ]
    assert run(given, tmp_path) == ["passed", "failed", "a b", "c"]
    assert run(given, tmp_path) == ["passed", "failed"]
    assert run(given, tmp_path, again=True) == ["passed", "failed", "a b", "c"]
    assert run(given, tmp_path, build="2") == ["passed", "failed", "a b", "c"]
    (tmp_path / "c.json").write_text('{"name": "c"')  # cut short
    assert run(given, tmp_path, build="2") == ["passed", "failed", "c"]


@pytest.mark.parametrize("group", [0, 1])
def test_an_interrupted_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int
) -> None:
    """Whether the second step comes after the first or runs beside it."""
    given = [python("print(1)", name="a"), python("print(2)", name="b", group=group)]
    whole = steps.run_step

    def interrupted(step: Step, build: str) -> Result:
        if step.name == "b":
            raise KeyboardInterrupt
        return whole(step, build)

    monkeypatch.setattr(steps, "run_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(given, tmp_path)
    monkeypatch.undo()
    assert run(given, tmp_path) == ["passed", "passed", "b"]


def test_steps_of_a_group_run_at_the_same_time(tmp_path: Path) -> None:
    """Each waits for the other."""
    code = """
import pathlib, time
pathlib.Path({own!r}).touch()
end = time.monotonic() + 30
while not pathlib.Path({other!r}).exists():
    assert time.monotonic() < end
    time.sleep(0.01)
"""
    positions = [str(tmp_path / name) for name in "ab"]
    pairs = zip(positions, reversed(positions), strict=True)
    given = [python(code.format(own=a, other=b), name=a[-1]) for a, b in pairs]
    assert run(given, tmp_path)[:2] == ["passed", "passed"]


# The plan


def test_the_first_groups_whose_limits_fit() -> None:
    limits = [(0, 30), (0, 60), (1, 60), (2, 100), (3, 1)]
    given = [python("", seconds, f"{group}, {seconds}", group) for group, seconds in limits]
    kept = {minutes: len(that_fit(given, minutes)) for minutes in (0.9, 1, 1.9, 2, 3, 3.7, 9)}
    # The last one would fit sooner, but a group that doesn't ends the list.
    assert kept == {0.9: 0, 1: 2, 1.9: 2, 2: 3, 3: 3, 3.7: 5, 9: 5}
    assert that_fit(given, 2) == given[:3]


def test_the_plan_names_files_that_exist() -> None:
    """Scripts and tests; and it knows no script but these."""
    words = {word for step in plan() for word in step.command if word.endswith(".py")}
    assert not [word for word in words if not Path(word).is_file()]
    scripts = {str(Path(w).relative_to(SCRIPTS)) for w in words if Path(w).is_relative_to(SCRIPTS)}
    assert scripts == {"gpu_report/agree.py", "bench/gpu.py"}


def test_the_plan_has_all_tests_for_gpus() -> None:
    """A mark in a module that others import would not be seen."""
    marked = set()
    for file in (ROOT / "tests").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if "cuda" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and node.attr == "cuda":
                owner = node.value
                if isinstance(owner, ast.Attribute) and owner.attr == "mark":
                    marked.add(str(file))
    assert len(marked) > 20
    assert marked <= set(cuda_tests())
    (tests,) = [step for step in plan() if step.name == "tests"]
    assert marked <= set(tests.command)


# The program


def test_a_wheel_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before what PYTHONPATH has, and before an installed visops."""
    (tmp_path / "earlier" / "visops").mkdir(parents=True)
    (tmp_path / "earlier" / "visops" / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "earlier"))
    program.put_on_path(fake_wheel(tmp_path, "None"), tmp_path / "out")
    assert os.environ["PYTHONPATH"].split(os.pathsep)[1:] == [str(tmp_path / "earlier")]
    result = run_step(Step("versions", [sys.executable, "-m", "visops"], 60), "1")
    assert result.output == f"this is {tmp_path / 'out' / 'site' / 'visops' / '__init__.py'}\n"


def test_a_rehearsal(tmp_path: Path) -> None:
    """The command itself, with a wheel whose version is soon printed; then it goes on."""
    command = [sys.executable, str(SCRIPTS / "gpu_report"), "--device", "cpu", "--share", "0.02"]
    command += ["--wheel", str(fake_wheel(tmp_path, "'13.0'")), "--only", "versions,chip"]
    command += ["--out", str(tmp_path / "out")]
    shown = []
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        shown.append(done.stdout)
    assert f"0.0.7 7 {hash_of_kernels()}, torch, 2.0.7, CPU" in shown[0]
    assert "versions: 60 s at most" in shown[0]
    assert "at most" not in shown[1]
    page = (tmp_path / "out" / "gpu_report.md").read_text(encoding="utf-8")
    assert "| versions | passed |" in page
    assert f"this is {tmp_path / 'out' / 'site'}" in page
    assert "## chip\n" in page
    assert "## tests\n" not in page


def hash_of_kernels() -> int:
    """Python's, without a seed."""
    code = "print(hash(b'kernels'))"
    variables = {**os.environ, "PYTHONHASHSEED": "0"}
    return int(subprocess.check_output([sys.executable, "-c", code], env=variables))


def test_the_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """1 where a step failed or took too long, not where a program is missing."""
    given = [
        python("print('fine')", name="good"),
        Step("missing", ["no-such-program"], 5, 1),
        python("raise SystemExit(1)", name="bad", group=2),
        python("import time; time.sleep(60)", 1, "slow", 3),
    ]
    monkeypatch.setattr(program, "all_steps", lambda *_: given)
    monkeypatch.setattr(program, "identity", lambda _: "1")
    out = ["--out", str(tmp_path)]
    assert program.main([*out, "--only", "good,missing"]) == 0
    assert program.main([*out, "--only", "bad"]) == 1
    assert program.main([*out, "--only", "slow"]) == 1
    assert capsys.readouterr().out.endswith(f"attach {tmp_path / 'gpu_report.md'}\n")
    with pytest.raises(SystemExit, match=r"^no step fits into 0\.2 minutes"):
        program.main([*out, "--minutes", "0.2"])  # a minute is the limit of the first


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"^torch sees no CUDA device"):
        program.main(["--out", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"^no step is called racecheque$"):
        program.main(["--out", str(tmp_path), "--only", "racecheque"])


def test_a_wheel_without_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "")  # restored at the end
    words = ["--device", "cpu", "--wheel", str(fake_wheel(tmp_path, "None"))]
    with pytest.raises(SystemExit, match=r"^visops was built without CUDA; see docs/building.md$"):
        program.main([*words, "--out", str(tmp_path / "out")])


# The comparison with the CPU


def test_agree_compares() -> None:
    """On the CPU alone, an operator agrees with itself."""
    command = [sys.executable, str(SCRIPTS / "gpu_report" / "agree.py"), "--device", "cpu"]
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
