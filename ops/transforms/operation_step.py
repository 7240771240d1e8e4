"""The base of transforms that are one operation of a pass of values."""

from collections.abc import Sequence
from typing import Any

from .._native import Step
from .arguments import fail, interval, is_sequence, number, whole
from .engine.effects import Effects
from .engine.pixel_kinds import MORE_NUMBERS, PixelKind
from .transform import RandomlyApplied

# Least, greatest, and how to draw between them: 0 any number, 1 a whole one, 2 an odd one.
Range = tuple[float, float, int]

KEY: Range = (0.0, 1.0, 0)  # of random numbers


def real(ends: Sequence[float]) -> Range:
    """Return the range of a real number."""
    return ends[0], ends[1], 0


def fixed(value: float) -> Range:
    """Return the range of a number that isn't drawn."""
    return float(value), float(value), 0


class OperationStep(RandomlyApplied):
    """One operation of csrc/core/chain/pixel_operation.h, with probability `p`."""

    kind: PixelKind

    def __init__(self, p: float, ranges: Sequence[Range]) -> None:
        super().__init__(p)
        padded = [*ranges, *[fixed(0.0)] * (1 + MORE_NUMBERS - len(ranges))]
        self._ranges = padded
        self.draws = 1 + sum(low != high for low, high, _ in padded)

    def changes_values(self) -> bool:
        return True

    def effects(self) -> Effects:
        return Effects()

    def chain_step(self) -> Step | None:
        numbers = [number for own in self._ranges for number in own]
        return Step("RandomOperationOf", (self.kind, self.p, *numbers))


def odd_side(owner: str, name: str, value: Any, least: int = 1) -> int:
    """Check one odd side."""
    allowed = f"an odd whole number >= {least}"
    side = whole(owner, name, value, least, allowed)
    if side % 2 == 0:
        fail(owner, name, value, allowed)
    return side


def odd_sides(owner: str, name: str, value: Any) -> Range:
    """Return a range of odd sides: of a pair, or from 3 to a number."""
    allowed = "an odd whole number >= 3, or two of them (min, max)"
    low, high = value if is_sequence(value) and len(value) == 2 else (3, value)
    sides = [odd_side(owner, name, side, 3) for side in (low, high)]
    if sides[0] > sides[1]:
        fail(owner, name, value, f"{allowed}, the smaller first")
    return float(sides[0]), float(sides[1]), 2


def limits(
    owner: str, name: str, value: Any, low: float, high: float, allowed: str
) -> tuple[float, float]:
    """Return a range: of a pair, or of one number for both ends."""
    if is_sequence(value):
        return interval(owner, name, value, low, high, allowed)
    same = number(owner, name, value, low, high, allowed)
    return same, same
