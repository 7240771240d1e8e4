"""Names and arguments of libraries that visops replaces: change the import, keep the calls.

A room for each: ``compat.mmcv``, ``compat.deformable_detr`` and ``compat.cpp_extension``. What the
last has, the layers and functions of deformable attention and mmcv's ``DeformConv2dPack`` and
``ModulatedDeformConv2dPack`` are here as well.
"""

from . import deformable_detr as deformable_detr
from . import mmcv as mmcv
from .cpp_extension import (
    RoIAlign,
    affine_opencv,
    affine_torch,
    batched_nms,
    get_compiler_version,
    get_compiling_cuda_version,
    nms,
    roi_align,
    soft_nms,
)
from .deform_conv import DeformConv2dPack, ModulatedDeformConv2dPack
from .deformable_attention import (
    MSDeformAttn,
    MultiScaleDeformableAttnFunction,
    ms_deform_attn_backward,
    ms_deform_attn_forward,
    multi_scale_deformable_attn_pytorch,
)

__all__ = [
    "DeformConv2dPack",
    "MSDeformAttn",
    "ModulatedDeformConv2dPack",
    "MultiScaleDeformableAttnFunction",
    "RoIAlign",
    "affine_opencv",
    "affine_torch",
    "batched_nms",
    "get_compiler_version",
    "get_compiling_cuda_version",
    "ms_deform_attn_backward",
    "ms_deform_attn_forward",
    "multi_scale_deformable_attn_pytorch",
    "nms",
    "roi_align",
    "soft_nms",
]
