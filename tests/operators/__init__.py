"""What is said of each operator, for all checks of it: see case.py."""

from . import boxes, masks, suppression
from .boxes_errors import ERRORS as BOXES_ERRORS
from .case import Errors, OpCase
from .masks_errors import ERRORS as MASKS_ERRORS
from .rle_errors import ERRORS as RLE_ERRORS
from .suppression_errors import ERRORS as SUPPRESSION_ERRORS

CASES: list[OpCase] = [*boxes.CASES, *suppression.CASES, *masks.CASES]
ERRORS: dict[str, Errors] = {
    **BOXES_ERRORS,
    **SUPPRESSION_ERRORS,
    **MASKS_ERRORS,
    **RLE_ERRORS,
}
