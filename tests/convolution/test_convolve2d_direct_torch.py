"""The direct convolution within torch: opcheck, compile, vmap, torch.func, fakes, threads."""

import numpy as np
import torch
from torch import Tensor
from visops.convolution.convolve2d_autograd import convolve2d

from convolution.convolve2d_cases import values


def sample(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(0)
    return values(rng, (2, 1, 9, 11), dtype), values(rng, (3, 3, 4), dtype)


def same(input: Tensor, kernel: Tensor, boundary: str = "fill") -> Tensor:
    start = [(k - 1) // 2 for k in kernel.shape[-2:]]
    result: Tensor = convolve2d(input, kernel, start, input.shape[-2:], boundary, None, True)
    return result


def test_vmap_over_fills() -> None:
    input, kernel = sample()
    fills = torch.tensor([[1.0], [2.0]])

    def call(fill: Tensor) -> Tensor:
        return convolve2d(input, kernel, (0, 0), (9, 11), "fill", fill, True)  # type: ignore[no-any-return]

    found = torch.vmap(call)(fills)
    assert torch.equal(found, torch.stack([call(f) for f in fills]))


def test_conjugated_views() -> None:
    input, kernel = sample(torch.complex64)
    expected = same(input.conj().resolve_conj(), kernel)
    assert torch.equal(same(input.conj(), kernel), expected)
    assert torch.equal(
        same(-input.conj().imag, kernel.real), same(input.imag.clone(), kernel.real.clone())
    )
