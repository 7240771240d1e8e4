"""Results of fusion, as bytes, to compare between kernels."""

import itertools
from collections.abc import Iterator

import numpy as np
import torch
import visops

from suppression.nms_cases import BOXES, FLOATING, LAYOUTS, SCORES, THRESHOLDS

CONF_TYPES = ("avg", "max", "box_and_model_avg", "absent_model_aware_avg")
FORMS = ("weighted_boxes_fusion", "weighted_boxes_fusion_3d", "non_maximum_weighted")
SIZES = ((1,), (5, 12), (200, 0, 180), (2,) * 70)


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Names and results of every kind of boxes, dtype and confidence; the rest takes turns.

    Where there are many boxes, functions and confidences take turns too.
    """
    rng = np.random.default_rng(0)
    layouts, thresholds = itertools.cycle(LAYOUTS.values()), itertools.cycle(THRESHOLDS)
    scores_of, conf_types = itertools.cycle(SCORES.values()), itertools.cycle(CONF_TYPES)
    turns = itertools.cycle(FORMS)
    for (kind, boxes_of), dtype, sizes in itertools.product(BOXES.items(), FLOATING, SIZES):
        count = sum(sizes)
        boxes = next(layouts)(torch.from_numpy(boxes_of(rng, count)).to(dtype)).to(device)
        scores = torch.from_numpy(next(scores_of)(rng, count)).abs().to(dtype).to(device)
        labels = torch.from_numpy(rng.integers(-1, 3, count)).to(device)
        weights = rng.uniform(0, 2, len(sizes)).tolist()
        forms = FORMS if count < 200 else (next(turns),)
        taken = CONF_TYPES if count < 200 else (next(conf_types),)
        for conf_type in taken if "weighted_boxes_fusion" in forms else ():
            fused = visops.weighted_boxes_fusion(
                boxes.split(sizes),
                scores.split(sizes),
                labels.split(sizes),
                weights=weights,
                iou_threshold=next(thresholds),
                conf_type=conf_type,
                allows_overflow=bool(rng.integers(0, 2)),
            )
            for part, result in zip(("boxes", "scores", "labels"), fused, strict=True):
                name = f"{part}-{kind}-{dtype}-{len(sizes)}-{count}-{conf_type}"
                yield name, as_bytes(result)
        in_space = boxes[:, [0, 1, 0, 2, 3, 2]]
        options = {"weights": weights, "iou_threshold": next(thresholds)}
        for form in forms:
            if form == "weighted_boxes_fusion":
                continue
            bodies = in_space if form == "weighted_boxes_fusion_3d" else boxes
            models = bodies.split(sizes), scores.split(sizes), labels.split(sizes)
            fused = getattr(visops, form)(*models, **options)
            for part, result in zip(("boxes", "scores", "labels"), fused, strict=True):
                yield f"{form}-{part}-{kind}-{dtype}-{len(sizes)}-{count}", as_bytes(result)


def as_bytes(result: torch.Tensor) -> np.ndarray:
    """The bits themselves: 0 differs from -0, but one NaN is as good as another."""
    if result.is_floating_point():
        result = torch.where(result.isnan(), torch.nan, result)
    return result.cpu().contiguous().view(torch.uint8).numpy()


def check(found: dict[str, np.ndarray]) -> None:
    """There are that many cases, and most have results."""
    assert len(found) > 800
    assert np.mean([v.size > 0 for v in found.values()]) > 0.7
