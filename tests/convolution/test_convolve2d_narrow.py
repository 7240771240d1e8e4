"""Narrow, tall images: the same results as lying down, in about the same time."""

import resource
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
import visops
from scipy import signal
from threads import torch_threads
from torch import Tensor
from visops.convolution.convolve2d_autograd import convolve2d as operator
from visops.convolution.convolve2d_costs import ranking

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


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with torch_threads(1):
        yield


def embedded(image: Tensor, columns: int) -> Tensor:
    """Return the image with so many columns of other numbers to its right."""
    return torch.cat([image, numbers(*image.shape[:-1], columns, dtype=image.dtype, seed=2)], -1)


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


@pytest.mark.matrix
@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
def test_borders(boundary: str) -> None:
    image, kernel = numbers(90, 3, dtype=torch.int64), numbers(7, 5, dtype=torch.int64, seed=1)
    fill = 2 if boundary == "fill" else 0
    found = visops.convolve2d(image, kernel, "full", boundary, fill, method="direct")
    wanted = signal.convolve2d(image.numpy(), kernel.numpy(), "full", boundary, fill)
    assert np.array_equal(found.numpy(), wanted)


def test_wide_kernels_take_little_memory() -> None:
    """Transposed, 60,000 rows of the input would be kept at once."""
    image, kernel = numbers(20, 60_003), numbers(1, 60_000, seed=1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = visops.correlate2d(image, kernel, "valid", method="direct")
    assert found.shape == (20, 4)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # kilobytes


@pytest.mark.parametrize("method", ["fft", "im2col", "separable"])
@pytest.mark.parametrize("mode", ["same", "full", "valid"])
def test_values_of_other_methods(method: str, mode: str) -> None:
    kernel = numbers(31, 1, seed=1) * numbers(1, 3, seed=2)
    image = numbers(3, 500, 6)
    found = visops.convolve2d(image, kernel, mode, method=method)
    wanted = visops.convolve2d(image.double(), kernel.double(), mode, method="direct")
    torch.testing.assert_close(found, wanted.float(), rtol=1e-5, atol=1e-1)


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


@pytest.mark.parametrize("method", ["auto", "direct", "fft"])
def test_time(method: str) -> None:
    """50 times as long before, with "direct"."""
    image, kernel = numbers(20_000, 1), numbers(3001, 1, seed=1)
    down, across = image.mT.contiguous(), kernel.mT.contiguous()
    tall = seconds(lambda: visops.convolve2d(image, kernel, "same", method=method))
    wide = seconds(lambda: visops.convolve2d(down, across, "same", method=method))
    assert tall < 5 * wide


@pytest.mark.parametrize("width", [2, 8])
def test_time_of_kernels_with_two_sides(width: int) -> None:
    """10 times as long before."""
    image, kernel = numbers(40_000, width), numbers(31, 3, seed=1)
    down, across = image.mT.contiguous(), kernel.mT.contiguous()
    tall = seconds(lambda: visops.convolve2d(image, kernel, "same", method="direct"))
    wide = seconds(lambda: visops.convolve2d(down, across, "same", method="direct"))
    assert tall < 4 * wide


def test_numbers_in_scratch_memory_take_no_time() -> None:
    """Subnormal ones beyond a row's end made a product 30 times as slow; nobody saw its result."""
    kernel = numbers(7, 7, seed=1)
    few, many = numbers(200, 8, 8), numbers(200, 8, 64)
    junk = [torch.full((n,), 1e-40) for n in (1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16) * 4]
    del junk
    of_few = seconds(lambda: visops.convolve2d(few, kernel, "same", method="direct"))
    of_many = seconds(lambda: visops.convolve2d(many, kernel, "same", method="direct"))
    assert of_few < 5 * of_many
