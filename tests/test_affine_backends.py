"""One answer: every instruction set, thread count and device gives the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from affine_outputs import outputs
from backend_runs import assert_equal, every_backend, run

pytestmark = pytest.mark.slow

SCRIPT = "affine_outputs.py"


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    return run(SCRIPT, "default", 1, tmp_path_factory.mktemp("default"))


@every_backend
def test_same_bits(
    backend: str, threads: int, expected: dict[str, np.ndarray], tmp_path: Path
) -> None:
    if (backend, threads) != ("default", 1):
        assert_equal(run(SCRIPT, backend, threads, tmp_path), expected)
    # That many cases, none of them empty or blank.
    assert len(expected) > 240
    assert all(
        len(np.unique(values)) > 1 for name, values in expected.items() if "bool" not in name
    )


@pytest.mark.cuda
def test_cuda_has_the_same_bits(expected: dict[str, np.ndarray]) -> None:
    assert_equal(dict(outputs("cuda")), expected)
