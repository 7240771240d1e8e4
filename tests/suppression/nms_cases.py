"""Boxes, scores, layouts and masks that the tests of suppression share."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGER = (torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.int64)

# 0.1 and 1 / 3 lie below their float32 neighbours, 0.7 above.
THRESHOLDS = (0.0, 0.1, 0.25, 1 / 3, 0.5, 0.6, 0.7, 0.9, 1.0)
Rng = np.random.Generator


def from_corners(corner: np.ndarray, extent: np.ndarray) -> np.ndarray:
    return np.concatenate([corner, corner + extent], -1)


def grid_boxes(rng: Rng, count: int) -> np.ndarray:
    """Corners on a few integers times a power of two: exact ratios, many of them equal."""
    boxes = from_corners(rng.integers(-6, 7, (count, 2)), rng.integers(1, 7, (count, 2)))
    return boxes * 2.0 ** rng.integers(-20, 20)


def uniform_boxes(rng: Rng, count: int) -> np.ndarray:
    side = 30.0 * max(count, 1) ** 0.5
    return from_corners(rng.uniform(-side, side, (count, 2)), rng.uniform(1, 100, (count, 2)))


def clustered_boxes(rng: Rng, count: int) -> np.ndarray:
    """As from a detector: some ten boxes around each object."""
    objects = from_corners(rng.uniform(0, 1000, (count // 10 + 1, 2)), rng.uniform(8, 200, 2))
    return objects[rng.integers(0, len(objects), count)] + rng.normal(0, 4, (count, 4))


def piled_boxes(rng: Rng, count: int) -> np.ndarray:
    """All on one spot; few suppress one another at high thresholds."""
    half = 10.0 * 2.0 ** rng.uniform(-2, 2, (count, 2))
    return np.concatenate([50 - half, 50 + half], 1)


def mixed_boxes(rng: Rng, count: int) -> np.ndarray:
    """Sides from a thousandth to 16,000, which breaks grids of one cell size."""
    extent = 2.0 ** rng.uniform(-10, 14, (count, 1)) * rng.uniform(0.5, 2, (count, 2))
    return from_corners(rng.uniform(-100, 100, (count, 2)), extent)


def one_box(rng: Rng, count: int) -> np.ndarray:
    return np.tile([[3.0, 4.0, 10.0, 11.5]], (count, 1))


def odd_boxes(rng: Rng, count: int) -> np.ndarray:
    """Whole-number boxes, half of them inverted, flat, copies of others, infinite or NaN."""
    boxes = from_corners(rng.integers(0, 9, (count, 2)), rng.integers(1, 6, (count, 2))) * 1.0
    for i in rng.permutation(count)[: count // 2]:
        kind = rng.integers(0, 6)
        if kind == 0:  # in x, in y or in both
            boxes[i] = boxes[i][[[2, 1, 0, 3], [0, 3, 2, 1], [2, 3, 0, 1]][rng.integers(0, 3)]]
        elif kind == 1:
            axis = rng.integers(0, 2)
            boxes[i, 2 + axis] = boxes[i, axis]
        elif kind == 2:
            boxes[i] = boxes[rng.integers(0, count)]
        elif kind == 3:
            boxes[i, rng.integers(0, 4)] = rng.choice([np.inf, -np.inf])
        elif kind == 4:
            boxes[i] = [-np.inf, -np.inf, np.inf, np.inf]
        else:
            boxes[i, rng.integers(0, 4)] = np.nan
    return boxes


BOXES: dict[str, Callable[[Rng, int], np.ndarray]] = {
    "grid": grid_boxes,
    "uniform": uniform_boxes,
    "clusters": clustered_boxes,
    "pile": piled_boxes,
    "mixed": mixed_boxes,
    "one": one_box,
    "odd": odd_boxes,
}


def distinct_scores(rng: Rng, shape: Any) -> np.ndarray:
    """In (0, 1), all different, also in float32."""
    count = int(np.prod(shape))
    return ((rng.permutation(count) + 1) / (count + 1)).reshape(shape)


def tied_scores(rng: Rng, shape: Any) -> np.ndarray:
    """Five values, each many times, with both zeros."""
    return rng.choice([0.75, 0.5, 0.0, -0.0, -1.0], shape)


def wild_scores(rng: Rng, shape: Any) -> np.ndarray:
    values = np.where(rng.random(shape) < 0.5, rng.standard_normal(shape), tied_scores(rng, shape))
    odd = rng.choice([np.nan, -np.nan, np.inf, -np.inf], shape)
    return np.where(rng.random(shape) < 0.3, odd, values)


SCORES: dict[str, Callable[[Rng, Any], np.ndarray]] = {
    "distinct": distinct_scores,
    "tied": tied_scores,
    "wild": wild_scores,
}


def batch_boxes(rng: Rng, batch: int, count: int) -> np.ndarray:
    """[B, N, 4], with another kind for each image."""
    kinds = list(BOXES.values())
    images = [kinds[i % len(kinds)](rng, count) for i in range(batch)]
    return np.stack(images) if images else np.zeros((0, count, 4))


def transposed(boxes: Tensor) -> Tensor:
    """All x1, then all y1, as networks often return them."""
    return boxes.mT.contiguous().mT


def sliced(boxes: Tensor) -> Tensor:
    """Every other row, and a part of its columns."""
    *batch, count, columns = boxes.shape
    wide = torch.full((*batch, 2 * count, columns + 3), 3, dtype=boxes.dtype)
    view = wide[..., ::2, 2:-1]
    view.copy_(boxes)
    return view


def spaced(boxes: Tensor) -> Tensor:
    """Neither coordinates nor boxes are adjacent."""
    pairs = torch.stack([boxes, torch.full_like(boxes, 3)], -1)
    return pairs.transpose(0, -2).contiguous().transpose(0, -2)[..., 0]


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": Tensor.contiguous,
    "transposed": transposed,
    "sliced": sliced,
    "spaced": spaced,
}


def every_other(scores: Tensor) -> Tensor:
    return torch.stack([scores, scores], -1)[..., 0]


def assert_same_scores(
    found: tuple[Any, Tensor], expected: tuple[Any, np.ndarray], method: str
) -> None:
    """Rows and new scores equal the reference's, in the scores' dtype.

    The reference's exp, and so every "gaussian" score, may differ in the last digits, and nearly
    equal scores may swap.
    """
    rows = [tuple(row) if isinstance(row, list) else row for row in found[0].tolist()]
    wanted, lowered = expected
    stored = torch.from_numpy(lowered).to(found[1].dtype)
    if method != "gaussian":
        assert rows == wanted
        assert torch.equal(found[1], stored)
        return
    assert sorted(rows) == sorted(wanted)
    by_row = dict(zip(wanted, stored, strict=True))
    same_order = torch.stack([by_row[row] for row in rows]) if rows else stored
    error = {torch.float32: 1e-6, torch.float64: 1e-13}.get(stored.dtype, 1e-2)
    for other in (same_order, stored):
        torch.testing.assert_close(found[1], other, rtol=error, atol=1e-30)


def disc_masks(rng: Rng, count: int, height: int = 24, width: int = 37) -> np.ndarray:
    """Discs of all sizes; some equal, some empty."""
    y, x = np.mgrid[:height, :width]
    masks = np.zeros((count, height, width), bool)
    for mask in masks:
        centre, radius = rng.uniform(0, (height, width)), rng.uniform(0, height / 2)
        mask[:] = (y - centre[0]) ** 2 + (x - centre[1]) ** 2 < radius**2
    return masks[rng.integers(0, max(1, count - count // 4), count)] if count else masks
