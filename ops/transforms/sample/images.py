"""The images of a sample: their layout and sizes."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._torch.call import modes_or_transforms_active
from .leaf import AS_THEY_ARE, Leaf, Reading, as_output, is_pil, tv_kind, tv_wrap

_CHANNELS = (1, 3, 4)

# Pillow's modes, and those in which their pixels are read.
_PIL_IMAGES = {
    **{mode: mode for mode in ("L", "LA", "RGB", "RGBA", "F", "CMYK", "YCbCr", "LAB", "HSV")},
    **{"1": "L", "P": "RGB", "PA": "RGBA", "La": "LA", "RGBa": "RGBA", "RGBX": "RGB"},
}
# Modes of one band, which masks have.
PIL_MASKS = ("1", "L", "P", "PA", "I", "I;16", "I;16L", "I;16B", "I;16N", "F")


def image_leaf(value: Any, name: str, reading: Reading = AS_THEY_ARE, **origin: Any) -> Leaf:
    """Make a leaf of an image, a batch of images or a list of images.

    Where frames are read, plain arrays of four dimensions are videos and those of five batches of
    videos, and a list of images is a video. Dimensions before those of a batch are folded into it;
    `restored_image` unfolds them.
    """
    frames, layout = reading.frames, reading.layout
    if type(value) is Tensor:
        pass  # to ask for each other type takes longer than all that follows
    elif isinstance(value, (list, tuple)):
        return _list_leaf(value, name, reading, origin)
    elif isinstance(value, np.ndarray):
        if value.ndim == 2:
            return Leaf("image", value[..., None], None, "HWC", False, value, name, **origin)
    elif is_pil(value):
        array = _pil_array(value, name, reading.indices)
        return Leaf("image", array, None, "HWC", False, value, name, **origin)
    elif not isinstance(value, Tensor):
        raise TypeError(
            f"visops.transforms: {name} is a {type(value).__name__}, must be an image: a tensor, "
            "an array or a PIL image"
        )
    elif tv_kind(value) is not None:
        return _typed_leaf(value, name, origin)
    shape = value.shape
    frames = frames and len(shape) > 3
    if len(shape) < 3:
        raise ValueError(
            f"visops.transforms: {name} has shape {list(shape)}, must be an image [C, H, W] or "
            "[H, W, C], or a batch of them"
        )
    layout = layout or _layout(value, name)
    folded = _folded(value, 3 + frames)
    batch = folded.shape[0] if len(shape) - frames > 3 else None
    return Leaf("image", folded, batch, layout, frames, value, name, **origin)


def _folded(value: Any, rank: int) -> Any:
    """Fold all dimensions before the last `rank` into one, if there are several."""
    if value.ndim < rank + 2:
        return value
    return value.reshape(math.prod(value.shape[:-rank]), *value.shape[-rank:])


def _pil_array(image: Any, name: str, indices: bool) -> np.ndarray:
    """Return a PIL image's pixels [H, W, C]: colours where it has a palette, alpha as it shows.

    With `indices`, images of a palette or of bits are their own numbers, uint8 ``[H, W, 1]``.
    """
    if indices and image.mode in ("1", "P"):
        return np.asarray(image).astype(np.uint8)[..., None]
    if image.mode not in _PIL_IMAGES:
        raise TypeError(
            f"visops.transforms: {name} is a PIL image of mode {image.mode!r}, must be of mode "
            f"{', '.join(_PIL_IMAGES)}; for 16 bits give an array of uint16, or of floats with "
            "white at 1; a mask must be in a dict under 'mask' (add names with keys={'mask': "
            "[...]})"
        )
    mode = _PIL_IMAGES[image.mode]
    array = np.asarray(image if mode == image.mode else image.convert(mode))
    return array[..., None] if array.ndim == 2 else array


def pil_mask(image: Any, name: str) -> np.ndarray:
    """Return the classes [H, W] of a PIL image: indices where it has a palette."""
    if image.mode == "PA":
        return np.asarray(image)[..., 0]
    if image.mode not in PIL_MASKS:
        raise TypeError(
            f"visops.transforms: {name} is a PIL image of mode {image.mode!r}, must have one band "
            "to be a mask: mode 1, L, P, PA, I, I;16 or F"
        )
    return np.asarray(image)


def _layout(value: Any, name: str) -> str:
    """Find the channels' side: the one of length 1, 3 or 4; if both or neither, by the type.

    A tensor has its channels first. An array has them last, as OpenCV and Pillow give it; but one
    with as many as none of them gives may as well be bands, slices or frames ``[N, H, W]``.
    """
    first, last = value.shape[-3], value.shape[-1]
    leads, is_array = first in _CHANNELS, isinstance(value, np.ndarray)
    if leads != (last in _CHANNELS):
        return "CHW" if leads else "HWC"
    if is_array and not leads:
        raise ValueError(
            f"visops.transforms: {name} is an array of shape {list(value.shape)}, and may be "
            "[C, H, W] or [H, W, C]; must have 1, 3 or 4 channels, be a tensor [C, H, W], or be "
            "read by a Compose(layout='CHW') or 'HWC'"
        )
    return "HWC" if is_array else "CHW"


def _typed_leaf(value: Tensor, name: str, origin: dict[str, Any]) -> Leaf:
    if tv_kind(value) != "image":
        raise TypeError(
            f"visops.transforms: {name} is a {type(value).__name__}, must be an Image or Video"
        )
    frames = type(value).__name__ == "Video"
    plain = value.as_subclass(Tensor)
    rank = plain.dim() - frames
    if rank < 3:
        expected = "[..., T, C, H, W]" if frames else "[..., C, H, W]"
        raise ValueError(
            f"visops.transforms: {name} has shape {list(plain.shape)}, must be {expected}"
        )
    folded = _folded(plain, 3 + frames)
    batch = folded.shape[0] if rank > 3 else None
    return Leaf("image", folded, batch, "CHW", frames, value, name, **origin)


def _list_leaf(value: Sequence[Any], name: str, reading: Reading, origin: dict[str, Any]) -> Leaf:
    """Make a leaf of a list of images, of any sizes but the same layout; or of a video's frames."""
    if not value:
        raise ValueError(f"visops.transforms: {name} is empty, must hold at least one image")
    images = [
        image_leaf(item, f"{name}[{index}]", reading._replace(frames=False))
        for index, item in enumerate(value)
    ]
    for image in images:
        if image.batch is not None or image.frames:
            raise ValueError(
                f"visops.transforms: {image.name} has shape {list(image.value.shape)}, "
                "must be one image"
            )
    layouts = {image.layout for image in images}
    if len(layouts) > 1:
        # An image that could have either layout has that of the others.
        ends = [(image.value.shape[0], image.value.shape[-1]) for image in images]
        either = [first in _CHANNELS and last in _CHANNELS for first, last in ends]
        layouts = {image.layout for image, any_ in zip(images, either, strict=True) if not any_}
        if len(layouts) != 1:
            raise ValueError(
                f"visops.transforms: {name} mixes [C, H, W] and [H, W, C], must be all the same"
            )
    values = [image.value for image in images]
    if reading.frames:
        clip = _clip(values, name)
        return Leaf("image", clip, None, layouts.pop(), True, value, name, **origin)
    return Leaf("image", values, len(values), layouts.pop(), False, value, name, **origin)


def _clip(frames: Sequence[Any], name: str) -> Any:
    """Stack the frames of a video, tensors or arrays."""
    for index, frame in enumerate(frames):
        if frame.shape != frames[0].shape or frame.dtype != frames[0].dtype:
            first = frames[0]
            raise ValueError(
                f"visops.transforms: {name}[{index}] has shape {list(frame.shape)} and dtype "
                f"{frame.dtype}, {name}[0] has {list(first.shape)} and {first.dtype}; frames must "
                "be alike (per_frame=False reads a list of images as a video)"
            )
    if all(isinstance(frame, np.ndarray) for frame in frames):
        return np.stack(frames)
    return torch.stack([torch.as_tensor(frame) for frame in frames])


def may_be_image(value: Any) -> bool:
    """Return whether a value without a name can be an image."""
    kind = tv_kind(value)
    if kind is not None:
        return kind == "image"
    if isinstance(value, Tensor):
        return value.dim() >= 3
    return value.ndim >= 2 if isinstance(value, np.ndarray) else is_pil(value)


def image_sizes(leaves: list[Leaf]) -> np.ndarray:
    """Return heights and widths of each sample's images, int64 ``[B, 2]``.

    Raises
    ------
    ValueError
        Images, masks and canvas sizes of a sample differ, or an image has no pixels or no frames.
    """
    first: Leaf | None = None
    sizes = np.zeros((0, 2), np.int64)
    for leaf in leaves:
        if leaf.kind == "image":
            own = sizes_of(leaf)
            _reject_nothing(leaf, own)
            if first is None:
                first, sizes = leaf, own
            else:
                _reject_difference(first, sizes, leaf, own)
    if first is None:
        raise TypeError("visops.transforms: the sample holds no image")
    if len(leaves) > 1:
        alone = tuple(sizes[0].tolist()) if sizes.shape[0] == 1 else None
        for leaf in leaves:
            if leaf.kind == "mask":
                if alone is None or leaf.batch is not None or leaf.value.shape[-2:] != alone:
                    _reject_difference(first, sizes, leaf, sizes_of(leaf))
            elif leaf.kind in ("boxes", "keypoints") and leaf.canvas is not None:
                _reject_difference(first, sizes, leaf, leaf.canvas)
    return sizes


def _reject_nothing(leaf: Leaf, sizes: np.ndarray) -> None:
    for index, (height, width) in enumerate(sizes.tolist()):
        if height < 1 or width < 1:
            where = "" if leaf.batch is None else f"[{index}]"
            raise ValueError(
                f"visops.transforms: {leaf.name}{where} has {height} rows and {width} columns, "
                "must have at least one of each"
            )
    clips = leaf.value if isinstance(leaf.value, list) else [leaf.value]
    if leaf.frames and any(clip.shape[-4] < 1 for clip in clips):
        raise ValueError(f"visops.transforms: {leaf.name} has no frames, must have at least one")


def sizes_of(leaf: Leaf) -> np.ndarray:
    """Return heights and widths of an image or mask leaf, [B, 2]; [1, 2] for a single sample."""
    sides = slice(-3, -1) if leaf.layout == "HWC" else slice(-2, None)
    values = leaf.value if isinstance(leaf.value, list) else (leaf.value,)
    sizes = np.array([value.shape[sides] for value in values], np.int64)
    if leaf.batch is not None and not isinstance(leaf.value, list):
        return sizes.repeat(leaf.batch, 0)
    return sizes


def _reject_difference(first: Leaf, sizes: np.ndarray, leaf: Leaf, own: np.ndarray) -> None:
    wrong = (sizes != own).any(1)
    if wrong.any():
        index = int(wrong.argmax())
        where = "" if leaf.batch is None else f"[{index}]"
        height, width = own[index].tolist()
        raise ValueError(
            f"visops.transforms: {leaf.name}{where} is for {height} rows and {width} columns, "
            f"{first.name}{where} has {sizes[index, 0]} and {sizes[index, 1]}; must be the same"
        )


def _shares(value: Any, like: Any) -> bool:
    """Return whether an image that no transform has changed is still in the caller's memory."""
    if isinstance(value, np.ndarray) and isinstance(like, np.ndarray):
        return np.may_share_memory(value, like)
    if not isinstance(value, Tensor) or not isinstance(like, Tensor):
        return False
    if value is like or value.device != like.device:
        return value is like
    if modes_or_transforms_active():  # their tensors have no memory to ask for
        return False
    own, given = value.untyped_storage(), like.untyped_storage()
    return own.nbytes() > 0 and own.data_ptr() == given.data_ptr()


def restored_image(leaf: Leaf) -> Any:
    """Return an image as a tensor with channels first, and as a tv_tensor if it was one."""
    return as_output(_as_it_came(leaf), leaf)


def _as_it_came(leaf: Leaf) -> Any:
    value, like = leaf.value, leaf.like
    if isinstance(value, list):
        return [
            _as_it_came(Leaf("image", item, layout=leaf.layout, like=like[i]))
            for i, item in enumerate(value)
        ]
    if isinstance(value, np.ndarray):
        shared = not value.flags.writeable or _shares(value, like)
        value = torch.from_numpy(value.copy() if shared else value)
    elif isinstance(like, Tensor) and _shares(value, like):
        value = value.clone()
    if leaf.layout == "HWC":
        value = value.movedim(-1, -3)
    if isinstance(like, (list, tuple)):
        if leaf.frames and leaf.batch is None:  # a video that came as a list of its frames
            typed = tv_kind(like[0]) is not None
            return [tv_wrap(own, like[0]) if typed else own for own in value.unbind()]
        like = like[0]
    elif isinstance(like, (Tensor, np.ndarray)) and like.ndim > 4 + leaf.frames:
        value = value.unflatten(0, like.shape[: -3 - leaf.frames])
    return tv_wrap(value, like) if tv_kind(like) is not None else value
