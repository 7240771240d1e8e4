"""Narrow, tall images: the same results as lying down, in about the same time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import visops
from torch import Tensor
from visops.convolution import convolve2d_narrow as narrow
from visops.convolution.convolve2d_autograd import convolve2d as standing
from visops.convolution.convolve2d_costs import ranking

DTYPES = [torch.float32, torch.float64, torch.float16, torch.complex64, torch.uint8, torch.int64]
ALONG = [(31, 1), (1, 31)]


def numbers(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(*shape, generator=generator, dtype=torch.float64) * 9).to(dtype)


def seconds(call: Callable[[], object]) -> float:
    """Return the shortest of some runs."""
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return best


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.matrix
@pytest.mark.parametrize("kernel", [*ALONG, (5, 3)], ids=str)
@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bits_of_the_direct_method(
    dtype: torch.dtype, boundary: str, kernel: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are those of the operator on the image as it stands."""
    monkeypatch.setattr(narrow, "_WORTH_COPIES", 1)
    image = numbers(2, 70, 5, dtype=dtype)
    weights = numbers(*kernel, dtype=dtype, seed=1)
    calls = []

    def counted(*arguments: Any) -> Tensor:
        calls.append(arguments[3])
        found: Tensor = standing(*arguments)
        return found

    monkeypatch.setattr(narrow, "_direct", counted)
    ways = {}
    for limit in (16, 0):
        monkeypatch.setattr(narrow, "_NARROW", limit)
        for function in (visops.convolve2d, visops.correlate2d):
            found = function(
                image, weights, "same", boundary, 2 if boundary == "fill" else 0, method="direct"
            )
            assert found.is_contiguous()
            ways[limit, function] = found
    for function in (visops.convolve2d, visops.correlate2d):
        assert torch.equal(ways[16, function], ways[0, function])
    lay = min(kernel) == 1 or not (dtype.is_floating_point or dtype.is_complex)
    assert calls == ([(5, 70)] * 2 if lay else [(70, 5)] * 2) + [(70, 5)] * 2


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
        return standing(image, kernel, (20, 0), (400, 2), "fill", None, True).square().sum()

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
    # Not where bits would differ; then a row costs as much as a vector.
    direct = dict(ranking(torch.float32, tall, (31, 3), tall))["direct"]
    assert direct > 3 * dict(ranking(torch.float32, wide, (3, 31), wide))["direct"]


@pytest.mark.parametrize("method", ["auto", "direct", "fft"])
def test_time(method: str) -> None:
    """50 times as long before, with "direct"."""
    image, kernel = numbers(20_000, 1), numbers(3001, 1, seed=1)
    down, across = image.mT.contiguous(), kernel.mT.contiguous()
    tall = seconds(lambda: visops.convolve2d(image, kernel, "same", method=method))
    wide = seconds(lambda: visops.convolve2d(down, across, "same", method=method))
    assert tall < 5 * wide


def test_numbers_in_scratch_memory_take_no_time() -> None:
    """Subnormal ones beyond a row's end made a product 30 times as slow; nobody saw its result."""
    kernel = numbers(7, 7, seed=1)
    few, many = numbers(200, 8, 8), numbers(200, 8, 64)
    junk = [torch.full((n,), 1e-40) for n in (1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16) * 4]
    del junk
    of_few = seconds(lambda: visops.convolve2d(few, kernel, "same", method="direct"))
    of_many = seconds(lambda: visops.convolve2d(many, kernel, "same", method="direct"))
    assert of_few < 5 * of_many
