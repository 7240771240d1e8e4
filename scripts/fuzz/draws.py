"""Random numbers, words, tensors and arrays: ordinary ones, and ones likely to break something."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from layouts import ARRAYS, LAYOUTS
from torch import Tensor

INTEGERS: Sequence[Any] = (
    *(-1, 0, 1, 2, 3, 5, 17, 64, 4096),
    *(2**15, 2**31 - 1, 2**31, 2**32, 2**32 + 1, 2**53 + 1, 2**62, 2**63 - 1),
    *(-2, -(2**31), -(2**31) - 1, -(2**63)),
)
FLOATS: Sequence[float] = (
    *(0.0, -0.0, 0.5, 1.0, -1.0, 2.5, 1e-3, 255.0, 1e4, 2.0**24, 2.0**31, 1e19, 1e30, 1e308),
    *(-1e4, -1e19, -1e308, 1e-30, 1e-45, 5e-324),
    *(float("nan"), float("inf"), float("-inf")),
)
FOREIGN: Sequence[Any] = (
    *(None, True, "", "é\0", b"x", 1.5, 2**64, -(2**70), 1j),
    *([], [[]], {}, object),
)
FLOATING = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
DTYPES = (
    *FLOATING,
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool),
    *(torch.uint16, torch.uint32, torch.uint64),
    *(torch.complex32, torch.complex64, torch.complex128, torch.float8_e4m3fn),
)


class Draw:
    """A stream of random choices, determined by a seed."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self._torch = torch.Generator().manual_seed(self.random.getrandbits(62))

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.random.random() < probability

    def choice(self, items: Sequence[Any]) -> Any:
        """Return one of `items`."""
        return self.random.choice(items)

    def between(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both included."""
        return self.random.randint(low, high)

    def uniform(self, low: float, high: float) -> float:
        """Return a number from `low` to `high`."""
        return self.random.uniform(low, high)

    def tensor(
        self, shape: Sequence[int], dtype: torch.dtype, low: float = 0.0, high: float = 1.0
    ) -> Tensor:
        """Return a tensor of numbers from `low` to `high`; integers reach at least 0 to 9."""
        if not (dtype.is_floating_point or dtype.is_complex):
            high = max(high, 10)
        values = torch.rand(list(shape), generator=self._torch, dtype=torch.float64)
        return (values * (high - low) + low).to(dtype)


def relayout(draw: Draw, tensor: Tensor) -> Tensor:
    """Return the same values in another layout: strides, offset, alignment, lazy negation."""
    layouts = [*LAYOUTS.values()]
    if tensor.dtype in (torch.float32, torch.float64):
        layouts.append(lambda t: torch.complex(torch.zeros_like(t), -t).conj().imag)
    try:
        return draw.choice(layouts)(tensor)
    except (RuntimeError, TypeError):  # a dtype that torch can't copy like that
        return tensor


def overlapping(draw: Draw, tensor: Tensor) -> Tensor:
    """Return a tensor of that shape whose elements share memory."""
    if tensor.dim() == 0 or tensor.numel() == 0:
        return tensor
    if draw.chance(0.5):
        dim = draw.between(0, tensor.dim() - 1)
        return tensor.select(dim, 0).unsqueeze(dim).expand(tensor.shape)
    flat = tensor.reshape(-1)
    return flat.as_strided(tensor.shape, [1] * tensor.dim())


def spoil(draw: Draw, tensor: Tensor) -> Any:
    """Return a variant of `tensor` that an operator may have to refuse."""
    ways: list[Callable[[], Any]] = [
        lambda: _with_values(draw, tensor),
        lambda: _with_values(draw, tensor),
        lambda: draw.tensor(_other_shape(draw, tensor.shape), tensor.dtype),
        lambda: draw.tensor(_other_shape(draw, tensor.shape), tensor.dtype),
        lambda: tensor.to(draw.choice(DTYPES)),
        lambda: overlapping(draw, tensor),
        lambda: tensor.to("meta"),
        lambda: draw.choice(FOREIGN),
        lambda: tensor.numpy(),
        lambda: tensor.tolist(),
        lambda: _other_storage(draw, tensor),
    ]
    try:
        return draw.choice(ways)()
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return tensor


def odd_numbers(draw: Draw, tensor: Tensor) -> Tensor:
    """Return numbers that no test would choose: ties, huge and tiny ones, copies of a row."""
    ways: list[Callable[[], Tensor]] = [
        lambda: tensor * draw.choice((0, -1, 0.01, 0.25, 4, 40, 1e6, 1e10)),
        lambda: (tensor * draw.choice((1, 4))).round() / draw.choice((1, 4)),
        lambda: tensor[:1].expand(tensor.shape).clone() if tensor.dim() else tensor,
        lambda: tensor - draw.choice((0.5, 3.0)),
    ]
    return draw.choice(ways)().to(tensor.dtype)


def _with_values(draw: Draw, tensor: Tensor) -> Tensor:
    """Put a few odd numbers among the values."""
    tensor = tensor.clone(memory_format=torch.contiguous_format)
    flat = tensor.view(-1)
    for _ in range(draw.between(1, 4) if flat.numel() else 0):
        at = draw.between(0, flat.numel() - 1)
        if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
            flat[at] = draw.choice(FLOATS)
        elif tensor.dtype != torch.bool:
            info = torch.iinfo(tensor.dtype)
            flat[at] = draw.choice((info.min, info.max, 0, 1))
    return tensor


def _other_shape(draw: Draw, shape: Sequence[int]) -> list[int]:
    sizes = list(shape)
    at = draw.between(0, len(sizes))
    way = draw.between(0, 3)
    if way == 0 or not sizes:
        sizes.insert(at, draw.choice((0, 1, 2)))
    elif way == 1:
        del sizes[min(at, len(sizes) - 1)]
    else:
        sizes[min(at, len(sizes) - 1)] = draw.choice((0, 1, 2, 5, 33))
    return sizes


def _other_storage(draw: Draw, tensor: Tensor) -> Any:
    """Return a sparse, nested, quantized or mkldnn tensor."""
    way = draw.between(0, 3)
    if way == 0:
        return tensor.to_sparse()
    if way == 1:
        return torch.nested.nested_tensor([tensor, tensor], layout=torch.jagged)
    if way == 2:
        return torch.quantize_per_tensor(tensor.float(), 0.1, 0, torch.quint8)
    return tensor.float().to_mkldnn()


def as_array(draw: Draw, tensor: Tensor) -> np.ndarray:
    """Return a tensor's values as an array, also in layouts that torch lacks."""
    if tensor.dtype in (torch.bfloat16, torch.complex32, torch.float8_e4m3fn):
        tensor = tensor.float()
    array = tensor.resolve_neg().numpy()
    if not array.ndim or draw.chance(0.4):
        return array
    if draw.chance(0.15):
        return np.array(array).astype(draw.choice(("f4", "f8", "u1", "i8", "u8", "c16", "g")))
    return np.asarray(draw.choice(ARRAYS)(array))


def spoil_plain(draw: Draw, value: Any) -> Any:
    """Return another number, word or list in place of `value`."""
    if draw.chance(0.1):
        return draw.choice(FOREIGN)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return draw.choice(INTEGERS)
    if isinstance(value, float):
        return draw.choice(FLOATS)
    if isinstance(value, str):
        return draw.choice(("", value + "x", "nearest", "reflect", "wrap", "hard", "fft", "same"))
    if isinstance(value, (list, tuple)):
        items = list(value)
        way = draw.between(0, 3)
        if way == 0 or not items:
            items.insert(draw.between(0, len(items)), items[0] if items else 1)
        elif way == 1:
            del items[draw.between(0, len(items) - 1)]
        else:
            at = draw.between(0, len(items) - 1)
            changed = spoil(draw, items[at]) if isinstance(items[at], Tensor) else None
            items[at] = spoil_plain(draw, items[at]) if changed is None else changed
        return items
    if isinstance(value, torch.dtype):
        return draw.choice(DTYPES)
    return draw.choice((*FOREIGN, 0, 1, 0.5, [1, 1]))
