"""Arguments of windows that move over the last dimensions of a tensor: sizes, steps, padding."""

from collections.abc import Sequence
from typing import Any

from .._torch.numbers import as_index, has_order

# The words that may stand for numbers of padding.
_PADDING = ("same", "valid")


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def spatial_dims(op: str, kernel_size: Any, dims: int) -> int:
    """Return how many of the last dimensions the kernel moves over, 1 to 4.

    Parameters
    ----------
    op : str
        The public function, for errors.
    kernel_size : int or sequence of int
        An integer stands for two dimensions, or for all of a tensor that has fewer.
    dims : int
        Of the tensor.

    Raises
    ------
    ValueError
        An empty sequence, or one of more than 4 integers.
    """
    if not _is_list(kernel_size):
        return max(1, min(2, dims))
    if not 1 <= len(kernel_size) <= 4:
        raise ValueError(
            f"visops.{op}: kernel_size is {kernel_size!r}, must be 1 to 4 integers, one for each "
            "dimension that it moves over"
        )
    return len(kernel_size)


def one_per_dimension(op: str, name: str, value: Any, dims: int, least: int = 1) -> list[int]:
    """Return the argument `name` as a list of `dims` integers; one integer stands for all of them.

    Raises
    ------
    TypeError
        Not an integer or a sequence of them.
    ValueError
        The wrong number of them, or one below `least`.
    """
    several = "1 integer" if dims == 1 else f"an integer or {dims} of them"
    try:
        if not has_order(value):
            raise TypeError
        is_list = _is_list(value)
        values = [as_index(v) for v in value] if is_list else [as_index(value)] * dims
    except TypeError:
        raise TypeError(f"visops.{op}: {name} is {value!r}, must be {several}") from None
    if len(values) != dims:
        raise ValueError(f"visops.{op}: {name} is {value!r}, must be {several}")
    if any(v < least for v in values):
        allowed = f"> {least - 1}" if least > 0 else f">= {least}"
        raise ValueError(f"visops.{op}: {name} is {value!r}, must be {allowed}")
    return values


def padding_of_each_side(
    op: str,
    padding: Any,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    *,
    centre: bool = False,
) -> tuple[list[int], list[int]]:
    """Return the elements of padding before and after the tensor, in each dimension.

    Parameters
    ----------
    op : str
        The public function, for errors.
    padding : int, sequence of int, "same" or "valid"
        "same" keeps the size of the input; "valid" is none.
    kernel_size, stride, dilation : sequence of int
        One integer for each dimension.
    centre : bool
        Where "same" pads an odd number, put the extra element before the tensor, so that the
        kernel's element ``K // 2`` is at the output's place. Otherwise after it, as torch does.

    Raises
    ------
    TypeError, ValueError
        For numbers as in `one_per_dimension`, unknown words, and "same" with strides.
    """
    if not isinstance(padding, str):
        sides = one_per_dimension(op, "padding", padding, len(kernel_size), least=0)
        return sides, list(sides)
    if padding not in _PADDING:
        raise ValueError(
            f"visops.{op}: padding is {padding!r}, must be 'same', 'valid' or integers >= 0"
        )
    if padding == "valid":
        return [0] * len(kernel_size), [0] * len(kernel_size)
    if any(s != 1 for s in stride):
        raise ValueError(
            f"visops.{op}: padding is 'same' and stride {list(stride)}, must be 1 for 'same'"
        )
    before, after = [], []
    for k, d in zip(kernel_size, dilation, strict=True):
        first = d * (k // 2) if centre else d * (k - 1) // 2
        before.append(first)
        after.append(d * (k - 1) - first)
    return before, after
