"""`visops.infer` on a Ray cluster of two nodes on this machine, with workers and nodes killed."""

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
from waiting import LIMIT

from infer.cluster.ray_stand_in import HAS_RAY
from infer.networks import (
    committed,
    make_white,
    outputs,
)

# TorchScript, torchvision's decoders and parts of Ray warn that they will be removed.
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not HAS_RAY, reason="ray[data] is not installed"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

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
