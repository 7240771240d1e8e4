"""One answer: every instruction set, thread count and device, to the last bit of new scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from backend_runs import every_backend, run
from nms_variants_outputs import outputs

pytestmark = pytest.mark.slow

SCRIPT = "nms_variants_outputs.py"


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    return run(SCRIPT, "default", 1, tmp_path_factory.mktemp("default"))


def assert_same_bits(actual: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """Also the sign of a zero."""
    assert actual.keys() == expected.keys()
    differing = [
        name
        for name, array in expected.items()
        if (actual[name].dtype, actual[name].shape) != (array.dtype, array.shape)
        or actual[name].tobytes() != array.tobytes()
    ]
    assert not differing


@every_backend
def test_same_rows_and_scores(
    backend: str, threads: int, expected: dict[str, np.ndarray], tmp_path: Path
) -> None:
    if (backend, threads) != ("default", 1):
        assert_same_bits(run(SCRIPT, backend, threads, tmp_path), expected)
    # That many cases; those of one box have one result at most.
    assert len(expected) > 1200
    several = [v.shape[0] > 1 for name, v in expected.items() if "-1-" not in name]
    assert np.mean(several) > 0.8


@pytest.mark.cuda
def test_cuda_gives_the_same(expected: dict[str, np.ndarray]) -> None:
    assert_same_bits(dict(outputs("cuda")), expected)
