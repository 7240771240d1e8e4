"""Overlaps of all pairs of boxes."""

from .iou import box_iou, box_iou_rotated, complete_box_iou, distance_box_iou, generalized_box_iou

__all__ = [
    "box_iou",
    "box_iou_rotated",
    "complete_box_iou",
    "distance_box_iou",
    "generalized_box_iou",
]
