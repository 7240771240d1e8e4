"""Runs a module of outputs in a process of its own, for a backend and a thread count.

VISOPS_CPU=avx2 python tests/build/backend_runs.py nms_outputs OUTPUT.npz THREADS
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import visops

# The emulation runs on one thread whatever it is told. ("default", 1) is what others are compared
# with.
RUNS = [
    (backend, threads)
    for backend in visops.build_info()["cpu_available"]
    for threads in (1, 2)
    if (backend, threads) not in (("default", 1), ("cuda_emulated", 2))
]

every_backend = pytest.mark.parametrize(("backend", "threads"), RUNS)


def run(module: str, backend: str, threads: int, folder: Path) -> dict[str, np.ndarray]:
    """Return what the module's `outputs()` gives there."""
    file = folder / "outputs.npz"
    finished = subprocess.run(
        [sys.executable, "-m", "build.backend_runs", module, str(file), str(threads)],
        cwd=Path(__file__).resolve().parents[1],
        env={**os.environ, "VISOPS_CPU": backend, "OMP_NUM_THREADS": str(threads)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    with np.load(file) as archive:
        return dict(archive)


def assert_same_bits(actual: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """Also signs of zeros, dtypes and shapes."""
    assert actual.keys() == expected.keys()
    differing = [
        name
        for name, array in expected.items()
        if (actual[name].dtype, actual[name].shape) != (array.dtype, array.shape)
        or actual[name].tobytes() != array.tobytes()
    ]
    assert not differing


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[3]))
    np.savez(sys.argv[2], **dict(importlib.import_module(sys.argv[1]).outputs()))
