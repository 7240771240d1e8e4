"""Where the four images of each mosaic lie, and how they get there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._native import Step
from ...warp.augment import augment
from ..chain.integers import WHITES, choose, from_float, to_float
from ..chain.plan import Canvas, Plan
from ..targets.masks import move_mask
from ..targets.options import Geometry


@dataclass(slots=True)
class Movement:
    """How canvases move before they are seen, and are cut."""

    size: tuple[int, int]  # of what is left
    steps: Sequence[tuple[Step, np.ndarray]]  # with each mosaic's numbers [B, N]

    def add_to(self, plan: Plan, tiles: int) -> None:
        """Add it to a plan that has as many samples for each mosaic."""
        for step, numbers in self.steps:
            plan.add(step, numbers.repeat(tiles, 0))


@dataclass(slots=True)
class Shape:
    """A tile that lies askew: a rectangle x1, y1, x2, y2 of the canvas that was moved."""

    back: list[float]  # the first two rows of a matrix from mosaic to canvas
    rectangle: list[float]

    def covers(self, window: Sequence[int]) -> Tensor:
        """Return which pixels of a window x1, y1, x2, y2 have their centres within: ``[h, w]``.

        A pixel's place on the canvas doesn't depend on the window, so that tiles that touch never
        share a pixel and leave none between them.
        """
        x1, y1, x2, y2 = window
        x = torch.arange(x1, x2, dtype=torch.float64, device="cpu") + 0.5
        y = torch.arange(y1, y2, dtype=torch.float64, device="cpu").unsqueeze(1) + 0.5
        a, b, c, d, e, f = self.back
        u, v = (a * x + c) + b * y, (d * x + f) + e * y
        left, top, right, bottom = self.rectangle
        return (u >= left) & (u < right) & (v >= top) & (v < bottom)


@dataclass(slots=True)
class Tiles:
    """Four tiles of each mosaic in turn, T of them: top left, top right, bottom left and right."""

    sources: list[int]  # the sample that each shows
    geometry: Geometry  # from the samples' images to the mosaic
    regions: list[list[int]]  # x1, y1, x2, y2: each tile's part of the mosaic
    seen: list[list[int]]  # x1, y1, x2, y2: where its image lies there; may be empty
    shapes: list[Shape | None]  # which pixels of `seen` show it; None: all do
    moved: bool  # so that pictures may end within pixels

    @staticmethod
    def of(
        sizes: np.ndarray,
        size: tuple[int, int],
        centers: np.ndarray,
        sources: np.ndarray,
        mixed: np.ndarray,
        movement: Movement | None = None,
    ) -> "Tiles":
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
        mixed : ndarray, bool ``[B]``
            The first image of others lies alone, in the middle: in all of a mosaic, or in `size`
            where canvases move.
        movement : Movement, optional
            What happens to the canvases of twice `size`; by default they are the mosaics.
        """
        flat, count = sources.reshape(-1), 4 * len(sizes)
        height, width = sizes[flat].T.astype(np.float64)
        alone = ~mixed.repeat(4)
        full = (2.0 * size[0], 2.0 * size[1])
        most = size if movement is not None else full
        factor = np.where(
            alone,
            np.minimum(most[0] / height, most[1] / width),
            np.minimum(size[0] / height, size[1] / width),
        )
        rows = np.maximum(np.rint(height * factor), 1.0)
        columns = np.maximum(np.rint(width * factor), 1.0)
        x, y = centers.repeat(4, 0).T.astype(np.float64)
        right, lower = (np.arange(count) % 2 == 1), (np.arange(count) % 4 >= 2)
        left, top = np.where(right, x, x - columns), np.where(lower, y, y - rows)
        left = np.where(alone, np.floor((full[1] - columns) / 2), left)
        top = np.where(alone, np.floor((full[0] - rows) / 2), top)

        # What a canvas cuts off must not come back where it moves.
        plan = Plan.of_images(sizes[flat], exact=movement is not None)
        plan.scale(columns / width, rows / height, 0.0, 0.0, Canvas(rows, columns))
        plan.shift(left, top, Canvas(*full))

        zero = np.zeros(count)
        regions = np.stack(
            (
                *(np.where(right, x, zero), np.where(lower, y, zero)),
                *(np.where(right, full[1], x), np.where(lower, full[0], y)),
            ),
            1,
        )
        _lay_alone(regions, alone, full)
        seen = regions.copy()
        seen[:, :2] = np.maximum(regions[:, :2], np.stack((left, top), 1))
        seen[:, 2:] = np.minimum(regions[:, 2:], np.stack((left + columns, top + rows), 1))
        shapes: list[Shape | None] = [None] * count
        if movement is not None:
            canvases = Plan.of_images(np.full((len(sizes), 2), full, np.int64))
            movement.add_to(canvases, 1)
            movement.add_to(plan, 4)
            full = movement.size
            regions, seen, shapes = _moved(canvases.matrices.repeat(4, 0), regions, seen, full)
            _lay_alone(regions, alone, full)
        size_out = np.tile(np.array(full, np.int64), (count, 1))
        geometry = Geometry(plan.matrices, sizes[flat], size_out, plan.window, plan.ties)
        edges = [edges.astype(np.int64).tolist() for edges in (regions, seen)]
        return Tiles(flat.tolist(), geometry, edges[0], edges[1], shapes, movement is not None)

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

    def draw_images(
        self, images: Sequence[Tensor], out: Tensor, fill: Tensor, mode: str, antialias: bool
    ) -> None:
        """Write all pixels of mosaics ``[B T, C, H, W]``, from images ``[T, C, H, W]``."""
        matrix = self.geometry.sampled() if mode == "nearest" else self.geometry.matrix
        matrix = matrix[:, :2].copy()
        matrix[:, :, 2] -= np.array(self.seen).reshape(-1, 4)[:, :2]
        matrices = torch.from_numpy(matrix).to(out.device, non_blocking=True)
        frames = out.shape[0] * 4 // max(len(self.sources), 1)
        if any(self.shapes):
            out[...] = fill
        options: dict[str, Any] = {
            "mode": mode,
            "antialias": antialias,
            # Nothing from outside a picture may leak into its rim.
            "padding_mode": "constant" if antialias and not self.moved else "replicate",
            "convention": "half_pixel",
            "layout": "CHW",
        }
        for tile, source in enumerate(self.sources):
            first = tile // 4 * frames
            image, canvas = images[source], out[first : first + frames]
            x1, y1, x2, y2 = seen = self.seen[tile]
            for left, top, right, bottom in _around(seen, self.regions[tile]):
                canvas[..., top:bottom, left:right] = fill
            if x1 >= x2 or y1 >= y2:
                continue
            window, shape = canvas[..., y1:y2, x1:x2], self.shapes[tile]
            own, size = matrices[tile : tile + 1], (y2 - y1, x2 - x1)
            if image.dtype in WHITES:
                result = from_float(augment(to_float(image), own, size, **options), image.dtype)
            elif shape is not None or (image.requires_grad and torch.is_grad_enabled()):
                result = augment(image, own, size, out_dtype=image.dtype, **options)
            else:
                augment(image, own, size, out=window, **options)
                continue
            _put(result, window, None if shape is None else shape.covers(seen))

    def masks(self, tile: int, value: Any, fill: int = 0) -> Any:
        """Return a tile's masks ``[..., H, W]``, moved into the window that is seen of it."""
        position = self.position(tile)
        return value[..., :0, :0] if position is None else move_mask(value, False, position, fill)

    def put_masks(self, tile: int, picture: Any, out: Any) -> None:
        """Write what `masks` returns into the masks of a mosaic."""
        x1, y1, x2, y2 = self.seen[tile]
        if x1 < x2 and y1 < y2:
            shape = self.shapes[tile]
            covered = None if shape is None else shape.covers(self.seen[tile])
            _put(picture, out[..., y1:y2, x1:x2], covered)


def _lay_alone(regions: np.ndarray, alone: np.ndarray, size: tuple[float, float]) -> None:
    """Give all of a mosaic to the first of four tiles ``[T, 4]`` that are not mixed."""
    regions[alone] = 0.0
    regions[alone & (np.arange(len(alone)) % 4 == 0), 2:] = size[::-1]


def _moved(
    matrices: np.ndarray, regions: np.ndarray, seen: np.ndarray, size: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, list[Shape | None]]:
    """Return regions, what is seen of each tile, and its shape, after canvases have moved.

    Parameters
    ----------
    matrices : ndarray ``[T, 3, 3]``
        From each tile's canvas to its mosaic.
    regions, seen : ndarray ``[T, 4]``
        On the canvas.
    size : pair of int
        Height and width of mosaics.
    """
    regions, seen = regions.copy(), seen.copy()
    shapes: list[Shape | None] = []
    ends = np.array((size[1], size[0]), np.float64)
    for tile, matrix in enumerate(matrices):
        scale, shift = matrix[:2, :2], matrix[:2, 2]
        if scale[0, 1] == 0.0 == scale[1, 0] and scale[0, 0] > 0.0 and scale[1, 1] > 0.0:
            for edges in (regions[tile], seen[tile]):  # the first pixels with centres beyond
                first = np.ceil(edges.reshape(2, 2) * scale.diagonal() + shift - 0.5)
                edges[:] = np.clip(first, 0.0, ends).reshape(4)
            right, lower = tile % 2, tile % 4 // 2
            regions[tile, 2 * right] = right * ends[0]  # at the rim, to its end
            regions[tile, 1 + 2 * lower] = lower * ends[1]
            shapes.append(None)
            continue
        left, top, right, bottom = seen[tile]
        back = np.linalg.inv(matrix)[:2].reshape(6).tolist()
        shapes.append(Shape(back, [left, top, right, bottom]))
        corners = np.array([(x, y) for x in (left, right) for y in (top, bottom)])
        reached = corners @ scale.T + shift
        around = np.array((np.floor(reached.min(0)), np.ceil(reached.max(0))))
        empty = left >= right or top >= bottom
        seen[tile] = regions[tile] = 0.0 if empty else np.clip(around, 0.0, ends).reshape(4)
    return regions, seen, shapes


def _around(seen: Sequence[int], region: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """Return the parts x1, y1, x2, y2 of a region in which nothing is seen; none is empty."""
    (left, top, right, bottom), (x1, y1, x2, y2) = seen, region
    if left >= right or top >= bottom:
        left, top, right, bottom = x1, y1, x1, y1
    parts = [(x1, y1, x2, top), (x1, bottom, x2, y2), (x1, top, left, bottom)]
    parts.append((right, top, x2, bottom))
    return [part for part in parts if part[0] < part[2] and part[1] < part[3]]


def _put(values: Any, out: Any, where: Tensor | None) -> None:
    """Write values into an array or a tensor: all, or where a mask ``[H, W]`` says so."""
    if where is None:
        out[...] = values
    elif isinstance(out, np.ndarray):
        np.copyto(out, values, where=where.numpy())
    else:
        out.copy_(choose(where.to(out.device, non_blocking=True), values, out))


def filled(like: Any, shape: Sequence[int], value: int) -> Any:
    """Return a tensor or an array of one value, with the dtype and device of another."""
    if isinstance(like, Tensor):
        return like.new_full(tuple(shape), value)
    return np.full(tuple(shape), value, like.dtype)
