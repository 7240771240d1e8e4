"""What holds for every operator, drawn from its schema: vmap, other kinds of tensors, devices."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from build.operators import KINDS, OPERATORS, valid_call

MAPPED = [
    name
    for name in OPERATORS
    if torch._C._dispatch_has_kernel_for_dispatch_key(f"visops::{name}", "FuncTorchBatched")
]
# How many results these have depends on values.
COUNTED = {
    *("nms", "batched_nms", "nms_rotated", "nms_match", "matrix_nms"),
    *("soft_nms", "batched_soft_nms", "soft_nms_rotated"),
    *("weighted_boxes_fusion", "weighted_boxes_fusion_3d", "non_maximum_weighted"),
    "masks_to_runs",
}
every_operator = pytest.mark.parametrize("name", OPERATORS)
every_mapped_operator = pytest.mark.parametrize("name", MAPPED)


def tensor_names(arguments: dict[str, Any]) -> list[str]:
    """Return the names of the arguments that are tensors."""
    return [name for name, value in arguments.items() if isinstance(value, Tensor)]


def mapped_name(arguments: dict[str, Any]) -> str:
    """Return the name of the first argument that is a tensor or a list of tensors."""
    return next(
        name
        for name, value in arguments.items()
        if isinstance(value, Tensor)
        or (isinstance(value, (list, tuple)) and value and isinstance(value[0], Tensor))
    )


def repeated(value: Any, times: int) -> Any:
    """Return a tensor, or each of a list, as that many entries of a new first dimension."""
    return pytree.tree_map(lambda tensor: torch.stack([tensor] * times), value)


def test_operators_with_a_rule_are_known() -> None:
    """Else the tests below would test nothing."""
    known = {"affine", "augment", "box_iou", "roi_align", "conv2d", "im2col", *COUNTED}
    assert known <= set(MAPPED)


@every_mapped_operator
def test_vmap_of_the_operator(name: str) -> None:
    """The results of three calls, stacked; also of a vmap in a vmap."""
    target, arguments = valid_call(name)
    mapped = mapped_name(arguments)
    expected = target.function(**arguments)

    def call(entry: Any) -> Any:
        return target.function(**{**arguments, mapped: entry})

    entries = repeated(arguments[mapped], 3)
    found = torch.vmap(call)(entries)
    inner = torch.vmap(torch.vmap(call))(repeated(entries, 1))
    leaves = (pytree.tree_leaves(tree) for tree in (expected, found, inner))
    for one, three, nested in zip(*leaves, strict=True):
        torch.testing.assert_close(three, torch.stack([one] * 3), equal_nan=True)
        torch.testing.assert_close(nested, three.unsqueeze(0), equal_nan=True)


@every_mapped_operator
def test_vmap_without_optional_arguments(name: str) -> None:
    """The dispatcher gives rules no argument that equals its default."""
    target, arguments = valid_call(name)
    schema = target.function.default._schema.arguments  # type: ignore[attr-defined]
    needed = [a.name for a in schema if not a.has_default_value()]
    if len(needed) == len(schema):
        pytest.skip("every argument is needed")
    mapped = mapped_name(arguments)
    few = {argument: arguments[argument] for argument in needed}
    try:
        expected = target.function(**few)
    except RuntimeError:
        few, expected = arguments, target.function(**arguments)
    found = torch.vmap(lambda entry: target.function(**{**few, mapped: entry}))(
        repeated(few[mapped], 1)
    )
    for one, entries in zip(*map(pytree.tree_leaves, (expected, found)), strict=True):
        torch.testing.assert_close(entries, one.unsqueeze(0), equal_nan=True)


@every_mapped_operator
def test_vmap_over_nothing(name: str) -> None:
    """No entries give no results, of the right shape."""
    target, arguments = valid_call(name)
    mapped = mapped_name(arguments)
    nothing = pytree.tree_map(lambda t: t.new_empty((0, *t.shape)), arguments[mapped])
    call = torch.vmap(lambda entry: target.function(**{**arguments, mapped: entry}))
    if name in COUNTED:
        with pytest.raises(RuntimeError, match=rf"^visops\.{name}: vmap maps 0 samples, must be"):
            call(nothing)
        return
    found = call(nothing)
    expected = target.function(**arguments)
    for one, none in zip(*map(pytree.tree_leaves, (expected, found)), strict=True):
        assert (none.shape, none.dtype) == ((0, *one.shape), one.dtype)


@every_operator
@pytest.mark.parametrize("kind", KINDS)
def test_other_kinds_of_tensors_are_refused_by_name(kind: str, name: str) -> None:
    """Whichever argument it is, and whether or not gradients are wanted."""
    target, arguments = valid_call(name)
    for argument in tensor_names(arguments):
        changed = {**arguments, argument: KINDS[kind](arguments[argument])}
        with pytest.raises(RuntimeError, match=rf"^visops\.\w+: {argument} (is|has) .*{kind}") as c:
            target.function(**changed)
        assert type(c.value) is RuntimeError
        assert "\n" not in str(c.value)


@every_operator
def test_lists_of_another_length_are_refused(name: str) -> None:
    target, arguments = valid_call(name)
    schema = target.function.default._schema.arguments  # type: ignore[attr-defined]
    for argument in schema:
        values = arguments[argument.name]
        if str(argument.type) not in ("List[int]", "List[Tensor]"):
            continue
        for changed in (values[:-1], [*values, *(values[-1:] or [1])], []):
            if changed == values:  # a list that may be empty
                continue
            if name.startswith("augment_list") and changed:
                continue  # any number of images
            given = {**arguments, argument.name: changed}
            with pytest.raises(RuntimeError, match=r"^visops\.\w+: ") as caught:
                target.function(**given)
            assert type(caught.value) is RuntimeError
            # Sizes may be called a shape, and other lists, which must be as long, be checked first.
            named = argument.name in str(caught.value)
            assert named or argument.name.endswith(("_size", "sizes"))


@every_mapped_operator
def test_missing_tensors_are_refused_under_vmap(name: str) -> None:
    """Rules would look at the shape of None."""
    target, arguments = valid_call(name)
    schema = target.function.default._schema.arguments  # type: ignore[attr-defined]
    needed = [a.name for a in schema if str(a.type) == "Tensor"]
    mapped = tensor_names(arguments)
    for missing in needed:
        first = next((n for n in mapped if n != missing), None)
        if first is None:
            continue

        def call(entry: Tensor, first: str = first, missing: str = missing) -> Any:
            return target.function(**{**arguments, first: entry, missing: None})

        with pytest.raises(RuntimeError, match=rf"^visops\.{name}: {missing} is None, must be a"):
            torch.vmap(call)(torch.stack([arguments[first]] * 2))


@every_mapped_operator
def test_short_lists_are_refused_under_vmap(name: str) -> None:
    """Rules read sizes before the operator checks them."""
    target, arguments = valid_call(name)
    first = mapped_name(arguments)
    for argument, value in arguments.items():
        if not isinstance(value, (list, tuple)) or not argument.endswith("size"):
            continue

        def call(entry: Any, argument: str = argument) -> Any:
            return target.function(**{**arguments, first: entry, argument: []})

        with pytest.raises(RuntimeError, match=r"^visops\.\w+: ") as caught:
            torch.vmap(call)(repeated(arguments[first], 2))
        assert type(caught.value) is RuntimeError


@every_operator
def test_tensors_on_two_devices_are_refused(name: str) -> None:
    """A fake kernel that only looked at shapes would return memory that nobody wrote."""
    target, arguments = valid_call(name)
    names = [n for n in tensor_names(arguments) if n != "fill"]
    for argument in names if len(names) > 1 else []:
        changed = {**arguments, argument: arguments[argument].to("meta")}
        with pytest.raises(RuntimeError, match=r"^visops\.\w+: .* (on meta|on cpu)"):
            target.function(**changed)
