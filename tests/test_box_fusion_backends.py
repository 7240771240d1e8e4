"""One answer: every instruction set, thread count and device fuses to the same boxes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from backend_runs import assert_equal, every_backend, run
from box_fusion_outputs import outputs

pytestmark = pytest.mark.slow

SCRIPT = "box_fusion_outputs.py"


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    return run(SCRIPT, "default", 1, tmp_path_factory.mktemp("default"))


@every_backend
def test_same_bits(
    backend: str, threads: int, expected: dict[str, np.ndarray], tmp_path: Path
) -> None:
    if (backend, threads) != ("default", 1):
        assert_equal(run(SCRIPT, backend, threads, tmp_path), expected)
    # That many cases, most of them with results.
    assert len(expected) > 400
    assert np.mean([v.size > 0 for v in expected.values()]) > 0.7


@pytest.mark.cuda
def test_same_bits_on_cuda(expected: dict[str, np.ndarray]) -> None:
    assert_equal(dict(outputs("cuda")), expected)
