"""One rule for numbers: NumPy's and torch's scalars of no dimensions are taken where floats and
integers are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from fuzz.calls import Target, valid_arguments
from fuzz.draws import Draw
from torch.utils import _pytree as pytree

from build.operators import FUNCTIONS

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
IMAGE = torch.rand(1, 3, 9, 8, generator=torch.Generator().manual_seed(0))
# What the drawn calls leave out.
CALLS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "distance_transform spacing": (1.5, lambda v: visops.distance_transform(MASK, spacing=v)),
    "distance_transform whole spacing": (2, lambda v: visops.distance_transform(MASK, spacing=v)),
    "distance_transform dims": (
        3,
        lambda v: visops.distance_transform(MASK[None], spacing=2.0, dims=v),
    ),
    "im2col fill_value": (0.5, lambda v: visops.im2col(IMAGE, 3, padding=1, fill_value=v)),
    "connected_components": (
        2,
        lambda v: visops.connected_components(MASK, return_stats=True, max_components=v),
    ),
    "box_blur size": (3, lambda v: visops.box_blur(IMAGE, v)),
    "box_blur fill": (0.5, lambda v: visops.box_blur(IMAGE, (3, 5), border="constant", fill=v)),
    "gaussian_blur sigma": (0.75, lambda v: visops.gaussian_blur(IMAGE, sigma=v)),
    "mask_iou": (
        0.25,
        lambda v: visops.mask_iou(MASK[None], MASK[None], kind="boundary", dilation_ratio=v),
    ),
    "warp_affine fill": (0.5, lambda v: visops.warp_affine(IMAGE, np.eye(2, 3) * 0.5, fill=v)),
    "paste_masks size": (
        9,
        lambda v: visops.paste_masks(torch.rand(0, 4, 4), torch.rand(0, 4), (v, v)),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_single_numbers(name: str) -> None:
    value, call = CALLS[name]
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
