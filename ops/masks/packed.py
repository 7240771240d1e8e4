"""Packing of masks; their areas, boxes and overlaps.

The schemas are in csrc/library.cpp, the checks of arguments in csrc/torch/masks/packed.cpp.
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from .._torch.call import call_operator, renamed
from .._torch.fakes import holds
from .._torch.numbers import height_and_width, is_symbol
from .._torch.options import check_word, flag
from .._torch.unsupported_inputs import require_plain
from .operators import mask_boundaries as _mask_boundaries
from .operators import mask_iou as _mask_iou
from .operators import measure_masks as _measure_masks
from .operators import pack_masks as _pack_masks
from .operators import unpack_masks as _unpack_masks

# Masks as bits, and how they are indexed.

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


Device = torch.device | str | None

_KINDS = ("iou", "ioa", "boundary")


ArrayOrPacked = Tensor | np.ndarray | PackedMasks


def pack_masks(masks: Tensor | np.ndarray, *, device: Device = None) -> PackedMasks:
    """Pack masks into bits.

    Parameters
    ----------
    masks : Tensor or ndarray ``[..., H, W]``, bool or uint8
        Pixels that are not 0 are inside.
    device : optional
        For arrays: where to compute. They are copied there and the result back.

    Returns
    -------
    PackedMasks
        Its method ``unpack`` is the way back.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For a wrong shape or dtype.

    Examples
    --------
    >>> import torch, visops
    >>> packed = visops.pack_masks(torch.tensor([[True, False, True]]))
    >>> packed
    PackedMasks(bits=tensor([[5]]), size=(1, 3))
    >>> packed.unpack()
    tensor([[ True, False,  True]])
    """
    bits = call_operator("pack_masks", _pack_masks, device, {"masks": masks})
    return packed_masks(bits, (masks.shape[-2], masks.shape[-1]))


def mask_area(masks: ArrayOrPacked, *, device: Device = None) -> Any:
    """Count the pixels of masks.

    Parameters
    ----------
    masks : Tensor or ndarray ``[..., H, W]``, bool or uint8, or PackedMasks
    device : optional
        For arrays: where to compute. They are copied there and the result back.

    Returns
    -------
    int64 ``[...]``

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For a wrong shape or dtype.

    Examples
    --------
    >>> import torch, visops
    >>> visops.mask_area(torch.ones(2, 3, 4, dtype=torch.bool))
    tensor([12, 12])
    """
    return _measured("mask_area", lambda areas, boxes: areas, masks, device)


def masks_to_boxes(
    masks: ArrayOrPacked, *, return_empty: bool = False, device: Device = None
) -> Any:
    """Find the boxes of masks, as ``torchvision.ops.masks_to_boxes`` does.

    Parameters
    ----------
    masks : Tensor or ndarray ``[..., H, W]``, bool or uint8, or PackedMasks
    return_empty : bool
        Also return which masks are empty.
    device : optional
        For arrays: where to compute. They are copied there and the result back.

    Returns
    -------
    boxes : float32 ``[..., 4]``
        ``x1, y1, x2, y2``: the first and last column and row with a pixel of the mask. Zeros for a
        mask without pixels.
    empty : bool ``[...]``
        Only with `return_empty`.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For a wrong shape or dtype.

    Examples
    --------
    >>> import torch, visops
    >>> mask = torch.zeros(4, 6, dtype=torch.bool)
    >>> mask[1:3, 2:5] = True
    >>> visops.masks_to_boxes(torch.stack([mask, ~mask, mask & ~mask]), return_empty=True)
    (tensor([[2., 1., 4., 2.],
            [0., 0., 5., 3.],
            [0., 0., 0., 0.]]), tensor([False, False,  True]))
    """
    op = "masks_to_boxes"
    choose = _boxes_and_empty if flag(op, "return_empty", return_empty) else _boxes
    return _measured(op, choose, masks, device)


def mask_iou(
    masks1: ArrayOrPacked,
    masks2: ArrayOrPacked,
    *,
    kind: Literal["iou", "ioa", "boundary"] = "iou",
    iscrowd: Tensor | np.ndarray | None = None,
    dilation_ratio: float | None = None,
    device: Device = None,
) -> Any:
    """Compute the overlaps of all pairs of masks.

    Counts common bits, and only within the rows and columns that both masks touch. Results are the
    same on every instruction set, at every thread count, and on CPU and CUDA.

    Parameters
    ----------
    masks1, masks2 : Tensor or ndarray ``[N, H, W]`` and ``[M, H, W]``, or PackedMasks
        Bool or uint8; pixels that are not 0 are inside. Pack masks that are used again.
    kind : {"iou", "ioa", "boundary"}
        Intersection over union, or over the area of the mask of `masks1`; or the intersection over
        union of the masks' boundaries, which weighs their outline alone.
    iscrowd : Tensor or ndarray ``[M]``, bool or uint8, optional
        Masks of `masks2` that are crowds: their overlaps are "ioa", as in COCO's evaluation; with
        "boundary", of boundaries.
    dilation_ratio : float >= 0, optional
        For "boundary": how wide boundaries are, as a share of the image's diagonal; 0.02 by
        default. Rounded half to even to whole pixels, 1 at least. The boundary is what erosion by a
        square removes, ``2 d + 1`` pixels wide; pixels near the image's border belong to it.
    device : optional
        For arrays: where to compute. They are copied there and the result back.

    Returns
    -------
    float32 ``[N, M]``
        0 where masks have nothing in common, empty masks too. Pixels are counted exactly, and the
        ratio of the counts is rounded twice: to float64, then to float32. There is no gradient.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For wrong shapes, dtypes, devices or kinds, and masks of two sizes.
    TypeError
        For a `dilation_ratio` with another kind.

    Notes
    -----
    "boundary" is the measure of B. Cheng et al., "Boundary IoU: Improving Object-Centric Image
    Segmentation Evaluation" (CVPR 2021). Their evaluation on COCO takes the smaller of it and the
    intersection over union of the masks.

    Examples
    --------
    >>> import torch, visops
    >>> masks = torch.zeros(2, 4, 8, dtype=torch.bool)
    >>> masks[0, :, :4] = True
    >>> masks[1, :, 2:] = True
    >>> visops.mask_iou(masks, masks)
    tensor([[1.0000, 0.2500],
            [0.2500, 1.0000]])
    >>> visops.mask_iou(masks, masks, kind="ioa")
    tensor([[1.0000, 0.5000],
            [0.3333, 1.0000]])
    """
    op = "mask_iou"
    sizes = [size_of_masks(op, name, m) for name, m in (("masks1", masks1), ("masks2", masks2))]
    if sizes[0] != sizes[1]:
        error = RuntimeError if isinstance(values_of_masks(masks1), Tensor) else ValueError
        raise error(
            f"visops.{op}: masks1 are {sizes[0][0]} x {sizes[0][1]}, masks2 are {sizes[1][0]} x "
            f"{sizes[1][1]}: masks must be of one size"
        )
    packed = isinstance(masks1, PackedMasks), isinstance(masks2, PackedMasks)
    error = RuntimeError if isinstance(values_of_masks(masks1), Tensor) else ValueError
    check_word(op, "kind", kind, _KINDS, error=error)
    if dilation_ratio is not None and kind != "boundary":
        raise TypeError(f"visops.{op}: dilation_ratio is for kind='boundary'")
    ratio = 0.02 if dilation_ratio is None else dilation_ratio

    def outlined(name: str, values: Tensor, is_packed: bool) -> Tensor:
        bits = values if is_packed else bits_of_masks(op, name, values)
        try:
            boundaries: Tensor = _mask_boundaries(bits, sizes[0][1], ratio)
        except RuntimeError as error:
            raise renamed(error, op, "mask_boundaries", {"bits": name}) from None
        return boundaries

    def call(one: Tensor, other: Tensor, crowd: Tensor | None) -> Tensor:
        if kind != "boundary":
            overlaps: Tensor = _mask_iou(one, other, kind, crowd, *packed)
            return overlaps
        first = outlined("masks1", one, packed[0])
        second = first if one is other else outlined("masks2", other, packed[1])
        overlaps = _mask_iou(first, second, "iou", crowd)
        return overlaps

    tensors = {
        "masks1": values_of_masks(masks1),
        "masks2": values_of_masks(masks2),
        "iscrowd": iscrowd,
    }
    return call_operator(op, call, device, tensors, optional=("iscrowd",))


def values_of_masks(masks: Any) -> Any:
    """Return the tensor or array of masks, packed or not."""
    return masks.bits if isinstance(masks, PackedMasks) else masks


def size_of_masks(op: str, name: str, masks: Any) -> tuple[int, int]:
    """Return height and width of masks [N, H, W]."""
    if isinstance(masks, PackedMasks):
        return masks.size
    if not isinstance(masks, (Tensor, np.ndarray)):
        raise TypeError(
            f"visops.{op}: {name} is a {type(masks).__name__}, must be a torch.Tensor, a "
            "numpy.ndarray or PackedMasks"
        )
    require_plain(op, **{name: masks})
    if masks.ndim != 3:
        error = RuntimeError if isinstance(masks, Tensor) else ValueError
        raise error(f"visops.{op}: {name} has shape {list(masks.shape)}, must be [N, H, W]")
    return masks.shape[-2], masks.shape[-1]


def bits_of_masks(op: str, name: str, masks: Tensor) -> Tensor:
    """Return masks that are not packed as bits; errors name `op` and its argument."""
    try:
        bits: Tensor = _pack_masks(masks)
    except RuntimeError as error:
        raise renamed(error, op, "pack_masks", {"masks": name}) from None
    return bits


def _measured(op: str, choose: Callable[[Tensor, Tensor], Any], masks: Any, device: Device) -> Any:
    is_packed = isinstance(masks, PackedMasks)

    def call(values: Tensor) -> Any:
        try:
            areas, boxes = _measure_masks(values, is_packed)
        except RuntimeError as error:
            raise renamed(error, op, "measure_masks") from None
        return choose(areas, boxes)

    return call_operator(op, call, device, {"masks": values_of_masks(masks)})


def _boxes(areas: Tensor, boxes: Tensor) -> Tensor:
    """Return boxes whose last row and column are inside. It writes into `boxes`."""
    boxes[..., 2:].sub_(1).clamp_(min=0)  # those of masks without pixels stay 0
    return boxes.to(torch.float32)


def _boxes_and_empty(areas: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
    return _boxes(areas, boxes), areas == 0
