"""Overlaps of boxes, and losses made of them."""

from .iou import box_iou, box_iou_rotated, complete_box_iou, distance_box_iou, generalized_box_iou
from .iou_losses import complete_box_iou_loss, distance_box_iou_loss, generalized_box_iou_loss

__all__ = [
    "box_iou",
    "box_iou_rotated",
    "complete_box_iou",
    "complete_box_iou_loss",
    "distance_box_iou",
    "distance_box_iou_loss",
    "generalized_box_iou",
    "generalized_box_iou_loss",
]
