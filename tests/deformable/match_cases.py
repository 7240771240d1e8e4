"""Problems of matching costs that their tests share, and the usual matcher."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import visops
from references import match as reference
from torch import Tensor

KINDS = ("focal", "softmax")
WEIGHTS = (2.0, 5.0, 2.0)


class Problem(NamedTuple):
    logits: Tensor
    boxes: Tensor
    labels: list[Tensor]
    targets: list[Tensor]

    def costs(self, kind: Any = "focal", **options: Any) -> list[Tensor]:
        made: dict[str, Any] = {"weights": WEIGHTS, **options}
        found: list[Tensor] = visops.match_cost(*self, kind=kind, **made)
        return found

    def expected(
        self, kind: str, weights: Sequence[float] = WEIGHTS, **options: Any
    ) -> list[np.ndarray]:
        return [
            reference.costs(
                self.logits[i].double().numpy(),
                self.boxes[i].double().numpy(),
                labels.numpy(),
                targets.double().numpy(),
                weights,
                kind,
                **options,
            )
            for i, (labels, targets) in enumerate(zip(self.labels, self.targets, strict=True))
        ]


def problem(
    dtype: torch.dtype = torch.float32,
    *,
    counts: Sequence[int] = (3, 0, 7),
    queries: int = 11,
    classes: int = 5,
    seed: int = 0,
    spread: float = 3.0,
) -> Problem:
    rng = np.random.default_rng(seed)
    images = len(counts)

    def some_boxes(*shape: int) -> Tensor:
        return torch.from_numpy(rng.uniform(0.05, 0.95, (*shape, 4))).to(dtype)

    return Problem(
        torch.from_numpy(rng.normal(0, spread, (images, queries, classes))).to(dtype),
        some_boxes(images, queries),
        [torch.from_numpy(rng.integers(0, classes, n)) for n in counts],
        [some_boxes(n) for n in counts],
    )


def usual_matcher(given: Problem, kind: str) -> list[Tensor]:
    """The three matrices over all images, of which the diagonal blocks are used."""
    from torchvision.ops import box_convert, generalized_box_iou

    logits, boxes = given.logits.flatten(0, 1), given.boxes.flatten(0, 1)
    labels, targets = torch.cat(given.labels), torch.cat(given.targets)
    if kind == "focal":
        p = logits.sigmoid()
        absent = 0.75 * p**2 * -(1 - p + 1e-8).log()
        present = 0.25 * (1 - p) ** 2 * -(p + 1e-8).log()
        of_class = present[:, labels] - absent[:, labels]
    else:
        of_class = -logits.softmax(-1)[:, labels]
    of_box = torch.cdist(boxes, targets, p=1)
    overlap = generalized_box_iou(
        box_convert(boxes, "cxcywh", "xyxy"), box_convert(targets, "cxcywh", "xyxy")
    )
    costs = WEIGHTS[1] * of_box + WEIGHTS[0] * of_class - WEIGHTS[2] * overlap
    blocks = costs.view(*given.logits.shape[:2], -1).split([len(n) for n in given.labels], -1)
    return [block[i] for i, block in enumerate(blocks)]
