"""Dtype conversion and normalisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .arguments import fail, is_sequence, number
from .engine.effects import STATIC, Effects
from .engine.integers import WHITES
from .engine.plan import Plan
from .transform import Builtin

__all__ = ["Normalize", "ToDtype"]

_DTYPES = (torch.uint8, *WHITES, torch.float16, torch.bfloat16, torch.float32)


class Normalize(Builtin):
    """Subtract a mean and divide by a standard deviation, channel by channel.

    Parameters
    ----------
    mean, std : sequence of C numbers, or number
        In the units of the values at that point: after ``ToDtype(torch.float32, scale=True)``,
        white is 1.
    inplace : bool
        Ignored; accepted for compatibility with torchvision.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> normalize = transforms.Normalize(mean=[0.5], std=[0.25])
    >>> normalize(torch.tensor([[[0.0, 0.5, 1.0]]]))
    tensor([[[-2.,  0.,  2.]]])
    """

    def __init__(
        self, mean: float | Sequence[float], std: float | Sequence[float], inplace: bool = False
    ) -> None:
        super().__init__()
        self.mean = self._values("mean", mean, "a finite number or one per channel")
        self.std = self._values("std", std, "a finite number other than 0, or one per channel")
        for value in self.std:
            if value == 0.0:
                fail("Normalize", "std", std, "a finite number other than 0, or one per channel")
        if len(self.mean) != len(self.std) and 1 not in (len(self.mean), len(self.std)):
            fail("Normalize", "std", std, f"as long as mean, which has {len(self.mean)} numbers")

    @staticmethod
    def _values(argument: str, value: Any, allowed: str) -> list[float]:
        if isinstance(value, torch.Tensor):
            value = value.tolist()
        if not is_sequence(value):
            return [number("Normalize", argument, value, allowed=allowed)]
        if len(value) == 0:
            fail("Normalize", argument, value, allowed)
        return [number("Normalize", argument, v, allowed=allowed) for v in value]

    def effects(self) -> Effects:
        return Effects(normalizes=True)

    def native_step(self) -> tuple[str, Sequence[float]] | None:
        return STATIC

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        if not plan.dtype.is_floating_point:
            raise TypeError(
                f"visops.transforms.Normalize: the image has dtype {plan.dtype}, must be floating; "
                "put ToDtype(torch.float32, scale=True) before it"
            )
        channels = plan.canvas.channels
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in (1, channels):
                raise ValueError(
                    f"visops.transforms.Normalize: {name} has {len(values)} numbers, the image "
                    f"has {channels} channels"
                )
        plan.normalize(self.mean, self.std)


class ToDtype(Builtin):
    """Change the image's dtype; targets keep theirs.

    Parameters
    ----------
    dtype : torch.dtype
        uint8, uint16, int16, int8, int32, int64, float16, bfloat16 or float32.
    scale : bool
        Keep white white: the greatest integer, such as 255 in uint8, is 1 in the floating dtypes.
        Divide 12 or 16 bits that lie in a wider integer by their own white instead.
        Otherwise keep the numbers. Conversion to integers rounds half to even and saturates
        (torchvision truncates).

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> pixel = torch.tensor([[[0, 51, 255]]], dtype=torch.uint8)
    >>> transforms.ToDtype(torch.float32, scale=True)(pixel)
    tensor([[[0.0000, 0.2000, 1.0000]]])
    >>> transforms.ToDtype(torch.float32)(pixel)
    tensor([[[  0.,  51., 255.]]])
    """

    def __init__(self, dtype: torch.dtype, scale: bool = False) -> None:
        super().__init__()
        if dtype not in _DTYPES:
            *names, last = map(str, _DTYPES)
            fail("ToDtype", "dtype", dtype, f"{', '.join(names)} or {last}", TypeError)
        self.dtype = dtype
        self.scale = bool(scale)

    def effects(self) -> Effects:
        return Effects(dtype=self.dtype)

    def native_step(self) -> tuple[str, Sequence[float]] | None:
        return STATIC

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        plan.convert(self.dtype, self.scale)
