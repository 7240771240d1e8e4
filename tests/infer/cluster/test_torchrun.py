"""`visops.infer` under torchrun: two ranks, one of which is killed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from visops.infer.store.manifest import read_manifest
from waiting import LIMIT

from infer.networks import (
    BATCH,
    convolutions,
    outputs,
    pipeline,
)

# TorchScript, torchvision's decoders and parts of Ray warn that they will be removed.
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

TESTS = Path(__file__).resolve().parents[2]
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


def test_torchrun_restarts_ranks_that_were_killed(job: tuple[Path, Path], tmp_path: Path) -> None:
    images, out = job
    pipeline().run(images, tmp_path / "one")
    marker = tmp_path / "killed"
    done = torchrun("--max-restarts=1", RANK, images, out, marker)
    assert done.returncode == 0, done.stderr
    assert marker.exists()
    assert outputs(out) == outputs(tmp_path / "one")


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
