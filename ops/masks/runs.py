"""Runs of masks on the host: COCO's RLE dictionaries as arrays, and what is computed from them.

The functions are in csrc/python/runs.cpp.
"""

import itertools
import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

import numpy as np
from torch import Tensor

from .. import _native
from .._torch.numbers import has_order

Size = tuple[int, int]

_MOST_PIXELS = 2**31


class Runs(NamedTuple):
    """Where runs of 0s and 1s end, in pixels from the beginning of their mask, column by column."""

    ends: np.ndarray  # int32 [runs]
    offsets: np.ndarray  # int64 [N + 1] where masks begin among the runs


class RLE(TypedDict):
    """The run lengths of a mask, in a dictionary of COCO's tools.

    Attributes
    ----------
    size : list of int
        Height and width.
    counts : bytes, str or list of int
        Lengths of runs of 0s and 1s in turn, the first of 0s, down the columns.
    """

    size: list[int]
    counts: Any


def offsets_of(lengths: Any) -> np.ndarray:
    """Return where lists of these lengths begin, one after another, and where the last one ends."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def as_rles(runs: Runs, size: Size, *, compressed: bool) -> list[RLE]:
    """Return masks of one size as COCO's dictionaries."""
    offsets = runs.offsets
    counts: list[Any]
    if compressed:
        text, ends = _native.write_run_text(*runs)
        whole, bounds = text[: ends[-1]].tobytes(), ends.tolist()
        counts = [whole[a:b] for a, b in itertools.pairwise(bounds)]
    else:
        lengths = np.diff(runs.ends, prepend=np.int32(0))
        lengths[offsets[:-1]] = runs.ends[offsets[:-1]]  # each mask has a run
        whole_list, bounds = lengths.tolist(), offsets.tolist()
        counts = [whole_list[a:b] for a, b in itertools.pairwise(bounds)]
    return [{"size": [size[0], size[1]], "counts": each} for each in counts]


def runs_of_rles(op: str, name: str, rles: Sequence[Any]) -> tuple[Runs, list[Size]]:
    """Return the runs of RLEs, whose counts are bytes, strings or integers, and their sizes.

    Raises
    ------
    TypeError
        An entry is no dictionary.
    ValueError
        An entry is no RLE; the message names it.
    """
    sizes: list[Size] = []
    counts: list[bytes | np.ndarray] = []
    for i, rle in enumerate(rles):
        label = f"{name}[{i}]"
        if not isinstance(rle, Mapping):
            raise TypeError(
                f"visops.{op}: {label} is a {type(rle).__name__}, must be a dict with 'size' and "
                "'counts'"
            )
        for key in ("size", "counts"):
            if key not in rle:
                raise ValueError(f"visops.{op}: {label} has no {key!r}, must have it")
        sizes.append(size_of(op, f"{label}['size']", rle["size"]))
        counts.append(_counts(op, f"{label}['counts']", rle["counts"]))
    pixels = np.array([h * w for h, w in sizes], np.int64)
    parts: list[Runs] = []
    begin = 0
    while begin < len(counts):  # nearly always once: neighbours of one kind go together
        is_text = isinstance(counts[begin], bytes)
        end = begin + 1
        while end < len(counts) and isinstance(counts[end], bytes) == is_text:
            end += 1
        read = _read_text if is_text else _read_counts
        found, failure = read(counts[begin:end], pixels[begin:end])
        if failure[0]:
            at = begin + failure[1]
            raise ValueError(
                f"visops.{op}: {name}[{at}]['counts'] "
                + _reason(failure[0], failure[2], counts[at], sizes[at])
            )
        parts.append(found)
        begin = end
    return _joined(parts), sizes


def _joined(parts: Sequence[Runs]) -> Runs:
    if len(parts) == 1:
        return parts[0]
    lengths = [np.diff(part.offsets) for part in parts]
    ends = [part.ends for part in parts]
    none = np.empty(0, np.int32)
    return Runs(np.concatenate([none, *ends]), offsets_of(np.concatenate([none, *lengths])))


def size_of(op: str, label: str, size: Any) -> Size:
    """Return height and width, or raise ValueError."""
    try:
        if not has_order(size):
            raise TypeError
        height, width = (operator.index(side) for side in size)
    except (TypeError, ValueError):
        raise ValueError(
            f"visops.{op}: {label} is {size!r}, must be two integers, height and width"
        ) from None
    if height < 0 or width < 0:
        raise ValueError(f"visops.{op}: {label} is {[height, width]}, must be >= 0")
    if height * width >= _MOST_PIXELS:
        raise ValueError(
            f"visops.{op}: {label} is {[height, width]}, must have fewer than 2^31 pixels"
        )
    return height, width


def _counts(op: str, label: str, counts: Any) -> bytes | np.ndarray:
    if isinstance(counts, bytes):
        return counts
    if isinstance(counts, str):
        return counts.encode("utf-8", "surrogatepass")
    if isinstance(counts, Tensor):
        counts = counts.cpu().numpy()
    if isinstance(counts, (list, tuple, np.ndarray)):
        try:
            array = np.asarray(counts)
        except ValueError:  # lists of several lengths
            array = np.asarray("")
        if array.ndim == 1 and len(array) == 0:
            return np.empty(0, np.int64)
        if array.ndim == 1 and array.dtype.kind in "iu":
            return array.astype(np.int64)
    raise ValueError(
        f"visops.{op}: {label} is {_shown(counts)}, must be bytes, a string or a list of integers"
    )


def _shown(value: Any) -> str:
    """Return what a value is, in a few words."""
    text = repr(value)
    return text if len(text) <= 40 and "\n" not in text else f"a {type(value).__name__}"


def _read_text(texts: Sequence[Any], pixels: np.ndarray) -> tuple[Runs, tuple[int, int, int]]:
    begins = offsets_of([len(each) for each in texts])
    ends, offsets, failure = _native.read_run_text(b"".join(texts), begins, pixels)
    return Runs(ends if failure[0] else ends[: offsets[-1]], offsets), failure


def _read_counts(lists: Sequence[Any], pixels: np.ndarray) -> tuple[Runs, tuple[int, int, int]]:
    offsets = offsets_of([len(each) for each in lists])
    ends, failure = _native.read_run_counts(np.concatenate(lists), offsets, pixels)
    return Runs(ends, offsets), failure


def _reason(error: int, detail: int, counts: Any, size: Size) -> str:
    """Return what is wrong with counts; `error` is a RunError of csrc/core/masks/rle.h."""
    if error == 1:
        return (
            f"has {counts[detail : detail + 1]!r} at position {detail}, must be of the characters "
            "'0' to 'o'"
        )
    if error == 2:
        return f"ends within the number that begins at position {detail}, must end after one"
    if error == 3:
        return f"has a number of more than 60 bits at position {detail}, must be < 2^31"
    if error == 4:
        return f"has the count {detail}, must be >= 0"
    return f"has the sum {detail} or more, must be {size[0]} * {size[1]} = {size[0] * size[1]}"


def areas_of(runs: Runs) -> np.ndarray:
    """Return pixels of masks, int64 ``[N]``."""
    return _native.run_areas(*runs)


def boxes_of(runs: Runs, sizes: Sequence[Size]) -> np.ndarray:
    """Return first and last columns and rows of masks, float32 ``[N, 4]``; zeros without pixels."""
    lengths = np.diff(runs.offsets)
    owners = np.arange(len(lengths)).repeat(lengths)
    places = np.arange(len(runs.ends)) - runs.offsets[:-1].repeat(lengths)
    last = np.flatnonzero(places % 2 == 1)  # where runs of 1s end; what is before it ends 0s
    last = last[runs.ends[last] > runs.ends[last - 1]]
    owners, begins, ends = owners[last], runs.ends[last - 1], runs.ends[last] - 1
    heights = np.array([size[0] for size in sizes], np.int64)[owners]
    columns = begins // heights, ends // heights
    crosses = columns[0] != columns[1]  # from one column into the next, at least
    top = np.where(crosses, 0, begins % heights)
    bottom = np.where(crosses, heights - 1, ends % heights)
    boxes = np.zeros((len(lengths), 4), np.float32)
    filled, firsts = np.unique(owners, return_index=True)
    if len(filled):
        low = [np.minimum.reduceat(own, firsts) for own in (columns[0], top)]
        high = [np.maximum.reduceat(own, firsts) for own in (columns[1], bottom)]
        boxes[filled] = np.stack((*low, *high), 1)
    return boxes


def overlaps_of(a: Runs, b: Runs, crowd: np.ndarray | None, height: int) -> np.ndarray:
    """Return overlaps of masks of one size, float64 ``[N, M]``; `crowd` is uint8 ``[M]``."""
    return _native.run_overlaps(*a, *b, crowd, height)


def runs_of_polygons(
    points: np.ndarray, point_offsets: np.ndarray, polygon_offsets: np.ndarray, size: Size
) -> Runs:
    """Return the runs of objects of polygons.

    Parameters
    ----------
    points : float64 ``[P, 2]``
        x, y, finite and below 1e8 in magnitude.
    point_offsets, polygon_offsets : int64
        Where polygons begin among points, and objects among polygons, and where the last ones end.
    size : (int, int)
    """
    ends, offsets = _native.polygon_runs(points, point_offsets, polygon_offsets, *size)
    return Runs(ends[: offsets[-1]], offsets)
