"""The types in which images and targets leave a chain that says so: ToImage, ToPureTensor, ..."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .leaf import Leaf


def pure(value: Any) -> Any:
    """Return tensors of any subclass as plain ones, also in a list."""
    if isinstance(value, list):
        return [pure(item) for item in value]
    return value.as_subclass(Tensor) if isinstance(value, Tensor) else value


def as_output(value: Any, leaf: Leaf) -> Any:
    """Return an image, or a list of images, in the form that its leaf wants."""
    if leaf.form == "":
        return value
    if isinstance(value, list):
        return [as_output(item, leaf) for item in value]
    form, _, mode = leaf.form.partition(":")
    if form == "pil":
        picture = _as_pil(value, leaf.name)
        return picture.convert(mode) if mode else picture
    plain = pure(value)
    if form == "pure":
        return plain
    import torchvision.tv_tensors as tv

    own = tv.Video if leaf.frames else tv.Image
    return own(plain, device=plain.device)  # else it would go to the default device


def _as_pil(value: Tensor, name: str) -> Any:
    """Return a tensor [C, H, W] as a PIL image: floats times 255, as torchvision does it."""
    from PIL import Image

    if value.dim() != 3:
        raise ValueError(
            f"visops.transforms.ToPILImage: {name} comes out with shape {list(value.shape)}, must "
            "be one image [C, H, W]"
        )
    pixels = pure(value).detach().cpu()
    if pixels.is_floating_point():
        pixels = pixels.float().mul(255).to(torch.uint8)
    array = pixels.movedim(0, -1).numpy()
    modes = {np.dtype(np.int16): "I;16", np.dtype(np.uint16): "I;16", np.dtype(np.int32): "I"}
    channels, mode = array.shape[2], modes.get(array.dtype)
    if mode is None and (array.dtype != np.uint8 or channels not in (1, 2, 3, 4)):
        mode = ""
    if mode == "" or (mode is not None and channels != 1):
        raise ValueError(
            f"visops.transforms.ToPILImage: {name} has {channels} channels of {value.dtype}, must "
            "be 1 to 4 of uint8 or floating, or 1 of int16, uint16 or int32"
        )
    return Image.fromarray(np.ascontiguousarray(array[..., 0] if channels == 1 else array))
