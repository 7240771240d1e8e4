"""What is said of each operator, for all checks of it: see case.py."""

from . import boxes, suppression
from .boxes_errors import ERRORS as BOXES_ERRORS
from .case import Errors, OpCase
from .suppression_errors import ERRORS as SUPPRESSION_ERRORS

CASES: list[OpCase] = [*boxes.CASES, *suppression.CASES]
ERRORS: dict[str, Errors] = {
    **BOXES_ERRORS,
    **SUPPRESSION_ERRORS,
}
