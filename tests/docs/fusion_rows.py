"""Rows of box_fusion.md on ensemble-boxes: what both give, where they differ what each gives.

A row that differs puts ours and theirs side by side, and beside them what the page says of them.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops

Pair = tuple[Any, Any]
Row = tuple[Callable[[], Pair], float]
Models = list[list[Any]]  # of each model: its boxes, scores or labels

RNG = np.random.default_rng(3)
OBJECTS = RNG.uniform(0.1, 0.6, (6, 2)).repeat(3, 0)
CORNERS = np.concatenate([OBJECTS, OBJECTS + RNG.uniform(0.1, 0.3, (6, 2)).repeat(3, 0)], 1)
EACH = (CORNERS + RNG.normal(0, 0.01, (18, 4))).reshape(6, 3, 4).transpose(1, 0, 2)
BOXES: Models = EACH.tolist()
SCORES: Models = RNG.permutation(np.linspace(0.1, 0.9, 18)).reshape(3, 6).tolist()
LABELS: Models = [[0, 1, 0, 1, 0, 2]] * 3
PLAIN = (BOXES, SCORES, LABELS)


def theirs(*models: Models, name: str = "weighted_boxes_fusion", **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of clipped, swapped and skipped boxes
        return getattr(pytest.importorskip("ensemble_boxes"), name)(*models, **options)


def ours(*models: Models, name: str = "weighted_boxes_fusion", **options: Any) -> Any:
    boxes, scores, labels = models
    wide = 6 if name.endswith("3d") else 4
    return getattr(visops, name)(
        [torch.tensor(part, dtype=torch.float64).reshape(-1, wide) for part in boxes],
        [torch.tensor(part, dtype=torch.float64) for part in scores],
        [torch.tensor(part, dtype=torch.int64) for part in labels],
        **options,
    )


def flat(*results: Any) -> np.ndarray:
    """Boxes, scores and labels of results, one after another."""
    return np.concatenate([np.ravel(np.asarray(part, np.float64)) for r in results for part in r])


def both(models: tuple[Models, Models, Models], **options: Any) -> Pair:
    other = {"iou_threshold": "iou_thr", "min_score": "skip_box_thr"}
    named = {other.get(key, key): value for key, value in options.items()}
    return flat(ours(*models, **options)), flat(theirs(*models, **named))


def under_all_names() -> Pair:
    """The four functions that the package and we have."""
    sections = [[[box[0], box[2]] for box in part] for part in BOXES]
    solids = [[[*box[:2], 0.2, *box[2:], 0.7] for box in part] for part in BOXES]
    found = []
    for name, boxes in (
        ("weighted_boxes_fusion", BOXES),
        ("non_maximum_weighted", BOXES),
        ("weighted_boxes_fusion_3d", solids),
    ):
        found.append(
            (
                flat(ours(boxes, SCORES, LABELS, name=name)),
                flat(theirs(boxes, SCORES, LABELS, name=name)),
            )
        )
    segments = visops.weighted_boxes_fusion_1d(
        *([torch.tensor(part) for part in parts] for parts in (sections, SCORES, LABELS))
    )
    expected = theirs(sections, SCORES, LABELS, name="weighted_boxes_fusion_1d")
    found.append((flat(segments), flat(expected)))
    return np.concatenate([a for a, _ in found]), np.concatenate([b for _, b in found])


def beyond_one() -> Pair:
    models: tuple[Models, ...] = [[[-0.2, 0.1, 1.4, 0.9]]], [[0.5]], [[0]]
    found, clipped = ours(*models), theirs(*models)
    pixels = [[[640 * x for x in box] for box in part] for part in BOXES]
    scaled = ours(pixels, SCORES, LABELS)[0] / 640
    return (
        flat([found[0], clipped[0], scaled]),
        flat([models[0][0], [[0, 0.1, 1, 0.9]], ours(*PLAIN)[0]]),
    )


def in_half_as_many_bits() -> Pair:
    found, expected = ours(*PLAIN), theirs(*PLAIN)
    rounded = np.asarray(expected[0]).astype(np.float32)
    assert (rounded == expected[0]).all()
    assert (found[0].float().double() != found[0]).any()
    return found[0], expected[0]


def flat_and_inverted() -> Pair:
    models: tuple[Models, ...] = (
        [[[0.1, 0.2, 0.1, 0.5], [0.7, 0.1, 0.3, 0.4]]],
        [[0.9, 0.5]],
        [[0, 0]],
    )
    return flat([ours(*models)[0], theirs(*models)[0]]), flat([models[0][0], [0.3, 0.1, 0.7, 0.4]])


def equal_scores() -> Pair:
    """Ours come by model and index; theirs hold the same boxes."""
    models = BOXES, [[0.5] * 6] * 3, [[0] * 6] * 3
    found, expected = ours(*models, iou_threshold=1.0)[0], theirs(*models, iou_thr=0.999)[0]
    in_order = EACH.reshape(-1, 4)
    return flat([found, sorted(expected.tolist())]), flat([in_order, sorted(in_order.tolist())])


def wrong_weights() -> Pair:
    with pytest.raises(RuntimeError, match="weights"):
        ours(*PLAIN, weights=[2, 1])
    return flat(theirs(*PLAIN, weights=[2, 1])), flat(theirs(*PLAIN))


def scores_of_zero() -> Pair:
    models: tuple[Models, ...] = (
        [[[0.1, 0.1, 0.5, 0.5]], [[0.1, 0.1, 0.5, 0.6]]],
        [[0.0], [0.0]],
        [[0], [0]],
    )
    found, expected = ours(*models), theirs(*models)
    return flat([*found[:2], expected[0]]), flat([[0.1, 0.1, 0.5, 0.55], [0], [np.nan] * 4])


def scores_of_nan() -> Pair:
    box = [0.1, 0.1, 0.5, 0.5]
    models: tuple[Models, ...] = [[box], [box]], [[0.8], [np.nan]], [[0], [0]]
    return flat([*ours(*models)[:2], *theirs(*models)[:2]]), flat([box, [0.4], *[np.nan] * 5])


def dtypes_of_labels() -> Pair:
    found, expected = ours(*PLAIN)[2], theirs(*PLAIN)[2]
    assert (found.dtype, expected.dtype) == (torch.int64, np.float64)
    return found, expected


SOLID: tuple[Models, ...] = [[[0.1, 0.1, 0.1, 0.5, 0.5, 0.5]], []], [[0.8], []], [[1], []]


def score_of_solid(call: Callable[..., Any], models: tuple[Models, ...], **options: Any) -> float:
    return float(call(*models, name="weighted_boxes_fusion_3d", **options)[1][0])


def average_of_solids() -> Pair:
    """A box of one model out of two, and of both; small weights and plain ones."""
    twice: tuple[Models, ...] = tuple([part[0], part[0]] for part in SOLID)
    found = [
        score_of_solid(call, models, weights=weights)
        for call, models, weights in (
            (ours, SOLID, [0.25, 0.25]),
            (theirs, SOLID, [0.25, 0.25]),
            (ours, twice, [1, 1]),
            (theirs, twice, [1, 1]),
        )
    ]
    return found, [0.4, 0.2, 0.8, 0.8]


def greatest_of_solids() -> Pair:
    twice: tuple[Models, ...] = tuple([part[0], part[0]] for part in SOLID)
    found = [
        score_of_solid(call, models, weights=[1, 1], conf_type="max")
        for models in (SOLID, twice)
        for call in (ours, theirs)
    ]
    return found, [0.8, 0.4, 0.8, 0.8]


def kinds_of_scores_of_solids() -> Pair:
    """Ours has those of boxes; the package takes the mean for a kind that it doesn't know."""
    solids = tuple([2 * part[0], []] for part in SOLID)
    boxes = [[[0.1, 0.1, 0.5, 0.5]] * 2, []], *solids[1:]
    found, expected = [], []
    mean = score_of_solid(theirs, solids, conf_type="avg", weights=[1, 3])
    for kind in ("box_and_model_avg", "absent_model_aware_avg"):
        options: dict[str, Any] = {"conf_type": kind, "weights": [1, 3]}
        found += [score_of_solid(call, solids, **options) for call in (ours, theirs)]
        expected += [float(theirs(*boxes, **options)[1][0]), mean]
        assert found[-2] != pytest.approx(mean)
    return found, expected


ENSEMBLE_BOXES: dict[str, Row] = {
    "boxes_list, scores_list, labels_list": (under_all_names, 2e-6),
    "iou_thr, skip_box_thr": (lambda: both(PLAIN, iou_threshold=0.8, min_score=0.3), 2e-6),
    "coordinates clipped to [0, 1]": (beyond_one, 1e-6),
    "fused boxes in float32": (in_half_as_many_bits, 1e-6),
    "flat boxes skipped, inverted ones swapped": (flat_and_inverted, 1e-6),
    "equal scores in any order": (equal_scores, 1e-6),
    "a wrong number of weights replaced by ones": (wrong_weights, 0),
    "a cluster whose scores are all 0": (scores_of_zero, 1e-9),
    "a NaN score takes part": (scores_of_nan, 1e-9),
    "labels come back as floats": (dtypes_of_labels, 0),
    'weighted_boxes_fusion_3d: "avg"': (average_of_solids, 1e-6),
    'weighted_boxes_fusion_3d: "max"': (greatest_of_solids, 1e-6),
    'weighted_boxes_fusion_3d has "avg" and "max"': (kinds_of_scores_of_solids, 1e-6),
}
