"""Brings the arguments of :func:`visops.augment` into the forms that its operators take."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._torch.arrays import as_float64, as_tensor
from .._torch.fakes import differs
from .._torch.unsupported_inputs import require_plain

_OP = "augment"
_DTYPES = "uint8, float16, float32 or float64"  # of arrays
_CHANNELS = (1, 3, 4)  # sizes that give away an axis of channels


def batch_tensor(images: Any, layout: str | None) -> Tensor:
    """Return a batch in either layout, tensor or array, as [B, C, H, W]."""
    is_array = isinstance(images, np.ndarray)
    if not is_array and not isinstance(images, Tensor):
        raise TypeError(
            f"visops.augment: images is a {type(images).__name__}, must be a torch.Tensor, "
            "a numpy.ndarray, or a list of them"
        )
    require_plain(_OP, images=images)
    shape = images.shape
    if len(shape) != 4:
        raise ValueError(
            f"visops.augment: images has shape {list(shape)}, must be [batch, channels, height, "
            "width] or [batch, height, width, channels]; single images go in a list"
        )
    hwc = _is_hwc(shape[1], shape[3], is_array) if layout is None else layout == "HWC"
    if is_array:
        array = images.transpose(0, 3, 1, 2) if hwc else images
        return as_tensor(_OP, "images", array, _DTYPES)
    return images.permute(0, 3, 1, 2) if hwc else images  # type: ignore[no-any-return]


def image_list(images: Sequence[Any], layout: str | None) -> list[Tensor]:
    """Return each image as [C, H_i, W_i]."""
    if len(images) == 0:
        raise ValueError("visops.augment: images is an empty list, must hold at least one image")
    hwc = _are_hwc(images) if layout is None else layout == "HWC"
    tensors = []
    for i, image in enumerate(images):
        if isinstance(image, Tensor):
            require_plain(_OP, **{f"images[{i}]": image})
            if hwc:
                image = image.permute(2, 0, 1) if image.dim() == 3 else _reject_rank(image, i, hwc)
        elif isinstance(image, np.ndarray):
            if image.ndim == 3:
                image = image.transpose(2, 0, 1) if hwc else image
            else:
                image = image[None] if image.ndim == 2 else _reject_rank(image, i, hwc)
            image = as_tensor(_OP, f"images[{i}]", image, _DTYPES)
        else:
            raise TypeError(
                f"visops.augment: images[{i}] is a {type(image).__name__}, must be a torch.Tensor "
                "or a numpy.ndarray"
            )
        tensors.append(image)
    return tensors


def _is_hwc(first: int, last: int, is_array: bool) -> bool:
    """Whether channels come last: by the axes' sizes, else as is usual for arrays and tensors."""
    fits = last in _CHANNELS
    return is_array if (first in _CHANNELS) == fits else fits


def _are_hwc(images: Sequence[Any]) -> bool:
    """_is_hwc() of the first image whose axes decide."""
    for image in images:
        shape: Sequence[int] = getattr(image, "shape", ())
        if len(shape) == 3:
            fits = shape[2] in _CHANNELS
            if (shape[0] in _CHANNELS) != fits:
                return fits
    return isinstance(images[0], np.ndarray)


def _reject_rank(image: Any, i: int, hwc: bool) -> Any:
    wanted = "[height, width, channels]" if hwc else "[channels, height, width]"
    raise ValueError(f"visops.augment: images[{i}] has shape {list(image.shape)}, must be {wanted}")


def color_tensor(color: Any, batch: int, channels: int, device: torch.device) -> Tensor:
    """Return [batch or 1, steps, C, C + 1] in float64."""
    steps = as_float64(_OP, "color", color, device)
    shape = steps.shape
    rank = len(shape)
    if (
        not 2 <= rank <= 4
        or shape[-2] != channels
        or shape[-1] != channels + 1
        or (rank > 2 and differs(shape[0], 1, batch))
    ):
        c, n = channels, channels + 1
        raise ValueError(
            f"visops.augment: color has shape {list(shape)}, must be [{c}, {n}], "
            f"[{batch}, {c}, {n}] or [{batch}, steps, {c}, {n}] for {batch} images of {c} channels"
        )
    if rank < 4:
        steps = steps.unsqueeze(-3)
        steps = steps if rank == 3 else steps.unsqueeze(0)
    return steps.contiguous()


def window_tensor(window: Any, batch: int, device: torch.device) -> Tensor:
    """Return [batch, 4] in float64."""
    windows = as_float64(_OP, "window", window, device)
    shape = windows.shape
    if len(shape) not in (1, 2) or shape[-1] != 4 or (len(shape) == 2 and differs(shape[0], batch)):
        raise ValueError(
            f"visops.augment: window has shape {list(shape)}, must be [4] or [{batch}, 4] "
            f"(x1, y1, x2, y2) for {batch} images"
        )
    return (windows.expand(batch, 4) if len(shape) == 1 else windows).contiguous()


def erase_tensor(erase: Any, batch: int, device: torch.device) -> Tensor:
    """Return [batch, rectangles, 4] in int64."""
    if isinstance(erase, Tensor):
        require_plain(_OP, erase=erase)
        integral = not (erase.is_floating_point() or erase.is_complex())
        dtype: Any = erase.dtype
    else:
        erase = np.asarray(erase)
        dtype = erase.dtype
        integral = dtype.kind in "iu" or erase.size == 0  # an empty list has no type
        if integral:
            host = torch.from_numpy(np.array(erase, dtype=np.int64))
            erase = host.to(device, non_blocking=True)
    if not integral or dtype == torch.bool:
        raise TypeError(f"visops.augment: erase has dtype {dtype}, must be an integer type")
    shape = erase.shape
    if len(shape) not in (2, 3) or differs(shape[0], batch) or shape[-1] != 4:
        raise ValueError(
            f"visops.augment: erase has shape {list(shape)}, must be [{batch}, 4] or "
            f"[{batch}, rectangles, 4] (x1, y1, x2, y2) for {batch} images"
        )
    rectangles = erase if len(shape) == 3 else erase.unsqueeze(1)
    return rectangles.to(torch.int64).contiguous()


# The options of the augmentation's operators, by the names and in the order of their schemas.

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
