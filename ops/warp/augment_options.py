"""The options of the augmentation's operators, by the names and in the order of their schemas."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

_ZERO: list[float] = [0.0]
_NO_NUMBERS: list[float] = []


class AugmentOptions(NamedTuple):
    """What ``torch.ops.visops.augment`` takes after images, matrix and size.

    The dispatcher leaves out trailing arguments that equal their defaults, so the defaults have to
    be those of the schemas. Forms that write into given memory take the first `SHARED` options.
    """

    interpolation: str = "bilinear"
    padding_mode: str = "constant"
    fill: list[float] = _ZERO
    antialias: bool = False
    window: Tensor | None = None
    color: Tensor | None = None
    clamp: bool = False
    mean: list[float] = _NO_NUMBERS
    std: list[float] = _NO_NUMBERS
    erase: Tensor | None = None
    erase_value: list[float] = _ZERO
    inverse_map: bool = False
    half_pixel: bool = False
    out_dtype: torch.dtype | None = None
    channels_last: bool = False

    def has_tensors(self) -> bool:
        """Whether any tensor is among them."""
        return not (self.window is self.color is self.erase is None)

    def with_tensors(self, change: Callable[[Tensor], Tensor]) -> "AugmentOptions":
        """Return them with each tensor replaced by what `change` makes of it."""
        if not self.has_tensors():
            return self
        window, color, erase = (
            None if tensor is None else change(tensor)
            for tensor in (self.window, self.color, self.erase)
        )
        return self._replace(window=window, color=color, erase=erase)

    def of_sample(self, index: int, count: int) -> "AugmentOptions":
        """Return those of one sample of `count`: its entries [1, ...], or all of a shared one."""
        return self.with_tensors(lambda t: t[index : index + 1] if t.shape[0] == count else t)


SHARED = AugmentOptions._fields.index("out_dtype")
