"""Calls of other libraries' transforms with a sample's leaves."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..sample.leaf import TARGETS, Leaf, tv_kind
from ..sample.polygons import points_of, with_points
from ..targets.mirrored import PROBE, followers, is_mirrored, swap_names
from ..targets.options import TargetOptions
from .libraries import TAKES, call_with_image, keeps_geometry

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

    def __init__(self, transform: Callable[..., Any], takes: str | None = None) -> None:
        super().__init__()
        if not callable(transform):
            raise TypeError(
                f"visops.transforms.ImageOnly: transform is a {type(transform).__name__}, must be "
                "callable"
            )
        if takes not in (None, *TAKES):
            raise ValueError(
                f"visops.transforms.ImageOnly: takes is {takes!r}, must be None, "
                f"{', '.join(map(repr, TAKES))}"
            )
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
    v2 = sys.modules.get("torchvision.transforms.v2")
    if v2 is not None and isinstance(transform, v2.Transform):
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
        value = torch.from_numpy(value if value.flags.writeable else value.copy())
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
