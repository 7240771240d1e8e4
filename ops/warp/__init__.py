"""Warps and one-pass augmentation: affine matrices, points, images."""

from .affine import warp_affine
from .affine_matrix import get_affine_matrix, get_rotation_matrix2d
from .augment import augment
from .homography import homography_from_points
from .letterboxes import letterbox, unletterbox_boxes
from .matrix_algebra import compose_affine, invert_affine, transform_boxes, transform_points
from .perspective import warp_perspective
from .point_fits import affine_from_points, similarity_from_points
from .remap import displacement_field, remap

__all__ = [
    "affine_from_points",
    "augment",
    "compose_affine",
    "displacement_field",
    "get_affine_matrix",
    "get_rotation_matrix2d",
    "homography_from_points",
    "invert_affine",
    "letterbox",
    "remap",
    "similarity_from_points",
    "transform_boxes",
    "transform_points",
    "unletterbox_boxes",
    "warp_affine",
    "warp_perspective",
]
