"""The fill element: checks of the operators that take one."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.signal
import torch
import visops
from bad_input import check
from torch import Tensor

OPS = torch.ops.visops
INPUT = torch.ones(6, 7)

Call = Callable[[Tensor, Tensor | None], Any]


def convolve2d(input: Tensor, fill: Tensor | None, boundary: str = "fill") -> Any:
    kernel = torch.ones(3, 3, device=input.device)
    return OPS.convolve2d(input, kernel, [0, 0], [6, 7], boundary, fill, True)


def convolve2d_backward_kernel(input: Tensor, fill: Tensor | None, boundary: str = "fill") -> Any:
    return OPS.convolve2d_backward_kernel(input, input, [3, 3], [1, 1], boundary, fill, True, True)


def im2col(input: Tensor, fill: Tensor | None) -> Any:
    return OPS.im2col(input, [3, 3], [1, 1], [1] * 4, [1, 1], fill)


def of_calls(*calls: Call) -> Any:
    return pytest.mark.parametrize("call", calls, ids=lambda call: call.__name__)


@of_calls(convolve2d, convolve2d_backward_kernel, im2col)
def test_one_element_of_the_input_dtype(call: Call) -> None:
    op = call.__name__
    for fill, message in (
        (torch.ones(2), "fill has shape [2], must be one element"),
        (torch.ones(1, dtype=torch.float64), "fill has dtype float64, input has float32"),
    ):
        check(RuntimeError, f"{op}: {message}", partial(call, INPUT, fill))
    for device in ("cpu", "meta"):
        for taken in (None, torch.ones(1), torch.ones(())):
            assert call(INPUT.to(device), taken).device.type == device


@of_calls(convolve2d, convolve2d_backward_kernel)
def test_boundary_that_takes_a_fill(call: Any) -> None:
    check(
        RuntimeError,
        f"{call.__name__}: fill is given, boundary must be 'fill'",
        lambda: call(INPUT, torch.ones(1), "wrap"),
    )


@of_calls(convolve2d, convolve2d_backward_kernel, im2col)
def test_meta_fill_needs_a_meta_input(call: Call) -> None:
    fill = torch.ones(1, device="meta")
    assert call(INPUT.to("meta"), fill).is_meta
    check(
        RuntimeError,
        f"{call.__name__}: fill is on meta, must be on cpu",
        lambda: call(INPUT, fill),
    )


@pytest.mark.parametrize("function", ["convolve2d", "correlate2d"])
@pytest.mark.parametrize("fill", [math.inf, -math.inf, math.nan], ids=str)
@pytest.mark.parametrize("kernel", [(0, 0), (0, 2), (3, 0)], ids=str)
def test_sums_over_an_empty_kernel_are_zero(
    kernel: tuple[int, int], fill: float, function: str
) -> None:
    image, empty = np.ones((4, 5)), np.ones(kernel)
    for mode in ("full", "same"):
        wanted = getattr(scipy.signal, function)(image, empty, mode, "fill", fill)
        for method in ("auto", "direct", "im2col", "fft"):
            found = getattr(visops, function)(image, empty, mode, "fill", fill, method=method)
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("fill", [-3, math.nan, 1j, 300], ids=str)
@pytest.mark.parametrize("boundary", ["symm", "wrap"])
def test_a_fill_that_is_not_used_may_be_any_number(boundary: str, fill: complex) -> None:
    image = np.arange(12, dtype=np.uint8).reshape(3, 4)
    found = visops.convolve2d(image, image[:2, :3], "same", boundary, fill)
    wanted = scipy.signal.convolve2d(image, image[:2, :3], "same", boundary, fill)
    np.testing.assert_array_equal(found, wanted)
    with pytest.raises(ValueError, match=r"^visops\.convolve2d: fillvalue is "):
        visops.convolve2d(image, image, "same", "fill", fill)
    with pytest.raises(TypeError, match=r"^visops\.convolve2d: fillvalue is 'a', must be a number"):
        visops.convolve2d(image, image, "same", boundary, "a")


@pytest.mark.parametrize("code", ["L", "Q", "l", "q"])
def test_both_of_c_s_integers_of_64_bits(code: str) -> None:
    """NumPy keeps `long` and `long long` apart; torch knows one of them."""
    array = np.array([[1, 2], [3, 4]], dtype=code)
    array[0, 0] = np.iinfo(code).max
    usual = array.astype(np.uint64 if array.dtype.kind == "u" else np.int64)
    found = visops.convolve2d(array, array)
    np.testing.assert_array_equal(found, scipy.signal.convolve2d(array, array))
    np.testing.assert_array_equal(visops.im2col(array, 2), visops.im2col(usual, 2))
    array.flags.writeable = False
    np.testing.assert_array_equal(visops.im2col(array, 2), visops.im2col(usual, 2))
