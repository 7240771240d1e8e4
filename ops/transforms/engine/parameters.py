"""Parameters of a chain: recorded, and checked when they are given back."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .fuse import name_of
from .numbers import Params
from .source import Parameters


def recorded(transforms: Sequence[Any], steps: list[Params], sizes: np.ndarray) -> Parameters:
    """Return what a chain drew for images of these sizes, [B, 2]."""
    names = [name_of(transform) for transform in transforms]
    return Parameters(names, steps, sizes)


def check_params(transforms: Sequence[Any], params: Any, owner: str = "Compose") -> None:
    """Raise unless `params` were drawn by a chain of such transforms."""
    names = [name_of(transform) for transform in transforms]
    if not isinstance(params, Parameters):
        raise TypeError(
            f"visops.transforms.{owner}: params is a {type(params).__name__}, must be the "
            "Parameters that a call has returned"
        )
    if params.names != names:
        raise ValueError(
            f"visops.transforms.{owner}: params is for {params.names}, must be for {names}"
        )
