"""Operators of networks that choose where to look: attention, convolution, points, matching."""

from .attention import multi_scale_deformable_attention
from .attention_module import MultiScaleDeformableAttention
from .conv2d import deform_conv2d
from .match import linear_sum_assignment, match_cost
from .points import point_sample, sample_points_by_uncertainty

__all__ = [
    "MultiScaleDeformableAttention",
    "deform_conv2d",
    "linear_sum_assignment",
    "match_cost",
    "multi_scale_deformable_attention",
    "point_sample",
    "sample_points_by_uncertainty",
]
