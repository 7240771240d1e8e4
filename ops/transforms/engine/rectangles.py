"""Random rectangles: crops of a given area and aspect ratio, and rectangles to erase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .numbers import Number, all_true, exp, rint, sqrt, where
from .plan import Canvas

__all__ = ["ATTEMPTS", "draw_rectangles", "rectangle"]

ATTEMPTS = 10


def draw_rectangles(
    uniforms: Sequence[Number],
    canvas: Canvas,
    scale: tuple[float, float],
    log_ratio: tuple[float, float],
    strict: bool,
) -> tuple[Number, Number, Number]:
    """Draw area and log ratio until the rectangle fits, at most ten times.

    Parameters
    ----------
    uniforms : 20 numbers
    canvas : Canvas
    scale, log_ratio : pair of float
        Ranges of the area, as a fraction of the canvas's, and of log(first side / second side).
    strict : bool
        Which of torchvision's two transforms to follow. If strict, the sides are height and width,
        and must be smaller than the canvas's; otherwise they are width and height, and may equal
        them.

    Returns
    -------
    number, number
        The sides; meaningless where no attempt fits.
    condition
        Whether one fits.
    """
    area = canvas.height * canvas.width
    low, log_low = scale[0], log_ratio[0]
    span, log_span = scale[1] - low, log_ratio[1] - log_low
    limits = (canvas.height, canvas.width) if strict else (canvas.width, canvas.height)
    first = second = fits = None
    for attempt in range(ATTEMPTS):
        wanted = area * (low + uniforms[attempt] * span)
        aspect = exp(log_low + uniforms[ATTEMPTS + attempt] * log_span)
        one, other = rint(sqrt(wanted * aspect)), rint(sqrt(wanted / aspect))
        if strict:
            fit = (one < limits[0]) & (other < limits[1])
        else:
            fit = (one <= limits[0]) & (other <= limits[1]) & (one > 0.0) & (other > 0.0)
        if attempt == 0:
            first, second, fits = one, other, fit
        else:
            # Each sample keeps its first fit, however long others of its batch still try.
            first, second = where(fits, first, one), where(fits, second, other)
            fits = fits | fit
        if all_true(fits):
            break
    return first, second, fits


def rectangle(params: Mapping[str, Any]) -> list[Number]:
    """Return the rectangle x1, y1, x2, y2, empty where nothing is erased."""
    left, top, apply = params["left"], params["top"], params["apply"]
    right, bottom = left + params["width"], top + params["height"]
    return [left * apply, top * apply, right * apply, bottom * apply]
