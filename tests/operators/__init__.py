"""What is said of each operator, for all checks of it: see case.py."""

from . import boxes, convolution, deformable, losses, masks, matrices, roi, suppression, warp
from .augment_errors import ERRORS as AUGMENT_ERRORS
from .boxes_errors import ERRORS as BOXES_ERRORS
from .case import Errors, OpCase
from .convolution_errors import ERRORS as CONVOLUTION_ERRORS
from .deformable_errors import ERRORS as DEFORMABLE_ERRORS
from .filters_errors import ERRORS as FILTERS_ERRORS
from .masks_errors import ERRORS as MASKS_ERRORS
from .matrices_errors import ERRORS as MATRICES_ERRORS
from .pooling_errors import ERRORS as POOLING_ERRORS
from .roi_errors import ERRORS as ROI_ERRORS
from .suppression_errors import ERRORS as SUPPRESSION_ERRORS
from .warp_errors import ERRORS as WARP_ERRORS

CASES: list[OpCase] = [
    *boxes.CASES,
    *suppression.CASES,
    *masks.CASES,
    *deformable.CASES,
    *losses.CASES,
    *roi.CASES,
    *convolution.CASES,
    *warp.CASES,
    *matrices.CASES,
]
ERRORS: dict[str, Errors] = {
    **BOXES_ERRORS,
    **SUPPRESSION_ERRORS,
    **MASKS_ERRORS,
    **DEFORMABLE_ERRORS,
    **losses.ERRORS,
    **ROI_ERRORS,
    **POOLING_ERRORS,
    **CONVOLUTION_ERRORS,
    **FILTERS_ERRORS,
    **WARP_ERRORS,
    **AUGMENT_ERRORS,
    **MATRICES_ERRORS,
}
