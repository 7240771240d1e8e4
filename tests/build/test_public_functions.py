"""What holds for every public function: tensors that no kernel takes are refused by name."""

from typing import Any

import pytest
from fuzz.calls import Target, valid_arguments
from fuzz.draws import Draw
from torch import Tensor

from build.operators import FUNCTIONS, KINDS


def valid_call(target: Target) -> tuple[dict[str, Any], list[str]]:
    """Return arguments that a function accepts, and which of them are tensors; none for some."""
    for seed in range(40):
        arguments = valid_arguments(Draw(f"{target.name}/{seed}"), target)
        # Only the library and the device of `like` are looked at.
        names = [n for n, a in arguments.items() if isinstance(a, Tensor) and n != "like"]
        if any(arguments[name].numel() == 0 for name in names) or not names:
            continue
        try:
            target.function(**arguments)
        except (RuntimeError, TypeError, ValueError):
            continue
        return arguments, names
    return {}, []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_kinds_of_tensors_are_refused_by_name(name: str, kind: str) -> None:
    """Whichever argument it is, torch's own message would speak of sizes or dispatch keys."""
    target = FUNCTIONS[name]
    arguments, tensors = valid_call(target)
    for argument in tensors:
        if kind == "layout mkldnn" and arguments[argument].dim() > 5:
            continue  # torch can't make one
        changed = {**arguments, argument: KINDS[kind](arguments[argument])}
        with pytest.raises((RuntimeError, TypeError, ValueError), match=r"^visops\.") as caught:
            target.function(**changed)
        assert "\n" not in str(caught.value)


def test_most_functions_are_called() -> None:
    """Others take arrays, names or lists of tensors."""
    called = [name for name, target in FUNCTIONS.items() if valid_call(target)[1]]
    assert len(called) > 40
    assert {"visops.warp_affine", "visops.mask_iou", "visops.point_sample"} <= set(called)
