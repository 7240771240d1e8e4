"""One answer: every instruction set, thread count and device computes the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from backend_runs import assert_equal, every_backend, run
from box_iou_outputs import outputs

pytestmark = pytest.mark.slow

SCRIPT = "box_iou_outputs.py"


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    return run(SCRIPT, "default", 1, tmp_path_factory.mktemp("default"))


@every_backend
def test_same_bits(
    backend: str, threads: int, expected: dict[str, np.ndarray], tmp_path: Path
) -> None:
    if (backend, threads) != ("default", 1):
        assert_equal(run(SCRIPT, backend, threads, tmp_path), expected)
    assert len(expected) > 3000
    assert (
        np.mean([np.unique(v).size > 2 for v in expected.values()]) > 0.8
    )  # not where all boxes are one


@pytest.mark.cuda
def test_cuda_computes_the_same_bits(expected: dict[str, np.ndarray]) -> None:
    assert_equal(dict(outputs("cuda")), expected)
