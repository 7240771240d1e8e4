"""Values of an ONNX graph with Python's operators and a known dtype, and what translations share.

onnxscript's own values know a dtype only where the exporter does, and guess that of constants.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from onnxscript import ir
from onnxscript import opset18 as op

_NAMES = {
    torch.bool: "BOOL",
    torch.uint8: "UINT8",
    torch.int8: "INT8",
    torch.uint16: "UINT16",
    torch.int16: "INT16",
    torch.uint32: "UINT32",
    torch.int32: "INT32",
    torch.uint64: "UINT64",
    torch.int64: "INT64",
    torch.float16: "FLOAT16",
    torch.bfloat16: "BFLOAT16",
    torch.float32: "FLOAT",
    torch.float64: "DOUBLE",
}
_TYPES = {dtype: ir.DataType[name] for dtype, name in _NAMES.items()}
_DTYPES = {kind: dtype for dtype, kind in _TYPES.items()}


def outside_of_onnx(name: str, what: str, way_out: str) -> NotImplementedError:
    """Return the error for an argument that ONNX can't express."""
    return NotImplementedError(f"visops.{name}: ONNX can't express {what}; {way_out}")


class Array:
    """A tensor in the graph."""

    def __init__(self, value: Any, dtype: torch.dtype) -> None:
        self.value, self.dtype = value, dtype

    @property
    def sizes(self) -> list[int | None]:
        """The sizes of an operator's argument; None for those that may change."""
        return [size if isinstance(size, int) else None for size in self.value.shape]

    @property
    def rank(self) -> int:
        """The dimensions of an operator's argument."""
        return len(self.value.shape)

    def _binary(self, kind: str, other: Any, *, swapped: bool = False) -> "Array":
        if not isinstance(other, Array):
            other = constant(other, self.dtype)
        assert other.dtype == self.dtype, (kind, self.dtype, other.dtype)
        pair = (other.value, self.value) if swapped else (self.value, other.value)
        compares = kind in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")
        return Array(getattr(op, kind)(*pair), torch.bool if compares else self.dtype)

    def __add__(self, other: Any) -> "Array":
        return self._binary("Add", other)

    def __radd__(self, other: Any) -> "Array":
        return self._binary("Add", other)

    def __sub__(self, other: Any) -> "Array":
        return self._binary("Sub", other)

    def __rsub__(self, other: Any) -> "Array":
        return self._binary("Sub", other, swapped=True)

    def __mul__(self, other: Any) -> "Array":
        return self._binary("Mul", other)

    def __rmul__(self, other: Any) -> "Array":
        return self._binary("Mul", other)

    def __truediv__(self, other: Any) -> "Array":
        return self._binary("Div", other)

    def __rtruediv__(self, other: Any) -> "Array":
        return self._binary("Div", other, swapped=True)

    def __floordiv__(self, other: Any) -> "Array":
        """Divide integers that are not negative."""
        return self._binary("Div", other)

    def __mod__(self, other: Any) -> "Array":
        """Return the remainder of integers, with the divisor's sign."""
        return self._binary("Mod", other)

    def __neg__(self) -> "Array":
        return Array(op.Neg(self.value), self.dtype)

    def __lt__(self, other: Any) -> "Array":
        return self._binary("Less", other)

    def __le__(self, other: Any) -> "Array":
        return self._binary("LessOrEqual", other)

    def __gt__(self, other: Any) -> "Array":
        return self._binary("Greater", other)

    def __ge__(self, other: Any) -> "Array":
        return self._binary("GreaterOrEqual", other)

    def equals(self, other: Any) -> "Array":
        """Compare element by element."""
        return self._binary("Equal", other)

    def __and__(self, other: "Array") -> "Array":
        return Array(op.And(self.value, other.value), torch.bool)

    def __or__(self, other: "Array") -> "Array":
        return Array(op.Or(self.value, other.value), torch.bool)

    def __invert__(self) -> "Array":
        return Array(op.Not(self.value), torch.bool)

    def to(self, dtype: torch.dtype) -> "Array":
        """Convert the dtype."""
        if dtype == self.dtype:
            return self
        return Array(op.Cast(self.value, to=int(_TYPES[dtype])), dtype)

    def computable(self) -> "Array":
        """Convert what the library computes in float32 to that: everything but float64."""
        return self if self.dtype == torch.float64 else self.to(torch.float32)

    def stored_as(self, dtype: torch.dtype) -> "Array":
        """Convert floats; integers are rounded half to even and saturate."""
        if dtype.is_floating_point or dtype == self.dtype:
            return self.to(dtype)
        if dtype == torch.bool:
            return self.to(dtype)
        limits = torch.iinfo(dtype)
        low, high = constant(limits.min, self.dtype), constant(limits.max, self.dtype)
        rounded = op.Clip(op.Round(self.value), low.value, high.value)
        return Array(rounded, self.dtype).to(dtype)

    def reshape(self, *sizes: Any) -> "Array":
        """Reshape; 0 keeps a size, -1 stands for what is left."""
        return Array(op.Reshape(self.value, integer_vector(sizes).value), self.dtype)

    def shaped(self, shape: "Array") -> "Array":
        """Reshape to a vector of sizes, any of which may be 0."""
        return Array(op.Reshape(self.value, shape.value, allowzero=1), self.dtype)

    def unsqueeze(self, *axes: int) -> "Array":
        """Insert dimensions of size 1."""
        return Array(op.Unsqueeze(self.value, constant(list(axes)).value), self.dtype)

    def squeeze(self, *axes: int) -> "Array":
        """Remove dimensions of size 1."""
        return Array(op.Squeeze(self.value, constant(list(axes)).value), self.dtype)

    def transpose(self, *order: int) -> "Array":
        """Reorder the dimensions."""
        return Array(op.Transpose(self.value, perm=list(order)), self.dtype)

    def expand(self, *sizes: Any) -> "Array":
        """Repeat dimensions of size 1."""
        return Array(op.Expand(self.value, integer_vector(sizes).value), self.dtype)

    def take(self, index: "Array | int | Sequence[int]", axis: int) -> "Array":
        """Select along an axis; the index's dimensions replace it."""
        at = index if isinstance(index, Array) else constant(index)
        return Array(op.Gather(self.value, at.value, axis=axis), self.dtype)

    def compress(self, condition: "Array", axis: int = 0) -> "Array":
        """Keep what fulfils a condition."""
        return Array(op.Compress(self.value, condition.value, axis=axis), self.dtype)

    def size(self, axis: int) -> "Array":
        """Return the size of a dimension >= 0, a number."""
        return Array(op.Shape(self.value, start=axis, end=axis + 1), torch.int64).squeeze(0)

    def total(self, axis: int) -> "Array":
        """Sum along an axis, which disappears."""
        summed = op.ReduceSum(self.value, constant([axis]).value, keepdims=0)
        return Array(summed, self.dtype)


def from_graph(value: Any) -> Any:
    """Return the exporter's values, also those in lists, as arrays; others as they are."""
    if isinstance(value, (list, tuple)):
        return [from_graph(item) for item in value]
    if isinstance(value, ir.DataType):
        return _DTYPES[value]
    if not isinstance(value, ir.Value):
        return value
    assert value.dtype is not None
    return Array(value, _DTYPES[value.dtype])


def to_graph(result: Any) -> Any:
    """Return what the exporter takes."""
    if isinstance(result, tuple):
        return tuple(part.value for part in result)
    return result.value


def constant(value: Any, dtype: torch.dtype = torch.int64) -> Array:
    """Return numbers of that dtype as a part of the graph."""
    array = torch.tensor(np.asarray(value).tolist(), dtype=dtype, device="cpu").numpy()
    tensor: Any = ir.tensor(array)  # the stub knows only protocol buffers
    return Array(op.Constant(value=tensor), dtype)


def node(kind: str, *inputs: Array | None, dtype: torch.dtype | None = None, **options: Any) -> Any:
    """Add a node; return its first output, which has the first input's dtype or the given one."""
    values = [None if i is None else i.value for i in inputs]
    found = next(i.dtype for i in inputs if i is not None) if dtype is None else dtype
    outputs = getattr(op, kind)(*values, **options)
    return Array(outputs[0] if isinstance(outputs, Sequence) else outputs, found)


def where(condition: Array, then: Any, otherwise: Any) -> Array:
    """Select element by element; one of the two may be a number."""
    dtype = then.dtype if isinstance(then, Array) else otherwise.dtype
    pair = [p if isinstance(p, Array) else constant(p, dtype) for p in (then, otherwise)]
    return Array(op.Where(condition.value, pair[0].value, pair[1].value), dtype)


def concat(parts: Sequence[Array], axis: int) -> Array:
    """Join along an axis."""
    return Array(op.Concat(*(p.value for p in parts), axis=axis), parts[0].dtype)


def integer_vector(sizes: Sequence[Any]) -> Array:
    """Return integers, and numbers of the graph, as a vector of int64."""
    if all(isinstance(size, int) for size in sizes):
        return constant(list(sizes))
    parts = [
        constant([size]) if isinstance(size, int) else size.to(torch.int64).reshape(-1)
        for size in sizes
    ]
    return concat(parts, 0)


def arange(count: Any, dtype: torch.dtype = torch.int64) -> Array:
    """Return 0, 1, and so on."""
    end = constant(count) if isinstance(count, int) else count.to(torch.int64).reshape()
    found = op.Range(constant(0).value, end.value, constant(1).value)
    return Array(found, torch.int64).to(dtype)


def parts_of_shape(array: Array, *ranges: tuple[int, int]) -> Array:
    """Return a shape in which each range of dimensions has become one."""
    parts = []
    for start, end in ranges:
        sizes = op.Shape(array.value, start=start, end=end)
        parts.append(Array(op.ReduceProd(sizes, keepdims=1), torch.int64))
    return concat(parts, 0)


def static_integer(name: str, argument: str, value: Any) -> int:
    """Return an integer that ONNX has as an attribute of a node."""
    if isinstance(value, int):
        return value
    raise outside_of_onnx(
        name, f"the argument {argument} where it depends on sizes", "give an integer"
    )


def floored_float32(threshold: float) -> float:
    """Return the float32 that float32 numbers exceed exactly if they exceed the threshold."""
    nearest = np.float32(threshold)
    if float(nearest) > threshold:
        nearest = np.nextafter(nearest, np.float32(-np.inf))
    return float(nearest)
