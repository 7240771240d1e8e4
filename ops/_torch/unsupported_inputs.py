"""Tensors that no kernel takes, and subclasses that don't take each other.

torch would tell the user about dispatch keys and handlers.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

# The alias covers every backend that has no kernel of its own, except nested tensors.
_KEYS = ("CompositeExplicitAutograd", "NestedTensorCPU", "NestedTensorCUDA", "AutogradNestedTensor")
_DEVICES = ("cpu", "cuda", "meta")


def reject_foreign_tensors(library: torch.library.Library, names: Iterable[str]) -> None:
    """Give operators a kernel that raises for tensors without strides, and on other devices."""
    for name in names:
        kernel = _refusing(name)
        for key in _KEYS:
            library.impl(name, kernel, key)


def unsupported(op: str, name: str, value: Any) -> str | None:
    """Return a message if no kernel takes this argument, or None."""
    if isinstance(value, (list, tuple)):
        messages = (unsupported(op, f"{name}[{i}]", item) for i, item in enumerate(value))
        return next((message for message in messages if message), None)
    if not isinstance(value, Tensor):
        return None
    if value.is_nested:
        return f"visops.{op}: {name} is a nested tensor, must be a dense one; unbind() it"
    if value.is_quantized:
        return f"visops.{op}: {name} is quantized, must be a plain tensor; dequantize() it"
    if value.layout != torch.strided:
        kind = str(value.layout).removeprefix("torch.").removeprefix("_")
        return f"visops.{op}: {name} has layout {kind}, must be dense; call to_dense() on it"
    if value.is_cpu or value.is_cuda:  # the device's name alone takes half a microsecond
        return None
    if value.device.type not in _DEVICES:
        return f"visops.{op}: {name} is on {value.device}, must be on cpu or cuda"
    return None


def require_plain(op: str, **tensors: Any) -> None:
    """Raise for tensors that no kernel takes, in functions that use them before they call one."""
    for name, value in tensors.items():
        if message := unsupported(op, name, value):
            raise TypeError(message)


def require_tensors(op: str, **values: Any) -> None:
    """Raise TypeError for anything but tensors, in functions that take no arrays."""
    for name, value in values.items():
        if not isinstance(value, Tensor):
            kind = type(value).__name__
            raise TypeError(f"visops.{op}: {name} is a {kind}, must be a torch.Tensor")


def is_multiple_dispatch_error(error: TypeError) -> bool:
    """Return whether torch raised this for subclasses of which none takes the others."""
    return str(error).startswith("Multiple dispatch failed")


def as_plain(error: TypeError, values: Iterable[Any]) -> list[Any]:
    """Return an operator's arguments with plain tensors, if `error` is about their subclasses.

    torchvision's images, masks and boxes, for example, don't take each other.

    Raises
    ------
    TypeError
        `error`, if it is another one.
    """
    if not is_multiple_dispatch_error(error):
        raise error
    return [_plain(value) for value in values]


def called(operator: Callable[..., Any], *arguments: Any) -> Any:
    """Call an operator, with plain tensors where the subclasses given don't take each other."""
    try:
        return operator(*arguments)
    except TypeError as error:
        return operator(*as_plain(error, arguments))
    except RuntimeError as error:
        raise readable(error) from None


# What the dispatcher says of a value that a schema doesn't take.
_MISMATCH = re.compile(
    r"visops::(\w+)\(\) Expected a value of type '([^']*)' for argument '(\w+)' but instead found "
    r"type '[^']*'\.\nPosition: \d+\nValue: (.*)\nDeclaration:",
    re.DOTALL,
)
_WANTED = {
    "float": "a number",
    "int": "an integer",
    "bool": "a bool",
    "str": "a string",
    "List[int]": "a sequence of integers",
    "List[float]": "a sequence of numbers",
}


def readable(error: RuntimeError, op: str | None = None) -> RuntimeError:
    """Return the dispatcher's error for a value of the wrong type in the form of this library's.

    It names the function `op`, or else the operator. Other errors come back as they are.
    """
    found = _MISMATCH.match(str(error))
    if found is None:
        return error
    name, kind, argument, value = found.groups()
    optional = re.fullmatch(r"Optional\[(.*)\]", kind)
    wanted = _WANTED.get(optional[1] if optional else kind, kind) + " or None" * bool(optional)
    value = " ".join(value.split())  # a tensor has several lines
    return RuntimeError(f"visops.{op or name}: {argument} is {value}, must be {wanted}")


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value.as_subclass(Tensor) if isinstance(value, Tensor) else value


def require_values(op: str, name: str, tensor: Tensor) -> None:
    """Raise for tensors whose values the host can't read."""
    require_plain(op, **{name: tensor})
    reject_vmap(op, "call it with each entry", tensor)
    if tensor.is_meta:
        raise RuntimeError(f"visops.{op}: {name} is on meta, must have values")


def reject_vmap(op: str, instead: str, *values: Any) -> None:
    """Raise for tensors of torch.vmap, in functions that turn values into Python's objects."""
    if any(isinstance(v, Tensor) and _is_mapped(v) for v in values):
        raise RuntimeError(f"visops.{op}: under vmap values can't be read; {instead}")


def _is_mapped(tensor: Tensor) -> bool:
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_batchedtensor(tensor):
            return True
        tensor = functorch.get_unwrapped(tensor)
    return False


def reject_float8(op: str, name: str, tensor: Tensor) -> None:
    """Raise for floats of 8 bits: torch can't add them, and so not their gradients."""
    if tensor.is_floating_point() and tensor.element_size() == 1:
        given = str(tensor.dtype).removeprefix("torch.")
        raise TypeError(
            f"visops.{op}: {name} has dtype {given}, must be float16, bfloat16, float32, "
            "float64 or an integer type"
        )


def _refusing(op: str) -> Callable[..., Any]:
    def kernel(*arguments: Any, **named: Any) -> Any:
        schema = getattr(torch.ops.visops, op).default._schema.arguments
        raise RuntimeError(_reason(op, schema, arguments, named))

    return kernel


def _reason(op: str, schema: Sequence[Any], arguments: Sequence[Any], named: Any) -> str:
    given = {a.name: value for a, value in zip(schema, arguments, strict=False)} | named
    for name, value in given.items():
        if message := unsupported(op, name, value):
            return message
    for argument in schema:
        if str(argument.type) == "Tensor" and given.get(argument.name) is None:
            return f"visops.{op}: {argument.name} is None, must be a tensor"
        if str(argument.type) == "List[Tensor]" and not given.get(argument.name):
            return f"visops.{op}: {argument.name} is empty, must hold at least one tensor"
    return f"visops.{op}: no tensor is on cpu or cuda"
