"""Every output of the direct convolution's kernels, to compare between backends."""

import itertools
from collections.abc import Iterator

import numpy as np
import torch
import visops  # noqa: F401  (it registers the operators)
from torch import Tensor

from convolution.convolve2d_cases import (
    BOUNDARIES,
    COMPLEX,
    DTYPES,
    FLOATING,
    SIZES,
    element,
    values,
)

OPS = torch.ops.visops
# More than one task, chunk and tile; more columns than scratch memory is made for at a time.
LARGER = [((70, 2100), (3, 3)), ((300, 90), (7, 5)), ((130, 110), (2, 31)), ((3, 8400), (3, 2))]

OF_LARGER = (torch.float16, torch.float32, torch.float64, torch.complex64, torch.uint8)


def bits(tensor: Tensor) -> np.ndarray:
    """Values as integers, so that -0 differs from 0; all NaN are made equal."""
    tensor = (torch.view_as_real(tensor) if tensor.is_complex() else tensor).cpu()
    if tensor.is_floating_point():
        tensor = torch.where(tensor.isnan(), torch.nan, tensor)
    whole = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.contiguous().view(whole[tensor.element_size()]).numpy()


def layouts(tensor: Tensor) -> list[Tensor]:
    """The same values in every memory layout that kernels treat differently."""
    return [tensor, tensor.mT.contiguous().mT, torch.stack([tensor, tensor], -1)[..., 0]]


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Names and results of every operator, dtype and boundary; layouts take turns."""
    rng = np.random.default_rng(0)
    turns = itertools.cycle(range(3))
    for dtype, (shape, kernel_shape) in itertools.product(DTYPES, [*SIZES, *LARGER]):
        if (shape, kernel_shape) in LARGER and dtype not in OF_LARGER:
            continue
        input, kernel = (values(rng, (2, *s), dtype) for s in (shape, kernel_shape))
        if dtype.is_floating_point and shape[0] == 13:
            input[0, 3, 50], input[1, 12, 130] = torch.inf, torch.nan
        input, kernel = (layouts(t)[next(turns)].to(device) for t in (input, kernel))
        start = [(k - 1) // 2 for k in kernel_shape]
        size = [n + 2 for n in shape]
        flips = (True,) if (shape, kernel_shape) in LARGER else (True, False)
        for boundary, flip in itertools.product(BOUNDARIES, flips):
            fill = element(dtype) if boundary == "fill" else None
            name = f"{dtype}-{shape}-{kernel_shape}-{boundary}-{flip}"
            result = OPS.convolve2d(input, kernel, start, size, boundary, fill, flip)
            yield f"forward-{name}", bits(result)
            if flip and boundary != "fill":
                continue
            folded = OPS.convolve2d_fold(result, [-7, -shape[1] // 2], shape, boundary)
            yield f"fold-{name}", bits(folded)
            if dtype not in (*FLOATING, *COMPLEX):
                continue
            found = OPS.convolve2d_backward_kernel(
                result, input, kernel_shape, start, boundary, fill, flip, flip
            )
            yield f"kernel-{name}", bits(found)


def check(found: dict[str, np.ndarray]) -> None:
    """Check that there are many cases, and that few of them are constant."""
    assert len(found) > 1000
    assert np.mean([np.unique(v).size > 2 for v in found.values()]) > 0.8
