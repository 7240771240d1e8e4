"""Operators that sample maps at places which a network computes: attention over few points."""

from .attention import multi_scale_deformable_attention
from .attention_module import MultiScaleDeformableAttention
from .match import match_cost
from .points import point_sample, sample_points_by_uncertainty

__all__ = [
    "MultiScaleDeformableAttention",
    "match_cost",
    "multi_scale_deformable_attention",
    "point_sample",
    "sample_points_by_uncertainty",
]
