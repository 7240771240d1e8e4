"""Gradients: those of finite differences, twice; of few and of no elements; only what is wanted."""

from typing import Any

import pytest
import torch
from operators.case import OpCase
from torch import Tensor
from torch.utils import _pytree as pytree

from .calls import every_case, gradients, same_bits, with_leaves

has_gradients = every_case(only=lambda case: case.differentiable)


@every_case(only=lambda case: case.differentiable and case.finite_differences)
@pytest.mark.filterwarnings("ignore:Input #")
def test_finite_differences(case: OpCase) -> None:
    """The same numbers every time, so `nondet_tol` is 0."""
    given, leaves = with_leaves(case, case.arguments("few", torch.float64))
    names = [name for name in case.differentiable if given.get(name) is not None]

    def call(*flat: Tensor) -> tuple[Tensor, ...]:
        replaced = dict(zip(map(id, leaves), flat, strict=True))
        values = {
            name: pytree.tree_map(lambda leaf: replaced.get(id(leaf), leaf), given[name])
            for name in names
        }
        if case.indexed in values:
            boxes = values[case.indexed]
            values[case.indexed] = torch.cat([boxes[:, :1].detach().round(), boxes[:, 1:]], 1)
        return tuple(r for r in case.results({**given, **values}) if r.is_floating_point())

    fast = sum(leaf.numel() for leaf in leaves) > 150  # along a random direction
    torch.autograd.gradcheck(call, leaves, nondet_tol=0, fast_mode=fast)
    if case.twice:
        torch.autograd.gradgradcheck(call, leaves, nondet_tol=0, fast_mode=fast)


@has_gradients
@pytest.mark.parametrize("size", ["one", "empty", "no batch"])
def test_few_and_none(case: OpCase, size: str) -> None:
    """Where nothing enters a result, gradients are zero, of the arguments' shapes."""
    if size in case.skip:
        pytest.skip("no valid call")
    given, leaves = with_leaves(case, case.arguments(size))
    results = case.results(given)
    first = gradients(results, leaves, again=case.twice)
    for leaf, gradient in zip(leaves, first, strict=True):
        assert (gradient.shape, gradient.dtype) == (leaf.shape, leaf.dtype)
        if not any(result.numel() for result in results if result.requires_grad):
            assert not gradient.any()
    if case.twice:
        for leaf, gradient in zip(leaves, gradients(first, leaves), strict=False):
            assert gradient.shape == leaf.shape


@has_gradients
def test_only_some_are_wanted(case: OpCase) -> None:
    """Each argument's gradient alone has the bits that it has beside the others."""
    given, leaves = with_leaves(case, case.arguments())
    expected = gradients(case.results(given), leaves)
    for i, leaf in enumerate(leaves):
        for other in leaves:
            other.requires_grad_(other is leaf)
        (found,) = gradients(case.results(given), [leaf])
        assert same_bits(found, expected[i])


@has_gradients
def test_dtypes_of_gradients(case: OpCase) -> None:
    """They are their arguments', and finite where the results are."""
    for dtype in case.dtypes:
        given, leaves = with_leaves(case, case.arguments(dtype=dtype))
        for leaf, gradient in zip(leaves, gradients(case.results(given), leaves), strict=False):
            assert (gradient.dtype, gradient.shape) == (leaf.dtype, leaf.shape)
            assert bool(gradient.isfinite().all())


@every_case(only=lambda case: case.linear_in)
def test_linear_arguments(case: OpCase) -> None:
    """The result is linear in them, so their gradients don't depend on them."""
    given, leaves = with_leaves(case, case.arguments("few", torch.float64))
    expected = gradients(case.results(given), leaves)
    for name in case.linear_in:
        doubled: dict[str, Any] = {**given, name: pytree.tree_map(lambda t: t * 2, given[name])}
        for ours, once in zip(case.results(doubled), case.results(given), strict=True):
            torch.testing.assert_close(ours, once * 2)
        again, others = with_leaves(case, doubled)
        position = list(case.differentiable).index(name)
        found = gradients(case.results(again), others)[position]
        torch.testing.assert_close(found, expected[position])
