"""The reference convolutions agree with each other, SciPy and the tutorial's example."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import references.conv as reference
from numpy.lib.stride_tricks import sliding_window_view
from scipy import ndimage, signal

Convolve = Callable[[np.ndarray, np.ndarray, Any], np.ndarray]

CONVOLUTIONS: dict[str, Convolve] = {
    "naive": reference.convolve_naive,
    "slices": reference.convolve_slices,
    "im2col_naive": partial(reference.convolve_im2col, im2col=reference.im2col_naive),
    "im2col_recursive": partial(
        reference.convolve_im2col, im2col=partial(reference.im2col_recursive, fall_back_dim=1)
    ),
}


@pytest.fixture(params=CONVOLUTIONS)
def convolve(request: pytest.FixtureRequest) -> Convolve:
    return CONVOLUTIONS[request.param]


def test_tutorial(convolve: Convolve) -> None:
    """A square of ones in a 7 x 7 image, and the 3 x 3 mean: sums that a reader can check."""
    data = np.zeros((7, 7))
    data[2:5, 2:5] = 1
    kernel = np.full((3, 3), 1 / 9)
    counted = np.array(
        [
            [0, 0, 0, 0, 0, 0, 0],
            [0, 1, 2, 3, 2, 1, 0],
            [0, 2, 4, 6, 4, 2, 0],
            [0, 3, 6, 9, 6, 3, 0],
            [0, 2, 4, 6, 4, 2, 0],
            [0, 1, 2, 3, 2, 1, 0],
            [0, 0, 0, 0, 0, 0, 0],
        ]
    )
    np.testing.assert_allclose(convolve(data, kernel, 0), counted / 9, rtol=1e-12)
    np.testing.assert_allclose(
        signal.convolve2d(data, kernel, mode="same"), counted / 9, rtol=1e-12
    )


@pytest.mark.parametrize("dtype", ["u1", "i2", "i8", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("kernel_shape", [(3, 3), (1, 1), (2, 4), (5, 2), (9, 3)])
def test_scipy(convolve: Convolve, kernel_shape: tuple[int, int], dtype: str) -> None:
    """Even sides, kernels larger than the image, integers that wrap, a border that isn't 0."""
    data = _numbers((7, 6), dtype)
    kernel = _numbers(kernel_shape, dtype)
    expected = signal.convolve2d(data, kernel, mode="same", fillvalue=3)
    found = convolve(data, kernel, 3)
    assert found.dtype == expected.dtype == np.dtype(dtype)
    if data.dtype.kind in "ui":
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_dtypes_meet(convolve: Convolve) -> None:
    found = convolve(_numbers((5, 5), "f4"), _numbers((3, 3), "i4"), 0)
    assert found.dtype == np.float64


@pytest.mark.parametrize("shape", [(6,), (5, 4), (4, 3, 5), (3, 2, 4, 3)])
@pytest.mark.parametrize("fall_back_dim", [0, 1, 2, 3])
def test_im2col(shape: tuple[int, ...], fall_back_dim: int) -> None:
    """Recursive, naive, and windows of a padded array, in one to four dimensions."""
    data = _numbers(shape, "i4")
    kernel_shape = (3, 2, 1, 3)[: data.ndim]
    naive = reference.im2col_naive(data, kernel_shape, -1)
    assert naive.shape == data.shape + kernel_shape
    windows = sliding_window_view(reference.padded(data, kernel_shape, -1), kernel_shape)
    np.testing.assert_array_equal(naive, windows)
    recursive = reference.im2col_recursive(data, kernel_shape, -1, fall_back_dim)
    np.testing.assert_array_equal(recursive, naive)


def test_im2col_strides() -> None:
    """Steps, holes and uneven borders, counted by hand."""
    data = np.arange(1, 7)
    found = reference.im2col_naive(data, (2,), 0, stride=[2], padding=[1, 2], dilation=[3])
    np.testing.assert_array_equal(found, [[0, 3], [2, 5], [4, 0]])
    image = _numbers((5, 7), "i4")
    found = reference.im2col_naive(image, (2, 3), 0, stride=[2, 1], padding=[0, 0, 0, 0])
    np.testing.assert_array_equal(found, sliding_window_view(image, (2, 3))[::2])


@pytest.mark.parametrize("shape", [(9,), (4, 5, 6)])
@pytest.mark.parametrize("name", ["slices", "im2col_naive", "im2col_recursive"])
def test_other_dimensions(name: str, shape: tuple[int, ...]) -> None:
    data, kernel = _numbers(shape, "f8"), _numbers((3, 2, 3)[: len(shape)], "f8")
    # ndimage has the centre of an even kernel at K // 2 before it is turned.
    origin = [(size - 1) // 2 - size // 2 for size in kernel.shape]
    expected = ndimage.convolve(data, kernel, mode="constant", cval=0.5, origin=origin)
    np.testing.assert_allclose(CONVOLUTIONS[name](data, kernel, 0.5), expected)


def _numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    kind = np.dtype(dtype)
    if kind.kind in "ui":
        info = np.iinfo(kind)
        return np.random.randint(max(info.min, -(2**40)), min(info.max, 2**40), shape).astype(kind)
    real = np.random.randn(*shape)
    return (real + 1j * np.random.randn(*shape) if kind.kind == "c" else real).astype(kind)
