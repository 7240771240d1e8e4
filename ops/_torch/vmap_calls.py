"""What vmap rules share; and the rule of operators with no batch dimension to fold calls into."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from .registering import LIBRARY
from .unsupported_inputs import unsupported

# Called with what calls the operator, and then as torch calls a rule: info, in_dims, *arguments.
Rule = Callable[..., tuple[Any, Any]]
Stack = Callable[[Any], Tensor]


def one_call_each(
    call: Callable[..., Any],
    info: Any,
    in_dims: Any,
    *arguments: Any,
    stack: Stack = torch.stack,
) -> tuple[Any, Any]:
    """Call once per mapped entry, and stack the results."""
    results = [
        call(*(_entry(a, d, i) for a, d in zip(arguments, in_dims, strict=True)))
        for i in range(info.batch_size)
    ]
    if isinstance(results[0], Tensor):
        return stack(results), 0
    stacked = tuple(stack(parts) for parts in zip(*results, strict=True))
    return stacked, (0,) * len(stacked)


class OneCallOfEqualSizes:
    """The rule of an operator whose number of results depends on values.

    Results can only be stacked where there are as many of each entry; none have no shape. `instead`
    says in the errors what to call.
    """

    def __init__(self, instead: str = "") -> None:
        self._instead = instead

    def __call__(self, call: Any, info: Any, in_dims: Any, *arguments: Any) -> tuple[Any, Any]:
        def stack(parts: tuple[Tensor, ...] | list[Tensor]) -> Tensor:
            for i, part in enumerate(parts):
                if part.shape != parts[0].shape:
                    raise RuntimeError(
                        f"visops.{call._opname}: under vmap, sample {i} has {len(part)} results "
                        f"and sample 0 has {len(parts[0])}; all must have as many{self._instead}"
                    )
            return torch.stack(parts)

        if info.batch_size == 0:
            raise RuntimeError(
                f"visops.{call._opname}: vmap maps 0 samples, must be at least one: the number of "
                f"results depends on values{self._instead}"
            )
        return one_call_each(call, info, in_dims, *arguments, stack=stack)


def mapped_first(tensor: Tensor, dim: int | None, entries: int) -> Tensor:
    """Return the tensor with the mapped dimension first; a tensor that isn't mapped is repeated."""
    return tensor.movedim(dim, 0) if dim is not None else tensor.expand(entries, *tensor.shape)


def into_batch(tensor: Tensor, dim: int | None, entries: int) -> Tensor:
    """Return the entries as one batch, for operators whose first dimension is one."""
    return mapped_first(tensor, dim, entries).flatten(0, 1)


def out_of_batch(tensor: Tensor, entries: int) -> Tensor:
    """Return the batch that `into_batch` made as entries again, in the first dimension."""
    return tensor.reshape(entries, tensor.shape[0] // entries, *tensor.shape[1:])


def register_vmap(op: Any, call: Callable[..., Any], rule: Rule) -> None:
    """Register a rule of `op` for any call: with all arguments, and for no entries at all.

    For those, results have the fake kernel's shape. The dispatcher leaves out trailing arguments
    that equal their defaults.
    """
    name, schema = op._opname, op._schema.arguments
    defaults = [argument.default_value for argument in schema]

    def completed(info: Any, in_dims: Any, *arguments: Any) -> tuple[Any, Any]:
        missing = defaults[len(arguments) :]
        arguments = (*arguments, *missing)
        in_dims = (*in_dims, *(None for _ in missing))
        for argument, value in zip(schema, arguments, strict=True):
            check_presence(name, argument, value)
            if message := unsupported(name, argument.name, value):
                raise RuntimeError(message)
        if info.batch_size == 0 and not isinstance(rule, OneCallOfEqualSizes):
            return _no_results(op, in_dims, arguments)
        try:
            return rule(call, info, in_dims, *arguments)
        except IndexError:  # a list is too short: the operator names it
            op(*(_entry(a, d, 0) for a, d in zip(arguments, in_dims, strict=True)))
            raise

    torch.library.register_vmap(op._name, completed, lib=LIBRARY)


def check_presence(op: str, argument: Any, value: Any) -> None:
    """Raise for None, or an empty list, in place of tensors; `argument` is the schema's."""
    name, kind = argument.name, str(argument.type)
    if kind == "Tensor" and value is None:
        raise RuntimeError(f"visops.{op}: {name} is None, must be a tensor")
    if kind == "List[Tensor]" and len(value) == 0:
        raise RuntimeError(f"visops.{op}: {name} is an empty list, must hold at least one tensor")


def _entry(argument: Any, dim: Any, i: int) -> Any:
    if isinstance(argument, (list, tuple)) and isinstance(dim, (list, tuple)):  # a list of tensors
        return [_entry(a, d, i) for a, d in zip(argument, dim, strict=True)]
    # The operator refuses what is not a tensor where it wants another type: {} has no dimension.
    return argument.select(dim, i) if isinstance(argument, Tensor) and dim is not None else argument


def _no_results(op: Any, in_dims: Any, arguments: Any) -> tuple[Any, Any]:
    """Return what stacking no results would: the fake kernel knows their shape."""
    tensors = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, Tensor)]
    result = op(*(_fake_entry(a, d) for a, d in zip(arguments, in_dims, strict=True)))

    def none(part: Tensor) -> Tensor:
        empty = torch.empty((0, *part.shape), dtype=part.dtype, device=tensors[0].device)
        if empty.is_floating_point() or empty.is_complex():
            for tensor in tensors:
                if tensor.requires_grad:  # its gradient is zeros then, not missing
                    empty = empty + tensor.sum().to(empty.dtype)
        return empty

    empty = pytree.tree_map(none, result)
    return empty, 0 if isinstance(empty, Tensor) else (0,) * len(empty)


def _fake_entry(argument: Any, dim: Any) -> Any:
    if isinstance(argument, (list, tuple)):
        dims = dim if isinstance(dim, (list, tuple)) else [None] * len(argument)
        return [_fake_entry(a, d) for a, d in zip(argument, dims, strict=True)]
    if not isinstance(argument, Tensor):
        return argument
    shape = list(argument.shape)
    if dim is not None:
        del shape[dim]
    return torch.empty(shape, dtype=argument.dtype, device="meta")
