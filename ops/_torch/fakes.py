"""Fake kernels: they say what a result will be, and leave checks to the operator.

A fake kernel infers shapes, dtypes and strides of valid arguments. For others it may say anything:
the C++ fronts check all arguments when the operator runs, and give the message. An error comes from
here only where nothing can be inferred.
"""

import importlib.abc
import importlib.util
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from math import prod
from typing import Any

import torch
from torch import Tensor

from .registering import add_fake_kernel

Kernel = Callable[..., Any]

# What indexing shapes, unpacking them and dividing by them raise.
_NOT_INFERRED = (AttributeError, IndexError, TypeError, ValueError, ZeroDivisionError)


def register_fake(op: str, called: str, kernel: Kernel) -> None:
    """Register the fake kernel of an operator, which errors call `called`."""
    schema = getattr(torch.ops.visops, op).default._schema.arguments
    names = [argument.name for argument in schema]

    def inferred(*arguments: Any) -> Any:
        _check_devices(called, names, arguments)
        try:
            return kernel(*arguments)
        except _NOT_INFERRED as error:
            given = ", ".join(_described(names, arguments)) or "no tensors"
            raise RuntimeError(
                f"visops.{called}: no result can be inferred from {given}; the operator itself, "
                "called with real tensors, says what they must be"
            ) from error

    add_fake_kernel(op, inferred)


def no_result(*_: Any) -> None:
    """Be the fake kernel of an operator that writes into an argument."""


def contiguous_like(position: int) -> Kernel:
    """Return the fake kernel of a contiguous result, like the argument at that position."""

    def kernel(*arguments: Any) -> Tensor:
        return torch.empty_like(arguments[position], memory_format=torch.contiguous_format)

    return kernel


def dynamic_size() -> Any:
    """Return the size of a result that depends on values: 0 or more."""
    return torch.library.get_ctx().new_dynamic_size(min=0)


def _tensors(names: Sequence[str], arguments: Sequence[Any]) -> Iterator[tuple[str, Tensor]]:
    for name, value in zip(names, arguments, strict=False):
        if isinstance(value, Tensor):
            yield name, value
        elif isinstance(value, (list, tuple)):
            for i, item in enumerate(value):
                if isinstance(item, Tensor):
                    yield f"{name}[{i}]", item


def _described(names: Sequence[str], arguments: Sequence[Any]) -> Iterator[str]:
    return (f"{name} {list(tensor.shape)}" for name, tensor in _tensors(names, arguments))


def _check_devices(op: str, names: Sequence[str], arguments: Sequence[Any]) -> None:
    """Raise unless all tensors are on one device; `fill` is on the CPU, wherever the others are.

    This can't be left to the operator: torch calls fake kernels for real tensors too, when another
    one is on the meta device, and the result would be memory that nobody wrote.
    """
    reference: tuple[str, Tensor] | None = None
    for name, tensor in _tensors(names, arguments):
        if reference is None:
            reference = name, tensor
        elif name == "fill":
            if not tensor.is_cpu and not (tensor.is_meta and reference[1].is_meta):
                raise RuntimeError(f"visops.{op}: fill is on {tensor.device}, must be on cpu")
        elif tensor.device != reference[1].device:
            raise RuntimeError(
                f"visops.{op}: {name} is on {tensor.device}, {reference[0]} is on "
                f"{reference[1].device}; all tensors must be on one device"
            )


# What torch.utils.flop_counter counts of operators: the products and sums of convolutions.
#
# That module brings Triton, a third of a second, so formulas are registered when somebody imports
# it. Operators that interpolate, compare or sort have none, as torch's own have none.

# Counts a call's products and sums, from its arguments by their names in the schema; shapes stand
# for tensors, and out_shape for the result.
Formula = Callable[[dict[str, Any]], int]
_COUNTER = "torch.utils.flop_counter"
_WAITING: list[tuple[str, Formula]] = []


def _first(known: dict[str, Any], *names: str) -> Any:
    return next(known[name] for name in names if name in known)


def _sums(known: dict[str, Any]) -> int:
    """Return how many sums there are: a gradient's call has as many as its forward's."""
    return prod(_first(known, "grad", "out_shape"))


def layer_flops(known: dict[str, Any]) -> int:
    """Count a layer's, with weights [C_out, C_in, height, width]."""
    return 2 * _sums(known) * prod(_first(known, "weight", "weight_size")[1:])


def filter_flops(known: dict[str, Any]) -> int:
    """Count a filter's, with a kernel [..., height, width]."""
    return 2 * _sums(known) * prod(_first(known, "kernel", "kernel_size")[-2:])


def separable_flops(known: dict[str, Any]) -> int:
    """Count those of a filter of rows and columns, which images share or not."""
    taps = len(known["rows"]) + len(known["columns"])
    return 2 * _sums(known) * (taps if known.get("shared", True) else taps // known["images"][0])


def _register(name: str, formula: Formula) -> None:
    packet = getattr(torch.ops.visops, name)
    names = [argument.name for argument in packet.default._schema.arguments]

    def flops(*shapes: Any, out_shape: Any = None, **named: Any) -> int:
        return formula({**dict(zip(names, shapes, strict=False)), **named, "out_shape": out_shape})

    sys.modules[_COUNTER].register_flop_formula(packet)(flops)


class _Finder(importlib.abc.MetaPathFinder):
    """Registers the formulas when the counter's module has been loaded."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name != _COUNTER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def executed(module: Any) -> None:
                execute(module)
                for waiting in _WAITING:
                    _register(*waiting)

            spec.loader.exec_module = executed  # type: ignore[method-assign]
        return spec


def count_flops(name: str, formula: Formula) -> None:
    """Register an operator's formula, now or when torch.utils.flop_counter is imported."""
    if _COUNTER in sys.modules:
        _register(name, formula)
        return
    if not _WAITING:
        sys.meta_path.insert(0, _Finder())
    _WAITING.append((name, formula))


# Shapes, without the symbols that torch.compile keeps for them; and which are channels_last.

_is_compiling = torch.compiler.is_compiling


def holds(condition: Any) -> bool:
    """Whether a condition on sizes holds; False where a graph can't know.

    Sizes that depend on values, such as the number of boxes that an nms keeps, have no number while
    a graph is made, and torch refuses to be asked whether they are 0 or 1.
    """
    if isinstance(condition, bool) and not _is_compiling():  # Dynamo's symbols say they are bool
        return condition
    if isinstance(condition, torch.Tensor):  # of sizes that torch.jit.trace follows
        return bool(condition)
    from torch.fx.experimental.symbolic_shapes import guard_or_false

    return bool(guard_or_false(condition))


def is_known(size: Any) -> bool:
    """Whether a size has a number, which a graph may be specialised to."""
    return holds(size >= 2) or holds(size < 2)


def differs(size: Any, *allowed: Any) -> bool:
    """Whether a size is none of the allowed ones, as far as is known."""
    return all(holds(size != one) for one in allowed)


def is_contiguous(tensor: torch.Tensor) -> bool:
    """Whether a tensor is contiguous; of sizes that depend on values torch refuses to say so."""
    if not _is_compiling() and {*map(type, tensor.shape)} <= {int}:
        return tensor.is_contiguous()
    step: Any = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if not holds(size == 1):
            if not holds(stride == step):
                return any_zero(tensor.shape)
            step = step * size
    return True


def any_zero(sizes: Sequence[Any]) -> bool:
    """Whether one of the sizes is 0, as far as is known: see holds()."""
    if not _is_compiling() and {*map(type, sizes)} <= {int}:
        return 0 in sizes
    return any(holds(n == 0) for n in sizes)


def broadcast_shapes(*shapes: Sequence[Any]) -> tuple[Any, ...]:
    """Return the shape to which all of these broadcast.

    torch's own function imports SymPy, which takes a second, for plain numbers too.

    Raises
    ------
    RuntimeError
        Where they don't broadcast.
    """
    if _is_compiling() or any(type(n) is not int for shape in shapes for n in shape):
        return tuple(torch.broadcast_shapes(*shapes))
    result: list[int] = []
    for sizes in itertools.zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1):
        size, *others = {*sizes} - {1} or {1}
        if others:
            raise RuntimeError(f"the shapes {[list(shape) for shape in shapes]} don't broadcast")
        result.append(size)
    return tuple(reversed(result))


def prefers_channels_last(maps: Tensor) -> bool:
    """Whether a result follows these maps into channels_last; as in csrc/torch/tensor.cpp."""
    return not is_contiguous(maps) and holds(maps.shape[1] > 1) and holds(maps.stride(1) == 1)


def empty_maps(
    like: Tensor, shape: Sequence[Any], channels_last: bool, dtype: torch.dtype | None = None
) -> Tensor:
    """Return an empty 4-d tensor on the device of `like`, with its dtype unless one is given."""
    layout = torch.channels_last if channels_last else torch.contiguous_format
    return torch.empty(shape, dtype=dtype or like.dtype, device=like.device, memory_format=layout)
