"""PyTorch operators for vision: one pass, one build, one answer."""

from typing import TYPE_CHECKING, Any

from ._loader import load_extensions

load_extensions()

from . import compat  # noqa: E402
from ._build import version as __version__  # noqa: E402
from ._info import build_info  # noqa: E402
from .affine import warp_affine  # noqa: E402
from .affine_matrix import compose_affine, get_affine_matrix, invert_affine  # noqa: E402
from .affine_points import affine_from_points, transform_boxes, transform_points  # noqa: E402
from .augment import augment  # noqa: E402
from .box_fusion import weighted_boxes_fusion  # noqa: E402
from .box_iou import (  # noqa: E402
    box_iou,
    box_iou_rotated,
    complete_box_iou,
    distance_box_iou,
    generalized_box_iou,
)
from .conv2d import conv2d  # noqa: E402
from .convolve2d import convolve2d, correlate2d  # noqa: E402
from .im2col import col2im, im2col  # noqa: E402
from .matrix_nms import matrix_nms  # noqa: E402
from .nms import batched_nms, nms, nms_match, nms_padded, nms_rotated  # noqa: E402
from .roi_align import multiscale_roi_align, roi_align  # noqa: E402
from .roi_crops import crop_rois, paste_rois  # noqa: E402
from .roi_modules import RoIAlign  # noqa: E402
from .roi_pooling import ps_roi_align, roi_align_rotated, roi_pool  # noqa: E402
from .soft_nms import batched_soft_nms, soft_nms  # noqa: E402

from . import transforms  # noqa: E402  # isort: skip (it uses what is above)

if TYPE_CHECKING:
    from ._multiscale_roi_module import MultiScaleRoIAlign

__all__ = [
    "MultiScaleRoIAlign",
    "RoIAlign",
    "__version__",
    "affine_from_points",
    "augment",
    "batched_nms",
    "batched_soft_nms",
    "box_iou",
    "box_iou_rotated",
    "build_info",
    "col2im",
    "compat",
    "complete_box_iou",
    "compose_affine",
    "conv2d",
    "convolve2d",
    "correlate2d",
    "crop_rois",
    "distance_box_iou",
    "generalized_box_iou",
    "get_affine_matrix",
    "im2col",
    "invert_affine",
    "matrix_nms",
    "multiscale_roi_align",
    "nms",
    "nms_match",
    "nms_padded",
    "nms_rotated",
    "paste_rois",
    "ps_roi_align",
    "roi_align",
    "roi_align_rotated",
    "roi_pool",
    "soft_nms",
    "transform_boxes",
    "transform_points",
    "transforms",
    "warp_affine",
    "weighted_boxes_fusion",
]


def __getattr__(name: str) -> Any:
    """Import what imports torchvision when it is asked for."""
    if name == "MultiScaleRoIAlign":
        from ._multiscale_roi_module import MultiScaleRoIAlign

        return MultiScaleRoIAlign
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
