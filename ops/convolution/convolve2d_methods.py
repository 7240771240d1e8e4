"""The methods of convolve2d and correlate2d: direct, im2col, by factors, and by transforms.

Narrow, tall images lie down to be convolved. Kernels and transforms take many columns at once, and
would leave most of each vector empty. The CPU's kernel of the direct method does that itself, and
keeps the order of sums. On other devices the direct method leaves images standing where sums by
columns would have other bits.

Transforms
----------
The image is cut into tiles that overlap by one less than the kernel. Each is convolved cyclically
with the kernel, and the part of the result that wrapping did not reach is kept (the overlap-save
method: A. V. Oppenheim, R. W. Schafer, "Discrete-time signal processing", section 8.7). Small tiles
stay in the cache, and some sizes suit transforms better than others.

Where no gradient is wanted, tiles are transformed a few at a time, and their results are written to
the output. The halves of a large real image become real and imaginary part of a complex one.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from .._torch.arrays import SIGNED
from .._torch.autocast import full_product
from .._torch.fakes import holds, is_known
from .convolve2d_autograd import convolve2d as _direct
from .convolve2d_costs import fft_takes_halves, fft_tile, is_narrow, lying
from .convolve2d_problem import (
    Problem,
    as_convolution,
    dtype_name,
    extended,
    fill_tensor,
    of_one_size,
    plain_number,
    turned,
    windows,
)

_Pair = tuple[int, int]

Factors = tuple[Tensor, Tensor]  # [..., kh, 1] and [..., 1, kw]

# Elements of the matrix of windows that im2col may make at once.
_MATRIX = 1 << 22

# Bytes of tiles that are transformed at once: more would leave the cache, fewer would leave threads
# without work.
_AT_ONCE = 1 << 20

# glibc returns freed memory above a threshold to the system, and getting pages back takes several
# times as long as transforming what is on them. Freeing a larger block raises the threshold to its
# size, up to 32 MiB; a block that is never written costs no time.
_FREED_ONCE = 24 << 20

_HALVES = (torch.float16, torch.bfloat16)


def _keeps_order(dtype: torch.dtype, kernel: _Pair) -> bool:
    """Whether sums over the kernel have the same bits by rows and by columns."""
    return min(kernel) == 1 or not (dtype.is_floating_point or dtype.is_complex)


def _is_known_narrow(size: _Pair, kernel: Tensor) -> bool:
    if torch.compiler.is_compiling() or torch._C._is_tracing():  # graphs keep sizes open
        return False
    return is_narrow(size, (kernel.shape[-2], kernel.shape[-1]))


def convolve_rows(
    image: Tensor,
    kernel: Tensor,
    start: _Pair,
    size: _Pair,
    boundary: str,
    fill: Tensor | None,
    flip: bool,
) -> Tensor:
    """Call the direct method's operator, on other devices lying down where bits allow it."""
    shape = kernel.shape[-2], kernel.shape[-1]
    lies = not image.is_cpu and _is_known_narrow(size, kernel) and _keeps_order(image.dtype, shape)
    if not lies:
        return _direct(image, kernel, start, size, boundary, fill, flip)
    down = image.mT.contiguous(), kernel.mT, lying(start), lying(size)
    return _direct(*down, boundary, fill, flip).mT.contiguous()


def lying_if_narrow(method: Callable[[Problem], Tensor]) -> Callable[[Problem], Tensor]:
    """Return the method, to which narrow images are given lying down."""

    def call(p: Problem) -> Tensor:
        if not _is_known_narrow(p.size, p.kernel):
            return method(p)
        down = p._replace(
            image=p.image.mT.contiguous(),
            kernel=p.kernel.mT,
            start=lying(p.start),
            size=lying(p.size),
        )
        return method(down).mT.contiguous()

    return call


def convolve_direct(p: Problem) -> Tensor:
    """Return the sums over the kernel, in the same order on every device."""
    fill = fill_tensor(p.fill, p.image.dtype)
    return convolve_rows(p.image, p.kernel, p.start, p.size, p.boundary, fill, p.flip)


def convolve_im2col(p: Problem) -> Tensor:
    """Return matrix products with windows of the image, some rows of the output at a time."""
    dtype = p.image.dtype
    p = extended(of_one_size(p))
    kernel = turned(p.kernel) if p.flip else p.kernel
    image = p.image
    if dtype in _HALVES:  # sums in float32
        image, kernel = image.float(), kernel.float()
    kh, kw = kernel.shape[-2:]
    top, left = (s - (k - 1) * p.flip for s, k in zip(p.start, (kh, kw), strict=True))
    height, width = p.size
    images = math.prod(image.shape[:-2])
    rows = max(1, _MATRIX // max(1, images * kh * kw * width)) if is_known(images) else height
    parts = []
    for first in range(0, height, rows):
        last = min(height, first + rows)
        ends = (top + first, left), (top + last + kh - 1, left + width + kw - 1)
        parts.append(_windows_times(image, kernel, ends, p.fill, p.lead))
    found = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
    return found.reshape(*p.lead, height, width).to(dtype)


def _windows_times(
    image: Tensor,
    kernel: Tensor,
    ends: tuple[tuple[int, int], tuple[int, int]],
    fill: int | float | complex,
    lead: tuple[int, ...],
) -> Tensor:
    """Return the sums [*lead, pixels] of windows within rows and columns `ends`."""
    kh, kw = kernel.shape[-2:]
    images = image.reshape(-1, 1, *image.shape[-2:])
    columns = windows(images, *ends, (kh, kw), (1, 1), fill, "unfold")  # [N, kh * kw, pixels]
    weights = kernel.flatten(-2)  # [..., kh * kw]
    split = _bank(image.shape[:-2], kernel.shape[:-2])
    if split is not None:  # one product: every kernel with every image
        weights = weights.reshape(-1, kh * kw)  # [F, kh * kw]
    else:
        columns = columns.reshape(*image.shape[:-2], *columns.shape[-2:])
        weights = weights[..., None, :]
    found = _product(weights, columns)
    return found.reshape(*lead, found.shape[-1])


def _bank(images: torch.Size, kernels: torch.Size) -> int | None:
    """Return where dimensions of images end and dimensions of kernels begin; None if they mix."""
    dims = max(len(images), len(kernels))
    of_images = (1,) * (dims - len(images)) + tuple(images)
    of_kernels = (1,) * (dims - len(kernels)) + tuple(kernels)
    for split in range(dims + 1):
        if all(holds(n == 1) for n in (*of_kernels[:split], *of_images[split:])):
            return split
    return None


def _product(weights: Tensor, columns: Tensor) -> Tensor:
    """Return ``weights @ columns``; integers modulo 2^n."""
    dtype = weights.dtype
    if dtype.is_floating_point or dtype.is_complex:
        return full_product(weights, columns)
    # torch doesn't multiply matrices of unsigned integers; the bits are those of signed ones.
    signed = SIGNED.get(dtype, dtype)
    weights, columns = weights.view(signed), columns.view(signed)
    if weights.device.type == "cpu":
        return (weights @ columns).view(dtype)
    products = weights[..., :, :, None] * columns[..., None, :, :]
    return products.sum(-2, dtype=signed).view(dtype)


def convolve_separable(p: Problem, factors: Factors) -> Tensor:
    """Return the convolution with the row and then with the column.

    float16 and bfloat16 are computed in float32.
    """
    dtype = p.image.dtype
    image = p.image.float() if dtype in _HALVES else p.image
    column, row = (f.to(image.device, image.dtype) for f in factors)
    height = image.shape[-2]
    fill = fill_tensor(p.fill, image.dtype)
    lines = convolve_rows(
        image, row, (0, p.start[1]), (height, p.size[1]), p.boundary, fill, p.flip
    )
    start = p.start[0], 0
    if fill is not None:
        # Rows outside the image hold only `fill`: there, the row's sum is the same everywhere.
        sums = factors[1].to(wide_dtype(fill)).sum(-1, keepdim=True)
        outside = (sums * fill.to(sums.dtype)).to(fill.dtype)  # [..., 1, 1]
        if outside.numel() == 1:
            fill = outside.reshape(1)
        else:  # one for each kernel
            beyond = column.shape[-2] - 1
            rows = outside.to(image.device).expand(*lines.shape[:-2], beyond, lines.shape[-1])
            lines = torch.cat([rows, lines, rows], -2)
            start, fill = (start[0] + beyond, 0), None
    return convolve_rows(lines, column, start, p.size, p.boundary, fill, p.flip).to(dtype)


def wide_dtype(values: Tensor) -> torch.dtype:
    """Return the dtype that factors are found in; integers modulo 2^64."""
    if values.is_complex():
        return torch.complex128
    return torch.float64 if values.is_floating_point() else torch.int64


def convolve_fft(p: Problem, tile: tuple[int, int] | None = None) -> Tensor:
    """Return the convolution by tiles of `tile` elements; None picks what should be fastest.

    float16 and bfloat16 are computed in float32.
    """
    dtype = p.image.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(
            f"visops.{p.op}: method is 'fft' for a result of dtype {dtype_name(dtype)}, must be "
            "another for integers, which it would round"
        )
    if not all(map(is_known, p.lead)):
        raise ValueError(
            f"visops.{p.op}: method is 'fft', must be 'direct' or 'im2col' in a graph where the "
            "number of images depends on values"
        )
    p = extended(as_convolution(of_one_size(p)))
    if dtype in _HALVES:
        p = p._replace(image=p.image.float(), kernel=p.kernel.float())
    kh, kw = p.kernel.shape[-2:]
    kernel = plain_number(kh), plain_number(kw)
    if not _may_write(p):
        return _in_one_piece(p, tile or fft_tile(p.size, kernel, dtype)).to(dtype)
    result = p.image.new_empty((*p.lead, *p.size))
    if tile is None and fft_takes_halves(p.size, kernel, dtype):
        half = -(-p.size[1] // 2)
        p = _of_halves(p, half)
        tile = fft_tile(p.size, kernel, p.image.dtype)
        _write_all(p, tile, lambda tiles: (tiles.real, tiles.imag), result.split(half, -1))
    else:
        tile = tile or fft_tile(p.size, kernel, dtype)
        _write_all(p, tile, lambda tiles: (tiles,), (result,))
    return result.to(dtype)


def _of_halves(p: Problem, half: int) -> Problem:
    """Return the convolution of a complex image: the left half, and i times the right half.

    The kernel is real, so that it mixes nothing. A complex transform is that of two real ones, and
    takes less time than they do.
    """
    kh, kw = p.kernel.shape[-2:]
    top, left = p.start[0] - kh + 1, p.start[1] - kw + 1
    size = p.size[0] + kh - 1, half + kw - 1
    parts = []
    for begin in (left, left + half):
        ends = (top, begin), (top + size[0], begin + size[1])
        found = windows(p.image, *ends, size, (1, 1), p.fill, "patches")
        parts.append(found.reshape(*p.image.shape[:-2], *size))
    image = torch.complex(*parts)
    return p._replace(
        image=image,
        kernel=p.kernel.to(image.dtype),
        start=(kh - 1, kw - 1),
        size=(p.size[0], half),
        fill=0,
    )


def _transforms(dtype: torch.dtype) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    if dtype.is_complex:
        return torch.fft.fft2, torch.fft.ifft2
    return torch.fft.rfft2, torch.fft.irfft2


def _in_one_piece(p: Problem, tile: tuple[int, int]) -> Tensor:
    """Return the result, computed by operations that have gradients."""
    to_frequencies, to_pixels = _transforms(p.image.dtype)
    cut = _Cut(p, tile)
    spectrum = to_frequencies(p.kernel, s=tile)[..., None, None, :, :]
    tiles = cut.tiles(range(cut.count[0]), range(cut.count[1]))
    found = to_pixels(to_frequencies(tiles) * spectrum, s=tile)
    found = found[..., cut.overlap[0] :, cut.overlap[1] :].transpose(-3, -2)
    height, width = (n * s for n, s in zip(cut.count, cut.step, strict=True))
    result = found.reshape(*p.lead, height, width)
    return result[..., : p.size[0], : p.size[1]].contiguous()


def _write_all(
    p: Problem,
    tile: tuple[int, int],
    parts_of: Callable[[Tensor], tuple[Tensor, ...]],
    results: tuple[Tensor, ...],
) -> None:
    """Write the valid parts of the tiles' results to the output, some tiles at a time."""
    _keep_freed_memory()
    to_frequencies, to_pixels = _transforms(p.image.dtype)
    cut = _Cut(p, tile)
    spectrum = to_frequencies(p.kernel, s=tile)[..., None, None, :, :]
    in_place = spectrum.shape[:-4].numel() == 1
    for rows, columns in cut.groups(_AT_ONCE // p.image.element_size()):
        transformed = to_frequencies(cut.tiles(rows, columns))
        if in_place:
            transformed.mul_(spectrum)
        else:
            transformed = transformed * spectrum
        found = to_pixels(transformed, s=tile)[..., cut.overlap[0] :, cut.overlap[1] :]
        for part, result in zip(parts_of(found), results, strict=True):
            _write(result, part, rows.start, columns.start)


@functools.cache
def _keep_freed_memory() -> None:
    torch.empty(_FREED_ONCE, dtype=torch.uint8, device="cpu")


class _Cut:
    """How a problem is cut into tiles."""

    def __init__(self, p: Problem, tile: tuple[int, int]) -> None:
        kernel = p.kernel.shape[-2:]
        self._image = p.image
        self._tile = tile
        self.overlap = (kernel[0] - 1, kernel[1] - 1)
        self.step = (tile[0] - self.overlap[0], tile[1] - self.overlap[1])
        self.count = (-(-p.size[0] // self.step[0]), -(-p.size[1] // self.step[1]))
        self._first = (p.start[0] - self.overlap[0], p.start[1] - self.overlap[1])
        self._fill = p.fill

    def groups(self, elements: int) -> Iterator[tuple[range, range]]:
        """Yield ranges of rows and columns of tiles, of about so many elements in all images."""
        of_tile = self._image.shape[:-2].numel() * self._tile[0] * self._tile[1]
        tiles = max(1, elements // max(1, of_tile))
        for columns in _cuts(self.count[1], tiles):
            for rows in _cuts(self.count[0], max(1, tiles // len(columns))):
                yield rows, columns

    def tiles(self, rows: range, columns: range) -> Tensor:
        """Return these tiles: [..., rows, columns, tile_y, tile_x]."""
        first, last = [], []
        for axis, positions in enumerate((rows, columns)):
            begin = self._first[axis] + positions.start * self.step[axis]
            first.append(begin)
            last.append(begin + (len(positions) - 1) * self.step[axis] + self._tile[axis])
        ends = (first[0], first[1]), (last[0], last[1])
        return windows(self._image, *ends, self._tile, self.step, self._fill, "patches")


def _cuts(count: int, most: int) -> list[range]:
    """Return 0 ... count in parts of nearly equal length, none longer than `most`."""
    parts = -(-count // most)
    ends = [count * i // parts for i in range(parts + 1)]
    return [range(a, b) for a, b in itertools.pairwise(ends)]


def _may_write(p: Problem) -> bool:
    """Whether the output can be written tile by tile, as neither autograd nor vmap is watching."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    if torch.is_grad_enabled() and (p.image.requires_grad or p.kernel.requires_grad):
        return False
    return torch.autograd.forward_ad._current_level < 0


def _write(result: Tensor, tiles: Tensor, row: int, column: int) -> None:
    """Write tiles [..., rows, columns, y, x]; the first one is tile (row, column) of the output."""
    rows, columns, height, width = tiles.shape[-4:]
    part = result[..., column * width : (column + columns) * width]
    whole = part.shape[-1] // width
    for i in range(rows):
        band = part[..., (row + i) * height : (row + i + 1) * height, :]
        of_row = tiles[..., i, :, : band.shape[-2], :].transpose(-3, -2)  # [..., y, columns, x]
        band[..., : whole * width].unflatten(-1, (whole, width)).copy_(of_row[..., :whole, :])
        if whole < columns:
            rest = band[..., whole * width :]
            rest.copy_(of_row[..., whole, : rest.shape[-1]])
