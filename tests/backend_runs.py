"""Scripts that write all of an operator's outputs, run once per backend and thread count."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import visops

# The emulation runs on one thread whatever it is told.
RUNS = [
    (backend, threads)
    for backend in visops.build_info()["cpu_available"]
    for threads in (1, 2)
    if (backend, threads) != ("cuda_emulated", 2)
]

every_backend = pytest.mark.parametrize(("backend", "threads"), RUNS)


def run(script: str, backend: str, threads: int, folder: Path) -> dict[str, np.ndarray]:
    """Run tests/`script`, which takes an .npz file to write and a number of threads."""
    file = folder / "outputs.npz"
    finished = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(script)), str(file), str(threads)],
        env={**os.environ, "VISOPS_CPU": backend, "OMP_NUM_THREADS": str(threads)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    with np.load(file) as archive:
        return dict(archive)


def assert_equal(actual: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert actual.keys() == expected.keys()
    differing = [name for name in expected if not np.array_equal(actual[name], expected[name])]
    assert not differing
