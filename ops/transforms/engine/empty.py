"""Batches without a sample."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..sample.images import sizes_of
from ..sample.leaf import Leaf
from .numbers import Params
from .source import Source

Run = Callable[[list[Leaf], Source], tuple[list[Params], np.ndarray]]


def run_empty(run: Run, leaves: list[Leaf], source: Source) -> list[Params]:
    """Run a chain on a batch of no samples: results have the shapes that a sample's would have.

    One sample of zeros stands in while the chain runs. Nothing is drawn from the caller's numbers.

    Parameters
    ----------
    run : callable
        From leaves and a source of numbers to parameters and sizes; changes the leaves.
    leaves : list of Leaf
        Changed in place. Lists without entries stay as they are.
    source : Source

    Returns
    -------
    list of dict of ndarray
        Parameters with a first dimension of 0.
    """
    dense = [leaf for leaf in leaves if leaf.batch == 0 and not isinstance(leaf.value, list)]
    for leaf in dense:
        leaf.value, leaf.batch = _one_of(leaf.value), 1
    for leaf in dense:
        if leaf.canvas is not None:
            leaf.canvas = sizes_of(next(x for x in dense if x.kind == "image"))
    taking_part = [leaf for leaf in leaves if leaf.batch != 0]
    numbers = replace(source, seed=None, generator=torch.Generator(), index=None, params=None)
    steps, _ = run(taking_part, numbers)
    for leaf in dense:
        leaf.value, leaf.batch = _none_of(leaf.value), 0
        leaf.visible = None if leaf.visible is None else _none_of(leaf.visible)
    return [{name: array[:0] for name, array in step.items()} for step in steps]


def _one_of(value: Any) -> Any:
    shape = (1, *value.shape[1:])
    return value.new_zeros(shape) if isinstance(value, Tensor) else np.zeros(shape, value.dtype)


def _none_of(value: Any) -> Any:
    if isinstance(value, list):  # a transform has taken the batch apart
        value = value[0][None]
    return value[:0]
