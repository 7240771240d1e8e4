"""Shapes, without the symbols that torch.compile keeps for them; and which are channels_last."""

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

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
