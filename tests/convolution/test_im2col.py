"""im2col and col2im: against Python loops, NumPy's windows, torch's unfold and fold."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import visops
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import every_slot, use_slot
from references import conv
from torch import Tensor

from convolution.im2col_cases import (
    COMPLEX,
    FLOATING,
    LARGE,
    SIGNED,
    SUMMED,
    UNSIGNED,
    WINDOWS,
    Window,
    bytes_of,
    every_window,
    numbers,
    patches,
    sliding,
    summed,
    taken,
    unfolded,
    window,
)

OPS = torch.ops.visops
FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2]
DTYPES = [torch.bool, *UNSIGNED, *SIGNED, *FLOATING, *FLOAT8, torch.complex32, *COMPLEX]
SIZES = [torch.uint8, torch.float16, torch.float32, torch.float64, torch.complex128]
LEADS: list[tuple[int, ...]] = [(), (3,), (2, 3)]
NAMES, CASES = zip(*every_window(), strict=True)
every_case = pytest.mark.parametrize("w", CASES, ids=NAMES)


def indices(leads: tuple[int, ...], w: Window, fast: bool = False) -> np.ndarray:
    """Patches of an image that has its own flat indices for pixels, -1 outside."""
    shape = (*leads, *w.sizes)
    image = np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
    return (sliding if fast else patches)(image, w, -1)


def check_copies(image: Tensor, w: Window, index: np.ndarray, fill: Tensor) -> None:
    """Both layouts, to the last bit."""
    found = OPS.im2col(image, *w.arguments, fill, "patches")
    assert (found.shape, found.dtype) == (index.shape, image.dtype)
    assert np.array_equal(bytes_of(found), taken(image, index, fill))
    if image.dim() > w.dims + 2:
        return
    columns = unfolded(index, w)
    found = OPS.im2col(image, *w.arguments, fill)
    assert (found.shape, found.dtype) == (columns.shape, image.dtype)
    assert np.array_equal(bytes_of(found), taken(image, columns, fill))


@pytest.mark.matrix
@every_case
def test_reference(w: Window) -> None:
    for leads, dtype in zip(LEADS, itertools.cycle(SIZES), strict=False):
        index = indices(leads, w)
        for other in (dtype, *SIZES):
            image = numbers((*leads, *w.sizes), other)
            check_copies(image, w, index, numbers((1,), other, 1))
            if leads:
                break  # every size of element, but only with one shape


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("w", LARGE, ids=str)
def test_large(w: Window, dtype: torch.dtype) -> None:
    index = indices((2,), w, fast=True)
    check_copies(numbers((2, *w.sizes), dtype), w, index, numbers((1,), dtype, 1))


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(dtype: torch.dtype) -> None:
    w = window((6, 9), (3, 2), 1, 1)
    image = numbers((2, 3, 6, 9), torch.float32).to(dtype)
    check_copies(image, w, indices((2, 3), w), torch.ones(1).to(dtype))


@pytest.mark.matrix
def test_runs_of_every_length() -> None:
    """Runs for vectors of every size, and runs too long to be staged."""
    for width, dtype in itertools.product((1, 2, 3, 5, 8, 9, 17, 33, 65, 140), SIZES):
        w = window((3, 160), (2, width), 1, 1)
        image = numbers((3, 160), dtype)
        check_copies(image, w, indices((), w, fast=True), numbers((1,), dtype, 1))


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.complex64], ids=str)
def test_rows_of_every_length(dtype: torch.dtype) -> None:
    for size, stride in itertools.product((3, 4, 7, 8, 15, 16, 31, 33, 64, 65, 200), (1, 2, 3)):
        w = window((5, size), (3, 3), stride, 1)
        image = numbers((2, 5, size), dtype)
        check_copies(image, w, indices((2,), w, fast=True), numbers((1,), dtype, 1))


def test_many_leading_dimensions() -> None:
    image = numbers((2, 3, 2, 1, 3, 2, 6, 5), torch.int16)
    for view in (
        image,
        image.permute(5, 0, 3, 2, 4, 1, 6, 7),
        image.permute(4, 2, 0, 1, 3, 5, 6, 7),
    ):
        found = visops.im2col(view, (2, 3), layout="patches")
        wanted = visops.im2col(view.reshape(-1, 6, 5), (2, 3), layout="patches")
        assert torch.equal(found, wanted.view(*view.shape[:6], 6, 5, 2, 3))
    adjoint = visops.col2im(found, (6, 5), (2, 3), layout="patches")
    assert torch.equal(
        adjoint.view(-1, 6, 5), visops.col2im(wanted, (6, 5), (2, 3), layout="patches")
    )


@pytest.mark.parametrize("kernel", [(3, 3), (2, 4), (1, 1), (5, 2), (7, 7)])
def test_tutorial(kernel: tuple[int, int]) -> None:
    """By default, patches equal the results of im2col_naive and im2col_recursive."""
    image = np.arange(49).reshape(7, 7)
    for fill in (0, -3):
        found = visops.im2col(image, kernel, layout="patches", fill_value=fill)
        assert np.array_equal(found, conv.im2col_naive(image, kernel, fill))
        assert np.array_equal(found, conv.im2col_recursive(image, kernel, fill))
    mean = np.full(kernel, 1 / math.prod(kernel))
    columns = visops.im2col(image.astype(float), kernel, layout="patches").reshape(49, -1)
    product = (columns @ mean[::-1, ::-1].ravel()).reshape(7, 7)
    np.testing.assert_allclose(product, conv.convolve_naive(image.astype(float), mean), atol=1e-12)


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.complex128], ids=str)
def test_torch(dtype: torch.dtype) -> None:
    for size, kernel, stride, padding, dilation in itertools.product(
        ((9, 20), (5, 5)), ((3, 3), (2, 4)), (1, (2, 3)), (0, (2, 1)), (1, (1, 2))
    ):
        if padding == 0 and size == (5, 5) and dilation != 1:
            continue  # larger than the image
        image = numbers((2, 3, *size), dtype)
        options: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation}
        columns = F.unfold(image, kernel, **options)
        assert torch.equal(visops.im2col(image, kernel, **options), columns)
        assert torch.equal(visops.im2col(image[0], kernel, **options), columns[0])
        columns = numbers(columns.shape, dtype, 1)
        found = visops.col2im(columns, size, kernel, **options)
        # torch adds up halves in halves.
        wide = columns.float() if dtype == torch.float16 else columns
        wanted = F.fold(wide, size, kernel, **options).to(dtype)
        torch.testing.assert_close(found, wanted)
        assert torch.equal(visops.col2im(columns[1], size, kernel, **options), found[1])


def test_padding_same() -> None:
    """Like torch's convolution; for patches with the centre K // 2."""
    image = numbers((2, 8, 9), torch.float64)
    for kernel, dilation in itertools.product(((3, 3), (2, 4), (1, 5)), (1, 2)):
        options: dict[str, Any] = {"padding": "same", "dilation": dilation}
        weight = numbers((1, 2, *kernel), torch.float64, 1)
        columns = visops.im2col(image, kernel, **options)
        product = (weight.view(1, -1) @ columns).view(1, 8, 9)
        torch.testing.assert_close(product, F.conv2d(image, weight, None, **options))
        found = visops.im2col(image, kernel, layout="patches", dilation=dilation)
        assert found.shape == (2, 8, 9, *kernel)
        assert torch.equal(found[..., kernel[0] // 2, kernel[1] // 2], image)
        assert torch.equal(found, visops.im2col(image, kernel, layout="patches", **options))
    valid = visops.im2col(image, 3, padding="valid", layout="patches")
    assert torch.equal(valid, image.unfold(1, 3, 1).unfold(2, 3, 1))


@pytest.mark.parametrize("dims", [1, 3])
def test_other_dimensions(dims: int) -> None:
    """The columns of a 1-d and a 3-d convolution."""
    sizes, kernel = (9, 8, 7)[:dims], (3, 2, 3)[:dims]
    image = numbers((2, 4, *sizes), torch.float64)
    weight = numbers((5, 4, *kernel), torch.float64, 1)
    columns = visops.im2col(image, kernel, stride=2, padding=1)
    function = F.conv1d if dims == 1 else F.conv3d
    wanted = function(image, weight, stride=2, padding=1)
    torch.testing.assert_close((weight.view(5, -1) @ columns).view(wanted.shape), wanted)


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", SUMMED, ids=str)
@every_case
def test_sums(w: Window, dtype: torch.dtype) -> None:
    """In the documented order, to the last bit, in both layouts."""
    if math.prod(w.positions) * math.prod(w.kernel) > 500 and dtype not in (
        torch.float32,
        torch.int8,
    ):
        return  # loops
    columns = numbers((2, *w.positions, *w.kernel), dtype)
    wide = {torch.float16: torch.float32, torch.bfloat16: torch.float32}.get(dtype, dtype)
    with np.errstate(over="ignore"):
        wanted = torch.from_numpy(summed(columns.to(wide).numpy(), w)).to(dtype)
    found = OPS.col2im(columns, w.sizes, *w.arguments, "patches")
    assert (found.dtype, found.shape) == (dtype, (2, *w.sizes))
    assert torch.equal(found, wanted)
    rows = columns.flatten(1, w.dims).flatten(2).transpose(1, 2).flatten(0, 1)
    assert torch.equal(OPS.col2im(rows, w.sizes, *w.arguments), wanted)


@pytest.mark.matrix
@pytest.mark.parametrize(
    "dtype", [torch.uint16, torch.uint32, torch.uint64, torch.complex32], ids=str
)
def test_sums_of_other_dtypes(dtype: torch.dtype) -> None:
    w = window((6, 9), (3, 2), 1, 1)
    columns = numbers(
        (2, *w.positions, *w.kernel), dtype if not dtype.is_complex else torch.complex64
    )
    if dtype.is_complex:
        columns = columns.to(dtype)
        wanted = torch.from_numpy(summed(columns.to(torch.complex64).numpy(), w)).to(dtype)
    else:
        wanted = torch.from_numpy(summed(columns.numpy(), w))
    found = OPS.col2im(columns, w.sizes, *w.arguments, "patches")
    assert found.dtype == dtype
    assert np.array_equal(bytes_of(found), bytes_of(wanted))


@pytest.mark.matrix
@pytest.mark.parametrize("w", LARGE, ids=str)
@pytest.mark.parametrize("dtype", [torch.int32, torch.float16, torch.complex64], ids=str)
def test_sums_of_large_images(w: Window, dtype: torch.dtype) -> None:
    """The same in both layouts, and adjoint to im2col."""
    columns = numbers((2, *w.positions, *w.kernel), dtype)
    found = OPS.col2im(columns, w.sizes, *w.arguments, "patches")
    rows = columns.flatten(1, w.dims).flatten(2).transpose(1, 2).flatten(0, 1)
    assert torch.equal(OPS.col2im(rows, w.sizes, *w.arguments), found)
    if dtype == torch.int32:
        image = numbers((2, *w.sizes), dtype)
        seen = OPS.im2col(image, *w.arguments, None, "patches")
        products = (seen * columns).sum(), (image * found).sum()
        assert products[0].int() == products[1].int()


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (torch.float32, (0.1, -0.0, math.inf, math.nan, 3, True, np.float64(0.1))),
        (torch.float16, (0.1, 65504, -math.inf)),
        (torch.complex64, (1, 0.5, 1 + 2j, complex(0.0, -0.0), complex(math.inf, 1))),
        (torch.uint8, (0, 255, 7.0, True, np.uint8(9))),
        (torch.int64, (2**63 - 1, -(2**63))),
        (torch.uint64, (2**64 - 1,)),
        (torch.bool, (True, False, 1, 0.0)),
    ],
    ids=str,
)
def test_fill_value(dtype: torch.dtype, values: tuple[Any, ...]) -> None:
    """Every value that torch.full takes."""
    layout: Any
    image = numbers((3, 3), dtype)
    for value, layout in itertools.product(values, ("unfold", "patches")):
        found = visops.im2col(image, 2, padding=1, layout=layout, fill_value=value)
        item = value.item() if isinstance(value, np.generic) else value
        assert np.array_equal(
            bytes_of(found.reshape(-1)[:1]), bytes_of(torch.full((1,), item, dtype=dtype))
        )


@pytest.mark.parametrize("shape", [(0, 3, 5, 6), (2, 0, 5, 6), (0, 5, 6)])
def test_empty(shape: tuple[int, ...]) -> None:
    image = torch.zeros(shape)
    for layout in ("unfold", "patches"):
        columns = visops.im2col(image, 3, layout=layout, padding=1)
        assert columns.numel() == 0
        assert visops.col2im(columns, (5, 6), 3, layout=layout, padding=1).shape == image.shape
    batch = shape[:-3]
    assert visops.im2col(image, 3).shape == (*batch, 9 * shape[-3], 12)


@pytest.mark.parametrize("layout", ["unfold", "patches"])
def test_largest_numbers(layout: str) -> None:
    """Strides and dilations at their limit: nothing overflows, nothing is read outside."""
    most = 2**31 - 1
    w = window((5, 12), (1, 3), (2, most), (0, 3, 0, 3))
    image = numbers((1, *w.sizes), torch.float32)
    for _ in range(20):
        columns = OPS.im2col(image, *w.arguments, None, layout)
        assert columns.count_nonzero() == 0  # the one place lies in the padding
    assert OPS.col2im(columns + 1, w.sizes, *w.arguments, layout).count_nonzero() == 0
    w = window((5, 12), (1, 2), (1, most), (0, most, 0, 0), (1, most))
    columns = OPS.im2col(image, *w.arguments, None, layout).flatten()
    assert torch.equal(columns[columns != 0], image[0, :, 0])
    back = OPS.col2im(OPS.im2col(image, *w.arguments, None, layout), w.sizes, *w.arguments, layout)
    assert torch.equal(back[0, :, 0], image[0, :, 0])
    assert back.count_nonzero() == 5


def test_sums_of_a_kernel_as_large_as_the_image() -> None:
    """An element of the image has one column here: 2^19 steps, not their square."""
    n = 2**19
    columns = numbers((n, 1, 1, 1), torch.float32)
    for layout, source in (
        ("unfold", columns.view(n, 1)),
        ("patches", columns[None, None, None, None]),
    ):
        found = visops.col2im(source, (n, 1, 1, 1), (n, 1, 1, 1), layout=layout, padding=0)
        assert torch.equal(found.flatten(), columns.flatten())


def test_integer_sizes() -> None:
    line, image, volume = (numbers((5,) * n, torch.float32) for n in (1, 2, 3))
    assert torch.equal(visops.im2col(line, 2), visops.im2col(line, (2,)))
    assert torch.equal(visops.im2col(image, 2), visops.im2col(image, (2, 2)))
    assert torch.equal(visops.im2col(volume, 2), visops.im2col(volume, [2, 2]))
    columns = visops.im2col(volume, (2, 2, 2))
    assert visops.col2im(columns, 5, (2, 2, 2)).shape == (1, 5, 5, 5)
    assert visops.col2im(visops.im2col(line, 2), (5,), 2).shape == (1, 5)
    assert visops.col2im(visops.im2col(image, 2), 5, 2).shape == (1, 5, 5)


def test_windows_have_every_number_of_dimensions() -> None:
    assert {w.dims for w in WINDOWS} == {1, 2, 3, 4}


def test_integers_beyond_64_bits_fill_floating_results() -> None:
    columns = visops.im2col(torch.zeros(1, 1, 2, 2), 1, padding=1, fill_value=-(2**70))
    assert columns[0, 0, 0] == -(2.0**70)


INTEGERS = st.sampled_from([torch.uint8, torch.int16, torch.int32, torch.int64])


@st.composite
def windows(draw: st.DrawFn) -> Window:
    """Any window within its padded image."""

    def integers(least: int, most: int, count: int) -> list[int]:
        return draw(st.lists(st.integers(least, most), min_size=count, max_size=count))

    dims = draw(st.integers(1, 4))
    kernel, stride, dilation = (integers(1, 4 if dims > 2 else 9, dims) for _ in range(3))
    padding = integers(0, 4, 2 * dims)
    beyond = integers(0, 40 if dims < 3 else 5, dims)
    sizes = [
        max(1, d * (k - 1) + 1 + more - padding[i] - padding[dims + i])
        for i, (k, d, more) in enumerate(zip(kernel, dilation, beyond, strict=True))
    ]
    return window(sizes, kernel, stride, padding, dilation)


@pytest.mark.matrix
@given(windows(), INTEGERS, st.lists(st.integers(1, 3), max_size=2))
@settings(max_examples=80)
def test_copies_and_sums(w: Window, dtype: torch.dtype, leads: list[int]) -> None:
    image = numbers((*leads, *w.sizes), dtype)
    fill = numbers((), dtype, 1)
    expected = sliding(image.numpy(), w, fill.numpy())
    patches = OPS.im2col(image, *w.arguments, fill, "patches")
    columns = OPS.im2col(image, *w.arguments, fill)
    assert np.array_equal(patches.numpy(), expected)
    assert np.array_equal(columns.numpy(), unfolded(expected, w))
    # The adjoint, exactly: integers wrap.
    others = numbers(patches.shape, dtype, 2)
    back = OPS.col2im(others, w.sizes, *w.arguments, "patches")
    seen = OPS.im2col(image, *w.arguments, None, "patches")
    assert (seen * others).sum().to(dtype) == (image * back).sum().to(dtype)
    if leads:
        rows = torch.from_numpy(unfolded(others.numpy(), w))
        assert torch.equal(OPS.col2im(rows, w.sizes, *w.arguments), back)


@every_slot
@pytest.mark.parametrize("layout", ["unfold", "patches"])
@pytest.mark.parametrize("step", [7, 2**31 - 1])
def test_steps_beyond_the_image(slot: str, layout: Any, step: int) -> None:
    """With such a stride there is one place; 31 bits of it make GPUs index in 64 bits."""
    image = torch.arange(1.0, 61).reshape(1, 2, 5, 6)
    with use_slot(slot):
        columns = visops.im2col(image, (2, 3), stride=step, padding=0, layout=layout)
        back = visops.col2im(columns, (5, 6), (2, 3), stride=step, padding=0, layout=layout)
        single = visops.im2col(image, 1, dilation=step, padding=0, layout=layout)
    assert columns.flatten().equal(image[..., :2, :3].flatten())
    expected = torch.zeros_like(image)
    expected[..., :2, :3] = image[..., :2, :3]
    assert back.equal(expected)
    positions = single.reshape(2, 30)
    assert positions.equal(image.reshape(2, 30))


LAYOUTS = ("unfold", "patches")


def test_conjugate_and_negative_views() -> None:
    image = numbers((2, 5, 6), torch.complex64)
    for view in (image.conj(), image.conj().imag):
        assert torch.equal(
            visops.im2col(view, 3), visops.im2col(view.resolve_conj().resolve_neg(), 3)
        )
