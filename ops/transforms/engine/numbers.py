"""Arithmetic on numbers that are floats for one sample and arrays ``[B]`` for a batch.

NOTE on numbers and arrays. A chain draws and combines some sixty numbers per sample. A NumPy
operation costs the same for one sample as for thirty, about as much as ten operations on Python
floats. So the transforms' formulas are written once, with operators and the functions of this
module, and run on either: on floats for a sample in a data loader, on arrays for a batch. Both
perform the same IEEE operations in the same order, and cosine, sine and exponential come from the
same C library, one number at a time. A sample's parameters therefore have the same bits alone and
in any batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

__all__ = [
    "GREY",
    "Number",
    "Params",
    "all_true",
    "any_true",
    "as_arrays",
    "as_numbers",
    "ceil",
    "columns",
    "cos",
    "exp",
    "floor",
    "maximum",
    "minimum",
    "negate",
    "rint",
    "sin",
    "sqrt",
    "trunc",
    "where",
]

# ITU-R BT.601's luma, rounded as in torchvision and Pillow: the weights add up to 0.9999.
GREY = (0.2989, 0.587, 0.114)

# A float (or a bool, for conditions), or an array [B] of them. A number that all samples of a batch
# share may be a float as well.
Number = Any
Params = dict[str, Any]


def floor(x: Number) -> Number:
    return float(math.floor(x)) if type(x) is float else np.floor(x)


def ceil(x: Number) -> Number:
    return float(math.ceil(x)) if type(x) is float else np.ceil(x)


def trunc(x: Number) -> Number:
    return float(math.trunc(x)) if type(x) is float else np.trunc(x)


def rint(x: Number) -> Number:
    """Round half to even."""
    return float(round(x)) if type(x) is float else np.rint(x)


def sqrt(x: Number) -> Number:
    return math.sqrt(x) if type(x) is float else np.sqrt(x)


def exp(x: Number) -> Number:
    return math.exp(x) if type(x) is float else _each(math.exp, x)


def cos(x: Number) -> Number:
    return math.cos(x) if type(x) is float else _each(math.cos, x)


def sin(x: Number) -> Number:
    return math.sin(x) if type(x) is float else _each(math.sin, x)


def _each(function: Callable[[float], float], x: np.ndarray) -> np.ndarray:
    return np.array([function(value) for value in x.tolist()])


def minimum(x: Number, y: Number) -> Number:
    return min(x, y) if type(x) is float and type(y) is float else np.minimum(x, y)


def maximum(x: Number, y: Number) -> Number:
    return max(x, y) if type(x) is float and type(y) is float else np.maximum(x, y)


def where(condition: Number, x: Number, y: Number) -> Number:
    if type(condition) is bool:
        return x if condition else y
    return np.where(condition, x, y)


def negate(condition: Number) -> Number:
    return not condition if type(condition) is bool else ~condition


def all_true(condition: Number) -> bool:
    return condition if type(condition) is bool else bool(condition.all())


def any_true(condition: Number) -> bool:
    return condition if type(condition) is bool else bool(condition.any())


def columns(numbers: Sequence[Number], batch: int) -> np.ndarray:
    """Put numbers side by side, float64 ``[B, len(numbers)]``."""
    if batch == 1:
        try:
            out = np.array((numbers,), np.float64)
        except ValueError:  # floats mixed with arrays [1]
            pass
        else:
            if out.ndim == 2:
                return out
    out = np.empty((batch, len(numbers)))
    for column, number in enumerate(numbers):
        out[:, column] = number
    return out


def as_arrays(params: Mapping[str, Any], batch: int) -> dict[str, np.ndarray]:
    """Give every parameter a first dimension of B."""
    arrays = {}
    for name, value in params.items():
        if isinstance(value, np.ndarray) and value.ndim > 0:
            arrays[name] = value
        else:
            arrays[name] = np.array([value] * batch)
    return arrays


def as_numbers(arrays: Mapping[str, np.ndarray]) -> Params:
    """Undo as_arrays for a single sample; return a batch unchanged."""
    return {
        name: array[0].tolist() if array.shape[0] == 1 else array for name, array in arrays.items()
    }
