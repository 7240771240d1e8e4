"""What is known of other libraries' transforms: what they move, take, and draw from.

A class is known by the module and the name it was defined with, so that no library is imported for
it.
"""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..sample.leaf import is_pil
from .generators import whole_number

# How an image is given to a transform.
TAKES = ("tensor", "pil", "array")

_TORCHVISION = "torchvision.transforms"
# Transforms of torchvision that leave every pixel in its place; both versions have most of them.
_STILL = {
    *("ClampBoundingBoxes", "ClampKeyPoints", "ColorJitter", "ConvertBoundingBoxFormat"),
    *("ConvertImageDtype", "GaussianBlur", "GaussianNoise", "Grayscale", "Identity", "JPEG"),
    *("LinearTransformation", "Normalize", "PILToTensor", "RGB", "RandomAdjustSharpness"),
    *("RandomAutocontrast", "RandomChannelPermutation", "RandomEqualize", "RandomErasing"),
    *("RandomGrayscale", "RandomInvert", "RandomPhotometricDistort", "RandomPosterize"),
    *("RandomSolarize", "SetClampingMode", "ToDtype", "ToImage", "ToPureTensor", "ToTensor"),
}
# Those of its second version that call what a user has given them.
_CALLING = {"Compose", "RandomApply", "RandomChoice", "RandomOrder"}
# Those of its first version that draw from Python's generator.
_OF_PYTHON = {"RandomChoice", "RandomOrder"}


def keeps_geometry(transform: Any) -> bool:
    """Return whether a transform is known to leave every pixel in its place."""
    cls = type(transform)
    if cls.__module__.startswith(_TORCHVISION):
        return cls.__name__ in _STILL
    return any(
        base.__name__ == "ImageOnlyTransform" and _library_of(base) == "albumentations"
        for base in cls.__mro__
    )


def draws_from_torch(transform: Any) -> bool:
    """Return whether a transform is known to draw from torch's generator and no other."""
    cls = type(transform)
    if getattr(cls, "__module__", "").startswith(_TORCHVISION) and cls.__name__ != "Lambda":
        second = cls.__module__.startswith(f"{_TORCHVISION}.v2")
        if cls.__name__ in _CALLING:
            inner = getattr(transform, "transforms", [])
            return second and all(map(draws_from_torch, inner))
        return second or cls.__name__ not in _OF_PYTHON
    return isinstance(transform, nn.Identity)


def draws_alone(transform: Any) -> bool:
    """Return whether a transform is known not to draw from Python's or NumPy's generators."""
    transform = getattr(transform, "transform", transform)  # of an ImageOnly
    if _library_of(type(transform)) == "albumentations":
        return hasattr(transform, "set_random_seed")  # it has generators of its own
    return draws_from_torch(transform)


def call_with_image(
    transform: Callable[..., Any], takes: str | None, image: Tensor, name: str, number: float
) -> Any:
    """Call a transform with an image ``[C, H, W]``, in the form that it takes.

    Parameters
    ----------
    transform : callable
    takes : str, optional
        One of `TAKES`; None: what its library is known for.
    image : Tensor
    name : str
        For messages.
    number : float
        In [0, 1): seeds a transform with a generator of its own.

    Returns
    -------
    Tensor ``[C, H, W]``, or what the transform returned where that is no image
    """
    known = _library_of(type(transform))
    if takes is None:
        takes = {"albumentations": "array", "timm": "pil"}.get(known, "tensor")
    if takes == "tensor":
        return transform(image)
    if takes == "pil":
        return _as_tensor(transform(_as_pil(image, name)), image)
    array = np.ascontiguousarray(_on_cpu(image, name).movedim(0, -1).numpy())
    if known != "albumentations":
        return _as_tensor(transform(array), image)
    seed = whole_number(number) & 0xFFFFFFFF
    if hasattr(transform, "set_random_state"):
        # Not by a seed: containers would hand that same one to each of their transforms.
        transform.set_random_state(np.random.default_rng(seed), random.Random(seed))
    elif hasattr(transform, "set_random_seed"):
        transform.set_random_seed(seed)
    return _as_tensor(transform(image=array)["image"], image)


def _library_of(cls: type) -> str:
    return cls.__module__.partition(".")[0]


def _on_cpu(image: Tensor, name: str) -> Tensor:
    if not image.is_cpu or image.dim() != 3:
        what = f"on {image.device}" if not image.is_cpu else f"of shape {list(image.shape)}"
        raise TypeError(f"visops.transforms: {name} is {what}, must be one image on the CPU")
    return image.detach()


def _as_pil(image: Tensor, name: str) -> Any:
    from PIL import Image

    array = _on_cpu(image, name).movedim(0, -1).numpy()
    if array.dtype != np.uint8 or array.shape[2] not in (1, 3, 4):
        raise TypeError(
            f"visops.transforms: {name} has dtype {image.dtype} and {array.shape[2]} channels; "
            "must be uint8 with 1, 3 or 4 to become a PIL image (put ToDtype behind it)"
        )
    return Image.fromarray(np.ascontiguousarray(array[..., 0] if array.shape[2] == 1 else array))


def _as_tensor(result: Any, image: Tensor) -> Any:
    """Return a PIL image or an array [H, W, C] as a tensor on the image's device."""
    array = np.asarray(result) if is_pil(result) else result
    if not isinstance(array, np.ndarray) or array.ndim not in (2, 3):
        return result
    array = array[..., None] if array.ndim == 2 else array
    return torch.from_numpy(array.transpose(2, 0, 1).copy()).to(image.device)
