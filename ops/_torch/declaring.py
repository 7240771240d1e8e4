"""Declarations: what an operator's schema does not say, said once.

The Python file of an operator declares it with one call of :func:`operator`. From there it reaches
torch's dispatcher, the table for ONNX, the header for C++ and the tests.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from .autocast import register_autocast
from .differentiable import Constants, Differentiable, reject_lazy_out
from .fakes import Formula, Kernel, count_flops, no_result, register_fake
from .registering import LIBRARY
from .vmap_calls import Rule, register_vmap

ON_ARRAYS = "make its arguments outputs of the model, and call visops.{} on the arrays that come"


class Refused(NamedTuple):
    """Why ONNX can't have an operator, and what a model does instead."""

    reason: str = "ONNX has no operator for it"
    instead: str = ON_ARRAYS


NOT_IN_ONNX = Refused()
WRITES = Refused("it writes into an argument", "call the function without out")
GRADIENT = Refused("it is a gradient", "export the model in eval() and under torch.no_grad()")


class Declaration(NamedTuple):
    """What lists of operators say of one; the parameters of :func:`operator` explain it."""

    onnx: str | Refused
    private: bool
    documented_as: str
    description: str
    note: str


DECLARED: dict[str, Declaration] = {}  # by the operators' names


def operator(
    name: str,
    *,
    fake: Kernel = no_result,
    vmap: Rule | None = None,
    backward: Callable[..., Any] | None = None,
    setup_context: Callable[..., None] = lambda ctx, inputs, output: None,
    constants: Constants = (),
    direct: Callable[..., Any] | None = None,
    one_by_one: Callable[..., Any] | None = None,
    without_gradient: bool = False,
    autocast: Callable[..., tuple[Any, ...]] | None = None,
    flops: Formula | None = None,
    onnx: str | Refused = NOT_IN_ONNX,
    private: bool = False,
    in_errors: str | None = None,
    documented_as: str | None = None,
    description: str = "",
    note: str = "",
) -> Callable[..., Any]:
    """Declare an operator of ``torch.ops.visops``, and return what calls it.

    Parts of operators are declared too: their gradients, which have "_backward" in their names, and
    their forms that write into an argument, whose names end in "_out". Both are private.

    Parameters
    ----------
    name : str
        The operator's name within ``torch.ops.visops``; it has one overload.
    fake : callable
        The fake kernel: it infers shape, dtype and strides of valid arguments' result.
    vmap : callable, optional
        The rule, called with what this function returns, and then as torch calls such rules. It
        gets all arguments, and one entry or more.
    backward, setup_context : callable, optional
        The gradient's formulas, as ``torch.library.register_autograd`` takes them.
    constants, direct, one_by_one : optional
        See `Differentiable`.
    without_gradient : bool
        Let no gradient flow through an operator with floating results. Without this, results would
        require one whenever arguments do, and the backward pass would stop there with a warning.
    autocast : callable, optional
        Returns the arguments as the operator takes them within ``torch.autocast``.
    flops : callable, optional
        The formula of ``torch.utils.flop_counter``; `fakes.py` has those of convolutions.
    onnx : str or Refused
        The module of `visops.onnx` with a function of the operator's name, which writes it; or why
        there is none.
    private : bool
        The operator's schema may change with any version, so C++ has no function for it.
    in_errors : str, optional
        The name in errors of fake kernels, where that is another operator's.
    documented_as : str, optional
        The public function that calls the operator, where its name is another. Errors lead to it,
        and its first line describes the operator in C++.
    description : str
        What describes the operator in C++ in place of that line.
    note : str
        What C++ must know beyond that.
    """
    op = getattr(torch.ops.visops, name).default
    if name in DECLARED:
        raise ValueError(f"the operator {name} is declared twice")
    writes = name.endswith("_out")
    if writes or "_backward" in name:
        onnx = WRITES if writes else GRADIENT
    is_part = onnx in (WRITES, GRADIENT)
    public = documented_as or name
    DECLARED[name] = Declaration(onnx, private or is_part, public, description, note)

    register_fake(name, in_errors or name, fake)
    call = op
    if backward is not None:
        call = Differentiable(op, backward, setup_context, constants, direct, one_by_one)
    if without_gradient:
        LIBRARY.impl(name, torch.library.fallthrough_kernel, "Autograd")
    if vmap is not None:
        register_vmap(op, call, vmap)
    if autocast is not None:
        register_autocast(name, autocast)
    if writes:
        reject_lazy_out(name, public)
    if flops is not None:
        count_flops(name, flops)
    return call  # type: ignore[no-any-return]
