"""The geometry of passes that have run, for the targets to follow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ._leaf import Leaf
from ._numbers import Number, columns
from ._plan import Canvas, Plan
from ._targets import Geometry, TargetOptions, move_targets

__all__ = ["Movement"]


class Movement:
    """Passes in turn, as one map from the first one's source to the last one's canvas."""

    def __init__(self, canvas: Canvas, batch: int) -> None:
        self.start = self.canvas = canvas
        self.batch = batch
        self.matrix: np.ndarray | None = None  # [B, 3, 3]; None: the identity

    def add(self, plan: Plan) -> None:
        """Follow with a pass."""
        self.canvas = plan.canvas
        new = plan.matrices
        # Written out, as an order of summation that doesn't depend on the number of samples.
        self.matrix = new if self.matrix is None else (new[..., None] * self.matrix[:, None]).sum(2)

    def move(
        self,
        leaves: Sequence[Leaf],
        options: TargetOptions,
        window: Sequence[Number] | None = None,
    ) -> None:
        """Move the targets."""
        if self.matrix is None:
            return
        size_in, size_out = self.start.size(self.batch), self.canvas.size(self.batch)
        still = (self.matrix == np.eye(3)).all() and (size_in == size_out).all()
        if window is None and still:
            return
        cut = None if window is None else columns(window, self.batch)
        move_targets(leaves, Geometry(self.matrix, size_in, size_out, cut), options)
