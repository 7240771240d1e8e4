"""Problems of deformable convolution that its tests share."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import visops
from references import deform_conv2d as reference
from torch import Tensor

FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# Around a result's last place, of the largest magnitude.
TOLERANCES = {torch.float64: 1e-12, torch.float32: 5e-6, torch.float16: 2e-3, torch.bfloat16: 1e-2}
Pair = tuple[int, int]


@dataclass
class Problem:
    """Arguments of the function."""

    input: Tensor
    offset: Tensor
    weight: Tensor
    bias: Tensor | None
    mask: Tensor | None
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)

    @property
    def options(self) -> tuple[Pair, Pair, Pair]:
        return self.stride, self.padding, self.dilation

    def convolve(self, function: Any = None) -> Tensor:
        call = visops.deform_conv2d if function is None else function
        found: Tensor = call(
            self.input, self.offset, self.weight, self.bias, *self.options, self.mask
        )
        return found

    @property
    def leaves(self) -> list[Tensor]:
        tensors = (self.input, self.offset, self.weight, self.bias, self.mask)
        return [tensor for tensor in tensors if tensor is not None]

    def with_gradients(self) -> "Problem":
        for leaf in self.leaves:
            leaf.requires_grad_()
        return self

    def to(self, dtype: torch.dtype, positions: torch.dtype | None = None) -> "Problem":
        of_positions = positions or dtype
        return Problem(
            self.input.detach().to(dtype),
            self.offset.detach().to(of_positions),
            self.weight.detach().to(dtype),
            None if self.bias is None else self.bias.detach().to(dtype),
            None if self.mask is None else self.mask.detach().to(of_positions),
            *self.options,
        )

    def expected(self) -> np.ndarray:
        return reference.convolve(
            to_numpy(self.input),
            to_numpy(self.offset),
            to_numpy(self.weight),
            None if self.bias is None else to_numpy(self.bias),
            self.stride,
            self.padding,
            self.dilation,
            None if self.mask is None else to_numpy(self.mask),
        )


def to_numpy(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().double().numpy()


def problem(
    dtype: torch.dtype = torch.float32,
    *,
    batch: int = 2,
    channels: int = 6,
    outs: int = 4,
    size: Pair = (7, 9),
    kernel: Pair = (3, 3),
    groups: int = 1,
    offset_groups: int = 1,
    stride: Pair = (1, 1),
    padding: Pair = (1, 1),
    dilation: Pair = (1, 1),
    bias: bool = True,
    mask: bool = True,
    positions: torch.dtype | None = None,
    seed: int = 0,
    smooth: bool = False,
) -> Problem:
    """Offsets of some pixels, some of them far; unless `smooth`, some put a sample on a pixel."""
    rng = np.random.default_rng(seed)
    height, width = (
        (size[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1
        for i in range(2)
    )
    taps = kernel[0] * kernel[1]
    shape = (batch, 2 * offset_groups * taps, height, width)
    offset = rng.uniform(-2, 2, shape)
    if smooth:  # places keep their distance from pixels, where slopes jump
        offset = np.floor(offset) + rng.uniform(0.1, 0.9, shape)
    else:
        kind = rng.integers(0, 10, shape)
        offset = np.where(kind == 0, np.rint(offset), offset)
        offset = np.where(kind == 1, offset * 20, offset)

    def tensor(array: np.ndarray, of: torch.dtype = dtype) -> Tensor:
        return torch.from_numpy(array).to(of)

    of_positions = positions or dtype
    return Problem(
        tensor(rng.uniform(-1, 1, (batch, channels, *size))),
        tensor(offset, of_positions),
        tensor(rng.uniform(-1, 1, (outs, channels // groups, *kernel))),
        tensor(rng.uniform(-1, 1, outs)) if bias else None,
        tensor(rng.uniform(0, 1, (batch, offset_groups * taps, height, width)), of_positions)
        if mask
        else None,
        stride,
        padding,
        dilation,
    )


# What rotates: groups, offset groups, kernels, strides, and numbers of channels that fill vectors
# or leave some over. In "crossing", groups and offset groups overlap by halves.
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no mask, no bias": {"mask": False, "bias": False},
    "one image": {"batch": 1, "channels": 1, "outs": 1, "kernel": (1, 1), "padding": (0, 0)},
    "groups": {"channels": 8, "outs": 6, "groups": 2, "bias": False},
    "offset groups": {"channels": 8, "offset_groups": 4, "stride": (2, 1)},
    "both": {"channels": 12, "outs": 8, "groups": 4, "offset_groups": 2, "mask": False},
    "both ways": {"channels": 12, "outs": 4, "groups": 2, "offset_groups": 4},
    "crossing": {"channels": 30, "outs": 5, "groups": 5, "offset_groups": 3, "size": (5, 4)},
    "depthwise": {"channels": 5, "outs": 10, "groups": 5},
    "wide": {"channels": 37, "outs": 33, "size": (4, 5), "offset_groups": 1},
    "vectors": {"channels": 64, "outs": 17, "size": (3, 4), "kernel": (2, 3), "dilation": (1, 2)},
    "strides": {"kernel": (3, 2), "stride": (2, 3), "padding": (2, 1), "dilation": (2, 1)},
    "many pixels": {"channels": 2, "outs": 3, "size": (12, 13), "batch": 1},
    "more samples than lanes": {
        "channels": 132,
        "outs": 5,
        "size": (7, 6),
        "kernel": (6, 6),
        "offset_groups": 3,
    },
    "large kernel": {"channels": 2, "outs": 2, "kernel": (7, 7), "padding": (3, 3)},
}


def assert_near(found: Tensor, wanted: np.ndarray | Tensor, dtype: torch.dtype) -> None:
    """Within the rounding of `dtype`."""
    other = to_numpy(wanted) if isinstance(wanted, Tensor) else wanted
    assert found.shape == other.shape
    bound = TOLERANCES[dtype] * max(1.0, float(np.abs(other).max(initial=0)))
    np.testing.assert_allclose(to_numpy(found), other, rtol=0, atol=bound)


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
