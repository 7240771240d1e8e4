"""The parts of torch: opcheck, torch.compile, torch.vmap and torch.func, fake and meta tensors."""

from typing import Any

import pytest
import torch
from layouts import LAYOUTS
from operators import CASES
from operators.case import Arguments, OpCase
from operators.recorded import (
    OperatorCalls,
    gradients,
    is_float,
    results_and_gradients,
    weights,
    with_leaves,
)
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv, free_unbacked_symbols
from torch.utils import _pytree as pytree

from .calls import assert_same, calling_anew, every_case, map_tensors, sizes_of_values

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


@every_case(only=lambda case: not case.compiled)
def test_opcheck(case: OpCase) -> None:
    """Others are traced below, within programs."""
    check(case, case.arguments())


@every_case()
def test_opcheck_of_dtypes_layouts_and_sizes(case: OpCase) -> None:
    """What depends on them: schemas, registrations and fake tensors."""
    layouts = [LAYOUTS[name] for name in case.layouts]
    for turn, size in enumerate(size for size in SIZES if size not in case.skip):
        arguments = case.arguments(size, case.dtypes[turn % len(case.dtypes)])
        check(case, map_tensors(layouts[turn % len(layouts)], arguments), test_utils=QUICK)


@every_case(only=lambda case: not case.differentiable and not case.composed)
def test_results_without_a_gradient(case: OpCase) -> None:
    """What requires a gradient is taken all the same."""
    arguments = map_tensors(lambda t: t.requires_grad_(is_float(t)), case.arguments())
    assert not any(result.requires_grad for result in case.results(arguments))


def test_operators_are_seen() -> None:
    """Else the tests above would test nothing."""
    for case in CASES:
        if not case.composed:
            assert operator_calls(case, case.arguments()), case


def program(case: OpCase, dynamic: bool) -> Any:
    """Return the compiled function, with something around it that is traced."""
    torch._dynamo.reset()

    def call(arguments: Arguments) -> list[Tensor]:
        return [result * 1 for result in case.results(arguments)]

    return torch.compile(call, fullgraph=True, dynamic=dynamic, backend="aot_eager")


def assert_compiles(case: OpCase, compiled: Any, arguments: Arguments) -> None:
    given, leaves = with_leaves(case, arguments)
    found = compiled(given)
    found += gradients(found, leaves)
    given, leaves = with_leaves(case, arguments)
    expected = [result * 1 for result in case.results(given)]
    assert_same(case, found, expected + gradients(expected, leaves))


@every_case(only=lambda case: case.compiled)
def test_one_program_for_all_sizes(case: OpCase) -> None:
    with sizes_of_values():
        compiled = program(case, dynamic=True)
        few = ("single", "nothing") if case.counted else ()
        for i, size in enumerate(("ordinary", "second", "third", *few)):
            if size in case.skip:
                continue
            with torch._dynamo.config.patch(error_on_recompile=i > 0):
                assert_compiles(case, compiled, case.arguments(size))


@pytest.mark.parametrize("case", calling_anew(c for c in CASES if c.compiled), ids=str)
def test_a_program_for_one_size(case: OpCase) -> None:
    """Without symbols."""
    with sizes_of_values():
        assert_compiles(case, program(case, dynamic=False), case.arguments("second"))


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


WITH_GRADIENTS = [c for c in CASES if c.differentiable and c.mapped and c.compiled]


@pytest.mark.parametrize("case", calling_anew(WITH_GRADIENTS), ids=str)
def test_gradients_within_a_program(case: OpCase) -> None:
    """torch.compile around torch.func.grad, of one loss and of a batch of them."""
    arguments = case.arguments()
    name = case.differentiable[0]
    if not isinstance(arguments[name], Tensor):
        pytest.skip("a list of tensors")
    value = arguments[name]

    def loss(value: Tensor) -> Any:
        results = case.results({**arguments, name: value})
        return sum(r.square().sum() for r in results if r.is_floating_point())

    def both(value: Tensor, batch: Tensor) -> tuple[Any, Any]:
        return torch.func.grad(loss)(value), torch.vmap(torch.func.grad(loss))(batch)

    given = value, torch.stack([value, value * 0.875])
    torch._dynamo.reset()
    compiled = torch.compile(both, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(*given), both(*given), rtol=1e-5, atol=1e-5)


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


def described(tensors: list[Tensor]) -> list[tuple[object, ...]]:
    # Strides of no numbers mean nothing.
    return [(tuple(t.shape), t.dtype, t.stride() if t.numel() else ()) for t in tensors]


@every_case(only=lambda case: not case.counted)
def test_fake_tensors(case: OpCase) -> None:
    """With gradients, for symbols as sizes."""
    for turn, layout in enumerate(("offset", *case.layouts)):
        arguments = case.arguments(dtype=case.dtypes[turn % len(case.dtypes)])
        arguments = map_tensors(LAYOUTS[layout], arguments)
        expected = described(results_and_gradients(case, arguments))
        with FakeTensorMode(shape_env=None if case.static_fakes else ShapeEnv()) as mode:
            given, leaves = with_leaves(case, map_tensors(mode.from_tensor, arguments))
            results = case.results(given)
            found = results + gradients(results, leaves, incoming=torch.empty_like)
            assert described(found) == expected


@every_case(only=lambda case: not case.counted and case.on_meta)
def test_meta_tensors(case: OpCase) -> None:
    for size in ("ordinary", "empty"):
        if size in case.skip:
            continue
        arguments = case.arguments(size)
        expected = described(results_and_gradients(case, arguments))
        found = results_and_gradients(case, map_tensors(lambda t: t.to("meta"), arguments))
        assert described(found) == expected
        assert all(result.is_meta for result in found)


@every_case(only=lambda case: case.counted)
def test_unknown_sizes(case: OpCase) -> None:
    """How many results there are is a symbol, which may be 0 or 1."""
    arguments = case.arguments()
    expected = case.results(arguments)
    shape_env = ShapeEnv()
    with FakeTensorMode(shape_env=shape_env) as mode:
        found = case.results(map_tensors(mode.from_tensor, arguments))
        for ours, wanted in zip(found, expected, strict=True):
            assert (ours.dtype, ours.device, ours.dim()) == (
                wanted.dtype,
                wanted.device,
                wanted.dim(),
            )
            assert ours.shape[1:] == wanted.shape[1:]
        sizes: list[Any] = [ours.shape[0] for ours in found]
        counts = [size for size in sizes if free_unbacked_symbols(size)]
        assert counts
        for count in counts:
            assert shape_env.bound_sympy(count.node.expr).lower == 0


@pytest.mark.parametrize("layout", ["strided"])
def test_layouts_change_strides(layout: str) -> None:
    """Else the tests above would compare contiguous tensors only."""
    assert not LAYOUTS[layout](torch.rand(2, 3)).is_contiguous()
