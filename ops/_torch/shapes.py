"""Shapes, without the symbols that torch.compile keeps for them."""

import itertools
from collections.abc import Sequence
from typing import Any

import torch


def broadcast_shapes(*shapes: Sequence[Any]) -> tuple[Any, ...]:
    """Return the shape to which all of these broadcast.

    torch's own function imports SymPy, which takes a second, for plain numbers too.

    Raises
    ------
    RuntimeError
        Where they don't broadcast.
    """
    if torch.compiler.is_compiling() or any(type(n) is not int for shape in shapes for n in shape):
        return tuple(torch.broadcast_shapes(*shapes))
    result: list[int] = []
    for sizes in itertools.zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1):
        size, *others = {*sizes} - {1} or {1}
        if others:
            raise RuntimeError(f"the shapes {[list(shape) for shape in shapes]} don't broadcast")
        result.append(size)
    return tuple(reversed(result))
