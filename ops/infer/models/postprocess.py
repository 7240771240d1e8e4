"""From networks' outputs to what a record holds, computed on the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ..frames import Placement
from .detection import Detection
from .masks import masks_in_image, run_lengths

__all__ = ["Auto", "Classification", "PostProcess", "Raw", "Segmentation"]


class PostProcess(Protocol):
    """Makes one dict an image of a whole batch's output.

    Its values are numbers, strings, NumPy arrays, and lists and dicts of them. It is called under
    ``torch.inference_mode``, on the device. Its name, and the numbers and strings that it holds,
    are written down with the plan: one that differs in them is refused on the same outputs. Images
    of a batch may come one at a time, where a network had to have them so. What it raises ends the
    run, and is not taken for a fault of the images.
    """

    def __call__(self, output: Any, placements: Sequence[Placement], /) -> list[dict[str, Any]]:
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

    def __post_init__(self) -> None:
        if not isinstance(self.top_k, int) or self.top_k < 1:
            raise ValueError(f"visops.infer: top_k is {self.top_k!r}, must be at least 1")

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
    """Outputs as they are.

    A tensor's first axis is the batch's; each image has its row. So it is with the values of a dict
    and the members of a tuple. A list has an item for each image. All of these may hold each other;
    what has no axis (numbers, strings, None, tensors of no dimension) is every image's.

    A tuple's members are called ``output_0`` and so on, or what a named tuple calls them: they are
    seldom of one type, which Parquet wants of a list.
    """

    def __call__(self, output: Any, placements: Sequence[Placement]) -> list[dict[str, Any]]:
        """Return a dict for each image; what is neither a dict nor a tuple is its ``output``."""
        found = _rows(output, len(placements), "output")
        return [item if isinstance(item, dict) else {"output": item} for item in found]


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
        if isinstance(first, Mapping) and "boxes" in first and "scores" in first:
            return self.detection
        if isinstance(output, Mapping):
            scores = output.get("out")
            if isinstance(scores, Tensor) and scores.dim() == 4:
                return self.segmentation
        if isinstance(output, Tensor) and output.dim() == 2:
            return self.classification
        return Raw()


def _rows(value: Any, count: int, name: str) -> list[Any]:
    """Cut what a network returned for a batch into `count` images' own; `name` is for errors."""
    if isinstance(value, Mapping):
        parts = {key: _rows(item, count, f"{name}[{key!r}]") for key, item in value.items()}
        return [{key: part[row] for key, part in parts.items()} for row in range(count)]
    if isinstance(value, tuple):
        return _rows(_named(value), count, name)
    if isinstance(value, list):
        if len(value) != count:
            raise ValueError(
                f"visops.infer.Raw: {name} is a list of {len(value)} items for {count} images; a "
                "list must have an item for each image, what each is of all images goes in a tuple"
            )
        return [_whole(item) for item in value]
    if not isinstance(value, (Tensor, np.ndarray)) or value.ndim == 0:
        return [_whole(value)] * count
    if len(value) != count:
        raise ValueError(
            f"visops.infer.Raw: {name} has shape {list(value.shape)}, its first axis must be the "
            f"{count} images'"
        )
    return list(as_array(value)) if isinstance(value, Tensor) else list(value)


def _whole(value: Any) -> Any:
    """Return what is of one image, its tensors as arrays."""
    if isinstance(value, Tensor):
        return as_array(value)
    if isinstance(value, Mapping):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return _whole(_named(value))
    return list(map(_whole, value)) if isinstance(value, list) else value


def _named(members: tuple[Any, ...]) -> dict[str, Any]:
    """Return a tuple as a dict, by its own names or by numbers."""
    if hasattr(members, "_asdict"):
        return dict(members._asdict())
    return {f"output_{i}": member for i, member in enumerate(members)}


def as_array(value: Tensor) -> Any:
    """Return a tensor as an array; NumPy has no bfloat16."""
    if value.dtype == torch.bfloat16:
        value = value.float()
    return value.detach().cpu().numpy()
