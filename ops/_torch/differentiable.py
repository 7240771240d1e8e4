"""Operators with gradients: one set of formulas for torch's dispatcher and for torch.func."""

import functools
import itertools
import operator
import warnings
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

try:
    from torch._library import autograd as _autograd
except ImportError:  # it is torch's own; without it, registering takes longer
    _autograd = None  # type: ignore[assignment]

from .registering import LIBRARY
from .unsupported_inputs import as_plain, called, readable, reject_foreign_tensors, unsupported

_is_compiling = torch.compiler.is_compiling
_is_tracing = torch._C._is_tracing
_are_transforms_active = torch._C._are_functorch_transforms_active
_is_grad_enabled = torch.is_grad_enabled
_any_requires_grad = torch._C._any_requires_grad
_BelowAutograd = torch._C._AutoDispatchBelowAutograd
_has_torch_function = torch._C._has_torch_function
_dispatch_modes = torch._C._len_torch_dispatch_stack
_is_autocast = torch._C._is_any_autocast_enabled

# The names of arguments, or what returns them for a call's arguments.
Constants = Collection[str] | Callable[[Sequence[Any]], Collection[str]]

reject_foreign_tensors(
    LIBRARY,
    (
        name.removeprefix("visops::")
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("visops::") and name != "visops::build_info"
    ),
)


def _not_taken(*_: Any) -> None:
    """Stand for a direct way to the kernel where there is none."""


def may_be_differentiated(tensor: Tensor) -> bool:
    """Whether a derivative by `tensor` may be asked for; True where that isn't known."""
    if _is_compiling() or _are_transforms_active() or forward_ad._current_level >= 0:
        return True
    return tensor.requires_grad and _is_grad_enabled()


def reject_lazy_out(name: str, public: str) -> None:
    """Refuse an `out` that is a lazily negated or conjugated view; messages name `public`.

    Torch's own fallback for such views aborts on operators that return nothing. Other arguments are
    resolved, as it does.
    """
    kernel = _resolving(public, getattr(torch.ops.visops, name).default)
    for key in ("Negative", "Conjugate"):
        LIBRARY.impl(name, kernel, key)


def _resolving(name: str, op: Callable[..., None]) -> Callable[..., None]:
    def resolved(argument: Any) -> Any:
        if isinstance(argument, list | tuple):
            return [resolved(item) for item in argument]
        return argument.resolve_conj().resolve_neg() if isinstance(argument, Tensor) else argument

    def kernel(*arguments: Any, **named: Any) -> None:
        out: Tensor | None = named["out"] if "out" in named else arguments[-1]
        if out is not None and (out.is_neg() or out.is_conj()):
            view = "negated" if out.is_neg() else "conjugated"
            raise RuntimeError(
                f"visops.{name}: out is a lazily {view} view, must be a tensor with its own values"
            )
        others = {name: resolved(argument) for name, argument in named.items()}
        op(*(resolved(argument) for argument in arguments), **others)

    return kernel


def _with_numbers(name: str, argument: Any) -> Any:
    """Return a list of sizes as numbers.

    While torch.jit.trace records, sizes are tensors, which its dispatcher refuses in lists.
    """
    if not isinstance(argument, list | tuple):
        return argument
    traced = [isinstance(size, Tensor) and size.dim() == 0 for size in argument]
    numbers = [int(n) if t else n for n, t in zip(argument, traced, strict=True)]
    if any(traced):
        warnings.warn(
            f"visops.{name}: the trace keeps the size {numbers} for all inputs; torch.export "
            "leaves sizes open",
            torch.jit.TracerWarning,  # type: ignore[attr-defined]
            stacklevel=3,
        )
    return numbers


def _on_first_call(make: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """Return a function that makes another one when it is first called, and calls that."""
    made: list[Callable[..., Any]] = []

    def call(*arguments: Any, **named: Any) -> Any:
        if not made:
            made.append(make())
        return made[0](*arguments, **named)

    return call


def _register_autograd(
    op: Any, backward: Callable[..., Any], setup_context: Callable[..., None], takes_list: bool
) -> None:
    """Do what torch.library.register_autograd does, most of it when the operator is first called.

    That defines a dataclass and an autograd.Function for each operator, a quarter of the time that
    importing this package took.
    """
    if _autograd is None:
        torch.library.register_autograd(op, backward, setup_context=setup_context)
        return
    info = _autograd.Info(backward, setup_context)
    ordinary = _on_first_call(lambda: _autograd.make_autograd_impl(op, info))
    if takes_list:
        kernel = ordinary
    else:
        of_level = _on_first_call(lambda: _kernel_of_one_level(op, backward, setup_context))

        def kernel(keyset: Any, *arguments: Any, **named: Any) -> Any:
            if _are_transforms_active() or forward_ad._current_level >= 0:
                return of_level(keyset, *arguments, **named)
            return ordinary(keyset, *arguments, **named)

    LIBRARY.impl(op._schema.name.removeprefix("visops::"), kernel, "Autograd", with_keyset=True)


def _kernel_of_one_level(
    op: Any, backward: Callable[..., Any], setup_context: Callable[..., None]
) -> Callable[..., Any]:
    """Return autograd's kernel while torch.func's transforms are active, or forward derivatives.

    NOTE: transforms may be nested, and the dispatcher asks autograd once for each of them, with
    tensors of that level. So a call records a node of one level, as torch's own kernels do, and
    the next levels record theirs below it. ``torch.autograd.Function`` would begin with all levels
    again; it works above the dispatcher only, where torch.compile can't follow. What the node saves
    are its level's tensors, which further derivatives lead through. A function without a `jvp`
    raises for forward derivatives, which an ordinary kernel would drop.
    """
    from torch._functorch.utils import enable_single_level_autograd_function
    from torch.autograd.function import _SingleLevelFunction

    defaults = [argument.default_value for argument in op._schema.arguments]

    def forward(ctx: Any, *inputs: Any) -> Any:
        *arguments, (keyset, records, derives) = inputs
        # A function turns both modes off, and the next levels need them.
        derivatives = forward_ad._set_fwd_grad_enabled(derives)
        with torch.set_grad_enabled(records), derivatives, _BelowAutograd():
            output = op.redispatch(keyset & torch._C._after_autograd_keyset, *arguments)
        setup_context(ctx, (*arguments, *defaults[len(arguments) :]), output)
        return output

    def gradients(ctx: Any, *incoming: Any) -> tuple[Any, ...]:
        given = len(ctx.needs_input_grad) - 1
        return *backward(ctx, *incoming)[:given], None

    methods = {"forward": staticmethod(forward), "backward": staticmethod(gradients)}
    function: Any = type(f"visops_{op._opname}", (_SingleLevelFunction,), methods)

    def kernel(keyset: Any, *arguments: Any) -> Any:
        modes = _is_grad_enabled(), torch._C._is_fwd_grad_enabled()
        with enable_single_level_autograd_function():
            return function.apply(*arguments, (keyset, *modes))

    return kernel


def _with_all_needs(op: Any, formula: Callable[..., Any]) -> Callable[..., Any]:
    """Return the formula with an entry in ctx.needs_input_grad for every argument of the operator.

    The dispatcher leaves out trailing arguments that equal their defaults, so torch has none for
    them.
    """
    count = len(op._schema.arguments)

    def call(ctx: Any, *arguments: Any, **named: Any) -> Any:
        needs = ctx.needs_input_grad
        if len(needs) >= count:
            return formula(ctx, *arguments, **named)
        ctx.needs_input_grad = (*needs, *(False for _ in range(len(needs), count)))
        try:
            return formula(ctx, *arguments, **named)
        finally:
            ctx.needs_input_grad = needs  # torch reads from its length how many gradients to take

    return call


def _with_constants(
    op: Any, setup_context: Callable[..., None], constants: Constants
) -> Callable[..., None]:
    """Return the formula, which lets results require a gradient only by other arguments."""
    if not constants:
        return setup_context
    schema = op._schema.arguments
    tensors = [(i, a.name) for i, a in enumerate(schema) if "Tensor" in str(a.type)]
    takes_lists = any(str(a.type) == "List[Tensor]" for a in schema)

    def setup(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        setup_context(ctx, inputs, output)
        names = constants(inputs) if callable(constants) else constants
        needs = _by_argument(ctx.needs_input_grad, inputs) if takes_lists else ctx.needs_input_grad
        if not any(needs[i] for i, name in tensors if name not in names):
            ctx.mark_non_differentiable(*(output if isinstance(output, tuple | list) else [output]))

    return setup


def _by_argument(needs: Sequence[bool], inputs: Sequence[Any]) -> list[bool]:
    """Return an entry for each argument; torch has one for each tensor of a list."""
    entries = iter(needs)
    result = []
    for value in inputs:
        is_list = isinstance(value, list) and all(isinstance(item, Tensor) for item in value)
        of_value = list(itertools.islice(entries, len(value) if is_list else 1))
        result.append(any(of_value))
    return result


class Differentiable:
    """An operator of ``torch.ops.visops`` that autograd, vmap and torch.func can differentiate.

    torch.library registers formulas for autograd and torch.compile, but torch.func's gradient
    transforms refuse them there ("must override the setup_context staticmethod"). Here they get a
    kernel of their own for these.

    Parameters
    ----------
    op : OpOverload
        The operator; it has one overload.
    backward, setup_context : callable
        The formulas; functions made from them wait for a call.
    constants : names, or a function that returns them for a call's arguments
        The tensors by which the operator has no gradient. Where no other argument wants one, the
        result requires none, instead of one that would then be missing.
    direct : callable, optional
        Is asked first where no gradient is to be recorded; it returns what the operator would, or
        None where that has to be called.
    one_by_one : callable, optional
        For an operator that takes a list of tensors: what is called instead while a transform is
        active. An autograd.Function doesn't see tensors inside lists.
    """

    def __init__(
        self,
        op: Any,
        backward: Callable[..., Any],
        setup_context: Callable[..., None],
        constants: Constants,
        direct: Callable[..., Any] | None,
        one_by_one: Callable[..., Any] | None,
    ) -> None:
        self._name: str = op._opname
        self._op = op
        self._direct = direct or _not_taken
        self._transformed: Callable[..., Any] = one_by_one or op
        self._recorded: Callable[..., Any] = op
        setup_context = _with_constants(op, setup_context, constants)
        if one_by_one is None:
            setup_context = _with_all_needs(op, setup_context)
            backward = _with_all_needs(op, backward)

            def recorded(*arguments: Any) -> Any:
                self._recorded = self._recording(setup_context, backward)
                return self._recorded(*arguments)

            self._recorded = recorded
        _register_autograd(op, backward, setup_context, takes_list=one_by_one is not None)

    def _recording(
        self, setup_context: Callable[..., None], backward: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Return the operator with its gradient recorded, for plain tensors in eager mode.

        The dispatcher reaches the same formulas through several Python functions more.
        """
        op, direct = self._op, self._direct
        defaults = [argument.default_value for argument in op._schema.arguments]

        def forward(ctx: Any, *arguments: Any) -> Any:
            output = direct(*arguments)
            if output is None:
                with _BelowAutograd():
                    output = op(*arguments)
            setup_context(ctx, (*arguments, *defaults[len(arguments) :]), output)
            return output

        methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        function: Any = type(f"visops_{self._name}", (torch.autograd.Function,), methods)
        return function.apply  # type: ignore[no-any-return]

    @functools.cached_property
    def _tensors_of(self) -> Callable[[Sequence[Any]], Sequence[Any]]:
        """A function that picks the tensors from arguments, where they are many.

        Asking torch about all of them takes as long as a small kernel.
        """
        types = [str(argument.type) for argument in self._op._schema.arguments]
        positions = [index for index, kind in enumerate(types) if "Tensor" in kind]
        if len(positions) < 2 or len(types) < 2 * len(positions):
            return lambda arguments: arguments
        pick = operator.itemgetter(*positions)

        def tensors_of(arguments: Sequence[Any]) -> Sequence[Any]:
            try:
                return pick(arguments)  # type: ignore[no-any-return]
            except IndexError:  # options are left out
                return arguments

        return tensors_of

    def __call__(self, *arguments: Any) -> Any:
        if not _is_compiling():
            if tracing := _is_tracing():
                arguments = tuple(_with_numbers(self._name, argument) for argument in arguments)
            if _are_transforms_active() or forward_ad._current_level >= 0:
                return self._transformed(*arguments)
            tensors = self._tensors_of(arguments)
            if not (_is_grad_enabled() and _any_requires_grad(*tensors)):
                if not tracing and (output := self._direct(*arguments)) is not None:
                    return output
                # Straight to the kernel: the registered formulas are Python, and calling them only
                # to learn that no gradient is wanted takes as long as the rest of the call.
                try:
                    with _BelowAutograd():
                        return self._op(*arguments)
                except NotImplementedError:  # a tensor subclass, such as a nested tensor
                    self._reject(arguments)
                    raise
                except TypeError as error:
                    return self._op(*as_plain(error, arguments))
                except RuntimeError as error:
                    raise readable(error) from None
            # Only the dispatcher shows the operator to traces, subclasses, modes and autocast.
            if not (tracing or _has_torch_function(tensors) or _dispatch_modes() or _is_autocast()):
                try:
                    return self._recorded(*arguments)
                except RuntimeError as error:
                    raise readable(error) from None
            return called(self._op, *arguments)
        return (self._transformed if _are_transforms_active() else self._op)(*arguments)

    def _reject(self, arguments: tuple[Any, ...]) -> None:
        for argument, value in zip(self._op._schema.arguments, arguments, strict=False):
            if message := unsupported(self._name, argument.name, value):
                raise RuntimeError(message) from None
