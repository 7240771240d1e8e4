"""What a valid call of a public function looks like, where it differs from the operator's."""

from collections.abc import Mapping
from types import MappingProxyType

import torch

from . import attention, deform_conv2d, maps, points
from .files import FILE_VALUES
from .problem import Problem, Value, arguments_of
from .strangers import BY_STRANGER

_FORMATS = ("xyxy", "xywh", "cxcywh")
_BORDERS = ("reflect_101", "reflect", "replicate", "wrap", "constant")
# Arguments of public functions that differ from those of the operator of that name.
BY_FUNCTION: Mapping[str, Value] = MappingProxyType(
    {
        **arguments_of("im2col col2im", padding=lambda p: p.padding),
        **arguments_of("augment warp_affine", images=Problem.image, out=lambda p: None),
        **attention.BY_FUNCTION,
        **deform_conv2d.BY_FUNCTION,
        **maps.BY_FUNCTION,
        **points.BY_FUNCTION,
        **FILE_VALUES,
        **BY_STRANGER,
        **arguments_of("roi_align", features=Problem.image),  # of compat
        **arguments_of("box_iou", fmt=lambda p: p.draw.choice((*_FORMATS, "cxcywhr"))),
        **arguments_of("box_iou box_iou_rotated", kind=lambda p: p.draw.choice(("iou", "iof"))),
        **arguments_of(
            "generalized_box_iou distance_box_iou complete_box_iou",
            fmt=lambda p: p.draw.choice(_FORMATS),
        ),
        **arguments_of(
            "generalized_box_iou_loss distance_box_iou_loss complete_box_iou_loss",
            boxes2=lambda p: p.corners(),
            reduction=lambda p: p.draw.choice(("none", "mean", "sum")),
        ),
        **arguments_of(
            "filter2d gaussian_blur box_blur sobel",
            border=lambda p: p.draw.choice(_BORDERS),
            channels=lambda p: p.draw.choice((None, None, "first", "last")),
            size=lambda p: 2 * p.draw.between(0, 3) + 1,
            dtype=lambda p: p.draw.choice((None, torch.float32, torch.float64)),
        ),
        **arguments_of(
            "sobel", dx=lambda p: p.draw.between(0, 2), dy=lambda p: p.draw.between(0, 2)
        ),
        **arguments_of(
            "rle_to_masks polygons_to_masks",
            size=lambda p: (p.height, p.width),
            out=lambda p: p.draw.choice(("bool", "uint8", "packed", "rle")),
        ),
        **arguments_of("rle_to_masks", out=lambda p: p.draw.choice(("bool", "uint8", "packed"))),
        **arguments_of("rle_iou", iscrowd=lambda p: [i % 2 for i in range(p.batch)]),
        **arguments_of("unletterbox_boxes", boxes=lambda p: p.corners()),
        **arguments_of(
            "affine_from_points get_affine_matrix get_rotation_matrix2d homography_from_points "
            "letterbox similarity_from_points",
            like=lambda p: p.draw.choice((None, p.matrix(), p.matrix().numpy())),
        ),
    }
)
