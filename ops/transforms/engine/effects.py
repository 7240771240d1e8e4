"""What a transform says about itself, so that passes can be formed before any image is seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from .numbers import Number, Params
from .plan import Canvas, Plan

__all__ = ["Effects", "Fusable"]


@dataclass(frozen=True, slots=True)
class Effects:
    """What a transform can do, judging by its type and arguments alone.

    Passes are formed from this, before any image is seen.
    """

    moves: bool = False  # has geometry
    aligned: bool = True  # its geometry keeps the axes
    interpolation: str | None = None  # None: moves by whole pixels, or not at all
    antialias: bool | None = None  # None: as the rest of its pass
    fill: tuple[float, ...] | None = None  # what it may bring in from outside; None: nothing
    padding_mode: str = "constant"  # how it brings that in, where `fill` is not None
    inside: tuple[int, int] | None = None  # brings nothing into images of at least this size
    size: tuple[int, int] | None = None  # least size of its result; None: its input's size
    colors: int = 0  # number of colour steps
    normalizes: bool = False
    dtype: torch.dtype | None = None  # the dtype it converts to
    erases: tuple[float, ...] | None = None
    alone: str | None = None  # why it can't join a fused pass


class Fusable(nn.Module):
    """What the engine asks of a transform: effects, parameters, and an entry in a plan.

    Attributes
    ----------
    draws : int
        How many uniform numbers it needs per sample.
    """

    draws: int = 0

    def effects(self) -> Effects:
        """Say what the transform does, for any image and any draw."""
        raise NotImplementedError

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> dict[str, np.ndarray]:
        """Turn uniform numbers into parameters.

        Parameters
        ----------
        uniforms : ndarray, float64 ``[B, draws]``
            In [0, 1).
        canvas : Canvas
            The images that the transform receives.

        Returns
        -------
        dict of ndarray
            Each with a first dimension of B.
        """
        return {}

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        """Add to a plan what the transform does with these parameters."""
        raise NotImplementedError

    def draw(self, uniforms: Sequence[Number], canvas: Canvas) -> Params:
        """Call `make_params` with numbers in a plan's form: floats or arrays [B]."""
        return self.make_params(np.array(uniforms).reshape(self.draws, -1).T, canvas)  # type: ignore[return-value]

    def parts(self) -> list[Fusable]:
        """Return the steps that, to be exact, may need passes of their own."""
        return [self]
