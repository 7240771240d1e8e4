"""Loaders that begin at the same time and share what is made on first use."""

import subprocess
import sys

from .race import BATCH, COUNT, LOADERS, ROUNDS

CASES = 5


def test_loaders_that_begin_together() -> None:
    """In a process of its own, with frequent switches of threads."""
    program = [sys.executable, "-m", "transforms.loader.race"]
    tests = __file__.rpartition("/transforms/")[0]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, cwd=tests)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{ROUNDS * CASES * LOADERS * COUNT // BATCH} equal\n"
