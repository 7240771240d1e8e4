"""The samples that CUDA's deformable convolution lays out: the bits of the CPU's kernels."""

import pytest
import torch
from kernels import use_slot

from deformable.deform_conv2d_cases import bytes_of, one_hot, problem


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("channels", [1, 3, 4, 20, 128])
def test_offsets_of_any_kind(dtype: torch.dtype, channels: int) -> None:
    """NaN and far ones sample nothing, and those of the border sample half; samples don't mix."""
    for size in ((1, 1), (6, 7), (33, 40)):
        made = problem(dtype, channels=channels, outs=9 * channels, size=size, batch=1)
        made.weight = one_hot(made.weight, 0)
        flat = made.offset.view(-1)
        flat[::7], flat[1::11], flat[2::13] = torch.nan, torch.inf, -1e30
        found = []
        for slot in ("default", "cuda_emulated"):
            with use_slot(slot):
                found.append(bytes_of(made.convolve()))
        assert (found[0] == found[1]).all()


def test_no_images() -> None:
    with use_slot("cuda_emulated"):
        assert problem(torch.float32, batch=0).convolve().shape == (0, 4, 7, 9)
