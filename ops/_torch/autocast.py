"""Casts within torch.autocast, as torch's convolutions have them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .registering import LIBRARY


def autocast_dtype(tensor: Tensor) -> torch.dtype | None:
    """Return the dtype of autocast on the tensor's device; None where it is off."""
    device = tensor.device.type
    if device not in ("cpu", "cuda") or not torch.is_autocast_enabled(device):
        return None
    return torch.get_autocast_dtype(device)


def cast_to(tensor: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Cast what is neither double nor complex, nor of integers."""
    if tensor is None or not tensor.is_floating_point() or tensor.dtype == torch.float64:
        return tensor
    return tensor.to(dtype)


class _FullProduct(torch.autograd.Function):
    """A matrix product that autocast leaves alone, as it does its gradients."""

    generate_vmap_rule = True

    @staticmethod
    def forward(a: Tensor, b: Tensor) -> Tensor:
        with torch.autocast(a.device.type, enabled=False):
            return a @ b

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:  # type: ignore[override]
        a, b = ctx.saved_tensors
        by_a, by_b = ctx.needs_input_grad
        return (
            full_product(grad, b.mH).sum_to_size(a.shape) if by_a else None,
            full_product(a.mH, grad).sum_to_size(b.shape) if by_b else None,
        )


def full_product(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a @ b`` in the dtype of both, which autocast would lower behind the caller's back.

    Both have two dimensions or more.
    """
    if autocast_dtype(a) is None:
        return a @ b
    return _FullProduct.apply(a, b)  # type: ignore[no-any-return,no-untyped-call]


def register_autocast(op: str, cast: Callable[..., tuple[Any, ...]]) -> None:
    """Cast the arguments of `op` itself; torch.library.register_autocast knows one dtype only.

    `cast` gets the arguments up to the last that is not its default.
    """
    for key in ("AutocastCPU", "AutocastCUDA"):
        _register(op, cast, key)


def _register(op: str, cast: Callable[..., tuple[Any, ...]], key: str) -> None:
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))
    call = getattr(torch.ops.visops, op).default

    def kernel(*arguments: Any) -> Any:
        arguments = cast(*arguments)
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return call(*arguments)

    LIBRARY.impl(op, kernel, key)
