"""The direct convolution's values: a loop, SciPy, broadcasting, layouts, extremes."""

import itertools

import numpy as np
import pytest
import scipy.signal
import torch
import visops  # noqa: F401  (it registers the operators)
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from convolution.convolve2d_cases import (
    BOUNDARIES,
    DTYPES,
    FLOATING,
    INTEGER,
    SIZES,
    convolve_loop,
    element,
    values,
)

OPS = torch.ops.visops
every_boundary = pytest.mark.parametrize("boundary", BOUNDARIES)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)

# Relative to a sum's largest term, for sums of up to a few dozen terms.
TOLERANCE = {
    torch.float16: 1e-3,  # relative to the result: sums are in float32
    torch.bfloat16: 8e-3,
    torch.float32: 2e-6,
    torch.complex64: 2e-6,
    torch.float64: 1e-14,
    torch.complex128: 1e-14,
}


def wide(tensor: Tensor) -> np.ndarray:
    """In a type whose sums are (nearly) exact; only the bits of unsigned integers matter."""
    if tensor.dtype in INTEGER:
        return tensor.to(torch.int64).numpy()
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64).numpy()


def assert_is(found: Tensor, expected: np.ndarray, dtype: torch.dtype) -> None:
    assert found.dtype == dtype
    assert found.shape == expected.shape
    if dtype in INTEGER:
        assert torch.equal(found, torch.from_numpy(expected).to(dtype))
        return
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(wide(found), expected, rtol=0, atol=TOLERANCE[dtype] * scale)


def call(
    input: Tensor,
    kernel: Tensor,
    start: tuple[int, int],
    size: tuple[int, int],
    boundary: str = "fill",
    fill: Tensor | None = None,
    flip: bool = True,
) -> Tensor:
    result: Tensor = OPS.convolve2d(input, kernel, start, size, boundary, fill, flip)
    assert result.is_contiguous()
    return result


@pytest.mark.matrix
@every_dtype
@every_boundary
def test_equals_the_loop(boundary: str, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(0)
    for (shape, kernel_shape), flip in itertools.product(SIZES, (True, False)):
        input, kernel = values(rng, shape, dtype), values(rng, kernel_shape, dtype)
        fill = element(dtype) if boundary == "fill" else None
        start = ((kernel_shape[0] - 1) // 2, -2)
        size = (shape[0] + 1, shape[1] + 3)
        found = call(input, kernel, start, size, boundary, fill, flip)
        loop = convolve_loop(wide(input), wide(kernel), start, size, boundary, 3, flip)
        assert_is(found, loop, dtype)


@pytest.mark.matrix
@every_boundary
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("dtype", ["u1", "i2", "i8", "f4", "f8", "c8", "c16"])
def test_equals_scipy(dtype: str, mode: str, boundary: str) -> None:
    rng = np.random.default_rng(0)
    for height, width in ((1, 1), (3, 3), (4, 7), (16, 2)):
        input, kernel = (
            (rng.integers(0, 99, s) if dtype[0] in "ui" else rng.standard_normal(s)).astype(dtype)
            for s in ((17, 80), (height, width))
        )
        first = {
            "full": (0, 0),
            "same": ((height - 1) // 2, (width - 1) // 2),
            "valid": (height - 1, width - 1),
        }[mode]
        expected = scipy.signal.convolve2d(input, kernel, mode, boundary, 5)
        tensors = torch.from_numpy(input), torch.from_numpy(kernel)
        fill = element(tensors[0].dtype, 5) if boundary == "fill" else None
        found = call(*tensors, first, expected.shape, boundary, fill)
        assert found.numpy().dtype == expected.dtype
        assert_is(found, expected, found.dtype)


@pytest.mark.matrix
@given(
    shape=st.tuples(st.integers(1, 9), st.integers(1, 40)),
    kernel_shape=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    start=st.tuples(st.integers(-60, 60), st.integers(-60, 60)),
    size=st.tuples(st.integers(0, 9), st.integers(0, 90)),
    boundary=st.sampled_from(BOUNDARIES),
    flip=st.booleans(),
    seed=st.integers(0, 99),
)
def test_anywhere(
    shape: tuple[int, int],
    kernel_shape: tuple[int, int],
    start: tuple[int, int],
    size: tuple[int, int],
    boundary: str,
    flip: bool,
    seed: int,
) -> None:
    """Windows inside, across and far from inputs of any size; exact, as numbers are integers."""
    rng = np.random.default_rng(seed)
    input, kernel = (values(rng, s, torch.int32) for s in (shape, kernel_shape))
    fill = element(torch.int32) if boundary == "fill" else None
    found = call(input, kernel, start, size, boundary, fill, flip)
    loop = convolve_loop(wide(input), wide(kernel), start, size, boundary, 3, flip)
    assert_is(found, loop, torch.int32)


@pytest.mark.matrix
@every_boundary
def test_farthest_start(boundary: str) -> None:
    input, kernel = torch.arange(12.0).reshape(3, 4), torch.ones(1, 1)
    far = 2**60
    found = call(input, kernel, (-far, far), (2, 3), boundary)
    loop = convolve_loop(input.numpy(), kernel.numpy(), (-far, far), (2, 3), boundary)
    assert torch.equal(found, torch.from_numpy(loop))


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("leading", "kernel_leading"),
    [((3,), ()), ((), (3,)), ((2, 1, 3), (4, 1)), ((3,), (3,)), ((0, 2), (2,)), ((1,), (1, 1))],
    ids=str,
)
def test_leading_dimensions_broadcast(
    leading: tuple[int, ...], kernel_leading: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    input = values(rng, (*leading, 6, 70), torch.float32)
    kernel = values(rng, (*kernel_leading, 3, 4), torch.float32)
    found = call(input, kernel, (0, 0), (8, 73))
    batch = torch.broadcast_shapes(leading, kernel_leading)
    assert found.shape == (*batch, 8, 73)
    inputs, kernels = input.expand(*batch, -1, -1), kernel.expand(*batch, -1, -1)
    for i in np.ndindex(batch):
        assert torch.equal(found[i], call(inputs[i], kernels[i], (0, 0), (8, 73)))


def test_more_dimensions_than_kernels_support() -> None:
    rng = np.random.default_rng(0)
    input = values(rng, (2,) * 9 + (3, 4), torch.float32).transpose(0, 8).transpose(1, 6)
    input = input.transpose(2, 4).transpose(3, 7)
    kernel = values(rng, (2, 1) * 4 + (1, 2, 2), torch.float32)
    found = call(input, kernel, (1, 1), (2, 3))
    expected = call(input.contiguous(), kernel.expand(2, 2, *kernel.shape[2:]), (1, 1), (2, 3))
    assert torch.equal(found, expected)
    assert torch.equal(found[1, 0, 1], call(input[1, 0, 1], kernel[1, 0, 1], (1, 1), (2, 3)))


@pytest.mark.matrix
@every_dtype
@every_boundary
def test_layouts(boundary: str, dtype: torch.dtype) -> None:
    """Memory layout changes no bit."""
    rng = np.random.default_rng(0)
    for shape, kernel_shape in (((9, 200), (3, 3)), ((4, 6), (5, 2))):
        input, kernel = values(rng, shape, dtype), values(rng, kernel_shape, dtype)
        expected = call(input, kernel, (1, 1), (9, 201), boundary)
        strided = torch.stack([input, input], -1)[..., 1]
        for other in (input.mT.contiguous().mT, strided, input.repeat(2, 1)[shape[0] :]):
            assert torch.equal(call(other, kernel, (1, 1), (9, 201), boundary), expected)
        turned = kernel.mT.contiguous().mT
        assert torch.equal(call(input, turned, (1, 1), (9, 201), boundary), expected)


@pytest.mark.matrix
def test_nan_reaches_only_its_own_sums() -> None:
    """NaN spreads only to the sums of which it is a term."""
    for width, kernel_size in itertools.product((30, 64, 200), ((3, 3), (5, 1), (1, 2))):
        input = torch.zeros(12, width)
        input[6, width // 2] = torch.nan
        found = call(input, torch.ones(kernel_size), (0, 0), (12, width))
        expected = torch.zeros(12, width)
        y, x = 6, width // 2
        expected[y : y + kernel_size[0], x : x + kernel_size[1]] = torch.nan
        assert torch.equal(found.isnan(), expected.isnan())


def test_fill_is_multiplied_like_an_element() -> None:
    kernel = torch.tensor([[torch.inf, 1.0]])
    found = call(torch.ones(1, 2), kernel, (0, 0), (1, 3))
    assert found.isnan().tolist() == [[False, False, True]]
    found = call(torch.ones(1, 2), kernel, (0, 0), (1, 3), fill=torch.tensor([-1.0]))
    assert found.tolist() == [[torch.inf, torch.inf, -torch.inf]]


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_empty_sums_are_not_negative(dtype: torch.dtype) -> None:
    """Sums start at 0, so terms of -0 give 0."""
    found = call(
        torch.full((4, 90), -0.0, dtype=dtype), torch.ones(2, 2, dtype=dtype), (1, 1), (3, 89)
    )
    assert not found.signbit().any()


def test_halves_are_summed_in_float32() -> None:
    input = torch.full((40, 80), 1.0, dtype=torch.float16)
    kernel = torch.full((40, 60), 1.0, dtype=torch.float16)  # float16 can't sum 2400 ones
    assert call(input, kernel, (39, 59), (1, 21))[0].tolist() == [2400.0] * 21


@pytest.mark.parametrize(
    ("shape", "size"), [((0, 5), (3, 4)), ((5, 0), (3, 4)), ((4, 5), (0, 4)), ((0, 0), (2, 2))]
)
def test_empty(shape: tuple[int, int], size: tuple[int, int]) -> None:
    found = call(torch.ones(shape), torch.ones(2, 2), (0, 0), size, "fill", torch.tensor([0.5]))
    assert found.shape == size
    if 0 in shape:
        assert bool((found == 2).all())


def test_out() -> None:
    rng = np.random.default_rng(0)
    input, kernel = values(rng, (2, 9, 70), torch.float32), values(rng, (3, 3), torch.float32)
    out = torch.full((2, 9, 70), torch.nan)
    OPS.convolve2d_out(input, kernel, (1, 1), (9, 70), "symm", None, True, out)
    assert torch.equal(out, call(input, kernel, (1, 1), (9, 70), "symm"))


@pytest.mark.matrix
def test_more_columns_than_scratch_holds() -> None:
    rng = np.random.default_rng(0)
    for dtype in (torch.float32, torch.uint8):
        input, kernel = values(rng, (5, 17000), dtype), values(rng, (2, 3), dtype)
        for boundary in BOUNDARIES:
            found = call(input, kernel, (1, -5), (5, 17010), boundary)
            loop = convolve_loop(wide(input), wide(kernel), (1, -5), (5, 17010), boundary)
            assert_is(found, loop, dtype)
