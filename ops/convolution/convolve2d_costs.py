"""What each method of convolution costs: the model behind method="auto".

The model depends on sizes, dtype and kind of device, but not on the number of threads or the
instruction set, so that "auto" picks the same method for the same problem in every run. Its numbers
are nanoseconds on one thread, measured on a processor with AVX-512. All methods scale with threads
about equally well.

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
from typing import NamedTuple

import torch

from .._torch.fakes import broadcast_shapes

_Pair = tuple[int, int]

# What is multiplied by these numbers stands above; transforms are faster for large images where a
# kernel has as many elements as `crossover`.
_SUMS = """
dtype      direct                                  im2col                  separable  fft  crossover
uint8        10460  .05817 .008473 .005321 .005771   33280  .03205  .01933   20500
int16        10810  .04897 .007269 .005334 .005731   30390  .05727  .03098   20110
int32         9998  .05694   .0164  .01145  .01075   27530   .1081  .06197   20740
int64         9720   .1211  .03438  .02201  .02077   21440   .9453  .01199   16940
float16       9612   .1322  .01999  .01156 .009945   44550   .1505  .04051   21190  85020  441
bfloat16      9846   .1379  .01986   .0111  .01012   29020   .1525  .04263   21980  81850  484
float32      10210  .06548  .01859  .01234  .01027   26650   .1517  .03595   19210  73910  441
float64       9868   .1324  .03707  .02104  .02074   24150   .3085  .06888   15820  72690  441
complex64     9820   .1389  .02336  .04202  .04058   21890    .391   .1244   41910  63960  196
complex128   10280   .3009  .04762   .0711  .07924   12610   1.143   .2558   16490  63540  169
"""

# Nanoseconds for an element of a tile of this side.
_TRANSFORMS = """
tile          16    20    24    32    40    48    64    80    96   100   120   128
float16    4.607 5.546 5.536 3.871 4.867 4.644 3.487 4.634 4.041 4.624 4.254 3.572
bfloat16   4.745 5.579 5.695 3.897  5.19 5.049 3.729 4.749 4.195 4.781 4.492 3.902
float32    4.288 5.147 5.217 3.668 5.027 4.633 3.229 4.431 3.816  4.43 4.122 3.407
float64    5.347 7.138 6.663  5.43 6.895 6.295 5.787 6.437 6.709 7.373 7.499 7.074
complex64  6.306 7.573 7.702 5.858 6.942 6.436 5.976 7.858   6.1 6.477 7.327 6.414
complex128 9.678 7.921 7.567 9.252 8.025 7.831    11  11.6 11.04 12.76 11.86 12.44
tile         144   160   180   192   200   216   240   250   256   270   288
float16     4.19 4.324 4.417 4.084 4.532 4.731 4.775 5.965 4.597 5.813 5.023
bfloat16   4.306 4.888 4.536 4.117  4.77 4.711 4.675  5.86 4.689 5.922 4.744
float32    4.143 4.321 4.455 3.863 4.589  4.63 4.718 5.888 4.499 5.719 4.508
float64    7.351 7.318 7.722 8.096 7.889 8.016 7.474  8.46 7.635 8.723 8.087
complex64  7.095 6.663 7.482 7.065 7.378 7.574 7.926 10.45 7.843 9.495  7.47
complex128 12.42 12.21  13.6 12.48 12.71 13.16 13.04 14.74 16.34  13.8 13.33
tile         300   320   360   384   400   432   480   512   600   768  1024
float16    5.432 5.404 5.122 4.902 5.562 5.356 5.602 5.428 6.124 6.531 8.436
bfloat16   4.997 4.801 4.757 4.808 5.053 5.045 5.433  5.37 5.578 6.032 7.969
float32    5.056 4.834 4.652 5.016 5.214 4.912 5.092 4.914 5.338 5.946 7.871
float64    8.186 7.659 8.466 8.495 8.869 9.795 11.17 9.907 11.24 12.26 15.51
complex64  7.757  7.66 7.857 7.237 8.874 8.239  8.69 14.11 9.913 11.61 21.31
complex128 14.41  14.3 15.14    17 16.43 16.47 16.68 19.69  20.3 25.44 33.42
"""

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


def _read_tables() -> dict[torch.dtype, Costs]:
    elements: dict[str, dict[int, float]] = {}
    tiles: list[str] = []
    for name, *numbers in (line.split() for line in _TRANSFORMS.strip().splitlines()):
        if name == "tile":
            tiles = numbers
        else:
            pairs = zip(map(int, tiles), map(float, numbers), strict=True)
            elements.setdefault(name, {}).update(pairs)
    found = {}
    for name, *words in (line.split() for line in _SUMS.strip().splitlines()[1:]):
        values = tuple(map(float, words))
        of_sums = values[:5], values[5:8], values[8]
        more = (FftCosts(values[9], elements[name]), int(values[10])) if name in elements else ()
        found[getattr(torch, name)] = Costs(*of_sums, *more)
    return found


_COSTS = _read_tables()


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


# Narrow, tall images lie down to be convolved: kernels and transforms take many columns at once.
_NARROW = 16  # columns; with more, copying costs what it saves
# Rows times kernel elements from which two copies take less time than they save.
_WORTH_COPIES = 1 << 13


def is_narrow(size: _Pair, kernel: _Pair) -> bool:
    """Whether the image of a result of this size should lie down."""
    height, width = size
    return width <= _NARROW < height and height * kernel[0] * kernel[1] >= _WORTH_COPIES


def transposes(size: _Pair, kernel: _Pair, dtype: torch.dtype) -> bool:
    """Whether the CPU's kernel of the direct method does: see convolve2d.cpp."""
    height, width = size
    small = dtype.itemsize < 4 and not dtype.is_floating_point
    return width <= (16 if small else 8) and height > 16 and kernel[1] <= 64


def lying(pair: _Pair) -> _Pair:
    """Return height and width of the image after it lay down."""
    return pair[1], pair[0]


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
