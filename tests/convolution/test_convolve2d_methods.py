"""The methods of convolve2d and the choice between them, within torch too."""

from typing import Any

import numpy as np
import pytest
import scipy.signal
import torch
import visops
from hypothesis import given
from hypothesis import strategies as st
from threads import torch_threads
from torch import Tensor
from torch.autograd import gradcheck
from visops.convolution import convolve2d_costs as costs
from visops.convolution.convolve2d_choice import _factors_of_one, _has_a_minor, factors_of
from visops.convolution.convolve2d_methods import convolve_direct, convolve_fft
from visops.convolution.convolve2d_problem import problem

FLOATING = [torch.float32, torch.float64, torch.complex64, torch.complex128]


def explained(*arguments: Any, **keywords: Any) -> str:
    """The line that `explain` receives."""
    lines: list[str] = []
    visops.convolve2d(*arguments, **keywords, explain=lines.append)
    (line,) = lines
    return line


def chosen(*arguments: Any, **keywords: Any) -> str:
    return explained(*arguments, **keywords).split(": ", 1)[1].split(",")[0]


@given(
    size=st.tuples(st.integers(1, 90), st.integers(1, 90)),
    kernel=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    tile=st.tuples(st.integers(12, 33), st.integers(12, 33)),
    mode=st.sampled_from(["full", "same"]),
    boundary=st.sampled_from(["fill", "wrap", "symm"]),
    at_once=st.sampled_from([1, 4000, 1 << 20]),
)
def test_tiles_of_any_size(
    size: tuple[int, int],
    kernel: tuple[int, int],
    tile: tuple[int, int],
    mode: str,
    boundary: str,
    at_once: int,
) -> None:
    """Any way of cutting the image, and any number of tiles at once."""
    generator = torch.Generator().manual_seed(0)
    image = torch.randn(2, *size, dtype=torch.float64, generator=generator)
    weights = torch.randn(kernel, dtype=torch.float64, generator=generator)
    p, _ = problem("convolve2d", image, weights, mode, boundary, 0.5, flip=True)
    wanted = convolve_direct(p)
    # On a busy machine, threads wait longer for each other than small transforms take.
    with torch_threads(1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("visops.convolution.convolve2d_methods._AT_ONCE", at_once)
            torch.testing.assert_close(convolve_fft(p, tile), wanted, rtol=0, atol=1e-11)
        # The path that gradients flow through.
        p = p._replace(image=image.requires_grad_())
        torch.testing.assert_close(convolve_fft(p, tile).detach(), wanted, rtol=0, atol=1e-11)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize(
    ("mode", "boundary", "fill"), [("full", "fill", 1.5), ("same", "symm", 0), ("valid", "fill", 0)]
)
def test_halves_as_one_complex_image(
    mode: str, boundary: str, fill: float, dtype: torch.dtype
) -> None:
    """Large real images of even and odd width, with a bank of kernels."""
    generator = torch.Generator().manual_seed(0)
    for width in (520, 531):
        image = torch.randn(530, width, dtype=torch.float64, generator=generator).to(dtype)
        kernel = torch.randn(2, 9, 8, dtype=torch.float64, generator=generator).to(dtype)
        p, _ = problem("convolve2d", image, kernel, mode, boundary, fill, flip=True)
        assert costs.fft_takes_halves(p.size, (9, 8), dtype)
        wanted = convolve_direct(p)
        exact = dtype == torch.float64
        within: dict[str, Any] = {"rtol": 0, "atol": 1e-11} if exact else {}
        torch.testing.assert_close(convolve_fft(p), wanted, **within)
        # One tile for all, and many tiles.
        torch.testing.assert_close(convolve_fft(p, (64, 48)), wanted, **within)


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_fft_of_large_kernels(dtype: torch.dtype) -> None:
    """Errors are small relative to sums of magnitudes, as docs/convolve2d.md says."""
    generator = torch.Generator().manual_seed(0)
    image = torch.randn(150, 333, dtype=dtype, generator=generator)
    kernel = torch.randn(51, 40, dtype=dtype, generator=generator)
    found = visops.convolve2d(image, kernel, "same", "symm", method="fft")
    wanted = scipy.signal.convolve2d(image.numpy(), kernel.numpy(), "same", "symm")
    eps = torch.finfo(dtype).eps
    assert np.abs(found.numpy() - wanted).max() <= 4 * eps * float(kernel.abs().sum())


def test_kernels_larger_than_any_measured_tile() -> None:
    generator = torch.Generator().manual_seed(0)
    image = torch.randn(40, 60, dtype=torch.float64, generator=generator)
    kernel = torch.randn(3, 1300, dtype=torch.float64, generator=generator)
    wanted = scipy.signal.fftconvolve(image.numpy(), kernel.numpy())
    for method in ("fft", "auto", "direct"):
        found = visops.convolve2d(image, kernel, method=method)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype", [*FLOATING, torch.uint8, torch.int64, torch.uint64], ids=str)
def test_factors(dtype: torch.dtype) -> None:
    """A product of rounded factors, rounded and normalised, is found; one element off is not."""
    exact = not (dtype.is_floating_point or dtype.is_complex)
    rng = np.random.default_rng(0)
    for kh, kw in ((1, 1), (3, 3), (1, 9), (9, 1), (25, 31)):
        column, row = rng.integers(1, 12, kh).astype(float), rng.integers(0, 12, kw).astype(float)
        row[rng.integers(kw)] = 7
        if not exact:
            column, row = column / 7, np.sin(row) + 0.1
        kernel = torch.from_numpy(np.outer(column, row)).to(dtype)
        if not exact:
            kernel = kernel / kernel.abs().sum()
        factors = factors_of(kernel)
        assert factors is not None
        column_found, row_found = (f.to(torch.complex128) for f in factors)
        product = column_found * row_found
        found = (product if kernel.is_complex() else product.real).to(kernel.dtype)
        within = 0.0 if exact else 4 * torch.finfo(dtype).eps * float(kernel.abs().max())
        wide = kernel.to(torch.complex128)
        assert float((found.to(torch.complex128) - wide).abs().max()) <= within
        if kh > 1 and kw > 1:
            more = 1 if exact else 20 * torch.finfo(dtype).eps * float(kernel.norm())
            kernel[1, 1] = kernel[1, 1].item() + more
            assert factors_of(kernel) is None
    zeros = factors_of(torch.zeros(3, 4, dtype=dtype))
    assert zeros is not None
    assert not any(bool((f != 0).any()) for f in zeros)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_first_look_at_factors(dtype: torch.dtype) -> None:
    """What plain numbers say about a small kernel never contradicts the whole test."""
    eps = torch.finfo(dtype).eps
    rng = np.random.default_rng(1)
    rejected = 0
    for column in (rng.random(4) - 0.5, np.array([1.0, 0, 0, 1]), np.array([1e-3, 1, 0, 1e-3])):
        row = rng.random(5) + 0.2
        for i, j in np.ndindex(4, 5):
            for times in (0.5, 1, 2, 3, 3.9, 4.1, 8, 100, 10_000):
                kernel = torch.from_numpy(np.outer(column, row)).to(dtype)
                kernel[i, j] += times * eps * float(kernel.norm())
                whole = _factors_of_one(kernel.double().numpy(), dtype, exact=False)
                assert (factors_of(kernel) is None) == (whole is None)
                assert whole is None or not _has_a_minor(kernel)
                rejected += _has_a_minor(kernel)
    assert rejected > 50
    huge = torch.full((3, 3), torch.finfo(dtype).max, dtype=dtype)
    assert not _has_a_minor(huge)


@given(
    column=st.lists(st.integers(-300, 300), min_size=1, max_size=6),
    row=st.lists(st.integers(-300, 300), min_size=1, max_size=6),
)
def test_factors_of_integers(column: list[int], row: list[int]) -> None:
    kernel = torch.outer(torch.tensor(column), torch.tensor(row))
    factors = factors_of(kernel)
    assert factors is not None
    assert torch.equal(factors[0] * factors[1], kernel)


def test_separable_wraps_as_direct_does() -> None:
    """Intermediate values wrap modulo 2^n too, as do the fills of both passes."""
    rng = np.random.default_rng(0)
    for dtype in ("u1", "i2", "u4", "i8", "u8"):
        limits = np.iinfo(dtype)
        image = rng.integers(limits.min, limits.max, (9, 20), dtype, endpoint=True)
        kernel = np.outer([1, 7, 3], [11, 2, 5, 3]).astype(dtype)
        wanted = scipy.signal.convolve2d(image, kernel, fillvalue=limits.max)
        found = visops.convolve2d(image, kernel, fillvalue=limits.max, method="separable")
        np.testing.assert_array_equal(found, wanted)


def test_auto_follows_the_costs() -> None:
    generator = torch.Generator().manual_seed(0)
    image = torch.rand(600, 800, generator=generator)
    gaussian = torch.exp(-(torch.linspace(-2, 2, 31) ** 2))
    product, other = torch.outer(gaussian, gaussian), torch.rand(31, 31, generator=generator)
    assert chosen(image, other[:3, :3], "same") == "direct"
    assert chosen(image, torch.rand(101, 101), "same") == "fft"
    assert chosen(image, product, "same") == "separable"
    assert chosen(image.to(torch.int32), (other * 9).int(), "same") == "direct"
    # A kernel that needs a gradient is not separated.
    wanted = chosen(image, other, "same")
    assert chosen(image, product.clone().requires_grad_(), "same") == wanted
    with torch.no_grad():
        assert chosen(image, product.clone().requires_grad_(), "same") == "separable"
    almost = product.clone()
    almost[3, 4] += 1e-3
    assert chosen(image, almost, "same") == wanted


def test_auto_takes_the_cheapest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the table says that im2col costs nothing."""
    free = {"direct": 1.0, "im2col": 0.0, "fft": 2.0}
    monkeypatch.setattr(costs, "cost_of_methods", lambda *arguments: free)
    costs.ranking.cache_clear()
    image, kernel = torch.rand(300, 300), torch.rand(9, 9)
    try:
        assert chosen(image, kernel) == "im2col"
    finally:
        costs.ranking.cache_clear()


def test_auto_is_the_method_that_it_names() -> None:
    generator = torch.Generator().manual_seed(0)
    image = torch.rand(300, 400, generator=generator)
    for k in (3, 31, 71):
        kernel = torch.rand(k, k, generator=generator)
        for second in (kernel, torch.outer(kernel[0], kernel[1])):
            method = chosen(image, second)
            found = visops.convolve2d(image, second)
            assert torch.equal(found, visops.convolve2d(image, second, method=method))


def test_explain() -> None:
    image, kernel = torch.rand(2, 300, 400), torch.rand(7, 7)
    line = explained(image, kernel, "same")
    assert line.startswith("convolve2d: direct, about ")
    assert line.endswith("); [2, 300, 400] with [7, 7], float32 on cpu")
    for method in ("direct", "im2col", "fft"):
        wanted = f"convolve2d: {method}, as asked for; [2, 300, 400] with [7, 7], float32 on cpu"
        assert explained(image, kernel, method=method) == wanted
    lines: list[str] = []
    visops.correlate2d(np.ones((3, 3)), np.ones((2, 2)), explain=lines.append)
    assert lines == [
        "correlate2d: direct, as there are no more than 524288 products; [3, 3] with [2, 2], "
        "float64 on cpu"
    ]


def test_costs_of_all_dtypes() -> None:
    """The table covers every dtype, with positive times only."""
    for dtype in (torch.int8, torch.uint64, torch.bfloat16, torch.float16, *FLOATING):
        found = costs.ranking(dtype, (1080, 1920), (9, 9), (1080, 1920))
        assert all(seconds > 0 for _, seconds in found)
        methods = {"direct", "im2col", "separable"}
        if dtype.is_floating_point or dtype.is_complex:
            methods.add("fft")
            least = costs.crossover(dtype, "cpu")
            assert least is not None
            assert 100 < least < 10000
        assert {method for method, _ in found} == methods


def test_threads_and_method_change_nothing() -> None:
    """The number of threads changes neither the direct result nor the choice of "auto"."""
    generator = torch.Generator().manual_seed(0)
    image = torch.rand(200, 300, generator=generator)
    found = []
    for count in (1, 2, 3):
        with torch_threads(count):
            for k in (3, 15, 41):
                kernel = torch.rand(k, k, generator=torch.Generator().manual_seed(k))
                found.append(chosen(image, kernel))
    assert found[:3] == found[3:6] == found[6:]


METHODS = ["direct", "im2col", "fft"]
BOUNDARIES = ["fill", "wrap", "symm"]
every_method = pytest.mark.parametrize("method", METHODS)
FUNCTIONS = {"convolve2d": visops.convolve2d, "correlate2d": visops.correlate2d}


def random(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=dtype, generator=generator)


@every_method
def test_gradcheck_of_complex_and_of_swapped(method: str) -> None:
    in1 = random(2, 3, dtype=torch.complex128).requires_grad_()
    in2 = random(4, 3, dtype=torch.complex128, seed=1).requires_grad_()
    for function in FUNCTIONS.values():
        gradcheck(lambda a, b, f=function: f(a, b, "valid", method=method), (in1, in2))


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_gradients_of_methods_agree(boundary: str) -> None:
    """For an image of several tiles and blocks. Separable has no gradient of the kernel."""
    in1 = random(120, 170).requires_grad_()
    in2 = torch.outer(random(9, seed=1), random(7, seed=2))
    weights = random(120, 170, seed=3)
    found = {}
    for method in (*METHODS, "separable", "auto"):
        result = visops.convolve2d(in1, in2, "same", boundary, method=method)
        (found[method],) = torch.autograd.grad((result * weights).sum(), in1)
    for gradient in found.values():
        torch.testing.assert_close(gradient, found["direct"], rtol=0, atol=1e-12)


@every_method
def test_gradient_of_a_filter_bank(method: str) -> None:
    """Images and kernels that broadcast: gradients are summed over the repeated dimensions."""
    in1, in2 = random(2, 1, 9, 8).requires_grad_(), random(3, 3, 4, seed=1).requires_grad_()
    result = visops.correlate2d(in1, in2, "valid", method=method)
    wanted = torch.nn.functional.conv2d(in1, in2[:, None])
    torch.testing.assert_close(result, wanted)
    weights = random(*result.shape, seed=2)
    ours = torch.autograd.grad((result * weights).sum(), (in1, in2))
    theirs = torch.autograd.grad((wanted * weights).sum(), (in1, in2))
    torch.testing.assert_close(ours, theirs)


def test_vmap_of_images_with_a_separable_kernel() -> None:
    in1, in2 = random(3, 6, 7), torch.outer(random(3, seed=1), random(4, seed=2))

    def call(a: Tensor) -> Tensor:
        return visops.convolve2d(a, in2, "same", method="separable")

    torch.testing.assert_close(torch.vmap(call)(in1), call(in1))


@pytest.mark.parametrize(
    ("method", "dynamic"),
    [("im2col", True), ("fft", False), ("fft", True), ("auto", False)],
)
def test_compile(method: str, dynamic: bool) -> None:
    """A loss and its gradients in one graph; a law has "direct", which is of all sizes."""

    def loss(in1: Tensor, in2: Tensor) -> Tensor:
        return visops.correlate2d(in1 * 1.5, in2, "same", "symm", method=method).square().sum()

    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for height, width in ((20, 23), (31, 40)):
        inputs = [random(2, height, width).requires_grad_(), random(5, 4, seed=1).requires_grad_()]
        value, wanted = compiled(*inputs), loss(*inputs)
        torch.testing.assert_close(value, wanted)
        ours, theirs = (torch.autograd.grad(v, inputs) for v in (value, wanted))
        torch.testing.assert_close(ours, theirs)


def test_compile_for_any_size() -> None:
    """ "auto" makes one graph for images of all sizes: it only looks at the kernel."""
    torch._dynamo.reset()

    def call(in1: Tensor, in2: Tensor, method: Any = "auto") -> Tensor:
        return visops.convolve2d(in1, in2, "same", method=method)

    compiled = torch.compile(call, fullgraph=True, dynamic=True, backend="aot_eager")
    for i, (height, width) in enumerate(((20, 23), (31, 40), (50, 9))):
        in1, in2 = random(height, width), random(5, 3, seed=1)
        with torch._dynamo.config.patch(error_on_recompile=i > 0):
            assert torch.equal(compiled(in1, in2), call(in1, in2, "direct"))


def test_factors_need_values() -> None:
    image, kernel = torch.ones(5, 6), torch.ones(2, 3, 3)
    with pytest.raises(ValueError, match=r"^visops\.convolve2d: method is 'separable', must be"):
        torch.vmap(lambda k: visops.convolve2d(image, k, method="separable"))(kernel)
