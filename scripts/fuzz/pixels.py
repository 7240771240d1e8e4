"""What valid calls of pixel operations and separable filters look like; for problem.py."""

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_AFFINE, _CONTRAST, _SATURATION = 1, 3, 4
_CHANNELS, _HOLES, _GRID = 17, 18, 19
_BOX, _GAUSSIAN, _MEDIAN, _MOTION, _UNSHARP, _CLAHE, _JPEG = 20, 21, 22, 23, 24, 27, 30
_SIDES = (1, 3, 3, 5, 5, 7, 9, 15)
_KINDS = tuple(kind for kind in range(31) if kind != _GAUSSIAN)

# Numbers behind an amount that are whole, by their places.
_WHOLE: dict[int, dict[int, tuple[int, ...]]] = {
    _CLAHE: {0: (1, 2, 3, 8, 20), 1: (1, 2, 3, 8, 20)},
    _UNSHARP: {0: _SIDES},
    _CHANNELS: {0: (0, 1, 1), 1: (0, 1, 2, 3)},
    _HOLES: {1: (0, 1, 2), 2: (0, 1, 4, 9), 7: (0, 1, 2)},
    _GRID: {
        **{3: (0, 1, 2), 4: (1, 2, 5), 5: (1, 3, 40)},
        **{6: (-3, 0, 50), 7: (-1, 0, 9), 8: (0, 1, 2)},
    },
}


def _images(p: Any, *others: torch.dtype) -> Tensor:
    dtype = p.draw.choice((torch.uint8, torch.float32, *others))
    return p.maps(p.batch, p.channels, p.height, p.width, dtype=dtype)  # type: ignore[no-any-return]


def _kinds(p: Any) -> list[int]:
    refused = {_AFFINE}
    if p.channels not in (1, 3):
        refused |= {_CONTRAST, _JPEG}
    if p.channels < 3 and p.channels != 1:
        refused.add(_SATURATION)
    return [p.draw.choice([k for k in _KINDS if k not in refused]) for _ in range(p.batch)]


def _amount(p: Any, kind: int) -> float:
    if kind in (_MEDIAN, _BOX):
        return float(p.draw.choice(_SIDES))
    if kind == _JPEG:
        return float(p.draw.choice((1, 20, 50, 90, 100)))
    if kind == _MOTION:
        return float(p.draw.choice((3, 5, 7, 33)))
    return p.draw.uniform(0, 6) if kind == _CLAHE else p.draw.uniform(0.1, 1)  # type: ignore[no-any-return]


def _more(p: Any, kind: int) -> list[float]:
    numbers = [p.draw.uniform(0, 0.9) for _ in range(9)]
    for place, choices in _WHOLE.get(kind, {}).items():
        numbers[place] = float(p.draw.choice(choices))
    if kind == _HOLES:
        for least in (3, 5):  # shares, or pixels
            numbers[least : least + 2] = sorted(numbers[least : least + 2])
            if p.draw.chance(0.5):
                numbers[least + 1] = float(p.draw.choice((1, 6, 300)))
    return numbers


def _of_kinds(draw: Callable[[Any, int], Any], p: Any) -> list[Any]:
    return [draw(p, kind) for kind in p.arguments["kinds"]]


def _shared(p: Any) -> bool:
    return p.layout == "unfold"  # as good as a coin, and known before it is asked for


def _weights(p: Any, taps: int) -> list[float]:
    sets = 1 if _shared(p) or not p.batch else p.batch
    return [p.draw.uniform(-0.5, 1) for _ in range(sets * taps)]


def _pictures(p: Any) -> Tensor:
    channels = p.channels if p.channels in (1, 3, 4) else 3
    return p.maps(p.batch, channels, p.height or 1, p.width or 1, dtype=torch.uint8)  # type: ignore[no-any-return]


def _steps(p: Any, *last: int) -> Tensor:
    channels = p.arguments["pictures"].shape[1]
    shape = (p.batch, p.groups, channels, *(channels + n for n in last))
    return p.draw.tensor(shape, torch.float64).contiguous()  # type: ignore[no-any-return]


BY_OPERATOR: dict[str, Callable[[Any], Any]] = {
    "add_grey_means.pictures": _pictures,
    "add_grey_means.colors": lambda p: _steps(p, 1),
    "add_grey_means.weights": _steps,
    "adjust_pixels.images": _images,
    "adjust_pixels.kinds": _kinds,
    "adjust_pixels.amounts": lambda p: _of_kinds(_amount, p),
    "adjust_pixels.more": lambda p: list(itertools.chain(*_of_kinds(_more, p))),
    "filter_separable.images": lambda p: _images(p, torch.float16, torch.bfloat16),
    "filter_separable.shared": _shared,
    "filter_separable.pairs": lambda p: (
        p.draw.chance(0.3) and p.kernel[0] % 2 * p.kernel[1] % 2 == 1
    ),
    "filter_separable.rows": lambda p: _weights(p, p.kernel[1]),
    "filter_separable.columns": lambda p: _weights(p, p.kernel[0]),
}
