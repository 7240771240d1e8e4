"""`out` tensors that can't be written are refused, by every operator that takes one."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from fuzz.calls import Target, valid_arguments
from fuzz.draws import Draw
from layouts import field_of_records, foreign, read_only, unaligned
from torch import Tensor
from torch.utils import _pytree as pytree

from build.operators import FUNCTIONS

IMAGE = torch.rand(1, 1, 5, 5)
MATRIX = torch.eye(2, 3)
KERNEL = torch.rand(3, 3)

Call = Callable[[Tensor], object]
CALLS: dict[str, Call] = {
    "warp_affine": lambda out: visops.warp_affine(IMAGE, MATRIX, (5, 5), out=out),
    "augment": lambda out: visops.augment(IMAGE, MATRIX, (5, 5), out=out),
    "convolve2d_out": lambda out: torch.ops.visops.convolve2d_out(
        IMAGE[0, 0], KERNEL, [-1, -1], [5, 5], "fill", None, True, out[0, 0]
    ),
}
every_call = pytest.mark.parametrize(("op", "call"), CALLS.items(), ids=CALLS)


@every_call
def test_lazily_negated(op: str, call: Call) -> None:
    """Torch's fallback for such views aborts the process."""
    out = torch.zeros(1, 1, 5, 5, dtype=torch.complex64).conj().imag
    assert out.is_neg()
    with pytest.raises(RuntimeError, match=f"^visops.{op}: out is a lazily negated view"):
        call(out)


def test_lazily_conjugated() -> None:
    out = torch.zeros(5, 5, dtype=torch.complex64).conj()
    image, kernel = IMAGE[0, 0].to(torch.complex64), KERNEL.to(torch.complex64)
    with pytest.raises(RuntimeError, match=r"^visops\.convolve2d_out: out is a lazily conjugated"):
        torch.ops.visops.convolve2d_out(image, kernel, [-1, -1], [5, 5], "fill", None, True, out)


def test_lazy_inputs_are_resolved() -> None:
    image = torch.complex(IMAGE, IMAGE).conj().imag
    assert image.is_neg()
    out = visops.warp_affine(image, MATRIX, (5, 5), out=torch.empty(1, 1, 5, 5))
    assert torch.equal(out, -IMAGE)


@pytest.mark.parametrize(
    "image", [IMAGE, torch.complex(IMAGE, IMAGE).conj().imag], ids=["", "lazy"]
)
def test_none(image: Tensor) -> None:
    """Torch's schemas let None pass for a tensor."""
    arguments = ([-1, -1], [5, 5], "fill", None, True, None)
    with pytest.raises(RuntimeError, match=r"visops\.convolve2d: out is None, must be a tensor"):
        torch.ops.visops.convolve2d_out(image[0, 0], KERNEL, *arguments)


# convolve2d_out takes contiguous tensors only.
strided = pytest.mark.parametrize(
    ("op", "call"), [(op, CALLS[op]) for op in ("warp_affine", "augment")]
)


@strided
@pytest.mark.parametrize("strides", [(25, 25, 4, 1), (25, 25, 5, 0), (25, 25, 1, 1)])
def test_overlapping_elements(op: str, call: Call, strides: tuple[int, ...]) -> None:
    out = torch.as_strided(torch.zeros(100), (1, 1, 5, 5), strides)
    with pytest.raises(RuntimeError, match="its elements must not overlap"):
        call(out)


@strided
@pytest.mark.parametrize("strides", [(25, 25, 1, 5), (99, 77, 10, 2), (1, 1, 6, 1)])
def test_other_strides_are_written(op: str, call: Call, strides: tuple[int, ...]) -> None:
    out = torch.as_strided(torch.zeros(200), (1, 1, 5, 5), strides)
    expected = torch.empty(1, 1, 5, 5)
    call(expected)
    call(out)
    assert torch.equal(out, expected)


ARRAY = np.zeros((12, 14, 3), np.float32)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (foreign, "out has byte order '>', must have this machine's"),
        (unaligned, "out is not aligned to its element size"),
        (field_of_records, "out is not aligned to its element size"),
        (read_only, "out is read-only"),
    ],
)
def test_arrays_must_be_writable_in_place(kind: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^visops.warp_affine: {message}"):
        visops.warp_affine(ARRAY, MATRIX.numpy(), out=kind(ARRAY))


Form = Callable[[Any], Any]

FORMS: dict[type, dict[str, Form]] = {
    float: {
        "float32": np.float32,
        "float64": np.float64,
        "array": np.array,
        "tensor": lambda value: torch.tensor(value, dtype=torch.float64),
    },
    int: {"int64": np.int64, "int32": np.int32, "array": np.array, "tensor": torch.tensor},
}
MASK = torch.tensor([[True, True, True], [True, False, True]])
NUMBERS_IMAGE = torch.rand(1, 3, 9, 8, generator=torch.Generator().manual_seed(0))
# What the drawn calls leave out.
NUMBERS_CALLS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "distance_transform spacing": (1.5, lambda v: visops.distance_transform(MASK, spacing=v)),
    "distance_transform whole spacing": (2, lambda v: visops.distance_transform(MASK, spacing=v)),
    "distance_transform dims": (
        3,
        lambda v: visops.distance_transform(MASK[None], spacing=2.0, dims=v),
    ),
    "im2col fill_value": (0.5, lambda v: visops.im2col(NUMBERS_IMAGE, 3, padding=1, fill_value=v)),
    "connected_components": (
        2,
        lambda v: visops.connected_components(MASK, return_stats=True, max_components=v),
    ),
    "box_blur size": (3, lambda v: visops.box_blur(NUMBERS_IMAGE, v)),
    "box_blur fill": (
        0.5,
        lambda v: visops.box_blur(NUMBERS_IMAGE, (3, 5), border="constant", fill=v),
    ),
    "gaussian_blur sigma": (0.75, lambda v: visops.gaussian_blur(NUMBERS_IMAGE, sigma=v)),
    "mask_iou": (
        0.25,
        lambda v: visops.mask_iou(MASK[None], MASK[None], kind="boundary", dilation_ratio=v),
    ),
    "warp_affine fill": (
        0.5,
        lambda v: visops.warp_affine(NUMBERS_IMAGE, np.eye(2, 3) * 0.5, fill=v),
    ),
    "paste_masks size": (
        9,
        lambda v: visops.paste_masks(torch.rand(0, 4, 4), torch.rand(0, 4), (v, v)),
    ),
}


@pytest.mark.parametrize("name", NUMBERS_CALLS)
def test_single_numbers(name: str) -> None:
    value, call = NUMBERS_CALLS[name]
    wanted = pytree.tree_leaves(call(value))
    for form in FORMS[type(value)].values():
        for ours, theirs in zip(pytree.tree_leaves(call(form(value))), wanted, strict=True):
            assert torch.equal(ours, theirs)


def numbers_of(arguments: dict[str, Any]) -> list[str]:
    """The arguments that are one float or integer."""
    return [name for name, value in arguments.items() if type(value) in FORMS]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_drawn_numbers(name: str) -> None:
    """Any public function with numbers among its arguments takes them in every form."""
    target: Target = FUNCTIONS[name]
    tried: set[str] = set()
    for seed in range(12):
        try:
            arguments = valid_arguments(Draw(f"{name}/{seed}"), target)
            target.function(**arguments)
        except (RuntimeError, TypeError, ValueError):
            continue
        for argument in numbers_of(arguments):
            if argument in tried:
                continue
            tried.add(argument)
            value = arguments[argument]
            for form in FORMS[type(value)].values():
                if not (isinstance(value, float) and float(form(value)) != value):
                    target.function(**{**arguments, argument: form(value)})
