"""What ChenCVer/python_cpp_extension has, by its names: change the import, keep the calls.

The results differ only where python_cpp_extension was wrong:

- Coordinates between -2 and 0 are rounded down, and interpolated with the border from -1 on. The
  old code truncated towards zero, which gave negative weights.
- Outputs of any size are written completely. The old code left out what lay beyond a launch's
  65,000 blocks.
- Matrices of any strides and dtype are read correctly.
- Classes are suppressed without shifting coordinates.
- Invalid arguments raise.
"""

from .._info import get_compiler_version, get_compiling_cuda_version
from .affine import affine_opencv, affine_torch
from .nms import batched_nms, nms, soft_nms
from .roi_align import RoIAlign, roi_align

__all__ = [
    "RoIAlign",
    "affine_opencv",
    "affine_torch",
    "batched_nms",
    "get_compiler_version",
    "get_compiling_cuda_version",
    "nms",
    "roi_align",
    "soft_nms",
]
