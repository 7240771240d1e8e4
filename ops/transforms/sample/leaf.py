"""One value of a sample, and what its type says about it.

torchvision and Pillow are consulted only if the caller has already imported them: otherwise no
value can be of their types.
"""

import functools
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

TARGETS = ("mask", "boxes", "keypoints", "polygons")  # the kinds that move with images


class Reading(NamedTuple):
    """How a chain reads plain values."""

    frames: bool = False  # a tensor of four dimensions, or a list of images, is a video
    layout: str | None = None  # CHW or HWC; None: what shapes tell
    indices: bool = False  # PIL images of a palette or of bits are their numbers, not colours
    box_format: str = "xyxy"  # one of BOX_FORMATS


AS_THEY_ARE = Reading()

# Formats of plain boxes: torchvision's name, and whether numbers are shares of the image's sides.
BOX_FORMATS = {
    "xyxy": ("XYXY", False),
    "xywh": ("XYWH", False),
    "cxcywh": ("CXCYWH", False),
    "yolo": ("CXCYWH", True),
    "albumentations": ("XYXY", True),
}


@dataclass(slots=True)
class Leaf:
    """One value of a sample, or of a batch of samples."""

    kind: str  # image, mask, boxes, keypoints, polygons, visible, labels or other
    value: Any
    batch: int | None = (
        None  # samples in `value`, along its first dimension or in a list; None: one
    )
    # Without the batch's dimension. Of images CHW or HWC. Masks came as HWN, key points as "flat".
    layout: str = "CHW"
    frames: bool = False  # has a dimension of frames before the image's own three
    like: Any = None  # the value in the sample
    name: str = "the sample"  # for messages
    key: Any = None  # its key, if a dict holds it
    group: int = -1  # number of the container that holds it
    named: str | None = None  # the kind its key stands for
    per_box: bool = False  # has an entry for each box of its group
    format: str = "XYXY"  # of boxes
    normalized: bool = (
        False  # of boxes: whether they came, and leave, as shares of the image's sides
    )
    clamping: Any = ""  # of boxes, as torchvision has it; "": as they came
    moved: bool = False  # of boxes: whether a transform has moved them
    canvas: np.ndarray | None = None  # [B, 2]: of typed boxes and key points, and of all once moved
    # Key points have flags, False once they are lost; boxes the share that is left; polygons and
    # COCO's masks have flags, False where an object came without.
    visible: Any = None
    # What is left of rotated boxes: a sample's value, and a polygon for each of its boxes.
    outlines: tuple[tuple[Any, list[np.ndarray]], ...] = ()
    partner: "Leaf | None" = None  # of key points: the leaf that holds their visibility
    source: "Leaf | None" = None  # the leaf of the batch that this sample is from
    form: str = ""  # what it comes out as: as_output()

    def samples(self) -> list[Any]:
        """Return the values, one per sample."""
        return [self.value] if self.batch is None else list(self.value)


def shared_tensor(value: np.ndarray) -> Tensor:
    """Return a tensor in an array's memory, or in a copy where torch can't share that.

    It refuses foreign byte orders and negative strides, and warns about read-only memory.
    """
    plain = value.flags.writeable and value.dtype.isnative and min(value.strides, default=0) >= 0
    return torch.from_numpy(value if plain else np.array(value, value.dtype.newbyteorder("=")))


def imported(module: str, name: str) -> Any:
    """Return what a module has; None where nobody has imported it.

    Another thread may be importing it: then the module is there, but not yet all that it has.
    """
    return getattr(sys.modules.get(module), name, None)


def is_pil(value: Any) -> bool:
    """Return whether this is a Pillow image."""
    image = imported("PIL.Image", "Image")
    return image is not None and isinstance(value, image)


def tv_kind(value: Any) -> str | None:
    """Return the kind of leaf that a tv_tensor makes, or None for anything else."""
    return None if type(value) is Tensor else _kind_of(type(value))  # type: ignore[arg-type]


_TV = "torchvision.tv_tensors"
_TV_KINDS = {
    "Image": "image",
    "Video": "image",
    "Mask": "mask",
    "BoundingBoxes": "boxes",
    "KeyPoints": "keypoints",  # came with torchvision 0.23
}


@functools.cache
def _kind_of(own: type) -> str | None:
    any_kind = imported(_TV, "TVTensor")
    if any_kind is None or not issubclass(own, any_kind):
        return None
    for name, kind in _TV_KINDS.items():
        if issubclass(own, imported(_TV, name) or ()):
            return kind
    raise TypeError(
        f"visops.transforms: can't move a {own.__name__}, must be an Image, Video, Mask, "
        "BoundingBoxes or KeyPoints"
    )


def tv_wrap(value: Tensor, like: Tensor, **fields: Any) -> Tensor:
    """Return `value` as a tv_tensor of the type of `like`."""
    wrap = getattr(type(like), "wrap", None)
    if wrap is None:  # torchvision's older classes
        import torchvision.tv_tensors as tv

        return tv.wrap(value, like=like, **fields)  # type: ignore[no-any-return]
    # What tv.wrap() calls; that itself takes as long again, for graphs of torch.compile.
    return wrap(value, like, **fields)  # type: ignore[no-any-return]


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
