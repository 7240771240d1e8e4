"""What torch.utils.flop_counter counts of operators: the products and sums of convolutions.

That module brings Triton, a third of a second, so formulas are registered when somebody imports it.
Operators that interpolate, compare or sort have none, as torch's own have none.
"""

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from math import prod
from typing import Any

import torch

# Counts a call's products and sums, from its arguments by their names in the schema; shapes stand
# for tensors, and out_shape for the result.
Formula = Callable[[dict[str, Any]], int]
_COUNTER = "torch.utils.flop_counter"
_WAITING: list[tuple[str, Formula]] = []


def _first(known: dict[str, Any], *names: str) -> Any:
    return next(known[name] for name in names if name in known)


def _sums(known: dict[str, Any]) -> int:
    """Return how many sums there are: a gradient's call has as many as its forward's."""
    return prod(_first(known, "grad", "out_shape"))


def layer_flops(known: dict[str, Any]) -> int:
    """Count a layer's, with weights [C_out, C_in, height, width]."""
    return 2 * _sums(known) * prod(_first(known, "weight", "weight_size")[1:])


def filter_flops(known: dict[str, Any]) -> int:
    """Count a filter's, with a kernel [..., height, width]."""
    return 2 * _sums(known) * prod(_first(known, "kernel", "kernel_size")[-2:])


def separable_flops(known: dict[str, Any]) -> int:
    """Count those of a filter of rows and columns, which images share or not."""
    taps = len(known["rows"]) + len(known["columns"])
    return 2 * _sums(known) * (taps if known.get("shared", True) else taps // known["images"][0])


def _register(name: str, formula: Formula) -> None:
    packet = getattr(torch.ops.visops, name)
    names = [argument.name for argument in packet.default._schema.arguments]

    def flops(*shapes: Any, out_shape: Any = None, **named: Any) -> int:
        return formula({**dict(zip(names, shapes, strict=False)), **named, "out_shape": out_shape})

    sys.modules[_COUNTER].register_flop_formula(packet)(flops)


class _Finder(importlib.abc.MetaPathFinder):
    """Registers the formulas when the counter's module has been loaded."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name != _COUNTER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def executed(module: Any) -> None:
                execute(module)
                for waiting in _WAITING:
                    _register(*waiting)

            spec.loader.exec_module = executed  # type: ignore[method-assign]
        return spec


def count_flops(name: str, formula: Formula) -> None:
    """Register an operator's formula, now or when torch.utils.flop_counter is imported."""
    if _COUNTER in sys.modules:
        _register(name, formula)
        return
    if not _WAITING:
        sys.meta_path.insert(0, _Finder())
    _WAITING.append((name, formula))
