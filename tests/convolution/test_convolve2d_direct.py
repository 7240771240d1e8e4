"""The direct convolution: values, gradients, layouts, extremes."""

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.signal
import torch
import visops
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from visops.convolution import convolve2d_autograd
from visops.convolution.convolve2d_autograd import convolve2d

from convolution.convolve2d_cases import (
    BOUNDARIES,
    COMPLEX,
    DTYPES,
    FLOATING,
    INTEGER,
    SIZES,
    convolve_loop,
    element,
    extended,
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


every_flip = pytest.mark.parametrize("flip", [True, False], ids=["convolution", "correlation"])
Pair = tuple[int, int]

# Input, kernel, start and size: windows inside, around and far from the input, kernels larger than
# it, batches that broadcast either way.
CASES: list[tuple[tuple[int, ...], tuple[int, ...], Pair, Pair]] = [
    ((4, 5), (3, 2), (1, 0), (4, 6)),
    ((2, 3), (5, 4), (2, 1), (3, 4)),
    ((2, 1, 3, 4), (3, 2, 2), (0, 1), (4, 4)),
    ((3, 3, 3), (1, 2, 2), (-3, 4), (3, 3)),
    ((3, 3), (2, 2, 2), (1, 1), (2, 3)),
]


def fill_of(boundary: str, dtype: torch.dtype) -> Tensor | None:
    return element(dtype, 2) if boundary == "fill" else None


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@every_flip
@every_boundary
@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradcheck(case: Any, boundary: str, flip: bool, dtype: torch.dtype) -> None:
    """First and second derivatives by differences; the second use every operator."""
    shape, kernel_shape, start, size = case
    rng = np.random.default_rng(0)
    input, kernel = (values(rng, s, dtype).requires_grad_() for s in (shape, kernel_shape))
    fill = fill_of(boundary, dtype)
    if fill is not None and dtype.is_complex:
        fill = fill * (1 + 1j)

    def function(input: Tensor, kernel: Tensor) -> Tensor:
        result: Tensor = convolve2d(input, kernel, start, size, boundary, fill, flip)
        return result

    assert torch.autograd.gradcheck(function, (input, kernel), fast_mode=True)
    assert torch.autograd.gradgradcheck(function, (input, kernel), fast_mode=True)


@pytest.mark.matrix
@every_boundary
def test_fold_is_the_adjoint_of_extension(boundary: str) -> None:
    rng = np.random.default_rng(0)
    for shape, start, size in itertools.product(
        ((3, 70), (1, 1), (5, 2)), ((-4, -100), (0, 0), (2, 7)), ((9, 300), (1, 3), (0, 4))
    ):
        plane = rng.integers(-9, 9, shape).astype(np.float64)
        grad = torch.from_numpy(rng.integers(-9, 9, size).astype(np.float64))
        folded = OPS.convolve2d_fold(grad, start, shape, boundary)
        wide = extended(plane, start, size, boundary, 0)
        assert folded.shape == shape
        assert float((wide * grad.numpy()).sum()) == float((plane * folded.numpy()).sum())


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", [*FLOATING, *COMPLEX], ids=str)
@every_flip
@every_boundary
def test_kernel_gradient_equals_the_loop(boundary: str, flip: bool, dtype: torch.dtype) -> None:
    """Whole and partial chunks and lanes; each element is a dot product."""
    rng = np.random.default_rng(0)
    for shape, kernel_size in (((40, 70), (3, 3)), ((17, 33), (2, 9)), ((3, 2100), (1, 2))):
        input, grad = values(rng, shape, dtype), values(rng, shape, dtype)
        start = (1, kernel_size[1] // 2)
        fill = fill_of(boundary, dtype)
        found = OPS.convolve2d_backward_kernel(
            grad, input, kernel_size, start, boundary, fill, flip, True
        )
        first = [s - k + 1 if flip else s for s, k in zip(start, kernel_size, strict=True)]
        reach = [n + k - 1 for n, k in zip(shape, kernel_size, strict=True)]
        numbers = torch.complex128 if dtype.is_complex else torch.float64
        plane, weights = input.to(numbers).numpy(), grad.to(numbers).numpy()
        wide = extended(plane, (first[0], first[1]), (reach[0], reach[1]), boundary, 2)
        expected = np.array(
            [
                [(weights * wide[m : m + shape[0], n : n + shape[1]]).sum() for n in range(width)]
                for width in kernel_size[1:]
                for m in range(kernel_size[0])
            ]
        )
        if flip:
            expected = expected[::-1, ::-1]
        scale = float(np.abs(weights).sum())
        eps = torch.finfo(dtype).eps
        np.testing.assert_allclose(
            found.to(numbers).numpy(), expected, rtol=2 * eps, atol=min(eps, 1e-7) * scale
        )


def test_batches_are_summed_where_the_kernel_is_shared() -> None:
    rng = np.random.default_rng(0)
    input = values(rng, (3, 2, 9, 40), torch.float64)
    grad = values(rng, (3, 2, 9, 40), torch.float64)
    args = [3, 3], [1, 1], "fill", None, True
    each = OPS.convolve2d_backward_kernel(grad, input, *args, False)
    together = OPS.convolve2d_backward_kernel(grad, input, *args, True)
    assert each.shape == (3, 2, 3, 3)
    assert torch.equal(
        each[1, 0], OPS.convolve2d_backward_kernel(grad[1, 0], input[1, 0], *args, True)
    )
    np.testing.assert_allclose(together, each.sum((0, 1)), rtol=1e-13)
    shared = OPS.convolve2d_backward_kernel(grad, input[0, 0], *args, True)
    spread = input[0, 0].expand(3, 2, -1, -1).contiguous()
    assert torch.equal(shared, OPS.convolve2d_backward_kernel(grad, spread, *args, True))


@pytest.mark.matrix
def test_nan_beyond_a_row_is_ignored() -> None:
    """Lanes without a column in the row add nothing, not even 0 times what lies there."""
    for width in (31, 33, 40):
        input = torch.ones(4, width)
        input[:, -1] = torch.nan
        grad = torch.ones(4, width - 2)
        found = OPS.convolve2d_backward_kernel(
            grad, input, [1, 3], [0, 0], "fill", None, False, True
        )
        assert found.isnan().tolist() == [[False, False, True]]


@every_boundary
def test_gradients_of_one_operand(boundary: str) -> None:
    rng = np.random.default_rng(0)
    input, kernel = (values(rng, s, torch.float32) for s in ((6, 7), (3, 3)))
    both = [t.clone().requires_grad_() for t in (input, kernel)]
    wanted = torch.autograd.grad(
        convolve2d(*both, (1, 1), (6, 7), boundary, None, True).sum(), both
    )
    for i in range(2):
        given = [input, kernel]
        given[i] = given[i].clone().requires_grad_()
        result = convolve2d(*given, (1, 1), (6, 7), boundary, None, True)
        assert torch.equal(torch.autograd.grad(result.sum(), given[i])[0], wanted[i])


@every_boundary
@every_flip
@pytest.mark.parametrize("shape", [(1, 90), (90, 1), (40, 37)], ids=str)
def test_kernels_far_longer_than_the_result(
    shape: Pair, flip: bool, boundary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gradients are computed in parts, with the same bits."""
    rng = np.random.default_rng(0)
    kernel = torch.from_numpy(rng.random(shape))
    # With "fill", an image that has been extended; the others extend it.
    sides = [k - 1 if boundary == "fill" else 0 for k in shape]
    image = torch.from_numpy(rng.random((2, 7 + sides[0], 4 + sides[1]))).requires_grad_()
    weights = torch.from_numpy(rng.random((2, 7, 4))).requires_grad_()
    start = (shape[0] - 1, shape[1] - 1) if flip else (0, 0)

    def gradients(least: int) -> list[Tensor]:
        monkeypatch.setattr(convolve2d_autograd, "_LEAST_PART", least)
        found = convolve2d(image, kernel, start, (7, 4), boundary, None, flip)
        (grad,) = torch.autograd.grad((found * weights).sum(), image, create_graph=True)
        return [grad, torch.autograd.grad(grad.square().sum(), weights)[0]]

    whole = gradients(1 << 40)
    taps: list[int] = []
    plain = convolve2d_autograd.convolve2d

    def counted(input: Tensor, kernel: Tensor, *rest: Any) -> Tensor:
        taps.append(kernel.numel())
        return plain(input, kernel, *rest)  # type: ignore[no-any-return]

    monkeypatch.setattr(convolve2d_autograd, "convolve2d", counted)
    found = gradients(3)
    assert torch.equal(found[0], whole[0])
    torch.testing.assert_close(found[1], whole[1])  # parts of this one are added up
    assert len(taps) > 6
    assert max(taps) < kernel.numel() / 2


def test_blurs_far_larger_than_the_image_have_quick_gradients() -> None:
    """The products grow with the kernel; with its square, this would take a minute."""
    image = torch.rand(1, 40, 50, requires_grad=True)
    blurred = visops.box_blur(image, 65535, border="reflect")
    (gradient,) = torch.autograd.grad(blurred.sum(), image)
    # A box repeats all pixels about equally often.
    torch.testing.assert_close(gradient, torch.ones_like(gradient), rtol=0.01, atol=0)


def sample(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(0)
    return values(rng, (2, 1, 9, 11), dtype), values(rng, (3, 3, 4), dtype)


def same(input: Tensor, kernel: Tensor, boundary: str = "fill") -> Tensor:
    start = [(k - 1) // 2 for k in kernel.shape[-2:]]
    result: Tensor = convolve2d(input, kernel, start, input.shape[-2:], boundary, None, True)
    return result


def test_vmap_over_fills() -> None:
    input, kernel = sample()
    fills = torch.tensor([[1.0], [2.0]])

    def call(fill: Tensor) -> Tensor:
        return convolve2d(input, kernel, (0, 0), (9, 11), "fill", fill, True)  # type: ignore[no-any-return]

    found = torch.vmap(call)(fills)
    assert torch.equal(found, torch.stack([call(f) for f in fills]))


def test_conjugated_views() -> None:
    input, kernel = sample(torch.complex64)
    expected = same(input.conj().resolve_conj(), kernel)
    assert torch.equal(same(input.conj(), kernel), expected)
    assert torch.equal(
        same(-input.conj().imag, kernel.real), same(input.imag.clone(), kernel.real.clone())
    )
