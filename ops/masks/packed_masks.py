"""Masks as bits, and how they are indexed."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from .._torch.call import call_operator
from .._torch.numbers import height_and_width, is_symbol
from .._torch.shapes import holds
from .operators import unpack_masks as _unpack_masks

_WORD = 64  # pixels


class PackedMasks:
    """Masks with 64 pixels in a number: what :func:`pack_masks` returns.

    An eighth of the memory of bool masks, and the form that overlaps are counted in. They are
    indexed like the masks they stand for, along the dimensions before height and width: ``len`` is
    the number of masks, and ``packed[2]``, ``packed[:10]``, ``packed[kept]`` and loops give
    PackedMasks. `packed == other` is whether all masks are equal.

    Parameters
    ----------
    bits : Tensor or ndarray, int64 ``[..., H, ceil(W / 64)]``
        Bit i of number w is column 64 w + i. Bits past column W - 1 are no pixels: they are set to
        0, in a copy. Keep them 0 where you write into `bits` later.
    size : (int, int)
        Height and width of a mask.

    Attributes
    ----------
    bits, size
        As above; bits past column W - 1 are 0.

    Raises
    ------
    TypeError
        For bits that are neither a tensor nor an array.
    RuntimeError (tensors), ValueError (arrays)
        For bits of another dtype or shape.

    Examples
    --------
    >>> import torch, visops
    >>> masks = torch.tensor([[[True, False, True]], [[False, True, True]]])
    >>> packed = visops.pack_masks(masks)
    >>> len(packed), packed[1]
    (2, PackedMasks(bits=tensor([[6]]), size=(1, 3)))
    >>> packed[torch.tensor([1, 0, 1])].unpack()[:, 0].int()
    tensor([[0, 1, 1],
            [1, 0, 1],
            [0, 1, 1]], dtype=torch.int32)
    """

    bits: Any
    size: tuple[int, int]

    def __init__(self, bits: Tensor | np.ndarray, size: tuple[int, int]) -> None:
        _check(bits, size)
        self.bits = _without_padding(bits, size[1])
        self.size = (size[0], size[1])

    def unpack(self, *, device: torch.device | str | None = None) -> Any:
        """Return the masks, bool ``[..., H, W]``."""
        return call_operator(
            "unpack_masks", _unpack_masks, device, {"bits": self.bits}, self.size[1]
        )

    def __len__(self) -> int:
        if self.bits.ndim < 3:
            raise TypeError(
                f"visops.PackedMasks: masks have shape {self._shape()}, must be [N, H, W] to be "
                "counted or indexed"
            )
        count: int = self.bits.shape[0]
        return count

    def __iter__(self) -> "Iterator[PackedMasks]":
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> "PackedMasks":
        parts = index if isinstance(index, tuple) else (index,)
        if isinstance(self.bits, np.ndarray):
            parts = tuple(part.numpy() if isinstance(part, Tensor) else part for part in parts)
        if not any(part is Ellipsis for part in parts):
            parts = (*parts, Ellipsis)
        try:
            bits = self.bits[(*parts, slice(None), slice(None))]  # rows and words stay together
        except (IndexError, TypeError, ValueError) as error:
            raise IndexError(
                f"visops.PackedMasks: index is {index!r}, must index the dimensions before height "
                f"and width of masks {self._shape()}: {error}"
            ) from None
        return packed_masks(bits, self.size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PackedMasks):
            return NotImplemented
        if self.size != other.size or isinstance(self.bits, Tensor) != isinstance(
            other.bits, Tensor
        ):
            return False
        if isinstance(self.bits, Tensor):
            return torch.equal(self.bits, other.bits)
        return np.array_equal(self.bits, other.bits)

    __hash__ = None  # type: ignore[assignment]  # equal by value, and bits can be written

    def __repr__(self) -> str:
        return f"PackedMasks(bits={self.bits!r}, size={self.size!r})"

    def _shape(self) -> list[int]:
        return [*self.bits.shape[:-2], *self.size]


def packed_masks(bits: Any, size: tuple[int, int]) -> PackedMasks:
    """Return bits that an operator made, whose padding is 0, or leaves of a pytree."""
    masks = PackedMasks.__new__(PackedMasks)
    masks.bits = bits
    masks.size = size
    return masks


def _check(bits: Any, size: tuple[int, int]) -> None:
    if not isinstance(bits, (Tensor, np.ndarray)):
        raise TypeError(
            f"visops.PackedMasks: bits is a {type(bits).__name__}, must be a torch.Tensor or a "
            "numpy.ndarray"
        )
    error = RuntimeError if isinstance(bits, Tensor) else ValueError
    if bits.dtype not in (torch.int64, np.int64):
        dtype = str(bits.dtype).removeprefix("torch.")
        raise error(
            f"visops.PackedMasks: bits has dtype {dtype}, must be int64, as pack_masks returns"
        )
    height, width = height_and_width("PackedMasks", size)
    words = (width + _WORD - 1) // _WORD
    if bits.ndim < 2 or holds(bits.shape[-2] != height) or holds(bits.shape[-1] != words):
        raise error(
            f"visops.PackedMasks: bits has shape {list(bits.shape)}, must be [..., {height}, "
            f"{words}] for masks of {height} x {width}"
        )


def _without_padding(bits: Any, width: int) -> Any:
    """Return bits whose columns from `width` on are 0."""
    if not is_symbol(width) and width % _WORD == 0:
        return bits
    is_tensor = isinstance(bits, Tensor)
    ones = bits.new_full((), -2) if is_tensor else np.int64(-2)
    keep = ~(ones << (width - 1) % _WORD)
    join = torch.cat if is_tensor else np.concatenate
    return join([bits[..., :-1], bits[..., -1:] & keep], -1)


def _flatten(masks: PackedMasks) -> tuple[list[Any], None]:
    return [masks.bits, masks.size], None


def _flatten_with_keys(masks: PackedMasks) -> tuple[list[tuple[Any, Any]], None]:
    return [(pytree.GetAttrKey(name), getattr(masks, name)) for name in ("bits", "size")], None


def _unflatten(children: Any, _: None) -> PackedMasks:
    bits, size = children
    return packed_masks(bits, size)


pytree.register_pytree_node(
    PackedMasks,
    _flatten,
    _unflatten,
    serialized_type_name="visops.PackedMasks",
    flatten_with_keys_fn=_flatten_with_keys,
)
