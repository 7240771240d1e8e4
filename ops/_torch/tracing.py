"""What torch.compile must know of Python functions; to be imported only while it traces.

Marking a function imports the compiler: a second, and memory for ten libraries that most programs
never use. So a function that needs a mark calls one of these where torch.compiler.is_compiling().
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


@torch.compiler.assume_constant_result
def call_as_constant(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call now, and let the graph hold the result; the arguments must be constants."""
    return function(*args, **kwargs)


@torch.compiler.disable(reason="its Python reads values or draws random numbers, call by call")
def call_outside_graphs(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Break the graph and call."""
    return function(*args, **kwargs)
