"""Convolution by Fourier transforms of tiles that overlap.

The image is cut into tiles that overlap by one less than the kernel. Each is convolved cyclically
with the kernel, and the part of the result that wrapping did not reach is kept (the overlap-save
method: A. V. Oppenheim, R. W. Schafer, "Discrete-time signal processing", section 8.7). Small tiles
stay in the cache, and some sizes suit transforms better than others.

Where no gradient is wanted, tiles are transformed a few at a time, and their results are written to
the output. The halves of a large real image become real and imaginary part of a complex one.
"""

import functools
import itertools
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from .._torch.shapes import is_known
from .convolve2d_costs import fft_takes_halves, fft_tile
from .convolve2d_extension import extended, windows
from .convolve2d_problem import Problem, as_convolution, dtype_name, of_one_size, plain_number

# Bytes of tiles that are transformed at once: more would leave the cache, fewer would leave threads
# without work.
_AT_ONCE = 1 << 20

# glibc returns freed memory above a threshold to the system, and getting pages back takes several
# times as long as transforming what is on them. Freeing a larger block raises the threshold to its
# size, up to 32 MiB; a block that is never written costs no time.
_FREED_ONCE = 24 << 20

_HALVES = (torch.float16, torch.bfloat16)


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
