"""What the kernels of deformable convolution compute: run once per backend and compared.

Products of matrices are summed in another order by each instruction set. Here they are exact: each
weight is 0 or 1, with at most one 1 in each sum, and the gradient of weights is summed over numbers
of few bits. So bits are those of the samples, and must be equal.
"""

import itertools
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from deformable.deform_conv2d_cases import FLOATING, KINDS, problem


def bytes_of(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().contiguous().view(torch.uint8).numpy()


def one_hot(weight: Tensor, seed: int) -> Tensor:
    """At most a 1 in each output channel, and for each input of a group and tap."""
    hot = torch.zeros_like(weight)
    outs = len(weight)
    rng = np.random.default_rng(seed)
    flat = hot.view(outs, -1)
    columns = rng.permutation(max(flat.shape[1], outs))[:outs]
    for row, column in enumerate(columns):
        if column < flat.shape[1]:
            flat[row, column] = 1
    return hot


def few_bits(tensor: Tensor) -> Tensor:
    return (tensor * 4).round() / 4


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Yield names and bytes for every dtype and kind of problem."""
    for seed, (name, dtype) in enumerate(itertools.product(KINDS, FLOATING)):
        positions = torch.float32 if seed % 2 and dtype != torch.float64 else dtype
        made = problem(dtype, seed=seed, positions=positions, **KINDS[name])
        made.weight = one_hot(made.weight, seed)
        if seed % 8 == 3:
            made.input = made.input.to(memory_format=torch.channels_last)
        if seed % 8 == 5:  # many samples of one pixel, in order
            made.offset = made.offset * 0 + 0.25
        made = made.to(dtype, positions)
        for part in ("input", "offset", "weight", "bias", "mask"):
            tensor = getattr(made, part)
            if tensor is not None:
                setattr(made, part, tensor.to(device))
        leaves = [t.requires_grad_() for t in (made.input, made.offset, made.mask) if t is not None]
        found = made.convolve()
        grad = few_bits(torch.rand(found.shape, generator=torch.Generator().manual_seed(seed)))
        if dtype.itemsize > 2:
            yield f"{name}-{dtype}", bytes_of(found)
        grads = torch.autograd.grad(found, leaves, grad.to(device, dtype))
        for part, gradient in zip(("input", "offset", "mask"), grads, strict=False):
            yield f"{name}-{dtype}-{part}", bytes_of(gradient)
        exact = made.to(dtype, positions)
        exact.input, exact.offset = few_bits(exact.input), few_bits(exact.offset)
        exact.mask = None if exact.mask is None else few_bits(exact.mask)
        if dtype.itemsize == 2:  # on CUDA, samples are rounded before they are multiplied
            yield f"{name}-{dtype}", bytes_of(exact.convolve())
        exact.weight.requires_grad_()
        (of_weight,) = torch.autograd.grad(exact.convolve(), exact.weight, grad.to(device, dtype))
        yield f"{name}-{dtype}-weight", bytes_of(of_weight)


def check(found: dict[str, np.ndarray]) -> None:
    """Check that there are many cases, none of them blank."""
    without_mask = sum(not kind.get("mask", True) for kind in KINDS.values())
    assert len(found) == len(FLOATING) * (5 * len(KINDS) - without_mask)
    blank = [name for name, v in found.items() if len(np.unique(v)) == 1]
    assert not blank
