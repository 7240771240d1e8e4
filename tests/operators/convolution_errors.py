"""Bad input of convolution: what is changed of a valid call, and what the error says of it."""

from typing import Any

import numpy as np
import visops
from torch import (
    bool,
    complex32,
    float8_e5m2,
    float16,
    float64,
    int16,
    int32,
    ones,
    tensor,
    uint16,
    zeros,
)

from operators.case import INF, NAN, Bad, Errors, bad, bad_type, bad_value

IMAGE = ones(6, 7)
ARRAY, KERNEL = np.ones((5, 6), np.float32), np.ones((3, 3), np.float32)


DIRECT: dict[str, Any] = {
    "input": IMAGE,
    "kernel": ones(3, 3),
    "start": [1, 1],
    "size": [6, 7],
    "boundary": "fill",
    "fill": None,
    "flip": True,
}

# Every method refuses these.
CONV2D: tuple[Bad, ...] = (
    bad(input=zeros(6, 7), says="has shape [6, 7], must be [N, C, H, W] or [C, H, W]"),
    bad(input=zeros(1, 2, 4, 6, 7), says="has shape [1, 2, 4, 6, 7], must be"),
    bad(weight=zeros(4, 3, 3), says="has shape [4, 3, 3], must be [out channels, in channels"),
    bad(
        weight=zeros(8, 3, 3, 3),
        says="has shape [8, 3, 3, 3], its second size times groups (1) must be the input's",
    ),
    bad(
        groups=2,
        says="weight has shape [8, 4, 3, 3], its second size times groups (2) must be the",
    ),
    bad(weight=zeros(7, 2, 3, 3), groups=2, says="has 7 output channels, must be a multiple"),
    bad(weight=zeros(8, 4, 7, 3), says="has kernel height 7, must be <= the padded input's"),
    bad(
        weight=zeros(8, 4, 3, 4),
        dilation=(1, 3),
        padding=(0, 1),
        says="has kernel width 4 (10 with dilation), must be <= the padded input's width 9",
    ),
    bad(weight=zeros(8, 4, 3, 0), says="has kernel width 0, must be >= 1 and <= 2147483647"),
    bad(
        input=zeros(2, 4, 0, 7),
        weight=zeros(8, 4, 1, 1),
        says="has kernel height 1, must be <= the padded",
    ),
    bad(bias=zeros(7), says="has shape [7], must be [8]"),
    bad(bias=zeros(()), says="has shape [], must be [8]"),
    bad_value(stride=0, says="is 0, must be > 0"),
    bad_value(stride=(1, -1), says="is (1, -1), must be > 0"),
    bad_value(stride=(1, 1, 1), says="is (1, 1, 1), must be an integer or 2 of them"),
    bad_type(stride=1.5, says="is 1.5, must be an"),
    bad_value(dilation=0, says="is 0, must be > 0"),
    bad_value(padding=-1, says="is -1, must be >= 0"),
    bad_value(padding="full", says="is 'full', must be 'same', 'valid' or integers >= 0"),
    bad_value(stride=2, padding="same", says="is 'same' and stride [2, 2], must be 1 for"),
    bad_value(groups=0, says="is 0, must be >= 1"),
    bad_type(groups=1.0, says="is 1.0, must be an integer"),
    bad_value(method="fft", says="is 'fft', must be 'auto', 'implicit', 'im2col' or 'torch'"),
    bad_type(explain=True, says="is True, must be callable"),
    bad_type(input=[[1.0]], says="is a list, must be a torch.Tensor or a numpy.ndarray"),
    bad_type(weight=None, says="is a NoneType, must be a torch.Tensor"),
    bad_type(input=np.zeros((1, 4, 6, 7), np.float32), says="weight is a Tensor, must be a"),
    bad_type(device="cpu", says="is for arrays; move tensors with .to('cpu')"),
    bad(input=zeros(2, 4, 6, 7, dtype=int32), method="torch", says="is 'torch' and input has"),
    bad(input=zeros(2, 4, 6, 7, dtype=uint16), method="im2col", says="is 'im2col' and input"),
    bad(weight=zeros(8, 4, 3, 3, dtype=float64), says="has dtype "),
    bad(bias=zeros(8, dtype=float16), says="has dtype "),
    bad(
        weight=zeros(8, 4, 3, 3, device="meta"),
        says="is on meta, input is on cpu; all tensors must be on",
    ),
    bad(bias=zeros(8, device="meta"), says="is on meta, input is on cpu"),
    bad(input=zeros(2, 4, 6, 7, device="meta"), says="weight is on cpu, input is on meta"),
)


ERRORS: dict[str, Errors] = {
    # What other methods allocate is torch's to refuse.
    "conv2d": Errors(
        {"input": zeros(2, 4, 6, 7), "weight": zeros(8, 4, 3, 3), "method": "implicit"},
        bad(
            input=zeros(1, 1, 1, 1),
            weight=zeros(1, 1, 1, 1),
            padding=2**20,
            says="result of shape [1, 1, 2097153, 2097153] can't be al",
        ),
        bad(
            input=zeros(1, 1, 1, 1),
            weight=zeros(1, 1, 1, 1),
            padding=2**30,
            says="result of shape [1, 1, 2147483649, 2147483649] can't be al",
        ),
        bad(
            input=zeros(1, 1, 1, 1).expand(2**20, 1, 2**20, 2**20),
            weight=zeros(1, 1, 1, 1),
            says="result of shape ",
        ),
        bad(
            input=zeros(1, 1, 1, 1).expand(1, 8, 32768, 32768),
            weight=zeros(1, 1, 1, 1).expand(1, 8, 32768, 32768),
            says="has 32768 by 32768 elements that with this stride and dilation reach over",
        ),
    ),
    **{
        f"conv2d {method}": Errors(
            {"input": zeros(2, 4, 6, 7), "weight": zeros(8, 4, 3, 3), "method": method},
            *CONV2D,
            call=visops.conv2d,
            named="conv2d",
        )
        for method in ("implicit", "im2col", "torch", "auto")
    },
    "convolve2d": Errors(
        {"in1": ones(5, 6), "in2": ones(3, 3)},
        bad_value(in1=ARRAY, in2=KERNEL, mode="Full", says="is 'Full', must be 'full', 'same' or"),
        bad_value(in1=ARRAY, in2=KERNEL, mode=[], says="is [], must be 'full'"),
        bad_value(in1=ARRAY, in2=KERNEL, boundary="reflect", says="is 'reflect', must be 'fill'"),
        bad_value(boundary=None, says="is None, must be"),
        bad_value(method="winograd", says="is 'winograd', must be 'auto', 'direct', 'im2col',"),
        bad_value(method=3, says="is 3, must be"),
        bad_type(explain=True, says="is True, must be callable, for example print"),
        bad_value(in1=np.ones(6, np.float32), in2=KERNEL, says="has shape [6], must be [...,"),
        bad_value(
            in1=np.ones((2, 5, 6), np.float32),
            in2=np.ones((3, 3, 3), np.float32),
            says="has shape [3, 3, 3], dimensions before the last two must broadcast with those",
        ),
        bad_value(
            in1=ARRAY,
            in2=np.ones((6, 5), np.float32),
            mode="valid",
            says="has shape [5, 6] and in2 [6, 5], for mode 'valid' one must be at least as",
        ),
        bad_value(
            in1=np.zeros((0, 6), np.float32),
            in2=np.zeros((0, 3), np.float32),
            says="has shape [0, 6] and in2 [0, 3], one of them must have elements for mode",
        ),
        bad_value(
            in1=np.zeros((0, 6), np.float32),
            in2=KERNEL,
            boundary="circular",
            says="has shape [0, 6] and in2 [3, 3], an image without elements can't be continued",
        ),
        bad_type(in1=[[1.0]], says="is a list, must be a torch.Tensor or a numpy.ndarray"),
        bad_type(in1=ARRAY, says="in2 is a Tensor, must be a numpy.ndarray, as in1 is"),
        bad_type(in2=KERNEL, says="is a ndarray, must be a torch.Tensor, as in1 is"),
        bad_type(device="cpu", says="is for arrays; move tensors with"),
        bad_value(
            in1=np.ones((5, 5), np.bool_),
            in2=np.ones((3, 3), np.bool_),
            says="has dtype bool and in2 bool, the result's dtype would be bool; must be",
        ),
        bad_value(
            in1=np.ones((5, 5), np.float16),
            in2=np.ones((3, 3), np.float16),
            says="has dtype float16 and in2 float16, the result's dtype would be float16",
        ),
        bad_value(
            in1=np.zeros((5, 5), object),
            in2=KERNEL,
            says="has dtype object and in2 float32, must be integers, float32, float64",
        ),
        bad_value(
            in1=ARRAY,
            in2=np.zeros((1, 1), "<U1"),
            says="has dtype float32 and in2 <U1, must be integers",
        ),
        bad_type(in1=ARRAY, in2=np.ones((3, 3), np.longdouble), says="has dtype float32 and in2 "),
        bad_type(in1=np.ones((5, 5), np.clongdouble), in2=KERNEL, says="has dtype "),
        bad_value(
            in1=ones(5, 6, dtype=uint16),
            in2=ones(3, 3, dtype=int16),
            says="has dtype uint16 and in2 int16, which torch has no common dtype for; convert",
        ),
        bad_value(
            in1=ones(5, 6).to(complex32),
            in2=ones(3, 3).to(complex32),
            says="has dtype complex32 and in2 complex32, the result's",
        ),
        bad(in2=zeros(3, 3, device="meta"), says="is on meta, in1 is on cpu"),
        bad_value(
            in1=np.ones((5, 6), np.uint8),
            in2=np.ones((3, 3), np.uint8),
            fillvalue=300,
            says="is 300, must be within [0, 255] as the result is uint8",
        ),
        bad_value(
            in1=np.ones((5, 6), np.uint8),
            in2=np.ones((3, 3), np.uint8),
            fillvalue=-1,
            says="is -1, must be within",
        ),
        bad_value(
            in1=np.ones((5, 6), np.uint8),
            in2=np.ones((3, 3), np.uint8),
            fillvalue=NAN,
            says="is nan, must be within",
        ),
        bad_value(
            in1=np.ones((5, 6), np.uint8),
            in2=np.ones((3, 3), np.uint8),
            fillvalue=INF,
            says="is inf, must be",
        ),
        bad_value(in1=ARRAY, in2=KERNEL, fillvalue=1j, says="is 1j, must be real as the result"),
        bad_type(in1=ARRAY, in2=KERNEL, fillvalue=None, says="is None, must be a number"),
        bad_type(in1=ARRAY, in2=KERNEL, fillvalue="3", says="is '3', must be a number"),
        bad_type(in1=ARRAY, in2=KERNEL, fillvalue=[1, 2], says="is [1, 2], must be a"),
        bad_type(fillvalue=ones(2), says="is tensor([1., 1.]), must be a number"),
        bad_value(
            in1=np.ones((5, 6), np.uint8),
            in2=np.ones((3, 3), np.uint8),
            method="fft",
            says="is 'fft' for a result of dtype uint8, must be another for integers, which it",
        ),
        bad_value(
            in1=ARRAY,
            in2=np.array([[1.0, 2.0], [3.0, 4.0]], np.float32),
            method="separable",
            says="is 'separable', in2 of shape [2, 2] must be the product of a column and a row",
        ),
        bad_value(
            in1=np.ones((5, 6), np.uint8),
            in2=np.array([[1, 1], [1, 2]], np.uint8),
            method="separable",
            says="is 'separable', in2 of shape [2, 2] must be",
        ),
        bad_value(
            in1=ARRAY,
            in2=np.array([[NAN, NAN, NAN], [NAN, NAN, NAN], [NAN, NAN, NAN]], np.float32),
            method="separable",
            says="is 'separable', in2 of shape [3, 3] must be the product",
        ),
        bad_value(
            in2=ones(3, 3).requires_grad_(),
            method="separable",
            says="is 'separable', must be another where in2 requires a gradient: its factors",
        ),
        bad_type(
            in1=zeros(1073741824, 1073741824, device="meta"),
            in2=zeros(1073741824, 1073741824, device="meta"),
            fillvalue=None,
            says="is None, must be a number",
        ),
    ),
    "correlate2d": Errors(
        {"in1": ones(5, 6), "in2": ones(3, 3)},
        bad_value(mode=1, says="is 1, must be 'full', 'same' or 'valid'"),
        bad_value(in2=tensor(1.0), says="has shape [], must be [..., h"),
        bad_value(
            in1=ones(5, 6, dtype=bool),
            in2=ones(3, 3, dtype=bool),
            says="has dtype bool and in2 bool, the result's dtype would be bool; must be an",
        ),
    ),
    "ops.conv2d": Errors(
        {"input": zeros(2, 4, 6, 7), "weight": zeros(8, 4, 3, 3)},
        bad(
            weight=zeros(8, 4, 3, 3, dtype=float64),
            says="has dtype float64, input has float32; they must be equal",
        ),
        bad(
            bias=zeros(8, dtype=float16),
            says="has dtype float16, input has float32; they must be equal",
        ),
        bad(input=zeros(2, 4, 6, 7, dtype=bool), says="has dtype bool, must be a floating,"),
        bad(input=zeros(2, 4, 6, 7, dtype=float8_e5m2), says="has dtype float8_e5m2, which is"),
        bad(stride=[1, 0], says="is 0, must be >= 1 and <= 2147483647"),
        bad(stride=[2**31, 1], says="is 2147483648, must be >= 1 and <= 2147483647"),
        bad(dilation=[1, 2**62], says="is 4611686018427387904, must be >= 1 and <= 2147483647"),
        bad(padding=[0, 0, 0, -1], says="is -1, must be >= 0 and <= 2147483647"),
        bad(padding=[0] * 3, says="has 3 numbers, must have 2 (y, x) or 4 (top, bottom, left,"),
        bad(groups=-1, says="is -1, must be >= 1"),
        bad(stride=[1, 2**31], says="is 2147483648, must be >= "),
        bad(padding=[0, 2**31], says="is 2147483648, must be >= "),
        bad(dilation=[1, 2**31], says="is 2147483648, must be >= "),
    ),
    "ops.conv2d_backward_input": Errors(
        {
            "grad": zeros(2, 8, 4, 5),
            "weight": zeros(8, 4, 3, 3),
            "input_size": [2, 4, 6, 7],
            "stride": [1, 1],
            "padding": [0, 0],
            "dilation": [1, 1],
            "groups": 1,
            "channels_last": False,
        },
        bad(grad=zeros(2, 8, 4, 4), says="has shape [2, 8, 4, 4], must be [2, 8, 4, 5]"),
        bad(input_size=[4, 6, 7], says="input has shape [4, 6, 7], must be [N, C, H, W]"),
        bad(input_size=[-2, 4, 6, 7], says="input has shape [-2, 4, 6, 7], sizes must be >= 0"),
        bad(input_size=[2, -4, 6, 7], says="input has shape [2, -4, 6, 7], sizes must be >= 0"),
        bad(
            input_size=[2, 4, -(2**63), 7],
            says="input has shape [2, 4, -9223372036854775808, 7], sizes must be >= 0",
        ),
    ),
    "ops.conv2d_backward_weight": Errors(
        {
            "grad": zeros(2, 8, 4, 5),
            "input": zeros(2, 4, 6, 7),
            "weight_size": [8, 4, 3, 3],
            "stride": [1, 1],
            "padding": [0, 0],
            "dilation": [1, 1],
            "groups": 1,
        },
        bad(
            input=zeros(2, 4, 6, 7, dtype=float64),
            says="has dtype float64, grad has float32; they must be equal",
        ),
        bad(weight_size=[9, 4, 3, 3], says="grad has shape [2, 8, 4, 5], must be [2, 9, 4, 5]"),
        bad(weight_size=[-8, 4, 3, 3], says="weight has shape [-8, 4, 3, 3], sizes must be >= 0"),
        bad(weight_size=[8, -4, 3, 3], says="weight has shape [8, -4, 3, 3], sizes must be >= 0"),
        bad(
            weight_size=[8, -(2**63), 3, 3],
            says="weight has shape [8, -9223372036854775808, 3, 3], sizes must be >= 0",
        ),
    ),
    "ops.convolve2d": Errors(
        DIRECT,
        bad(kernel=zeros(0, 3), says="has shape [0, 3], must have at least one row and one column"),
        bad(input=zeros(3, 0), boundary="wrap", says="has shape [3, 0], must have at least one"),
        bad(input=ones(6), says="has shape [6], must have two dimensions or more"),
        bad(kernel=tensor(1.0), says="has shape [], must have two dimensions or more"),
        bad(kernel=ones(3, 3, dtype=float64), says="has dtype float64, input has float32"),
        bad(
            input=ones(6, 7, dtype=bool),
            kernel=ones(3, 3, dtype=bool),
            says="has dtype bool, must be an integer, floating or complex type (not complex32)",
        ),
        bad(
            input=zeros(6, 7, dtype=complex32),
            kernel=tensor(
                [
                    [(1 + 0j), (1 + 0j), (1 + 0j)],
                    [(1 + 0j), (1 + 0j), (1 + 0j)],
                    [(1 + 0j), (1 + 0j), (1 + 0j)],
                ],
                dtype=complex32,
            ),
            says="has dtype complex32, must be an integer, floating or complex type",
        ),
        bad(
            input=ones(6, 7, dtype=float8_e5m2),
            kernel=ones(3, 3, dtype=float8_e5m2),
            says="has dtype float8_e5m2, which is not supported",
        ),
        bad(input=ones(4, 6, 7), kernel=ones(2, 3, 3), says="has shape [2, 3, 3], input has [4,"),
        bad(input=zeros(0, 7), boundary="symm", says="has shape [0, 7], must have at least one"),
        bad(boundary="same", says="is 'same', must be 'fill', 'wrap' or 'symm'"),
        bad(start=[1, 2, 3], says="is [1, 2, 3], must be two integers"),
        bad(size=[], says="is [], must be two integers"),
        bad(start=[0, 2**62], says="is [0, 4611686018427387904], must be between -2^60 and 2^60"),
        bad(size=[-1, 7], says="is [-1, 7], must be between 0 and 2^60"),
        bad(size=[2**40, 2**40], says="output of shape [1099511627776, 1099511627776] can't be"),
        bad(size=[2**31, 2**30], says="output of shape [2147483648, 1073741824] can't be"),
        bad(kernel=tensor([[1.0]]).expand(2**30, 2**30), says="has 1073741824 x 1073741824"),
        bad(fill=ones(2), says="has shape [2], must be one element"),
        bad(fill=tensor([1]), says="has dtype int64, input has float32"),
        bad(boundary="wrap", fill=tensor([1.0]), says="is given, boundary must be 'fill'"),
    ),
    "ops.convolve2d_backward_kernel": Errors(
        {
            "grad": IMAGE,
            "input": IMAGE,
            "kernel_size": [3, 3],
            "start": [1, 1],
            "boundary": "fill",
            "fill": None,
            "flip": True,
            "sum_batch": True,
        },
        bad(grad=ones(6), says="has shape [6], must have two dimensions or more"),
        bad(input=ones(6, 7, dtype=float64), says="has dtype float64, grad has float32"),
        bad(
            grad=ones(6, 7, dtype=int32),
            input=ones(6, 7, dtype=int32),
            says="has dtype int32, must be a floating or complex type",
        ),
        bad(kernel_size=[3], says="is [3], must be two integers"),
        bad(kernel_size=[-1, 3], says="is [-1, 3], must be between 0 and 2^60"),
        bad(kernel_size=[2**30, 2**30], says="is 1073741824 x 1073741824, which is too large"),
        bad(boundary="", says="is '', must be 'fill', 'wrap' or 'symm'"),
    ),
    "ops.convolve2d_fold": Errors(
        {"grad": IMAGE, "start": [0, 0], "size": [3, 3], "boundary": "wrap"},
        bad(grad=ones(6), says="has shape [6], must have two dimensions or more"),
        bad(grad=ones(6, 7, dtype=bool), says="has dtype bool, must be an integer"),
        bad(boundary="x", says="is 'x', must be 'fill', 'wrap' or 'symm'"),
        bad(size=[3], says="is [3], must be two integers"),
        bad(size=[3, -3], says="is [3, -3], must be between 0 and 2^60"),
    ),
    "ops.convolve2d_out": Errors(
        {**DIRECT, "out": zeros(6, 7)},
        bad(out=zeros(6, 6), says="has shape [6, 6], must be [6, 7]"),
        bad(out=zeros(6, 7, dtype=float64), says="has dtype float64, input has float32"),
        bad(out=zeros(7, 6).mT, says="has shape [6, 7] and strides [1, 6], must be contiguous"),
        bad(out=IMAGE, says="shares memory with input; a convolution can't be done in place"),
        named="convolve2d",
    ),
}
