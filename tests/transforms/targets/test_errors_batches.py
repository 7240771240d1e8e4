"""Batches and options that can't work: each row is one and the message it must give."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from bad_input import check, table
from torch import Tensor
from visops.transforms.sample.images import image_sizes
from visops.transforms.sample.split import split_sample
from visops.transforms.targets.move import visible
from visops.transforms.targets.options import TargetOptions, check_options

tv = pytest.importorskip("torchvision.tv_tensors")

IMAGE = torch.zeros(3, 5, 7)
BATCH = torch.zeros(2, 3, 5, 7)
SIZE = (5, 7)


def batch_having(**entries: Any) -> Callable[[], Any]:
    return lambda: image_sizes(split_sample({"image": BATCH, **entries})[0])


def boxes(*rows: Any) -> Tensor:
    return torch.tensor(rows)


def options(sample: Any, **fields: Any) -> Callable[[], Any]:
    return lambda: check_options(split_sample(sample)[0], TargetOptions(**fields))


GOOD = boxes([0.0, 0, 1, 1], [2.0, 2, 3, 3])


@table(
    (
        ValueError,
        "transforms: sample['boxes'] has shape [2, 4], sample['image'] holds 2 images; must have a "
        "first dimension of 2 or be a list of 2",
        batch_having(boxes=GOOD),
    ),
    (
        ValueError,
        "transforms: sample['mask'] has shape [3, 5, 7], sample['image'] holds 2 images",
        batch_having(mask=torch.zeros(3, 5, 7)),
    ),
    (
        ValueError,
        "transforms: sample['boxes'] has 1 entries, sample['image'] holds 2 images; must be one",
        batch_having(boxes=[GOOD]),
    ),
    (
        ValueError,
        "transforms: sample['boxes'][1][0] is [3, 0, 2, 1] (XYXY), must have",
        batch_having(boxes=[GOOD, boxes([3.0, 0, 2, 1])]),
    ),
    (
        ValueError,
        "transforms: sample['boxes'][1][2] is [3, 0, 2, 1] (XYXY), must have",
        batch_having(boxes=torch.cat((torch.zeros(5, 4), boxes([3.0, 0, 2, 1]))).reshape(2, 3, 4)),
    ),
    (
        ValueError,
        "transforms: sample['labels'][1] has length 1, sample['boxes'][1] has 2 boxes",
        batch_having(boxes=[GOOD, GOOD], labels=[[1, 2], [3]]),
    ),
    (
        ValueError,
        "transforms: sample['labels'] has 3 entries, sample['boxes'] is for 2 images; must be one",
        batch_having(boxes=[GOOD, GOOD], labels=[[1, 2], [3, 4], []]),
    ),
    (
        ValueError,
        "transforms: sample['labels'][0] has length 4, sample['boxes'][0] has 3 boxes",
        batch_having(boxes=torch.zeros(2, 3, 4), labels=torch.zeros(2, 4)),
    ),
    (
        ValueError,
        "transforms: sample['boxes'] mixes the formats ['XYWH', 'XYXY'], must have one",
        batch_having(
            boxes=[
                tv.BoundingBoxes(GOOD, format=form, canvas_size=SIZE) for form in ("XYXY", "XYWH")
            ]
        ),
    ),
    (
        ValueError,
        "transforms: sample['mask'][1] is for 7 rows and 5 columns, sample['image'][1] has 5 and 7",
        batch_having(mask=[torch.zeros(5, 7), torch.zeros(7, 5)]),
    ),
    (
        TypeError,
        "transforms: sample['keypoints_visible'] is a Tensor, must be a list of 2, like",
        batch_having(keypoints=[torch.zeros(1, 2)] * 2, keypoints_visible=torch.ones(2, 1)),
    ),
)
def test_batches(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@table(
    (
        ValueError,
        "transforms: boxes is 'drop', must be one of keep, clamp, sanitize",
        options(IMAGE, boxes="drop"),
    ),
    (
        ValueError,
        "transforms: keypoint_convention is 'half', must be 'integer' or 'half_pixel'",
        options(IMAGE, keypoint_convention="half"),
    ),
    (
        ValueError,
        "transforms: mask_fill is 255, sample['mask'] has dtype torch.int8; must be from -128 to "
        "127",
        options({"image": IMAGE, "mask": torch.zeros(5, 7, dtype=torch.int8)}, mask_fill=255),
    ),
    (
        ValueError,
        "transforms: mask_fill is -1, sample['mask'] has dtype uint8; must be from 0 to 255",
        options({"image": IMAGE, "mask": np.zeros((5, 7), np.uint8)}, mask_fill=-1),
    ),
    (
        ValueError,
        "transforms: sample['boxes'] has shape [2, 6, 4]; must be a list of each sample's boxes "
        "[N, 4] for boxes='sanitize'",
        options({"image": BATCH, "boxes": torch.zeros(2, 6, 4)}, boxes="sanitize"),
    ),
    (
        ValueError,
        "transforms: sample['boxes'] and sample['bboxes'] are in one container; must be in two, or",
        options({"image": IMAGE, "boxes": GOOD, "bboxes": GOOD}, boxes="sanitize"),
    ),
    (
        ValueError,
        "transforms: boxes='sanitize' can't tell whether sample[2] belongs to sample[1]; must be "
        "in a dict, under a name in keys={'labels': [...]}",
        options(
            (
                IMAGE,
                tv.BoundingBoxes(GOOD, format="XYXY", canvas_size=SIZE),
                torch.zeros(2),
            ),
            boxes="sanitize",
        ),
    ),
    *(
        (
            ValueError,
            f"transforms: boxes='sanitize' can't tell whether sample['{name}'] belongs to "
            "sample['boxes']; must be in a dict, under a name in keys={'labels': [...]}",
            options({"image": IMAGE, "boxes": GOOD, name: own}, boxes="sanitize"),
        )
        for name, own in (("gt_labels", [1, 2]), ("label", np.ones(2)), ("classes", ("a", "b")))
    ),
    (
        ValueError,
        "transforms: boxes='sanitize' can't tell whether sample['m'] belongs to sample['boxes']",
        options(
            {"image": IMAGE, "boxes": GOOD, "m": tv.Mask(torch.zeros(2, 5, 7))}, boxes="sanitize"
        ),
    ),
)
def test_options(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@table(
    (
        ValueError,
        "visible: keypoints has shape [4], must be [..., 2] or [..., 3]",
        lambda: visible(torch.zeros(4), SIZE),
    ),
    (
        ValueError,
        "visible: size is (5,), must be (height, width)",
        lambda: visible(torch.zeros(4, 2), (5,)),
    ),
    (
        ValueError,
        "visible: convention is 'edge', must be 'integer' or 'half_pixel'",
        lambda: visible(torch.zeros(4, 2), SIZE, convention="edge"),  # type: ignore[arg-type]
    ),
)
def test_visible(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


def test_what_is_allowed_beside_sanitized_boxes() -> None:
    typed = tv.BoundingBoxes(GOOD, format="XYXY", canvas_size=SIZE)
    fine = (
        (IMAGE, typed, 3),
        (IMAGE, {"boxes": GOOD, "image_id": torch.tensor([5])}),
        {"image": IMAGE, "boxes": typed, "mask": torch.zeros(2, 5, 7, dtype=torch.uint8)},
        {"image": IMAGE, "boxes": typed, "seg": tv.Mask(torch.zeros(5, 7))},
    )
    for sample in fine:
        options(sample, boxes="sanitize")()
