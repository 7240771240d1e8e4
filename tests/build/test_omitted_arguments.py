"""Gradients of every operator where the dispatcher leaves out arguments equal to their defaults."""

from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode

from build.operators import OPERATORS, Arguments, gradients, is_leaf, valid_call


def _schema(name: str) -> Any:
    return OPERATORS[name].function.default._schema.arguments  # type: ignore[attr-defined]


DIFFERENTIABLE = [
    name
    for name in OPERATORS
    if torch._C._dispatch_has_kernel_for_dispatch_key(f"visops::{name}", "Autograd")
    and any(argument.has_default_value() for argument in _schema(name))
]


def few_arguments(name: str) -> Arguments:
    """Return arguments that are needed, and defaults where the operator takes these only given."""
    target, arguments = valid_call(name)
    few = {a.name: arguments[a.name] for a in _schema(name) if not a.has_default_value()}
    try:
        target.function(**few)
    except RuntimeError:
        return arguments
    return few


def test_operators_with_gradients_are_known() -> None:
    """Else the test below would test nothing."""
    assert {"deform_conv2d", "augment", "augment_list", "conv2d", "roi_align"} <= {*DIFFERENTIABLE}


@pytest.mark.filterwarnings("ignore:Error detected in")  # of derivatives that are refused
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_without_optional_arguments(name: str) -> None:
    """The same as with them, also where torch.compile or a mode dispatches the call."""
    operator = OPERATORS[name].function
    few = few_arguments(name)
    torch._dynamo.reset()
    defaults = {a.name: a.default_value for a in _schema(name) if a.has_default_value()}
    compiled = torch.compile(operator, backend="aot_eager", fullgraph=True)

    def counted(**arguments: Any) -> Any:
        with FlopCounterMode(display=False):
            return operator(**arguments)

    calls = [operator, counted, compiled]
    for wanted, value in few.items():
        if not any(map(is_leaf, pytree.tree_leaves(value))):
            continue
        expected = gradients(operator, {**defaults, **few}, wanted)
        for call in calls:
            torch.testing.assert_close(gradients(call, few, wanted), expected, equal_nan=True)
        if expected:  # one gradient is enough of compiled code: all are of the same call
            calls = [operator, counted]
