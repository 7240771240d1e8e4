"""What each method of convolution costs: the model behind method="auto".

The model depends on sizes, dtype and kind of device, but not on the number of threads or the
instruction set, so that "auto" picks the same method for the same problem in every run. Its numbers
are nanoseconds on one thread, measured by scripts/measure_convolve2d_costs.py and kept in
convolve2d_measured.py. All methods scale with threads about equally well.

direct
    ``call + outputs * (a + b * rows + c * columns + d * taps)``, with the kernel's rows, columns
    and elements.
separable
    The same for a row and for a column, plus the time to find them.
im2col
    ``call + elements of the matrix * a + products * b``.
fft
    ``call + elements of the tiles * a(tile)``; 45 % of it is the image's transforms, the rest is
    spent for each result. The kernel's transform counts too. Large real images are transformed as
    complex ones of half the width.

Nothing was measured on CUDA: there "auto" takes the direct method for kernels below 24 x 24
elements and otherwise the FFT, if the dtype has one.
"""

import functools
import math
from typing import Any, NamedTuple

import torch

from .._torch.shapes import broadcast_shapes
from .convolve2d_measured import MEASURED
from .convolve2d_narrow import is_narrow, lying, transposes

_Pair = tuple[int, int]

# On CUDA, kernels with at least this many elements use transforms.
_CUDA_CROSSOVER = 24 * 24

# Looking for a kernel's factors takes about this long. As it may be in vain, it is skipped unless
# that is a small part of the whole.
_FACTORING_SECONDS = 15e-6
_FACTORING_PART = 0.1

# glibc maps blocks larger than this anew each time, page by page, which costs this much for a byte
# of a transform's result. Our own kernels' results use large pages.
_MAPPED_ANEW = 32 << 20
_MAPPING = 0.65

_FORWARD = 0.45  # the image's part of the time of transforms

# Dtypes that are computed like another one.
_SAME_COSTS = {
    torch.int8: torch.uint8,
    torch.uint16: torch.int16,
    torch.uint32: torch.int32,
    torch.uint64: torch.int64,
}


class FftCosts(NamedTuple):
    """Nanoseconds of a call, and of an element for each size of tiles."""

    call: float
    elements: dict[int, float]


class Costs(NamedTuple):
    """One dtype's numbers, in nanoseconds; the module's docstring says what they multiply."""

    direct: tuple[float, ...]
    im2col: tuple[float, ...]
    separable: float
    fft: FftCosts | None = None
    crossover: int | None = None


def direct_terms(outputs: int, kernel: _Pair) -> list[float]:
    """Return the terms that the direct method's numbers multiply."""
    kh, kw = kernel
    return [1.0, outputs, outputs * kh, outputs * kw, outputs * kh * kw]


def im2col_terms(counts: _Pair, outputs: int, kernel: _Pair) -> list[float]:
    """Return the terms that im2col's numbers multiply; `counts` is of images and results."""
    images, results = counts
    taps = kernel[0] * kernel[1]
    return [1.0, images * outputs * taps, results * outputs * taps]


def _times(numbers: tuple[float, ...], terms: list[float]) -> float:
    return sum(a * b for a, b in zip(numbers, terms, strict=True))


def fft_cost(
    costs: FftCosts, counts: tuple[int, int, int], size: _Pair, kernel: _Pair
) -> tuple[float, _Pair]:
    """Return nanoseconds and the best tile; `counts` is of images, kernels and results."""
    images, kernels, results = counts
    # The cost of all tiles is a product with one factor for each dimension.
    (height, rows, of_y), (width, columns, of_x) = (
        _best_along(costs.elements, n, k) for n, k in zip(size, kernel, strict=True)
    )
    tiles = rows * columns
    transformed = (images * tiles + kernels) * _FORWARD + results * tiles * (1 - _FORWARD)
    element = (of_y * of_x) ** 0.5
    return costs.call + transformed * height * width * element, (height, width)


def _best_along(elements: dict[int, float], size: int, kernel: int) -> tuple[int, int, float]:
    """Return the best tile along one dimension, their number, and nanoseconds of an element."""
    best = float("inf"), (0, 0, 0.0)
    for tile, nanoseconds in elements.items():
        if tile >= kernel:
            count = -(-size // (tile - kernel + 1))
            taken = count * tile * nanoseconds**0.5
            best = min(best, (taken, (tile, count, nanoseconds)))
    if best[1][0] == 0:  # The kernel is larger than any tile of the table.
        tile = 1 << (2 * kernel - 1).bit_length()
        return tile, -(-size // (tile - kernel + 1)), max(elements.values())
    return best[1]


def _costs(numbers: dict[str, Any]) -> Costs:
    fft = numbers.get("fft")
    return Costs(**(numbers | {"fft": None if fft is None else FftCosts(*fft)}))


_COSTS = {getattr(torch, name): _costs(numbers) for name, numbers in MEASURED.items()}


def _of(dtype: torch.dtype) -> Costs:
    return _COSTS[_SAME_COSTS.get(dtype, dtype)]


# Nanoseconds for a pixel to become half of a complex number, and to be written back.
_HALVING = 1.2

# Bytes of a row that the direct method computes at least, whether or not the result has as many.
_VECTORS = 128

_COMPLEX = {
    torch.float16: torch.complex64,
    torch.bfloat16: torch.complex64,
    torch.float32: torch.complex64,
    torch.float64: torch.complex128,
}


def fft_takes_halves(size: _Pair, kernel: _Pair, dtype: torch.dtype) -> bool:
    """Whether two halves of a large real image are transformed as one complex image."""
    return dtype in _COMPLEX and size[0] * size[1] >= 1 << 18 and size[1] >= 8 * kernel[1]


def fft_tile(size: _Pair, kernel: _Pair, dtype: torch.dtype) -> _Pair:
    """Return the size of tiles for which transforms should be fastest."""
    if torch.compiler.is_compiling():
        from .._torch.tracing import call_as_constant

        return call_as_constant(_any_fft_tile, size, kernel, dtype)
    return _fft_tile(size, kernel, dtype)


def _any_fft_tile(size: _Pair, kernel: _Pair, dtype: torch.dtype) -> _Pair:
    return _fft_tile(size, kernel, dtype)


@functools.lru_cache(maxsize=256)
def _fft_tile(size: _Pair, kernel: _Pair, dtype: torch.dtype) -> _Pair:
    costs = _of(dtype).fft
    assert costs is not None
    return fft_cost(costs, (1, 1, 1), size, kernel)[1]


def crossover(dtype: torch.dtype, device: str) -> int | None:
    """Return from how many elements of a kernel on transforms are used; None for never."""
    of_cpu = _of(dtype).crossover
    return of_cpu if of_cpu is None or device == "cpu" else _CUDA_CROSSOVER


def cost_of_methods(
    dtype: torch.dtype,
    counts: tuple[int, int, int],
    image: _Pair,
    kernel: _Pair,
    size: _Pair,
) -> dict[str, float]:
    """Return the expected cost of each possible method on the CPU, in seconds.

    Parameters
    ----------
    dtype : torch.dtype
    counts : of int
        The numbers of images, kernels and results.
    image, kernel, size : pair of int
        Heights and widths; the last is the result's.
    """
    images, kernels, results = counts
    outputs = results * size[0] * size[1]
    costs = _of(dtype)
    direct = _direct_cost(dtype, results, size, kernel)
    separable = costs.separable * kernels
    if min(kernel) > 1:
        separable += _direct_cost(dtype, results, (image[0], size[1]), (1, kernel[1]))
        separable += _direct_cost(dtype, results, size, (kernel[0], 1))
    if is_narrow(size, kernel):
        image, kernel, size = lying(image), lying(kernel), lying(size)
    found = {
        "direct": direct,
        "im2col": _times(costs.im2col, im2col_terms((images, results), size[0] * size[1], kernel)),
    }
    if min(kernel) > 1:
        found["separable"] = separable
    if costs.fft is not None:
        found["fft"] = _whole_fft_cost(dtype, costs.fft, counts, size, kernel)
        if outputs * dtype.itemsize > _MAPPED_ANEW:
            found["fft"] += _MAPPING * outputs * dtype.itemsize
    return {method: nanoseconds * 1e-9 for method, nanoseconds in found.items()}


def _direct_cost(dtype: torch.dtype, results: int, size: _Pair, kernel: _Pair) -> float:
    """Return nanoseconds for the direct method's operator."""
    if transposes(size, kernel, dtype):
        size, kernel = lying(size), lying(kernel)
    columns = max(size[1], _VECTORS // dtype.itemsize)
    return _times(_of(dtype).direct, direct_terms(results * size[0] * columns, kernel))


def _whole_fft_cost(
    dtype: torch.dtype, costs: FftCosts, counts: tuple[int, int, int], size: _Pair, kernel: _Pair
) -> float:
    """Return nanoseconds for the way in which images of this size are transformed."""
    if not fft_takes_halves(size, kernel, dtype):
        return fft_cost(costs, counts, size, kernel)[0]
    of_complex = _of(_COMPLEX[dtype]).fft
    assert of_complex is not None
    halving = _HALVING * counts[2] * size[0] * size[1] * (2 if dtype == torch.float64 else 1)
    return halving + fft_cost(of_complex, counts, (size[0], -(-size[1] // 2)), kernel)[0]


@functools.lru_cache(maxsize=1024)
def ranking(
    dtype: torch.dtype, images: tuple[int, ...], kernels: tuple[int, ...], size: _Pair
) -> tuple[tuple[str, float], ...]:
    """Return methods with their expected costs on the CPU, in seconds, cheapest first.

    Parameters
    ----------
    dtype : torch.dtype
    images, kernels : tuple of int
        Shapes.
    size : pair of int
        Height and width of the result.
    """
    leads = images[:-2], kernels[:-2]
    results = math.prod(broadcast_shapes(*leads))
    counts = math.prod(leads[0]), math.prod(leads[1]), results
    found = cost_of_methods(dtype, counts, _pair(images), _pair(kernels), size)
    others = min(seconds for method, seconds in found.items() if method != "separable")
    if others < _FACTORING_SECONDS * counts[1] / _FACTORING_PART:
        found.pop("separable", None)
    return tuple(sorted(found.items(), key=lambda item: item[1]))


def _pair(shape: tuple[int, ...]) -> _Pair:
    return shape[-2], shape[-1]
