"""Results of soft, rotated and matching suppression, as bytes, to compare between kernels."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import visops

from suppression.nms_cases import (
    BOXES,
    FLOATING,
    INTEGER,
    LAYOUTS,
    SCORES,
    THRESHOLDS,
    Rng,
    batch_boxes,
)

SIZES = (1, 17, 65, 130, 500)
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"method": "gaussian"},
    {"method": "linear", "max_output": 40, "min_score": 0.0},
    {"method": "gaussian", "sigma": 0.05, "min_score": 0.25},
    {"method": "hard", "min_score": 0.0},
    {"method": "gaussian", "sigma": 3.0, "max_output": 9, "min_score": 0.0},
)
LIMITS: tuple[dict[str, Any], ...] = ({}, {"max_output": 40}, {"score_threshold": 0.1})
Named = tuple[str, np.ndarray]


def turned(rng: Rng, boxes: np.ndarray) -> np.ndarray:
    """Corners as boxes [N, 5], turned: a little, by quarters, or many times."""
    with np.errstate(invalid="ignore"):
        middle, size = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
    wild = rng.uniform(-1e6, 1e6, len(boxes))
    angle = np.choose(
        rng.integers(0, 4, len(boxes)),
        [rng.uniform(-4, 4, len(boxes)), np.full(len(boxes), 0.3), wild, np.zeros(len(boxes))],
    )
    angle = np.where(rng.random(len(boxes)) < 0.2, rng.integers(-5, 6) * (math.pi / 2), angle)
    return np.concatenate([middle, size, angle[:, None]], 1)


def named(name: str, result: Any) -> Iterator[Named]:
    """A result, or its rows and scores."""
    for i, part in enumerate(result if isinstance(result, tuple) else (result,)):
        stored = part.float() if part.dtype == torch.bfloat16 else part
        yield f"{name}-{'scores' if i else 'rows'}", stored.cpu().numpy()


def outputs(device: str = "cpu") -> Iterator[Named]:
    """Names and results of every operator, dtype and kind of boxes; the rest takes turns."""
    rng = np.random.default_rng(0)
    layouts, thresholds = itertools.cycle(LAYOUTS.values()), itertools.cycle(THRESHOLDS)
    options, limits = itertools.cycle(OPTIONS), itertools.cycle(LIMITS)
    scores_of, types = itertools.cycle(SCORES.values()), itertools.cycle(FLOATING)
    for (kind, boxes_of), dtype in itertools.product(BOXES.items(), FLOATING + INTEGER):
        if kind == "odd" and dtype in INTEGER:
            continue  # NaN is no integer
        for size in SIZES:
            if size > 65 and dtype not in (torch.float32, torch.float64):
                continue
            plain = torch.from_numpy(boxes_of(rng, size))
            if dtype in INTEGER:  # within int8
                plain = plain.abs().mul(100 / (1e-9 + float(plain.abs().max())))
            boxes = next(layouts)(plain.to(dtype)).to(device)
            values = torch.from_numpy(next(scores_of)(rng, size))
            scores = values.to(next(types)).to(device)
            idxs = torch.from_numpy(rng.integers(-3, 3, size)).to(device)
            name = f"{kind}-{dtype}-{size}"
            chosen = {"iou_threshold": next(thresholds), **next(options)}
            yield from named(f"soft-{name}", visops.soft_nms(boxes, scores, **chosen))
            chosen = {"iou_threshold": next(thresholds), **next(options)}
            result = visops.batched_soft_nms(boxes, scores, idxs, **chosen)
            yield from named(f"groups-{name}", result)
            matched = torch.ops.visops.nms_match(boxes, scores, next(thresholds))
            yield from named(f"match-{name}", matched)
            if dtype not in INTEGER:
                rotated = torch.from_numpy(turned(rng, plain.numpy())).to(dtype)
                for ids in (None, idxs):
                    kept = visops.nms_rotated(
                        next(layouts)(rotated).to(device),
                        scores,
                        next(thresholds),
                        idxs=ids,
                        **next(limits),
                    )
                    yield from named(f"rotated-{name}-{ids is None}", kept)
                chosen = {"iou_threshold": next(thresholds), **next(options)}
                chosen["idxs"] = idxs if size % 2 else None
                result = visops.soft_nms_rotated(rotated.to(device), scores, **chosen)
                yield from named(f"soft-rotated-{name}", result)
    shapes = ((1, 300, 20), (14, 40, 3), (40, 9, 2))
    for (batch, count, classes), chosen in itertools.product(shapes, OPTIONS):
        boxes = next(layouts)(torch.from_numpy(batch_boxes(rng, batch, count)).float()).to(device)
        shape = (batch, count, classes)
        scores = torch.from_numpy(next(scores_of)(rng, shape)).float().to(device)
        idxs = torch.from_numpy(rng.integers(-3, 3, shape[:2])).to(device)
        name = f"{batch}-{count}-{chosen}"
        result = visops.batched_soft_nms(boxes, scores, None, **chosen)
        yield from named(f"classes-{name}", result)
        for ids in (None, idxs):
            result = visops.batched_soft_nms(boxes, scores[..., 0], ids, **chosen)
            yield from named(f"images-{name}-{ids is None}", result)


def check(found: dict[str, np.ndarray]) -> None:
    """There are that many cases, and most have several results; one box has one at most."""
    assert len(found) > 1200
    assert np.mean([len(v) > 1 for name, v in found.items() if "-1-" not in name]) > 0.8
