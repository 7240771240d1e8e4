"""Suppression and fusion of boxes that overlap: most have as many results as values ask for."""

from typing import Any

import torch
from torch import Tensor

from .boxes import corners, rotated
from .case import FLOATS, Arguments, Draw, OneOf, OpCase, with_options

CLASSES = 3


def scores(draw: Draw, *shape: int) -> Tensor:
    """Return distinct numbers above 0.25; of some sizes' calls only one is, or none."""
    values = 0.25 + 0.75 * (draw.rng.permutation(shape_size(shape)) + 1) / (shape_size(shape) + 1)
    if draw.size in ("single", "nothing"):
        values[draw.size == "single" :] = 0.0
    dtype = draw.dtype if draw.dtype.is_floating_point else torch.float32
    return draw.tensor(values.reshape(shape), dtype)


def shape_size(shape: tuple[int, ...]) -> int:
    return torch.Size(shape).numel()


def ids(draw: Draw, *shape: int) -> Tensor:
    return draw.tensor(draw.rng.integers(-2, 3, shape), torch.int64)


def detections(draw: Draw) -> Arguments:
    count = draw.sizes.count
    return {"boxes": corners(draw, count), "scores": scores(draw, count)}


def rotated_detections(draw: Draw) -> Arguments:
    count = draw.sizes.count
    return {"boxes": rotated(draw, count), "scores": scores(draw, count)}


def grouped(draw: Draw) -> Arguments:
    return {**detections(draw), "idxs": ids(draw, draw.sizes.count)}


def rotated_groups(draw: Draw) -> Arguments:
    return {**rotated_detections(draw), "idxs": ids(draw, draw.sizes.count)}


def images(draw: Draw) -> Arguments:
    shape = draw.sizes.batch, draw.sizes.count
    return {"boxes": corners(draw, *shape), "scores": scores(draw, *shape)}


def images_and_classes(draw: Draw) -> Arguments:
    """Each class of an image is a group, so there are no ids."""
    shape = draw.sizes.batch, draw.sizes.count
    of_classes = scores(draw, *shape, CLASSES)
    return {"boxes": corners(draw, *shape), "scores": of_classes, "idxs": None}


def masks(draw: Draw) -> Arguments:
    """Return masks of which every other one is nearly the one before it."""
    count, height, width = draw.sizes.count, draw.sizes.height, draw.sizes.width
    made = draw.rng.random((count, height, width)) < 0.6
    made[1::2] = made[: count // 2 * 2 : 2] ^ (draw.rng.random(made[1::2].shape) < 0.1)
    return {"objects": draw.tensor(made, torch.bool), "scores": scores(draw, count)}


def objects(draw: Draw) -> Arguments:
    return {
        "objects": corners(draw, draw.sizes.count),
        "scores": scores(draw, draw.sizes.count),
        "idxs": ids(draw, draw.sizes.count),
    }


def models(draw: Draw, columns: int = 4, name: str = "boxes") -> Arguments:
    """Return what two models found, within the unit square or cube."""
    counts = draw.sizes.count, draw.sizes.other if draw.sizes.batch else 0
    boxes = [corners(draw, count) / 120 for count in counts]
    kept = {2: [0, 2], 4: [0, 1, 2, 3], 6: [0, 1, 0, 2, 3, 2]}[columns]
    return {
        name: [found[:, kept] for found in boxes],
        "scores": [scores(draw, count) for count in counts],
        "labels": [ids(draw, count) for count in counts],
        "min_score": 0.25,
    }


COUNTED: dict[str, Any] = {"counted": True, "layouts": ("strided", "transposed")}
BOXES: dict[str, Any] = {**COUNTED, "dtypes": (*FLOATS, torch.int32)}
PADDED: dict[str, Any] = {
    "mapped": ("boxes", "scores"),
    "rows": ("boxes", "scores"),
    "layouts": ("strided", "transposed"),
    "dtypes": (*FLOATS, torch.int32),
}
SOFT = {"sigma": 0.3, "min_score": 0.25, "max_output": OneOf(7, 0, 1, 100)}
ABOVE = {"score_threshold": 0.25}
THRESHOLDS = OneOf(0.3, 0.0, 0.7, 1.0)

CASES = [
    OpCase("nms", with_options(detections, iou_threshold=THRESHOLDS, **ABOVE), **BOXES),
    OpCase("nms limited", with_options(detections, iou_threshold=0.5, max_output=3), **BOXES),
    OpCase("batched_nms", with_options(grouped, iou_threshold=THRESHOLDS, **ABOVE), **BOXES),
    OpCase("batched_nms images", with_options(images, idxs=None, iou_threshold=0.3), **BOXES),
    OpCase(
        "batched_nms classes",
        with_options(images_and_classes, iou_threshold=0.3, max_output=30, **ABOVE),
        **BOXES,
    ),
    OpCase("nms_padded", with_options(images, iou_threshold=0.3, max_output=5), **PADDED),
    OpCase(
        "nms_padded more", with_options(images, iou_threshold=0.5, max_output=80, **ABOVE), **PADDED
    ),
    OpCase("nms_padded none", with_options(images, iou_threshold=0.5, max_output=0), **PADDED),
    OpCase(
        "nms_rotated", with_options(rotated_detections, iou_threshold=THRESHOLDS, **ABOVE), **BOXES
    ),
    OpCase("nms_rotated groups", with_options(rotated_groups, iou_threshold=0.3), **BOXES),
    OpCase(
        "nms_match operator",
        with_options(detections, iou_threshold=0.3),
        call=torch.ops.visops.nms_match,
        layouts=("strided", "transposed"),
        dtypes=(*FLOATS, torch.int32),
    ),
    *(
        OpCase(f"soft_nms {method}", with_options(detections, method=method, **SOFT), **BOXES)
        for method in ("linear", "gaussian", "hard")
    ),
    OpCase("soft_nms_rotated", rotated_detections, **BOXES),
    OpCase(
        "soft_nms_rotated groups", with_options(rotated_groups, method="gaussian", **SOFT), **BOXES
    ),
    OpCase("batched_soft_nms", with_options(grouped, method="gaussian", **SOFT), **BOXES),
    OpCase(
        "batched_soft_nms images", with_options(images, idxs=None, method="hard", **SOFT), **BOXES
    ),
    OpCase("batched_soft_nms classes", images_and_classes, **BOXES),
    # Results are in the order of their rounded scores.
    OpCase(
        "matrix_nms",
        with_options(objects, min_score=0.25, method=OneOf("gaussian", "linear")),
        half=False,
        **BOXES,
    ),
    OpCase(
        "matrix_nms masks",
        with_options(masks, method="linear"),
        half=False,
        dtypes=FLOATS[2:],
        **COUNTED,
    ),
    *(
        OpCase(f"weighted_boxes_fusion {kind}", with_options(models, conf_type=kind), **COUNTED)
        for kind in ("avg", "max", "box_and_model_avg", "absent_model_aware_avg")
    ),
    OpCase(
        "non_maximum_weighted",
        with_options(models, weights=[2, 1], iou_threshold=OneOf(0.55, 0.2)),
        **COUNTED,
    ),
    OpCase("weighted_boxes_fusion_1d", lambda draw: models(draw, 2, "segments"), **COUNTED),
    OpCase("weighted_boxes_fusion_3d", lambda draw: models(draw, 6), **COUNTED),
]
