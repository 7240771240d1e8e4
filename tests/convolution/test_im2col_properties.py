"""im2col and col2im of windows drawn by hypothesis."""

import numpy as np
import pytest
import torch
import visops
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import every_slot, use_slot

from convolution.im2col_cases import Window, numbers, sliding, unfolded, window

OPS = torch.ops.visops
DTYPES = st.sampled_from([torch.uint8, torch.int16, torch.int32, torch.int64])


@st.composite
def windows(draw: st.DrawFn) -> Window:
    """Any window within its padded image."""

    def integers(least: int, most: int, count: int) -> list[int]:
        return draw(st.lists(st.integers(least, most), min_size=count, max_size=count))

    dims = draw(st.integers(1, 4))
    kernel, stride, dilation = (integers(1, 4 if dims > 2 else 9, dims) for _ in range(3))
    padding = integers(0, 4, 2 * dims)
    beyond = integers(0, 40 if dims < 3 else 5, dims)
    sizes = [
        max(1, d * (k - 1) + 1 + more - padding[i] - padding[dims + i])
        for i, (k, d, more) in enumerate(zip(kernel, dilation, beyond, strict=True))
    ]
    return window(sizes, kernel, stride, padding, dilation)


@pytest.mark.matrix
@given(windows(), DTYPES, st.lists(st.integers(1, 3), max_size=2))
@settings(max_examples=80)
def test_copies_and_sums(w: Window, dtype: torch.dtype, leads: list[int]) -> None:
    image = numbers((*leads, *w.sizes), dtype)
    fill = numbers((), dtype, 1)
    expected = sliding(image.numpy(), w, fill.numpy())
    patches = OPS.im2col(image, *w.arguments, fill, "patches")
    columns = OPS.im2col(image, *w.arguments, fill)
    assert np.array_equal(patches.numpy(), expected)
    assert np.array_equal(columns.numpy(), unfolded(expected, w))
    # The adjoint, exactly: integers wrap.
    others = numbers(patches.shape, dtype, 2)
    back = OPS.col2im(others, w.sizes, *w.arguments, "patches")
    seen = OPS.im2col(image, *w.arguments, None, "patches")
    assert (seen * others).sum().to(dtype) == (image * back).sum().to(dtype)
    if leads:
        rows = torch.from_numpy(unfolded(others.numpy(), w))
        assert torch.equal(OPS.col2im(rows, w.sizes, *w.arguments), back)


@every_slot
@pytest.mark.parametrize("layout", ["unfold", "patches"])
@pytest.mark.parametrize("step", [7, 2**31 - 1])
def test_steps_beyond_the_image(slot: str, layout: str, step: int) -> None:
    """With such a stride there is one place; 31 bits of it make GPUs index in 64 bits."""
    image = torch.arange(1.0, 61).reshape(1, 2, 5, 6)
    with use_slot(slot):
        columns = visops.im2col(image, (2, 3), stride=step, padding=0, layout=layout)
        back = visops.col2im(columns, (5, 6), (2, 3), stride=step, padding=0, layout=layout)
        single = visops.im2col(image, 1, dilation=step, padding=0, layout=layout)
    assert columns.flatten().equal(image[..., :2, :3].flatten())
    expected = torch.zeros_like(image)
    expected[..., :2, :3] = image[..., :2, :3]
    assert back.equal(expected)
    positions = single.reshape(2, 30)
    assert positions.equal(image.reshape(2, 30))
