"""Marks Python functions that torch.compile should call, not trace."""

import contextlib
import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

import torch

P = ParamSpec("P")
R = TypeVar("R")


def outside_graphs(function: Callable[P, R]) -> Callable[P, R]:
    """Let torch.compile call a function as it is: the graph breaks once, there.

    ``torch.compiler.disable`` does the same, but imports the compiler when it decorates.

    NOTE: the function may be an `__init__`. A graph that breaks in there would have to hold a
    module that has none of a module's attributes yet, which the compiler can't. So it must not
    compile the frame of `called`, nor what that calls, where the graph around has broken.
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        if torch.compiler.is_dynamo_compiling():
            from .tracing import call_outside_graphs

            return call_outside_graphs(function, *args, **kwargs)
        return function(*args, **kwargs)

    with contextlib.suppress(AttributeError):  # in a torch that has no such functions
        frames: Any = torch._C._dynamo.eval_frame
        skip, made = frames._FrameAction.SKIP, cast(FunctionType, called)
        frames.set_code_exec_strategy(made.__code__, frames._FrameExecStrategy(skip, skip))
    return called
