"""Bad input of convolve2d and correlate2d: each row is an input and the message for it."""

from typing import Any

import numpy as np
import torch
import visops
from bad_input import Call, check, table


def call(*arguments: Any, **keywords: Any) -> Call:
    return lambda: visops.convolve2d(*arguments, **keywords)


def correlation(*arguments: Any, **keywords: Any) -> Call:
    return lambda: visops.correlate2d(*arguments, **keywords)


def ones(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.ones(shape, dtype)


A, K = ones(5, 6), ones(3, 3)
T, TK = torch.ones(5, 6), torch.ones(3, 3)
SEPARABLE = "convolve2d: method is 'separable', "


@table(
    (
        ValueError,
        "convolve2d: mode is 'Full', must be 'full', 'same' or 'valid'",
        call(A, K, "Full"),
    ),
    (
        ValueError,
        "correlate2d: mode is 1, must be 'full', 'same' or 'valid'",
        correlation(T, TK, 1),
    ),
    (ValueError, "convolve2d: mode is [], must be 'full'", call(A, K, [])),
    (
        ValueError,
        "convolve2d: boundary is 'reflect', must be 'fill' (or 'pad'), 'wrap' (or 'circular') or "
        "'symm' (or 'symmetric')",
        call(A, K, boundary="reflect"),
    ),
    (ValueError, "convolve2d: boundary is None, must be", call(T, TK, boundary=None)),
    (
        ValueError,
        "convolve2d: method is 'winograd', must be 'auto', 'direct', 'im2col', 'fft' or "
        "'separable'",
        call(A, K, method="winograd"),
    ),
    (ValueError, "convolve2d: method is 3, must be", call(A, K, method=3)),
    (
        TypeError,
        "convolve2d: explain is True, must be callable, for example print",
        call(A, K, explain=True),
    ),
)
def test_words(error: type[Exception], message: str, call: Call) -> None:
    check(error, message, call)


@table(
    (
        ValueError,
        "convolve2d: in1 has shape [6], must be [..., height, width]",
        call(A[0], K),
    ),
    (ValueError, "correlate2d: in2 has shape [], must be [..., h", correlation(T, TK[0, 0])),
    (
        ValueError,
        "convolve2d: in2 has shape [3, 3, 3], dimensions before the last two must broadcast with "
        "those of in1, [2, 5, 6]",
        call(ones(2, 5, 6), ones(3, 3, 3)),
    ),
    (
        ValueError,
        "convolve2d: in1 has shape [5, 6] and in2 [6, 5], for mode 'valid' one must be at least as "
        "large as the other in both of the last dimensions",
        call(A, ones(6, 5), "valid"),
    ),
    (
        ValueError,
        "convolve2d: in1 has shape [0, 6] and in2 [0, 3], one of them must have elements for mode "
        "'full'",
        call(ones(0, 6), ones(0, 3)),
    ),
    (
        ValueError,
        "convolve2d: in1 has shape [0, 6] and in2 [3, 3], an image without elements can't be "
        "continued with boundary 'wrap'",
        call(ones(0, 6), K, boundary="circular"),
    ),
)
def test_shapes(error: type[Exception], message: str, call: Call) -> None:
    check(error, message, call)


@table(
    (
        TypeError,
        "convolve2d: in1 is a list, must be a torch.Tensor or a numpy.ndarray",
        call([[1.0]], K),
    ),
    (
        TypeError,
        "convolve2d: in2 is a Tensor, must be a numpy.ndarray, as in1 is",
        call(A, TK),
    ),
    (TypeError, "convolve2d: in2 is a ndarray, must be a torch.Tensor or", call(T, K)),
    (TypeError, "convolve2d: device is for arrays; move tensors with", call(T, TK, device="cpu")),
    (
        ValueError,
        "convolve2d: in1 has dtype bool and in2 bool, the result's dtype would be bool; must be",
        call(ones(5, 5, dtype=bool), ones(3, 3, dtype=bool)),
    ),
    (
        ValueError,
        "convolve2d: in1 has dtype float16 and in2 float16, the result's dtype would be float16",
        call(ones(5, 5, dtype=np.float16), ones(3, 3, dtype=np.float16)),
    ),
    (
        ValueError,
        "convolve2d: in1 has dtype object and in2 float32, must be integers, float32, float64",
        call(ones(5, 5, dtype=object), K),
    ),
    (
        ValueError,
        "convolve2d: in1 has dtype float32 and in2 <U1, must be integers",
        call(A, np.array([["a"]])),
    ),
    (
        TypeError,
        "convolve2d: in1 has dtype float32 and in2 float128, must be integers, float32, float64, "
        "complex64 or complex128: there is no torch dtype of that precision",
        call(A, ones(3, 3, dtype=np.longdouble)),
    ),
    (
        TypeError,
        "convolve2d: in1 has dtype complex256 and in2 float32, must",
        call(ones(5, 5, dtype=np.clongdouble), K),
    ),
    (
        ValueError,
        "correlate2d: in1 has dtype bool and in2 bool, the result's dtype would be bool; must be "
        "an integer, float16, bfloat16, float32, float64, complex64 or complex128",
        correlation(T.bool(), TK.bool()),
    ),
    (
        ValueError,
        "convolve2d: in1 has dtype uint16 and in2 int16, which torch has no common dtype for; "
        "convert one of them",
        call(T.to(torch.uint16), TK.to(torch.int16)),
    ),
    (
        ValueError,
        "convolve2d: in1 has dtype complex32 and in2 complex32, the result's",
        call(T.to(torch.complex32), TK.to(torch.complex32)),
    ),
    (
        RuntimeError,
        "convolve2d: in2 is on meta, in1 is on cpu; all tensors must be on one device",
        call(T, TK.to("meta")),
    ),
)
def test_kinds(error: type[Exception], message: str, call: Call) -> None:
    check(error, message, call)


BYTES = A.astype(np.uint8), K.astype(np.uint8)


@table(
    (
        ValueError,
        "convolve2d: fillvalue is 300, must be within [0, 255] as the result is uint8",
        call(*BYTES, fillvalue=300),
    ),
    (ValueError, "convolve2d: fillvalue is -1, must be within", call(*BYTES, fillvalue=-1)),
    (ValueError, "convolve2d: fillvalue is nan, must be within", call(*BYTES, fillvalue=np.nan)),
    (ValueError, "convolve2d: fillvalue is inf, must be", call(*BYTES, "same", fillvalue=np.inf)),
    (
        ValueError,
        "convolve2d: fillvalue is 1j, must be real as the result is float32",
        call(A, K, fillvalue=1j),
    ),
    (TypeError, "convolve2d: fillvalue is None, must be a number", call(A, K, fillvalue=None)),
    (TypeError, "convolve2d: fillvalue is '3', must be a number", call(A, K, fillvalue="3")),
    (TypeError, "convolve2d: fillvalue is [1, 2], must be a", call(A, K, fillvalue=[1, 2])),
    (
        TypeError,
        "convolve2d: fillvalue is tensor([1., 1.]), must be a number",
        call(T, TK, fillvalue=torch.ones(2)),
    ),
)
def test_fills(error: type[Exception], message: str, call: Call) -> None:
    check(error, message, call)


@table(
    (
        ValueError,
        "convolve2d: method is 'fft' for a result of dtype uint8, must be another for integers, "
        "which it would round",
        call(*BYTES, method="fft"),
    ),
    (
        ValueError,
        f"{SEPARABLE}in2 of shape [2, 2] must be the product of a column and a row",
        call(A, np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), method="separable"),
    ),
    (
        ValueError,
        f"{SEPARABLE}in2 of shape [2, 2] must be",
        call(BYTES[0], np.array([[1, 1], [1, 2]], np.uint8), method="separable"),
    ),
    (
        ValueError,
        f"{SEPARABLE}in2 of shape [3, 3] must be the product",
        call(A, np.full((3, 3), np.nan, np.float32), method="separable"),
    ),
    (
        ValueError,
        f"{SEPARABLE}must be another where in2 requires a gradient: its factors have none",
        call(T, TK.clone().requires_grad_(), method="separable"),
    ),
    (
        ValueError,
        f"{SEPARABLE}must be another where in2 has no values to look at: under torch.compile, and "
        "where torch.func maps or differentiates it",
        lambda: torch.vmap(lambda k: visops.convolve2d(T, k, method="separable"))(TK[None]),
    ),
)
def test_methods(error: type[Exception], message: str, call: Call) -> None:
    check(error, message, call)


def test_what_raises_before_it_allocates() -> None:
    """A result that no memory could hold: errors of arguments come first, whatever the sizes."""
    huge = torch.empty(1, device="meta").expand(2**30, 2**30)
    check(
        TypeError,
        "convolve2d: fillvalue is None, must be a number",
        lambda: visops.convolve2d(huge, huge, fillvalue=None),
    )
