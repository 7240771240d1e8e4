"""Images, layouts and tolerances that the tests of the affine warp share."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from references.affine import to_dtype
from torch import Tensor

MODES: tuple[Any, ...] = ("nearest", "bilinear", "bicubic")
PADDINGS: tuple[Any, ...] = ("constant", "replicate", "reflect", "symmetric", "circular")
INTERPOLATED = (
    torch.uint8,
    torch.int16,
    torch.uint16,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
)
COPIED = (torch.bool, torch.int8, torch.int32, torch.int64)
FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def modes_of(dtype: torch.dtype) -> tuple[Any, ...]:
    return MODES if dtype in INTERPOLATED else ("nearest",)


def random_image(rng: np.random.Generator, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Noise over an integer's whole range, or over [0, 1)."""
    if dtype.is_floating_point:
        return torch.from_numpy(rng.random(shape)).to(dtype)
    if dtype == torch.bool:
        return torch.from_numpy(rng.integers(0, 2, shape).astype(bool))
    info = torch.iinfo(dtype)
    values = rng.integers(info.min, info.max, shape, dtype=np.int64, endpoint=True)
    return torch.from_numpy(values).to(dtype)


def to_hwc(image: Tensor) -> np.ndarray:
    """[C, H, W] -> [H, W, C], in the same dtype or, where NumPy lacks it, in float64."""
    image = image.permute(1, 2, 0)
    return (image.double() if image.dtype == torch.bfloat16 else image).numpy()


def _storage_order(*order: int) -> Callable[[Tensor], Tensor]:
    """Return a function that stores the dimensions in another order, the last one adjacent."""

    def relayout(image: Tensor) -> Tensor:
        stored = image.permute(order).contiguous()
        return stored.permute([order.index(d) for d in range(4)])

    return relayout


def _every_other(image: Tensor) -> Tensor:
    batch, channels, height, width = image.shape
    wide = torch.zeros(batch, channels + 1, height * 2, width * 3, dtype=image.dtype)
    wide[:, 1:, ::2, 1::3] = image
    return wide[:, 1:, ::2, 1::3]


# Each takes a contiguous [B, C, H, W] and returns the same values with other strides.
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda image: image.contiguous(),
    "channels_last": lambda image: image.contiguous(memory_format=torch.channels_last),
    "transposed": _storage_order(0, 1, 3, 2),
    "batch_innermost": _storage_order(1, 2, 3, 0),
    "width_between": _storage_order(0, 2, 1, 3),
    "every_other": _every_other,
}


def largest_value(dtype: torch.dtype) -> float:
    return 1.0 if dtype.is_floating_point else float(torch.iinfo(dtype).max)


def assert_matches(actual: np.ndarray, expected: np.ndarray, dtype: torch.dtype, mode: str) -> None:
    """`actual` of an image of `dtype` against the float64 (or, for nearest, exact) reference."""
    assert actual.shape == expected.shape
    if actual.size == 0:
        return
    if mode == "nearest":
        # A coordinate within its rounding error of a tie may fall either way.
        wrong = np.count_nonzero(actual != expected)
        assert wrong <= max(1, 0.001 * actual.size), f"{wrong} of {actual.size} differ"
        return
    if dtype == torch.uint8:
        difference = np.abs(actual.astype(int) - to_dtype(expected, np.uint8).astype(int))
        assert difference.max() <= 1
        assert np.count_nonzero(difference) <= max(1, 0.002 * actual.size)
        return
    error = np.abs(actual.astype(np.float64) - _saturated(expected, dtype))
    assert np.all(error <= _allowed(expected, dtype)), f"worst: {error.max()}"


def _saturated(expected: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    if dtype.is_floating_point:
        return expected
    info = torch.iinfo(dtype)
    return np.clip(expected, info.min, info.max)


def _allowed(expected: np.ndarray, dtype: torch.dtype) -> Any:
    if dtype == torch.float64:
        return 1e-9
    if dtype == torch.float32:
        return 1e-4
    if dtype.is_floating_point:
        return 1e-4 + torch.finfo(dtype).eps / 2 * np.abs(expected)
    return 0.5 + 1e-4 * (torch.iinfo(dtype).max - torch.iinfo(dtype).min)
