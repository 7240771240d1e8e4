"""Problems, tolerances and bad calls that the tests of the augmentation share."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import visops
from references.affine import Size, random_matrix, to_dtype
from references.augment import augment, full_scale
from torch import Tensor

from warp.affine_cases import to_hwc

DTYPES = (torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.float64)

# Every interpolation, with and without antialias.
SAMPLERS: tuple[tuple[Any, bool], ...] = (
    ("nearest", False),
    ("bilinear", False),
    ("bicubic", False),
    ("bilinear", True),
    ("bicubic", True),
)

PER_SAMPLE = ("color", "window", "erase")


def name_of(value: Any) -> str:
    return str(value).removeprefix("torch.")


def random_color(rng: np.random.Generator, steps: int, channels: int) -> np.ndarray:
    """[K, C, C + 1], steps near the identity so that colours neither vanish nor explode."""
    maps = np.zeros((steps, channels, channels + 1))
    maps[:, :, :channels] = np.eye(channels)
    return maps + rng.uniform(-0.3, 0.3, maps.shape)


def random_window(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """A window with at least one pixel of the image; some edges lie beyond it."""
    x1, y1 = rng.uniform(-0.2 * width, 0.4 * width), rng.uniform(-0.2 * height, 0.4 * height)
    x2, y2 = rng.uniform(0.6 * width, 1.2 * width), rng.uniform(0.6 * height, 1.2 * height)
    return np.array([x1, y1, x2, y2])


def random_erase(rng: np.random.Generator, count: int, size: Size) -> np.ndarray:
    """Rectangles [R, 4], some empty, some beyond the output."""
    height, width = size
    corner = rng.integers([-5, -5], [width, height], (count, 2), endpoint=True)
    extent = rng.integers(0, [width // 3 + 1, height // 3 + 1], (count, 2), endpoint=True)
    return np.concatenate([corner, corner + extent], 1)


def random_perspective(
    rng: np.random.Generator, height: int, width: int, size: Size, *, scale: tuple[float, float]
) -> np.ndarray:
    """[3, 3] source to destination; its inverse's w is between 0.4 and 1.6 within the output."""
    affine = np.vstack([random_matrix(rng, height, width, size, scale=scale), [0, 0, 1]])
    bend = np.eye(3)
    bend[2, :2] = rng.uniform(-0.3, 0.3, 2) / (size[1], size[0])
    return np.linalg.inv(np.linalg.inv(affine) @ bend)


def reference(
    images: Sequence[Tensor], matrices: Any, size: Size, out_dtype: torch.dtype, options: Any
) -> list[np.ndarray]:
    """The reference of every sample, [*size, C]; per-sample options are in arrays [B, ...]."""
    results = []
    for i, (image, matrix) in enumerate(zip(images, matrices, strict=True)):
        own = {k: v[i] if k in PER_SAMPLE and v is not None else v for k, v in options.items()}
        own.update(in_dtype=name_of(image.dtype), out_dtype=name_of(out_dtype))
        results.append(augment(to_hwc(image), matrix, size, **own))
    return results


def assert_matches(
    actual: Tensor,
    expected: Sequence[np.ndarray],
    in_dtype: torch.dtype,
    *,
    mode: str,
    gain: float = 1.0,
) -> None:
    """`actual` [B, C, h, w] against the references; `gain` is how much colour and std amplify."""
    assert actual.shape[0] == len(expected)
    for output, wanted in zip(actual, expected, strict=True):
        result = to_hwc(output)
        assert result.shape == wanted.shape
        if result.size == 0:
            continue
        error = np.abs(_error(result, wanted, actual.dtype))
        allowed = _allowed(wanted, in_dtype, actual.dtype, gain)
        wrong = np.count_nonzero(~(error <= allowed))
        # A coordinate within its rounding error of a tie may fall either way.
        ties = max(1, 0.001 * result.size) if mode == "nearest" else 0
        assert wrong <= ties, f"{wrong} of {result.size} differ, worst {error.max()}"
        if actual.dtype == torch.uint8 and mode != "nearest":
            assert np.count_nonzero(error) <= max(2, 0.002 * gain * result.size)


def _error(result: np.ndarray, wanted: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    if dtype == torch.uint8:
        return result.astype(np.float64) - to_dtype(wanted, np.uint8)
    return result.astype(np.float64) - wanted


def _allowed(wanted: np.ndarray, in_dtype: torch.dtype, dtype: torch.dtype, gain: float) -> Any:
    if dtype == torch.uint8:
        return 1.0
    # Float64 images round twice on the way to half precision: a little more than half a step.
    info = torch.finfo(dtype)
    exact = in_dtype == dtype == torch.float64
    rounding = 0.0 if exact else (np.abs(wanted) + info.tiny) * info.eps * 0.501
    computed = 1e-9 if in_dtype == torch.float64 else 2e-5
    return computed * gain * full_scale(name_of(dtype)) + rounding


def check(images: Any, matrices: Any, size: Size, *, gain: float = 1.0, **options: Any) -> Tensor:
    """Augment a batch [B, C, H, W] or a list of [C, H, W], and compare it with the reference."""
    in_dtype = images[0].dtype
    out_dtype = options.pop("out_dtype", torch.float32)
    memory_format = options.pop("memory_format", torch.contiguous_format)
    result = visops.augment(
        images,
        np.stack(matrices),
        size,
        out_dtype=out_dtype,
        memory_format=memory_format,
        layout="CHW",
        **options,
    )
    channels = images[0].shape[0]
    assert result.shape == (len(images), channels, *size)
    assert result.dtype == out_dtype
    assert result.is_contiguous(memory_format=memory_format)
    expected = reference(images, matrices, size, out_dtype, options)
    assert_matches(result, expected, in_dtype, mode=options.get("mode", "bilinear"), gain=gain)
    return result


IDENTITY = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
SINGULAR = [[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]]
NAN, INF = float("nan"), float("inf")
SIZE = (6, 7)


def tensor(*, dtype: torch.dtype = torch.float32, shape: Any = (2, 3, 4, 5)) -> Tensor:
    return torch.zeros(shape, dtype=dtype)


def images(*shapes: Any, dtype: torch.dtype = torch.uint8) -> list[Any]:
    return [tensor(dtype=dtype, shape=shape) for shape in shapes]


GOOD = ((3, 4, 5), (3, 9, 8), (3, 1, 1))


def call(given: Any, matrix: Any = IDENTITY, size: Any = SIZE, **options: Any) -> Callable[[], Any]:
    return lambda: visops.augment(given, matrix, size, **options)


def aligned(
    rng: np.random.Generator, height: int, width: int, size: Any, *, scale: tuple[float, float]
) -> np.ndarray:
    """A resize and perhaps a flip, as random_matrix otherwise."""
    sx, sy = rng.uniform(*scale, 2) * rng.choice([-1, 1], 2)
    x, y = (size[1] - 1) / 2 - sx * (width - 1) / 2, (size[0] - 1) / 2 - sy * (height - 1) / 2
    return np.array([[sx, 0, x], [0, sy, y]])
