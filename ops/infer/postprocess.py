"""From networks' outputs to what a record holds, computed on the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from ..nms import batched_nms
from ..soft_nms import batched_soft_nms
from .preprocess import Placement

__all__ = ["Auto", "Classification", "Detection", "PostProcess", "Raw"]


class PostProcess(Protocol):
    """Makes one dict an image of a whole batch's output.

    Its values are numbers, strings, NumPy arrays, and lists and dicts of them. It is called under
    ``torch.inference_mode``, on the device; its ``repr`` has to say what its results depend on.
    """

    def __call__(self, output: Any, placements: Sequence[Placement]) -> list[dict[str, Any]]:
        """`placements` say where each of the batch's images lies in the network's input."""


@dataclass(frozen=True)
class Classification:
    """The best classes of ``[N, C]`` scores.

    Parameters
    ----------
    top_k : int
        How many.
    softmax : bool
        Turn logits into probabilities.
    """

    top_k: int = 5
    softmax: bool = True

    def __call__(self, output: Any, placements: Sequence[Placement]) -> list[dict[str, Any]]:
        """Return ``labels`` and ``scores``, best first, equal ones by label."""
        scores = output.float()
        if self.softmax:
            scores = scores.softmax(1)
        # topk says nothing about the order of equal scores.
        ordered = scores.sort(dim=1, descending=True, stable=True)
        k = min(self.top_k, scores.shape[1])
        values = ordered.values[:, :k].cpu().numpy()
        labels = ordered.indices[:, :k].cpu().numpy()
        return [
            {"labels": label, "scores": value} for label, value in zip(labels, values, strict=True)
        ]


@dataclass(frozen=True)
class Raw:
    """Outputs as they are."""

    def __call__(self, output: Any, placements: Sequence[Placement]) -> list[dict[str, Any]]:
        """Return each tensor's row of an image; a lone tensor is called ``output``."""
        if isinstance(output, Tensor):
            output = {"output": output}
        if isinstance(output, Mapping):
            arrays = {key: _numpy(value) for key, value in output.items()}
            return [{key: a[i] for key, a in arrays.items()} for i in range(len(placements))]
        return [{key: _numpy(value) for key, value in item.items()} for item in output]


def _numpy(value: Tensor) -> Any:
    if value.dtype == torch.bfloat16:
        value = value.float()
    return value.detach().cpu().numpy()


@dataclass(frozen=True)
class Detection:
    """Boxes with scores, filtered and suppressed, in the image's pixels.

    Parameters
    ----------
    score_threshold : float
        Only scores above it count.
    iou_threshold : float or None
        Of the suppression, within each class; None leaves it out.
    method : {"hard", "linear", "gaussian"}
        :func:`visops.batched_nms`, or one of :func:`visops.batched_soft_nms`.
    max_detections : int
        Of an image.
    """

    score_threshold: float = 0.05
    iou_threshold: float | None = 0.5
    method: str = "hard"
    max_detections: int = 100

    def __call__(self, output: Any, placements: Sequence[Placement]) -> list[dict[str, Any]]:
        """Return ``boxes`` (x1, y1, x2, y2), ``labels`` and ``scores``, best first."""
        return [
            {key: _numpy(value) for key, value in found.items()}
            for found in self.detect(output, placements)
        ]

    def detect(self, output: Any, placements: Sequence[Placement]) -> list[dict[str, Tensor]]:
        """Return the same on the device."""
        raise NotImplementedError


@dataclass(frozen=True)
class Auto:
    """By the output's form: boxes, ``[N, C]`` scores, or anything else as it is."""

    def __call__(self, output: Any, placements: Sequence[Placement]) -> list[dict[str, Any]]:
        """Return what :class:`Detection`, :class:`Classification` or :class:`Raw` does."""
        return self.choose(output)(output, placements)

    def choose(self, output: Any) -> PostProcess:
        """Return which of them it is."""
        first = output[0] if isinstance(output, (list, tuple)) and output else output
        if isinstance(first, Mapping) and "boxes" in first and "scores" in first:
            return Detection()
        if isinstance(output, Tensor) and output.dim() == 2:
            return Classification()
        return Raw()
