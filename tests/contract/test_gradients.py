"""Gradients: those of finite differences, twice; of few and of no elements; only what is wanted."""

import itertools

import pytest
import torch
from operators.case import Arguments, OpCase
from operators.recorded import gradients, weights, with_leaves
from torch import Tensor
from torch.utils import _pytree as pytree

from .calls import every_case, same_bits

has_gradients = every_case(only=lambda case: case.differentiable)


@every_case(only=lambda case: case.differentiable and case.finite_differences)
@pytest.mark.filterwarnings("ignore:Input #")
def test_finite_differences(case: OpCase) -> None:
    """With every option. The same numbers every time, so `nondet_tol` is 0."""
    for turn in case.turns("few"):
        arguments = case.arguments("few", torch.float64, turn=turn)
        check_finite_differences(case, arguments, fast=turn > 0)


def check_finite_differences(case: OpCase, arguments: Arguments, fast: bool) -> None:
    """Element by element, or along a random direction."""
    given, leaves = with_leaves(case, arguments)
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

    fast = fast or sum(leaf.numel() for leaf in leaves) > 150
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
    """Results are linear in them, but for a constant: f(x) - f(0) is the transpose of f'.

    At sizes that finite differences can't afford, with every option.
    """
    for turn, name in itertools.product(case.turns("third"), case.linear_in):
        for size, dtype in (("third", torch.float64), ("second", torch.float32)):
            check_transposed(case, name, case.arguments(size, dtype, turn=turn))


def check_transposed(case: OpCase, name: str, arguments: Arguments) -> None:
    given, _ = with_leaves(case, arguments)
    nothing = {**given, name: pytree.tree_map(torch.zeros_like, given[name])}
    twice = {**given, name: pytree.tree_map(lambda t: t * 2, given[name])}
    found, constant, doubled = (case.results(each) for each in (given, nothing, twice))
    of_name = [v for v in pytree.tree_leaves(given[name]) if v.requires_grad]
    for result, none, two in zip(found, constant, doubled, strict=True):
        if not result.requires_grad:
            continue
        near = 1e-11 if result.dtype == torch.float64 else 1e-4
        linear = (result - none).detach()
        torch.testing.assert_close((two - none).detach(), linear * 2, rtol=near, atol=near)
        transposed = torch.autograd.grad(result, of_name, weights(result), retain_graph=True)
        forward = (linear.double() * weights(result).double()).sum()
        backward = sum(
            (g.double() * v.double()).sum() for g, v in zip(transposed, of_name, strict=True)
        )
        backward = backward.detach()
        scale = float((linear.double() * weights(result).double()).abs().sum())
        assert abs(float(forward - backward)) <= near * max(scale, 1.0)
        again = torch.autograd.grad(two, of_name, weights(two), retain_graph=True)
        for one, other in zip(again, transposed, strict=True):
            torch.testing.assert_close(one, other * 2, rtol=near, atol=near * max(scale, 1.0))
