"""What the laws share: cases, results, equal bits."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.fx.experimental._config
from operators import CASES
from operators.case import Arguments, OpCase
from operators.recorded import OperatorCalls
from torch import Tensor
from torch.utils import _pytree as pytree


def every_case(*, only: Callable[[OpCase], Any] = lambda case: True) -> pytest.MarkDecorator:
    """Run a test for each operator's case that the law is about."""
    return pytest.mark.parametrize("case", [case for case in CASES if only(case)], ids=str)


def calling_anew(cases: Iterable[OpCase]) -> list[OpCase]:
    """Leave out cases whose operators others call before them, with arguments of the same types.

    For laws that are slow, and about operators and types alone.
    """
    found: list[OpCase] = []
    known: set[tuple[object, ...]] = set()
    for case in cases:
        with OperatorCalls() as made:
            case.results(case.arguments())
        ways = {(operator, *map(type, given)) for operator, given in made.calls}
        if case.composed or not ways <= known:
            found.append(case)
        known |= ways
    return found


def map_tensors(change: Callable[[Tensor], Any], arguments: Arguments) -> Arguments:
    """Change every tensor, also in lists."""
    return pytree.tree_map(lambda v: change(v) if isinstance(v, Tensor) else v, arguments)


def tensors_of(value: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def same_bits(found: Tensor, expected: Tensor) -> bool:
    """Also signs of zeros; all NaNs are one."""
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        return False
    if found.is_complex():
        found, expected = torch.view_as_real(found), torch.view_as_real(expected)
    if not found.is_floating_point():
        return torch.equal(found, expected)
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[found.element_size()]
    pair = (torch.where(t.isnan(), torch.nan, t).contiguous() for t in (found, expected))
    return torch.equal(*(t.view(whole) for t in pair))


def assert_same(case: OpCase, found: list[Tensor], expected: list[Tensor]) -> None:
    """The same bits, or nearly the same numbers where a matrix product is involved."""
    assert len(found) == len(expected)
    for ours, wanted in zip(found, expected, strict=True):
        if case.exact and not case.composed:
            assert same_bits(ours, wanted)
        else:
            near = {torch.float64: 1e-12, torch.float32: 1e-4}.get(wanted.dtype, 2e-2)
            torch.testing.assert_close(ours, wanted, rtol=near, atol=near, equal_nan=True)


@contextmanager
def sizes_of_values() -> Iterator[None]:
    """Let torch.compile take operators whose number of results depends on values.

    Sizes that happen to be equal in the first call may differ in the next.
    """
    config, shapes = torch._dynamo.config, torch.fx.experimental._config
    values = config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True)
    with values, shapes.patch(use_duck_shape=False):  # type: ignore[attr-defined]
        yield
