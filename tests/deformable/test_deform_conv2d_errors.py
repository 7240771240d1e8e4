"""Bad input to deformable convolution: each row is an input and the message it must give."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from bad_input import check, table

OP = "deform_conv2d"
OPS = torch.ops.visops
HALF, DOUBLE = torch.float16, torch.float64
zeros = torch.zeros


def arguments() -> dict[str, Any]:
    return {
        "input": zeros(2, 4, 5, 6),
        "offset": zeros(2, 18, 3, 4),
        "weight": zeros(6, 4, 3, 3),
        "bias": zeros(6),
        "mask": zeros(2, 9, 3, 4),
    }


def convolve(**changed: Any) -> Callable[[], Any]:
    return lambda: visops.deform_conv2d(**{**arguments(), **changed})


ROWS: list[tuple[str, dict[str, Any]]] = [
    ("input has shape [4, 5, 6], must be [N, C, H, W]", {"input": zeros(4, 5, 6)}),
    (
        "weight has shape [6, 4, 9], must be [out channels, in channels / groups, height, width]",
        {"weight": zeros(6, 4, 9)},
    ),
    (
        "weight has shape [6, 3, 3, 3], its second size must divide the input's channels, 4",
        {"weight": zeros(6, 3, 3, 3)},
    ),
    ("weight has shape [6, 0, 3, 3], sizes must be >= 1", {"weight": zeros(6, 0, 3, 3)}),
    ("weight has shape [0, 4, 3, 3], sizes must be >= 1", {"weight": zeros(0, 4, 3, 3)}),
    (
        "weight has shape [6, 4, 3, 3], its second size must divide the input's channels, 0",
        {"input": zeros(2, 0, 5, 6)},
    ),
    (
        "weight has 6 output channels, must be a multiple of groups, 4",
        {"weight": zeros(6, 1, 3, 3)},
    ),
    (
        "weight has kernel height 6, must be <= the padded input's height 5",
        {"weight": zeros(6, 4, 6, 3)},
    ),
    (
        "weight has kernel width 3 (7 with dilation), must be <= the padded input's width 6",
        {"dilation": (2, 3)},
    ),
    ("stride is 0, must be >= 1 and <= 1073741824", {"stride": (1, 0)}),
    ("padding is -1, must be >= 0 and <= 1073741824", {"padding": (-1, 0)}),
    ("dilation is 0, must be >= 1 and <= 1073741824", {"dilation": 0}),
    ("stride is 1073741825, must be >= 1 and <= 1073741824", {"stride": 2**30 + 1}),
    (
        "offset has shape [2, 17, 3, 4], must be [2, 2 * offset groups * 9, 3, 4]",
        {"offset": zeros(2, 17, 3, 4)},
    ),
    (
        "offset has shape [2, 0, 3, 4], must be [2, 2 * offset groups * 9, 3, 4]",
        {"offset": zeros(2, 0, 3, 4)},
    ),
    (
        "offset has shape [2, 18, 4, 4], must be [2, 2 * offset groups * 9, 3, 4]",
        {"offset": zeros(2, 18, 4, 4)},
    ),
    (
        "offset has shape [1, 18, 3, 4], must be [2, 2 * offset groups * 9, 3, 4]",
        {"offset": zeros(1, 18, 3, 4)},
    ),
    (
        "offset has shape [18, 3, 4], must be [2, 2 * offset groups * 9, 3, 4]",
        {"offset": zeros(18, 3, 4)},
    ),
    (
        "offset has shape [2, 54, 3, 4] for 3 offset groups, which must divide the input's "
        "channels, 4",
        {"offset": zeros(2, 54, 3, 4)},
    ),
    ("mask has shape [2, 18, 3, 4], must be [2, 9, 3, 4]", {"mask": zeros(2, 18, 3, 4)}),
    ("mask has shape [9, 3, 4], must be [2, 9, 3, 4]", {"mask": zeros(9, 3, 4)}),
    ("bias has shape [5], must be [6]", {"bias": zeros(5)}),
    ("bias has shape [1, 6], must be [6]", {"bias": zeros(1, 6)}),
]
DTYPES: list[tuple[str, dict[str, Any]]] = [
    ("input has dtype int32, must be a floating type", {"input": zeros(2, 4, 5, 6).int()}),
    (
        "weight has dtype float16, input has float32; they must be equal",
        {"weight": zeros(6, 4, 3, 3, dtype=HALF)},
    ),
    (
        "bias has dtype float64, input has float32; they must be equal",
        {"bias": zeros(6, dtype=DOUBLE)},
    ),
    (
        "offset has dtype float64, must be float16, bfloat16 or float32 for input of float32",
        {"offset": zeros(2, 18, 3, 4, dtype=DOUBLE)},
    ),
    (
        "mask has dtype int64, must be float16, bfloat16 or float32 for input of float32",
        {"mask": zeros(2, 9, 3, 4).long()},
    ),
    (
        "offset has dtype float32, must be float64 for input of float64",
        {"input": zeros(2, 4, 5, 6).double(), "weight": zeros(6, 4, 3, 3).double()},
    ),
]


@pytest.mark.parametrize(("message", "changed"), ROWS + DTYPES, ids=lambda v: str(v)[:60])
def test_bad_input(message: str, changed: dict[str, Any]) -> None:
    check(RuntimeError, f"{OP}: {message}", convolve(**changed))


@table(
    (
        TypeError,
        f"{OP}: stride is 1.5, must be an integer or a pair (y, x)",
        convolve(stride=1.5),
    ),
    (
        TypeError,
        f"{OP}: padding is (1, 2, 3), must be an integer or a pair (y, x)",
        convolve(padding=(1, 2, 3)),
    ),
    (
        TypeError,
        f"{OP}: dilation is None, must be an integer or a pair (y, x)",
        convolve(dilation=None),
    ),
    (
        TypeError,
        f"{OP}: weight is a ndarray, must be a torch.Tensor or a numpy.ndarray",
        lambda: visops.deform_conv2d(
            zeros(2, 4, 5, 6),
            zeros(2, 18, 3, 4),
            np.zeros((6, 4, 3, 3), np.float32),  # type: ignore[type-var]
        ),
    ),
    (
        ValueError,
        f"{OP}: bias has shape [5], must be [6]",
        lambda: visops.deform_conv2d(
            np.zeros((2, 4, 5, 6), np.float32),
            np.zeros((2, 18, 3, 4), np.float32),
            np.zeros((6, 4, 3, 3), np.float32),
            np.zeros(5, np.float32),
        ),
    ),
    (
        ValueError,
        "DeformConv2d: in_channels is 5, must be a positive multiple of groups, 2",
        lambda: visops.DeformConv2d(5, 4, 3, groups=2),
    ),
    (
        ValueError,
        "DeformConv2d: out_channels is 0, must be a positive multiple of groups, 1",
        lambda: visops.DeformConv2d(5, 0, 3),
    ),
    (
        ValueError,
        "DeformConv2d: groups is 0, must be >= 1",
        lambda: visops.DeformConv2d(5, 5, 3, groups=0),
    ),
    (
        ValueError,
        "DeformConv2d: kernel_size is 0, must be >= 1",
        lambda: visops.DeformConv2d(5, 5, 0),
    ),
    (
        ValueError,
        "DeformConv2d: padding is (0, -1), must be >= 0",
        lambda: visops.DeformConv2d(5, 5, 3, padding=(0, -1)),
    ),
    (
        TypeError,
        "DeformConv2d: stride is '1', must be an integer or a pair (y, x)",
        lambda: visops.DeformConv2d(5, 5, 3, stride="1"),  # type: ignore[arg-type]
    ),
    (
        ValueError,
        "compat.DeformConv2dPack: bias is True, must be False",
        lambda: visops.compat.DeformConv2dPack(4, 4, 3, bias=True),
    ),
    (
        ValueError,
        "compat.ModulatedDeformConv2dPack: deform_groups is 3, must divide in_channels, 4",
        lambda: visops.compat.ModulatedDeformConv2dPack(4, 4, 3, deform_groups=3),
    ),
    (
        ValueError,
        "compat.DeformConv2dPack: out_channels is 5, must be a multiple of groups, 2",
        lambda: visops.compat.DeformConv2dPack(4, 5, 3, groups=2),
    ),
)
def test_bad_arguments(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


def gradients(**changed: Any) -> dict[str, Callable[[], Any]]:
    """Return the operators of the gradients with one argument changed."""
    given: dict[str, Any] = {
        **arguments(),
        "grad": zeros(2, 6, 3, 4),
        "input_size": [2, 4, 5, 6],
        "weight_size": [6, 4, 3, 3],
        "stride": [1, 1],
        "padding": [0, 0],
        "dilation": [1, 1],
        "channels_last": False,
    }
    given |= changed

    def call(op: str) -> Callable[[], Any]:
        operator = getattr(OPS, op)
        names = [argument.name for argument in operator.default._schema.arguments]
        return lambda: operator(**{name: given[name] for name in names})

    return {op: call(op) for op in (f"{OP}_backward_{n}" for n in ("input", "offset", "weight"))}


def test_gradients() -> None:
    for op, call in gradients(grad=zeros(2, 6, 4, 4)).items():
        check(RuntimeError, f"{op}: grad has shape [2, 6, 4, 4], must be [2, 6, 3, 4]", call)
    for op, call in gradients(mask=zeros(2, 9, 3, 5)).items():
        check(RuntimeError, f"{op}: mask has shape [2, 9, 3, 5], must be [2, 9, 3, 4]", call)
    for op, call in gradients(padding=[1]).items():
        check(RuntimeError, f"{op}: padding has 1 numbers, must have 2", call)
    for op, call in gradients(offset=zeros(2, 20, 3, 4)).items():
        check(RuntimeError, f"{op}: offset has shape [2, 20, 3, 4], must be", call)
    calls = gradients(input_size=[2, 4, 5], weight_size=[6, 4, 3])
    op = f"{OP}_backward_input"
    check(RuntimeError, f"{op}: input has shape [2, 4, 5], must be [N, C, H, W]", calls[op])
    op = f"{OP}_backward_weight"
    check(RuntimeError, f"{op}: weight has shape [6, 4, 3], must be", calls[op])
    calls = gradients(grad=zeros(2, 6, 3, 4).half())
    for op in (f"{OP}_backward_offset", f"{OP}_backward_weight"):
        message = f"{op}: grad has dtype float16, input has float32; they must be equal"
        check(RuntimeError, message, calls[op])


def test_more_than_memory_holds() -> None:
    """4 TiB."""
    given = zeros(1, 1, 1024, 1024), zeros(1, 2, 1024, 1024), zeros(2**20, 1, 1, 1)
    check(
        RuntimeError,
        f"{OP}: result of shape [1, 1048576, 1024, 1024] can't be allocated on cpu",
        lambda: visops.deform_conv2d(*given),
    )
