"""The cases of scripts/bench/conv.py: contenders do the same job, and would be caught if not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

for package in ("cv2", "scipy", "tqdm"):
    pytest.importorskip(package)

from bench.conv import all_cases  # noqa: E402
from bench.convolution import images  # noqa: E402
from bench.harness import Case  # noqa: E402

from scripts.bench_contenders import check_contenders  # noqa: E402

CASES = [case for case in all_cases() if case.quick and case.device == "cpu"]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures of a size that takes no time."""
    monkeypatch.setattr(images, "HEIGHT", 108)
    monkeypatch.setattr(images, "WIDTH", 192)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.key)
def test_contenders_agree(case: Case) -> None:
    check_contenders(case)


@pytest.mark.parametrize("dtype", images.DTYPES)
@pytest.mark.parametrize("side", [3, 7, 15, 51])
def test_kernels_are_dense(dtype: str, side: int) -> None:
    """OpenCV skips zeros, and `auto` separates: neither may make a row easier than it looks."""
    image, kernel = images.numbers(dtype, 60, 80, side)
    assert image.dtype == kernel.dtype == np.dtype(dtype)
    assert (kernel != 0).all()
    assert np.linalg.matrix_rank(kernel.astype("c16" if dtype == "complex64" else "f8")) > 1
    if dtype == "uint8" and side in images.SATURATED:
        assert int(image.max()) * int(kernel.astype(np.int64).sum()) <= 255


def test_groups_are_tables() -> None:
    """A table's rows come one after another, and its first has all columns."""
    keys = [case.key for case in all_cases()]
    assert len(set(keys)) == len(keys)
    groups = [(case.device, case.group) for case in all_cases()]
    runs = [group for group, _ in itertools.groupby(groups)]
    assert len(set(runs)) == len(runs)
    assert all(len(case.label) <= 32 for case in all_cases())


@pytest.mark.usefixtures("restored_threads")
def test_threads_of_slow_peers() -> None:
    """SciPy has one thread: it is in the rows of one."""
    for count in (1, 2):
        torch.set_num_threads(count)
        names = [contender.name for contender in images.allocating("float32", 3)]
        assert ("SciPy" in names) == (count == 1)
