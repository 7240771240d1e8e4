"""Values of convolve2d and correlate2d, compared with SciPy's functions of the same names."""

import itertools
import resource
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.signal
import torch
import visops
from hypothesis import given, settings
from hypothesis import strategies as st
from references import conv as reference
from scipy import signal
from threads import torch_threads
from torch import Tensor
from visops.convolution.convolve2d_autograd import convolve2d as operator
from visops.convolution.convolve2d_costs import ranking

INTEGERS = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"]
FLOATING = ["f4", "f8", "c8", "c16"]
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "convolve2d": (visops.convolve2d, scipy.signal.convolve2d),
    "correlate2d": (visops.correlate2d, scipy.signal.correlate2d),
}
MODES = ["full", "same", "valid"]
BOUNDARIES = ["fill", "wrap", "symm"]
every_function = pytest.mark.parametrize("name", FUNCTIONS)


def array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Integers over their whole range; floating numbers around 0."""
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return rng.integers(limits.min, limits.max, shape, kind, endpoint=True)
    values = rng.standard_normal(shape)
    return (
        (values + 1j * rng.standard_normal(shape)).astype(kind)
        if kind.kind == "c"
        else (values.astype(kind))
    )


def product_kernel(rng: np.random.Generator, shape: tuple[int, int], dtype: str) -> np.ndarray:
    """A column times a row, exactly so for integers."""
    if np.dtype(dtype).kind in "iu":
        low = 0 if dtype[0] == "u" else -5
        return np.outer(rng.integers(low, 6, shape[0]), rng.integers(low, 6, shape[1])).astype(
            dtype
        )
    column, row = array(rng, (shape[0],), dtype), array(rng, (shape[1],), dtype)
    return np.outer(column, row)


def largest_sum(in1: np.ndarray, in2: np.ndarray, fill: Any = 0) -> float:
    """An upper bound of the sums of magnitudes, which errors are measured by."""
    one, two = (np.abs(a.astype("c16")) for a in (in1, in2))
    if not (one.size and two.size):
        return 1.0
    filled = max(float(one.max()), abs(fill))
    return max(filled * float(two.sum()), float(two.max()) * float(one.sum()))


def assert_same(found: np.ndarray, wanted: np.ndarray, largest: float) -> None:
    """Integers exactly; others up to roundings of sums with magnitudes up to `largest`."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert type(found) is np.ndarray
    if wanted.dtype.kind in "iu":
        np.testing.assert_array_equal(found, wanted)
    else:
        within = 8 * np.finfo(wanted.dtype).eps * largest
        np.testing.assert_allclose(found, wanted, rtol=0, atol=within)


@pytest.mark.parametrize("method", ["auto", "direct", "im2col", "fft", "separable"])
@given(
    name=st.sampled_from(list(FUNCTIONS)),
    dtypes=st.tuples(*[st.sampled_from(INTEGERS + FLOATING)] * 2),
    shape1=st.tuples(st.integers(1, 12), st.integers(1, 40)),
    shape2=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    mode=st.sampled_from(MODES),
    boundary=st.sampled_from(BOUNDARIES),
    fill=st.sampled_from([0, 1, 7, 2.9, True]),
    seed=st.integers(0, 99),
)
@settings(max_examples=120)
def test_scipy(
    method: str,
    name: str,
    dtypes: tuple[str, str],
    shape1: tuple[int, int],
    shape2: tuple[int, int],
    mode: str,
    boundary: str,
    fill: Any,
    seed: int,
) -> None:
    """Mixed dtypes, and all kinds of sizes, including kernels larger than images."""
    rng = np.random.default_rng(seed)
    result = np.result_type(*dtypes)
    if result.kind in "iu" and method == "fft":
        dtypes = "f4", "f4"
    in1 = array(rng, shape1, dtypes[0])
    in2 = array(rng, shape2, dtypes[1])
    if method == "separable":
        # In the dtype of the result: a product rounded to float32 is not one in float64.
        in2 = product_kernel(rng, shape2, result.str[1:])
        # "valid" may swap the inputs, so both must be products.
        in1 = product_kernel(rng, shape1, result.str[1:]) if mode == "valid" else in1
    ours, theirs = FUNCTIONS[name]
    try:
        with np.errstate(all="ignore"):
            wanted = theirs(in1, in2, mode, boundary, fill)
    except ValueError:  # "valid" of mixed sizes
        with pytest.raises(ValueError, match="for mode 'valid'"):
            ours(in1, in2, mode, boundary, fill, method=method)
        return
    found = ours(in1, in2, mode, boundary, fill, method=method)
    assert_same(found, wanted, largest_sum(in1, in2, fill))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap(dtype: str) -> None:
    """The example in SciPy's issues: 9 * 200 is 8 in uint8."""
    rng = np.random.default_rng(0)
    in1, in2 = array(rng, (9, 70), dtype), array(rng, (5, 4), dtype)
    for method in ("direct", "im2col", "auto"):
        found = visops.convolve2d(in1, in2, method=method)
        np.testing.assert_array_equal(found, scipy.signal.convolve2d(in1, in2))
    ones = np.full((3, 3), 200, np.uint8)
    assert visops.convolve2d(ones, np.ones((3, 3), np.uint8), "valid").tolist() == [[8]]


@pytest.mark.parametrize(
    "dtypes",
    [
        ("?", "u1"),
        ("i1", "u1"),
        ("i4", "u4"),
        ("u8", "i8"),
        ("f4", "i2"),
        ("f4", "i4"),
        ("f2", "f4"),
        ("f2", "i2"),
        ("c8", "f8"),
        (">i4", "<i4"),
        ("?", "f4"),
    ],
    ids=str,
)
def test_promotion(dtypes: tuple[str, str]) -> None:
    rng = np.random.default_rng(0)
    in1 = rng.integers(0, 2, (5, 6)).astype(dtypes[0])
    in2 = rng.integers(0, 2, (3, 2)).astype(dtypes[1])
    for a, b in ((in1, in2), (in2, in1)):
        wanted = scipy.signal.convolve2d(a, b)
        assert_same(visops.convolve2d(a, b), wanted, largest_sum(a, b))


@every_function
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("mode", ["full", "same"])
def test_kernels_much_larger_than_images(mode: str, boundary: str, name: str) -> None:
    """SciPy crashed here once (its issues 8684, 8814 and 12686)."""
    rng = np.random.default_rng(0)
    ours, theirs = FUNCTIONS[name]
    for shape1, shape2 in (((1, 1), (9, 8)), ((2, 3), (17, 20)), ((3, 1), (4, 31))):
        in1, in2 = rng.standard_normal(shape1), rng.standard_normal(shape2)
        wanted = theirs(in1, in2, mode, boundary, 2.5)
        for method in ("direct", "im2col", "fft", "auto"):
            found = ours(in1, in2, mode, boundary, 2.5, method=method)
            assert_same(found, wanted, largest_sum(in1, in2, 2.5))


@every_function
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_valid_swaps(boundary: str, name: str) -> None:
    """An image smaller than the kernel becomes the kernel; a correlation is then reversed."""
    rng = np.random.default_rng(0)
    ours, theirs = FUNCTIONS[name]
    in1 = rng.standard_normal((3, 2)) + 1j * rng.standard_normal((3, 2))
    in2 = rng.standard_normal((5, 9)) - 1j * rng.standard_normal((5, 9))
    for a, b in ((in1, in2), (in2, in1)):
        wanted = theirs(a, b, "valid", boundary)
        for method in ("direct", "im2col", "fft", "auto"):
            found = ours(a, b, "valid", boundary, method=method)
            assert_same(found, wanted, largest_sum(in1, in2))
            assert found.flags.c_contiguous


@pytest.mark.parametrize(
    "fill",
    [
        1,
        -1,
        0.5,
        1.9,
        -1.9,
        1e300,
        2**62,
        True,
        np.float32(2.5),
        np.int16(3),
        np.nan,
        np.inf,
        [1],
        1 + 2j,
        3 + 0j,
        300,
        2**63,
    ],
)
@pytest.mark.parametrize("dtype", ["u1", "i1", "i8", "u8", "f4", "f8", "c8"])
def test_fill_is_cast_as_scipy_does(dtype: str, fill: Any) -> None:
    rng = np.random.default_rng(0)
    in1, in2 = rng.integers(0, 9, (3, 4)).astype(dtype), rng.integers(0, 9, (2, 2)).astype(dtype)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            wanted = scipy.signal.convolve2d(in1, in2, fillvalue=fill)
    except ValueError:
        with pytest.raises(ValueError, match="fillvalue"):
            visops.convolve2d(in1, in2, fillvalue=fill)
        return
    found = visops.convolve2d(in1, in2, fillvalue=fill, method="direct")
    finite = np.isfinite(wanted)
    assert np.array_equal(np.isfinite(found), finite)
    np.testing.assert_allclose(found[finite], wanted[finite], rtol=1e-6, atol=1e-5)


SIDES = [(0, 3), (2, 2), (0, 0), (3, 0), (1, 1)]


@pytest.mark.parametrize("mode", MODES)
def test_empty_inputs(mode: str) -> None:
    """Inputs without elements; with boundaries that need one, SciPy divides by zero."""
    for shape1, shape2 in itertools.product(SIDES, SIDES):
        in1, in2 = np.ones(shape1), np.ones(shape2)
        if in1.size and in2.size:
            continue
        try:
            wanted = scipy.signal.convolve2d(in1, in2, mode)
        except ValueError:
            with pytest.raises(ValueError, match=r"visops.convolve2d: in1 has shape"):
                visops.convolve2d(in1, in2, mode)
            continue
        assert_same(visops.convolve2d(in1, in2, mode), wanted, 1)
        if mode != "valid":
            wanted = scipy.signal.convolve2d(in1, in2, mode, fillvalue=2)
            assert_same(visops.convolve2d(in1, in2, mode, fillvalue=2), wanted, 1)


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.float64])
def test_tutorial(dtype: type) -> None:
    """A square of ones and the mean of 3 x 3 pixels: all implementations agree."""
    square = np.zeros((7, 7))
    square[2:5, 2:5] = 9
    image: np.ndarray = square.astype(dtype)
    exact = image.dtype.kind == "i"
    kernel: np.ndarray = (np.ones((3, 3)) / (1 if exact else 9)).astype(dtype)
    wanted = reference.convolve_naive(image, kernel)
    found = [
        scipy.signal.convolve2d(image, kernel, mode="same"),
        reference.convolve_slices(image, kernel),
        reference.convolve_im2col(image, kernel),
        np.einsum("yxmn,mn->yx", visops.im2col(image, (3, 3), layout="patches"), kernel),
    ]
    methods = ["auto", "direct", "im2col", "separable"] + ["fft"] * (not exact)
    found += [visops.convolve2d(image, kernel, "same", method=method) for method in methods]
    for result in found:
        assert_same(result, wanted, 81)


@every_function
def test_batches(name: str) -> None:
    """Dimensions before the last two broadcast, with every method."""
    rng = np.random.default_rng(0)
    ours, theirs = FUNCTIONS[name]
    for lead1, lead2 in (
        ((3,), ()),
        ((), (4,)),
        ((3, 1), (4,)),
        ((2, 1), (2, 1)),
        ((2, 3), (3,)),
        ((3, 1, 2), (4, 1)),
        ((0,), ()),
        ((2,), (1,)),
    ):
        in1 = rng.standard_normal((*lead1, 9, 8)).astype(np.float32)
        in2 = rng.standard_normal((*lead2, 3, 4)).astype(np.float32)
        lead = np.broadcast_shapes(lead1, lead2)
        in2_product = np.broadcast_to(in2[..., :1] * in2[..., :1, :], in2.shape)
        for method in ("auto", "direct", "im2col", "fft", "separable"):
            second = in2_product if method == "separable" else in2
            images = np.broadcast_to(in1, (*lead, 9, 8)).reshape(-1, 9, 8)
            kernels = np.broadcast_to(second, (*lead, 3, 4)).reshape(-1, 3, 4)
            for mode, boundary in (("full", "fill"), ("same", "symm")):
                pairs = zip(images, kernels, strict=True)
                wanted = [theirs(i, k, mode, boundary, 1.5) for i, k in pairs]
                found = ours(in1, second, mode, boundary, 1.5, method=method)
                assert found.shape[:-2] == lead
                if wanted:
                    assert_same(
                        found.reshape(-1, *found.shape[-2:]),
                        np.stack(wanted),
                        largest_sum(in1, second, 1.5),
                    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("method", ["auto", "direct", "im2col", "fft", "separable"])
def test_halves_are_summed_in_float32(method: str, dtype: torch.dtype) -> None:
    """NumPy's float16 is refused, as SciPy does; tensors are taken, and rounded once."""
    generator = torch.Generator().manual_seed(0)
    image = torch.randn(20, 33, generator=generator).to(dtype)
    kernel = torch.outer(torch.arange(1.0, 8), torch.arange(1.0, 8)).to(dtype)
    found = visops.convolve2d(image, kernel, "same", fillvalue=0.5, method=method)
    wanted = scipy.signal.convolve2d(image.double(), kernel.double(), "same", fillvalue=0.5)
    assert found.dtype == dtype
    within = torch.finfo(dtype).eps * abs(wanted) * 0.51 + 2e-3
    assert (np.abs(found.double().numpy() - wanted) <= within).all()


DTYPES = [torch.float32, torch.float64, torch.float16, torch.complex64, torch.uint8, torch.int64]


def numbers(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(*shape, generator=generator, dtype=torch.float64) * 9).to(dtype)


def seconds(call: Callable[[], object]) -> float:
    """Return the CPU time of the shortest of some runs: other processes cost it nothing."""
    best = float("inf")
    for _ in range(5):
        begin = time.thread_time()
        call()
        best = min(best, time.thread_time() - begin)
    return best


@pytest.fixture
def one_thread() -> Iterator[None]:
    with torch_threads(1):
        yield


def embedded(image: Tensor, columns: int) -> Tensor:
    """Return the image with so many columns of other numbers to its right."""
    return torch.cat([image, numbers(*image.shape[:-1], columns, dtype=image.dtype, seed=2)], -1)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.matrix
@pytest.mark.parametrize("size", [(70, 1), (70, 5), (2100, 8), (40, 16)], ids=str)
@pytest.mark.parametrize("kernel", [(31, 1), (1, 5), (5, 3), (4, 4), (2, 1), (6, 2)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bits_of_the_direct_method(
    dtype: torch.dtype, kernel: tuple[int, int], size: tuple[int, int]
) -> None:
    """They are those of a wide result, whose first columns read the same pixels."""
    height, width = size
    image = numbers(2, height, width + kernel[1] - 1, dtype=dtype)
    weights = numbers(*kernel, dtype=dtype, seed=1)
    for rows in ((0, height - kernel[0] + 1), (-3, height + 5)):  # within the image, and beyond it
        arguments = (weights, (rows[0], 0), (rows[1], width), "fill", None, False)
        wide = (weights, (rows[0], 0), (rows[1], width + 64), "fill", None, False)
        found = operator(image, *arguments)
        assert torch.equal(found, operator(embedded(image, 64), *wide)[..., :width])
        transposed = image.mT.contiguous().mT
        assert torch.equal(found, operator(transposed, *arguments))


@pytest.mark.usefixtures("one_thread")
@pytest.mark.matrix
@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
def test_borders(boundary: str) -> None:
    image, kernel = numbers(90, 3, dtype=torch.int64), numbers(7, 5, dtype=torch.int64, seed=1)
    fill = 2 if boundary == "fill" else 0
    found = visops.convolve2d(image, kernel, "full", boundary, fill, method="direct")
    wanted = signal.convolve2d(image.numpy(), kernel.numpy(), "full", boundary, fill)
    assert np.array_equal(found.numpy(), wanted)


@pytest.mark.usefixtures("one_thread")
def test_wide_kernels_take_little_memory() -> None:
    """Transposed, 60,000 rows of the input would be kept at once."""
    image, kernel = numbers(20, 60_003), numbers(1, 60_000, seed=1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = visops.correlate2d(image, kernel, "valid", method="direct")
    assert found.shape == (20, 4)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # kilobytes


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("method", ["fft", "im2col", "separable"])
@pytest.mark.parametrize("mode", ["same", "full", "valid"])
def test_values_of_other_methods(method: str, mode: str) -> None:
    kernel = numbers(31, 1, seed=1) * numbers(1, 3, seed=2)
    image = numbers(3, 500, 6)
    found = visops.convolve2d(image, kernel, mode, method=method)
    wanted = visops.convolve2d(image.double(), kernel.double(), mode, method="direct")
    torch.testing.assert_close(found, wanted.float(), rtol=1e-5, atol=1e-1)


@pytest.mark.usefixtures("one_thread")
def test_gradients_and_graphs() -> None:
    image = numbers(2, 400, 2, dtype=torch.float64).requires_grad_()
    kernel = numbers(41, 1, dtype=torch.float64, seed=1).requires_grad_()

    def loss(image: Tensor, kernel: Tensor) -> Tensor:
        return visops.convolve2d(image, kernel, "same", method="direct").square().sum()

    def stood(image: Tensor, kernel: Tensor) -> Tensor:
        return operator(image, kernel, (20, 0), (400, 2), "fill", None, True).square().sum()

    found = torch.autograd.grad(loss(image, kernel), (image, kernel))
    wanted = torch.autograd.grad(stood(image, kernel), (image, kernel))
    torch._dynamo.reset()
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True, dynamic=True)
    assert torch.equal(compiled(image, kernel), loss(image, kernel))
    mapped = torch.vmap(torch.func.grad(loss), (0, None))(image.detach(), kernel.detach())
    for ours in (found[0], mapped):
        torch.testing.assert_close(ours, wanted[0], rtol=1e-12, atol=0)
    torch.testing.assert_close(found[1], wanted[1], rtol=1e-12, atol=0)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_estimates_are_those_of_the_image_lying_down(width: int) -> None:
    """They were for full vectors, 34 times what the direct method took."""
    tall, wide = (100_000, width), (width, 100_000)
    for kernel in ((3001, 1), (31, 1)):
        of_tall = ranking(torch.float32, tall, kernel, tall)
        assert of_tall == ranking(torch.float32, wide, kernel[::-1], wide)
    for kernel in ((31, 3), (9, 9)):
        direct = dict(ranking(torch.float32, tall, kernel, tall))["direct"]
        assert direct == dict(ranking(torch.float32, wide, kernel[::-1], wide))["direct"]


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("method", ["auto", "direct", "fft"])
def test_time(method: str) -> None:
    """50 times as long before, with "direct"."""
    image, kernel = numbers(20_000, 1), numbers(3001, 1, seed=1)
    down, across = image.mT.contiguous(), kernel.mT.contiguous()
    tall = seconds(lambda: visops.convolve2d(image, kernel, "same", method=method))
    wide = seconds(lambda: visops.convolve2d(down, across, "same", method=method))
    assert tall < 5 * wide


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("width", [2, 8])
def test_time_of_kernels_with_two_sides(width: int) -> None:
    """10 times as long before."""
    image, kernel = numbers(40_000, width), numbers(31, 3, seed=1)
    down, across = image.mT.contiguous(), kernel.mT.contiguous()
    tall = seconds(lambda: visops.convolve2d(image, kernel, "same", method="direct"))
    wide = seconds(lambda: visops.convolve2d(down, across, "same", method="direct"))
    assert tall < 4 * wide


@pytest.mark.usefixtures("one_thread")
def test_numbers_in_scratch_memory_take_no_time() -> None:
    """Subnormal ones beyond a row's end made a product 30 times as slow; nobody saw its result."""
    kernel = numbers(7, 7, seed=1)
    few, many = numbers(200, 8, 8), numbers(200, 8, 64)
    junk = [torch.full((n,), 1e-40) for n in (1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16) * 4]
    del junk
    of_few = seconds(lambda: visops.convolve2d(few, kernel, "same", method="direct"))
    of_many = seconds(lambda: visops.convolve2d(many, kernel, "same", method="direct"))
    assert of_few < 5 * of_many
