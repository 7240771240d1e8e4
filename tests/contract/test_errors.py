"""Bad input: each row of the operators' tables raises its error, with its message, in one line."""

import inspect
import re
from typing import Any

import numpy as np
import pytest
import torch
import visops
from build.operators import KINDS
from fuzz.calls import all_targets
from operators import CASES, ERRORS
from operators.case import Arguments, Bad, Errors, OpCase
from torch import Tensor
from torch.utils import _pytree as pytree

from .calls import every_case

ROWS = [(name, row) for name, table in ERRORS.items() for row in table.rows]
TAKE_ARRAYS = {target.name for target in all_targets() if target.takes_arrays}
FLOATS_OF_8_BITS = (torch.float8_e4m3fn, torch.float8_e5m2)
# Calls of public functions that have no table.
FURTHER: dict[str, Arguments] = {
    "decode_jpeg": {"data": b"none"},
    "linear_sum_assignment": {"costs": torch.zeros(2, 2)},
}
FLAGS = [
    (name, parameter.name)
    for name in visops.__all__
    if inspect.isfunction(getattr(visops, name))
    for parameter in inspect.signature(getattr(visops, name)).parameters.values()
    if parameter.annotation is bool
]
# Arguments that are numbers, of which some functions take several.
NUMBERS = [
    (name, parameter.name)
    for name in ERRORS
    if inspect.isfunction(getattr(visops, name, None))
    for parameter in inspect.signature(getattr(visops, name)).parameters.values()
    if re.search(r"Sequence\[(int|float)\]", str(parameter.annotation))
    and not name.startswith("get_")  # whose arguments have batch dimensions
]
# Options that are words.
WORDS = [
    (name, parameter.name)
    for name in visops.__all__
    if inspect.isfunction(getattr(visops, name))
    for parameter in inspect.signature(getattr(visops, name)).parameters.values()
    if isinstance(parameter.default, str)
]
IGNORED = ("im2col_step",)  # mmcv's, of which nothing depends here
ONE_DEVICE = "all tensors must be on one device"


def function(name: str) -> Any:
    """Return a public function, or with "ops." an operator."""
    operator = name.removeprefix("ops.")
    package = visops if operator == name else torch.ops.visops
    return ERRORS[name].call or getattr(package, operator)


def takes_arrays(name: str) -> bool:
    if any(case.name.startswith(name) and not case.arrays for case in CASES):
        return False
    return f"visops.{name}" in TAKE_ARRAYS or name == "PackedMasks"


def check(name: str, error: type[Exception], row: Bad, arguments: Arguments) -> None:
    """The message is what the row says, of the changed argument unless it names another one."""
    changed = "|".join(f"{re.escape(argument)} " for argument in row.changes)
    operator = ERRORS[name].named or name.removeprefix("ops.")
    pattern = rf"^visops\.{operator}: ({changed})?{re.escape(row.says)}"
    with pytest.raises(error, match=pattern) as caught:
        function(name)(**arguments)
    message = str(caught.value)
    assert type(caught.value) is error
    assert "\n" not in message
    if re.search(r"is on (cpu|meta), \S+ is on", message):
        assert message.endswith(ONE_DEVICE)


@pytest.mark.parametrize(("name", "option"), FLAGS, ids=map(".".join, FLAGS))
def test_flags_are_true_or_false(name: str, option: str) -> None:
    """Whatever else has a truth value is refused: "no" is true."""
    valid = ERRORS[name].valid if name in ERRORS else FURTHER[name]
    wrong: tuple[Any, ...] = (
        *("no", "", 2, 0.0, None),
        *([True], np.array([True]), torch.tensor([True])),
    )
    for value in wrong:
        shown = re.escape(" ".join(repr(value).split()))
        message = rf"^visops\.{name}: {option} is {shown}, must be True or False$"
        with pytest.raises(TypeError, match=message):
            getattr(visops, name)(**{**valid, option: value})
    if name not in ERRORS:
        return
    for off in (False, 0, np.bool_(False), np.int64(0), np.array(0), torch.tensor(False)):
        getattr(visops, name)(**{**valid, option: off})


@pytest.mark.parametrize(("name", "argument"), NUMBERS, ids=map(".".join, NUMBERS))
def test_sets_and_dicts_are_no_sequences(name: str, argument: str) -> None:
    """The order of a set is another in every process."""
    for value in ({3, 5}, frozenset([3, 5]), {3}, {3: 1, 5: 2}, {3: 1, 5: 2}.keys(), b"34", "34"):
        shown = re.escape(" ".join(repr(value).split()))
        message = rf"^visops\.{name}: {argument} is {shown}, must be [^\n]+$"
        with pytest.raises((TypeError, ValueError), match=message):
            getattr(visops, name)(**{**ERRORS[name].valid, argument: value})


def as_strings(value: Any) -> Any:
    """Return a number, or all numbers in a sequence, as strings; None: there are no numbers."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, (list, tuple)) or not value:
        return None
    entries = [as_strings(entry) for entry in value]
    return None if None in entries else type(value)(entries)


@pytest.mark.parametrize("name", [name for name in ERRORS if not name.startswith("ops.")])
def test_strings_are_no_numbers(name: str) -> None:
    """float() reads "0.5", and int() "3": no function does, also within sequences."""
    valid = ERRORS[name].valid
    defaults = {
        parameter.name: parameter.default
        for parameter in inspect.signature(function(name)).parameters.values()
        if parameter.default is not parameter.empty
    }
    for argument, value in {**defaults, **valid}.items():
        wrong = as_strings(value)
        if wrong is None or argument in IGNORED:
            continue
        message = rf"^visops\.[\w.]+: {argument}\b[^\n]*$"
        with pytest.raises((TypeError, ValueError, RuntimeError), match=message):
            function(name)(**{**valid, argument: wrong})
        if isinstance(wrong, str):  # where several are taken
            with pytest.raises((TypeError, ValueError, RuntimeError), match=r"^visops\."):
                function(name)(**{**valid, argument: (wrong,)})


@pytest.mark.parametrize(("name", "option"), WORDS, ids=map(".".join, WORDS))
def test_words_are_strings(name: str, option: str) -> None:
    """Lists, sets, dicts and arrays of a word are refused, and so is a number."""
    valid = ERRORS[name].valid if name in ERRORS else FURTHER[name]
    word = inspect.signature(getattr(visops, name)).parameters[option].default
    for value in ([word], {word}, {word: 1}, np.array([word]), np.array([word, word]), 3, None):
        shown = re.escape(" ".join(repr(value).split()))
        message = rf"^visops\.{name}: {option} is {shown}, must be [^\n]+$"
        with pytest.raises((TypeError, ValueError, RuntimeError), match=message):
            getattr(visops, name)(**{**valid, option: value})


def has_array(value: Any) -> bool:
    """Whether NumPy can hold the tensor."""
    plain = isinstance(value, Tensor) and value.layout == torch.strided
    if not plain or value.device.type != "cpu" or value.requires_grad or value.numel() >= 2**60:
        return False
    return value.dtype not in (torch.bfloat16, torch.complex32, *FLOATS_OF_8_BITS)


@pytest.mark.parametrize("name", ERRORS)
def test_the_call_that_rows_change_is_valid(name: str) -> None:
    """Else rows might raise for another reason than their own."""
    function(name)(**ERRORS[name].valid)


@pytest.mark.parametrize(("name", "row"), ROWS, ids=[f"{n}: {r.says[:40]}" for n, r in ROWS])
def test_bad_input(name: str, row: Bad) -> None:
    check(name, row.error, row, {**ERRORS[name].valid, **row.changes})


@every_case(only=lambda case: not (case.call and case.composed))
@pytest.mark.parametrize("kind", KINDS)
def test_other_kinds_of_tensors_are_refused_by_name(kind: str, case: OpCase) -> None:
    """Whichever argument it is: by the function, or by what it calls."""
    arguments = case.arguments()
    for name, value in arguments.items():
        if isinstance(value, Tensor) and value.dim() <= 5:  # MKL-DNN has no more dimensions
            message = rf"^visops\.\w+: ({name}|fill_value)\S* .*({kind}|quint8)"
            with pytest.raises((TypeError, ValueError, RuntimeError), match=message):
                case.function(**{**arguments, name: KINDS[kind](value)})


@pytest.mark.parametrize("name", [name for name in ERRORS if takes_arrays(name)])
def test_bad_arrays(name: str) -> None:
    """What is wrong with tensors is wrong with arrays, in the same words."""
    table: Errors = ERRORS[name]
    for row in table.rows:
        arguments = {**table.valid, **row.changes}
        tensors = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, Tensor)]
        if not row.arrays or not tensors or not all(map(has_array, tensors)):
            continue
        arrays = pytree.tree_map(
            lambda leaf: np.asarray(leaf) if isinstance(leaf, Tensor) else leaf, arguments
        )
        check(name, ValueError, row, arrays)
