"""Operators that sample maps at places which a network computes: attention over few points."""

from .attention import multi_scale_deformable_attention

__all__ = ["multi_scale_deformable_attention"]
