"""Memory of pasting: nothing but the result."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench.harness import memory

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
NOISE = 1 << 20
MEASURE = """
import torch, visops
from bench.harness import Contender, memory

masks, boxes = torch.rand(16, 28, 28), torch.tensor([[0.0, 0.0, 600.0, 400.0]]).repeat(16, 1)

def paste(out):
    return lambda: visops.paste_masks(masks, boxes, (400, 600), out=out)

def contenders():
    forms = [Contender(out, paste(out)) for out in ("bool", "uint8", "packed", "float")]
    return [*forms, Contender("numbers first", lambda: paste("float")() >= 0.5)]

memory.child([("paste", "cpu", contenders)])
"""


def test_results_are_all_that_is_stored() -> None:
    if not memory.supported():
        pytest.skip("the peak of a process's memory can't be reset here")
    done = subprocess.run(
        [sys.executable, "-c", MEASURE],
        env={
            **os.environ,
            **memory.ENVIRONMENT,
            "PYTHONPATH": os.pathsep.join([str(SCRIPTS), os.environ.get("PYTHONPATH", "")]),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    extra = json.loads(done.stdout.splitlines()[-1])
    for out in ("bool", "uint8", "packed", "float"):
        assert extra[f"paste/{out}"] == 0, out
    # The measurement would have seen a copy as numbers.
    assert extra["paste/numbers first"] > 16 * 400 * 600 * 4 - NOISE
