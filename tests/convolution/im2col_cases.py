"""What tests of im2col and col2im share: windows, dtypes and a reference in Python loops."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from references import conv
from torch import Tensor

FLOATING = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
SIGNED = [torch.int8, torch.int16, torch.int32, torch.int64]
UNSIGNED = [torch.uint8, torch.uint16, torch.uint32, torch.uint64]
# The dtypes that torch can sum.
SUMMED = [torch.bool, torch.uint8, *SIGNED, *FLOATING, *COMPLEX]


@dataclass(frozen=True)
class Window:
    """A window over an image of `sizes`; padding is before each dimension, then after each."""

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def dims(self) -> int:
        return len(self.kernel)

    @property
    def arguments(self) -> tuple[tuple[int, ...], ...]:
        """The operators' arguments."""
        return self.kernel, self.stride, self.padding, self.dilation

    @property
    def positions(self) -> tuple[int, ...]:
        n = self.dims
        return tuple(
            (self.sizes[i] + self.padding[i] + self.padding[n + i] - d * (k - 1) - 1) // s + 1
            for i, (k, s, d) in enumerate(zip(self.kernel, self.stride, self.dilation, strict=True))
        )


def window(
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
) -> Window:
    def each(value: Any, count: int) -> tuple[int, ...]:
        return (value,) * count if isinstance(value, int) else tuple(value)

    n = len(kernel)
    return Window(
        tuple(sizes), tuple(kernel), each(stride, n), each(padding, 2 * n), each(dilation, n)
    )


# Every path of the kernels: short and long rows, runs of every length, phases of the stride,
# windows that don't touch. Images in LARGE are cut into several tasks.
WINDOWS = [
    window((1,), (1,)),
    window((9,), (4,), 2, (3, 1), 2),
    window((70,), (5,), 1, 2),
    window((4, 6), (1, 1)),
    window((7, 7), (3, 3), 1, 1),
    window((5, 9), (2, 3), 1, (1, 0, 0, 2)),
    window((12, 40), (3, 3), 2, 1),
    window((6, 37), (2, 7), (1, 3), 3),
    window((17, 11), (3, 2), (2, 1), (2, 2, 1, 1), (3, 4)),
    window((8, 8), (2, 2), 3),
    window((10, 90), (3, 1), (1, 4), (0, 0, 1, 3), (2, 1)),
    window((3, 5), (3, 5)),
    window((2, 3), (4, 9), 1, (2, 6, 2, 5)),
    window((1, 1), (3, 3), 1, 2),
    window((3, 5, 6), (2, 3, 3), 1, 1),
    window((4, 5, 7), (2, 2, 3), (2, 1, 2), (1, 0, 2, 1, 1, 0), (1, 2, 1)),
    window((3, 2, 4, 5), (2, 1, 2, 3), 1, (1, 0, 1, 1, 0, 1, 0, 1), (1, 1, 2, 1)),
]
LARGE = [
    window((40, 1100), (3, 3), 1, 1),
    window((9, 700), (5, 7), (1, 2), (2, 3, 2, 3)),
    window((3, 9000), (1, 40), 1, 0, (1, 3)),
    window((9, 4990), (7, 3), (1, 2), 1),
]


def every_window(windows: Sequence[Window] = WINDOWS) -> Iterator[tuple[str, Window]]:
    for i, w in enumerate(windows):
        sizes = "x".join(map(str, w.sizes))
        yield f"{i}-{sizes}-{'x'.join(map(str, w.kernel))}", w


def numbers(shape: Sequence[int], dtype: torch.dtype, seed: int = 0) -> Tensor:
    """Numbers of that dtype, over all of its range where it is an integer."""
    rng = np.random.default_rng(seed)
    if dtype.is_complex:
        parts = rng.standard_normal((*shape, 2))
        return torch.view_as_complex(torch.from_numpy(parts)).to(dtype)
    if dtype.is_floating_point:
        return torch.from_numpy(rng.standard_normal(shape)).to(dtype)
    if dtype == torch.bool:
        return torch.from_numpy(rng.random(shape) < 0.3)
    size = dtype.itemsize
    raw = rng.integers(0, 256, math.prod(shape) * size, np.uint8)
    return torch.from_numpy(raw).view(dtype).reshape(tuple(shape))


def patches(image: np.ndarray, w: Window, fill: Any = 0) -> np.ndarray:
    """The reference, for every entry of the leading dimensions."""
    leads = image.shape[: image.ndim - w.dims]
    result = np.empty((*leads, *w.positions, *w.kernel), image.dtype)
    for lead in itertools.product(*map(range, leads)):
        result[lead] = conv.im2col_naive(
            image[lead], w.kernel, fill, stride=w.stride, padding=w.padding, dilation=w.dilation
        )
    return result


def sliding(image: np.ndarray, w: Window, fill: Any = 0) -> np.ndarray:
    """The same with NumPy's windows, for images too large for a loop."""
    leads = image.ndim - w.dims
    sides = zip(w.padding[: w.dims], w.padding[w.dims :], strict=True)
    padded = np.pad(image, [(0, 0)] * leads + list(sides), constant_values=fill)
    covered = tuple(d * (k - 1) + 1 for k, d in zip(w.kernel, w.dilation, strict=True))
    axes = tuple(range(leads, image.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(padded, covered, axes)
    steps = tuple(slice(None, None, step) for step in (*w.stride, *w.dilation))
    return windows[(slice(None),) * leads + steps]


def taken(image: Tensor, index: np.ndarray, fill: Tensor) -> np.ndarray:
    """Bytes of the elements at these indices of the flat image, of any dtype; -1 is the fill."""
    flat = torch.cat([image.reshape(-1), fill.reshape(1)]).view(torch.uint8)
    elements: np.ndarray = flat.reshape(-1, image.element_size()).numpy()
    return elements[index].reshape(-1)


def bytes_of(tensor: Tensor) -> np.ndarray:
    """The bytes of a contiguous tensor of any dtype."""
    assert tensor.is_contiguous()
    array: np.ndarray = tensor.reshape(-1).view(torch.uint8).numpy()
    return array


def unfolded(values: np.ndarray, w: Window) -> np.ndarray:
    """Patches of ``[*S]``, ``[C, *S]`` or ``[N, C, *S]`` as columns in the layout "unfold"."""
    leads = values.ndim - 2 * w.dims
    count = math.prod(w.kernel)
    shape = values.shape[:leads]
    columns = values.reshape(*shape, math.prod(w.positions), count).swapaxes(-1, -2)
    channels = shape[-1] if shape else 1
    return columns.reshape(*shape[:-1], channels * count, math.prod(w.positions))


def summed(columns: np.ndarray, w: Window) -> np.ndarray:
    """Patches added up one by one, by ascending index of the kernel's element."""
    leads = columns.shape[: columns.ndim - 2 * w.dims]
    result = np.zeros((*leads, *w.sizes), columns.dtype)
    for k in itertools.product(*map(range, w.kernel)):
        for o in itertools.product(*map(range, w.positions)):
            at = tuple(
                o[i] * w.stride[i] + k[i] * w.dilation[i] - w.padding[i] for i in range(w.dims)
            )
            if all(0 <= a < n for a, n in zip(at, w.sizes, strict=True)):
                to: tuple[Any, ...] = (..., *at)
                source: tuple[Any, ...] = (..., *o, *k)
                result[to] += columns[source]
    return result
