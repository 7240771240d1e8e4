"""Steps of a report: commands with a time limit, whose results are kept as soon as they end."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEPT_CHARACTERS = 60_000  # of a step's output: its end, where the summary is


@dataclass(frozen=True)
class Step:
    """A command, how long it may take, and in which group of steps it runs."""

    name: str
    command: list[str]
    seconds: int
    group: int = 0  # steps of one group run at the same time
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """How a step ended: passed, failed, timed out, or missing (a program that isn't there)."""

    name: str
    command: str
    status: str
    seconds: float
    output: str
    build: str  # what it was run on


running: list[subprocess.Popen[str]] = []  # of steps that have not ended


def run_step(step: Step, build: str) -> Result:
    """Run a step; end it and every process that it started when its time is up."""
    line = " ".join(step.command)
    if shutil.which(step.command[0]) is None:
        return Result(step.name, line, "missing", 0.0, f"{step.command[0]} is not installed", build)
    began = time.monotonic()
    process = subprocess.Popen(
        step.command,
        cwd=ROOT,
        env={**os.environ, **step.variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    running.append(process)
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
    finally:
        running.remove(process)
    seconds = time.monotonic() - began
    ended = "failed" if process.returncode else "passed"
    status = "timed out" if timed_out else ended
    return Result(step.name, line, status, round(seconds, 1), output[-KEPT_CHARACTERS:], build)


def run_all(
    steps: Iterable[Step], folder: Path, build: str, again: bool, tell: Callable[[str], None]
) -> list[Result]:
    """Run the steps that have no result of this build in `folder` yet; return all results."""
    folder.mkdir(parents=True, exist_ok=True)

    def one(step: Step) -> Result:
        file = folder / f"{step.name.replace(' ', '_')}.json"
        result = None if again else read_result(file, build)
        if result is None:
            tell(f"{step.name}: {step.seconds} s at most")
            result = run_step(step, build)
            unfinished = file.with_suffix(".part")
            unfinished.write_text(json.dumps(asdict(result), indent=1), encoding="utf-8")
            unfinished.replace(file)
        tell(f"{step.name}: {result.status}, {result.seconds} s")
        return result

    groups: dict[int, list[Step]] = {}
    for step in steps:
        groups.setdefault(step.group, []).append(step)
    results: list[Result] = []
    for _, group in sorted(groups.items()):
        if len(group) == 1:
            results.append(one(group[0]))
            continue
        with ThreadPoolExecutor(len(group)) as pool:
            try:
                results += pool.map(one, group)
            except BaseException:  # interrupted: the pool would wait for all of them
                for process in running:
                    os.killpg(process.pid, signal.SIGKILL)
                raise
    return results


def read_result(file: Path, build: str) -> Result | None:
    """A step's earlier result, if it is of this build and whole."""
    try:
        result = Result(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return result if result.build == build else None


def report_of(results: Sequence[Result]) -> str:
    """One page: a table, then each step's output."""
    text = "# visops on a GPU\n\n| step | ended | seconds |\n|-|-|-|\n"
    for r in results:
        text += f"| {r.name} | {r.status} | {r.seconds} |\n"
    for r in results:
        text += (
            f"\n## {r.name}\n\n`{r.command}`: {r.status}\n\n````text\n{r.output.strip()}\n````\n"
        )
    return text
