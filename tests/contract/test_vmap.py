"""torch.vmap and torch.func: the results and the gradients of one call for each entry."""

from typing import Any

import pytest
import torch
from operators.case import Arguments, OpCase
from torch import Tensor
from torch.utils import _pytree as pytree

from .calls import assert_same, every_case, is_float, weights, with_leaves

ENTRIES = 3


def entries(case: OpCase, mapped: tuple[str, ...], dtype: torch.dtype) -> list[Arguments]:
    """Return as many calls, which differ in the mapped arguments."""
    first = case.arguments(dtype=dtype)
    others = [case.arguments(dtype=dtype, seed=seed) for seed in range(ENTRIES)]
    return [{**first, **{name: other[name] for name in mapped}} for other in others]


def stacked(values: list[Any], dim: int) -> Any:
    """Stack tensors, or those of lists, along a dimension."""
    if isinstance(values[0], Tensor):
        return torch.stack(values, min(dim, values[0].dim()))
    return [stacked(list(parts), dim) for parts in zip(*values, strict=True)]


def mapped_dim(value: Any, dim: int) -> Any:
    if isinstance(value, Tensor):
        return min(dim, value.dim())
    return [mapped_dim(item, dim) for item in value]


@every_case(only=lambda case: case.mapped)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_vmap(case: OpCase, dim: int) -> None:
    """Over each argument alone, and over all; over each dimension in turn."""
    for mapped in {(name,) for name in case.mapped} | {case.mapped}:
        calls = entries(case, mapped, torch.float32)
        batches = [stacked([call[name] for call in calls], dim) for name in mapped]
        dims = tuple(mapped_dim(calls[0][name], dim) for name in mapped)

        def one(*values: Any, mapped: Any = mapped, calls: Any = calls) -> tuple[Tensor, ...]:
            given = dict(zip(mapped, values, strict=True))
            return tuple(case.results({**calls[0], **given}))

        found = torch.vmap(one, in_dims=dims)(*batches)
        expected = zip(*(case.results(call) for call in calls), strict=True)
        assert_same(case, list(found), [torch.stack(each) for each in expected])


@every_case(only=lambda case: case.differentiable and case.mapped)
def test_gradients_of_each_entry(case: OpCase) -> None:
    """By torch.func, under vmap: those of a loop over autograd's."""
    names = tuple(name for name in case.differentiable if name in case.mapped)
    calls = entries(case, names, torch.float64)
    names = tuple(name for name in names if calls[0].get(name) is not None)

    def loss(*values: Any) -> Tensor:
        results = case.results({**calls[0], **dict(zip(names, values, strict=True))})
        return torch.stack([(r * weights(r)).square().sum() for r in results if is_float(r)]).sum()

    values = [[call[name] for name in names] for call in calls]
    batch = [stacked(list(each), 0) for each in zip(*values, strict=True)]
    positions = tuple(range(len(names)))
    found = torch.vmap(torch.func.grad(loss, positions))(*batch)
    for i, given in enumerate(values):
        leaves = pytree.tree_map(lambda t: t.clone().requires_grad_(), given)
        flat = pytree.tree_leaves(leaves)
        expected = torch.autograd.grad(loss(*leaves), flat, materialize_grads=True)
        for ours, wanted in zip(pytree.tree_leaves(found), expected, strict=True):
            torch.testing.assert_close(ours[i], wanted, rtol=1e-9, atol=1e-9)


@every_case(only=lambda case: case.differentiable)
def test_jacobians(case: OpCase) -> None:
    """torch.func's equal autograd's, those of gradients too."""
    arguments = case.arguments("few", torch.float64)
    name = case.differentiable[0]
    if not isinstance(arguments[name], Tensor):
        pytest.skip("a list of tensors")

    def call(value: Tensor) -> Tensor:
        return torch.cat([r.flatten() for r in case.results({**arguments, name: value})])

    def loss(value: Tensor) -> Tensor:
        return (call(value) * weights(call(value))).square().sum()

    value = arguments[name]
    found = torch.func.jacrev(call)(value)
    torch.testing.assert_close(found, torch.autograd.functional.jacobian(call, value))
    if case.twice:
        hessian = torch.func.jacrev(torch.func.grad(loss))(value)
        torch.testing.assert_close(hessian, torch.autograd.functional.hessian(loss, value))


@every_case(only=lambda case: case.differentiable)
def test_forward_mode(case: OpCase) -> None:
    """It is refused, but for what torch's own operators compute."""
    given, _ = with_leaves(case, case.arguments("few", torch.float64))
    name = next(n for n in case.differentiable if isinstance(given.get(n), Tensor))

    def call(value: Tensor) -> Tensor:
        return torch.cat([r.flatten() for r in case.results({**given, name: value})])

    value = given[name].detach()
    if not case.composed:
        with pytest.raises(NotImplementedError, match="jvp"):
            torch.func.jvp(call, (value,), (weights(value),))
        return
    found = torch.func.jvp(call, (value,), (weights(value),))[1]
    expected = torch.autograd.functional.jvp(call, value, weights(value))[1]
    torch.testing.assert_close(found, expected)
