"""Networks on a batch; where one raises, its images go one by one, and the culprit is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .batch import Batch
from .models import Model
from .preprocess import Placement

__all__ = ["Forwarded", "forward", "one_by_one"]


@dataclass
class Forwarded:
    """A model's output, and which rows of the batch it is of."""

    output: Any
    rows: list[int]


def forward(model: Model, inputs: Tensor, placements: Sequence[Placement], batch: Batch) -> None:
    """Run a model on a batch, and keep what comes out; failures are written into the batch."""
    try:
        output = model.forward(inputs, batch.images, placements)
        batch.outputs[model.name] = Forwarded(output, list(range(len(batch.frames))))
    except Exception as error:
        if _is_fatal(error):
            raise
        batch.retried += 1
        batch.outputs[model.name] = one_by_one(model, inputs, placements, batch)


def one_by_one(
    model: Model, inputs: Tensor, placements: Sequence[Placement], batch: Batch
) -> Forwarded:
    """Run each image in a batch of its own; those that raise are failures."""
    outputs, rows = [], []
    for row, frame in enumerate(batch.frames):
        one = slice(row, row + 1)
        try:
            outputs.append(model.forward(inputs[one], batch.images[one], placements[one]))
            rows.append(row)
        except Exception as error:
            if _is_fatal(error):
                raise
            reason = f"model {model.name}: {type(error).__name__}: {error}"
            before = batch.failures.get(frame.index)
            batch.failures[frame.index] = reason if before is None else f"{before}; {reason}"
    return Forwarded(_joined(outputs) if outputs else None, rows)


def _is_fatal(error: Exception) -> bool:
    """Whether the device is lost, so that every further call would raise as well."""
    lost = getattr(torch, "AcceleratorError", ())
    return isinstance(error, lost) and not isinstance(error, torch.OutOfMemoryError)


def _joined(outputs: list[Any]) -> Any:
    """Join outputs of batches of one to that of one batch."""
    first = outputs[0]
    if isinstance(first, Tensor):
        return torch.cat(outputs)
    if isinstance(first, Mapping):
        return {key: _joined([output[key] for output in outputs]) for key in first}
    return [item for output in outputs for item in output]
