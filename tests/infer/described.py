"""Post-processing of every kind, which another process imports too."""

from dataclasses import dataclass
from typing import Any


def over(threshold: float) -> Any:
    def chosen(output: Any, placements: Any) -> Any:
        return [{"over": threshold} for _ in placements]

    return chosen


class Own:
    """Has no repr of its own."""

    def __init__(self, threshold: float, inner: Any = None) -> None:
        self.threshold, self.inner = threshold, inner

    def __call__(self, output: Any, placements: Any) -> Any:
        return []


@dataclass
class Fields:
    inner: Any
