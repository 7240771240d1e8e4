"""Non-maximum suppression, its relatives, and fusion of boxes."""

from .box_fusion import weighted_boxes_fusion
from .matrix_nms import matrix_nms
from .nms import batched_nms, nms, nms_match, nms_padded, nms_rotated
from .soft_nms import batched_soft_nms, soft_nms

__all__ = [
    "batched_nms",
    "batched_soft_nms",
    "matrix_nms",
    "nms",
    "nms_match",
    "nms_padded",
    "nms_rotated",
    "soft_nms",
    "weighted_boxes_fusion",
]
