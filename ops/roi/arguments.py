"""Arguments that the operators on regions share: a batch's boxes, and sizes of results."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch.arrays import no_boxes
from .._torch.fakes import holds
from .._torch.numbers import as_index, has_order
from .._torch.unsupported_inputs import called, reject_float8


def as_boxes(op: str, boxes: Any, input: Tensor, columns: int = 4, name: str = "input") -> Tensor:
    """Return boxes with their batch index: ``[K, 1 + columns]``.

    Parameters
    ----------
    op : str
        The public function, for errors.
    boxes : Tensor or sequence of Tensor
        A tensor is returned as it is. In a sequence, tensor i holds the boxes of image i,
        ``[L, columns]``, or ``[0]`` for none; the last images may have no tensor. The result is at
        least float32, so that it can hold the indices, and float64 for integers.
    input : Tensor
        The batch: gives the number of images, and the device if there are no boxes.
    columns : int
        How many numbers a box has, without its batch index.
    name : str
        What the public function calls `input`.

    Raises
    ------
    TypeError
        If `boxes` is neither a tensor nor a list or tuple of tensors.
    ValueError
        For the wrong number of tensors, or a wrong shape, dtype or device.
    """
    if isinstance(boxes, Tensor):
        rows: Tensor = no_boxes(boxes, 1 + columns)
        return rows
    if not isinstance(boxes, (list, tuple)):
        kind = type(boxes).__name__
        raise TypeError(f"visops.{op}: boxes is a {kind}, must be a tensor or a list of tensors")
    boxes = [no_boxes(part, columns) for part in boxes]
    for i, part in enumerate(boxes):
        if not isinstance(part, Tensor):
            kind = type(part).__name__
            raise TypeError(f"visops.{op}: boxes[{i}] is a {kind}, must be a torch.Tensor")
        if part.dim() != 2 or part.shape[1] != columns:
            raise ValueError(
                f"visops.{op}: boxes[{i}] has shape {list(part.shape)}, must be [L, {columns}]"
            )
        if part.dtype == torch.bool or part.is_complex():
            raise ValueError(
                f"visops.{op}: boxes[{i}] has dtype {str(part.dtype).removeprefix('torch.')}, "
                "must be a floating or integer type"
            )
        reject_float8(op, f"boxes[{i}]", part)
        if part.device != boxes[0].device:
            raise ValueError(
                f"visops.{op}: boxes[{i}] is on {part.device}, boxes[0] is on {boxes[0].device}; "
                "all tensors must be on one device"
            )
    if input.dim() == 4 and holds(len(boxes) > input.shape[0]):
        raise ValueError(
            f"visops.{op}: boxes is a list of {len(boxes)}, {name} has batch size "
            f"{input.shape[0]}, must be at most one tensor for each image"
        )
    if not boxes:
        return input.new_empty((0, 1 + columns), dtype=torch.float32)
    joined = called(torch.cat, [_computed(part) for part in boxes])
    indices = [joined.new_full((part.shape[0], 1), i) for i, part in enumerate(boxes)]
    return torch.cat([torch.cat(indices), joined], 1)


def _computed(boxes: Tensor) -> Tensor:
    """Return boxes in a dtype that can hold the indices of all images, and the boxes' numbers."""
    least = torch.float32 if boxes.is_floating_point() else torch.float64
    return boxes.to(torch.promote_types(boxes.dtype, least))


def output_pair(
    op: str, output_size: int | Sequence[int], name: str = "output_size"
) -> tuple[int, int]:
    """Return the argument `name`, a size, as height and width; an integer stands for both.

    Raises
    ------
    TypeError
        If it is neither an integer nor two of them.
    """
    if isinstance(output_size, torch.SymInt):
        return output_size, output_size  # type: ignore[return-value]
    try:
        if isinstance(output_size, Sequence) and has_order(output_size):
            height, width = output_size
            return as_index(height), as_index(width)
        side = as_index(output_size)
    except (TypeError, ValueError):
        raise TypeError(
            f"visops.{op}: {name} is {output_size!r}, must be an integer or (height, width)"
        ) from None
    return side, side
