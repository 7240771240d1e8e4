"""Captures the operator call inside a chain of transforms, to repeat it without the chain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class _Calls(TorchDispatchMode):
    """Records calls of our operators."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Callable[[], torch.Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def call() -> Any:
            return func(*args, **(kwargs or {}))

        if func.namespace == "visops":
            self.made.append(call)
        return call()


def operator_call(chain: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    """Return what `chain` does to the pixels, with its parameters already computed.

    That is its last call: the small picture that a contrast takes its mean of comes before.
    """
    with _Calls() as calls:
        result = chain()
    again = calls.made[-1]
    if not torch.equal(again(), result):
        raise AssertionError("the chain is more than one call of the operator")
    return again
