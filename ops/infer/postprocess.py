"""From networks' outputs to what a record holds, computed on the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from .detection import Detection
from .masks import masks_in_image, run_lengths
from .preprocess import Placement

__all__ = ["Auto", "Classification", "PostProcess", "Raw", "Segmentation"]


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
class Segmentation:
    """The classes of pixels, from scores ``[N, C, h, w]``, or of torchvision's dict of them.

    Parameters
    ----------
    masks : bool
        Each class's pixels as run lengths, at the image's size.
    """

    masks: bool = True

    def __call__(self, output: Any, placements: Sequence[Placement]) -> list[dict[str, Any]]:
        """Return the ``labels`` that occur, their ``areas`` in pixels of the image, ``masks``."""
        scores = output["out"] if isinstance(output, Mapping) else output
        maps = scores.argmax(1).float()
        results = []
        for labels, place in zip(maps, placements, strict=True):
            resized = masks_in_image(labels[None], place, mode="nearest", outside=-1)
            image = next(resized)[0]
            present, areas = image[image >= 0].unique(return_counts=True)
            result = {"labels": present.long().cpu().numpy(), "areas": areas.cpu().numpy()}
            if self.masks:
                result["masks"] = [run_lengths(image == label) for label in present]
            results.append(result)
        return results


@dataclass(frozen=True)
class Raw:
    """Outputs as they are."""

    def __call__(self, output: Any, placements: Sequence[Placement]) -> list[dict[str, Any]]:
        """Return each tensor's row of an image; a lone tensor is called ``output``."""
        if isinstance(output, Tensor):
            output = {"output": output}
        if isinstance(output, Mapping):
            arrays = {key: as_array(value) for key, value in output.items()}
            return [{key: a[i] for key, a in arrays.items()} for i in range(len(placements))]
        return [{key: as_array(value) for key, value in item.items()} for item in output]


@dataclass(frozen=True)
class Auto:
    """By the output's form.

    Boxes and scores, in a dict or one a image, are a detection; ``[N, C]`` scores a classification;
    a dict with ``out``, as torchvision's segmentation networks return, a segmentation; anything
    else is left as it is.
    """

    classification: Classification = field(default_factory=Classification)
    detection: Detection = field(default_factory=Detection)
    segmentation: Segmentation = field(default_factory=Segmentation)

    def __call__(self, output: Any, placements: Sequence[Placement]) -> list[dict[str, Any]]:
        """Return what one of the others does."""
        return self.choose(output)(output, placements)

    def choose(self, output: Any) -> PostProcess:
        """Return which of them it is."""
        first = output[0] if isinstance(output, (list, tuple)) and output else output
        if isinstance(first, Mapping):
            if "boxes" in first and "scores" in first:
                return self.detection
            if "out" in first and first["out"].dim() == 4:
                return self.segmentation
        if isinstance(output, Tensor) and output.dim() == 2:
            return self.classification
        return Raw()


def as_array(value: Tensor) -> Any:
    """Return a tensor as an array; NumPy has no bfloat16."""
    if value.dtype == torch.bfloat16:
        value = value.float()
    return value.detach().cpu().numpy()
