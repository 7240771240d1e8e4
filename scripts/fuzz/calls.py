"""Draws calls: of operators by their schemas, of public functions by their signatures."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
import visops
from torch import Tensor
from torch.utils import _pytree as pytree
from visops import compat

from .draws import Draw, as_array, relayout, spoil, spoil_plain
from .strangers import BYTES, decode_mutated, rle_mutated, transform_mutated

EMPTY = inspect.Parameter.empty
# How a call is made; see ways.py.
WAYS = ("plain", "plain", "plain", "gradient", "meta", "vmap", "transform")


@dataclass(frozen=True)
class Target:
    """A function and its arguments."""

    name: str  # in reports, and for --only
    function: Callable[..., Any]
    arguments: Mapping[str, Any]  # names and defaults, from the schema if there is one
    takes_arrays: bool = False
    ways: Sequence[str] = WAYS
    takes_bytes: bool = False  # of strangers: they are wrong already


@dataclass
class Call:
    """One call, ready to be made."""

    target: Target
    way: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        given = ", ".join(f"{name}={describe(value)}" for name, value in self.arguments.items())
        return f"{self.target.name}({given}) [{self.way}]"


def describe(value: Any) -> str:
    """Describe an argument for a report."""
    if isinstance(value, Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        if value.layout != torch.strided or value.is_nested or value.is_quantized:
            return f"{dtype} {value.layout}{' nested' if value.is_nested else ''}"
        text = f"{dtype}{list(value.shape)}"
        text += "" if value.is_contiguous() else f" strides {list(value.stride())}"
        text += " neg" if value.is_neg() else ""
        text += "" if value.device.type == "cpu" else f" on {value.device}"
        if not value.is_meta and value.numel() <= 12:
            text += f" {value.tolist()}"
        return text
    if isinstance(value, np.ndarray):
        return f"ndarray {value.dtype}{list(value.shape)} strides {list(value.strides)}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(describe, value))}]"
    return repr(value)


def all_targets() -> list[Target]:
    """Return the operators, then the public functions."""
    operators = [
        Target(
            f"torch.ops.visops.{name}",
            getattr(torch.ops.visops, name),
            {
                argument.name: argument.default_value if argument.has_default_value() else EMPTY
                for argument in schema.arguments
            },
        )
        for name, schema in sorted(_schemas().items())
    ]
    functions = [_function(f"visops.{name}", getattr(visops, name)) for name in visops.__all__]
    functions += [
        _function(f"visops.compat.{name}", getattr(compat, name)) for name in compat.__all__
    ]
    return operators + [target for target in functions if target is not None] + _strangers()


def _strangers() -> list[Target]:
    """Return functions of bytes, which are wrong already, though not of a wrong kind."""
    found = []
    for function in (decode_mutated, transform_mutated, rle_mutated):
        target = _function(f"bytes.{function.__name__}", function)
        assert target is not None
        found.append(replace(target, takes_arrays=False, ways=("plain",), takes_bytes=True))
    return found


def _schemas() -> dict[str, Any]:
    """Return the operators' schemas by name."""
    schemas = {str(schema.name): schema for schema in torch._C._jit_get_all_schemas()}
    return {
        name.removeprefix("visops::"): schema
        for name, schema in schemas.items()
        if name.startswith("visops::")
    }


def _function(name: str, function: Any) -> Target | None:
    if not inspect.isfunction(function):
        return None
    parameters = [
        p
        for p in inspect.signature(function).parameters.values()
        if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    takes_arrays = any("ndarray" in str(p.annotation) for p in parameters)
    arguments = {p.name: p.default for p in parameters}
    return Target(name, function, arguments, takes_arrays) if arguments else None


# A mask of 1 x 2**31 - 1 pixels is allowed, and a few of them take more memory than a call may.
_KEPT = {("torch.ops.visops.runs_to_bits", "size")}


# What results are as large as. Products in between are allowed, and take more memory than a call
# may; larger ones can't be allocated.
_SIZES = (
    *("batch", "input_size", "images_size", "patches_size", "weight_size", "output_size"),
    *("mask_size", "image_size", "value_size", "out_size", "size", "sizes", "kernel_size"),
    *("padding", "out_h", "out_w", "num_points", "oversample_ratio"),
)
# A single number is meant for both dimensions.
_SIDES = ("size", "out_size", "output_size", "kernel_size", "padding")
_GIGABYTES = (1 << 24, 1 << 34)


def takes_gigabytes(arguments: Mapping[str, Any]) -> bool:
    given = {name: arguments.get(name) for name in _SIZES}
    levels = given["sizes"]
    if isinstance(levels, list) and all(type(n) is int for n in levels):  # pairs, which add up
        pairs = zip(levels[::2], levels[1::2], strict=False)
        given["sizes"] = max((height * width for height, width in pairs), default=0)
    numbers = pytree.tree_leaves(list(given.values()))
    numbers += [arguments[name] for name in _SIDES if isinstance(arguments.get(name), int)]
    positive = [n for n in numbers if _counts(n)]
    tensors = [t for t in pytree.tree_leaves(arguments) if isinstance(t, Tensor)]
    largest = max((t.numel() for t in tensors), default=1)
    least = math.prod(positive)
    most = least * max(largest, 1)
    return most >= _GIGABYTES[0] and least <= _GIGABYTES[1]


_MOST_READS = 1 << 31


def reads_for_long(arguments: Mapping[str, Any]) -> bool:
    """Whether a degenerate homography would read whole images so often that it looks like a hang.

    That is documented: up to 4 windows (bicubic: 16) for each output pixel.
    """
    if not arguments.get("antialias"):
        return False
    tensors = {
        name: [t for t in pytree.tree_leaves(value) if isinstance(t, Tensor) and not t.is_nested]
        for name, value in arguments.items()
    }
    if not any(t.shape[-2:] == (3, 3) for t in tensors.get("matrix", [])):
        return False
    results = tensors.get("grad", []) + tensors.get("out", [])
    sides = [list(t.shape[-2:]) for t in results] or arguments.get("size")
    pixels = [n for n in pytree.tree_leaves(sides) if _counts(n)]
    values = sum(t.numel() for name in ("image", "images") for t in tensors.get(name, []))
    windows = 16 if "bicubic" in (arguments.get("mode"), arguments.get("interpolation")) else 4
    return windows * values * math.prod(pixels) > _MOST_READS


def _counts(number: object) -> bool:
    return isinstance(number, (int, float)) and 0 < number < math.inf


def draw_call(targets: Sequence[Target], seed: int, number: int) -> Call:
    """Return call `number` of a seed, the same one every time."""
    draw = Draw(f"{seed}/{number}")
    target = targets[number % len(targets)]
    call = Call(target, draw.choice(target.ways), valid_arguments(draw, target))
    if target.takes_bytes:
        return call
    for name, value in call.arguments.items():
        if isinstance(value, Tensor) and draw.chance(0.3):
            call.arguments[name] = relayout(draw, value)
    for _ in range(draw.choice((0, 0, 1, 1, 2)) if call.arguments else 0):
        name = draw.choice(list(call.arguments))
        if (target.name, name) in _KEPT:
            continue
        value = call.arguments[name]
        spoiler = spoil if isinstance(value, Tensor) else spoil_plain
        call.arguments[name] = spoiler(draw, value)
        if name in _SIZES and takes_gigabytes(call.arguments):
            call.arguments[name] = value
    if reads_for_long(call.arguments):
        call.arguments["antialias"] = False
    if target.takes_arrays and draw.chance(0.4):
        call.way = "plain"
        call.arguments = {name: _to_arrays(draw, v) for name, v in call.arguments.items()}
    return call


def valid_arguments(draw: Draw, target: Target) -> dict[str, Any]:
    """Return arguments that should fit together."""
    if target.takes_bytes:
        return BYTES[target.function](draw)
    from . import entries  # imports more of torch than calls do

    return entries.valid_arguments(draw, target.name, target.arguments)


def _to_arrays(draw: Draw, value: Any) -> Any:
    if isinstance(value, list) and value and all(isinstance(item, Tensor) for item in value):
        return [_to_arrays(draw, item) for item in value]
    if isinstance(value, Tensor):
        try:
            return as_array(draw, value)
        except (TypeError, RuntimeError, ValueError):
            return value
    return value
