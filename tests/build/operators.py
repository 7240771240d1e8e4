"""Every operator, with a valid call of it."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch
from fuzz.calls import Target, all_targets, valid_arguments
from fuzz.draws import Draw
from torch import Tensor
from torch.utils import _pytree as pytree

OPERATORS = {
    target.function.__name__: target
    for target in all_targets()
    if target.name.startswith("torch.ops.") and target.arguments
}

DIFFERENTIABLE = [
    name
    for name in OPERATORS
    if torch._C._dispatch_has_kernel_for_dispatch_key(f"visops::{name}", "Autograd")
]

DTYPES = (torch.float32, torch.float64, torch.int32, torch.int64)
MOST_EMULATED = 100_000  # elements of a tensor; for more, some emulated kernels take minutes


@functools.cache
def valid_call(name: str) -> tuple[Target, dict[str, Any]]:
    """Return an operator with arguments that it accepts, and that give a result with elements."""
    target = OPERATORS[name]
    for seed in range(200):
        arguments = valid_arguments(Draw(f"{name}/{seed}"), target)
        try:
            results = pytree.tree_leaves(target.function(**arguments))
        except RuntimeError:
            continue
        tensors = [(n, a) for n, a in arguments.items() if isinstance(a, Tensor)]
        outputs = [r for r in results if r is not None]
        usual = all(
            0 < t.numel() <= MOST_EMULATED
            and t.dim() < 6
            and (n.startswith(("masks", "pictures")) or t.dtype in DTYPES)
            for n, t in tensors
        )
        if usual and (not outputs or any(map(Tensor.numel, outputs))):
            return target, arguments
    raise AssertionError(f"no valid call of {name} was drawn")


def nested(tensor: Tensor) -> Tensor:
    """Return two of it as one nested tensor."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a prototype
        return torch.nested.nested_tensor([tensor, tensor])


def quantized(tensor: Tensor) -> Tensor:
    """Return it with eight bits."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated
        return torch.quantize_per_tensor(tensor.float(), 0.1, 0, torch.quint8)


KINDS: dict[str, Callable[[Tensor], Tensor]] = {
    "layout sparse_coo": Tensor.to_sparse,
    "layout mkldnn": lambda tensor: tensor.float().to_mkldnn(),
    "nested": nested,
    "quantized": quantized,
}

Arguments = dict[str, Any]


def is_leaf(value: Any) -> bool:
    """Whether a gradient by the value may be wanted."""
    return isinstance(value, Tensor) and value.is_floating_point()


def gradients(call: Callable[..., Any], arguments: Arguments, wanted: str) -> list[Tensor | None]:
    """Return the derivatives by one argument; none where the operator has or gives none."""

    def copied(value: Any) -> Any:
        return value.detach().clone().requires_grad_() if is_leaf(value) else value

    given = {**arguments, wanted: pytree.tree_map(copied, arguments[wanted])}
    leaves = [leaf for leaf in pytree.tree_leaves(given[wanted]) if is_leaf(leaf)]
    try:
        results = [r for r in pytree.tree_leaves(call(**given)) if r is not None]
        sums = [result.sum() for result in results if result.requires_grad]
        return list(torch.autograd.grad(sums, leaves, allow_unused=True)) if sums else []
    except Exception as error:
        if "can't be differentiated again" not in str(error):
            raise
        return []


FUNCTIONS = {
    target.name: target
    for target in all_targets()
    if not target.name.startswith("torch.ops.") and target.arguments
}
