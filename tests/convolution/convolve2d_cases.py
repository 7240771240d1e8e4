"""Cases for the direct convolution, its definition, and names of borders."""

import numpy as np
import torch
from torch import Tensor

BOUNDARIES = ("fill", "wrap", "symm")
FLOATING = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
UNSIGNED = [torch.uint8, torch.uint16, torch.uint32, torch.uint64]
INTEGER = [torch.int8, torch.int16, torch.int32, torch.int64, *UNSIGNED]
DTYPES = [*FLOATING, *COMPLEX, *INTEGER]

# Shapes of input and kernel: whole and partial blocks in both directions, kernels of every height
# that has its own code, kernels larger than the input.
SIZES = [
    ((1, 1), (1, 1)),
    ((5, 6), (3, 3)),
    ((9, 150), (1, 7)),
    ((8, 70), (2, 2)),
    ((13, 131), (3, 3)),
    ((11, 140), (3, 4)),
    ((22, 67), (4, 1)),
    ((12, 300), (5, 5)),
    ((3, 4), (6, 9)),
    ((2, 1), (1, 40)),
]


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    if dtype in INTEGER:
        numbers = rng.integers(-(2**62), 2**62, shape)
        return torch.from_numpy(numbers).to(torch.int64).to(dtype)
    real = torch.from_numpy(np.asarray(rng.standard_normal(shape)))
    if dtype not in COMPLEX:
        return real.to(dtype)
    return torch.complex(real, torch.from_numpy(np.asarray(rng.standard_normal(shape)))).to(dtype)


def element(dtype: torch.dtype, value: float = 3) -> Tensor:
    """A fill value."""
    return torch.tensor([value]).to(dtype)


def _extended(axis: np.ndarray, n: int, boundary: str) -> np.ndarray:
    """Map indices of an extended axis to those of its n elements; -1 is the fill value."""
    if boundary == "fill":
        return np.where((axis >= 0) & (axis < n), axis, -1)
    period = list(range(n)) + (list(range(n))[::-1] if boundary == "symm" else [])
    return np.array(period)[axis % len(period)]


def extended(
    plane: np.ndarray, start: tuple[int, int], size: tuple[int, int], boundary: str, fill: complex
) -> np.ndarray:
    y, x = (
        _extended(np.arange(s, s + n), of, boundary)
        for s, n, of in zip(start, size, plane.shape, strict=True)
    )
    outside = (y < 0)[:, None] | (x < 0)
    return np.where(outside, np.array(fill, plane.dtype), plane[np.ix_(y, x)])


def convolve_loop(
    plane: np.ndarray,
    kernel: np.ndarray,
    start: tuple[int, int],
    size: tuple[int, int],
    boundary: str,
    fill: complex = 0,
    flip: bool = True,
) -> np.ndarray:
    """One plane by one kernel, both of a type in which sums are exact or nearly so."""
    height, width = kernel.shape
    if flip:
        kernel = kernel[::-1, ::-1]
        start = (start[0] - (height - 1), start[1] - (width - 1))
    reach = (size[0] + height - 1, size[1] + width - 1)
    wide = extended(plane, start, reach, boundary, fill)
    result = np.zeros(size, plane.dtype)
    for m in range(height):
        for n in range(width):
            result += kernel[m, n] * wide[m : m + size[0], n : n + size[1]]
    return result


BORDERS = {
    "reflect_101": "BORDER_REFLECT_101",
    "reflect": "BORDER_REFLECT",
    "replicate": "BORDER_REPLICATE",
    "wrap": "BORDER_WRAP",
    "constant": "BORDER_CONSTANT",
}

PAD = {
    "reflect_101": "reflect",
    "reflect": "symmetric",
    "replicate": "edge",
    "wrap": "wrap",
    "constant": "constant",
}
