"""Where the four images of each mosaic lie, and how they get there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...warp.augment import augment
from ..engine.integers import WHITES, from_float, to_float
from ..engine.plan import Canvas, Plan
from ..targets.masks import move_mask
from ..targets.options import Geometry

__all__ = ["Tiles", "filled"]


@dataclass(slots=True)
class Tiles:
    """Four tiles of each mosaic in turn, T of them: top left, top right, bottom left and right."""

    sources: list[int]  # the sample that each shows
    geometry: Geometry  # from the samples' images to the mosaic
    regions: list[list[int]]  # x1, y1, x2, y2: each tile's part of the mosaic
    seen: list[list[int]]  # x1, y1, x2, y2: where its image lies there; may be empty

    @staticmethod
    def of(
        sizes: np.ndarray, size: tuple[int, int], centers: np.ndarray, sources: np.ndarray
    ) -> Tiles:
        """Lay out mosaics.

        Parameters
        ----------
        sizes : ndarray, int ``[B, 2]``
            Heights and widths of the images.
        size : pair of int
            Height and width into which each image is fitted; a mosaic has twice that.
        centers : ndarray, int ``[B, 2]``
            x, y of the point where the four images meet.
        sources : ndarray, int ``[B, 4]``
        """
        flat, count = sources.reshape(-1), 4 * len(sizes)
        height, width = sizes[flat].T.astype(np.float64)
        factor = np.minimum(size[0] / height, size[1] / width)
        rows = np.maximum(np.rint(height * factor), 1.0)
        columns = np.maximum(np.rint(width * factor), 1.0)
        x, y = centers.repeat(4, 0).T.astype(np.float64)
        right, lower = (np.arange(count) % 2 == 1), (np.arange(count) % 4 >= 2)
        left, top = np.where(right, x, x - columns), np.where(lower, y, y - rows)
        full = (2.0 * size[0], 2.0 * size[1])

        plan = Plan.of_images(sizes[flat])
        plan.scale(columns / width, rows / height, 0.0, 0.0, Canvas(rows, columns))
        plan.shift(left, top, Canvas(*full))
        size_out = np.tile(np.array(full, np.int64), (count, 1))
        geometry = Geometry(plan.matrices, sizes[flat], size_out, None, plan.ties)

        zero = np.zeros(count)
        regions = np.stack(
            (
                *(np.where(right, x, zero), np.where(lower, y, zero)),
                *(np.where(right, full[1], x), np.where(lower, full[0], y)),
            ),
            1,
        )
        seen = regions.copy()
        seen[:, :2] = np.maximum(regions[:, :2], np.stack((left, top), 1))
        seen[:, 2:] = np.minimum(regions[:, 2:], np.stack((left + columns, top + rows), 1))
        whole = [edges.astype(np.int64).tolist() for edges in (regions, seen)]
        return Tiles(flat.tolist(), geometry, *whole)

    def position(self, tile: int) -> Geometry | None:
        """Return the way into the tile's own picture, which is what is seen; None: nothing is."""
        x1, y1, x2, y2 = self.seen[tile]
        if x1 >= x2 or y1 >= y2:
            return None
        one, whole = slice(tile, tile + 1), self.geometry
        matrix = whole.matrix[one].copy()
        matrix[:, :2, 2] -= (x1, y1)
        ties = None if whole.ties is None else whole.ties[one]
        return Geometry(matrix, whole.size_in[one], np.array([[y2 - y1, x2 - x1]]), None, ties)

    def draw_image(
        self, tile: int, image: Tensor, out: Tensor, fill: Tensor, mode: str, antialias: bool
    ) -> None:
        """Write a tile's region of a mosaic ``[T, C, H, W]``: each of its pixels once."""
        x1, y1, x2, y2 = self.regions[tile]
        position, seen = self.position(tile), self.seen[tile]
        if position is None:
            out[..., y1:y2, x1:x2] = fill
            return
        left, top, right, bottom = seen
        out[..., y1:top, x1:x2] = fill
        out[..., bottom:y2, x1:x2] = fill
        out[..., top:bottom, x1:left] = fill
        out[..., top:bottom, right:x2] = fill
        window = out[..., top:bottom, left:right]
        matrix: Any = position.sampled() if mode == "nearest" else position.matrix
        matrix = torch.from_numpy(matrix[:, :2])
        if image.device.type != "cpu":
            matrix = matrix.to(image.device, non_blocking=True)
        options: dict[str, Any] = {
            "mode": mode,
            "antialias": antialias,
            # The picture ends with whole pixels; nothing else may leak into its rim.
            "padding_mode": "constant" if antialias else "replicate",
            "convention": "half_pixel",
            "layout": "CHW",
        }
        size = (bottom - top, right - left)
        if image.dtype in WHITES:
            result = augment(to_float(image), matrix, size, **options)
            window.copy_(from_float(result, image.dtype))
        elif image.requires_grad and torch.is_grad_enabled():
            window.copy_(augment(image, matrix, size, out_dtype=image.dtype, **options))
        else:
            augment(image, matrix, size, out=window, **options)

    def masks(self, tile: int, value: Any, fill: int = 0) -> Any:
        """Return a tile's masks ``[..., H, W]``, moved into the picture that is seen of it."""
        position = self.position(tile)
        return value[..., :0, :0] if position is None else move_mask(value, False, position, fill)

    def put_masks(self, tile: int, picture: Any, out: Any) -> None:
        """Write what `masks` returns into the masks of a mosaic."""
        x1, y1, x2, y2 = self.seen[tile]
        if x1 < x2 and y1 < y2:
            out[..., y1:y2, x1:x2] = picture


def filled(like: Any, shape: Sequence[int], value: int) -> Any:
    """Return a tensor or an array of one value, with the dtype and device of another."""
    if isinstance(like, Tensor):
        return like.new_full(tuple(shape), value)
    return np.full(tuple(shape), value, like.dtype)
