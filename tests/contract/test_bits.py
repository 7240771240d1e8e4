"""The same bits for any number of threads, any layout, arrays, and every mode of torch."""

import functools
import inspect
import itertools
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from agree import difference, drawn, is_finding, outcome, rounding_of
from build.operators import MOST_EMULATED, OPERATORS
from fuzz.calls import all_targets
from kernels import SLOTS, use_schedule, use_slot
from layouts import ARRAYS, LAYOUTS
from operators.case import Arguments, OpCase
from operators.recorded import gradients, is_float, results_and_gradients, weights, with_leaves
from subclasses import Other, Stranger
from threads import torch_threads
from torch import Tensor
from torch.utils import _pytree as pytree

from .calls import assert_same, every_case, map_tensors, same_bits, tensors_of

TAKE_ARRAYS = {target.name for target in all_targets() if target.takes_arrays}


takes_arrays = every_case(
    only=lambda case: (
        f"visops.{case.name.split()[0]}" in TAKE_ARRAYS and case.arrays and not case.call
    )
)


def variants(case: OpCase) -> list[Arguments]:
    """Return large arguments, also with channels last where the case has that layout."""
    sizes = [size for size in ("large", "wide") if size not in case.skip]
    found = [case.arguments(size) for size in sizes]
    if "channels_last" in case.layouts:
        found += [map_tensors(LAYOUTS["channels_last"], arguments) for arguments in found]
    return found


@every_case()
def test_threads_change_nothing(case: OpCase) -> None:
    for arguments in variants(case):
        with torch_threads(1):
            expected = results_and_gradients(case, arguments)
        for threads in (2, 3):
            with torch_threads(threads):
                assert_same(case, results_and_gradients(case, arguments), expected)


def spoil_memory(results: list[Tensor]) -> None:
    """Leave other numbers in memory of the results' sizes, so that what isn't written shows."""
    for junk in [torch.empty_like(result) for result in results for _ in range(3)]:
        junk.fill_(113)


@pytest.mark.skipif("cuda_emulated" not in SLOTS, reason="a build without the emulation")
@every_case(only=lambda case: not case.composed)
def test_kernels_of_all_kinds_agree(case: OpCase) -> None:
    """Every instruction set, and the CUDA kernels' own code in any order of blocks and threads."""
    # Products of matrices take minutes under the emulation.
    for size in ("second", "third", *(["large"] if case.exact else [])):
        if size in case.skip:
            continue
        arguments = case.arguments(size)
        with use_slot("default"):
            expected = results_and_gradients(case, arguments)
        layouts = ("offset", *case.layouts) if size == "second" else ("offset",)
        for slot, layout in itertools.product(SLOTS, layouts):
            order = use_schedule(1) if slot == "cuda_emulated" else nullcontext()
            with use_slot(slot), order:
                changed = map_tensors(LAYOUTS[layout], arguments)
                spoil_memory(expected)
                assert_same(case, results_and_gradients(case, changed), expected)


RANDOM_CALLS = 48  # of each operator
# Emulated kernels that take ten times as long as others for as many elements.
SLOW = [
    *("deform_conv2d_backward_input", "deform_conv2d_backward_offset"),
    *("deform_conv2d_backward_samples", "paste_rois_backward_patches"),
]


@pytest.mark.skipif("cuda_emulated" not in SLOTS, reason="a build without the emulation")
@pytest.mark.parametrize("name", OPERATORS)
def test_kernels_of_all_kinds_agree_on_random_calls(name: str) -> None:
    """Sizes of zero and one are among them, as no one writes them into a test."""
    target = OPERATORS[name]
    most = MOST_EMULATED // 5 if name in SLOW else MOST_EMULATED
    for seed in range(RANDOM_CALLS):
        arguments = drawn(target, name, seed)
        rounding = rounding_of(name, arguments)
        with use_slot("default"):
            refused, expected = outcome(target, arguments)
        is_large = any(t.numel() > most for t in tensors_of(arguments))
        for slot in SLOTS:
            if slot == "cuda_emulated" and is_large:
                continue
            order = use_schedule(seed) if slot == "cuda_emulated" else nullcontext()
            if "out" in arguments:  # else nothing is written to; drawing takes half of the time
                arguments = drawn(target, name, seed)
            with use_slot(slot), order:
                spoil_memory(expected)
                failed, found = outcome(target, arguments)
            assert not is_finding(refused, failed), (seed, slot, refused, failed)
            if not refused:
                assert difference(expected, found, rounding) == "", (seed, slot)
                assert rounding or all(map(same_bits, found, expected)), (seed, slot)


@every_case()
def test_layouts_change_nothing(case: OpCase) -> None:
    """All tensors have one layout, then each another one; storage begins before they do."""
    layouts = ("offset", *case.layouts)
    for turn in range(max(len(layouts), *case.turns("second"), len(case.dtypes))):
        name, dtype = layouts[turn % len(layouts)], case.dtypes[turn % len(case.dtypes)]
        arguments = case.arguments("second", dtype, turn=turn)
        expected = results_and_gradients(case, arguments)
        changed = map_tensors(LAYOUTS[name], arguments)
        assert_same(case, results_and_gradients(case, changed), expected)
        for argument in arguments:
            mixed = {**arguments, argument: changed[argument]}
            assert_same(case, case.results(mixed), case.results(arguments))


@every_case(only=lambda case: case.rows)
def test_company_changes_nothing(case: OpCase) -> None:
    """What belongs to one box or image has the same bits in another order, and without others."""
    for turn in case.turns("second"):
        dtype = case.dtypes[turn % len(case.dtypes)]
        arguments = case.arguments("third", dtype, turn=turn)
        expected = case.results(arguments)
        count = len(expected[0])
        for order in (torch.arange(count).flip(0)[: count // 2 + 1], torch.arange(1)):
            chosen = {
                name: pytree.tree_map(lambda t, order=order: t[order], arguments[name])  # type: ignore[misc]
                for name in case.rows
            }
            found = case.results({**arguments, **chosen})
            assert_same(case, found, [result[order] for result in expected])


@every_case(only=lambda case: case.differentiable)
def test_layouts_of_incoming_gradients(case: OpCase) -> None:
    given, leaves = with_leaves(case, case.arguments("second"))
    expected = gradients(case.results(given), leaves)
    for layout in LAYOUTS.values():
        assert_same(case, gradients(case.results(given), leaves, layout=layout), expected)
    ones = torch.autograd.grad(sum(r.sum() for r in case.results(given) if is_float(r)), leaves)  # type: ignore[arg-type]
    plain = gradients(case.results(given), leaves, layout=torch.ones_like)
    assert_same(case, list(ones), plain)


def map_arrays(change: Callable[[np.ndarray], Any], arguments: Arguments) -> Arguments:
    return pytree.tree_map(lambda v: change(v) if isinstance(v, np.ndarray) else v, arguments)


@takes_arrays
def test_arrays(case: OpCase) -> None:
    """Arrays give arrays, with the numbers that tensors give, whatever their strides."""
    dtypes = [dtype for dtype in case.dtypes if dtype != torch.bfloat16]
    sizes = [size for size in ("second", "empty", "one") if size not in case.skip]
    for turn, (size, form) in enumerate(itertools.product(sizes, ARRAYS)):
        arguments = case.arguments(size, dtypes[turn % len(dtypes)])
        arrays = map_tensors(lambda t, form=form: form(t.numpy()), arguments)  # type: ignore[misc]
        moved = "device" in inspect.signature(case.function).parameters
        for options in ({}, {"device": "cpu"}) if moved else ({},):
            before = map_arrays(np.copy, arrays)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                results = pytree.tree_leaves(case.function(**arrays, **options))
            pytree.tree_map(np.testing.assert_array_equal, arrays, before)
            found = [leaf for leaf in results if isinstance(leaf, (np.ndarray, np.generic))]
            tensors = [torch.from_numpy(np.asarray(leaf)) for leaf in found]
            assert_same(case, tensors, case.results(arguments))


@every_case(only=lambda case: case.half)
def test_halves_are_rounded_once(case: OpCase) -> None:
    """They are computed in float32, and so are gradients."""
    for dtype in (torch.float16, torch.bfloat16):
        if dtype not in case.dtypes:
            continue
        arguments = case.arguments("second", dtype)
        single = map_tensors(lambda t, d=dtype: t.float() if t.dtype == d else t, arguments)  # type: ignore[misc]
        both = case.results if case.composed else functools.partial(results_and_gradients, case)
        found, expected = both(arguments), both(single)
        rounded = [e.to(f.dtype) for f, e in zip(found, expected, strict=True)]
        assert_same(case, found, rounded)


@every_case(only=lambda case: case.exact and not case.composed and not case.call)
def test_subclasses_count_as_plain_tensors(case: OpCase) -> None:
    """Also those that refuse each other; gradients reach them."""
    expected = results_and_gradients(case, case.arguments())
    for kinds in itertools.permutations((Other, Stranger)):
        given, leaves = with_leaves(case, case.arguments())
        turns = itertools.cycle(kinds)
        kept = map_tensors(lambda t, turns=turns: t.as_subclass(next(turns)), given)  # type: ignore[misc]
        results = [result.as_subclass(Tensor) for result in case.results(kept)]
        found = [result.detach() for result in results] + gradients(results, leaves)
        assert_same(case, found, expected)


@every_case()
def test_modes_of_torch(case: OpCase) -> None:
    """No gradients where none are wanted; inference mode and autocast change no bit."""
    arguments = case.arguments()
    given, leaves = with_leaves(case, arguments)
    before = map_tensors(lambda t: t.clone(), arguments)
    expected = [result.detach() for result in case.results(given)]
    assert all(map(same_bits, tensors_of(arguments), tensors_of(before)))  # inputs are left alone
    with torch.no_grad():
        assert not any(result.requires_grad for result in case.results(given))
    with torch.inference_mode():
        clones = map_tensors(lambda t: t.clone(), arguments)
        assert_same(case, case.results(clones), expected)
    if not case.autocast:
        with torch.autocast("cpu", torch.bfloat16):
            assert_same(case, results_and_gradients(case, arguments)[: len(expected)], expected)
    if leaves:
        assert any(result.requires_grad for result in case.results(given))


@contextmanager
def suppress_changed() -> Iterator[None]:
    """Let torch refuse a gradient because of an argument that was changed, and nothing else."""
    try:
        yield
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise


@every_case(only=lambda case: case.differentiable)
def test_changed_arguments_are_noticed(case: OpCase) -> None:
    """A gradient after an argument was changed in place is refused, or right."""
    given, leaves = with_leaves(case, case.arguments())
    expected = gradients(case.results(given), leaves)
    for name, value in given.items():
        copies = map_tensors(lambda t: t.detach().clone(), given)
        if not isinstance(value, Tensor):
            continue
        again, again_leaves = with_leaves(case, copies)
        results = case.results(again)
        with torch.no_grad():
            again[name].zero_()
        with suppress_changed():
            assert_same(case, gradients(results, again_leaves), expected)


@pytest.mark.cuda
@every_case(only=lambda case: case.exact)
def test_cuda_has_the_bits_of_the_cpu(case: OpCase) -> None:
    for arguments in variants(case):
        found = results_and_gradients(case, map_tensors(lambda t: t.cuda(), arguments))
        assert_same(case, [t.cpu() for t in found], results_and_gradients(case, arguments))


@pytest.mark.cuda
@takes_arrays
def test_arrays_on_cuda(case: OpCase) -> None:
    if "device" not in inspect.signature(case.function).parameters:
        pytest.skip("computes where its arrays are")
    arrays = map_tensors(lambda t: t.numpy(), case.arguments())
    found = pytree.tree_leaves(case.function(**arrays, device="cuda"))
    assert all(map(np.array_equal, found, pytree.tree_leaves(case.function(**arrays))))


@pytest.mark.cuda
@every_case(only=lambda case: not case.counted and not case.waits)
def test_cuda_waits_for_nothing(case: OpCase) -> None:
    arguments = map_tensors(lambda t: t.cuda(), case.arguments())
    given, leaves = with_leaves(case, arguments)
    results = [result for result in case.results(given) if is_float(result)]
    grads = [weights(result) for result in results]
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        again = [result for result in case.results(given) if result.requires_grad]
        if again:
            torch.autograd.grad(again, leaves, grads, allow_unused=True)
    finally:
        torch.cuda.set_sync_debug_mode("default")
