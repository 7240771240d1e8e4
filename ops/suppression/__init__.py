"""Non-maximum suppression, its relatives, and fusion of boxes."""

from .box_fusion import (
    non_maximum_weighted,
    weighted_boxes_fusion,
    weighted_boxes_fusion_1d,
    weighted_boxes_fusion_3d,
)
from .matrix_nms import matrix_nms
from .nms import batched_nms, nms, nms_match, nms_padded, nms_rotated
from .soft_nms import batched_soft_nms, soft_nms, soft_nms_rotated

__all__ = [
    "batched_nms",
    "batched_soft_nms",
    "matrix_nms",
    "nms",
    "nms_match",
    "nms_padded",
    "nms_rotated",
    "non_maximum_weighted",
    "soft_nms",
    "soft_nms_rotated",
    "weighted_boxes_fusion",
    "weighted_boxes_fusion_1d",
    "weighted_boxes_fusion_3d",
]
