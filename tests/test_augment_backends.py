"""One answer: every instruction set, thread count and device gives the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from augment_outputs import outputs
from backend_runs import assert_equal, every_backend, run

pytestmark = pytest.mark.slow

SCRIPT = "augment_outputs.py"


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    return run(SCRIPT, "default", 1, tmp_path_factory.mktemp("default"))


@every_backend
def test_same_bits(
    backend: str, threads: int, expected: dict[str, np.ndarray], tmp_path: Path
) -> None:
    if (backend, threads) != ("default", 1):
        assert_equal(run(SCRIPT, backend, threads, tmp_path), expected)
    # That many cases, none of them empty or blank. Nearest has no gradient to the matrix.
    assert len(expected) > 450
    assert all(
        len(np.unique(values)) > 1
        for name, values in expected.items()
        if "nearest" not in name or not name.endswith("matrix")
    )


@pytest.mark.cuda
def test_cuda_has_the_same_bits(expected: dict[str, np.ndarray]) -> None:
    assert_equal(dict(outputs("cuda")), expected)
