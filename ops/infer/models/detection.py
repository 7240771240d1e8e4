"""Detections of a whole batch at once: filtered, suppressed, mapped to images, on the device."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...masks.runs import RLE
from ...suppression.nms import batched_nms
from ...suppression.soft_nms import batched_soft_nms
from ..frames import Placement
from .masks import masks_in_image, run_lengths_of_all

_METHODS = ("hard", "linear", "gaussian")
_GROUP = 1 << 32  # boxes are suppressed within a group: the image's index times this + label


@dataclass(frozen=True)
class Detection:
    """Boxes with scores, filtered and suppressed, in pixels of the image.

    The network's output is a list with a dict per image, of ``boxes`` ``[K, 4]``, ``scores``
    ``[K]`` and optionally ``labels`` ``[K]`` and ``masks`` ``[K, 1, h, w]``; or a single dict, of
    ``boxes`` ``[N, K, 4]`` and either ``scores`` ``[N, K]`` with ``labels`` ``[N, K]``, or
    ``scores`` ``[N, K, C]``. Boxes are x1, y1, x2, y2 in pixels of the network's input. Boxes and
    scores that are not finite, and boxes with x2 < x1 or y2 < y1, are dropped first: they have no
    place in the image and overlap nothing.

    Parameters
    ----------
    score_threshold : float
        Boxes whose score is not above it are dropped.
    iou_threshold : float or None
        Suppress boxes of the same class that overlap by more; None suppresses nothing.
    method : {"hard", "linear", "gaussian"}
        "hard" is :func:`visops.batched_nms`, the others are :func:`visops.batched_soft_nms`.
    max_detections : int
        Maximum per image.
    mask_threshold : float
        Mask values above it belong to the object.
    """

    score_threshold: float = 0.05
    iou_threshold: float | None = 0.5
    method: str = "hard"
    max_detections: int = 100
    mask_threshold: float = 0.5

    def __post_init__(self) -> None:
        if self.method not in _METHODS:
            raise ValueError(f"visops.infer: method is {self.method!r}, must be one of {_METHODS}")
        if self.iou_threshold is not None and not 0 <= self.iou_threshold <= 1:
            raise ValueError(
                f"visops.infer: iou_threshold is {self.iou_threshold!r}, must be 0 to 1, or None"
            )
        if not isinstance(self.max_detections, int) or self.max_detections < 1:
            raise ValueError(
                f"visops.infer: max_detections is {self.max_detections!r}, must be at least 1"
            )
        for name in ("score_threshold", "mask_threshold"):
            if math.isnan(getattr(self, name)):
                raise ValueError(f"visops.infer: {name} is nan, must be a number")

    def __call__(self, output: Any, placements: Sequence[Placement]) -> list[dict[str, Any]]:
        """Return ``boxes``, ``labels`` and ``scores``, best first, and ``masks`` as run lengths."""
        return [self.record(found) for found in self.detect(output, placements)]

    def record(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return one image's detections as arrays."""
        return {
            key: value.cpu().numpy() if isinstance(value, Tensor) else value
            for key, value in found.items()
        }

    def detect(self, output: Any, placements: Sequence[Placement]) -> list[dict[str, Any]]:
        """Return the same as tensors on the device, ordered by score.

        One call suppresses the boxes of the whole batch.
        """
        images, boxes, scores, labels, masks = self._candidates(output, len(placements))
        if self.iou_threshold is None:
            keep = scores.sort(descending=True, stable=True).indices
            scores = scores[keep]
        elif self.method == "hard":
            groups = images * _GROUP + labels
            keep = batched_nms(boxes, scores, groups, self.iou_threshold)
            scores = scores[keep]
        else:
            keep, scores = batched_soft_nms(
                boxes,
                scores,
                images * _GROUP + labels,
                method=self.method,
                iou_threshold=self.iou_threshold,
                min_score=max(0.0, self.score_threshold),
            )
        # Group by image, best first.
        order = images[keep].sort(stable=True)
        keep, scores, images = keep[order.indices], scores[order.indices], order.values
        first = torch.searchsorted(images, torch.arange(len(placements) + 1, device=images.device))
        rank = torch.arange(len(images), device=images.device) - first[images]
        best = rank < self.max_detections
        keep, scores, images = keep[best], scores[best], images[best]
        boxes = _boxes_to_images(boxes[keep], images, placements)
        labels = labels[keep]
        counts = first.diff().clamp_max(self.max_detections).tolist()
        found: list[dict[str, Any]] = [
            {"boxes": b, "labels": label, "scores": s}
            for b, label, s in zip(
                boxes.split(counts), labels.split(counts), scores.split(counts), strict=True
            )
        ]
        if masks is not None:
            for item, part, placement in zip(found, keep.split(counts), placements, strict=True):
                item["masks"] = self._run_lengths(masks, part, placement)
        return found

    def _candidates(
        self, output: Any, count: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Sequence[Tensor] | None]:
        """Return image, box, score, label and mask of each box above the threshold, flat."""
        if isinstance(output, Mapping) and output["boxes"].dim() == 2 and count == 1:
            output = [output]  # a detector that suppresses boxes itself, on one image
        if isinstance(output, Mapping):
            if output["boxes"].dim() != 3 or len(output["boxes"]) != count:
                raise ValueError(
                    f"a detector returned boxes of shape {list(output['boxes'].shape)} for {count} "
                    "images, must be [N, K, 4], or in a list with a dict per image"
                )
            images, boxes, scores, labels = self._of_batch(output)
            return images, boxes, scores, labels, None
        if len(output) != count:
            raise ValueError(f"a detector returned {len(output)} results for {count} images")
        scores = torch.cat([item["scores"] for item in output]).float()
        boxes = torch.cat([item["boxes"] for item in output]).float()
        sizes = torch.tensor([len(item["scores"]) for item in output], device=scores.device)
        images = torch.arange(count, device=scores.device).repeat_interleave(sizes)
        labels = (
            torch.cat([item["labels"] for item in output]).long()
            if "labels" in output[0]
            else torch.zeros_like(images)
        )
        usable = _are_boxes(boxes) & scores.isfinite()
        above = (usable & (scores > self.score_threshold)).nonzero().flatten()
        masks = None
        if "masks" in output[0]:
            every = [mask for item in output for mask in item["masks"]]
            masks = [every[i] for i in above.tolist()]
        return images[above], boxes[above], scores[above], labels[above], masks

    def _of_batch(self, output: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        boxes, scores = output["boxes"].float(), output["scores"].float()
        # Ties are ordered by label, then by box, as in batched_nms.
        above = (scores.transpose(1, -1) > self.score_threshold).nonzero()
        images, numbers = above[:, 0], above[:, -1]
        if scores.dim() == 3:
            labels = above[:, 1]
            scores = scores[images, numbers, labels]
        else:
            scores = scores[images, numbers]
            given = output.get("labels")
            labels = torch.zeros_like(images) if given is None else given[images, numbers].long()
        usable = _are_boxes(boxes)[images, numbers] & scores.isfinite()
        found = images, boxes[images, numbers], scores, labels
        if usable.all():  # there may be millions
            return found
        images, boxes, scores, labels = (values[usable] for values in found)
        return images, boxes, scores, labels

    def _run_lengths(
        self, masks: Sequence[Tensor], rows: Tensor, placement: Placement
    ) -> list[RLE]:
        kept = [masks[row].reshape(masks[row].shape[-2:]).float() for row in rows.tolist()]
        if not kept:
            return []
        resized = masks_in_image(torch.stack(kept), placement)
        found: list[RLE] = []
        for part in resized:
            found += run_lengths_of_all(part > self.mask_threshold)
        return found


def _are_boxes(boxes: Tensor) -> Tensor:
    """Return which boxes ``[..., 4]`` are finite and have x1 <= x2 and y1 <= y2."""
    x1, y1, x2, y2 = boxes.unbind(-1)
    # Comparisons with NaN are False.
    wide = (x1 > -math.inf) & (x1 <= x2) & (x2 < math.inf)
    return wide & (y1 > -math.inf) & (y1 <= y2) & (y2 < math.inf)


def _boxes_to_images(boxes: Tensor, images: Tensor, placements: Sequence[Placement]) -> Tensor:
    """Map boxes ``[K, 4]`` to their images, clipped at the borders."""
    shift = boxes.new_tensor([[p.left, p.top] * 2 for p in placements])
    scale = boxes.new_tensor([[p.scale_x, p.scale_y] * 2 for p in placements])
    limit = boxes.new_tensor([[p.full_width, p.full_height] * 2 for p in placements])
    return ((boxes - shift[images]) / scale[images]).clamp_min(0).minimum(limit[images])
