"""Matrices and what they move: functions of torch's operators, in float64 where they solve."""

from typing import Any

import torch
import visops
from torch import Tensor

from .boxes import corners
from .case import Arguments, Draw, OpCase, with_options
from .warp import images, matrices

SQUARE = ((0.0, 0.0), (9.0, 0.0), (9.0, 9.0), (0.0, 9.0), (4.0, 5.0))


def centres(draw: Draw) -> Arguments:
    batch = draw.sizes.batch
    return {"center": draw.uniform(batch, 2, high=9.0), "angle": draw.uniform(batch, high=360.0)}


def moved_points(draw: Draw, count: int = 5) -> Arguments:
    """Return points of a square, and where each image moves them."""
    square = draw.tensor(SQUARE[:count]) + torch.zeros(draw.sizes.batch, 1, 1, dtype=draw.dtype)
    return {"src": square, "dst": square + draw.uniform(*square.shape, low=-1.0)}


def points(draw: Draw) -> Arguments:
    shape = (draw.sizes.batch, draw.sizes.count, 2)
    return {"points": draw.uniform(*shape, high=20.0), "matrix": matrices(draw)}


def boxes(draw: Draw) -> Arguments:
    return {"boxes": corners(draw, draw.sizes.batch, draw.sizes.count), "matrix": matrices(draw)}


def of_sizes(images: Tensor, boxes: Tensor) -> tuple[Any, ...]:
    """Call functions of numbers with sizes that a program leaves open."""
    height, width = images.shape[-2:]
    middle = (width - 1) / 2, (height - 1) / 2
    return (
        visops.letterbox((height, width), (64, 48)),
        visops.letterbox((40, 60), (height, width), convention="integer", like=images),
        visops.unletterbox_boxes(boxes, images.shape[-2:], images.shape[-1]),
        visops.get_affine_matrix(middle, 30, (height, 1), scale=(width / 64, 2), shear=(9, 0)),
        visops.get_rotation_matrix2d(middle, 20.0, width / 64),
        visops.warp_affine(images, [[1, 0, width / 4], [0, 1, 0]]),
    )


# Matrices are float64, or as their arguments are; small sizes make singular ones.
COMPOSED: dict[str, Any] = {
    "dtypes": (torch.float64, torch.float32),
    "half": False,
    "composed": True,
    "twice": False,
    "finite_differences": False,
    "skip": frozenset({"no batch"}),
}

CASES = [
    OpCase(
        "get_affine_matrix",
        with_options(centres, scale=1.5),
        mapped=("center", "angle"),
        **COMPOSED,
    ),
    OpCase("get_rotation_matrix2d", centres, **COMPOSED),
    OpCase("invert_affine", lambda draw: {"matrix": matrices(draw)}, **COMPOSED),
    OpCase(
        "compose_affine",
        lambda draw: {"first": matrices(draw), "second": matrices(draw).flip(0)},
        call=lambda first, second: visops.compose_affine(first, second),
        **COMPOSED,
    ),
    OpCase("affine_from_points", moved_points, **COMPOSED),
    OpCase("similarity_from_points", moved_points, **COMPOSED),
    OpCase("homography_from_points", lambda draw: moved_points(draw, 4), **COMPOSED),
    OpCase(
        "transform_points",
        points,
        mapped=("points", "matrix"),
        **COMPOSED,
    ),
    OpCase("transform_boxes", boxes, **COMPOSED),
    OpCase(
        "letterbox and others of open sizes",
        lambda draw: {"images": images(draw), "boxes": corners(draw, draw.sizes.count)},
        call=of_sizes,
        on_meta=False,  # what it makes of numbers is on the CPU
        **COMPOSED,
    ),
]
