"""The fill element: checks of the operators that take one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import visops  # noqa: F401  (it registers the operators)
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


def on_devices(*calls: Call) -> Any:
    """Kernels and fake kernels, with which a compiled function fails when it is traced."""

    def parametrized(test: Any) -> Any:
        test = pytest.mark.parametrize("device", ["cpu", "meta"])(test)
        return pytest.mark.parametrize("call", calls, ids=lambda call: call.__name__)(test)

    return parametrized


@on_devices(convolve2d, convolve2d_backward_kernel, im2col)
def test_one_element_of_the_input_dtype(call: Call, device: str) -> None:
    input, op = INPUT.to(device), call.__name__
    double, single = {
        "cpu": ("Double", "Float"),
        "meta": ("torch.float64", "torch.float32"),
    }[device]
    for fill, message in (
        (torch.ones(2), "fill has shape [2], must be one element"),
        (torch.ones(1, dtype=torch.float64), f"fill has dtype {double}, input has {single}"),
    ):
        check(RuntimeError, f"{op}: {message}", partial(call, input, fill))
    for taken in (None, torch.ones(1), torch.ones(())):
        assert call(input, taken).device == input.device


@on_devices(convolve2d, convolve2d_backward_kernel)
def test_boundary_that_takes_a_fill(call: Any, device: str) -> None:
    check(
        RuntimeError,
        f"{call.__name__}: fill is given, boundary must be 'fill'",
        lambda: call(INPUT.to(device), torch.ones(1), "wrap"),
    )


@pytest.mark.parametrize(
    "call", [convolve2d, convolve2d_backward_kernel, im2col], ids=lambda call: call.__name__
)
def test_meta_fill_needs_a_meta_input(call: Call) -> None:
    fill = torch.ones(1, device="meta")
    assert call(INPUT.to("meta"), fill).is_meta
    check(
        RuntimeError,
        f"{call.__name__}: fill is on meta, must be on cpu",
        lambda: call(INPUT, fill),
    )
