"""Dtype conversion and normalisation.

torchvision's transforms of types: what form images and targets come out in.

A chain reads images of any type and works on tensors, so none of these costs a pass.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._native import Step
from ..arguments import fail, flag, is_sequence, number
from ..base import Builtin
from ..chain.effects import NO_STEP, Effects, TargetStep
from ..chain.integers import WHITES
from ..chain.nesting import REPLACEMENTS
from ..chain.plan import Plan
from ..sample.leaf import Leaf

__all__ = [
    "ConvertImageDtype",
    "Identity",
    "Normalize",
    "PILToTensor",
    "ToDtype",
    "ToImage",
    "ToPILImage",
    "ToPureTensor",
    "ToTensor",
]

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

    def set_constants(self, plan: Plan) -> None:
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
        self.scale = flag("ToDtype", "scale", scale)

    def effects(self) -> Effects:
        return Effects(dtype=self.dtype)

    def chain_step(self) -> Step | None:
        return NO_STEP

    def set_constants(self, plan: Plan) -> None:
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
        self.dtype, self.scale = self.by_kind.get("image"), flag("ToDtype", "scale", scale)  # type: ignore[assignment]

    def _get_name(self) -> str:
        return "ToDtype"

    def effects(self) -> Effects:
        return Effects(dtype=self.dtype)

    def chain_step(self) -> Step | None:
        return NO_STEP

    def set_constants(self, plan: Plan) -> None:
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


class FormStep(Builtin):
    """A transform that changes types alone: `form` says to which."""

    def effects(self) -> Effects:
        return Effects()

    def chain_step(self) -> Step | None:
        return NO_STEP


class Identity(FormStep):
    """Do nothing.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.Identity()(torch.ones(1, 1, 2))
    tensor([[[1., 1.]]])
    """


class PILToTensor(FormStep):
    """Make a tensor of a PIL image, with the same numbers.

    A chain does so anyhow, but reads a palette's colours, and the bits of mode "1" as black and
    white; with this, the numbers are the palette's indices, and 0 and 1, uint8 ``[1, H, W]``.

    Examples
    --------
    >>> import numpy as np
    >>> from PIL import Image
    >>> from visops import transforms
    >>> transforms.PILToTensor()(Image.fromarray(np.full((1, 2), 7, np.uint8)))
    tensor([[[7, 7]]], dtype=torch.uint8)
    """

    reads_numbers = True


class ToImage(FormStep):
    """Return images as ``tv_tensors.Image``, videos as ``tv_tensors.Video``; numbers stay.

    They are those of :class:`PILToTensor`.

    Needs torchvision.

    Examples
    --------
    >>> import numpy as np
    >>> from visops import transforms
    >>> type(transforms.ToImage()(np.zeros((4, 6, 3), np.uint8))).__name__
    'Image'
    """

    form = "image"
    reads_numbers = True


class ToPureTensor(FormStep):
    """Return images and targets as plain tensors, also where they came as tv_tensors.

    Examples
    --------
    >>> import torch
    >>> from torchvision import tv_tensors
    >>> from visops import transforms
    >>> type(transforms.ToPureTensor()(tv_tensors.Image(torch.zeros(3, 4, 6)))).__name__
    'Tensor'
    """

    form = "pure"


class ToPILImage(FormStep):
    """Return images as PIL images, at the end of a chain.

    Parameters
    ----------
    mode : str, optional
        The mode to convert to. By default that of the channels: L, LA, RGB or RGBA.

    Raises
    ------
    ValueError
        Another transform follows it; the result is a batch or a video; its dtype or number of
        channels is not one of a PIL image.

    Notes
    -----
    Floats are multiplied by 255 and truncated, as in torchvision.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.ToPILImage()(torch.zeros(3, 4, 6)).size
    (6, 4)
    """

    def __init__(self, mode: str | None = None) -> None:
        super().__init__()
        if mode is not None and not isinstance(mode, str):
            fail("ToPILImage", "mode", mode, "the name of a PIL mode or None", TypeError)
        self.mode = mode

    @property
    def form(self) -> str:  # type: ignore[override]
        return "pil" if self.mode is None else f"pil:{self.mode}"


class ToTensor(ToDtype):
    """Convert images to float32 in [0, 1]: ``ToDtype(torch.float32, scale=True)``.

    Examples
    --------
    >>> import numpy as np
    >>> from visops import transforms
    >>> transforms.ToTensor()(np.full((1, 1), 255, np.uint8))
    tensor([[[1.]]])
    """

    def __init__(self) -> None:
        super().__init__(torch.float32, scale=True)


class ConvertImageDtype(ToDtype):
    """Convert images to a dtype, white staying white: ``ToDtype(dtype, scale=True)``.

    Parameters
    ----------
    dtype : torch.dtype

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.ConvertImageDtype()(torch.full((1, 1, 1), 255, dtype=torch.uint8))
    tensor([[[1.]]])
    """

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__(dtype, scale=True)


# torchvision's own do nothing to the tensors of a chain, or can't take them.
REPLACEMENTS.update(
    {
        "ConvertImageDtype": lambda given: ConvertImageDtype(given.dtype),
        "PILToTensor": lambda _: PILToTensor(),
        "ToImage": lambda _: ToImage(),
        "ToPILImage": lambda given: ToPILImage(given.mode),
        "ToPureTensor": lambda _: ToPureTensor(),
        "ToTensor": lambda _: ToTensor(),
    }
)
