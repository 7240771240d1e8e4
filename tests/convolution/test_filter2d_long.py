"""Filters with kernels much longer than the image."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from convolution.filter2d_cases import BORDERS, PAD


def summed(image: np.ndarray, kernel: np.ndarray, axis: int, border: str, fill: float) -> Any:
    """Correlate along an axis, by NumPy's padding; `fill` lies outside."""
    before, after = len(kernel) // 2, (len(kernel) - 1) // 2
    widths = [(0, 0), (0, 0)]
    widths[axis] = (before, after)
    options: Any = {"constant_values": fill} if border == "constant" else {}
    mode: Any = PAD[border]
    padded = np.pad(image, widths, mode, **options)
    windows = np.lib.stride_tricks.sliding_window_view(padded, len(kernel), axis)
    return windows @ kernel


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (7, 3), (2, 30)])
@pytest.mark.parametrize("length", [1500, 1501])
@pytest.mark.parametrize("axis", [0, 1])
def test_definition(border: str, shape: tuple[int, int], length: int, axis: int) -> None:
    rng = np.random.default_rng(length + axis)
    image, kernel = rng.random(shape), rng.random(length)
    found = visops.filter2d(
        image, kernel[:, None] if axis == 0 else kernel[None], border=border, fill=0.7
    )
    np.testing.assert_allclose(found, summed(image, kernel, axis, border, 0.7), rtol=1e-11)


@pytest.mark.parametrize("border", BORDERS)
def test_sums_of_bytes_are_exact(border: str) -> None:
    image = np.random.default_rng(3).integers(0, 256, (5, 8)).astype(np.uint8)
    size = (1501, 1200)
    rows = summed(image.astype(np.float64), np.ones(size[1]), 1, border, 9.0)
    outside = 9.0 * size[1]  # a row of the fill, summed as the image's rows are
    wanted = summed(rows, np.ones(size[0]), 0, border, outside) / (size[0] * size[1])
    found = visops.box_blur(image, size, border=border, fill=9)
    np.testing.assert_array_equal(found, np.rint(wanted).astype(np.uint8))


class Largest(TorchDispatchMode):
    """Notes the number of elements of the largest result."""

    found = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        self.found = max([self.found, *sizes])
        return result


@pytest.mark.parametrize("border", BORDERS)
def test_one_row_is_not_extended_to_as_many_as_the_kernel_has(border: str) -> None:
    image = torch.rand(1, 1, 300, dtype=torch.float64, requires_grad=True)
    with Largest() as largest:
        blurred = visops.gaussian_blur(image, (32767, 3), border=border)
        (gradient,) = torch.autograd.grad(blurred.sum(), image)
    assert largest.found < 10_000
    assert gradient.shape == image.shape
