"""The direct convolution within torch: opcheck, compile, vmap, torch.func, fakes, threads."""

import numpy as np
import pytest
import torch
from torch import Tensor
from visops.convolution.convolve2d_autograd import convolve2d

from convolution.convolve2d_cases import element, values

OPS = torch.ops.visops


def sample(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(0)
    return values(rng, (2, 1, 9, 11), dtype), values(rng, (3, 3, 4), dtype)


def same(input: Tensor, kernel: Tensor, boundary: str = "fill") -> Tensor:
    start = [(k - 1) // 2 for k in kernel.shape[-2:]]
    result: Tensor = convolve2d(input, kernel, start, input.shape[-2:], boundary, None, True)
    return result


@pytest.mark.parametrize(
    ("dtype", "boundary"),
    [(torch.float64, "fill"), (torch.complex64, "symm"), (torch.float16, "wrap")],
    ids=str,
)
def test_opcheck(boundary: str, dtype: torch.dtype) -> None:
    input, kernel = sample(dtype)
    fill = element(dtype) if boundary == "fill" else None
    arguments = [1, 2], [9, 10], boundary, fill, True
    torch.library.opcheck(OPS.convolve2d, (input, kernel, *arguments))
    torch.library.opcheck(OPS.convolve2d, (input.mT, kernel.mT, *arguments))
    out = torch.ones(2, 3, 9, 10, dtype=dtype)
    torch.library.opcheck(OPS.convolve2d_out, (input, kernel, *arguments, out))
    torch.library.opcheck(OPS.convolve2d_fold, (input, [-3, -2], [4, 5], boundary))
    taps = [3, 4], [1, 2], boundary, fill, True
    for sums in (True, False):
        torch.library.opcheck(OPS.convolve2d_backward_kernel, (out, input, *taps, sums))
    if dtype == torch.float16:
        return
    input, kernel, out = (
        t.detach().requires_grad_() for t in (input, kernel, torch.ones_like(out))
    )
    torch.library.opcheck(OPS.convolve2d, (input, kernel, *arguments))
    torch.library.opcheck(OPS.convolve2d_fold, (input, [-3, -2], [4, 5], boundary))
    torch.library.opcheck(OPS.convolve2d_backward_kernel, (out, input, *taps, False))


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
