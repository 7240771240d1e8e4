"""Bad input of suppression: what is changed of a valid call, and what the error says of it."""

from typing import Any

import numpy as np
from torch import bool, complex64, int32, int64, tensor, uint8, uint32, zeros

from operators.case import INF, NAN, Bad, Errors, bad, bad_type, bad_value

IDS = zeros(3, dtype=int64)
BOXES, SCORES, LABELS = [zeros(3, 4)] * 2, [zeros(3)] * 2, [IDS] * 2  # of two models
ARRAYS = {"boxes": np.zeros((3, 4), np.float32), "scores": np.zeros(3, np.float32)}

ROTATED = {"boxes": zeros(3, 5), "scores": zeros(3)}
KINDS = (
    bad(scores=IDS, says="has dtype int64, must be a floating type"),
    bad_type(boxes=[[0.0, 0, 1, 1]], says="is a list, must be a torch.Tensor or a"),
    bad_type(boxes=None, says="is a NoneType, must be a torch.Tensor or a numpy.ndarray"),
    bad_type(scores=[1.0, 2, 3], says="is a list, must be a torch.Tensor"),
    bad_type(scores=np.zeros(3), says="is a ndarray, must be a torch.Tensor"),
    bad_type(boxes=ARRAYS["boxes"], says="scores is a Tensor, must be a"),
    bad_type(device="cpu", says="is for arrays; move tensors with .to('cpu')"),
    bad(scores=zeros(3, device="meta"), says="is on meta, boxes is on cpu"),
)
GROUPS = (
    bad(idxs=zeros(4, dtype=int64), says="has shape [4], must be [3]"),
    bad(idxs=zeros(3, dtype=bool), says="has dtype bool, must be an integer type"),
    bad(idxs=zeros(3, dtype=int64, device="meta"), says="is on meta, boxes is on cpu"),
)
THRESHOLDS = (
    bad(iou_threshold=1.5, says="is 1.5, must be in [0, 1]"),
    bad(iou_threshold=-0.25, says="is -0.25, must be in [0, 1]"),
    bad(iou_threshold=NAN, says="is nan, must be in [0, 1]"),
)
OUTPUTS = (
    bad(max_output=-1, says="is -1, must be >= 0"),
    bad(max_output=np.int64(-2), says="is -2, must be >= 0"),
    bad_type(max_output=1.5, says="is 1.5, must be an integer"),
    bad_type(max_output="a", says="is 'a', must be an integer"),
    bad_type(max_output=[1], says="is [1], must be an integer"),
)
DECAY = (
    bad(sigma=0, says="is 0, must be > 0 and finite"),
    bad(sigma=-0.5, says="is -0.5, must be > 0 and finite"),
    bad(sigma=NAN, says="is nan, must be > 0 and finite"),
    bad(sigma=INF, says="is inf, must be > 0 and finite"),
    bad(min_score=-1, says="is -1, must be >= 0 and finite"),
    bad(min_score=NAN, says="is nan, must be >= 0 and finite"),
    bad(min_score=INF, says="is inf, must be >= 0 and finite"),
)
SOFT = (
    *(
        bad(method=method, says=f"is '{method}', must be 'linear', 'gaussian' or 'hard'")
        for method in ("foo", "", "Linear", "naive")
    ),
    *THRESHOLDS,
    *DECAY,
    *OUTPUTS,
)


def one_list(columns: int) -> tuple[Bad, ...]:
    """Return what is wrong with boxes [N, columns] and their scores [N]."""
    shape = f"must be [N, {columns}]"
    boxes = (
        bad(boxes=zeros(3, 9 - columns), says=f"has shape [3, {9 - columns}], {shape}"),
        bad(boxes=zeros(columns), says=f"has shape [{columns}], {shape}"),
        bad(boxes=zeros(()), says=f"has shape [], {shape}"),
        bad(boxes=zeros(1), says=f"has shape [1], {shape}"),
        bad(boxes=zeros(2, 3, columns), says=f"has shape [2, 3, {columns}], {shape}"),
        bad(boxes=zeros(3, columns, dtype=bool), says="has dtype bool, must be a floating or"),
        bad(boxes=zeros(3, columns, dtype=complex64), says="has dtype complex64, which is not"),
        bad(boxes=zeros(3, columns, dtype=uint32), says="has dtype uint32, which is not"),
        bad(boxes=zeros(3, columns, device="meta"), says="scores is on cpu, boxes is on meta"),
        bad_type(**{**ARRAYS, "boxes": np.zeros((3, columns), object)}, says="has dtype object"),
    )
    return (
        *boxes,
        bad(scores=zeros(4), says="has shape [4], must be [3]"),
        bad(scores=zeros(3, 1), says="has shape [3, 1], must be [3]"),
        bad(scores=zeros(()), says="has shape [], must be [3]"),
        bad(scores=zeros(3, dtype=bool), says="has dtype bool, must be a floating type"),
        *KINDS,
    )


def of_models(name: str, columns: int) -> tuple[Bad, ...]:
    """Return what is wrong with boxes, or segments, of several models."""
    good, shape = zeros(3, columns), f"must be [N, {columns}]"
    halves = [tensor([0.0, 0.5, 1.0])] * 2
    wrong: dict[str, Any] = {
        f"[1] has shape [3, {columns + 1}], {shape}": [good, zeros(3, columns + 1)],
        f"[0] has shape [2], {shape}": [zeros(2), good],
        "[0] has dtype int64, must be a floating type": [good.to(int64)] * 2,
        "[0] has dtype bool, must be a": [good.to(bool)] * 2,
        "[1] is on meta": [good, good.to("meta")],
    }
    return (
        *(bad(**{name: value}, says=f"{name}{says}") for says, value in wrong.items()),
        bad_value(**{name: []}, says="is empty, must have an entry for each model"),
        bad_type(**{name: [[[0.0] * columns]]}, says=f"{name}[0] is a list, must be a torch"),
        bad(scores=[zeros(3)], says=f"has 1 entries, {name} has 2"),
        bad(scores=[zeros(3), zeros(4)], says="scores[1] has shape [4], must be [3]"),
        bad(labels=[zeros(3, dtype=bool)] * 2, says="labels[0] has dtype bool, must be an"),
        bad_value(labels=halves, says="labels[0][1] is not a whole"),
        bad(weights=[1.0], says="has 1 values, must have 2, one for each model"),
        bad(weights=[1, -1], says="weights[1] is -1, must be >= 0 and finite"),
        bad(weights=[0, 0], says="are all 0, one must be > 0"),
        *THRESHOLDS,
        bad(min_score=NAN, says="is nan, must be >= 0 and finite"),
    )


UNKNOWN = bad(conf_type="mean", says="is 'mean', must be avg, max, box_and_model_avg or")

ERRORS: dict[str, Errors] = {
    "weighted_boxes_fusion": Errors(
        {"boxes": BOXES, "scores": SCORES, "labels": LABELS},
        *of_models("boxes", 4),
        UNKNOWN,
        bad(labels=[IDS] * 3, says="has 3 entries, boxes has 2"),
        bad_type(labels=None, says="is None, must be a sequence with an entry for each model"),
        bad(scores=[zeros(3, 1)] * 2, says="scores[0] has shape [3, 1], must be [3]"),
        bad(labels=[zeros(2, dtype=int64)] * 2, says="labels[0] has shape [2], must be [3]"),
        bad(labels=[zeros((), dtype=int64)] * 2, says="labels[0] has shape [], must be [3]"),
        bad(boxes=[zeros(3, 4, dtype=complex64)] * 2, says="boxes[0] has dtype complex64, which"),
        bad(scores=[zeros(3, dtype=int32)] * 2, says="scores[0] has dtype int32, must be a"),
        bad(weights=(1, 2, 3), says="has 3 values, must have 2, one for each model"),
        bad(weights=[NAN, 1], says="weights[0] is nan, must be >= 0 and finite"),
        bad(weights=[INF, 1], says="weights[0] is inf, must be >= 0 and finite"),
        bad(min_score=-1, says="is -1, must be >= 0 and finite"),
        bad(min_score=INF, says="is inf, must be >= 0 and finite"),
        bad_type(scores=[zeros(3), np.zeros(3)], says="scores[1] is a ndarray, must be a"),
        bad_type(device="cpu", says="is for arrays; move tensors with .to('cpu')"),
        bad_type(weights="a", says="is 'a', must be a number for each"),
        bad_type(weights=3, says="is 3, must be a number for each"),
        bad_type(weights=[None, 1.0], says="is [None, 1.0], must be a number for each"),
    ),
    "matrix_nms": Errors(
        {"objects": zeros(3, 4), "scores": zeros(3)},
        bad(objects=zeros(3, 5), says="has shape [3, 5], must be [N, 4] (boxes) or [N, H, W]"),
        bad(objects=zeros(4), says="has shape [4], must be [N, 4] (boxes) or [N, H, W] (masks)"),
        bad(objects=zeros(3, 1, 5, 5, dtype=bool), says="has shape [3, 1, 5, 5], must be [N, 4]"),
        bad(scores=zeros(4), says="has shape [4], must be [3]"),
        bad(scores=zeros(3, 1), says="has shape [3, 1], must be [3]"),
        bad(idxs=zeros(4, dtype=int64), says="has shape [4], must be [3]"),
        bad(idxs=tensor(1), says="has shape [], must be [3]"),
        bad(objects=zeros(3, 4, dtype=bool), says="has dtype bool, boxes must be of a floating"),
        bad(objects=zeros(3, 5, 5), says="has dtype float32, masks must be bool or uint8"),
        bad(objects=zeros(3, 4, dtype=complex64), says="has dtype complex64, which is not"),
        bad(scores=IDS, says="has dtype int64, must be a floating type"),
        bad(idxs=zeros(3, dtype=bool), says="has dtype bool, must be an integer type"),
        bad(method="hard", says="is 'hard', must be 'gaussian' or 'linear'"),
        bad(idxs=tensor(1, dtype=int64), says="has shape [], must be [3]"),
        *DECAY,
        *OUTPUTS,
        bad_type(objects=[[0.0, 0, 1, 1]], says="is a list, must be a torch.Tensor or a"),
        bad_type(scores=np.zeros(3), says="is a ndarray, must be a torch.Tensor"),
        bad_type(device="cpu", says="is for arrays; move tensors with .to('cpu')"),
    ),
    "nms": Errors(
        {"boxes": zeros(3, 4), "scores": zeros(3), "iou_threshold": 0.5},
        *one_list(4),
        *THRESHOLDS,
        *OUTPUTS,
        bad(boxes=zeros(0, 4), scores=zeros(0), iou_threshold=INF, says="is inf, must be in [0,"),
        bad(score_threshold=NAN, says="is nan, must be a number"),
        bad_type(**{**ARRAYS, "scores": [1.0, 2.0, 3.0]}, says="is a list, must be a numpy"),
        bad_type(**{**ARRAYS, "scores": np.zeros(3, "<U1")}, says="has dtype <U1"),
        bad(iou_threshold="a", says="is 'a', must be a number"),
        bad(score_threshold="a", says="is 'a', must be a number or None"),
        bad(iou_threshold=None, says="is None, must be a number"),
        bad_type(max_output=zeros(2, 1), says="is tensor([[0.], [0.]]), must be an integer"),
        bad(iou_threshold=zeros(2, 1), says="is tensor([[0.], [0.]]), must be a number"),
    ),
    "batched_nms": Errors(
        {
            "boxes": zeros(3, 4),
            "scores": zeros(3),
            "idxs": zeros(3, dtype=int64),
            "iou_threshold": 0.5,
        },
        bad(boxes=zeros(3, 5), says="has shape [3, 5], must be [N, 4] or [B, N, 4]"),
        bad(boxes=zeros(1, 2, 3, 4), says="has shape [1, 2, 3, 4], must be [N, 4] or [B, N, 4]"),
        bad(scores=zeros(4), says="has shape [4], must be [3]"),
        bad(scores=zeros(3, 2), says="has shape [3, 2], must be [3]"),
        bad(boxes=zeros(2, 7, 4), scores=zeros(2, 6), says="has shape [2, 6], must be [2, 7] or"),
        bad(boxes=zeros(2, 7, 4), scores=zeros(2, 5, 7), says="has shape [2, 5, 7], must be [2,"),
        bad(boxes=zeros(2, 7, 4), scores=zeros(14), says="has shape [14], must be [2, 7] or [2,"),
        bad(idxs=zeros(4, dtype=int64), says="has shape [4], must be [3]"),
        bad(idxs=zeros(3, 1, dtype=int64), says="has shape [3, 1], must be [3]"),
        bad(
            boxes=zeros(2, 7, 4),
            scores=zeros(2, 7),
            idxs=zeros(7, dtype=int64),
            says="has shape [7], must be [2, 7]",
        ),
        bad(idxs=None, says="must be given for boxes of shape [3, 4]"),
        bad(boxes=zeros(2, 7, 4), scores=zeros(2, 7, 5), says="idxs can't be given with scores"),
        bad(iou_threshold=2, says="is 2, must be in [0, 1]"),
        bad(max_output=-1, says="is -1, must be >= 0"),
        bad(
            boxes=zeros(2, 7, 4),
            scores=zeros(2, 7),
            score_threshold=NAN,
            says="is nan, must be a number",
        ),
        bad(idxs=zeros(3, dtype=bool), says="has dtype bool, must be an integer type"),
        bad_type(boxes=None, says="is a NoneType, must be a torch.Tensor or a numpy.ndarray"),
        bad_type(
            boxes=np.zeros((3, 4), np.float32),
            scores=np.zeros(3, np.float32),
            idxs=[1, 2, 3],
            says="is a list, must be",
        ),
        bad(idxs=zeros(3, dtype=int64, device="meta"), says="is on meta, boxes is on cpu"),
    ),
    "nms_padded": Errors(
        {"boxes": zeros(2, 3, 4), "scores": zeros(2, 3), "iou_threshold": 0.5, "max_output": 3},
        bad(boxes=zeros(3, 4), says="has shape [3, 4], must be [B, N, 4]"),
        bad(boxes=zeros(2, 3, 5), says="has shape [2, 3, 5], must be"),
        bad(scores=zeros(2, 4), says="has shape [2, 4], must be [2, 3]"),
        bad(scores=zeros(2, 3, 5), says="has shape [2, 3, 5], must be [2, 3]"),
        bad(iou_threshold=-1, says="is -1, must be in [0, 1]"),
        bad(max_output=2**63, says="is 9223372036854775808, must be below 2^63"),
        bad(max_output=2**62, says="indices of shape [2, 4611686018427387904] can't be allocated"),
        bad(max_output=-1, says="is -1, must be >= 0"),
        bad(score_threshold=NAN, says="is nan, must be a number"),
        bad(scores=zeros(2, 3, dtype=uint8), says="has dtype uint8, must be a floating type"),
        bad_type(boxes=(1, 2, 3), says="is a tuple, must be a torch.Tensor or a numpy.ndarray"),
        bad_type(max_output=None, says="is None, must be an integer"),
        bad_type(max_output="a", says="is 'a', must be an integer"),
        bad(scores=zeros(2, 3, device="meta"), says="is on meta, boxes is on cpu"),
        bad(score_threshold=[1], says="is [1], must be a number or None"),
        bad(max_output=2**60, says="indices of shape [2, 1152921504606846976] can't be allocated"),
    ),
    "soft_nms": Errors(
        {"boxes": zeros(3, 4), "scores": zeros(3)},
        *one_list(4),
        *SOFT,
        bad(iou_threshold="a", says="is 'a', must be a number"),
        bad(sigma=[1], says="is [1], must be a number"),
        bad(method=1, says="is 1, must be a string"),
    ),
    "soft_nms_rotated": Errors(ROTATED, *one_list(5), *SOFT, *GROUPS),
    "batched_soft_nms": Errors(
        {"boxes": zeros(3, 4), "scores": zeros(3), "idxs": zeros(3, dtype=int64)},
        *SOFT,
        *(
            bad(
                boxes=zeros(2, 7, 4),
                scores=zeros(2, 7, 5),
                iou_threshold=threshold,
                says=f"is {threshold}, must be in [0, 1]",
            )
            for threshold in (1.5, -0.25, NAN, 2)
        ),
        bad(boxes=zeros(3, 5), says="has shape [3, 5], must be [N, 4] or [B, N, 4]"),
        bad(scores=zeros(4), says="has shape [4], must be [3]"),
        bad(scores=zeros(3, 2), says="has shape [3, 2], must be [3]"),
        bad(boxes=zeros(2, 7, 4), scores=zeros(2, 6), says="has shape [2, 6], must be [2, 7] or"),
        bad(idxs=None, says="must be given for boxes of shape [3, 4]"),
        bad(boxes=zeros(2, 7, 4), scores=zeros(2, 7, 5), says="idxs can't be given with scores"),
        *KINDS,
        *GROUPS,
        bad_type(
            boxes=np.zeros((3, 4), object),
            scores=np.zeros(3, np.float32),
            idxs=np.zeros(3, np.int64),
            says="has dtype object",
        ),
        bad(boxes=zeros(3, 4, device="meta"), says="scores is on cpu, boxes is on meta"),
    ),
    "nms_rotated": Errors(
        {**ROTATED, "iou_threshold": 0.5},
        *one_list(5),
        *GROUPS,
        *THRESHOLDS,
        *OUTPUTS,
        bad(score_threshold=NAN, says="is nan, must be a number"),
        bad(idxs=zeros(3, 1, dtype=int64), says="has shape [3, 1], must be [3]"),
    ),
    "nms_match": Errors(
        {"boxes": zeros(3, 4), "scores": zeros(3), "iou_threshold": 0.5},
        *one_list(4),
        *THRESHOLDS,
    ),
    "weighted_boxes_fusion_1d": Errors(
        {"segments": [zeros(3, 2)] * 2, "scores": SCORES, "labels": LABELS},
        *of_models("segments", 2),
        UNKNOWN,
    ),
    "weighted_boxes_fusion_3d": Errors(
        {"boxes": [zeros(3, 6)] * 2, "scores": SCORES, "labels": LABELS},
        *of_models("boxes", 6),
        UNKNOWN,
    ),
    "non_maximum_weighted": Errors(
        {"boxes": BOXES, "scores": SCORES, "labels": LABELS}, *of_models("boxes", 4)
    ),
    "ops.weighted_boxes_fusion": Errors(
        {
            "boxes": BOXES,
            "scores": SCORES,
            "labels": [zeros(3, dtype=int64), zeros(3, dtype=int64)],
            "weights": [1.0, 1.0],
        },
        bad(boxes=[], says="is empty, must have an entry for each model"),
        bad(scores=[zeros(3)] * 3, says="has 3 entries, boxes has 2"),
        bad(labels=[IDS], says="has 1 entries, boxes has 2"),
        bad(weights=[1.0] * 3, says="has 3 values, must have 2, one for each"),
    ),
}
