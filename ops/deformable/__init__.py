"""Operators that sample maps at places which a network computes."""

from .attention import multi_scale_deformable_attention
from .attention_module import MultiScaleDeformableAttention
from .conv2d import deform_conv2d

__all__ = ["MultiScaleDeformableAttention", "deform_conv2d", "multi_scale_deformable_attention"]
