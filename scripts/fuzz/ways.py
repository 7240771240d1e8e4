"""Makes a call: plainly, with gradients, on meta tensors, or under torch's transforms."""

import ctypes
import functools
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from .calls import Call

# The alignment of memory decides what BLAS and oneDNN do, so bits may differ between calls; the
# last one draws random numbers.
_NOT_ALWAYS_THE_SAME_BITS = ("conv2d", "convolve2d", "correlate2d", "sample_points")
# torch neither adds nor divides these, which a second gradient takes.
_WITHOUT_ARITHMETIC = (
    torch.complex32,
    *(getattr(torch, name) for name in dir(torch) if name.startswith("float8_")),
)
_M_PERTURB = -6  # for mallopt: which byte fills fresh memory


class FindingError(Exception):
    """A call returned a wrong result."""


def make(call: Call, draw_again: Callable[[], Call]) -> None:
    """Make the call; raise what it raises, or FindingError."""
    if call.way == "meta":
        _on_meta(call, draw_again)
    elif call.way == "vmap":
        _under_vmap(call)
    elif call.way == "gradient":
        _with_gradients(call)
    elif call.way == "transform":
        _under_transform(call)
    elif call.target.takes_bytes and is_sanitized():  # which sees more than two results tell
        _run(call)
    else:
        _twice(call, draw_again)


@functools.cache
def is_sanitized() -> bool:
    """Whether this process runs under a sanitizer that watches memory."""
    maps = Path("/proc/self/maps")
    return maps.exists() and re.search("libasan|libtsan", maps.read_text()) is not None


def _run(call: Call, **changed: Any) -> Any:
    return call.target.function(**{**call.arguments, **changed})


_mallopt = ctypes.CDLL(None).mallopt if sys.platform == "linux" else None


def _perturb(byte: int) -> None:
    if _mallopt is not None:
        _mallopt(_M_PERTURB, byte)


def _twice(call: Call, draw_again: Callable[[], Call]) -> None:
    """Call twice with different garbage in fresh memory, and compare bits."""
    name = call.target.name.replace("deform_conv2d", "")  # which calls neither
    if any(word in name for word in _NOT_ALWAYS_THE_SAME_BITS):
        _run(call)
        return
    _perturb(0x55)
    first = _bits(_run(call))
    again = draw_again()
    _perturb(0xAA)
    second = _bits(_run(again))
    _perturb(0)
    if first != second:
        raise FindingError(
            "two calls gave different bits: uninitialised or foreign memory was read"
        )


def _bits(result: Any) -> list[Any]:
    return [
        leaf.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
        if isinstance(leaf, Tensor) and not leaf.is_meta
        else _bits_of_array(leaf)
        if isinstance(leaf, np.ndarray)
        else None
        for leaf in pytree.tree_leaves(result)
    ]


def _bits_of_array(array: np.ndarray) -> Any:
    """The bytes, but of C's long double its value: some of its 16 bytes are never written."""
    return repr(array.tolist()) if array.dtype.char in "gG" else array.tobytes()


def _differentiable(value: Any) -> bool:
    return (
        isinstance(value, Tensor)
        and (value.is_floating_point() or value.is_complex())
        and value.layout == torch.strided
    )


def _with_gradients(call: Call) -> None:
    """Differentiate twice by every floating argument."""
    leaves = []
    for name, value in call.arguments.items():
        if _differentiable(value) and name != "out":
            leaf = value.detach().requires_grad_()
            call.arguments[name] = leaf
            leaves.append(leaf)
    results = [r for r in pytree.tree_leaves(_run(call)) if isinstance(r, Tensor)]
    results = [r for r in results if r.requires_grad]
    if not results:
        return
    grads = torch.autograd.grad(_sum(results), leaves, create_graph=True, allow_unused=True)
    if any(leaf.dtype in _WITHOUT_ARITHMETIC for leaf in leaves):
        return
    again = [g * g for g in grads if g is not None and g.requires_grad]
    if again:
        torch.autograd.grad(_sum(again), leaves, allow_unused=True)


def _sum(tensors: Iterable[Tensor]) -> Tensor:
    real = (t.abs() if t.is_complex() else t.double() for t in tensors)
    return sum((t.sum() for t in real), torch.zeros(()))


def _on_meta(call: Call, draw_again: Callable[[], Call]) -> None:
    """Compare the real result's shape with the one the fake kernel promises.

    For arguments that the operator takes: about others, a fake kernel may say anything.
    """

    def moved(value: Any) -> Any:
        return value.to("meta") if isinstance(value, Tensor) and value.dim() else value

    leaves = pytree.tree_leaves(call.arguments)
    if not all(map(_is_plain, leaves)):
        return
    # Moving makes overlapping tensors contiguous.
    compares_strides = all(
        moved(leaf).stride() == leaf.stride() for leaf in leaves if isinstance(leaf, Tensor)
    )
    real = _run(draw_again())
    try:
        fake = _run(call, **pytree.tree_map(moved, call.arguments))
    except RuntimeError as error:  # sizes that depend on values are unknown on meta
        if "no result can be inferred" in str(error):
            raise FindingError(f"the fake kernel knows no result: {error}") from None
        raise
    pairs = zip(pytree.tree_leaves(fake), pytree.tree_leaves(real), strict=True)
    for promised, made in pairs:
        if isinstance(made, Tensor) and isinstance(promised, Tensor):
            was, found = ((t.shape, t.dtype, _strides(t)) for t in (promised, made))
            compared = 3 if compares_strides and made.numel() else 2
            if was[:compared] != found[:compared]:
                raise FindingError(f"the fake kernel promised {was}, the result has {found}")


def _strides(tensor: Tensor) -> tuple[int, ...]:
    """Return the strides that matter: not those along one element."""
    return tuple(
        stride if size > 1 else 0
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )


def _is_plain(value: Any) -> bool:
    return not isinstance(value, Tensor) or (
        value.layout == torch.strided and not value.is_quantized and not value.is_nested
    )


def _under_vmap(call: Call) -> None:
    """Map one tensor, or all, over 0 to 3 entries."""
    names = [n for n, v in call.arguments.items() if isinstance(v, Tensor) and n != "out"]
    if not names or not all(_is_plain(call.arguments[n]) for n in names):
        return
    names = names[:1] if len(str(call)) % 2 else names
    count = len(str(call)) % 4
    stacked = [
        call.arguments[n].unsqueeze(0).expand(count, *call.arguments[n].shape) for n in names
    ]
    mapped = torch.func.vmap(lambda *entries: _run(call, **dict(zip(names, entries, strict=True))))
    try:
        mapped(*stacked)
    except IndexError as error:
        # Torch's own: `torch.vmap(lambda x: 2 * x)(torch.empty(0))` fails alike. Operators have
        # rules for no entries, but functions made of torch's operators can't catch it.
        is_operator = call.target.name.startswith("torch.ops.")
        if count or is_operator or not str(error).startswith("select(): index 0 out of range"):
            raise


def _under_transform(call: Call) -> None:
    """Differentiate by the first floating argument with torch.func."""
    name = next((n for n, v in call.arguments.items() if _differentiable(v) and n != "out"), None)
    if name is None:
        _run(call)
        return

    def total(argument: Tensor) -> Tensor:
        results = pytree.tree_leaves(_run(call, **{name: argument}))
        return _sum(r for r in results if _differentiable(r))

    torch.func.grad(total)(call.arguments[name].detach())
