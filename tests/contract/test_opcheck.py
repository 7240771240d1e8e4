"""torch.library.opcheck of every operator that a function calls, with that call's arguments."""

from typing import Any

import torch
from operators import CASES
from operators.case import Arguments, OpCase
from torch import Tensor

from .calls import (
    LAYOUTS,
    OperatorCalls,
    every_case,
    gradients,
    is_float,
    map_tensors,
    with_leaves,
)

# Without tracing, which takes most of the time.
QUICK = ("test_schema", "test_autograd_registration", "test_faketensor")
SIZES = ("second", "one", "empty", "no batch")


def operator_calls(case: OpCase, arguments: Arguments) -> list[tuple[Any, tuple[Any, ...]]]:
    """Return the operators of a call and of its derivatives, each once."""
    with OperatorCalls() as forward:
        given, leaves = with_leaves(case, arguments)
        results = case.results(given)
        gradients(results, leaves)
    found = {str(operator): (operator, given) for operator, given in forward.calls}
    return list(found.values())


def differentiable(operator: Any) -> bool:
    name = operator._schema.name
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, "Autograd")


def detached(value: Any, wanted: bool) -> Any:
    if isinstance(value, list):
        return [detached(item, wanted) for item in value]
    if not isinstance(value, Tensor):
        return value
    return value.detach().requires_grad_(wanted and is_float(value))


def check(case: OpCase, arguments: Arguments, **options: Any) -> None:
    """Backward operators need no gradient here: tracing second derivatives takes half a minute."""
    for operator, given in operator_calls(case, arguments):
        wanted = differentiable(operator) and "backward" not in str(operator)
        copies = tuple(detached(value, wanted) for value in given)
        torch.library.opcheck(operator, copies, **options)


@every_case()
def test_opcheck(case: OpCase) -> None:
    check(case, case.arguments())


@every_case()
def test_opcheck_of_dtypes_layouts_and_sizes(case: OpCase) -> None:
    """What depends on them: schemas, registrations and fake tensors."""
    layouts = [LAYOUTS[name] for name in case.layouts]
    for turn, size in enumerate(size for size in SIZES if size not in case.skip):
        arguments = case.arguments(size, case.dtypes[turn % len(case.dtypes)])
        check(case, map_tensors(layouts[turn % len(layouts)], arguments), test_utils=QUICK)


@every_case(only=lambda case: not case.differentiable)
def test_results_without_a_gradient(case: OpCase) -> None:
    """What requires a gradient is taken all the same."""
    arguments = map_tensors(lambda t: t.requires_grad_(is_float(t)), case.arguments())
    assert not any(result.requires_grad for result in case.results(arguments))


def test_operators_are_seen() -> None:
    """Else the tests above would test nothing."""
    for case in CASES:
        if not case.composed:
            assert operator_calls(case, case.arguments()), case
