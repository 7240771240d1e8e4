"""What torch.utils.flop_counter counts of operators: the products and sums of convolutions.

That module brings Triton, a third of a second, so formulas are registered when somebody imports it.
Operators that interpolate, compare or sort have none, as torch's own have none.
"""

import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from math import prod
from typing import Any

import torch

Shape = Sequence[int]
_COUNTER = "torch.utils.flop_counter"
# How the name of each argument that decides is spelt in schemas; shapes stand for tensors.
_PIXELS = ("grad", "out_shape")  # as many sums as there are numbers in the first that is there
_TAPS = ("weight", "weight_size")  # [C_out, C_in, height, width]
_WINDOWS = ("kernel", "kernel_size")  # [..., height, width]

_LAYERS = (
    *("conv2d", "conv2d_backward_input", "conv2d_backward_weight"),
    *("deform_conv2d", "deform_conv2d_backward_input", "deform_conv2d_backward_offset"),
    *("deform_conv2d_backward_samples", "deform_conv2d_backward_weight"),
)
_FILTERS = ("convolve2d", "convolve2d_backward_kernel")


def _formula(name: str) -> Any:
    packet = getattr(torch.ops.visops, name)
    names = [argument.name for argument in packet.default._schema.arguments]

    def flops(*shapes: Any, out_shape: Any = None, **named: Any) -> int:
        known = {**dict(zip(names, shapes, strict=False)), **named, "out_shape": out_shape}
        sums = prod(next(known[own] for own in _PIXELS if own in known))
        if name == "filter_separable":
            taps = len(known["rows"]) + len(known["columns"])
            return 2 * sums * (taps if known.get("shared", True) else taps // known["images"][0])
        if name in _FILTERS:
            return 2 * sums * prod(next(known[own] for own in _WINDOWS if own in known)[-2:])
        return 2 * sums * prod(next(known[own] for own in _TAPS if own in known)[1:])

    return flops


def _register(counter: Any) -> None:
    for name in (*_LAYERS, *_FILTERS, "filter_separable"):
        counter.register_flop_formula(getattr(torch.ops.visops, name))(_formula(name))


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
                _register(module)

            spec.loader.exec_module = executed  # type: ignore[method-assign]
        return spec


def register_when_counted() -> None:
    """Register the formulas, now or when torch.utils.flop_counter is imported."""
    if _COUNTER in sys.modules:
        _register(sys.modules[_COUNTER])
    else:
        sys.meta_path.insert(0, _Finder())
