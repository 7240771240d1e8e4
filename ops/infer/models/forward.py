"""Networks on a batch; where one raises, its images go one by one, and the culprit is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..batch import Batch, shortened
from ..frames import Placement
from .model import Model

__all__ = ["Forwarded", "forward", "one_by_one"]


@dataclass
class Forwarded:
    """A model's outputs, each with the rows of the batch that it is of.

    There is one of all rows, or one of each row, where images went one by one. Those aren't joined:
    an output may have any form, and which of its axes and lists are the batch's is known to its
    post-processing alone.
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
    """Run a model on a batch, and keep what comes out; failures are written into the batch.

    Parameters
    ----------
    worked : bool
        Whether it has ever yielded an output. If not, and it raises on each of several images, then
        it is the model that fails, and not they.

    Returns
    -------
    bool
        Whether it has yielded one by now.

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
    # Not in the block above: the traceback holds the activations of the whole batch, and what has
    # run out of memory would do so again.
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
    """Run each image in a batch of its own; those that raise are failures."""
    parts: list[tuple[Any, list[int]]] = []
    reasons: dict[int, str] = {}
    last: Exception | None = None
    for row in range(len(batch.frames)):
        one = slice(row, row + 1)
        last = None  # and with it what its traceback holds
        try:
            parts.append((model.forward(inputs[one], batch.images[one], placements[one]), [row]))
        except Exception as error:
            if _is_fatal(error):
                raise
            reasons[row] = shortened(f"{type(error).__name__}: {error}")
            last = error
    if not worked and not parts and len(reasons) > 1:
        raise RuntimeError(
            f"model {model.name} has not worked once, and raises on each of {len(reasons)} images; "
            f"is its input what it wants? It has shape {[1, *inputs.shape[1:]]} and dtype "
            f"{inputs.dtype}. On the first one: {reasons[0]}"
        ) from last
    for row, text in reasons.items():
        index = batch.frames[row].index
        reason = f"model {model.name}: {text}"
        before = batch.failures.get(index)
        batch.failures[index] = reason if before is None else f"{before}; {reason}"
    return Forwarded(parts)


def _is_fatal(error: Exception) -> bool:
    """Whether the device is lost, so that every further call would raise as well."""
    lost = getattr(torch, "AcceleratorError", ())
    return isinstance(error, lost) and not isinstance(error, torch.OutOfMemoryError)
