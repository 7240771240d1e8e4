"""Bad input of weighted boxes fusion: each row has an input and the message that it must give."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import visops
from bad_input import check, table
from torch import Tensor

NAN, INF = float("nan"), float("inf")
OP = torch.ops.visops.weighted_boxes_fusion


@dataclass(frozen=True)
class Fuse:
    """A call; of_arrays() is the same with arrays instead of tensors."""

    models: tuple[list[Any], list[Any], list[Any]]
    options: dict[str, Any]

    def __call__(self) -> Any:
        return visops.weighted_boxes_fusion(*self.models, **self.options)

    def of_arrays(self) -> "Fuse":
        boxes, scores, labels = ([t.numpy() for t in part] for part in self.models)
        return Fuse((boxes, scores, labels), self.options)


def fuse(
    boxes: list[Any] | None = None,
    scores: list[Any] | None = None,
    labels: list[Any] | None = None,
    **options: Any,
) -> Fuse:
    """By default, two models with three boxes each."""
    return Fuse(
        (
            [torch.zeros(3, 4)] * 2 if boxes is None else boxes,
            [torch.zeros(3)] * 2 if scores is None else scores,
            [torch.zeros(3, dtype=torch.int64)] * 2 if labels is None else labels,
        ),
        options,
    )


def of_dtype(dtype: torch.dtype, *shape: int) -> list[Tensor]:
    return [torch.zeros(shape, dtype=dtype)] * 2


ROWS = (
    ("scores has 1 entries, boxes has 2", fuse(scores=[torch.zeros(3)])),
    ("labels has 3 entries, boxes has 2", fuse(labels=[torch.zeros(3).long()] * 3)),
    ("boxes[1] has shape [3, 5], must be [N, 4]", fuse([torch.zeros(3, 4), torch.zeros(3, 5)])),
    ("boxes[0] has shape [4], must be [N, 4]", fuse([torch.zeros(4), torch.zeros(3, 4)])),
    ("scores[1] has shape [4], must be [3]", fuse(scores=[torch.zeros(3), torch.zeros(4)])),
    ("scores[0] has shape [3, 1], must be [3]", fuse(scores=of_dtype(torch.float32, 3, 1))),
    ("labels[0] has shape [2], must be [3]", fuse(labels=of_dtype(torch.int64, 2))),
    ("labels[0] has shape [], must be [3]", fuse(labels=of_dtype(torch.int64))),
    (
        "boxes[0] has dtype int64, must be a floating type",
        fuse(of_dtype(torch.int64, 3, 4)),
    ),
    (
        "boxes[0] has dtype complex64, which is not supported",
        fuse(of_dtype(torch.complex64, 3, 4)),
    ),
    (
        "scores[0] has dtype int32, must be a floating type",
        fuse(scores=of_dtype(torch.int32, 3)),
    ),
    ("labels[0] has dtype bool, must be an integer type", fuse(labels=of_dtype(torch.bool, 3))),
    ("weights has 1 values, must have 2, one for each model", fuse(weights=[1.0])),
    ("weights has 3 values, must have 2, one for each model", fuse(weights=(1, 2, 3))),
    ("weights[1] is -1, must be >= 0 and finite", fuse(weights=[1, -1])),
    ("weights[0] is nan, must be >= 0 and finite", fuse(weights=[NAN, 1])),
    ("weights[0] is inf, must be >= 0 and finite", fuse(weights=[INF, 1])),
    ("weights are all 0, one must be > 0", fuse(weights=[0, 0])),
    ("iou_threshold is 1.5, must be in [0, 1]", fuse(iou_threshold=1.5)),
    ("iou_threshold is -0.5, must be in [0, 1]", fuse(iou_threshold=-0.5)),
    ("iou_threshold is nan, must be in [0, 1]", fuse(iou_threshold=NAN)),
    ("min_score is -1, must be >= 0 and finite", fuse(min_score=-1)),
    ("min_score is nan, must be >= 0 and finite", fuse(min_score=NAN)),
    ("min_score is inf, must be >= 0 and finite", fuse(min_score=INF)),
    (
        "conf_type is 'mean', must be avg, max, box_and_model_avg or absent_model_aware_avg",
        fuse(conf_type="mean"),
    ),
)


@table(*((RuntimeError, f"weighted_boxes_fusion: {message}", call) for message, call in ROWS))
def test_tensors(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@table(
    *((ValueError, f"weighted_boxes_fusion: {message}", call.of_arrays()) for message, call in ROWS)
)
def test_arrays(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@table(
    (
        ValueError,
        "weighted_boxes_fusion: boxes is empty, must have an entry for each model",
        fuse([], [], []),
    ),
    (
        TypeError,
        "weighted_boxes_fusion: boxes[0] is a list, must be a torch.Tensor or a numpy.ndarray",
        fuse([[[0.0, 0, 1, 1]]] * 2),
    ),
    (
        TypeError,
        "weighted_boxes_fusion: scores[1] is a ndarray, must be a torch.Tensor",
        fuse(scores=[torch.zeros(3), np.zeros(3)]),
    ),
    (
        TypeError,
        "weighted_boxes_fusion: device is for arrays; move tensors with .to('cpu')",
        fuse(device="cpu"),
    ),
)
def test_kinds(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


def test_devices() -> None:
    boxes = [torch.zeros(3, 4), torch.zeros(3, 4, device="meta")]
    with pytest.raises(RuntimeError, match=r"boxes\[1\] is on meta, boxes\[0\] is on cpu"):
        fuse(boxes)()


def operator(*counts: int, weights: int = 2) -> Callable[[], Any]:
    """The operator itself, with lists of these lengths."""
    samples = torch.zeros(3, 4), torch.zeros(3), torch.zeros(3, dtype=torch.int64)
    lists = [[tensor] * count for tensor, count in zip(samples, counts, strict=True)]
    return lambda: OP(*lists, [1.0] * weights)


@table(
    *(
        (RuntimeError, f"weighted_boxes_fusion: {message}", call)
        for message, call in (
            ("boxes is empty, must have an entry for each model", operator(0, 1, 1)),
            ("scores has 3 entries, boxes has 2", operator(2, 3, 2)),
            ("labels has 1 entries, boxes has 2", operator(2, 2, 1)),
            ("weights has 3 values, must have 2, one for each", operator(2, 2, 2, weights=3)),
        )
    )
)
def test_the_operator(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@pytest.mark.parametrize("weights", ["a", 3, [None, 1.0]])
def test_weights_that_are_no_numbers(weights: Any) -> None:
    message = f"visops.weighted_boxes_fusion: weights is {weights!r}, must be a number for each"
    with pytest.raises(TypeError, match=re.escape(message)):
        fuse(weights=weights)()
