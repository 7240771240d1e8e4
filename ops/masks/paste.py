"""Masks of boxes pasted into an image.

The schemas are in csrc/library.cpp, the checks of arguments in csrc/torch/masks/paste.cpp, and fake
kernels, gradients and vmap in paste_autograd.py.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from .._torch.call import call_operator, renamed
from .._torch.numbers import height_and_width
from .._torch.options import check_word
from .._torch.outside_graphs import outside_graphs
from .._torch.unsupported_inputs import reject_vmap
from .operators import masks_to_runs as _masks_to_runs
from .packed import Device, packed_masks
from .paste_autograd import paste_binary_masks as _paste_binary_masks
from .paste_autograd import paste_masks as _paste_masks
from .rle import rles_of_runs
from .runs import RLE

_OP = "paste_masks"
_FORMS = ("bool", "uint8", "packed", "rle", "float")
_PADDING = {"detectron2": 0, "torchvision": 1}
_WITHOUT_FRACTION = (torch.bool, torch.uint8)


def paste_masks(
    masks: Tensor | np.ndarray,
    boxes: Tensor | np.ndarray,
    size: Sequence[int],
    *,
    threshold: float | None = None,
    out: Literal["bool", "uint8", "packed", "rle", "float"] = "bool",
    convention: Literal["detectron2", "torchvision"] = "detectron2",
    padding: int | None = None,
    device: Device = None,
) -> Any:
    r"""Paste masks that a detector predicts for boxes into the image.

    Every mask becomes a mask of the whole image, sampled bilinearly within its box and empty
    beyond. Only pixels of the boxes are computed, and nothing larger than the result is stored: 100
    masks of 800 × 1333 pixels take 107 MB as bool and 13 MB packed. Results are bit-identical on
    every instruction set, at every thread count, and on CPU and CUDA; so are gradients.

    Parameters
    ----------
    masks : Tensor or ndarray ``[N, h, w]`` or ``[N, 1, h, w]``
        Usually probabilities of 28 × 28 pixels. Any floating dtype; bool and uint8 count as
        float32.
    boxes : Tensor or ndarray ``[N, 4]``
        ``x1, y1, x2, y2`` in pixels of the image, whose top left corner is 0, 0. Any floating or
        integer dtype, converted to float32 (float64 for float64 masks). Parts beyond the image are
        cut off.
    size : (int, int)
        Height and width of the image.
    threshold : float, optional
        Which pixels are inside; 0.5 by default. For "detectron2" those that are at least as large,
        for "torchvision" those that are larger, as these libraries do it. Pixels beyond the mask's
        reach are outside, whatever the threshold. Not for ``out="float"``.
    out : {"bool", "uint8", "packed", "rle", "float"}
        The result: masks of bools, of bytes 0 and 1,
        :class:`PackedMasks <visops.masks.PackedMasks>` without a mask of bytes in between, COCO's
        run lengths of these as :func:`masks_to_rle` returns them, or the sampled numbers
        themselves.
    convention : {"detectron2", "torchvision"}
        Where samples lie. "detectron2": the sides of box and mask coincide, with sub-pixel
        accuracy; beyond its outermost pixels' centres, a mask fades to 0. "torchvision": masks get
        `padding` zeros on every side, boxes grow in proportion to the masks' width along both axes
        and are truncated to whole pixels, and masks are resized to these.
    padding : int >= 0, optional
        1 by default. Only for "torchvision": the other convention has zeros all around.
    device : optional
        For arrays: where to compute. They are copied there and the result back.

    Returns
    -------
    Tensor or ndarray ``[N, H, W]``, PackedMasks, or list of dict
        For ``out="float"`` of the masks' dtype.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For wrong shapes, dtypes, devices, sizes, or boxes that are inverted or not finite. Boxes on
        CUDA are not checked: masks of such boxes are empty.
    TypeError
        For a `threshold` with ``out="float"``, or a `padding` with "detectron2".

    Notes
    -----
    For ``out="float"`` differentiable with respect to `masks`, any number of times, but not
    `boxes`. Deterministic. Positions are computed step by step as in ``paste_masks_in_image`` of
    detectron2 (``detectron2/layers/mask_ops.py``) and of torchvision
    (``torchvision/models/detection/roi_heads.py``). Results differ from theirs by rounding, and
    from detectron2's on the CPU where that cuts the fading off one pixel beyond the box.

    With ``out="rle"``, CUDA synchronizes and runs come to the host, and ``torch.compile`` breaks
    the graph, as for :func:`masks_to_rle`.

    Examples
    --------
    >>> import torch, visops
    >>> masks = torch.tensor([[[0.2, 0.9]]])
    >>> boxes = torch.tensor([[1.0, 0.0, 5.0, 2.0]])
    >>> visops.paste_masks(masks, boxes, (3, 6), out="uint8")
    tensor([[[0, 0, 0, 1, 1, 0],
             [0, 0, 0, 1, 1, 0],
             [0, 0, 0, 0, 0, 0]]], dtype=torch.uint8)
    >>> visops.paste_masks(masks, boxes, (3, 6), out="float")[0, 0]
    tensor([0.0375, 0.1125, 0.2812, 0.5437, 0.5062, 0.1687])
    >>> visops.paste_masks(masks, boxes, (3, 6), out="rle")
    [{'size': [3, 6], 'counts': b'92103'}]
    """
    error: type[Exception] = ValueError if isinstance(masks, np.ndarray) else RuntimeError
    check_word(_OP, "out", out, _FORMS, error=error)
    check_word(_OP, "convention", convention, _PADDING, error=error)
    if out == "float" and threshold is not None:
        raise TypeError(f"visops.{_OP}: threshold is for masks; out='float' returns the numbers")
    if convention == "detectron2" and padding is not None:
        raise TypeError(f"visops.{_OP}: padding is for convention='torchvision'")
    height, width = height_and_width(_OP, size)
    zeros = _PADDING[convention] if padding is None else padding
    level = 0.5 if threshold is None else threshold

    image = height, width
    if out == "rle":
        return _paste_as_rles(masks, boxes, image, level, convention, zeros, device)

    def call(masks: Tensor, boxes: Tensor) -> Tensor:
        return _pasted(masks, boxes, image, level, out, convention, zeros)

    result = call_operator(_OP, call, device, {"masks": masks, "boxes": boxes})
    return packed_masks(result, image) if out == "packed" else result


@outside_graphs
def _paste_as_rles(
    masks: Tensor | np.ndarray,
    boxes: Tensor | np.ndarray,
    size: tuple[int, int],
    threshold: float,
    convention: str,
    padding: int,
    device: Device,
) -> list[RLE]:
    def call(masks: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
        reject_vmap(_OP, "give it all masks and boxes, or another out than 'rle'", masks, boxes)
        bits = _pasted(masks, boxes, size, threshold, "packed", convention, padding)
        ends, offsets = _masks_to_runs(bits, size[1])
        return ends, offsets

    found = call_operator(_OP, call, device, {"masks": masks, "boxes": boxes})
    return rles_of_runs(found, size, compressed=True)


def _pasted(
    masks: Tensor,
    boxes: Tensor,
    size: tuple[int, int],
    threshold: float,
    out: str,
    convention: str,
    padding: int,
) -> Tensor:
    values = _three_dimensional(masks)
    try:
        if out == "float":
            return _paste_masks(values, boxes, size, convention, padding)
        return _paste_binary_masks(  # type: ignore[no-any-return]
            values, boxes, size, threshold, out, convention, padding
        )
    except RuntimeError as error:
        raise renamed(error, _OP, "paste_binary_masks") from None


def _three_dimensional(masks: Tensor) -> Tensor:
    if not (masks.dim() == 3 or (masks.dim() == 4 and masks.shape[1] == 1)):
        raise RuntimeError(
            f"visops.{_OP}: masks has shape {list(masks.shape)}, must be [N, h, w] or [N, 1, h, w]"
        )
    values = masks.squeeze(1) if masks.dim() == 4 else masks
    return values.float() if values.dtype in _WITHOUT_FRACTION else values
