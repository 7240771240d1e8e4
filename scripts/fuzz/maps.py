"""What valid calls of maps and displacements look like; for problem.py."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_MODES = ("bilinear", "nearest", "bicubic")
_GRIDS = ("dense", "bilinear", "spline")
_Value = Callable[[Any], Any]


def _grid(p: Any) -> str:
    return _GRIDS[p.kernel[0] % 3]  # drawn before maps are


def _map(p: Any) -> Tensor:
    """A map of the grid that the call has, for each image or for all."""
    size = p.out if _grid(p) == "dense" else p.kernel
    batch = 1 if p.kernel[1] == 1 else p.batch
    reach = p.draw.choice((0.5, 5.0, 60.0))
    return p.draw.tensor((batch, *size), p.floating, -reach, reach)  # type: ignore[no-any-return]


def _matrix(p: Any) -> Tensor | None:
    if p.draw.chance(0.3):
        return None
    matrix = p.matrix(3).double()
    return matrix if matrix.dim() == 3 else matrix[None]  # type: ignore[no-any-return]


def _points(p: Any) -> Tensor:
    """A map of the public function: for each pixel."""
    return p.draw.tensor((p.batch, *p.out), p.floating, -5, 40)  # type: ignore[no-any-return]


_CALL: dict[str, _Value] = {
    "images": lambda p: p.maps(
        p.batch,
        p.channels,
        p.height or 1,
        p.width or 1,
        dtype=p.draw.choice((torch.uint8, p.floating)),
    ),
    "map_x": _map,
    "map_y": _map,
    "matrix": _matrix,
    "grid": _grid,
    "relative": lambda p: p.draw.chance(0.7),
    "to_float": lambda p: p.arguments["images"].dtype != torch.float64 and p.draw.chance(0.3),
}
BY_OPERATOR: dict[str, _Value] = {f"remap.{name}": value for name, value in _CALL.items()}
BY_FUNCTION: dict[str, _Value] = {
    "remap.image": _CALL["images"],
    "remap.map_x": _points,
    "remap.map_y": _points,
    "remap.mode": lambda p: p.draw.choice(_MODES),
    "displacement_field.grid": lambda p: p.draw.tensor((p.batch, *p.kernel, 2), p.floating, -9, 9),
    "displacement_field.size": lambda p: [max(side, 1) for side in p.out],
    "displacement_field.spline": lambda p: p.draw.chance(0.5),
    "augment.displacement": lambda p: (
        p.draw.tensor((p.batch, *p.kernel, 2), p.floating, -9, 9) if p.draw.chance(0.3) else None
    ),
    "augment.displacement_grid": lambda p: p.draw.choice(("bilinear", "spline")),
}
