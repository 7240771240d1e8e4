"""One answer: every instruction set, thread count and device gives the same bits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import visops
from affine_outputs import outputs

pytestmark = pytest.mark.slow

BACKENDS = visops.build_info()["cpu_available"]


def run(backend: str, threads: int, file: Path) -> dict[str, np.ndarray]:
    script = Path(__file__).with_name("affine_outputs.py")
    command = [sys.executable, str(script), str(file), str(threads)]
    finished = subprocess.run(
        command,
        env={**os.environ, "VISOPS_CPU": backend, "OMP_NUM_THREADS": str(threads)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    with np.load(file) as archive:
        return dict(archive)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    return run("default", 1, tmp_path_factory.mktemp("default") / "outputs.npz")


def assert_equal(actual: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert actual.keys() == expected.keys()
    differing = [name for name in expected if not np.array_equal(actual[name], expected[name])]
    assert not differing


# The emulation runs on one thread whatever it is told.
@pytest.mark.parametrize(
    ("backend", "threads"),
    [(b, t) for b in BACKENDS for t in (1, 2) if (b, t) != ("cuda_emulated", 2)],
)
def test_same_bits(
    backend: str, threads: int, expected: dict[str, np.ndarray], tmp_path: Path
) -> None:
    if (backend, threads) != ("default", 1):
        assert_equal(run(backend, threads, tmp_path / "outputs.npz"), expected)
    # That many cases, none of them empty or blank.
    assert len(expected) > 240
    assert all(
        len(np.unique(values)) > 1 for name, values in expected.items() if "bool" not in name
    )


@pytest.mark.cuda
def test_cuda_has_the_same_bits(expected: dict[str, np.ndarray]) -> None:
    assert_equal(dict(outputs("cuda")), expected)
