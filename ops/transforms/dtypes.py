"""Dtype conversion and normalisation."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._native import Step
from .arguments import fail, is_sequence, number
from .engine.effects import NO_STEP, Effects, TargetStep
from .engine.integers import WHITES
from .engine.plan import Plan
from .sample.leaf import Leaf
from .transform import Builtin

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
        if not isinstance(inplace, bool):  # albumentations has max_pixel_value there
            fail("Normalize", "inplace", inplace, "True or False", TypeError)
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

    def chain_step(self) -> Step | None:
        return NO_STEP

    def settle(self, plan: Plan) -> None:
        if not plan.dtype.is_floating_point:
            raise TypeError(
                f"visops.transforms.Normalize: the image has dtype {plan.dtype}, must be floating; "
                "put ToDtype(torch.float32, scale=True) before it"
            )
        channels = plan.channels
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
    dtype : torch.dtype or dict of type to torch.dtype or None
        uint8, uint16, int16, int8, int32, int64, float16, bfloat16 or float32. A dict gives one for
        each of ``tv_tensors.Image``, ``Video``, ``Mask``, ``BoundingBoxes``, ``KeyPoints``,
        ``torch.Tensor`` (plain images) and ``"others"``, as torchvision has it; None keeps a dtype.
        Images of all types must get the same. Labels keep theirs.
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

    def __new__(cls, dtype: Any = None, scale: bool = False) -> "ToDtype":
        return super().__new__(_ToDtypes if cls is ToDtype and isinstance(dtype, Mapping) else cls)

    def __init__(self, dtype: torch.dtype | Mapping[Any, Any], scale: bool = False) -> None:
        super().__init__()
        if dtype not in _DTYPES:
            *names, last = map(str, _DTYPES)
            fail("ToDtype", "dtype", dtype, f"{', '.join(names)} or {last}", TypeError)
        self.dtype = dtype
        self.scale = bool(scale)

    def effects(self) -> Effects:
        return Effects(dtype=self.dtype)

    def chain_step(self) -> Step | None:
        return NO_STEP

    def settle(self, plan: Plan) -> None:
        plan.convert(self.dtype, self.scale)


# The kinds of leaves, by the types that stand for them.
_KINDS = {
    **dict.fromkeys(("Image", "Video", "Tensor"), "image"),
    **{"Mask": "mask", "BoundingBoxes": "boxes", "KeyPoints": "keypoints"},
}


class _ToDtypes(TargetStep, ToDtype):
    """A conversion by type. Numbers of targets are never scaled."""

    commutes = True

    def __init__(self, dtype: Mapping[Any, Any], scale: bool = False) -> None:
        Builtin.__init__(self)
        self.by_kind = _by_kind(dtype)
        self.dtype, self.scale = self.by_kind.get("image"), bool(scale)  # type: ignore[assignment]

    def _get_name(self) -> str:
        return "ToDtype"

    def effects(self) -> Effects:
        return Effects(dtype=self.dtype)

    def chain_step(self) -> Step | None:
        return NO_STEP

    def settle(self, plan: Plan) -> None:
        if self.dtype is not None:
            plan.convert(self.dtype, self.scale)

    def run(self, leaves: Sequence[Leaf], sizes: np.ndarray) -> None:
        for leaf in leaves:
            if leaf.kind not in _KINDS.values() or leaf.kind == "image":
                continue
            if leaf.kind not in self.by_kind:
                raise ValueError(
                    f"visops.transforms.ToDtype: dtype says nothing of {leaf.name}, a {leaf.kind}; "
                    "must have its type or 'others'"
                )
            dtype = self.by_kind[leaf.kind]
            if dtype is not None:
                # What boxes and points came in is what they leave in, once all passes are done.
                leaf.value, leaf.like = _converted(leaf.value, dtype), _converted(leaf.like, dtype)


def _by_kind(dtypes: Mapping[Any, Any]) -> dict[str, torch.dtype | None]:
    """Return the dtype of each kind of leaf; a kind that is missing has none."""
    allowed = (
        "a dtype or a dict of such, or of None, by type: tv_tensors.Image, Video, Mask, "
        "BoundingBoxes and KeyPoints, torch.Tensor, or 'others'"
    )
    found: dict[str, torch.dtype | None] = {}
    for key, dtype in dtypes.items():
        name = key.__name__ if isinstance(key, type) else key
        kind = _KINDS.get(name)
        known = (None, *_DTYPES) if kind == "image" else (None, *_DTYPES, torch.float64, torch.bool)
        if (kind is None and name != "others") or dtype not in known:
            fail("ToDtype", "dtype", dtypes, allowed, TypeError)
        if kind is not None and found.setdefault(kind, dtype) != dtype:
            fail("ToDtype", "dtype", dtypes, "the same for all types of images")
    if "others" in dtypes:
        for kind in _KINDS.values():
            found.setdefault(kind, dtypes["others"])
    if found.get("image") not in (None, *_DTYPES):
        fail("ToDtype", "dtype", dtypes, f"one of {', '.join(map(str, _DTYPES))} for images")
    return found


def _converted(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, Tensor):
        return value.to(dtype)
    if isinstance(value, np.ndarray):
        return value.astype(torch.empty(0, dtype=dtype, device="cpu").numpy().dtype)
    if isinstance(value, list):
        return [_converted(item, dtype) for item in value]
    return value
