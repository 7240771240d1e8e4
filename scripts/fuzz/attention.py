"""What a valid call of deformable attention looks like; for problem.py, as its tables are."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_NAME = "multi_scale_deformable_attention"


def _value_size(p: Any) -> list[int]:
    """Return ``[B, S, h, d]`` of two levels."""
    positions = p.height * p.width + p.out[0] * p.out[1]
    return [p.batch, positions, p.groups, p.channels // p.groups]


def _samples(p: Any, *last: int) -> Tensor:
    """Return numbers for each query, head and sample of two levels."""
    shape = (p.batch, p.count, p.groups, sum(p.kernel), *last)
    return p.draw.tensor(shape, p.floating)  # type: ignore[no-any-return]


def _evenly(p: Any, *last: int) -> Tensor:
    """The same, with as many samples in each of the two levels."""
    shape = (p.batch, p.count, p.groups, 2, p.kernel[0], *last)
    return p.draw.tensor(shape, p.floating)  # type: ignore[no-any-return]


_OPERATORS: dict[str, Callable[[Any], Any]] = {
    "value": lambda p: p.maps(*_value_size(p), dtype=p.floating),
    "value_size": _value_size,
    "spatial_shapes": lambda p: torch.tensor([[p.height, p.width], p.out]),
    "sizes": lambda p: (
        [p.height, p.width, *p.out] if p.arguments.get("spatial_shapes") is None else []
    ),
    "sampling_locations": lambda p: _samples(p, 2) * 1.5 - 0.25,
    "attention_weights": _samples,
    "points": lambda p: list(p.kernel),
    "method": lambda p: p.draw.choice(("default", "discrete")),
    "grad": lambda p: p.maps(p.batch, p.count, p.channels, dtype=p.floating),
}
_FUNCTION: dict[str, Callable[[Any], Any]] = {
    "spatial_shapes": lambda p: [(p.height, p.width), p.out],
    "level_start_index": lambda p: [0, p.height * p.width],
    "num_points_list": lambda p: p.kernel,
}
BY_OPERATOR = {
    f"{_NAME}{part}.{name}": value
    for part in ("", "_backward_value", "_backward_samples")
    for name, value in _OPERATORS.items()
}
# For visops.compat.
_COMPAT: dict[str, Callable[[Any], Any]] = {
    "value": _OPERATORS["value"],
    "spatial_shapes": _OPERATORS["spatial_shapes"],
    "value_spatial_shapes": _OPERATORS["spatial_shapes"],
    "level_start_index": lambda p: torch.tensor([0, p.height * p.width]),
    "sampling_loc": lambda p: _evenly(p, 2) * 1.5 - 0.25,
    "sampling_locations": lambda p: _evenly(p, 2) * 1.5 - 0.25,
    "attn_weight": lambda p: _evenly(p),
    "attention_weights": lambda p: _evenly(p),
    "grad_output": _OPERATORS["grad"],
}
_COMPAT_NAMES = (
    "ms_deform_attn_forward",
    "ms_deform_attn_backward",
    "multi_scale_deformable_attn_pytorch",
)
BY_FUNCTION = {f"{_NAME}.{name}": value for name, value in _FUNCTION.items()}
BY_FUNCTION |= {f"{op}.{name}": value for op in _COMPAT_NAMES for name, value in _COMPAT.items()}
