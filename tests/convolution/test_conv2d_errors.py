"""Bad input of the networks' convolution: calls and the messages that they must give."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import visops
from bad_input import check, table
from torch import Tensor

OPS = torch.ops.visops
META: dict[str, Any] = {"device": "meta"}
MOST = 2**31 - 1


def image(*sizes: int, **kind: Any) -> Tensor:
    return torch.zeros(sizes or (2, 4, 6, 7), **kind)


def kernel(*sizes: int, **kind: Any) -> Tensor:
    return torch.zeros(sizes or (8, 4, 3, 3), **kind)


def call(*arguments: Any, **keywords: Any) -> Callable[[], Any]:
    return lambda: visops.conv2d(*arguments, **keywords)


def operator(*arguments: Any) -> Callable[[], Any]:
    return lambda: OPS.conv2d(*arguments)


SHAPES: tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...] = (
    ("input has shape [6, 7], must be [N, C, H, W] or [C, H, W]", (image(6, 7), kernel()), {}),
    ("input has shape [1, 2, 4, 6, 7], must be", (image(1, 2, 4, 6, 7), kernel()), {}),
    (
        "weight has shape [4, 3, 3], must be [out channels, in channels / groups, height, width]",
        (image(), kernel(4, 3, 3)),
        {},
    ),
    (
        "weight has shape [8, 3, 3, 3], its second size times groups (1) must be the input's "
        "channels, 4",
        (image(), kernel(8, 3, 3, 3)),
        {},
    ),
    (
        "weight has shape [8, 4, 3, 3], its second size times groups (2) must be the input's "
        "channels, 4",
        (image(), kernel()),
        {"groups": 2},
    ),
    (
        "weight has 7 output channels, must be a multiple of groups, 2",
        (image(), kernel(7, 2, 3, 3)),
        {"groups": 2},
    ),
    (
        "weight has kernel height 7, must be <= the padded input's height 6",
        (image(), kernel(8, 4, 7, 3)),
        {},
    ),
    (
        "weight has kernel width 4 (10 with dilation), must be <= the padded input's width 9",
        (image(), kernel(8, 4, 3, 4)),
        {"dilation": (1, 3), "padding": (0, 1)},
    ),
    (
        "weight has kernel width 0, must be >= 1 and <= 2147483647",
        (image(), kernel(8, 4, 3, 0)),
        {},
    ),
    (
        "weight has kernel height 1, must be <= the padded",
        (image(2, 4, 0, 7), kernel(8, 4, 1, 1)),
        {},
    ),
    ("bias has shape [7], must be [8]", (image(), kernel(), torch.zeros(7)), {}),
    ("bias has shape [], must be [8]", (image(), kernel(), torch.tensor(0.0)), {}),
)


@pytest.mark.parametrize("method", ["implicit", "im2col", "torch"])
@pytest.mark.parametrize(("message", "tensors", "options"), SHAPES, ids=[r[0][:50] for r in SHAPES])
def test_shapes(message: str, tensors: Any, options: dict[str, Any], method: str) -> None:
    """Every method gives the same message, for tensors and arrays."""
    check(RuntimeError, f"conv2d: {message}", call(*tensors, **options, method=method))
    arrays = (t.numpy() for t in tensors)
    check(ValueError, f"conv2d: {message}", call(*arrays, **options, method=method))


@table(
    (ValueError, "conv2d: stride is 0, must be > 0", call(image(), kernel(), stride=0)),
    (ValueError, "conv2d: stride is (1, -1), must be > 0", call(image(), kernel(), stride=(1, -1))),
    (
        ValueError,
        "conv2d: stride is (1, 1, 1), must be an integer or 2 of them",
        call(image(), kernel(), stride=(1, 1, 1)),
    ),
    (TypeError, "conv2d: stride is 1.5, must be an", call(image(), kernel(), stride=1.5)),
    (ValueError, "conv2d: dilation is 0, must be > 0", call(image(), kernel(), dilation=0)),
    (ValueError, "conv2d: padding is -1, must be >= 0", call(image(), kernel(), padding=-1)),
    (
        ValueError,
        "conv2d: padding is 'full', must be 'same', 'valid' or integers >= 0",
        call(image(), kernel(), padding="full"),
    ),
    (
        ValueError,
        "conv2d: padding is 'same' and stride [2, 2], must be 1 for 'same'",
        call(image(), kernel(), stride=2, padding="same"),
    ),
    (ValueError, "conv2d: groups is 0, must be >= 1", call(image(), kernel(), groups=0)),
    (TypeError, "conv2d: groups is 1.0, must be an integer", call(image(), kernel(), groups=1.0)),
    (
        ValueError,
        "conv2d: method is 'fft', must be 'auto', 'implicit', 'im2col' or 'torch'",
        call(image(), kernel(), method="fft"),
    ),
    (TypeError, "conv2d: explain is True, must be callable", call(image(), kernel(), explain=True)),
    (
        TypeError,
        "conv2d: input is a list, must be a torch.Tensor or a numpy.ndarray",
        call([[1.0]], kernel()),
    ),
    (TypeError, "conv2d: weight is a NoneType, must be a torch.Tensor", call(image(), None)),
    (
        TypeError,
        "conv2d: weight is a Tensor, must be a numpy.ndarray, as input is",
        call(np.zeros((1, 4, 6, 7), np.float32), kernel()),
    ),
    (
        TypeError,
        "conv2d: device is for arrays; move tensors with .to('cpu')",
        call(image(), kernel(), device="cpu"),
    ),
    (
        RuntimeError,
        "conv2d: method is 'torch' and input has dtype int32, which F.conv2d does not take",
        call(image(dtype=torch.int32), kernel(dtype=torch.int32), method="torch"),
    ),
    (
        RuntimeError,
        "conv2d: method is 'im2col' and input has dtype uint16, which torch.matmul does not",
        call(image(dtype=torch.uint16), kernel(dtype=torch.uint16), method="im2col"),
    ),
)
def test_arguments(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


OPTIONS = ([1, 1], [0, 0], [1, 1], 1)


@table(
    (
        RuntimeError,
        "conv2d: weight has dtype float64, input has float32; they must be equal",
        operator(image(), kernel(dtype=torch.float64)),
    ),
    (
        RuntimeError,
        "conv2d: bias has dtype float16, input has float32; they must be equal",
        operator(image(), kernel(), torch.zeros(8, dtype=torch.half)),
    ),
    (
        RuntimeError,
        "conv2d: input has dtype bool, must be a floating, complex or integer type",
        operator(image(dtype=torch.bool), kernel(dtype=torch.bool)),
    ),
    (
        RuntimeError,
        "conv2d: input has dtype float8_e5m2, which is not supported",
        operator(image().to(torch.float8_e5m2), kernel().to(torch.float8_e5m2)),
    ),
    (
        RuntimeError,
        f"conv2d: stride is 0, must be >= 1 and <= {MOST}",
        operator(image(), kernel(), None, [1, 0]),
    ),
    (
        RuntimeError,
        f"conv2d: stride is {2**31}, must be >= 1 and <= {MOST}",
        operator(image(), kernel(), None, [2**31, 1]),
    ),
    (
        RuntimeError,
        f"conv2d: dilation is {2**62}, must be >= 1 and <= {MOST}",
        operator(image(), kernel(), None, [1, 1], [0, 0], [1, 2**62]),
    ),
    (
        RuntimeError,
        f"conv2d: padding is -1, must be >= 0 and <= {MOST}",
        operator(image(), kernel(), None, [1, 1], [0, 0, 0, -1]),
    ),
    (
        RuntimeError,
        "conv2d: padding has 3 numbers, must have 2 (y, x) or 4 (top, bottom, left, right)",
        operator(image(), kernel(), None, [1, 1], [0, 0, 0]),
    ),
    (
        RuntimeError,
        "conv2d: groups is -1, must be >= 1",
        operator(image(), kernel(), None, [1, 1], [0, 0], [1, 1], -1),
    ),
    (
        RuntimeError,
        "conv2d_backward_input: grad has shape [2, 8, 4, 4], must be [2, 8, 4, 5]",
        lambda: OPS.conv2d_backward_input(
            image(2, 8, 4, 4), kernel(), [2, 4, 6, 7], *OPTIONS, False
        ),
    ),
    (
        RuntimeError,
        "conv2d_backward_input: input has shape [4, 6, 7], must be [N, C, H, W]",
        lambda: OPS.conv2d_backward_input(image(2, 8, 4, 5), kernel(), [4, 6, 7], *OPTIONS, False),
    ),
    (
        RuntimeError,
        "conv2d_backward_weight: input has dtype float64, grad has float32; they must be equal",
        lambda: OPS.conv2d_backward_weight(
            image(2, 8, 4, 5), image(dtype=torch.float64), [8, 4, 3, 3], *OPTIONS
        ),
    ),
    (
        RuntimeError,
        "conv2d_backward_weight: grad has shape [2, 8, 4, 5], must be [2, 9, 4, 5]",
        lambda: OPS.conv2d_backward_weight(image(2, 8, 4, 5), image(), [9, 4, 3, 3], *OPTIONS),
    ),
)
def test_operators(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


def test_limits_of_numbers() -> None:
    """Numbers stay below 2 ** 31 and sizes are not negative, so that nothing overflows."""
    x, w, grad = image(), kernel(), image(2, 8, 4, 5)
    big = f"is {2**31}, must be >= "
    for name, options in (
        ("stride", ([1, 2**31],)),
        ("padding", ([1, 1], [0, 2**31])),
        ("dilation", ([1, 1], [0, 0], [1, 2**31])),
    ):
        check(RuntimeError, f"conv2d: {name} {big}", partial(OPS.conv2d, x, w, None, *options))
    for sizes in ([-2, 4, 6, 7], [2, -4, 6, 7], [2, 4, -(2**63), 7]):
        message = f"conv2d_backward_input: input has shape {sizes}, sizes must be >= 0"
        check(
            RuntimeError,
            message,
            partial(OPS.conv2d_backward_input, grad, w, sizes, *OPTIONS, False),
        )
    for sizes in ([-8, 4, 3, 3], [8, -4, 3, 3], [8, -(2**63), 3, 3]):
        message = f"conv2d_backward_weight: weight has shape {sizes}, sizes must be >= 0"
        check(
            RuntimeError,
            message,
            partial(OPS.conv2d_backward_weight, grad, x, sizes, *OPTIONS),
        )


@pytest.mark.parametrize("method", ["implicit", "im2col", "torch"])
def test_dtypes_and_devices(method: str) -> None:
    ends = "; they must be equal"
    for bad, message in (
        ((image(), kernel(dtype=torch.float64)), "weight has dtype "),
        ((image(), kernel(), torch.zeros(8, dtype=torch.half)), "bias has dtype "),
        ((image(), kernel(**META)), "weight is on meta, input is on cpu; all tensors must be on"),
        ((image(), kernel(), torch.zeros(8, **META)), "bias is on meta, input is on cpu"),
        ((image(**META), kernel()), "weight is on cpu, input is on meta"),
    ):
        with pytest.raises(RuntimeError, match=rf"^visops\.conv2d: {message}") as caught:
            visops.conv2d(*bad, method=method)
        assert str(caught.value).endswith((ends, "on one device"))


def test_out_of_memory() -> None:
    one = torch.zeros(1, 1, 1, 1)
    for padding in (2**20, 2**30):
        message = (
            f"conv2d: result of shape [1, 1, {2 * padding + 1}, {2 * padding + 1}] can't be al"
        )
        check(RuntimeError, message, call(one, one, padding=padding))
    many = one.expand(2**20, 1, 2**20, 2**20)
    check(RuntimeError, "conv2d: result of shape ", call(many, one, method="implicit"))


@pytest.mark.skipif(
    visops.build_info()["cpu"] == "cuda_emulated",
    reason="CUDA's kernels have no such limit, and would add up 2 ** 33 products",
)
def test_kernels_that_reach_too_far() -> None:
    """Even a block of one pixel would be too large to index."""
    weight = torch.zeros(1, 1, 1, 1).expand(1, 8, 2**15, 2**15)
    input = torch.zeros(1, 1, 1, 1).expand(1, 8, 2**15, 2**15)
    check(
        RuntimeError,
        "conv2d: weight has 32768 by 32768 elements that with this stride and dilation reach over",
        call(input, weight, method="implicit"),
    )


@pytest.mark.cuda
def test_cuda() -> None:
    ends = "; all tensors must be on one device"
    weight = kernel(device="cuda")
    check(
        RuntimeError,
        "conv2d: weight is on cuda:0, input is on cpu" + ends,
        call(image(), weight, method="implicit"),
    )
