"""Moving targets, as slow, obviously correct loops in float64."""

import math

import numpy as np

# Boxes are cut at this distance from the horizon: see ops/transforms/targets/rows.py.
NEAR = 1e-4


def homogeneous(matrix: np.ndarray, x: float, y: float) -> tuple[float, float, float]:
    """Multiply a 3x3 matrix by (x, y, 1)."""
    u, v, w = (row[0] * x + row[1] * y + row[2] for row in matrix.tolist())
    return u, v, w


def move_point(matrix: np.ndarray, x: float, y: float) -> tuple[float, float]:
    """Move a point in front of the horizon."""
    u, v, w = homogeneous(matrix, x, y)
    return u / w, v / w


def distance(matrix: np.ndarray, size: tuple[int, int], x: float, y: float) -> float:
    """Return the distance from the horizon, relative to that of the centre of an (H, W) image."""
    return homogeneous(matrix, x, y)[2] / homogeneous(matrix, size[1] / 2, size[0] / 2)[2]


def move_box(
    matrix: np.ndarray, size: tuple[int, int], box: list[float], steps: int = 200
) -> list[float]:
    """Return the bounds of many points on a box's outline, those in front of the horizon."""
    x1, y1, x2, y2 = box
    corners = [(x1, y1), (x2, y1), (x2, y2), (x1, y2)]
    points = []
    for (ax, ay), (bx, by) in zip(corners, corners[1:] + corners[:1], strict=True):
        near, far = distance(matrix, size, ax, ay), distance(matrix, size, bx, by)
        shares = [step / steps for step in range(steps + 1)]
        if (near < NEAR) != (far < NEAR):
            shares.append((near - NEAR) / (near - far))
        for share in shares:
            x, y = ax + share * (bx - ax), ay + share * (by - ay)
            if distance(matrix, size, x, y) >= NEAR * (1 - 1e-9):
                points.append(move_point(matrix, x, y))
    if not points:
        return [0.0, 0.0, 0.0, 0.0]
    xs, ys = zip(*points, strict=True)
    return [min(xs), min(ys), max(xs), max(ys)]


def move_mask(
    mask: np.ndarray,
    matrix: np.ndarray,
    size: tuple[int, int],
    fill: float,
    window: list[float] | None = None,
) -> np.ndarray:
    """Move a mask [H, W] by a matrix in the half-pixel convention, taking the nearest pixel."""
    height, width = mask.shape
    x1, y1, x2, y2 = window or [0, 0, width, height]
    inverse = np.linalg.inv(matrix)
    out = np.full(size, fill, mask.dtype)
    for row in range(size[0]):
        for column in range(size[1]):
            x, y = move_point(inverse, column + 0.5, row + 0.5)
            px, py = math.floor(x), math.floor(y)
            in_window = math.floor(x1) <= px < math.ceil(x2) and math.floor(y1) <= py < math.ceil(
                y2
            )
            if in_window and 0 <= px < width and 0 <= py < height:
                out[row, column] = mask[py, px]
    return out
