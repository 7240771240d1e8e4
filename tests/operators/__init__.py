"""What is said of each operator, for all checks of it: see case.py."""

from . import boxes
from .boxes_errors import ERRORS as BOXES_ERRORS
from .case import Errors, OpCase

CASES: list[OpCase] = [*boxes.CASES]
ERRORS: dict[str, Errors] = {
    **BOXES_ERRORS,
}
