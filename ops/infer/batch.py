"""What the stages pass on: a planned batch, and everything computed for it so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from .images.preprocess import Preprocess
from .store.plan import PlannedBatch

# The geometry of an image: what was decoded of it, and where it lies in a network's input.


@dataclass(frozen=True, slots=True)
class Frame:
    """A decoded image: its index in the planned batch, its placement in the pixels, its sizes.

    Attributes
    ----------
    index : int
        Index of the input in its planned batch.
    offset : int
        Offset of its first byte in the batch's pixels, ``[height, width, 3]``.
    height, width : int
        Size as decoded.
    full_height, full_width : int
        Size of the whole image, upright.
    reduction : int
        Width and height of a decoded pixel, in pixels of the whole image: 1, 2, 4 or 8.
    left, top : int
        Where the first decoded pixel begins in the whole image. Pixels of a reduced image may reach
        beyond the whole one: at the right and the bottom or, once turned upright, at the left and
        the top.
    """

    index: int
    offset: int
    height: int
    width: int
    full_height: int
    full_width: int
    reduction: int = 1
    left: int = 0
    top: int = 0


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an image lies in a network's input: ``x' = x * scale_x + left``, and so for y.

    Attributes
    ----------
    scale_x, scale_y, left, top : float
        Left and top are negative where the input shows only the middle of the image.
    full_height, full_width : int
        Size of the image.
    height, width : int
        Size of the input.
    """

    scale_x: float
    scale_y: float
    left: float
    top: float
    full_height: int
    full_width: int
    height: int
    width: int


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
