"""Every output of the im2col and col2im kernels, to compare between backends."""

import itertools
from collections.abc import Iterator

import numpy as np
import torch

from convolution.im2col_cases import (
    LARGE,
    SUMMED,
    UNSIGNED,
    WINDOWS,
    bytes_of,
    every_window,
    numbers,
    window,
)

OPS = torch.ops.visops
DTYPES = [*SUMMED, *UNSIGNED[1:]]
# Steps that are not made, so large that indices take 64 bits on CUDA.
FAR = [
    window((5, 9), (2, 1), (1, 3), 1, (2, 2**31 - 1)),
    window((4, 6, 7), (2, 6, 2), (1, 2**31 - 1, 2)),
]
LEADS: list[tuple[int, ...]] = [(2, 3), (3,), ()]


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Names and bytes of both operators' results: every window, layout and dtype."""
    leads = itertools.cycle(LEADS)
    for (name, w), layout in itertools.product(
        every_window([*WINDOWS, *LARGE, *FAR]), ("unfold", "patches")
    ):
        dtypes = [torch.uint8, torch.bfloat16, torch.complex64] if w in LARGE else DTYPES
        for dtype in dtypes:
            image = numbers((*next(leads), *w.sizes), dtype).to(device)
            fill = numbers((1,), dtype, 1)
            columns = OPS.im2col(image, *w.arguments, fill, layout)
            back = OPS.col2im(columns, w.sizes, *w.arguments, layout)
            yield f"im2col-{name}-{layout}-{dtype}", bytes_of(columns.cpu())
            yield f"col2im-{name}-{layout}-{dtype}", bytes_of(back.cpu())


def check(found: dict[str, np.ndarray]) -> None:
    """Check that there are many cases, and that few of them are constant."""
    assert len(found) > 800
    assert np.mean([np.unique(v).size > 2 for v in found.values()]) > 0.8
