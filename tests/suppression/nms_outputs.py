"""Results of the suppression kernels, as bytes; compared between kernels."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import visops

from suppression.nms_cases import BOXES, FLOATING, INTEGER, LAYOUTS, SCORES, THRESHOLDS, batch_boxes

SIZES = (1, 17, 64, 65, 130, 500, 1500)
LIMITS: tuple[dict[str, Any], ...] = (
    {},
    {"max_output": 40},
    {"score_threshold": 0.1},
    {"max_output": 7, "score_threshold": 0.3},
)


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Names and results of every operator, dtype and kind of boxes; the rest takes turns."""
    rng = np.random.default_rng(0)
    layouts, thresholds = itertools.cycle(LAYOUTS.values()), itertools.cycle(THRESHOLDS)
    limits, scores_of = itertools.cycle(LIMITS), itertools.cycle(SCORES.values())
    dtypes = FLOATING + INTEGER
    for (kind, boxes_of), dtype in itertools.product(BOXES.items(), dtypes):
        if kind == "odd" and dtype in INTEGER:
            continue  # NaN is no integer
        for size in SIZES:
            if size > 500 and dtype != torch.float32:
                continue
            plain = torch.from_numpy(boxes_of(rng, size))
            if dtype in INTEGER:  # within int8
                plain = plain.abs().mul(100 / (1e-9 + float(plain.abs().max())))
            boxes = next(layouts)(plain.to(dtype)).to(device)
            scores = torch.from_numpy(next(scores_of)(rng, size)).to(score_dtype(dtype)).to(device)
            kept = visops.nms(boxes, scores, next(thresholds), **next(limits))
            yield f"nms-{kind}-{dtype}-{size}", kept.cpu().numpy()
            idxs = torch.from_numpy(rng.integers(-3, 3, size)).to(device)
            kept = visops.batched_nms(boxes, scores, idxs, next(thresholds), **next(limits))
            yield f"groups-{kind}-{dtype}-{size}", kept.cpu().numpy()
    for (batch, count, classes), limit in itertools.product(
        ((1, 300, 20), (14, 40, 3), (40, 9, 2)), LIMITS
    ):
        boxes = next(layouts)(torch.from_numpy(batch_boxes(rng, batch, count)).float()).to(device)
        shape = (batch, count, classes)
        scores = torch.from_numpy(next(scores_of)(rng, shape)).float().to(device)
        name = f"{batch}-{count}-{limit}"
        rows = visops.batched_nms(boxes, scores, None, next(thresholds), **limit)
        yield f"classes-{name}", rows.cpu().numpy()
        rows = visops.batched_nms(boxes, scores[..., 0], None, next(thresholds), **limit)
        yield f"images-{name}", rows.cpu().numpy()
        padded = visops.nms_padded(
            boxes, scores[..., 1], next(thresholds), **{"max_output": 30, **limit}
        )
        for part, result in zip(("indices", "count"), padded, strict=True):
            yield f"padded-{part}-{name}", result.cpu().numpy()


def score_dtype(dtype: torch.dtype) -> torch.dtype:
    """The boxes' dtype if it is floating, else float32."""
    return dtype if dtype in FLOATING else torch.float32


def check(found: dict[str, np.ndarray]) -> None:
    """There are that many cases, and most have several results; one box has one at most."""
    assert len(found) > 700
    assert np.mean([len(v) > 1 for name, v in found.items() if not name.endswith("-1")]) > 0.7
