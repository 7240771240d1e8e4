"""Transforms of boxes alone: their format, clipping, and dropping what is too small."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..arguments import fail, number, one_of
from ..base import Transform
from ..chain.effects import TargetStep
from ..sample.entries import count_of
from ..sample.leaf import Leaf, tv_kind
from ..targets.finish import clamp, keep_only, sides_of
from ..targets.options import TargetOptions, check_sanitize
from ..targets.polygons import ROTATED, convert_rotated, numbers_on_cpu, rotated_corners
from ..targets.rows import areas_of, from_corners, rows_of, to_corners

__all__ = [
    "ClampBoundingBoxes",
    "ConvertBoundingBoxFormat",
    "SanitizeBoundingBoxes",
    "SanitizeKeyPoints",
]

_UPRIGHT = ("XYXY", "XYWH", "CXCYWH")
_UNSET = TargetOptions(min_visibility=1.0)  # so that cuts are noted, for boxes dropped later


class _BoxStep(TargetStep, Transform):
    """Runs on the boxes of a sample."""

    def run(self, leaves: Sequence[Leaf], sizes: np.ndarray) -> None:
        for leaf in leaves:
            if leaf.kind == "boxes":
                self.run_boxes(leaf, leaves, sizes)

    @abstractmethod
    def run_boxes(self, leaf: Leaf, leaves: Sequence[Leaf], sizes: np.ndarray) -> None:
        """Change the boxes of one leaf."""


class ConvertBoundingBoxFormat(_BoxStep):
    """Change the format of boxes.

    Parameters
    ----------
    format : str or tv_tensors.BoundingBoxFormat
        "XYXY", "XYWH" or "CXCYWH" for upright boxes, "XYWHR", "CXCYWHR" or "XYXYXYXY" for rotated
        ones. Case doesn't matter.

    Raises
    ------
    ValueError
        `format` is something else; or boxes are upright and it is rotated, or the reverse.

    Notes
    -----
    Boxes of a plain tensor, array or list count as "XYXY", and come out as numbers in the new
    format. It needs no pass of its own and may stand anywhere in a chain: what follows moves the
    boxes in their new format. Integers are rounded to even, once, at the end of the chain.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> chain = transforms.Compose([transforms.ConvertBoundingBoxFormat("CXCYWH")])
    >>> chain({"image": torch.zeros(3, 40, 60), "boxes": [[10, 5, 30, 25]]})["boxes"]
    [[20.0, 15.0, 20.0, 20.0]]
    """

    commutes = True

    def __init__(self, format: Any) -> None:
        super().__init__()
        name = getattr(format, "value", format)
        allowed = f"one of {', '.join((*_UPRIGHT, *ROTATED))}"
        if not isinstance(name, str):
            fail("ConvertBoundingBoxFormat", "format", format, allowed, TypeError)
        if name.upper() not in (*_UPRIGHT, *ROTATED):
            fail("ConvertBoundingBoxFormat", "format", format, allowed)
        self.format = name.upper()

    def run_boxes(self, leaf: Leaf, leaves: Sequence[Leaf], sizes: np.ndarray) -> None:
        if (leaf.format in ROTATED) != (self.format in ROTATED):
            raise ValueError(
                f"visops.transforms.ConvertBoundingBoxFormat: format is {self.format!r}, "
                f"{leaf.name} has {leaf.format}; must be rotated for rotated boxes only"
            )
        if leaf.format in ROTATED:
            convert_rotated(leaf, self.format)
        else:
            rows, _, restore = rows_of(leaf.value, leaf.batch, 4)
            leaf.value = restore(from_corners(to_corners(rows, leaf.format), self.format))
        leaf.format = self.format


class ClampBoundingBoxes(_BoxStep):
    """Clip boxes to the image, at this point of the chain.

    ``Compose(boxes="clamp")`` does it after every pass.

    Parameters
    ----------
    clamping_mode : {"auto", "soft", "hard"} or None
        "auto" is the mode that a ``tv_tensors.BoundingBoxes`` has, and "soft" for other boxes. None
        leaves boxes as they are. For upright boxes, "soft" and "hard" are the same. A rotated box
        becomes the smallest one of the same angle around what the image shows of it ("soft");
        "hard" is an error for it.

    Raises
    ------
    ValueError
        `clamping_mode` is something else.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> clamp = transforms.ClampBoundingBoxes()
    >>> clamp({"image": torch.zeros(3, 40, 60), "boxes": [[-5.0, 5.0, 90.0, 25.0]]})["boxes"]
    [[0.0, 5.0, 60.0, 25.0]]
    """

    def __init__(self, clamping_mode: str | None = "auto") -> None:
        super().__init__()
        if clamping_mode is not None:
            owner, allowed = "ClampBoundingBoxes", "'auto', 'soft', 'hard' or None"
            one_of(owner, "clamping_mode", clamping_mode, ("auto", "soft", "hard"), allowed)
        self.clamping_mode = clamping_mode

    def run_boxes(self, leaf: Leaf, leaves: Sequence[Leaf], sizes: np.ndarray) -> None:
        mode = _clamping_of(leaf) if self.clamping_mode == "auto" else self.clamping_mode
        if mode is None:
            return
        areas = areas_of(leaf, leaves)
        if leaf.format in ROTATED and mode == "hard":
            raise ValueError(
                f"visops.transforms.ClampBoundingBoxes: clamping_mode is 'hard', {leaf.name} has "
                "rotated boxes; must be 'soft' or None"
            )
        clamp(leaf, areas, sizes, _UNSET)


def _clamping_of(leaf: Leaf) -> Any:
    """Return the clamping mode of boxes."""
    if leaf.clamping != "":
        return leaf.clamping
    like = _typed_boxes(leaf)
    return "soft" if like is None else getattr(like, "clamping_mode", "soft")


def _typed_boxes(leaf: Leaf) -> Any:
    """Return the boxes as they came, or the first of them, if they have torchvision's type."""
    like = leaf.like
    while isinstance(like, (list, tuple)) and len(like) > 0:
        like = like[0]
    return like if tv_kind(like) == "boxes" else None


class SanitizeBoundingBoxes(_BoxStep):
    """Drop boxes that are too small or reach beyond the image, and what belongs to them.

    Boxes that a transform of the chain has moved are clamped before, as torchvision's transforms
    do it, unless their ``clamping_mode`` is None. Those that reached beyond the image from the
    start, and never moved, are dropped: put :class:`ClampBoundingBoxes` before it.

    Parameters
    ----------
    min_size : float
        Boxes with a shorter side are dropped. At least 1.
    min_area : float
        Boxes with a smaller area are dropped. At least 1.
    labels_getter : {"default"} or None
        "default": what belongs to a box goes with it, as ``Compose(boxes="sanitize")`` tells it:
        labels, scores, masks, key points, polygons, and every list in the same dict that has an
        entry per box (more names with ``Compose(keys=...)``). None: only boxes, masks, key points
        and polygons go.

    Raises
    ------
    TypeError, ValueError
        An argument is wrong; boxes of a batch are in one array, which can't lose some; it isn't
        clear what belongs to the boxes; or it is within a RandomApply that runs sample by sample.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> sample = {
    ...     "image": torch.zeros(3, 40, 60),
    ...     "boxes": torch.tensor([[10.0, 5.0, 30.0, 25.0], [50.0, 5.0, 50.5, 9.0]]),
    ...     "labels": ["cat", "bird"],
    ... }
    >>> transforms.SanitizeBoundingBoxes()(sample)["labels"]
    ['cat']
    """

    def __init__(
        self, min_size: float = 1.0, min_area: float = 1.0, labels_getter: Any = "default"
    ) -> None:
        super().__init__()
        owner = "SanitizeBoundingBoxes"
        self.min_size = number(owner, "min_size", min_size, 1.0, allowed="a finite number >= 1")
        self.min_area = number(owner, "min_area", min_area, 1.0, allowed="a finite number >= 1")
        is_default = isinstance(labels_getter, str) and labels_getter == "default"
        if labels_getter is not None and not is_default:
            allowed = "'default' or None (Compose(keys={'labels': [...]}) names what goes)"
            fail(owner, "labels_getter", labels_getter, allowed, TypeError)
        self.labels_getter = labels_getter

    def run(self, leaves: Sequence[Leaf], sizes: np.ndarray) -> None:
        if any(leaf.source is not None for leaf in leaves):
            raise ValueError(
                "visops.transforms.SanitizeBoundingBoxes: the samples of a batch run one by one "
                "here, and labels can't follow; must be in the chain itself, not within another "
                "transform"
            )
        if self.labels_getter is not None:
            check_sanitize(leaves)
        super().run(leaves, sizes)

    def run_boxes(self, leaf: Leaf, leaves: Sequence[Leaf], sizes: np.ndarray) -> None:
        # Plain boxes have no mode of their own: a chain says None of them to keep them.
        if leaf.moved and (_clamping_of(leaf) is not None or _typed_boxes(leaf) is None):
            areas = areas_of(leaf, leaves)
            clamp(leaf, areas, sizes, _UNSET)
        keeps = []
        for value, size in zip(leaf.samples(), sizes, strict=True):
            sides = sides_of(value, leaf.format)
            keep = (sides >= self.min_size).all(-1) & (sides[:, 0] * sides[:, 1] >= self.min_area)
            if leaf.format in ROTATED:
                corners = rotated_corners(numbers_on_cpu(value), leaf.format)
                within = ((corners >= 0.0) & (corners <= size[::-1])).all((1, 2))
                if isinstance(value, Tensor):
                    within = torch.from_numpy(within).to(value.device)
            else:
                x1, y1, x2, y2 = to_corners(value, leaf.format).T
                within = (x1 >= 0.0) & (y1 >= 0.0) & (x2 <= int(size[1])) & (y2 <= int(size[0]))
            keeps.append(keep & within)
        members = [x for x in leaves if x.group == leaf.group and x.per_box]
        if self.labels_getter is None:
            members = [x for x in members if x.kind not in ("labels", "area")]
        keep_only(leaf, members, keeps)


class SanitizeKeyPoints(TargetStep, Transform):
    """Drop key points outside of the image, and the labels that belong to them.

    torchvision's transform of this name: inside is ``0 <= x < W`` and ``0 <= y < H``. Of groups
    ``[N, K, 2]``, those go of which a point is outside.

    Parameters
    ----------
    labels_getter : {"default"} or None
        "default": labels in the same dict that have an entry for each go with them. None: only
        key points go, and their visibilities.

    Raises
    ------
    TypeError, ValueError
        The argument is wrong; the key points belong to boxes, with which they go; or those of a
        batch are in one array, which can't lose some.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> points = torch.tensor([[3.0, 4.0], [60.0, 5.0]])
    >>> sample = {"image": torch.zeros(3, 40, 60), "keypoints": points}
    >>> transforms.SanitizeKeyPoints()(sample)["keypoints"]
    tensor([[3., 4.]])
    """

    def __init__(self, labels_getter: Any = None) -> None:
        super().__init__()
        is_default = isinstance(labels_getter, str) and labels_getter == "default"
        if labels_getter is not None and not is_default:
            allowed = "'default' or None (Compose(keys={'labels': [...]}) names what goes)"
            fail("SanitizeKeyPoints", "labels_getter", labels_getter, allowed, TypeError)
        self.labels_getter = labels_getter

    def run(self, leaves: Sequence[Leaf], sizes: np.ndarray) -> None:
        for leaf in leaves:
            if leaf.kind == "keypoints":
                self._run_points(leaf, leaves, sizes)

    def _run_points(self, leaf: Leaf, leaves: Sequence[Leaf], sizes: np.ndarray) -> None:
        owner = "visops.transforms.SanitizeKeyPoints"
        if leaf.per_box:
            raise ValueError(
                f"{owner}: {leaf.name} belong to boxes, and would be fewer; must be dropped with "
                "them (SanitizeBoundingBoxes, or Compose(boxes='sanitize'))"
            )
        if leaf.batch is not None and not isinstance(leaf.value, list):
            raise ValueError(
                f"{owner}: {leaf.name} has shape {list(leaf.value.shape)}; must be a list of each "
                "sample's key points, which keep different numbers of them"
            )
        keeps = []
        for value, (height, width) in zip(leaf.samples(), sizes.tolist(), strict=True):
            x, y = value[..., 0], value[..., 1]
            inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
            keeps.append(inside.reshape(len(inside), -1).all(-1))
        members = [] if leaf.partner is None else [leaf.partner]
        if self.labels_getter is not None:
            labels = [x for x in leaves if x.kind == "labels" and x.group == leaf.group]
            for member in labels:
                if [count_of(own) for own in member.samples()] != [len(keep) for keep in keeps]:
                    raise ValueError(
                        f"{owner}: {member.name} hasn't an entry for each of {leaf.name}; must "
                        "have one, or be of another kind (keys={'other': [...]})"
                    )
            members += labels
        keep_only(leaf, members, keeps)
