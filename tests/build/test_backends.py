"""One answer: every instruction set, thread count and device gives the same bits.

What is compared is in the modules named *_outputs.py: `outputs(device)` has the names and values of
everything that an operator's kernels decide, `check(found)` says what makes their equality mean
something.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build.backend_runs import assert_same_bits, every_backend, run

pytestmark = pytest.mark.slow

TESTS = Path(__file__).resolve().parents[1]
MODULES = sorted(f"{file.parent.name}.{file.stem}" for file in TESTS.glob("*/*_outputs.py"))


@pytest.fixture(scope="module", params=MODULES)
def module(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def expected(module: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    return run(module, "default", 1, tmp_path_factory.mktemp("default"))


def test_there_are_modules() -> None:
    assert len(MODULES) >= 7


def test_outputs_mean_something(module: str, expected: dict[str, np.ndarray]) -> None:
    importlib.import_module(module).check(expected)


@every_backend
def test_same_bits(
    module: str, backend: str, threads: int, expected: dict[str, np.ndarray], tmp_path: Path
) -> None:
    assert_same_bits(run(module, backend, threads, tmp_path), expected)


@pytest.mark.cuda
def test_same_bits_on_cuda(module: str, expected: dict[str, np.ndarray]) -> None:
    outputs: Any = importlib.import_module(module).outputs
    assert_same_bits(dict(outputs("cuda")), expected)
