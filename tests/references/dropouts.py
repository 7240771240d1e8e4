"""Channels and rectangles that are filled, one after another as a chain's definition reads."""

from collections.abc import Callable, Sequence

import numpy as np

VALUE, PIXELS, COLOURS = range(3)  # what fills


class Numbers:
    """Uniform numbers of a key in [0, 1), in their order."""

    def __init__(self, key: float) -> None:
        self.draw = np.random.Generator(np.random.Philox(key=int(key * 2.0**53))).random

    def whole(self, low: int, high: int) -> int:
        """Draw a whole number from low to high."""
        return low + int(self.draw() * (max(high - low, 0) + 1))

    def shade(self, dtype: np.dtype) -> np.generic:
        """Draw a value of an image."""
        if dtype == np.uint8:
            return np.uint8(self.whole(0, 255))
        return np.float32(self.draw())


def _value(image: np.ndarray, fill: float) -> np.generic:
    return np.uint8(min(max(fill, 0.0), 255.0)) if image.dtype == np.uint8 else np.float32(fill)


def _fill(
    image: np.ndarray,
    holes: Sequence[tuple[int, int, int, int]],
    fill: float,
    filling: float,
    numbers: Numbers,
) -> np.ndarray:
    out = image.copy()
    for top, left, height, width in holes:
        for plane in out:
            hole = plane[top : top + height, left : left + width]
            if filling == PIXELS:
                for at in np.ndindex(hole.shape):
                    hole[at] = numbers.shade(image.dtype)
            else:
                shade = numbers.shade(image.dtype) if filling == COLOURS else _value(image, fill)
                hole[...] = shade
    return out


def fill_channels(image: np.ndarray, fill: float, more: Sequence[float]) -> np.ndarray:
    """Fill as many channels as are drawn."""
    numbers, out, channels = Numbers(more[2]), image.copy(), len(image)
    left = min(numbers.whole(int(more[0]), int(more[1])), channels)
    for c in range(channels):
        if left > 0 and numbers.draw() * (channels - c) < left:
            out[c] = _value(image, fill)
            left -= 1
    return out


def fill_holes(image: np.ndarray, fill: float, more: Sequence[float]) -> np.ndarray:
    """Fill rectangles at random places."""
    numbers, (height, width) = Numbers(more[0]), image.shape[1:]

    def side(low: float, high: float, of: int) -> int:
        if high < 1.0:
            return int(of * (low + numbers.draw() * (high - low)))
        most = int(min(high, of))
        return numbers.whole(min(int(low), most), most)

    holes = []
    for _ in range(numbers.whole(int(more[1]), int(more[2]))):
        rows, columns = side(more[3], more[4], height), side(more[5], more[6], width)
        top = numbers.whole(0, height - rows)
        holes.append((top, numbers.whole(0, width - columns), rows, columns))
    return _fill(image, holes, fill, more[7], numbers)


def fill_grid(image: np.ndarray, fill: float, more: Sequence[float]) -> np.ndarray:
    """Fill a rectangle of each cell of a grid."""
    numbers, (height, width) = Numbers(more[0]), image.shape[1:]
    ratio, own, grid, a, b, across, down, filling = more[1:]
    count: Callable[[int], int] = lambda side: side // max(2, side // 10)  # noqa: E731
    if grid == 1:
        unit = numbers.whole(int(a), max(int(a), int(b) - 1))
        count = lambda side: side // unit  # noqa: E731
    rows, columns = (int(b), int(a)) if grid == 2 else (count(height), count(width))
    if rows < 1 or columns < 1:
        return image.copy()

    def cells(side: int, count: int) -> list[int]:
        sides = [side // count + (i < side % count) for i in range(count)]
        for i in range(count - 1, 0, -1):
            k = numbers.whole(0, i)
            sides[i], sides[k] = sides[k], sides[i]
        return sides

    def part(side: int) -> int:
        return max(int(min(max(side * ratio, 1.0), side - 1.0)), 0)

    heights, widths = cells(height, rows), cells(width, columns)
    holes = []
    for r, cell_height in enumerate(heights):
        for c, cell_width in enumerate(widths):
            size = part(cell_height), part(cell_width)
            shift = [int(down), int(across)]
            if own:
                shift = [
                    numbers.whole(0, n - s)
                    for n, s in zip((cell_height, cell_width), size, strict=True)
                ]
            top = min(max(sum(heights[:r]) + shift[0], 0), height - size[0])
            left = min(max(sum(widths[:c]) + shift[1], 0), width - size[1])
            holes.append((top, left, *size))
    return _fill(image, holes, fill, filling, numbers)
