"""Numbers among arguments, before a schema of torch's sees them."""

import operator
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import torch

_is_compiling = torch.compiler.is_compiling


def as_index(value: Any) -> Any:
    """Return an integer as operator.index() does, which would make a constant of a graph's size.

    While torch.compile traces, sizes say that they are plain integers.

    Raises
    ------
    TypeError
        For anything else.
    """
    return value if isinstance(value, (int, torch.SymInt)) else operator.index(value)


def is_symbol(value: Any) -> bool:
    """Whether a number, or one within lists, stands for a size that a graph leaves open."""
    if isinstance(value, (list, tuple)):
        return any(map(is_symbol, value))
    if not isinstance(value, (int, float)):
        return isinstance(value, (torch.SymInt, torch.SymFloat))
    if not _is_compiling():
        return False
    # While torch.compile traces, symbols say that they are plain numbers.
    from torch.fx.experimental.symbolic_shapes import has_static_value

    return not has_static_value(value)


def tensor_of_symbols(value: Any, device: torch.device | None) -> torch.Tensor:
    """Return numbers and lists of them as float64; torch.as_tensor() would make constants of them.

    Raises
    ------
    TypeError, ValueError, RuntimeError
        Where a list holds something else, or lists of several lengths.
    """
    if isinstance(value, (list, tuple)):
        return torch.stack([tensor_of_symbols(item, device) for item in value])
    return torch.scalar_tensor(value, dtype=torch.float64, device=device)


def on_one_line(value: Any) -> str:
    """Return a value as messages have it: on one line, also a tensor."""
    return " ".join(repr(value).split())


def whole_number(op: str, name: str, value: Any) -> Any:
    """Return an integer, also for a float without a fraction.

    Raises
    ------
    TypeError
        For anything else.
    ValueError
        For a number that 64 bits can't hold.
    """
    if isinstance(value, torch.SymInt):
        return value
    try:
        is_whole_float = isinstance(value, float) and value.is_integer()
        number = int(value) if is_whole_float else as_index(value)
    except TypeError:
        raise TypeError(
            f"visops.{op}: {name} is {on_one_line(value)}, must be a whole number"
        ) from None
    if not -(2**63) <= number < 2**63:
        bits = number.bit_length()
        raise ValueError(f"visops.{op}: {name} has {bits} bits, must fit in 64 with its sign")
    return number


def plain_float(value: Any) -> float:
    """Return what float() returns of numbers; it would read those in strings, too.

    Raises
    ------
    TypeError, ValueError, OverflowError
        As float() does, and for strings.
    """
    if isinstance(value, (str, bytes, bytearray)):
        raise TypeError(f"is a {type(value).__name__}")
    return float(value)


def real_number(op: str, name: str, value: Any) -> Any:
    """Return a float; whole numbers may be as large as floats are.

    Raises
    ------
    TypeError
        For anything else.
    ValueError
        For a larger number.
    """
    if isinstance(value, (float, torch.SymFloat, torch.SymInt)):
        return value
    try:
        return plain_float(value)
    except OverflowError:
        raise ValueError(f"visops.{op}: {name} has {value.bit_length()} bits, too many") from None
    except (TypeError, ValueError):  # the latter of tensors of several numbers
        raise TypeError(f"visops.{op}: {name} is {on_one_line(value)}, must be a number") from None


def has_order(value: Any) -> bool:
    """Whether entries of a value, if it has any, are numbers in the order that its caller chose.

    Those of a set come in another order in every process, those of a dict are its keys, and those
    of a string are characters.
    """
    if type(value) in (tuple, list, int):  # nearly always: the others ask abstract classes
        return True
    return not isinstance(value, (Set, Mapping, str, bytes, bytearray))


def check_order(op: str, name: str, value: Any, allowed: str) -> None:
    """Refuse sets, dicts and strings, whose entries have no order or are no numbers.

    Raises
    ------
    TypeError
        For these; `allowed` says what it must be.
    """
    if not has_order(value):
        raise _unlike(op, name, value, allowed)


def listed(op: str, name: str, value: Any, allowed: str) -> list[Any]:
    """Return the entries of a sequence.

    Raises
    ------
    TypeError
        For None, a number, a tensor of no dimension, and what `check_order` refuses: `allowed`
        says what it must be.
    """
    check_order(op, name, value, allowed)
    try:
        return list(value)
    except TypeError:
        raise _unlike(op, name, value, allowed) from None


def real_numbers(op: str, name: str, value: Any, allowed: str) -> list[float]:
    """Return the entries of a sequence as floats.

    Raises
    ------
    TypeError
        For anything else; `allowed` says what it must be.
    """
    numbers, is_one = number_or_list(op, name, value, allowed)
    if is_one:
        raise _unlike(op, name, value, allowed)
    return numbers


def number_or_list(op: str, name: str, value: Any, allowed: str) -> tuple[list[float], bool]:
    """Return a number, or the entries of a sequence, as floats; and whether it was one number.

    Raises
    ------
    TypeError
        For anything else; `allowed` says what it must be.
    """
    # Arrays and tensors of no dimension have an __iter__, too.
    is_one = not isinstance(value, Iterable) or getattr(value, "ndim", 1) == 0
    entries = [value] if is_one else listed(op, name, value, allowed)
    try:
        return [plain_float(entry) for entry in entries], is_one
    except (TypeError, ValueError, OverflowError):
        raise _unlike(op, name, value, allowed) from None


def _unlike(op: str, name: str, value: Any, allowed: str) -> TypeError:
    return TypeError(f"visops.{op}: {name} is {on_one_line(value)}, must be {allowed}")


def integer_of(op: str, name: str, value: Any, allowed: Sequence[int]) -> int:
    """Return an integer that must be one of several.

    Raises
    ------
    ValueError
        For anything else, True and 1.0 among them.
    """
    try:
        number = as_index(value)
    except TypeError:
        number = None
    if isinstance(value, bool) or number not in allowed:
        words = f"{', '.join(map(str, allowed[:-1]))} or {allowed[-1]}"
        raise ValueError(f"visops.{op}: {name} is {on_one_line(value)}, must be {words}")
    return int(number)


def height_and_width(op: str, size: Any) -> tuple[Any, Any]:
    """Return the sides of a size; its caller says what they must be.

    Raises
    ------
    TypeError
        For anything but two integers.
    """
    try:
        height, width = map(as_index, listed(op, "size", size, "(height, width)"))
    except (TypeError, ValueError):
        raise _unlike(op, "size", size, "(height, width)") from None
    return height, width
