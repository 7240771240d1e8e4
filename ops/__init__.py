"""PyTorch operators for vision: one pass, one build, one answer."""

# What this file needs for itself has an underscore: the package's names are its users'.
import importlib as _importlib
import typing as _typing

from ._command import parse_early as _parse_early

_parse_early()  # before anything that takes long to import

from ._loader import load_library as _load_library  # noqa: E402
from ._loader import native_error as _native_error  # noqa: E402

_load_library()

from ._build import version as __version__  # noqa: E402
from ._info import build_info, cmake_prefix_path  # noqa: E402
from .boxes import (  # noqa: E402
    box_iou,
    box_iou_rotated,
    complete_box_iou,
    complete_box_iou_loss,
    distance_box_iou,
    distance_box_iou_loss,
    generalized_box_iou,
    generalized_box_iou_loss,
)
from .convolution import (  # noqa: E402
    box_blur,
    col2im,
    conv2d,
    convolve2d,
    correlate2d,
    filter2d,
    gaussian_blur,
    im2col,
    sobel,
)
from .deformable import (  # noqa: E402
    MultiScaleDeformableAttention,
    deform_conv2d,
    linear_sum_assignment,
    match_cost,
    multi_scale_deformable_attention,
    point_sample,
    sample_points_by_uncertainty,
)
from .jpeg import decode_jpeg  # noqa: E402
from .losses import sigmoid_focal_loss  # noqa: E402
from .masks import (  # noqa: E402
    connected_components,
    distance_transform,
    mask_area,
    mask_iou,
    mask_nms,
    masks_to_boxes,
    masks_to_polygons,
    masks_to_rle,
    merge_masks,
    pack_masks,
    paste_masks,
    polygons_to_masks,
    remove_small_regions,
    rle_area,
    rle_iou,
    rle_to_boxes,
    rle_to_masks,
    stability_score,
)
from .roi import (  # noqa: E402
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
    non_maximum_weighted,
    soft_nms,
    soft_nms_rotated,
    weighted_boxes_fusion,
    weighted_boxes_fusion_1d,
    weighted_boxes_fusion_3d,
)
from .warp import (  # noqa: E402
    affine_from_points,
    augment,
    compose_affine,
    displacement_field,
    get_affine_matrix,
    get_rotation_matrix2d,
    homography_from_points,
    invert_affine,
    letterbox,
    remap,
    similarity_from_points,
    transform_boxes,
    transform_points,
    unletterbox_boxes,
    warp_affine,
    warp_perspective,
)

if _typing.TYPE_CHECKING:
    from . import compat, transforms
    from . import infer as infer
    from . import onnx as onnx
    from .deformable.conv2d_module import DeformConv2d
    from .roi.modules import RoIAlign
    from .roi.multiscale_module import MultiScaleRoIAlign
    from .roi.pooling_modules import PSRoIAlign, RoIPool

# What imports torchvision, where it is installed, is imported when it is asked for.
_ON_FIRST_USE = {
    "DeformConv2d": "deformable.conv2d_module",
    "MultiScaleRoIAlign": "roi.multiscale_module",
    "PSRoIAlign": "roi.pooling_modules",
    "RoIAlign": "roi.modules",
    "RoIPool": "roi.pooling_modules",
}

__all__ = [
    "DeformConv2d",
    "MultiScaleDeformableAttention",
    "MultiScaleRoIAlign",
    "PSRoIAlign",
    "RoIAlign",
    "RoIPool",
    "__version__",
    "affine_from_points",
    "augment",
    "batched_nms",
    "batched_soft_nms",
    "box_blur",
    "box_iou",
    "box_iou_rotated",
    "build_info",
    "cmake_prefix_path",
    "col2im",
    "compat",
    "complete_box_iou",
    "complete_box_iou_loss",
    "compose_affine",
    "connected_components",
    "conv2d",
    "convolve2d",
    "correlate2d",
    "crop_rois",
    "decode_jpeg",
    "deform_conv2d",
    "displacement_field",
    "distance_box_iou",
    "distance_box_iou_loss",
    "distance_transform",
    "filter2d",
    "gaussian_blur",
    "generalized_box_iou",
    "generalized_box_iou_loss",
    "get_affine_matrix",
    "get_rotation_matrix2d",
    "homography_from_points",
    "im2col",
    "invert_affine",
    "letterbox",
    "linear_sum_assignment",
    "mask_area",
    "mask_iou",
    "mask_nms",
    "masks_to_boxes",
    "masks_to_polygons",
    "masks_to_rle",
    "match_cost",
    "matrix_nms",
    "merge_masks",
    "multi_scale_deformable_attention",
    "multiscale_roi_align",
    "nms",
    "nms_match",
    "nms_padded",
    "nms_rotated",
    "non_maximum_weighted",
    "pack_masks",
    "paste_masks",
    "paste_rois",
    "point_sample",
    "polygons_to_masks",
    "ps_roi_align",
    "remap",
    "remove_small_regions",
    "rle_area",
    "rle_iou",
    "rle_to_boxes",
    "rle_to_masks",
    "roi_align",
    "roi_align_rotated",
    "roi_pool",
    "sample_points_by_uncertainty",
    "sigmoid_focal_loss",
    "similarity_from_points",
    "sobel",
    "soft_nms",
    "soft_nms_rotated",
    "stability_score",
    "transform_boxes",
    "transform_points",
    "transforms",
    "unletterbox_boxes",
    "warp_affine",
    "warp_perspective",
    "weighted_boxes_fusion",
    "weighted_boxes_fusion_1d",
    "weighted_boxes_fusion_3d",
]


# Imported when they are asked for: they take as long as all the rest, and torchvision takes longer.
_LAZY_MODULES = ("compat", "infer", "onnx", "transforms")


def __getattr__(name: str) -> _typing.Any:
    if name in _LAZY_MODULES:
        return _importlib.import_module(f".{name}", __name__)
    module = _ON_FIRST_USE.get(name)
    if module is None:
        # Classes of transforms are looked for here by all who come from torchvision's `T`.
        looked_for = not name.startswith("_") and _native_error is None
        transforms = vars(__getattr__("transforms")) if looked_for else {}
        hint = f"; use visops.transforms.{name}" if name in transforms.get("__all__", ()) else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    return getattr(_importlib.import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
