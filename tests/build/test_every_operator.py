"""What holds for every operator, drawn from its schema: vmap, devices, fakes, gradients."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
import visops
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode

from build.operators import (
    DIFFERENTIABLE,
    KINDS,
    OPERATORS,
    Arguments,
    gradients,
    is_leaf,
    valid_call,
)

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


OPS = torch.ops.visops
BOXES, SCORES, ROIS = torch.rand(7, 4), torch.rand(7), torch.rand(3, 5)
IMAGES, MAPS = torch.rand(2, 3, 8, 9), torch.rand(2, 4, 8, 9)
MATRIX = torch.eye(2, 3)

# Arguments that are wrong, in every family, and what the operator says of them.
WRONG: list[tuple[str, Callable[..., Any], tuple[Tensor, ...]]] = [
    (
        r"(warp_)?affine: matrix has batch 3, image has batch 2",
        lambda image, matrix: visops.warp_affine(image, matrix, (4, 4)),
        (IMAGES, MATRIX.expand(3, 2, 3)),
    ),
    (
        r"augment: matrix has dtype int64, must be a floating type",
        lambda image, matrix: visops.augment(image, matrix, (4, 4)),
        (IMAGES, MATRIX.long()),
    ),
    (r"box_iou: boxes2 has shape \[3, 5\], must be \[N, 4\]", visops.box_iou, (BOXES, ROIS)),
    (
        r"nms: scores has shape \[6\], must be \[7\]",
        lambda boxes, scores: visops.nms(boxes, scores, 0.5),
        (BOXES, SCORES[:6]),
    ),
    (
        r"roi_align: boxes has shape \[7, 4\], must be \[K, 5\]",
        lambda maps, boxes: visops.roi_align(maps, boxes, 7),
        (MAPS, BOXES),
    ),
    (
        r"conv2d: weight has kernel height 9, must be <= the padded input's height 8",
        lambda input, weight: visops.conv2d(input, weight, method="implicit", padding=(0, 1)),
        (MAPS, torch.rand(2, 4, 9, 9)),
    ),
    (
        r"im2col: kernel_size is \[9, 9\] with dilation \[1, 1\], which covers",
        lambda input: visops.im2col(input, 9, padding=(0, 1)),
        (MAPS,),
    ),
    (
        r"deform_conv2d: offset has shape \[2, 17, 6, 7\], must be",
        visops.deform_conv2d,
        (MAPS, torch.rand(2, 17, 6, 7), torch.rand(2, 4, 3, 3)),
    ),
    (
        r"point_sample: points has shape \[3, 5, 2\], must be \[2, P, 2\]",
        visops.point_sample,
        (MAPS, torch.rand(3, 5, 2)),
    ),
    (r"measure_masks: masks has dtype bool, must be int64", OPS.measure_masks, (IMAGES > 0.5,)),
]


@pytest.mark.parametrize(("message", "call", "arguments"), WRONG, ids=[r[0][:30] for r in WRONG])
def test_a_compiled_function_says_what_is_wrong(
    message: str, call: Callable[..., Any], arguments: tuple[Tensor, ...]
) -> None:
    """As the function itself does."""
    torch._dynamo.reset()
    for function in (call, torch.compile(call, backend="aot_eager", fullgraph=True)):
        with pytest.raises(RuntimeError, match=rf"visops\.{message}"):
            function(*arguments)


def on_meta(*tensors: Tensor) -> list[Tensor]:
    return [tensor.to("meta") for tensor in tensors]


@pytest.mark.parametrize(
    ("op", "given", "arguments"),
    [
        ("nms_padded", "boxes [], scores [7]", (*on_meta(SCORES[0], SCORES), 0.5, 3)),
        ("conv2d", "input [4, 8, 9], weight", (*on_meta(MAPS[0], MAPS), None)),
        ("ps_roi_align", "input [2, 4, 8, 9], boxes", (*on_meta(MAPS, ROIS), [0, 2], 1.0, 2)),
    ],
)
def test_where_nothing_can_be_inferred(op: str, given: str, arguments: tuple[Any, ...]) -> None:
    """Not with an IndexError of Python's, which names no operator."""
    message = re.escape(f"visops.{op}: no result can be inferred from {given}")
    with pytest.raises(RuntimeError, match=rf"^{message}"):
        getattr(OPS, op)(*arguments)


every_differentiable = pytest.mark.parametrize("name", DIFFERENTIABLE)


def wanted(arguments: dict[str, Any]) -> list[str]:
    """Return the names of the arguments by which a gradient may be wanted."""
    return [n for n, value in arguments.items() if any(map(is_leaf, pytree.tree_leaves(value)))]


@pytest.mark.filterwarnings("ignore:Error detected in")  # of derivatives that are refused
@every_differentiable
def test_saved_tensors_are_unpacked_once(name: str) -> None:
    """Non-reentrant checkpoints compute the forward pass again to unpack them, and only once."""
    target, arguments = valid_call(name)
    times: Counter[int] = Counter()

    def pack(tensor: Tensor) -> tuple[int, Tensor]:
        times[len(times)] = 0
        return len(times) - 1, tensor

    def unpack(packed: tuple[int, Tensor]) -> Tensor:
        times[packed[0]] += 1
        return packed[1]

    def recorded(**given: Any) -> Any:
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            return target.function(**given)

    for argument in wanted(arguments):
        gradients(recorded, arguments, argument)
    assert max(times.values(), default=0) <= 1


@pytest.mark.filterwarnings("ignore:Error detected in")
@every_differentiable
def test_batches_of_gradients(name: str) -> None:
    """Those of two incoming gradients at once, as torch.autograd.functional and hessians ask."""
    target, arguments = valid_call(name)

    def copied(value: Any) -> Any:
        return value.detach().clone().requires_grad_() if is_leaf(value) else value

    given = {key: pytree.tree_map(copied, value) for key, value in arguments.items()}
    leaves = [leaf for leaf in pytree.tree_leaves(given) if is_leaf(leaf)]
    results = [r for r in pytree.tree_leaves(target.function(**given)) if r is not None]
    results = [result for result in results if result.requires_grad]
    if not results:
        return
    incoming = [torch.stack([torch.ones_like(r), torch.full_like(r, 2.0)]) for r in results]

    def of(grads: list[Tensor], batched: bool) -> Any:
        return torch.autograd.grad(
            results, leaves, grads, True, is_grads_batched=batched, allow_unused=True
        )

    try:
        each = [of([grad[i] for grad in incoming], False) for i in range(2)]
    except Exception as error:
        if "can't be differentiated again" not in str(error):
            raise
        return
    for found, *expected in zip(of(incoming, True), *each, strict=True):
        if found is not None:
            torch.testing.assert_close(found, torch.stack(expected))


def _schema(name: str) -> Any:
    return OPERATORS[name].function.default._schema.arguments  # type: ignore[attr-defined]


WITH_DEFAULTS = [
    name
    for name in OPERATORS
    if torch._C._dispatch_has_kernel_for_dispatch_key(f"visops::{name}", "Autograd")
    and any(argument.has_default_value() for argument in _schema(name))
]


def few_arguments(name: str) -> Arguments:
    """Return arguments that are needed, and defaults where the operator takes these only given."""
    target, arguments = valid_call(name)
    few = {a.name: arguments[a.name] for a in _schema(name) if not a.has_default_value()}
    try:
        target.function(**few)
    except RuntimeError:
        return arguments
    return few


def test_operators_with_gradients_are_known() -> None:
    """Else the test below would test nothing."""
    assert {"deform_conv2d", "augment", "augment_list", "conv2d", "roi_align"} <= {*WITH_DEFAULTS}


@pytest.mark.filterwarnings("ignore:Error detected in")  # of derivatives that are refused
@pytest.mark.parametrize("name", WITH_DEFAULTS)
def test_gradients_without_optional_arguments(name: str) -> None:
    """The same as with them, also where torch.compile or a mode dispatches the call."""
    operator = OPERATORS[name].function
    few = few_arguments(name)
    torch._dynamo.reset()
    defaults = {a.name: a.default_value for a in _schema(name) if a.has_default_value()}
    compiled = torch.compile(operator, backend="aot_eager", fullgraph=True)

    def counted(**arguments: Any) -> Any:
        with FlopCounterMode(display=False):
            return operator(**arguments)

    # Second derivatives take a program twice as long to compile as first ones.
    calls = [operator, counted] if "backward" in name else [operator, counted, compiled]
    for wanted, value in few.items():
        if not any(map(is_leaf, pytree.tree_leaves(value))):
            continue
        expected = gradients(operator, {**defaults, **few}, wanted)
        for call in calls:
            torch.testing.assert_close(gradients(call, few, wanted), expected, equal_nan=True)
        if expected:  # one gradient is enough of compiled code: all are of the same call
            calls = [operator, counted]
