"""Bad input of im2col and col2im: each row is an input and the message that it must give."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from bad_input import check, table
from torch import Tensor

OPS = torch.ops.visops
Call = Callable[[], Any]


def image(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(shape or (2, 3, 5, 6), dtype=dtype)


def im2col(input: Any, *arguments: Any, **keywords: Any) -> Call:
    return functools.partial(visops.im2col, input, *arguments, **keywords)


def col2im(input: Any, *arguments: Any, **keywords: Any) -> Call:
    return functools.partial(visops.col2im, input, *arguments, **keywords)


def of_array(call: Any) -> Call:
    input, *arguments = call.args
    return functools.partial(call.func, input.numpy(), *arguments, **call.keywords)


def rows(*rows: tuple[type[Exception], str, Any]) -> Any:
    """A table of arguments, not of calls."""
    ids = [r[1][:60] for r in rows]
    return pytest.mark.parametrize(("error", "message", "call"), rows, ids=ids)


PATCHES: dict[str, Any] = {"layout": "patches"}

# Raised by the operator: RuntimeError for tensors, ValueError for arrays.
SHAPES: tuple[tuple[str, Any], ...] = (
    (
        "im2col: input has shape [5], must have 2 to 4 dimensions, as kernel_size has 2",
        im2col(image(5), (3, 3)),
    ),
    (
        "im2col: input has shape [1, 2, 3, 4, 5], must have 2 to 4 dimensions, as kernel_size has",
        im2col(image(1, 2, 3, 4, 5), 3),
    ),
    (
        "im2col: input has shape [], must have 1 to 3 dimensions, as kernel_size has 1",
        im2col(torch.tensor(1.0), 3),
    ),
    (
        "im2col: input has shape [4], must have 2 dimensions or more, as kernel_size has 2",
        im2col(image(4), (1, 1), **PATCHES),
    ),
    (
        "im2col: input has shape [2, 3, 0, 6], its last 2 dimensions must not be empty",
        im2col(image(2, 3, 0, 6), 3, padding=5),
    ),
    (
        "im2col: input has shape [0], its last 1 dimension must not be empty",
        im2col(image(0), 3, **PATCHES),
    ),
    (
        "im2col: kernel_size is [6, 7] with dilation [1, 1], which covers [6, 7], must be within "
        "the padded input, [5, 6]",
        im2col(image(), (6, 7)),
    ),
    (
        "im2col: kernel_size is [3, 3] with dilation [1, 4], which covers [3, 9], must be within "
        "the padded input, [7, 8]",
        im2col(image(), 3, dilation=(1, 4), padding=1),
    ),
    (
        f"im2col: kernel_size is [{2**31 - 1}] with dilation [{2**31 - 1}], which covers "
        f"[{(2**31 - 2) * (2**31 - 1) + 1}], must be",
        im2col(image(5), (2**31 - 1,), dilation=2**31 - 1),
    ),
    (
        f"im2col: result of shape [{2**60}, 64] can't be allocated on cpu: not enough memory",
        im2col(image(7, 7), (2**30, 2**30), padding=2**29),
    ),
    ("im2col: result of shape [", im2col(image(7, 7), (2**15, 2**15), padding=2**30)),
    (
        "im2col: result of shape [7, 7, 1073741824, 1073741824] can't be allocated",
        im2col(image(7, 7), (2**30, 2**30), **PATCHES),
    ),
    (
        "col2im: input has shape [27, 13], must be [N, C * 9, 12] or [C * 9, 12]",
        col2im(image(27, 13), (5, 6), 3),
    ),
    (
        "col2im: input has shape [2, 28, 12], must be [N, C * 9, 12] or [C * 9, 12]",
        col2im(image(2, 28, 12), (5, 6), 3),
    ),
    (
        "col2im: input has shape [12], must be [N, C * 9, 12] or [C * 9, 12]",
        col2im(image(12), (5, 6), 3),
    ),
    (
        "col2im: input has shape [5, 6, 3, 2], its last dimensions must be [5, 6, 3, 3]",
        col2im(image(5, 6, 3, 2), (5, 6), 3, **PATCHES),
    ),
    (
        "col2im: input has shape [3, 3], its last dimensions must be [5, 6, 3, 3]",
        col2im(image(3, 3), (5, 6), 3, **PATCHES),
    ),
    (
        "col2im: kernel_size is [3, 3] with dilation [1, 1], which covers [3, 3], must be within "
        "the padded output, [2, 6]",
        col2im(image(9, 1), (2, 6), 3),
    ),
    (
        f"col2im: result of shape [5, {2**31 - 1}, {2**31 - 1}] can't be allocated",
        col2im(image(5, 1), 2**31 - 1, 1, stride=2**31 - 1),
    ),
)


@table(*((RuntimeError, *row) for row in SHAPES))
def test_tensors(error: type[Exception], message: str, call: Call) -> None:
    check(error, message, call)


@table(*((ValueError, message, of_array(call)) for message, call in SHAPES))
def test_arrays(error: type[Exception], message: str, call: Call) -> None:
    check(error, message, call)


def test_largest_input() -> None:
    """A view of one element can be larger than any array."""
    message = f"im2col: input has size {2**62 - 3} and 4 elements of padding in one dimension"
    check(RuntimeError, message, im2col(image(1).expand(2**62 - 3), 3, padding=2))


@pytest.mark.parametrize("of", [im2col, lambda x, *a, **k: col2im(x, 5, *a, **k)])
@rows(
    (ValueError, "kernel_size is (), must be 1 to 4 integers", ((), {})),
    (ValueError, "kernel_size is (1, 1, 1, 1, 1), must be 1 to 4", ((1,) * 5, {})),
    (ValueError, "kernel_size is (3, 0), must be > 0", ((3, 0), {})),
    (ValueError, "kernel_size is -1, must be > 0", (-1, {})),
    (TypeError, "kernel_size is 2.5, must be an integer or 2 of them", (2.5, {})),
    (TypeError, "kernel_size is (2, 2.5), must be an integer or 2", ((2, 2.5), {})),
    (TypeError, "kernel_size is 'a', must be an integer or 2", ("a", {})),
    (ValueError, "stride is 0, must be > 0", (3, {"stride": 0})),
    (ValueError, "stride is (1, -2), must be > 0", (3, {"stride": (1, -2)})),
    (
        ValueError,
        "stride is (1, 2, 3), must be an integer or 2 of them",
        (3, {"stride": (1, 2, 3)}),
    ),
    (TypeError, "stride is None, must be an integer or 2 of them", (3, {"stride": None})),
    (ValueError, "dilation is 0, must be > 0", (3, {"dilation": 0})),
    (ValueError, "dilation is [1], must be an integer or 2 of them", (3, {"dilation": [1]})),
    (ValueError, "padding is -1, must be >= 0", (3, {"padding": -1})),
    (ValueError, "padding is (1, 2, 3), must be an integer or 2 of", (3, {"padding": (1, 2, 3)})),
    (TypeError, "padding is 0.5, must be an integer or 2 of them", (3, {"padding": 0.5})),
    (
        ValueError,
        "padding is 'Same', must be 'same', 'valid' or integers >= 0",
        (3, {"padding": "Same"}),
    ),
    (
        ValueError,
        "padding is 'same' and stride [2, 1], must be 1 for 'same'",
        (3, {"padding": "same", "stride": (2, 1)}),
    ),
    (
        ValueError,
        "padding is 'same' and stride [2, 2], must be 1",
        (3, {"stride": 2, "layout": "patches"}),
    ),
    (ValueError, "layout is 'rows', must be 'unfold' or 'patches'", (3, {"layout": "rows"})),
)
def test_numbers(error: type[Exception], message: str, call: Any, of: Any) -> None:
    kernel_size, keywords = call
    op = "im2col" if of is im2col else "col2im"
    check(error, f"{op}: {message}", of(image(), kernel_size, **keywords))


def filled(dtype: torch.dtype, value: Any) -> Call:
    return im2col(image(dtype=dtype), 3, fill_value=value)


@table(
    (TypeError, "im2col: fill_value is 'a', must be a number", filled(torch.float32, "a")),
    (ValueError, f"im2col: fill_value is {2**64}, must be a number", filled(torch.int64, 2**64)),
    (TypeError, "im2col: fill_value is None, must be a number", filled(torch.float32, None)),
    (
        ValueError,
        "im2col: fill_value is 0.5, must be a number that uint8",
        filled(torch.uint8, 0.5),
    ),
    (
        ValueError,
        "im2col: fill_value is 300, must be a number that uint8",
        filled(torch.uint8, 300),
    ),
    (ValueError, "im2col: fill_value is -1, must be a number that uint8", filled(torch.uint8, -1)),
    (
        ValueError,
        "im2col: fill_value is nan, must be a number that uint8",
        filled(torch.uint8, math.nan),
    ),
    (
        ValueError,
        "im2col: fill_value is inf, must be a number that int64",
        filled(torch.int64, math.inf),
    ),
    (
        ValueError,
        f"im2col: fill_value is {2**63}, must be a number that int64 holds",
        filled(torch.int64, 2**63),
    ),
    (
        ValueError,
        "im2col: fill_value is 2, must be a number that bool holds",
        filled(torch.bool, 2),
    ),
    (
        ValueError,
        "im2col: fill_value is 1j, must be a number that float32",
        filled(torch.float32, 1j),
    ),
    (
        ValueError,
        "im2col: fill_value is (1+0j), must be a number that int8",
        filled(torch.int8, 1 + 0j),
    ),
    (
        ValueError,
        "im2col: fill_value is 1e+300, must be a number that",
        filled(torch.float32, 1e300),
    ),
    (
        ValueError,
        "im2col: fill_value is 70000, must be a number that",
        filled(torch.float16, 70000),
    ),
    (
        ValueError,
        "im2col: fill_value is 1e+300j, must be a number",
        filled(torch.complex64, 1e300j),
    ),
)
def test_fill_value(error: type[Exception], message: str, call: Call) -> None:
    check(error, message, call)


@table(
    (TypeError, "im2col: input is a list, must be a torch.Tensor or a numpy", im2col([[1.0]], 1)),
    (TypeError, "col2im: input is a NoneType, must be a torch.Tensor", col2im(None, 3, 1)),
    (
        TypeError,
        "im2col: device is for arrays; move tensors with .to('cpu')",
        im2col(image(), 3, device="cpu"),
    ),
    (TypeError, "im2col: input has dtype object", im2col(np.zeros((3, 3), object), 3)),
    (
        RuntimeError,
        "col2im: input has dtype float8_e5m2, which is not supported",
        col2im(image(9, 9, dtype=torch.float8_e5m2), (5, 5), 3),
    ),
    (ValueError, "col2im: output_size is (5, 0), must be > 0", col2im(image(9, 9), (5, 0), 3)),
    (
        ValueError,
        "col2im: output_size is (5, 5, 5), must be an integer or 2 of them",
        col2im(image(9, 9), (5, 5, 5), (3, 3)),
    ),
    (
        TypeError,
        "col2im: output_size is 5.5, must be an integer or 2 of them",
        col2im(image(9, 9), 5.5, 3),
    ),
)
def test_kinds(error: type[Exception], message: str, call: Call) -> None:
    check(error, message, call)


WINDOW = ([3, 3], [1, 1], [0, 0, 0, 0], [1, 1])


def operator(replaced: int, value: Any, layout: str = "unfold") -> Any:
    window = [*WINDOW]
    if replaced >= 0:
        window[replaced] = value
    return window, layout


def beyond(replaced: int, count: int) -> Any:
    return operator(replaced, [1] * (count - 1) + [2**31])


@rows(
    (RuntimeError, "layout is '', must be unfold or patches", operator(-1, None, "")),
    (RuntimeError, "kernel_size is [], must be 1 to 4 integers", operator(0, [])),
    (RuntimeError, "kernel_size is [3, 0], must be > 0", operator(0, [3, 0])),
    (RuntimeError, "stride is [1], must be 2 integers", operator(1, [1])),
    (RuntimeError, "stride is [0, 1], must be > 0", operator(1, [0, 1])),
    (RuntimeError, "padding is [0, 0], must be 4 integers", operator(2, [0, 0])),
    (RuntimeError, "padding is [0, 0, 0, -1], must be >= 0", operator(2, [0, 0, 0, -1])),
    (RuntimeError, "dilation is [1, 0], must be > 0", operator(3, [1, 0])),
    (RuntimeError, f"kernel_size[1] is {2**31}, must be at most {2**31 - 1}", beyond(0, 2)),
    (RuntimeError, f"stride[1] is {2**31}, must be at most {2**31 - 1}", beyond(1, 2)),
    (RuntimeError, f"padding[3] is {2**31}, must be at most {2**31 - 1}", beyond(2, 4)),
    (RuntimeError, f"dilation[1] is {2**31}, must be at most {2**31 - 1}", beyond(3, 2)),
    (
        RuntimeError,
        f"stride[1] is {2**63 - 1}, must be at most {2**31 - 1}",
        operator(1, [2, 2**63 - 1]),
    ),
)
def test_operators(error: type[Exception], message: str, call: Any) -> None:
    window, layout = call
    forward = functools.partial(OPS.im2col, image(), *window, None, layout)
    check(error, f"im2col: {message}", forward)
    columns = image(2, 27, 12)
    backward = functools.partial(OPS.col2im, columns, [5, 6], *window, layout)
    check(error, f"col2im: {message}", backward)


def test_output_size_of_the_operator() -> None:
    for sizes, message in (([5], "must be 2 integers"), ([0, 6], "must be > 0")):
        call = functools.partial(OPS.col2im, image(2, 27, 12), sizes, *WINDOW)
        check(RuntimeError, f"col2im: output_size is {sizes}, {message}", call)
