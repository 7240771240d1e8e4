"""Calls of other libraries' transforms with a sample's leaves."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from ...pixels.adjust import adjust_pixels
from ..arguments import one_of
from ..sample.batches import batch_leaves, unbatch_leaves
from ..sample.leaf import TARGETS, Leaf, imported, is_pil, shared_tensor, tv_kind
from ..sample.polygons import points_of, with_points
from ..targets.mirrored import PROBE, followers, is_mirrored, may_swap, swap_names
from ..targets.options import TargetOptions
from .nesting import Container
from .operator_calls import Rectangles
from .operators import Pixels
from .pixel_kinds import MORE_NUMBERS, PixelKind
from .random import borrowed, whole_number

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


_TYPED = ("image", *TARGETS)


class ImageOnly(nn.Module):
    """Say that a function or another library's module leaves every pixel in its place.

    A chain gives such a callable only the images, and leaves masks, boxes and key points where they
    are. Without this, it refuses samples that have them, since it can't know whether the callable
    moves anything.

    Parameters
    ----------
    transform : callable
        From an image to one of the same height and width.
    takes : {"tensor", "pil", "array"}, optional
        What it is called with: a tensor ``[C, H, W]``, a PIL image, or an array ``[H, W, C]``. By
        default what it is known to take: albumentations' transforms arrays, timm's policies PIL
        images, all else tensors.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> invert = transforms.ImageOnly(lambda image: 1.0 - image)
    >>> chain = transforms.Compose([transforms.RandomHorizontalFlip(1.0), invert])
    >>> sample = {"image": torch.zeros(3, 4, 8), "boxes": torch.tensor([[0.0, 0, 2, 3]])}
    >>> chain(sample)["boxes"]
    tensor([[6., 0., 8., 3.]])
    """

    def __init__(
        self, transform: Callable[..., Any], takes: Literal["tensor", "pil", "array"] | None = None
    ) -> None:
        super().__init__()
        if not callable(transform):
            raise TypeError(
                f"visops.transforms.ImageOnly: transform is a {type(transform).__name__}, must be "
                "callable"
            )
        if takes is not None:
            allowed = f"None, {', '.join(map(repr, TAKES))}"
            one_of("ImageOnly", "takes", takes, TAKES, allowed)
        self.transform, self.takes = transform, takes

    def forward(self, image: Any) -> Any:
        """Call the transform with an image."""
        return self.transform(image)

    def extra_repr(self) -> str:
        return "" if isinstance(self.transform, nn.Module) else _name(self.transform)


def call_foreign(
    transform: Callable[..., Any],
    leaves: list[Leaf],
    options: TargetOptions,
    number: float = 0.0,
) -> None:
    """Call another library's transform; its results replace the leaves' values.

    A transform from ``torchvision.transforms.v2`` gets images, masks, boxes and key points as
    tv_tensors, in one call. Anything else gets one image at a time, as a tensor, an array or a PIL
    image; if the sample has targets, it must be known to move nothing.

    Parameters
    ----------
    transform : callable
    leaves : list of Leaf
        Those of one sample, with images as tensors ``[C, H, W]``. Changed in place.
    options : TargetOptions
    number : float
        In [0, 1): seeds what has a generator of its own.

    Raises
    ------
    TypeError, ValueError
        The transform returned something unlike what it was given, dropped boxes, resized an image
        that has targets, or may move an image and not its targets.
    """
    if isinstance(transform, imported("torchvision.transforms.v2", "Transform") or ()):
        if "Sanitize" in type(transform).__name__:
            raise ValueError(
                f"visops.transforms: {_name(transform)} drops boxes or key points, and what "
                "belongs to them can't follow; must be left out (Compose(boxes='sanitize') drops "
                "boxes outside the picture with their labels; key points there become invisible)"
            )
        mirrored = _call_v2(transform, leaves, options)
        swap_names(leaves, np.array([mirrored]), options)
        return
    targets = followers(leaves, options)
    if targets and may_move(transform):
        raise TypeError(
            f"visops.transforms: {_name(transform)} gets only the image, and {targets[0].name} "
            "would stay behind if it moves; must be a transform of visops or of "
            "torchvision.transforms.v2, or be wrapped in ImageOnly if it moves nothing"
        )
    for leaf in leaves:
        if leaf.kind != "image":
            continue
        name = _name(transform)
        inner, takes = transform, None
        if isinstance(transform, ImageOnly):
            inner, takes = transform.transform, transform.takes
        result = call_with_image(inner, takes, leaf.value, f"{leaf.name} for {name}", number)
        if not isinstance(result, Tensor) or result.dim() != leaf.value.dim():
            got = list(result.shape) if isinstance(result, Tensor) else type(result).__name__
            raise TypeError(
                f"visops.transforms: {name} returned {got} for {leaf.name}, a tensor of shape "
                f"{list(leaf.value.shape)}; must return a tensor with as many dimensions"
            )
        if targets and result.shape[-2:] != leaf.value.shape[-2:]:
            raise ValueError(
                f"visops.transforms: {name} resized {leaf.name} from "
                f"{list(leaf.value.shape[-2:])} to {list(result.shape[-2:])}, and "
                f"{targets[0].name} can't follow; must be a transform of visops or of "
                "torchvision.transforms.v2"
            )
        leaf.value = result.as_subclass(Tensor)


def _name(transform: Any) -> str:
    return getattr(transform, "__name__", type(transform).__name__)


def may_move(transform: Any) -> bool:
    """Return whether another library's transform may move pixels: False if it is known not to."""
    return not isinstance(transform, (ImageOnly, nn.Identity)) and not keeps_geometry(transform)


def _call_v2(transform: Callable[..., Any], leaves: Sequence[Leaf], options: TargetOptions) -> bool:
    """Call a transform with what moves; return whether it mirrored the image, if names swap."""
    leaves = [leaf for leaf in leaves if leaf.kind in _TYPED]
    if not (options.swaps and may_move(transform)) or "IoUCrop" in _name(transform):
        _call_typed(transform, leaves, options)
        return False
    # Nothing says what it does, so it also moves polygons that tell.
    height, width = next(leaf.value.shape[-2:] for leaf in leaves if leaf.kind == "image")
    probe = Leaf("polygons", [list(PROBE * (width, height))], name="the probe for mirrors")
    _call_typed(transform, [*leaves, probe], options)
    return is_mirrored(np.array(probe.value[0]))


def _call_typed(
    transform: Callable[..., Any], leaves: Sequence[Leaf], options: TargetOptions
) -> None:
    name = _name(transform)
    for leaf in leaves:
        if leaf.kind == "polygons" and "IoUCrop" in name:
            raise TypeError(
                f"visops.transforms: {name} can't move {leaf.name}; must be left out beside "
                "polygons (RandomCrop moves them)"
            )
    position = next(i for i, leaf in enumerate(leaves) if leaf.kind == "image")
    height, width = leaves[position].value.shape[-2:]
    results = transform(tuple(_typed(leaf, (height, width), options) for leaf in leaves))
    if not isinstance(results, tuple) or len(results) != len(leaves):
        raise TypeError(
            f"visops.transforms: {name} returned a {type(results).__name__} for a tuple of "
            f"{len(leaves)}, must return a tuple of as many"
        )
    for leaf, result in zip(leaves, results, strict=True):
        if not isinstance(result, Tensor):
            raise TypeError(
                f"visops.transforms: {name} returned a {type(result).__name__} for {leaf.name}, "
                "must return a tensor"
            )
    size = tuple(results[position].shape[-2:])
    for leaf, result in zip(leaves, results, strict=True):
        plain = result.as_subclass(Tensor)
        if leaf.kind == "polygons":
            leaf.value = with_points(leaf.value, plain[:, :2].numpy())
            continue
        if leaf.kind == "boxes":
            if plain.shape[0] != leaf.value.shape[0]:
                raise ValueError(
                    f"visops.transforms: {name} left {plain.shape[0]} of {leaf.value.shape[0]} "
                    f"boxes of {leaf.name}, and what belongs to them can't follow; must keep them "
                    "(Compose(boxes='sanitize') drops those outside the picture)"
                )
            if tv_kind(result) == "boxes":
                leaf.format = result.format.value  # type: ignore[attr-defined]
                leaf.clamping = getattr(result, "clamping_mode", "")
            leaf.moved = True
        if leaf.canvas is not None:
            leaf.canvas = np.array([getattr(result, "canvas_size", size)])
        if leaf.kind == "keypoints" and leaf.value.shape[-1] == 3:
            third = torch.as_tensor(leaf.value, device=plain.device)[..., 2:]
            plain = torch.cat((plain, third.to(plain.dtype)), -1)
        leaf.value = plain


def _typed(leaf: Leaf, size: tuple[int, int], options: TargetOptions) -> Any:
    import torchvision.tv_tensors as tv

    value = leaf.value
    if isinstance(value, np.ndarray):
        value = shared_tensor(value)
    if leaf.kind == "image":  # a cast takes a fifth of the time of the classes' checks
        return value.as_subclass(tv.Video if leaf.frames else tv.Image)
    if leaf.kind == "mask":
        return value.as_subclass(tv.Mask)
    if leaf.kind == "polygons":
        # As boxes without area: key points would be shifted by flips.
        corners = torch.from_numpy(points_of(value)).repeat(1, 2)
        boxes = tv.BoundingBoxes(corners, format="XYXY", canvas_size=size)
        if hasattr(boxes, "clamping_mode"):
            boxes.clamping_mode = None
        return boxes
    if leaf.kind == "boxes":
        boxes = tv.BoundingBoxes(value, format=leaf.format, canvas_size=size)
        if hasattr(boxes, "clamping_mode"):  # came with torchvision 0.23
            boxes.clamping_mode = _clamping(leaf, options)
        return boxes
    return tv.KeyPoints(value[..., :2], canvas_size=size)


def _clamping(leaf: Leaf, options: TargetOptions) -> Any:
    """Return the clamping mode of boxes: their own, or else what the chain does with boxes."""
    if leaf.clamping != "":
        return leaf.clamping
    if tv_kind(leaf.like) == "boxes":
        return leaf.like.clamping_mode
    return None if options.boxes == "keep" else "hard"


# What can't join a fused pass: random values, and other libraries' transforms.


def erase_with_noise(leaf: Leaf, params: Mapping[str, Any]) -> None:
    """Erase a rectangle of each sample with normally distributed values."""
    pixels = Pixels(leaf)
    if not pixels.dtype.is_floating_point:
        raise TypeError(
            f"visops.transforms.RandomErasing: {leaf.name} has dtype {pixels.dtype}, must be "
            "floating for value='random'; put ToDtype(torch.float32, scale=True) before it"
        )
    images = pixels.tensors(leaf)
    names = ("top", "left", "height", "width")
    rectangles = np.stack([params[name] for name in names], 1).astype(np.int64)
    rectangles[~params["apply"].astype(bool)] = 0
    noise = _noise(params["noise"], rectangles, pixels)
    if pixels.listed or pixels.on_cpu:
        images = [image.clone() for image in images] if pixels.listed else images.clone()
        for sample in np.flatnonzero(rectangles[:, 2:].all(1)).tolist():
            top, left, height, width = rectangles[sample].tolist()
            count = pixels.channels * height * width
            own = noise[sample, :count].view(pixels.channels, height, width)
            for frame in range(sample * pixels.frames, (sample + 1) * pixels.frames):
                images[frame][:, top : top + height, left : left + width] = own
    elif noise.numel() > 0:
        images = _erased(images, rectangles.repeat(pixels.frames, 0), noise, pixels.frames)
    pixels.store(leaf, images)


def _noise(keys: np.ndarray, rectangles: np.ndarray, pixels: Pixels) -> Tensor:
    """Return normally distributed values for each sample's rectangle, ``[B, most]``.

    Those of C++, so that values are the same on every device.
    """
    most = int((rectangles[:, 2] * rectangles[:, 3]).max(initial=0)) * pixels.channels
    numbers = np.zeros((len(keys), MORE_NUMBERS))
    numbers[:, 2] = keys  # behind the mean, 0, and whether values are clipped
    zeros = torch.zeros((len(keys), 1, 1, most), dtype=torch.float32, device=pixels.device)
    kinds, sigmas = [PixelKind.GAUSSIAN_NOISE] * len(keys), [1.0] * len(keys)
    found = adjust_pixels(zeros, kinds, sigmas, numbers.ravel().tolist())
    return found.flatten(1).to(pixels.dtype)


def _erased(images: Tensor, rectangles: np.ndarray, noise: Tensor, frames: int) -> Tensor:
    """Return images ``[N, C, H, W]`` with a rectangle of each replaced, all at once."""
    own = Rectangles(images, rectangles)
    noise = noise.repeat_interleave(frames, 0)
    planes = []
    for channel in range(images.shape[1]):
        place = ((channel * own.height + own.y) * own.width + own.x).clamp(0, noise.shape[1] - 1)
        planes.append(noise.gather(1, place.flatten(1)).view(place.shape))
    return torch.where(own.inside, torch.cat(planes, 1), images)


def run_foreign(
    transform: Callable[..., Any],
    leaves: list[Leaf],
    params: Mapping[str, Any],
    options: TargetOptions,
) -> None:
    """Run a transform that joins no pass on each sample, under the sample's own number."""
    images = [leaf for leaf in leaves if leaf.kind == "image"]
    for leaf in images:
        pixels = Pixels(leaf)
        pixels.store(leaf, pixels.tensors(leaf))
    batched = leaves[0].batch is not None or any(leaf.batch is not None for leaf in leaves)
    samples = [leaves]
    if batched:
        samples = unbatch_leaves(leaves, moves=lambda leaf: may_swap(leaf, options))
    numbers = params["seed"].tolist()
    if isinstance(transform, Container):
        for sample, number in zip(samples, numbers, strict=True):
            transform.run(sample, number)
    else:
        with borrowed(Pixels(images[0]).device, draws_from_torch(transform)) as seed:
            for sample, number in zip(samples, numbers, strict=True):
                seed(number)
                call_foreign(transform, sample, options, number)
    if batched:
        for leaf, moved in zip(leaves, batch_leaves(samples), strict=True):
            for name in Leaf.__slots__:
                setattr(leaf, name, getattr(moved, name))
