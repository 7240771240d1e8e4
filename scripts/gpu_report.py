"""Runs everything that needs a GPU, with a time limit for each step, into one file to attach.

    python scripts/gpu_report.py                  # or: make gpu-report
    python scripts/gpu_report.py --only racecheck --again

Steps that have ended are kept in --out: a run that was interrupted goes on with the next one. They
are run again where the build or the chip has changed, and with --again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
KEPT_CHARACTERS = 20_000  # of a step's output: its end, where the summary is
NO_CASES = "no case matches"  # what a benchmark without cases on CUDA prints


@dataclass(frozen=True)
class Step:
    """A command, and how long it may take."""

    name: str
    command: list[str]
    seconds: int


@dataclass(frozen=True)
class Result:
    """How a step ended: passed, failed, timed out, or missing (a program that isn't there)."""

    name: str
    command: str
    status: str
    seconds: float
    output: str
    build: str  # what it was run on


def all_steps(python: str) -> list[Step]:
    """Every step, in the order of what a reader wants first. 40 minutes at most."""
    pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "cuda and not cluster"]
    benchmarks = sorted(p for p in (ROOT / "scripts" / "bench").glob("*.py") if is_benchmark(p))
    of_each = 720 // len(benchmarks)
    quick = ["--filter", "cuda", "--quick", "--no-memory"]
    return [
        Step("versions", [python, "-m", "visops"], 60),
        Step("chip", ["nvidia-smi"], 60),
        Step("tests", pytest, 480),
        *(
            Step(tool, ["compute-sanitizer", "--tool", tool, "--error-exitcode", "1", *pytest], 240)
            for tool in TOOLS
        ),
        *(Step(f"bench {p.stem}", [python, str(p), *quick], of_each) for p in benchmarks),
        Step("object code", [python, str(ROOT / "scripts" / "cuda_report")], 60),
    ]


def is_benchmark(path: Path) -> bool:
    """Whether a script times an operator: not the plots, nor inference on a folder of photos."""
    return path.stem not in ("plot", "infer")


def run_step(step: Step, build: str) -> Result:
    """Run a step; end it and every process that it started when its time is up."""
    line = " ".join(step.command)
    if shutil.which(step.command[0]) is None:
        return Result(step.name, line, "missing", 0.0, f"{step.command[0]} is not installed", build)
    began = time.monotonic()
    process = subprocess.Popen(
        step.command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    timed_out = False
    try:
        output, _ = process.communicate(timeout=step.seconds)
    except subprocess.TimeoutExpired:
        timed_out = True
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
    except BaseException:  # interrupted: leave nothing behind
        os.killpg(process.pid, signal.SIGKILL)
        raise
    seconds = time.monotonic() - began
    if timed_out:
        status = "timed out"
    elif process.returncode == 0 or NO_CASES in output:
        status = "passed"
    else:
        status = "failed"
    return Result(step.name, line, status, round(seconds, 1), output[-KEPT_CHARACTERS:], build)


def run_all(
    steps: Iterable[Step], folder: Path, build: str, again: bool, tell: Callable[[str], None]
) -> list[Result]:
    """Run the steps that have no result of this build in `folder` yet; return all results."""
    folder.mkdir(parents=True, exist_ok=True)
    results = []
    for step in steps:
        file = folder / f"{step.name.replace(' ', '_')}.json"
        result = None if again else read_result(file, build)
        if result is None:
            tell(f"{step.name}: {step.seconds} s at most")
            result = run_step(step, build)
            unfinished = file.with_suffix(".part")
            unfinished.write_text(json.dumps(asdict(result), indent=1), encoding="utf-8")
            unfinished.replace(file)
        tell(f"{step.name}: {result.status}, {result.seconds} s")
        results.append(result)
    return results


def read_result(file: Path, build: str) -> Result | None:
    """A step's earlier result, if it is of this build and whole."""
    try:
        result = Result(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return result if result.build == build else None


def report_of(results: Sequence[Result]) -> str:
    """The file to attach: a table, then each step's output."""
    text = "# visops on a GPU\n\n| step | ended | seconds |\n|-|-|-|\n"
    for r in results:
        text += f"| {r.name} | {r.status} | {r.seconds} |\n"
    for r in results:
        text += (
            f"\n## {r.name}\n\n`{r.command}`: {r.status}\n\n````text\n{r.output.strip()}\n````\n"
        )
    return text


def current_build() -> str:
    """What results depend on: the build, torch and the chip. Raises without a GPU."""
    import torch
    import visops

    if not torch.cuda.is_available():
        raise SystemExit("torch sees no CUDA device; a report needs one")
    info = visops.build_info()
    if not info["cuda_built"]:
        raise SystemExit("visops was built without CUDA; see docs/building.md")
    library = Path(visops.__file__).parent / "lib" / "libvisops_cuda.so"
    changed = library.stat().st_mtime_ns
    return f"{info['version']} {changed}, torch {torch.__version__}, {torch.cuda.get_device_name()}"


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 1 if a step failed or took too long."""
    parser = argparse.ArgumentParser("gpu_report.py", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "gpu_report")
    parser.add_argument("--only", default="", help="steps whose name contains this")
    parser.add_argument("--again", action="store_true", help="run steps that have ended, too")
    arguments = parser.parse_args(words)
    steps = [step for step in all_steps(sys.executable) if arguments.only in step.name]
    if not steps:
        raise SystemExit(f"no step is called {arguments.only}")
    tell = lambda text: print(text, flush=True)  # noqa: E731
    results = run_all(steps, arguments.out, current_build(), arguments.again, tell)
    file = arguments.out / "gpu_report.md"
    file.write_text(report_of(results), encoding="utf-8")
    print(f"attach {file}")
    return 1 if any(r.status in ("failed", "timed out") for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
