"""Captures the operator calls inside a chain of transforms, to repeat them without the chain."""

from collections.abc import Callable
from typing import Any

import torch
from operators.recorded import OperatorCalls
from visops.warp.augment_autograd import augment, augment_list

# What visops.augment calls once it has read its arguments. For small images it is quicker than the
# operator in torch.ops, which is all that a mode sees.
_QUICKEST = {
    torch.ops.visops.augment.default: augment,
    torch.ops.visops.augment_list.default: augment_list,
}


class Call:
    """A call that can be repeated, and what it returned."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function, self.arguments = function, arguments

    def __call__(self) -> torch.Tensor:
        return self.function(*self.arguments)  # type: ignore[no-any-return]


def operator_call(chain: Callable[[], torch.Tensor]) -> Call:
    """Return what `chain` does to the pixels, with its parameters already computed.

    That is its last call: the small picture that a contrast takes its mean of comes before.
    """
    with OperatorCalls() as seen:
        result = chain()
    function, given = seen.calls[-1]
    again = Call(_QUICKEST.get(function, function), given)
    if not torch.equal(again(), result):
        raise AssertionError("the chain is more than one call of the operator")
    return again
