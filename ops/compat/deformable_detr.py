"""What Deformable DETR's ``models/ops`` has, by its names: change the import, keep the calls.

``MSDA.ms_deform_attn_forward`` and ``_backward`` of its extension are functions here.
"""

from .deformable_attention import MSDeformAttn, ms_deform_attn_backward, ms_deform_attn_forward
from .deformable_attention import MultiScaleDeformableAttnFunction as MSDeformAttnFunction
from .deformable_attention import (
    multi_scale_deformable_attn_pytorch as ms_deform_attn_core_pytorch,
)

__all__ = [
    "MSDeformAttn",
    "MSDeformAttnFunction",
    "ms_deform_attn_backward",
    "ms_deform_attn_core_pytorch",
    "ms_deform_attn_forward",
]
