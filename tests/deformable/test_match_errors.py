"""Bad input to matching costs: each row is an input and the message it must give."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import visops
from bad_input import check, table
from kernels import use_slot

LOGITS, BOXES = torch.zeros(2, 3, 4), torch.zeros(2, 3, 4)
LABELS, TARGETS = torch.zeros(5, dtype=torch.int64), torch.zeros(5, 4)


def match(
    logits: Any = LOGITS,
    boxes: Any = BOXES,
    labels: Any = LABELS,
    targets: Any = TARGETS,
    **options: Any,
) -> Callable[[], Any]:
    made = {"weights": (2, 5, 2), "counts": [2, 3], **options}
    return lambda: visops.match_cost(logits, boxes, labels, targets, **made)


LISTS = list(LABELS.split([2, 3])), list(TARGETS.split([2, 3]))


@table(
    (RuntimeError, "match_cost: logits has shape [3, 4], must be [B, Q, K]", match(LOGITS[0])),
    (
        RuntimeError,
        "match_cost: logits has shape [2, 3, 0], must have at least one class",
        match(LOGITS[..., :0]),
    ),
    (
        RuntimeError,
        "match_cost: logits has dtype int64, must be a floating type",
        match(LOGITS.long()),
    ),
    (
        RuntimeError,
        "match_cost: boxes has shape [2, 3, 3], must be [2, 3, 4]",
        match(boxes=BOXES[..., 1:]),
    ),
    (
        RuntimeError,
        "match_cost: boxes has dtype int32, must be a floating type",
        match(boxes=BOXES.int()),
    ),
    (
        RuntimeError,
        "match_cost: target_labels has shape [5, 1], must be [T]",
        match(labels=LABELS[:, None]),
    ),
    (
        RuntimeError,
        "match_cost: target_labels has dtype float32, must be int64 or int32",
        match(labels=LABELS.float()),
    ),
    (
        RuntimeError,
        "match_cost: target_boxes has shape [4, 4], must be [5, 4]",
        match(targets=TARGETS[1:]),
    ),
    (
        RuntimeError,
        "match_cost: counts is [2], must have a number for each of 2 images",
        match(counts=[2]),
    ),
    (
        RuntimeError,
        "match_cost: counts is [2, 2], must be >= 0 and sum to the number of targets, 5",
        match(counts=[2, 2]),
    ),
    (
        RuntimeError,
        "match_cost: counts is [6, -1], must be >= 0 and sum to the number of targets, 5",
        match(counts=[6, -1]),
    ),
    (
        RuntimeError,
        "match_cost: weights is [2, 5], must have three numbers: of class, box and giou",
        match(weights=(2, 5)),
    ),
    (
        RuntimeError,
        "match_cost: weights is [2, inf, 2], must be finite",
        match(weights=(2, float("inf"), 2)),
    ),
    (
        TypeError,
        "match_cost: weights is 2, must be three numbers: of class, box and giou",
        match(weights=2),
    ),
    (
        RuntimeError,
        "match_cost: kind is 'sigmoid', must be 'focal' or 'softmax'",
        match(kind="sigmoid"),
    ),
    (
        RuntimeError,
        "match_cost: gamma is -1, must be finite and >= 0",
        match(gamma=-1.0),
    ),
    (
        RuntimeError,
        "match_cost: alpha is nan, must be finite",
        match(alpha=float("nan")),
    ),
    (
        TypeError,
        "match_cost: counts is None, must have the number of targets of each image where targets "
        "are tensors",
        match(counts=None),
    ),
    (
        TypeError,
        "match_cost: counts is for tensors of all targets; lists have their own",
        match(labels=LISTS[0], targets=LISTS[1]),
    ),
    (
        TypeError,
        "match_cost: target_labels is a Tensor, must be a torch.Tensor as the other targets are, "
        "or both lists of tensors",
        match(targets=LISTS[1], counts=None),
    ),
    (
        RuntimeError,
        "match_cost: target_labels has 2 tensors, target_boxes 1; both must have one for each "
        "image",
        match(labels=LISTS[0], targets=LISTS[1][:1], counts=None),
    ),
    (
        RuntimeError,
        "match_cost: target_labels[1] has shape [3], target_boxes[1] [2, 4]; must be [n] and "
        "[n, 4]",
        match(labels=LISTS[0], targets=[LISTS[1][0]] * 2, counts=None),
    ),
    (
        TypeError,
        "match_cost: logits is a list, must be a torch.Tensor",
        match(LOGITS.tolist()),
    ),
)
def test_messages(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@pytest.mark.parametrize("label", [-1, 4, 2**40])
def test_labels(label: int) -> None:
    """An error where the host has them; NaN where only the kernel reads them."""
    labels = LABELS.clone()
    labels[3] = label
    message = f"match_cost: target_labels[3] is {label}, logits has 4 classes"
    with use_slot("default"):
        check(RuntimeError, message, match(labels=labels))
    with use_slot("cuda_emulated"):
        for kind in ("focal", "softmax"):
            found = match(labels=labels, kind=kind)()
            assert found[1][:, 1].isnan().all()
            assert not found[1][:, ::2].isnan().any()
            assert not found[0].isnan().any()
