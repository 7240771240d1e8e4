"""The geometry of passes that have run, for the targets to follow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ._leaf import Leaf
from ._plan import Canvas, Plan
from ._targets import Geometry, TargetOptions, move_targets

__all__ = ["Movement"]


class Movement:
    """Passes in turn, as one map from the first one's source to the last one's canvas."""

    def __init__(self, canvas: Canvas) -> None:
        self.start = self.canvas = canvas
        self.projective = False
        self.rows: np.ndarray | None = None  # [3, 3, B]; None: the identity

    def add(self, plan: Plan) -> None:
        """Follow with a pass."""
        self.canvas = plan.canvas
        self.projective = self.projective or plan.projective
        if self.rows is None:
            self.rows = plan.rows
            return
        old, new = self.rows, plan.rows
        self.rows = new[:, 0, None] * old[0] + new[:, 1, None] * old[1] + new[:, 2, None] * old[2]

    @property
    def matrix(self) -> np.ndarray:
        """Source to canvas, [B, 3, 3]."""
        if self.rows is None:
            return np.tile(np.eye(3), (self.canvas.height.shape[0], 1, 1))
        return np.ascontiguousarray(self.rows.transpose(2, 0, 1))

    def move(
        self, leaves: Sequence[Leaf], options: TargetOptions, window: np.ndarray | None = None
    ) -> None:
        """Move the targets; `window` is [4, B]."""
        if self.rows is None:
            return
        matrix = self.matrix
        size_in, size_out = self.start.size, self.canvas.size
        if window is None and (matrix == np.eye(3)).all() and (size_in == size_out).all():
            return
        window = None if window is None else np.ascontiguousarray(window.T)
        move_targets(leaves, Geometry(matrix, size_in, size_out, window), options)
