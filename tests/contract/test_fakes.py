"""Tensors without values: fake and meta ones give the shapes, dtypes and strides of real ones."""

from typing import Any

import pytest
import torch
from operators.case import OpCase
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv, free_unbacked_symbols

from .calls import LAYOUTS, every_case, gradients, map_tensors, results_and_gradients, with_leaves


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
            found = results + gradients(results, leaves)
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
