"""The rows of all samples' boxes and key points together, in float64.

Whether there is one sample or many, in a tensor, an array or a list, the arithmetic runs on all
rows at once, and with NumPy where possible.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..chain.integers import range_of
from ..sample.leaf import Leaf
from .coordinates import box_areas


def numbers(value: Any) -> Any:
    """Convert to float64: to an array, or to a tensor if on a device or if it needs a gradient."""
    array = numpy_view(value)
    return value.to(torch.float64) if array is None else array.astype(np.float64)


def numpy_view(value: Any) -> np.ndarray | None:
    """Return an array, or a tensor as one; None: it is on a device, or needs torch."""
    if not isinstance(value, Tensor):
        return value  # type: ignore[no-any-return]
    torch_only = not value.is_cpu or value.requires_grad or value.dtype == torch.bfloat16
    return None if torch_only else value.numpy()


def areas_of(boxes: Leaf, leaves: Iterable[Leaf]) -> list[Leaf]:
    """Return the leaves that hold the areas of boxes."""
    return [leaf for leaf in leaves if leaf.kind == "area" and leaf.group == boxes.group]


def rows_of(value: Any, batch: int | None, width: int) -> tuple[Any, Any, Callable[[Any], Any]]:
    """Return a target's rows [R, width], the sample of each, and the way back to its form."""
    if not isinstance(value, list):
        rows = numbers(value)
        shape = tuple(rows.shape)
        rows = rows.reshape(-1, width)
        owners: Any = slice(0, 1)
        if batch is not None:
            owners = np.repeat(np.arange(batch), rows.shape[0] // max(batch, 1))
        return rows, owners, lambda moved: moved.reshape(shape)
    parts = [numbers(item) for item in value]
    if any(isinstance(part, Tensor) for part in parts):
        parts = [p if isinstance(p, Tensor) else torch.from_numpy(p) for p in parts]
    shapes = [tuple(part.shape) for part in parts]
    flat = [part.reshape(-1, width) for part in parts]
    counts = [part.shape[0] for part in flat]
    rows = torch.cat(flat) if isinstance(flat[0], Tensor) else np.concatenate(flat)
    ends = np.cumsum(counts).tolist()

    def restore(moved: Any) -> list[Any]:
        pieces = zip(ends, counts, shapes, strict=True)
        return [moved[end - count : end].reshape(shape) for end, count, shape in pieces]

    return rows, np.repeat(np.arange(len(parts)), counts), restore


def sample_of(owners: Any) -> np.ndarray | None:
    """Return the sample of each row, as C++ takes it; None: there is only one."""
    return None if isinstance(owners, slice) else owners


def point_width(leaf: Leaf) -> int:
    """Return the last dimension of key points: 2, or 3 with visibilities."""
    if not isinstance(leaf.value, list):
        return int(leaf.value.shape[-1])
    # A sample without any may have come as an empty list.
    values = [value for value in leaf.value if 0 not in value.shape] or leaf.value[:1]
    widths = {int(value.shape[-1]) for value in values}
    if len(widths) > 1:
        raise ValueError(
            f"visops.transforms: {leaf.name} mixes last dimensions {sorted(widths)}, must have one"
        )
    return widths.pop()


def flat_flags(flags: Any) -> Any:
    """Return the flags of all points of a leaf, [R]."""
    if not isinstance(flags, list):
        return flags.reshape(-1)
    parts = [part.reshape(-1) for part in flags]
    return torch.cat(parts) if isinstance(parts[0], Tensor) else np.concatenate(parts)


def note_visible(leaf: Leaf, seen: Any) -> None:
    """AND flags [R], for all points of a leaf in turn, into those it has."""
    _note(leaf, seen if leaf.visible is None else seen & flat_flags(leaf.visible))


def note_shares(leaf: Leaf, shares: Any) -> None:
    """Multiply shares [R], for all boxes of a leaf in turn, with those it has."""
    _note(leaf, shares if leaf.visible is None else shares * flat_flags(leaf.visible))


def _note(leaf: Leaf, numbers: Any) -> None:
    if not isinstance(leaf.value, list):
        leaf.visible = numbers.reshape(tuple(leaf.value.shape[:-1]))
        return
    leaf.visible, start = [], 0
    for value in leaf.value:
        count = int(np.prod(value.shape[:-1]))
        leaf.visible.append(numbers[start : start + count].reshape(tuple(value.shape[:-1])))
        start += count


def area_shares(before: Any, after: Any) -> Any:
    """Return the share of each box's area that is left."""
    xp: Any = torch if isinstance(before, Tensor) else np
    whole, rest = box_areas(before), box_areas(after)
    return xp.where(whole > 0, rest / xp.where(whole > 0, whole, 1.0), 1.0)


def scale_area(area: Leaf, factor: Any) -> None:
    """Multiply a leaf's areas by factors [R]."""
    rows, _, restore = rows_of(area.value, area.batch, 1)
    if isinstance(rows, Tensor) and not isinstance(factor, Tensor):
        factor = torch.from_numpy(factor)
    elif not isinstance(rows, Tensor) and isinstance(factor, Tensor):
        factor = factor.detach().cpu().numpy()
    factor = factor.to(rows.device) if isinstance(rows, Tensor) else factor
    area.value = restore(rows * factor[:, None])


def restore_dtype(leaf: Leaf) -> None:
    """Restore the dtypes that boxes, points and areas came with; integers saturate."""
    like = leaf.like
    if isinstance(leaf.value, list):
        likes = like if isinstance(like, (list, tuple)) else [like] * len(leaf.value)
        leaf.value = [_as_dtype(v, lk) for v, lk in zip(leaf.value, likes, strict=True)]
    else:
        leaf.value = _as_dtype(leaf.value, like)


def _as_dtype(value: Any, like: Any) -> Any:
    while isinstance(like, (list, tuple)) and like:
        like = like[0]
    if isinstance(like, Tensor):
        if not isinstance(value, Tensor):
            wanted = _NUMPY_FLOATS.get(like.dtype)
            if wanted is not None and like.is_cpu:
                return torch.from_numpy(value.astype(wanted))  # a fraction of Tensor.to's time
            value = torch.from_numpy(value if value.flags.writeable else value.copy())
        if (value.dtype, value.device) == (like.dtype, like.device):
            return value
        if not like.is_floating_point():
            value = value.round()
            if like.dtype is not torch.bool:
                value = value.clamp_(*range_of(torch.iinfo(like.dtype)))
        return value.to(like.device, like.dtype)
    if isinstance(value, Tensor):  # another library's transform made it one
        value = value.numpy()
    if isinstance(like, np.ndarray) and value.dtype != like.dtype:
        if like.dtype.kind != "f":
            value = np.rint(value)
        if like.dtype.kind in "iu":
            value = value.clip(*range_of(np.iinfo(like.dtype)))
        return value.astype(like.dtype)
    return value


_NUMPY_FLOATS = {torch.float64: np.float64, torch.float32: np.float32}
