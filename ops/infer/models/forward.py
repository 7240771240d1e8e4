"""Runs a network on a batch; if it raises, image by image, to find the image at fault."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..batch import Batch, shortened
from ..frames import Placement
from .model import Model


@dataclass
class Forwarded:
    """A model's outputs, each with the rows of the batch it belongs to.

    There is a single output of all rows, or one per row if images ran one by one. Those are not
    joined: an output may have any form, and only its post-processing knows which axes and lists
    belong to the batch.
    """

    parts: list[tuple[Any, list[int]]]


def forward(
    model: Model,
    inputs: Tensor,
    placements: Sequence[Placement],
    batch: Batch,
    *,
    worked: bool = True,
) -> bool:
    """Run a model on a batch; store its output, or the failures, in the batch.

    Parameters
    ----------
    worked : bool
        Whether the model has ever returned an output. If not, and it raises on each of several
        images, the model is at fault, not the images.

    Returns
    -------
    bool
        Whether the model has returned an output by now.

    Raises
    ------
    RuntimeError
        The model has never worked.
    """
    try:
        output = model.forward(inputs, batch.images, placements)
    except Exception as error:
        if _is_fatal(error):
            raise
    else:
        batch.outputs[model.name] = Forwarded([(output, list(range(len(batch.frames))))])
        return True
    # Outside the except block, whose traceback keeps the activations of the whole batch alive: a
    # model that ran out of memory would do so again.
    batch.retried += 1
    done = one_by_one(model, inputs, placements, batch, worked=worked)
    batch.outputs[model.name] = done
    return worked or bool(done.parts)


def one_by_one(
    model: Model,
    inputs: Tensor,
    placements: Sequence[Placement],
    batch: Batch,
    *,
    worked: bool = True,
) -> Forwarded:
    """Run each image as a batch of its own; those on which the model raises are failures."""
    parts: list[tuple[Any, list[int]]] = []
    reasons: dict[int, str] = {}
    last: Exception | None = None
    for row in range(len(batch.frames)):
        one = slice(row, row + 1)
        last = None  # frees the memory that its traceback keeps alive
        try:
            parts.append((model.forward(inputs[one], batch.images[one], placements[one]), [row]))
        except Exception as error:
            if _is_fatal(error):
                raise
            reasons[row] = shortened(f"{type(error).__name__}: {error}")
            last = error
    if not worked and not parts and len(reasons) > 1:
        raise RuntimeError(
            f"model {model.name} has never worked, and raises on each of {len(reasons)} images; "
            f"is its input what it expects? It has shape {[1, *inputs.shape[1:]]} and dtype "
            f"{inputs.dtype}. On the first image: {reasons[0]}"
        ) from last
    for row, text in reasons.items():
        index = batch.frames[row].index
        reason = f"model {model.name}: {text}"
        before = batch.failures.get(index)
        batch.failures[index] = reason if before is None else f"{before}; {reason}"
    return Forwarded(parts)


def _is_fatal(error: Exception) -> bool:
    """Whether the device is lost, so that every later call would raise too."""
    lost = getattr(torch, "AcceleratorError", ())
    return isinstance(error, lost) and not isinstance(error, torch.OutOfMemoryError)
