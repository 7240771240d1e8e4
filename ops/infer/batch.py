"""What goes from stage to stage: one planned batch, and what is known of it so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from .frames import Frame, Placement
from .images.preprocess import Preprocess
from .store.plan import PlannedBatch

__all__ = ["Batch", "Picture", "shortened"]

_LONGEST = 500  # characters of a reason: some errors print a whole tensor


@dataclass(frozen=True, slots=True)
class Picture:
    """An image to be written.

    Attributes
    ----------
    path : str
        Relative to the outputs.
    pixels : Tensor ``[3, H, W]``
        uint8, on the CPU.
    drawn : dict or None
        What to draw on it: results by model.
    """

    path: str
    pixels: Tensor
    drawn: Mapping[str, Mapping[str, Any]] | None = None


@dataclass
class Batch:
    """A batch on its way. Rows of tensors and lists go by `frames`: the images that were read."""

    plan: PlannedBatch
    pixels: Tensor | None = None  # uint8, flat: all frames, one after the other
    frames: Sequence[Frame] = ()
    failures: dict[int, str] = field(default_factory=dict)  # index in the plan -> reason
    images: list[Tensor] = field(default_factory=list)  # [3, H, W] views of pixels, on the device
    inputs: dict[Preprocess, Tensor] = field(default_factory=dict)  # [N, 3, h, w]
    placements: Mapping[Preprocess, Sequence[Placement]] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)  # model -> a whole batch's, on the device
    results: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # model -> one a frame
    pictures: list[Picture] = field(default_factory=list)
    retried: int = 0  # models whose images went one by one

    @property
    def number(self) -> int:
        """Of the batch in the plan."""
        return self.plan.number

    def path(self, frame: Frame) -> str:
        """Return the path of a frame's input."""
        return self.plan.entries[frame.index].path


def shortened(reason: str) -> str:
    """Return why an image failed, no longer than a record should be."""
    return reason if len(reason) <= _LONGEST else reason[: _LONGEST - 3] + "..."
