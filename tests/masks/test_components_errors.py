"""Bad input of connected components: each row has an input and the message that it must give."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import visops
from bad_input import check, table

MASK = torch.zeros(3, 4, dtype=torch.bool)
HUGE = torch.zeros(1, 1, dtype=torch.bool).expand(2**16, 2**15)


def label(masks: Any = MASK, **options: Any) -> Callable[[], Any]:
    return lambda: visops.connected_components(masks, **options)


def clean(masks: Any = MASK, *options: Any, **named: Any) -> Callable[[], Any]:
    return lambda: visops.remove_small_regions(masks, *(options or (3,)), **named)


ROWS: tuple[tuple[str, Callable[..., Callable[[], Any]], Any, dict[str, Any]], ...] = (
    (
        "connected_components: masks has dtype float32, must be bool or an integer type",
        label,
        MASK.float(),
        {},
    ),
    ("connected_components: masks has shape [4], must be [..., H, W]", label, MASK[0], {}),
    ("connected_components: masks has shape [], must be [..., H, W]", label, MASK[0, 0], {}),
    ("connected_components: connectivity is 6, must be 4 or 8", label, MASK, {"connectivity": 6}),
    ("connected_components: connectivity is 0, must be 4 or 8", label, MASK, {"connectivity": 0}),
    (
        "connected_components: max_components is -2, must be >= 0",
        label,
        MASK,
        {"return_stats": True, "max_components": -2},
    ),
    (
        "remove_small_regions: masks has dtype int32, must be bool or uint8",
        clean,
        MASK.int(),
        {},
    ),
    ("remove_small_regions: masks has shape [4], must be [..., H, W]", clean, MASK[0], {}),
    (
        "remove_small_regions: mode is 'hole', must be 'holes' or 'islands'",
        clean,
        MASK,
        {"mode": "hole"},
    ),
    (
        "remove_small_regions: connectivity is 26, must be 4 or 8",
        clean,
        MASK,
        {"connectivity": 26},
    ),
)


@table(*((RuntimeError, message, call(masks, **named)) for message, call, masks, named in ROWS))
def test_tensors(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@table(
    *((ValueError, message, call(masks.numpy(), **named)) for message, call, masks, named in ROWS)
)
def test_arrays(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@table(
    (RuntimeError, "remove_small_regions: min_area is -1, must be >= 0", clean(MASK, -1)),
    (TypeError, "remove_small_regions: min_area is 2.5, must be an integer", clean(MASK, 2.5)),
    (
        TypeError,
        "connected_components: max_components is 2.5, must be an integer",
        label(return_stats=True, max_components=2.5),
    ),
    (
        TypeError,
        "connected_components: max_components is for return_stats=True",
        label(max_components=3),
    ),
    (
        TypeError,
        "connected_components: masks is a list, must be a torch.Tensor or a numpy.ndarray",
        label([[True]]),
    ),
    (
        TypeError,
        "connected_components: device is for arrays; move tensors with .to('cpu')",
        label(device="cpu"),
    ),
    (
        RuntimeError,
        "connected_components: masks has dtype complex64, which is not supported",
        label(MASK + 0j),
    ),
    (
        RuntimeError,
        "component_stats: labels has dtype int64, must be int32",
        lambda: torch.ops.visops.component_stats(MASK.long(), 3),
    ),
    (
        RuntimeError,
        "component_stats: regions is -1, must be >= 0",
        lambda: torch.ops.visops.component_stats(MASK.int(), -1),
    ),
    (
        RuntimeError,
        "component_stats: labels has shape [4], must be [..., H, W]",
        lambda: torch.ops.visops.component_stats(MASK[0].int(), 3),
    ),
    (
        TypeError,
        "connected_components: masks has dtype object",
        label(np.array([[None]])),
    ),
)
def test_kinds(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@table(
    *(
        (RuntimeError, f"{op}: masks are 65536 x 32768, must have fewer than 2^31 pixels", call)
        for op, call in (
            ("connected_components", label(HUGE)),
            ("remove_small_regions", clean(HUGE)),
        )
    )
)
def test_masks_of_too_many_pixels(
    error: type[Exception], message: str, call: Callable[[], Any]
) -> None:
    """Refused before anything is allocated: the mask itself is one byte."""
    check(error, message, call)
