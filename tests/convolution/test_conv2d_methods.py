"""The methods of conv2d against torch's, and the reference convolutions against each other."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import references.conv as reference
import torch
import torch.nn.functional as F
import visops
from numpy.lib.stride_tricks import sliding_window_view
from scipy import ndimage, signal

from convolution.conv2d_cases import CASES, Case, channels_last, elements, operands

METHODS: tuple[Any, ...] = ("auto", "implicit", "im2col", "torch")


@pytest.mark.filterwarnings("ignore:Using padding='same'")  # torch's, of even kernels
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("padding", [0, (1, 2), "same", "valid"], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64], ids=str)
def test_methods(dtype: torch.dtype, padding: Any, method: Any) -> None:
    for kernel, dilation, groups in (((3, 3), 1, 1), ((2, 5), (3, 1), 2), ((4, 2), 2, 4)):
        case = Case((2, 4, 9, 12), (8, 4 // groups, *kernel))
        input, weight, bias = operands(case, dtype)
        arguments = (bias, 1, padding, dilation, groups)
        expected = F.conv2d(input, weight, *arguments)
        found = visops.conv2d(input, weight, *arguments, method=method)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        one = visops.conv2d(input[0], weight, *arguments, method=method)
        torch.testing.assert_close(one, expected[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_steps_and_layout(method: Any) -> None:
    input, weight, bias = operands(CASES["stem"], torch.float32)
    for images in (input, channels_last(input)):
        found = visops.conv2d(images, weight, bias, (2, 1), 3, method=method)
        expected = F.conv2d(images, weight, bias, (2, 1), 3)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-4)
        assert found.stride() == expected.stride()


@pytest.mark.parametrize("method", ["auto", "implicit", "im2col"])
def test_integers(method: Any) -> None:
    input, weight, bias = operands(CASES["3x3"], torch.uint8)
    found = visops.conv2d(input, weight, bias, padding="same", method=method)
    whole = F.conv2d(input.double(), weight.double(), bias.double(), padding="same")
    assert torch.equal(found, whole.to(torch.int64).to(torch.uint8))


@pytest.mark.parametrize(
    ("dtype", "channels", "line"),
    [
        (torch.float32, 64, "'implicit': float32 with 64 input channels a group, <= 64"),
        (torch.float32, 65, "'torch': float32 with 65 input channels a group, > 64"),
        (torch.complex64, 33, "'torch': complex64 with 33 input channels a group, > 32"),
        (torch.float64, 64, "'implicit': oneDNN has no float64 here"),
        (torch.complex128, 64, "'implicit': oneDNN has no complex128 here"),
        (torch.int32, 64, "'implicit': torch has no convolution of int32"),
    ],
    ids=str,
)
def test_choice(dtype: torch.dtype, channels: int, line: str) -> None:
    method: Any
    case = Case((1, channels, 4, 4), (2, channels, 3, 3))
    input, weight, _ = operands(case, dtype)
    lines: list[str] = []
    found = visops.conv2d(input, weight, explain=lines.append)
    assert lines == [f"visops.conv2d: method {line}"]
    method = line.split("'")[1]
    assert torch.equal(found, visops.conv2d(input, weight, method=method, explain=lines.append))
    assert lines[1] == f"visops.conv2d: method '{method}': asked for"


def test_groups_count_for_the_choice() -> None:
    lines: list[str] = []
    input, weight = torch.ones(1, 80, 3, 3), torch.ones(80, 1, 3, 3)
    visops.conv2d(input, weight, groups=80, explain=lines.append)
    reason = "float32 with 1 input channels a group, <= 64"
    assert lines == [f"visops.conv2d: method 'implicit': {reason}"]


def test_the_layout_counts_for_the_choice() -> None:
    lines: list[str] = []
    input = torch.ones(1, 8, 3, 3).contiguous(memory_format=torch.channels_last)
    result = visops.conv2d(input, torch.ones(2, 8, 3, 3), explain=lines.append)
    assert result.tolist() == [[[[72.0]], [[72.0]]]]
    reason = "float32, channels_last, which oneDNN takes as it lies"
    assert lines == [f"visops.conv2d: method 'torch': {reason}"]


@pytest.mark.parametrize("method", ["auto", "implicit", "im2col", "torch"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32], ids=str)
def test_no_input_channels(method: Any, dtype: torch.dtype) -> None:
    """A sum over nothing is 0: only the bias is left, on fake tensors too."""
    if dtype == torch.int32 and method == "torch":
        return  # refused
    input, weight = torch.ones(2, 0, 5, 6, dtype=dtype), torch.ones(3, 0, 2, 2, dtype=dtype)
    bias = torch.tensor([1, 2, 3], dtype=dtype)
    for images in (input, input.to(memory_format=torch.channels_last)):
        found = visops.conv2d(images, weight, bias, method=method)
        assert torch.equal(found, bias[:, None, None].expand(2, 3, 4, 5))
    on_meta = [tensor.to("meta") for tensor in (input, weight, bias)]
    assert visops.conv2d(on_meta[0], on_meta[1], on_meta[2], method=method).shape == (2, 3, 4, 5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_layout_follows_the_input(dtype: torch.dtype) -> None:
    """Not the weight; and fake kernels promise the same strides."""
    input, weight = elements((2, 8, 9, 7), dtype, 0), elements((4, 8, 3, 3), dtype, 1)
    for method in METHODS:
        for images in (input, channels_last(input)):
            for kernel in (weight, channels_last(weight)):
                found = visops.conv2d(images, kernel, method=method)
                last = found.is_contiguous(memory_format=torch.channels_last)
                assert last == (images is not input)
                fake = visops.conv2d(images.to("meta"), kernel.to("meta"), method=method)
                assert fake.stride() == found.stride()


def test_one_dimension() -> None:
    """F.conv1d equals im2col and a product, as in any number of dimensions."""
    input, weight = elements((2, 3, 20), torch.float64, 0), elements((5, 3, 4), torch.float64, 1)
    columns = visops.im2col(input, (4,), stride=2, padding=1, dilation=3)
    found = weight.flatten(1) @ columns
    torch.testing.assert_close(found, F.conv1d(input, weight, None, 2, 1, 3))


def test_three_dimensions() -> None:
    input = elements((2, 3, 6, 7, 8), torch.float64, 0)
    weight = elements((4, 3, 2, 3, 2), torch.float64, 1)
    stride, padding, dilation = (1, 2, 1), (1, 0, 1), (2, 1, 1)
    columns = visops.im2col(input, (2, 3, 2), stride=stride, padding=padding, dilation=dilation)
    expected = F.conv3d(input, weight, None, stride, padding, dilation)
    found = (weight.flatten(1) @ columns).reshape(expected.shape)
    torch.testing.assert_close(found, expected)


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
