"""Targets of one sample that move from their own tensor into another: engine/direct.py.

They do what move.py and finish.py do, with the same bits, where boxes are kept as they come out.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ... import _native
from ..._torch.native import data_ptr_and_strides
from ..sample.entries import count_of
from ..sample.leaf import tv_wrap
from ..sample.outlines import Entry, Outline
from .masks import NAMES
from .options import CONVENTIONS, TargetOptions, holds, mask_fill_of

_FLOATS = (torch.float32, torch.float64)


def direct_targets(
    outline: Outline, holders: Sequence[Any], size: tuple[int, int], options: TargetOptions
) -> "list[DirectTarget] | None":
    """Return the targets of a sample; None where one is unusual, or wrong.

    Parameters
    ----------
    outline : Outline
    holders : sequence
        The sample and the dicts in it.
    size : pair of int
        Height and width of the image.
    options : TargetOptions
    """
    plain = (options.boxes, options.boxes_from, options.box_format) == ("keep", "boxes", "xyxy")
    if outline.targets and not plain:
        return None
    for entry in outline.arrays:
        if holders[entry.holder][entry.key].ndim > 1:
            return None
    boxes, count = outline.boxes, None
    targets = []
    for entry in outline.targets:
        target = _KINDS[entry.kind](entry, holders[entry.holder][entry.key])
        if target.pointer is None or not target.fits(size, options):
            return None
        if entry is boxes:
            count = target.value.shape[0]
        targets.append(target)
    if boxes is not None:
        for target in targets:
            if target.entry.per_box and target.value.shape[0] != count:
                return None
        for entry in outline.labels:
            if entry.holder == boxes.holder:
                length = count_of(holders[entry.holder][entry.key])
                if length is not None and length != count:
                    return None
    return targets


class DirectTarget(ABC):
    """A target as it came, `like`, and its tensor; `pointer` is None if it can't move here."""

    __slots__ = ("entry", "like", "pointer", "value")

    def __init__(self, entry: Entry, like: Tensor) -> None:
        self.entry, self.like = entry, like
        self.value = value = like if type(like) is Tensor else like.as_subclass(Tensor)
        usual = not value.requires_grad and value.dim() == entry.rank
        self.pointer = data_ptr_and_strides(value) if usual else None

    @property
    def repeats_outside(self) -> bool:
        """Whether it shows outside the image what the image does, if that pads with itself."""
        return self.entry.kind == "mask" and not self.entry.per_box

    @abstractmethod
    def fits(self, size: tuple[int, int], options: TargetOptions) -> bool:
        """Whether it belongs to an image of this size, and nothing about it is unusual."""

    @abstractmethod
    def move(self, plans: Sequence[Any], holder: Any) -> None:
        """Put the target, moved like its image by plans in turn, into a copy of its holder."""

    def coordinates(self, plans: Sequence[Any]) -> tuple[Tensor, Any]:
        """Return what the first plan takes, and its pointer: several don't round in between."""
        if len(plans) == 1:
            return self.value, self.pointer
        value = self.value.double()
        return value, _pointer(value)

    def fits_canvas(self, size: tuple[int, int]) -> bool:
        like: Any = self.like
        return type(like) is Tensor or tuple(like.canvas_size) == size

    def put(self, holder: Any, value: Tensor, size: tuple[int, int] | None = None) -> None:
        if value.dtype is not self.value.dtype:
            value = value.to(self.value.dtype)
        if type(self.like) is not Tensor:
            fields = {} if size is None else {"canvas_size": size}
            value = tv_wrap(value, self.like, **fields)
        holder[self.entry.key] = value


class _Mask(DirectTarget):
    __slots__ = ("fill",)

    def fits(self, size: tuple[int, int], options: TargetOptions) -> bool:
        value = self.value
        self.fill = mask_fill_of(self.entry.per_box, value, options)
        return value.dtype in NAMES and value.shape[-2:] == size and holds(value.dtype, self.fill)

    def move(self, plans: Sequence[Any], holder: Any) -> None:
        value, (address, strides) = self.value, self.pointer  # type: ignore[misc]
        several, dtype, fill = len(strides) == 3, NAMES[value.dtype], float(self.fill)
        count = value.shape[0] if several else 1
        for plan in plans:
            if plan.is_identity:
                continue
            shape = (count, *plan.size) if several else plan.size
            moved = torch.empty(shape, dtype=value.dtype, device="cpu")
            source = address, strides if several else (0, *strides)
            address, strides = _pointer(moved)
            target = address, strides if several else (0, *strides)
            _native.move_drawn_masks(plan, source, target, dtype, count, fill)
            value = moved
        self.put(holder, value)


class _Boxes(DirectTarget):
    __slots__ = ()

    def fits(self, size: tuple[int, int], options: TargetOptions) -> bool:
        value, like = self.value, self.like
        if value.dtype not in _FLOATS or value.shape[1] != 4 or not self.fits_canvas(size):
            return False
        if type(like) is not Tensor and like.format.value != "XYXY":  # type: ignore[attr-defined]
            return False
        wide = value.dtype is torch.float64
        assert self.pointer is not None
        return _native.are_placed_boxes(self.pointer, value.shape[0], wide)

    def move(self, plans: Sequence[Any], holder: Any) -> None:
        value, source = self.coordinates(plans)
        count, wide = value.shape[0], value.dtype is torch.float64
        for plan in plans:
            if plan.is_identity:
                continue
            moved = torch.empty((count, 4), dtype=value.dtype, device="cpu")
            target = _pointer(moved)
            _native.move_drawn_boxes(plan, source, target, count, wide)
            value, source = moved, target
        self.put(holder, value, plans[-1].size)


class _Points(DirectTarget):
    __slots__ = ("shift",)

    def fits(self, size: tuple[int, int], options: TargetOptions) -> bool:
        value = self.value
        self.shift = CONVENTIONS[options.keypoint_convention]
        usual = value.dtype in _FLOATS and value.shape[-1] in (2, 3) and value.is_contiguous()
        return usual and self.fits_canvas(size)

    def move(self, plans: Sequence[Any], holder: Any) -> None:
        (value, _), entry = self.coordinates(plans), self.entry
        shape, width = value.shape, value.shape[-1]
        strides, wide = (width, 1), value.dtype is torch.float64
        visible: Tensor | None = None
        for plan in plans:
            moved = torch.empty(shape, dtype=value.dtype, device="cpu")
            flags = torch.empty(shape[:-1], dtype=torch.bool, device="cpu")
            _native.move_drawn_points(
                plan,
                (value.data_ptr(), strides),
                (moved.data_ptr(), strides),
                (flags.data_ptr(), (1,)),
                flags.numel(),
                width,
                wide,
                self.shift,
            )
            visible = flags if visible is None else visible & flags
            if not plan.is_identity or width == 3:
                value = moved
        self.put(holder, value, plans[-1].size)
        if entry.flagged and width == 2:
            holder[f"{entry.key}_visible"] = visible


def _pointer(value: Tensor) -> tuple[int, tuple[int, ...]]:
    return value.data_ptr(), value.stride()


_KINDS: dict[str, type[DirectTarget]] = {"mask": _Mask, "boxes": _Boxes, "keypoints": _Points}
