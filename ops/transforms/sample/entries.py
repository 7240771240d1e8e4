"""Sequences of any type: how many entries they have, their rank, and a selection of them.

Labels come as lists, tuples, tensors and arrays, and just as well as ``deque``, ``range``,
``array.array``, ``UserList`` or a pandas Series. What holds for one of them holds for all.
"""

import array
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .leaf import is_pil

_TEXT = (str, bytes, bytearray, memoryview)
_NUMBERS = (bool, int, float, complex, np.generic)


def is_sequence(value: Any) -> bool:
    """Return whether a value has entries in an order: a list, but neither an array nor a text."""
    if isinstance(value, (list, tuple)):
        return True
    if isinstance(value, (*_TEXT, Tensor, np.ndarray)):
        return False
    return isinstance(value, Sequence) or _dimensions(value) == 1


def _dimensions(value: Any) -> int:
    """Return the dimensions of what another library calls an array, or a table; 0: it is none."""
    return len(getattr(value, "shape", ())) if hasattr(value, "__array__") else 0


def count_of(value: Any) -> int | None:
    """Return how many entries a value has; None if they have no order, or if it has none."""
    if isinstance(value, (Tensor, np.ndarray)):
        return value.shape[0] if value.ndim else None
    return len(value) if is_sequence(value) or _dimensions(value) > 1 else None


def rank_of(value: Any) -> int | None:
    """Return the dimensions of a value made of numbers: 2 for a list of rows, a table or a map.

    None: there is something else in it, or entries differ in rank. An empty sequence has one
    dimension.
    """
    if isinstance(value, Tensor):
        return value.dim()
    if isinstance(value, np.ndarray) and (value.dtype.kind != "O" or value.ndim > 1):
        return value.ndim if value.dtype.kind in "biufcO" else None
    if isinstance(value, _NUMBERS):
        return 0
    if is_pil(value):
        return 2
    if not isinstance(value, np.ndarray):
        if _dimensions(value) > 1:
            return _dimensions(value)
        if not is_sequence(value):
            return None
    ranks = set(map(rank_of, value))
    if len(ranks) > 1:
        return None
    inner = ranks.pop() if ranks else 0
    return None if inner is None else 1 + inner


def rebuilt(like: Any, items: Iterable[Any]) -> Any:
    """Return a sequence of the type of `like` with other entries; a list where it can't hold them.

    A range and a named tuple have no room for any entries but their own.
    """
    if isinstance(like, array.array):
        return array.array(like.typecode, items)
    if isinstance(like, range) or hasattr(like, "_fields") or _dimensions(like):
        return list(items)
    return type(like)(items)


def ungrouped(value: Any, count: int, name: str) -> list[Any]:
    """Return what each of a batch's samples has of an array or a sequence.

    Raises
    ------
    ValueError
        It has another number of entries.
    """
    length = count_of(value)
    if length != count:
        raise ValueError(
            f"visops.transforms: {name} has {'no' if length is None else length} entries, must "
            f"have one for each of {count} images"
        )
    return list(value)


def regrouped(like: Any, samples: Sequence[Any]) -> Any:
    """Undo `ungrouped`, with other entries."""
    if isinstance(like, Tensor):
        return torch.stack(list(samples))
    return np.stack(samples) if isinstance(like, np.ndarray) else rebuilt(like, samples)


def selected(value: Any, flags: np.ndarray) -> Any:
    """Return the entries of a sequence that have a flag, in a sequence of the same type."""
    if hasattr(value, "iloc"):  # pandas: with the names of its rows
        return value.iloc[np.flatnonzero(flags)]
    if _dimensions(value) and hasattr(value, "filter"):  # polars
        return value.filter(flags.tolist())
    return rebuilt(value, [item for item, keep in zip(value, flags.tolist(), strict=True) if keep])
