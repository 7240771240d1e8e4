"""What the stages pass on: a planned batch, and everything computed for it so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from .frames import Frame, Placement
from .images.preprocess import Preprocess
from .store.plan import PlannedBatch

_LONGEST = 500  # characters of a reason; some errors print a whole tensor


@dataclass(frozen=True, slots=True)
class Picture:
    """An image or a label map to write.

    Attributes
    ----------
    path : str
        Relative to the folder of outputs.
    pixels : Tensor ``[3, H, W]``, or ndarray ``[H, W]``
        An image, uint8, on the CPU; or a label map, uint8 or uint16, for PNG. It is an array
        because torch can't unpickle tensors of uint16.
    drawn : dict or None
        Results to draw on it, by model.
    """

    path: str
    pixels: Tensor | np.ndarray
    drawn: Mapping[str, Mapping[str, Any]] | None = None


@dataclass
class Batch:
    """A batch on its way. Tensors and lists have one row per frame: per image that was decoded."""

    plan: PlannedBatch
    pixels: Tensor | None = None  # uint8, flat: the frames back to back
    frames: Sequence[Frame] = ()
    failures: dict[int, str] = field(default_factory=dict)  # index in the plan -> reason
    images: list[Tensor] = field(default_factory=list)  # [3, H, W] views of pixels, on the device
    inputs: dict[Preprocess, Tensor] = field(default_factory=dict)  # [N, 3, h, w]
    placements: Mapping[Preprocess, Sequence[Placement]] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)  # model -> output, on the device
    results: dict[str, list[dict[str, Any]]] = field(
        default_factory=dict
    )  # model -> a result per frame
    pictures: list[Picture] = field(default_factory=list)
    retried: int = 0  # models that had to run image by image

    @property
    def number(self) -> int:
        """The batch's number in the plan."""
        return self.plan.number

    def path(self, frame: Frame) -> str:
        """Return the path of the file that a frame was decoded from."""
        return self.plan.entries[frame.index].path


def shortened(reason: str) -> str:
    """Return the reason for a failure, cut to the length that records allow."""
    return reason if len(reason) <= _LONGEST else reason[: _LONGEST - 3] + "..."
