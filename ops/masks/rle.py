"""Run lengths of masks, as COCO has them: from masks and back, areas and overlaps.

The operators' schemas are in csrc/library.cpp, the checks of their arguments in
csrc/torch/masks/rle.cpp.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, overload

import numpy as np
import torch
from torch import Tensor

from .._native import rle_areas as _rle_areas
from .._native import rle_overlaps as _rle_overlaps
from .._torch.call import call_operator, renamed
from .._torch.options import check_word, flag
from .._torch.outside_graphs import outside_graphs
from .._torch.unsupported_inputs import reject_vmap
from .operators import masks_to_runs as _masks_to_runs
from .operators import runs_to_bits as _runs_to_bits
from .operators import unpack_masks as _unpack_masks
from .packed import ArrayOrPacked, Device, PackedMasks, packed_masks
from .runs import (
    RLE,
    Runs,
    Size,
    areas_of,
    as_rles,
    boxes_of,
    overlaps_of,
    runs_of_rles,
    size_of,
)

Rle = Mapping[str, Any]
Rles = Rle | Sequence[Rle]

# They read dictionaries as COCO's tools write them, and return None for anything else.


@overload
def masks_to_rle(
    masks: Tensor | np.ndarray,
    *,
    compressed: bool = True,
    text: bool = False,
    device: Device = None,
) -> Any: ...
@overload
def masks_to_rle(
    masks: PackedMasks, *, compressed: bool = True, text: bool = False, device: Device = None
) -> list[RLE]: ...
@outside_graphs
def masks_to_rle(
    masks: ArrayOrPacked, *, compressed: bool = True, text: bool = False, device: Device = None
) -> Any:
    """Encode masks as COCO's run lengths.

    The bytes are those of ``pycocotools.mask.encode``, without a copy of the masks in Fortran's
    order. On CUDA, runs come to the host, and masks don't.

    Parameters
    ----------
    masks : Tensor or ndarray ``[N, H, W]`` or ``[H, W]``, bool or uint8, or PackedMasks
        Pixels that are not 0 are inside. Fewer than 2³¹ pixels a mask.
    compressed : bool
        Whether counts are COCO's text or lists of integers.
    text : bool
        Whether this text comes as ``str``, which JSON takes, instead of bytes.
    device : optional
        For arrays: where to compute. They are copied there.

    Returns
    -------
    list of dict
        ``{"size": [H, W], "counts": bytes}`` or, if not `compressed`,
        ``{"size": [H, W], "counts": [int, ...]}`` for each mask; one dict for one mask ``[H, W]``.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For a wrong shape or dtype.
    ValueError
        `text` is given, but not `compressed`.

    Notes
    -----
    Counts are lengths of runs of 0s and 1s in turn, the first of 0s, down the columns. Text is
    written as by T.-Y. Lin and P. Dollár's COCO API (cocodataset/cocoapi, common/maskApi.c).

    Examples
    --------
    >>> import torch, visops
    >>> mask = torch.zeros(4, 6, dtype=torch.bool)
    >>> mask[1:3, 2:5] = True
    >>> visops.masks_to_rle(mask)
    {'size': [4, 6], 'counts': b'9220003'}
    >>> visops.masks_to_rle(mask[None], compressed=False)
    [{'size': [4, 6], 'counts': [9, 2, 2, 2, 2, 2, 5]}]
    """
    op = "masks_to_rle"
    compressed, text = flag(op, "compressed", compressed), flag(op, "text", text)
    if text and not compressed:
        raise ValueError(f"visops.{op}: text is True, must be False unless counts are compressed")
    values = masks.bits if isinstance(masks, PackedMasks) else masks
    reject_vmap(op, "give it all masks as [N, H, W]", values)
    width = masks.size[1] if isinstance(masks, PackedMasks) else -1

    def call(given: Tensor) -> tuple[Tensor, Tensor]:
        if given.dim() not in (2, 3):
            raise RuntimeError(
                f"visops.{op}: masks has shape {list(given.shape)}, must be [N, H, W] or [H, W]"
            )
        try:
            ends, offsets = _masks_to_runs(given if given.dim() == 3 else given[None], width)
        except RuntimeError as error:
            raise renamed(error, op, "masks_to_runs") from None
        return ends, offsets

    found = call_operator(op, call, device, {"masks": values})
    size = int(values.shape[-2]), int(values.shape[-1] if width < 0 else width)
    rles = rles_of_runs(found, size, compressed=compressed)
    for rle in rles if text else ():
        rle["counts"] = rle["counts"].decode("ascii")
    return rles if values.ndim == 3 else rles[0]


@outside_graphs
def rle_to_masks(
    rles: Rles,
    *,
    size: Sequence[int] | None = None,
    device: Device = None,
    out: Literal["bool", "uint8", "packed"] = "bool",
) -> Any:
    """Decode COCO's run lengths.

    Parameters
    ----------
    rles : list of dict, or dict
        ``{"size": [H, W], "counts": ...}``, all of one size. Counts are bytes or a string, as
        ``pycocotools.mask.encode`` and COCO's files have them, or a list of integers.
    size : (int, int), optional
        The height and width that masks must have. An empty list has no other.
    device : optional
        Where the masks are wanted; by default on the CPU. Runs are copied there, not masks.
    out : {"bool", "uint8", "packed"}
        Tensors of bool or of 0 and 1 in uint8, or :class:`visops.masks.PackedMasks`.

    Returns
    -------
    Tensor ``[N, H, W]``, or PackedMasks
        One dict gives ``[H, W]``.

    Raises
    ------
    TypeError
        `rles` is no list of dicts.
    ValueError
        For entries that are no RLE: counts that are negative, don't fill the mask or are no text of
        counts, and sizes that differ.

    Examples
    --------
    >>> import visops
    >>> rle = {"size": [3, 4], "counts": [1, 2, 4, 1, 4]}
    >>> visops.rle_to_masks(rle, out="uint8")
    tensor([[0, 0, 0, 0],
            [1, 0, 1, 0],
            [1, 0, 0, 0]], dtype=torch.uint8)
    """
    op = "rle_to_masks"
    check_word(op, "out", out, ("bool", "uint8", "packed"))
    runs, sizes, is_one = _read(op, "rles", rles)
    wanted = None if size is None else size_of(op, "size", size)
    if not sizes and wanted is None:
        raise ValueError(f"visops.{op}: rles is empty, must hold a dict unless size is given")
    first = sizes[0] if wanted is None else wanted
    what = f"rles[0]['size'] is {list(first)}" if wanted is None else f"size is {list(first)}"
    _check_sizes(op, "rles", sizes, first, what)
    masks = masks_of_runs(runs, first, device, out)
    return masks[0] if is_one else masks


@outside_graphs
def rle_area(rles: Rles) -> Tensor:
    """Count the pixels of masks in COCO's run lengths.

    Parameters
    ----------
    rles : list of dict, or dict
        As :func:`rle_to_masks` takes them, of any sizes.

    Returns
    -------
    int64 ``[N]``; of one dict ``[]``

    Raises
    ------
    TypeError, ValueError
        As :func:`rle_to_masks`.

    Examples
    --------
    >>> import visops
    >>> visops.rle_area([{"size": [4, 6], "counts": b"9220003"}])
    tensor([6])
    """
    areas = _rle_areas(rles)
    if areas is None:  # another form, or an error
        runs, _, is_one = _read("rle_area", "rles", rles)
        areas = areas_of(runs)
        areas = areas.reshape(()) if is_one else areas
    return torch.from_numpy(areas)


@outside_graphs
def rle_to_boxes(rles: Rles) -> Tensor:
    """Find the boxes of masks in COCO's run lengths, as :func:`masks_to_boxes` does.

    Masks are not decoded. ``pycocotools.mask.toBbox`` has x, y, width and height instead.

    Parameters
    ----------
    rles : list of dict, or dict
        As :func:`rle_to_masks` takes them, of any sizes.

    Returns
    -------
    float32 ``[N, 4]``; of one dict ``[4]``
        ``x1, y1, x2, y2``: the first and last column and row with a pixel of the mask. Zeros for a
        mask without pixels.

    Raises
    ------
    TypeError, ValueError
        As :func:`rle_to_masks`.

    Examples
    --------
    >>> import visops
    >>> visops.rle_to_boxes([{"size": [4, 6], "counts": b"9220003"}])
    tensor([[2., 1., 4., 2.]])
    """
    runs, sizes, is_one = _read("rle_to_boxes", "rles", rles)
    boxes = torch.from_numpy(boxes_of(runs, sizes))
    return boxes[0] if is_one else boxes


@outside_graphs
def rle_iou(rles1: Sequence[Rle], rles2: Sequence[Rle], iscrowd: Any = None) -> Tensor:
    """Compute the overlaps of all pairs of masks in COCO's run lengths.

    The values of ``pycocotools.mask.iou``. Masks are not decoded.

    Parameters
    ----------
    rles1, rles2 : list of dict
        N and M masks as :func:`rle_to_masks` takes them, all of one size. In COCO's evaluation,
        detections and ground truth.
    iscrowd : sequence of bool or int, Tensor or ndarray ``[M]``, optional
        Masks of `rles2` that are crowds: overlaps are then over the area of the mask of `rles1`.

    Returns
    -------
    float64 ``[N, M]``
        0 where masks have nothing in common.

    Raises
    ------
    TypeError, ValueError
        As :func:`rle_to_masks`; also for masks of several sizes, where pycocotools returns -1, and
        for an `iscrowd` of another length.

    Examples
    --------
    >>> import visops
    >>> a = [{"size": [2, 4], "counts": [0, 4, 4]}]
    >>> b = [{"size": [2, 4], "counts": [2, 6]}, {"size": [2, 4], "counts": [6, 2]}]
    >>> visops.rle_iou(a, b)
    tensor([[0.2500, 0.0000]], dtype=torch.float64)
    """
    op = "rle_iou"
    if isinstance(rles2, list):
        overlaps = _rle_overlaps(rles1, rles2, _crowd(op, iscrowd, len(rles2)))
        if overlaps is not None:
            return torch.from_numpy(overlaps)
    found = []
    for name, rles in (("rles1", rles1), ("rles2", rles2)):
        if isinstance(rles, Mapping):
            raise TypeError(f"visops.{op}: {name} is a dict, must be a list of dicts")
        found.append(_read(op, name, rles))
    (first, sizes1, _), (second, sizes2, _) = found
    crowd = _crowd(op, iscrowd, len(sizes2))
    size = (sizes1 or sizes2 or [(0, 0)])[0]
    what = f"rles{1 if sizes1 else 2}[0]['size'] is {list(size)}"
    _check_sizes(op, "rles1", sizes1, size, what)
    _check_sizes(op, "rles2", sizes2, size, what)
    return torch.from_numpy(overlaps_of(first, second, crowd, size[0]))


def rles_of_runs(found: Any, size: Size, *, compressed: bool) -> list[RLE]:
    """Return what the operator masks_to_runs has found, tensors or arrays, as dictionaries."""
    ends, offsets = (r.cpu().numpy() if isinstance(r, Tensor) else r for r in found)
    return as_rles(Runs(ends, offsets), size, compressed=compressed)


def masks_of_runs(runs: Runs, size: Size, device: Device, out: str) -> Any:
    """Return masks ``[N, H, W]``; `out` as in :func:`rle_to_masks`."""
    ends, offsets = (torch.from_numpy(part).to(device) for part in runs)
    bits = _runs_to_bits(ends, offsets, size)
    if out == "packed":
        return packed_masks(bits, size)
    masks: Tensor = _unpack_masks(bits, size[1])
    return masks if out == "bool" else masks.view(torch.uint8)


def _read(op: str, name: str, rles: Any) -> tuple[Runs, list[Size], bool]:
    """Return runs, sizes, and whether it was one dict."""
    if isinstance(rles, Mapping):
        return *runs_of_rles(op, name, [rles]), True
    if not isinstance(rles, (list, tuple)):
        raise TypeError(
            f"visops.{op}: {name} is a {type(rles).__name__}, must be a list of dicts or a dict"
        )
    return *runs_of_rles(op, name, rles), False


def _check_sizes(op: str, name: str, sizes: Sequence[Size], size: Size, what: str) -> None:
    for i, other in enumerate(sizes):
        if other != size:
            raise ValueError(
                f"visops.{op}: {name}[{i}]['size'] is {list(other)}, {what}: masks must be of one "
                "size"
            )


def _crowd(op: str, iscrowd: Any, count: int) -> np.ndarray | None:
    if iscrowd is None:
        return None
    flags = iscrowd.cpu().numpy() if isinstance(iscrowd, Tensor) else np.asarray(iscrowd)
    if flags.shape != (count,):
        raise ValueError(
            f"visops.{op}: iscrowd has shape {list(flags.shape)}, must be {[count]}, one for each "
            "of rles2"
        )
    if count > 0 and flags.dtype.kind not in "biu":
        raise ValueError(f"visops.{op}: iscrowd has dtype {flags.dtype}, must be bool or integers")
    return np.ascontiguousarray(flags != 0).view(np.uint8)
