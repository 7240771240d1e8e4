"""Warps and one-pass augmentation: affine matrices, points, images."""

from .affine import warp_affine
from .affine_matrix import compose_affine, get_affine_matrix, invert_affine
from .affine_points import affine_from_points, transform_boxes, transform_points
from .augment import augment

__all__ = [
    "affine_from_points",
    "augment",
    "compose_affine",
    "get_affine_matrix",
    "invert_affine",
    "transform_boxes",
    "transform_points",
    "warp_affine",
]
