"""The focal loss."""

import math
from typing import Any

import torch

from .case import (
    NAN,
    Arguments,
    Draw,
    Errors,
    OneOf,
    OpCase,
    bad,
    bad_type,
    bad_value,
    with_options,
)


def logits(draw: Draw) -> Arguments:
    """Return targets that are numbers, 0 and 1 among them."""
    shape = draw.sizes.count, draw.choose(5, 1, 40)
    targets = draw.rng.uniform(-0.5, 1.5, shape).clip(0, 1)
    return {"inputs": draw.normal(*shape), "targets": draw.tensor(targets)}


def classes(draw: Draw) -> Arguments:
    """Return a class for each row of a batch; some are background."""
    batch, count, classes = draw.sizes.batch, draw.sizes.count, draw.choose(5, 1, 40)
    labels = draw.rng.integers(-1, classes + 1, (batch, count))
    return {
        "inputs": draw.normal(batch, count, classes),
        "targets": draw.tensor(labels, torch.int64),
    }


NUMBERS: dict[str, Any] = {"gamma": OneOf(2.0, 1.5, 0.0), "alpha": OneOf(0.25, -1.0)}
CASES = [
    OpCase(
        "sigmoid_focal_loss",
        with_options(logits, **NUMBERS),
        differentiable=("inputs",),  # by targets too, by torch's operators: tests/losses
        mapped=("inputs", "targets"),
        rows=("inputs", "targets"),
        layouts=("strided", "transposed"),
    ),
    OpCase(
        "sigmoid_focal_loss classes",
        with_options(classes, **NUMBERS),
        differentiable=("inputs",),
        mapped=("inputs", "targets"),
        rows=("inputs", "targets"),
        layouts=("strided", "transposed"),
    ),
]

zeros = torch.zeros
ERRORS = {
    "sigmoid_focal_loss": Errors(
        {"inputs": zeros(3, 4), "targets": zeros(3, 4)},
        bad(inputs=zeros(3, 4, dtype=torch.int64), says="has dtype int64, must be a floating type"),
        bad(targets=zeros(3), says="has shape [3], inputs has [3, 4]; must be equal, or int64"),
        bad(
            targets=zeros(4, dtype=torch.int64),
            says="has shape [4], inputs has [3, 4]; must be equal, or int64 classes without the",
        ),
        bad(targets=zeros(3, 4, dtype=torch.bool), says="has dtype bool, must be a floating type"),
        bad(alpha=1.5, says="is 1.5, must be from 0 to 1, or negative for no weights"),
        bad(alpha=NAN, says="is nan, must be from 0 to 1, or negative for no weights"),
        bad(gamma=-1.0, says="is -1, must be finite and >= 0"),
        bad(gamma=math.inf, says="is inf, must be finite and >= 0"),
        bad_value(reduction="average", says="is 'average', must be 'none', 'mean' or 'sum'"),
        bad_type(inputs=[0.5], says="is a list, must be a torch.Tensor"),
        bad_type(targets=None, says="is a NoneType, must be a torch.Tensor"),
        bad_type(gamma="2", says="is '2', must be a number"),
    )
}
