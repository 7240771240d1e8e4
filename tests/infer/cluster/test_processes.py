"""`visops.infer` on a Ray cluster of two nodes and under torchrun, with processes killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from visops.infer.store.manifest import read_manifest
from waiting import LIMIT

from infer.cluster.ray_stand_in import HAS_RAY
from infer.networks import (
    BATCH,
    committed,
    convolutions,
    make_white,
    outputs,
    pipeline,
)

TESTS = Path(__file__).resolve().parents[2]


def on_cluster(kind: str, images: Path, out: Path) -> dict[str, Any]:
    """Run `ray_run.py`, which starts its own cluster; return what it prints."""
    # Ray's sockets lie in it, and their paths have at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as short:
        environ = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
            "RAY_TMPDIR": short,
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        process = subprocess.Popen(
            [sys.executable, TESTS / "infer" / "cluster" / "ray_run.py", kind, images, out],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            said, errors = process.communicate(timeout=LIMIT)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert process.returncode == 0, errors[-4000:]
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


@pytest.mark.cluster
@pytest.mark.skipif(not HAS_RAY, reason="ray[data] is not installed")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("kind", ["worker", "node"])
def test_killed_in_the_middle(
    kind: str, job: tuple[Path, Path], expected: dict[str, bytes]
) -> None:
    images, out = job
    found = on_cluster(kind, images, out)
    assert found["killed"], f"no {kind} was killed"
    assert found["alive"] == (2 if kind == "worker" else 1)
    assert found["arenas"] == ("1" if kind == "worker" else None)
    assert outputs(out) == expected
    assert sorted(committed(out)) == list(range(11)), "each batch is committed exactly once"
    assert (found["exit"], found["done"], found["pending"]) == (0, 43, 0)
    assert [found["images"][stage] for stage in ("decode", "models", "write")] == [43] * 3


@pytest.mark.cluster
@pytest.mark.skipif(not HAS_RAY, reason="ray[data] is not installed")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_batch_that_kills_every_worker_does_not_end_other_batches(job: tuple[Path, Path]) -> None:
    images, out = job
    make_white(images / "1" / "004.png")
    found = on_cluster("batch", images, out)
    (kills,) = (
        batch["batch"]
        for batch in map(json.loads, (out / "plan.jsonl").read_text().splitlines()[1:])
        if "1/004.png" in batch["inputs"]
    )
    assert (
        f"stage models, batch {kills}: RuntimeError: every worker that began it has"
        in (found["error"])
    )
    assert sorted([*committed(out), kills]) == list(range(11))


RANK = TESTS / "infer" / "cluster" / "rank_run.py"


def torchrun(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run two ranks of a script, or of a module after -m."""
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    environ["PYTHONPATH"] = os.pathsep.join([str(TESTS), environ.get("PYTHONPATH", "")])
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    return subprocess.run(
        [*launcher, *map(str, arguments)],
        env=environ,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_rank_killed_in_the_middle_and_resumed(job: tuple[Path, Path], tmp_path: Path) -> None:
    images, out = job
    pipeline().run(images, tmp_path / "one")
    marker = tmp_path / "killed"
    first = torchrun(RANK, images, out, marker)
    assert first.returncode != 0, first.stderr
    assert marker.exists()
    left = read_manifest(str(out / "manifest.rank-00001.jsonl"))
    assert len(left) < 5, "rank 1 has done its whole share of 5 batches"
    assert not (out / "results.jsonl").exists()

    second = torchrun(RANK, images, out)
    assert second.returncode == 0, second.stderr
    assert outputs(out) == outputs(tmp_path / "one")
    commits = [
        json.loads(line)["batch"]
        for path in out.glob("manifest*.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert sorted(commits) == list(range(11)), "each batch is done exactly once"


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_torchrun_restarts_ranks_that_were_killed(job: tuple[Path, Path], tmp_path: Path) -> None:
    images, out = job
    pipeline().run(images, tmp_path / "one")
    marker = tmp_path / "killed"
    done = torchrun("--max-restarts=1", RANK, images, out, marker)
    assert done.returncode == 0, done.stderr
    assert marker.exists()
    assert outputs(out) == outputs(tmp_path / "one")


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_command_under_torchrun(job: tuple[Path, Path], tmp_path: Path) -> None:
    images, out = job
    torch.jit.script(convolutions().eval()).save(tmp_path / "small.ts")
    options = ["--images", images, "--models", tmp_path / "small.ts", "--batch-size", BATCH]
    options += ["--size", 32, "--workers", 0, "--no-progress"]
    from visops.infer.command import main

    assert main([*map(str, options), "--out", str(tmp_path / "one")]) == 0
    done = torchrun("-m", "visops.infer", *options, "--out", out)
    assert done.returncode == 0, done.stderr
    assert outputs(out) == outputs(tmp_path / "one")
    assert {path.name for path in out.glob("manifest*")} == {
        "manifest.rank-00000.jsonl",
        "manifest.rank-00001.jsonl",
    }
