"""What a valid call of deformable convolution looks like; for problem.py, as its tables are."""

from collections.abc import Callable
from typing import Any

_NAME = "deform_conv2d"


def _taps(p: Any) -> int:
    return p.kernel[0] * p.kernel[1] * p.groups  # type: ignore[no-any-return]


_ARGUMENTS: dict[str, Callable[[Any], Any]] = {
    "input": lambda p: p.maps(p.batch, p.channels, p.height, p.width, dtype=p.floating),
    "offset": lambda p: p.draw.choice((0.5, 3, 1e10)) * _positions(p, 2 * _taps(p)),
    "mask": lambda p: p.draw.choice((None, _positions(p, _taps(p)))),
    "grad": lambda p: p.maps(p.batch, 4, *p.positions(), dtype=p.floating),
}


def _positions(p: Any, channels: int) -> Any:
    return p.maps(p.batch, channels, *p.positions(), dtype=p.floating)


BY_FUNCTION = {f"{_NAME}.{name}": value for name, value in _ARGUMENTS.items()}
BY_OPERATOR = {
    f"{_NAME}{part}.{name}": value
    for part in ("", *(f"_backward_{of}" for of in ("input", "offset", "samples", "weight")))
    for name, value in _ARGUMENTS.items()
}
