"""Regions of feature maps and images: pooled, cropped, pasted.

The modules import torchvision where it is installed, so they are imported on first use.
"""

from .align import multiscale_roi_align, roi_align
from .crops import crop_rois, paste_rois
from .pooling import ps_roi_align, roi_align_rotated, roi_pool

__all__ = [
    "crop_rois",
    "multiscale_roi_align",
    "paste_rois",
    "ps_roi_align",
    "roi_align",
    "roi_align_rotated",
    "roi_pool",
]
