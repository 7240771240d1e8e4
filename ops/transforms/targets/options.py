"""Options for targets, and which targets can't follow them."""

import functools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._torch.options import check_word
from ..arguments import MASK_FILL
from ..sample.leaf import BOX_FORMATS, Leaf
from ..sample.per_box import WHAT_BELONGS, unclear_beside

POLICIES = ("keep", "clamp", "sanitize")
# Shifts that lead to the half-pixel convention.
CONVENTIONS = {"integer": 0.5, "half_pixel": 0.0}


def canvas_windows(sizes: np.ndarray) -> np.ndarray:
    """Return windows [B, 4] that span whole pictures of these sizes, [B, 2]."""
    windows = np.zeros((sizes.shape[0], 4))
    windows[:, 2:] = sizes[:, ::-1]
    return windows


@dataclass(slots=True)
class Geometry:
    """Where one pass, or several in turn, put each sample's pixels."""

    matrix: np.ndarray  # [B, 3, 3] float64, source to destination, half-pixel convention
    size_in: np.ndarray  # [B, 2] height, width
    size_out: np.ndarray  # [B, 2]
    window: np.ndarray | None = None  # [B, 4] x1, y1, x2, y2 of the source; the rest is cut
    ties: np.ndarray | None = None  # [B, 2] shift for nearest sampling: Plan.ties
    padding_mode: str = "constant"  # what masks of the image have outside, as the image has

    def sampled(self) -> np.ndarray:
        """Return the matrices [B, 3, 3] by which masks take the nearest pixel."""
        if self.ties is None:
            return self.matrix
        matrix = self.matrix.copy()
        matrix[:, :2, 2] += self.ties
        return matrix

    def centres(self) -> np.ndarray:
        """Return x, y of the sources' centres, [B, 2]."""
        return self.size_in[:, ::-1] / 2.0

    def source(self) -> np.ndarray:
        """Return x1, y1, x2, y2 of what the windows leave of the sources, [B, 4]."""
        whole = canvas_windows(self.size_in)
        if self.window is None:
            return whole
        whole[:, :2] = np.maximum(whole[:, :2], self.window[:, :2])
        whole[:, 2:] = np.minimum(whole[:, 2:], self.window[:, 2:])
        return whole


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """How to treat targets."""

    mask_fill: int = MASK_FILL  # for integer masks of the image
    other_mask_fill: int = 0  # for those of floats and bool; masks of boxes get 0
    boxes: str = "keep"  # or "clamp" or "sanitize"
    boxes_from: str = "boxes"  # or "masks" or "polygons"
    box_format: str = "xyxy"  # of plain boxes: BOX_FORMATS
    keypoint_convention: str = "integer"  # or "half_pixel"
    # Key points, classes of labels, and classes of masks that swap in mirrored images.
    flip_pairs: tuple[tuple[int, int], ...] = ()
    label_pairs: tuple[tuple[int | str, int | str], ...] = ()
    mask_pairs: tuple[tuple[int, int], ...] = ()
    # "sanitize" drops boxes with a shorter side, a smaller area, or a smaller share of it left
    min_size: float = 1.0
    min_area: float = 0.0
    min_visibility: float = 0.0

    @property
    def swaps(self) -> bool:
        """Whether anything swaps names in mirrored images."""
        return bool(self.flip_pairs or self.label_pairs or self.mask_pairs)


_WORDS: tuple[tuple[str, Collection[str], str], ...] = (
    ("boxes", POLICIES, f"one of {', '.join(POLICIES)}"),
    ("box_format", BOX_FORMATS, f"one of {', '.join(map(repr, BOX_FORMATS))}"),
    ("boxes_from", ("boxes", "masks", "polygons"), ""),
    ("keypoint_convention", CONVENTIONS, "'integer' or 'half_pixel'"),
)


def check_options(leaves: Sequence[Leaf], options: TargetOptions) -> None:
    """Refuse options that are wrong, or that these leaves can't follow."""
    for name, words, allowed in _WORDS:
        check_word("transforms", name, getattr(options, name), words, allowed)
    if len(leaves) > 1:
        for leaf in leaves:
            if leaf.kind == "mask":
                check_fill(leaf, options)
        if options.boxes == "sanitize":
            check_sanitize(leaves)


def check_fill(leaf: Leaf, options: TargetOptions) -> None:
    """Refuse a fill that a mask's dtype can't hold."""
    for value in leaf.value if isinstance(leaf.value, list) else [leaf.value]:
        fill = mask_fill_of(leaf.per_box, value, options)
        if not holds(value.dtype, fill):
            low, high = _limits(value.dtype)
            raise ValueError(
                f"visops.transforms: mask_fill is {fill}, {leaf.name} has dtype {value.dtype}; "
                f"must be from {low} to {high}"
            )


def holds(dtype: Any, fill: int) -> bool:
    """Return whether a dtype, torch's or NumPy's, can hold a whole number."""
    if fill == 0:
        return True
    low, high = _limits(dtype)
    return low <= fill <= high


@functools.cache
def _limits(dtype: Any) -> tuple[int, int]:
    """Return the smallest and the largest whole number of a dtype, torch's or NumPy's."""
    if dtype in (torch.bool, np.dtype(bool)):
        return 0, 1
    if isinstance(dtype, torch.dtype):
        info: Any = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    else:
        info = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    return int(info.min), int(info.max)


def check_sanitize(leaves: Sequence[Leaf]) -> None:
    """Refuse samples in which it is not clear what goes with a box that is dropped."""
    boxes = [leaf for leaf in leaves if leaf.kind == "boxes"]
    for leaf in boxes:
        if leaf.batch is not None and not isinstance(leaf.value, list):
            raise ValueError(
                f"visops.transforms: {leaf.name} has shape {list(leaf.value.shape)}; must be a "
                "list of each sample's boxes [N, 4] for boxes='sanitize', which keeps different "
                "numbers of them"
            )
        other = unclear_beside(leaf, leaves)
        if other is None:
            continue
        if other.kind == "boxes":
            raise ValueError(
                f"visops.transforms: {leaf.name} and {other.name} are in one container; "
                "must be in two, or boxes='sanitize' can't tell what belongs to which"
            )
        raise ValueError(
            f"visops.transforms: boxes='sanitize' can't tell whether {other.name} belongs to "
            f"{leaf.name}; {WHAT_BELONGS}"
        )


def mask_fill_of(per_box: bool, value: Any, options: TargetOptions) -> int:
    """Return the fill: 0 for masks of boxes, whose objects don't go on outside the image."""
    if per_box:
        return 0
    if isinstance(value, Tensor):
        countable = not value.is_floating_point() and value.dtype != torch.bool
    else:
        countable = value.dtype.kind in "iu"
    return options.mask_fill if countable else options.other_mask_fill
