"""One answer: every instruction set, thread count and device keeps the same boxes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from backend_runs import assert_equal, every_backend, run
from nms_outputs import outputs

pytestmark = pytest.mark.slow

SCRIPT = "nms_outputs.py"


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    return run(SCRIPT, "default", 1, tmp_path_factory.mktemp("default"))


@every_backend
def test_same_boxes(
    backend: str, threads: int, expected: dict[str, np.ndarray], tmp_path: Path
) -> None:
    if (backend, threads) != ("default", 1):
        assert_equal(run(SCRIPT, backend, threads, tmp_path), expected)
    # That many cases; boxes of one box each have one result at most.
    assert len(expected) > 700
    several = [v.shape[0] > 1 for name, v in expected.items() if not name.endswith("-1")]
    assert np.mean(several) > 0.7


@pytest.mark.cuda
def test_cuda_keeps_the_same_boxes(expected: dict[str, np.ndarray]) -> None:
    assert_equal(dict(outputs("cuda")), expected)
