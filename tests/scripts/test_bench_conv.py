"""The cases of scripts/bench/conv.py: contenders do the same job, and would be caught if not."""

import numpy as np
import pytest

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
