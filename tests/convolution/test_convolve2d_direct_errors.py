"""The direct convolution's errors: every argument, before anything is allocated."""

import math
from collections.abc import Callable
from typing import Any

import bad_input
import pytest
import torch
import visops  # noqa: F401  (it registers the operators)

OPS = torch.ops.visops
INPUT = torch.ones(6, 7)
KERNEL = torch.ones(3, 3)


def convolve(**changed: Any) -> Callable[[], Any]:
    arguments: dict[str, Any] = {
        "input": INPUT,
        "kernel": KERNEL,
        "start": [1, 1],
        "size": [6, 7],
        "boundary": "fill",
        "fill": None,
        "flip": True,
    }
    arguments.update(changed)
    op = OPS.convolve2d_out if "out" in changed else OPS.convolve2d
    return lambda: op(**arguments)


def taps(**changed: Any) -> Callable[[], Any]:
    arguments: dict[str, Any] = {
        "grad": INPUT,
        "input": INPUT,
        "kernel_size": [3, 3],
        "start": [1, 1],
        "boundary": "fill",
        "fill": None,
        "flip": True,
        "sum_batch": True,
    }
    return lambda: OPS.convolve2d_backward_kernel(**{**arguments, **changed})


def fold(**changed: Any) -> Callable[[], Any]:
    arguments: dict[str, Any] = {
        "grad": INPUT,
        "start": [0, 0],
        "size": [3, 3],
        "boundary": "wrap",
    }
    return lambda: OPS.convolve2d_fold(**{**arguments, **changed})


def row(message: str, call: Callable[[], Any], op: str = "convolve2d") -> Any:
    return RuntimeError, f"{op}: {message}", call


FORWARD = [
    row("input has shape [6], must have two dimensions or more", convolve(input=torch.ones(6))),
    row("kernel has shape [], must have two dimensions or more", convolve(kernel=torch.ones(()))),
    row("kernel has dtype float64, input has float32", convolve(kernel=KERNEL.double())),
    row(
        "input has dtype bool, must be an integer, floating or complex type (not complex32)",
        convolve(input=INPUT.bool(), kernel=KERNEL.bool()),
    ),
    row(
        "input has dtype complex32, must be an integer, floating or complex type",
        convolve(input=INPUT.to(torch.complex32), kernel=KERNEL.to(torch.complex32)),
    ),
    row(
        "input has dtype float8_e5m2, which is not supported",
        convolve(input=INPUT.to(torch.float8_e5m2), kernel=KERNEL.to(torch.float8_e5m2)),
    ),
    row(
        "kernel has shape [2, 3, 3], input has [4, 6, 7]; their leading dimensions don't",
        convolve(input=torch.ones(4, 6, 7), kernel=torch.ones(2, 3, 3)),
    ),
    row(
        "kernel has shape [0, 3], must have at least one row and one column",
        convolve(kernel=torch.ones(0, 3)),
    ),
    row(
        "input has shape [0, 7], must have at least one row and one column to be repeated",
        convolve(input=torch.ones(0, 7), boundary="symm"),
    ),
    row("boundary is 'same', must be 'fill', 'wrap' or 'symm'", convolve(boundary="same")),
    row("start is [1, 2, 3], must be two integers", convolve(start=[1, 2, 3])),
    row("size is [], must be two integers", convolve(size=[])),
    row(f"start is [0, {2**62}], must be between -2^60 and 2^60", convolve(start=[0, 2**62])),
    row("size is [-1, 7], must be between 0 and 2^60", convolve(size=[-1, 7])),
    row(
        f"output of shape [{2**40}, {2**40}] can't be allocated on cpu: not enough memory",
        convolve(size=[2**40, 2**40]),
    ),
    row(
        f"output of shape [{2**31}, {2**30}] can't be allocated on cpu: not enough memory",
        convolve(size=[2**31, 2**30]),
    ),
    row(
        f"kernel has {2**30} x {2**30} elements, which is too many",
        convolve(kernel=torch.ones(1, 1).expand(2**30, 2**30)),
    ),
    row("fill has shape [2], must be one element", convolve(fill=torch.ones(2))),
    row("fill has dtype int64, input has float32", convolve(fill=torch.ones(1, dtype=torch.int64))),
    row(
        "fill is given, boundary must be 'fill'",
        convolve(fill=torch.ones(1), boundary="wrap"),
    ),
    row("out has shape [6, 6], must be [6, 7]", convolve(out=torch.ones(6, 6))),
    row("out has dtype float64, input has float32", convolve(out=INPUT.double())),
    row(
        "out has shape [6, 7] and strides [1, 6], must be contiguous",
        convolve(out=torch.ones(7, 6).T),
    ),
    row("out shares memory with input; a convolution can't be done in place", convolve(out=INPUT)),
]


@bad_input.table(
    row(
        "kernel has shape [0, 3], must have at least one row and one column",
        convolve(kernel=torch.ones(0, 3), fill=torch.tensor(math.inf)),
    ),
    row(
        "input has shape [3, 0], must have at least one row and one column to be repeated",
        convolve(input=torch.ones(3, 0), boundary="wrap"),
    ),
)
def test_empty_operands(error: type[Exception], message: str, call: bad_input.Call) -> None:
    bad_input.check(error, message, call)


@bad_input.table(*FORWARD)
def test_forward(error: type[Exception], message: str, call: bad_input.Call) -> None:
    bad_input.check(error, message, call)


@bad_input.table(
    *(
        row(message, call, "convolve2d_backward_kernel")
        for message, call in (
            ("grad has shape [6], must have two dimensions or more", taps(grad=torch.ones(6))),
            ("input has dtype float64, grad has float32", taps(input=INPUT.double())),
            (
                "grad has dtype int32, must be a floating or complex type",
                taps(grad=INPUT.int(), input=INPUT.int()),
            ),
            ("kernel_size is [3], must be two integers", taps(kernel_size=[3])),
            ("kernel_size is [-1, 3], must be between 0 and 2^60", taps(kernel_size=[-1, 3])),
            (
                f"kernel_size is {2**30} x {2**30}, which is too large",
                taps(kernel_size=[2**30, 2**30]),
            ),
            ("boundary is '', must be 'fill', 'wrap' or 'symm'", taps(boundary="")),
        )
    ),
    *(
        row(message, call, "convolve2d_fold")
        for message, call in (
            ("grad has shape [6], must have two dimensions or more", fold(grad=torch.ones(6))),
            ("grad has dtype bool, must be an integer", fold(grad=INPUT.bool())),
            ("boundary is 'x', must be 'fill', 'wrap' or 'symm'", fold(boundary="x")),
            ("size is [3], must be two integers", fold(size=[3])),
            ("size is [3, -3], must be between 0 and 2^60", fold(size=[3, -3])),
        )
    ),
)
def test_gradients(error: type[Exception], message: str, call: bad_input.Call) -> None:
    bad_input.check(error, message, call)


@pytest.mark.cuda
def test_devices() -> None:
    call = convolve(kernel=KERNEL.cuda())
    bad_input.check(
        RuntimeError, "convolve2d: kernel is on cuda:0, input is on cpu; all tensors", call
    )
    call = convolve(input=INPUT.cuda(), kernel=KERNEL.cuda(), fill=torch.ones(1).cuda())
    bad_input.check(RuntimeError, "convolve2d: fill is on cuda:0, must be on cpu", call)
