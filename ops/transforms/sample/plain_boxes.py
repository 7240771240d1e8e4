"""Boxes that don't say their format: the chain does, in pixels or shares of its sides."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .images import sizes_of
from .leaf import BOX_FORMATS, Leaf

_LEAST_SIDE = 8  # of images in which a box below one pixel is more likely one of shares


def read_plain_boxes(leaf: Leaf, image: Leaf, box_format: str) -> None:
    """Note the format of a leaf's boxes; turn shares of the image's sides into pixels.

    Raises
    ------
    TypeError
        Shares are whole numbers.
    ValueError
        All boxes of a sample lie within [0, 1], and should be in pixels.
    """
    leaf.format, leaf.normalized = BOX_FORMATS[box_format]
    sizes = sizes_of(image)
    if leaf.normalized:
        for name, value in _samples(leaf):
            if not _is_floating(value):
                raise TypeError(
                    f"visops.transforms: {name} has dtype {value.dtype}, must be floating: "
                    f"box_format={box_format!r} is in shares of the image's sides"
                )
        leaf.canvas = sizes
        leaf.value = _scaled(leaf, 1)
        return
    dense = leaf.batch is not None and not isinstance(leaf.value, list)
    # A dense batch has one size; of no images, nobody asks for it.
    for (name, value), (height, width) in zip(_samples(leaf), sizes.tolist(), strict=False):
        parts = value if dense else [value]
        if min(height, width) >= _LEAST_SIDE and any(map(_are_shares, parts)):
            raise ValueError(
                f"visops.transforms: {name} lies within [0, 1] of an image of {height} rows and "
                f"{width} columns; must be in pixels (box_format='yolo' and 'albumentations' read "
                "shares of the image's sides)"
            )


def as_shares(leaf: Leaf) -> Any:
    """Return a leaf's boxes, in pixels, as shares of their images' sides."""
    return _scaled(leaf, -1)


def _samples(leaf: Leaf) -> list[tuple[str, Any]]:
    """Return the name and the value of each sample's boxes; those of a dense batch together."""
    if not isinstance(leaf.value, list):
        return [(leaf.name, leaf.value)]
    return [(f"{leaf.name}[{index}]", value) for index, value in enumerate(leaf.value)]


def _is_floating(value: Any) -> bool:
    return value.is_floating_point() if isinstance(value, Tensor) else value.dtype.kind == "f"


def _are_shares(boxes: Any) -> bool:
    """Return whether boxes can only be shares: fractions with an area, and none above 1.

    Whole numbers may be a pixel in a corner. What is on a device isn't read.
    """
    if 0 in boxes.shape or not _is_floating(boxes):
        return False
    if isinstance(boxes, Tensor):
        if not boxes.is_cpu:
            return False
        boxes = boxes.detach()
    if not (boxes.min() >= 0 and boxes.max() <= 1 and ((boxes > 0) & (boxes < 1)).any()):
        return False
    return bool((boxes[..., 2:] > boxes[..., :2]).all(-1).any())


def _scaled(leaf: Leaf, power: int) -> Any:
    assert leaf.canvas is not None
    sides = np.tile(leaf.canvas[:, ::-1].astype(np.float64), 2) ** power

    def scaled(value: Any, factor: np.ndarray) -> Any:
        if isinstance(value, Tensor):
            return value * torch.from_numpy(factor).to(value.device, value.dtype)
        return value * factor.astype(value.dtype)

    if isinstance(leaf.value, list):
        return [scaled(value, own) for value, own in zip(leaf.value, sides, strict=True)]
    return scaled(leaf.value, sides[0] if leaf.batch is None else sides[:, None])
