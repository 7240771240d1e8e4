"""PyTorch operators for vision: one pass, one build, one answer."""

import importlib
from typing import TYPE_CHECKING, Any

from ._loader import load_library

load_library()

from . import compat  # noqa: E402
from ._build import version as __version__  # noqa: E402
from ._info import build_info  # noqa: E402
from .boxes import (  # noqa: E402
    box_iou,
    box_iou_rotated,
    complete_box_iou,
    distance_box_iou,
    generalized_box_iou,
)
from .convolution import (  # noqa: E402
    col2im,
    conv2d,
    convolve2d,
    correlate2d,
    im2col,
)
from .roi import (  # noqa: E402
    RoIAlign,
    crop_rois,
    multiscale_roi_align,
    paste_rois,
    ps_roi_align,
    roi_align,
    roi_align_rotated,
    roi_pool,
)
from .suppression import (  # noqa: E402
    batched_nms,
    batched_soft_nms,
    matrix_nms,
    nms,
    nms_match,
    nms_padded,
    nms_rotated,
    soft_nms,
    weighted_boxes_fusion,
)
from .warp import (  # noqa: E402
    affine_from_points,
    augment,
    compose_affine,
    get_affine_matrix,
    invert_affine,
    transform_boxes,
    transform_points,
    warp_affine,
)

from . import transforms  # noqa: E402  # isort: skip (it uses what is above)

if TYPE_CHECKING:
    from .roi.multiscale_module import MultiScaleRoIAlign

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
    """Import what is rarely used, or imports torchvision, when it is asked for."""
    if name == "onnx":
        return importlib.import_module(".onnx", __name__)
    if name == "MultiScaleRoIAlign":
        from .roi.multiscale_module import MultiScaleRoIAlign

        return MultiScaleRoIAlign
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
