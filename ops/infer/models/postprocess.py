"""From networks' outputs to the contents of records, computed on the device."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ...masks.runs import RLE
from ..frames import Placement
from .detection import Detection
from .masks import masks_at_once, masks_in_image, run_lengths_of_all


class PostProcess(Protocol):
    """Turns the output for a whole batch into one dict per image.

    Values are numbers, strings, NumPy arrays, and lists and dicts of them. It is called under
    ``torch.inference_mode``, on the device. The plan records its name and the numbers and strings
    it holds: resuming with a different one is refused. The images of a batch may come one at a
    time, if the network had to run that way. An exception ends the run: it is not taken for a fault
    of the images.
    """

    def __call__(self, output: Any, placements: Sequence[Placement], /) -> list[dict[str, Any]]:
        """Return a dict per image; `placements` say where each lies in the network's input."""


@dataclass(frozen=True)
class Classification:
    """The best classes of ``[N, C]`` scores.

    Parameters
    ----------
    top_k : int
        Number of classes to return.
    softmax : bool
        Turn logits into probabilities.
    """

    top_k: int = 5
    softmax: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.top_k, int) or self.top_k < 1:
            raise ValueError(f"visops.infer: top_k is {self.top_k!r}, must be at least 1")

    def __call__(self, output: Any, placements: Sequence[Placement]) -> list[dict[str, Any]]:
        """Return ``labels`` and ``scores``, best first, ties by label."""
        scores = output.float()
        if self.softmax:
            scores = scores.softmax(1)
        # topk does not define the order of ties.
        ordered = scores.sort(dim=1, descending=True, stable=True)
        k = min(self.top_k, scores.shape[1])
        values = ordered.values[:, :k].cpu().numpy()
        labels = ordered.indices[:, :k].cpu().numpy()
        return [
            {"labels": label, "scores": value} for label, value in zip(labels, values, strict=True)
        ]


@dataclass(frozen=True)
class Segmentation:
    """The class of each pixel, from scores ``[N, C, h, w]`` or torchvision's dict with them.

    Parameters
    ----------
    masks : bool
        Also return the pixels of each class as run lengths, at the image's size.
    """

    masks: bool = True

    def __call__(self, output: Any, placements: Sequence[Placement]) -> list[dict[str, Any]]:
        """Return the ``labels`` present, their ``areas`` in pixels of the image, and ``masks``."""
        scores = output["out"] if isinstance(output, Mapping) else output
        maps = scores.argmax(1).float()
        results = []
        for labels, placement in zip(maps, placements, strict=True):
            resized = masks_in_image(labels[None], placement, mode="nearest", outside=-1)
            image = next(resized)[0]
            present, areas = image[image >= 0].unique(return_counts=True)
            result = {"labels": present.long().cpu().numpy(), "areas": areas.cpu().numpy()}
            if self.masks:
                result["masks"] = _run_lengths(image, present)
            results.append(result)
        return results


def _run_lengths(image: Tensor, labels: Tensor) -> list[RLE]:
    """Return the pixels ``[H, W]`` of each label as run lengths."""
    found: list[RLE] = []
    for part in labels.split(masks_at_once(image.shape)):
        found += run_lengths_of_all(image == part[:, None, None])
    return found


@dataclass(frozen=True)
class Raw:
    """Outputs unchanged, split by image.

    The first axis of a tensor is the batch: each image gets its row. The same holds for the values
    of a dict and the members of a tuple. A list has one item per image. These may be nested; values
    without an axis (numbers, strings, None, zero-dimensional tensors) go to every image.

    The members of a tuple become ``output_0`` and so on, or keep their names if it is a named
    tuple: they rarely share one type, as a Parquet list requires.
    """

    def __call__(self, output: Any, placements: Sequence[Placement]) -> list[dict[str, Any]]:
        """Return a dict per image; what is neither a dict nor a tuple becomes its ``output``."""
        found = _rows(output, len(placements), "output")
        return [item if isinstance(item, dict) else {"output": item} for item in found]


@dataclass(frozen=True)
class Auto:
    """Chooses by the form of the output.

    Boxes and scores, in one dict or in a dict per image, are a detection; a tensor ``[N, C]`` is a
    classification; a dict with ``out``, as torchvision's segmentation networks return, is a
    segmentation; :class:`Raw` takes anything else.
    """

    classification: Classification = field(default_factory=Classification)
    detection: Detection = field(default_factory=Detection)
    segmentation: Segmentation = field(default_factory=Segmentation)

    def __call__(self, output: Any, placements: Sequence[Placement]) -> list[dict[str, Any]]:
        """Return the results of the chosen post-processing."""
        return self.choose(output)(output, placements)

    def choose(self, output: Any) -> PostProcess:
        """Return the post-processing for this output."""
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
    """Split a network's output for `count` images by image; `name` is for errors."""
    if isinstance(value, Mapping):
        parts = {key: _rows(item, count, f"{name}[{key!r}]") for key, item in value.items()}
        return [{key: part[row] for key, part in parts.items()} for row in range(count)]
    if isinstance(value, tuple):
        return _rows(_named(value), count, name)
    if isinstance(value, list):
        if len(value) != count:
            raise ValueError(
                f"visops.infer.Raw: {name} is a list of {len(value)} items for {count} images; a "
                "list must have one item per image; use a tuple for items that cover all images"
            )
        return [_whole(item) for item in value]
    if not isinstance(value, (Tensor, np.ndarray)) or value.ndim == 0:
        return [_whole(value)] * count
    if len(value) != count:
        raise ValueError(
            f"visops.infer.Raw: {name} has shape {list(value.shape)}, its first axis must be of "
            f"size {count}, the number of images"
        )
    return list(as_array(value)) if isinstance(value, Tensor) else list(value)


def _whole(value: Any) -> Any:
    """Return a value of one image, with its tensors as arrays."""
    if isinstance(value, Tensor):
        return as_array(value)
    if isinstance(value, Mapping):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return _whole(_named(value))
    return list(map(_whole, value)) if isinstance(value, list) else value


def _named(members: tuple[Any, ...]) -> dict[str, Any]:
    """Return a tuple as a dict, keyed by its field names or by numbers."""
    if hasattr(members, "_asdict"):
        return dict(members._asdict())
    return {f"output_{i}": member for i, member in enumerate(members)}


def as_array(value: Tensor) -> Any:
    """Return a tensor as an array; bfloat16, which NumPy lacks, as float32."""
    if value.dtype == torch.bfloat16:
        value = value.float()
    return value.detach().cpu().numpy()
