"""Bad input of boxes: what is changed of a valid call, and what the error says of it."""

import numpy as np
from torch import (
    Tensor,
    bool,
    complex64,
    float8_e4m3fn,
    float64,
    int64,
    tensor,
    uint8,
    zeros,
)

from operators.case import INF, NAN, Errors, bad, bad_type, bad_value


def many(bits: int, columns: int = 4) -> Tensor:
    """Return 2**bits boxes that share their memory."""
    return zeros(1, columns).expand(2**bits, columns)


ERRORS: dict[str, Errors] = {
    "box_iou": Errors(
        {"boxes1": zeros(3, 4), "boxes2": zeros(3, 4)},
        bad(boxes1=zeros(3, 5), says="has shape [3, 5], must be [N, 4]"),
        bad(boxes2=zeros(4), says="has shape [4], must be [N, 4]"),
        bad(boxes2=zeros(()), says="has shape [], must be [N, 4]"),
        bad(boxes1=zeros(1), says="has shape [1], must be [N, 4]"),
        bad(boxes1=zeros(3, 4, dtype=bool), says="has dtype bool, must be a floating or integer"),
        bad(boxes2=zeros(3, 4, dtype=complex64), says="has dtype complex64, which is not"),
        bad_type(boxes1=[[0.0, 0.0, 1.0, 1.0]], says="is a list, must be a torch.Tensor or a"),
        bad_type(boxes1=np.zeros((3, 4), np.float32), says="boxes2 is a Tensor, must be a"),
        bad_type(device="cpu", says="is for arrays; move tensors with .to('cpu')"),
        bad_type(
            boxes1=np.zeros((3, 4), object),
            boxes2=np.zeros((3, 4), np.float32),
            says="has dtype object",
        ),
        bad(boxes2=zeros(3, 4, device="meta"), says="is on meta, boxes1 is on cpu"),
        bad(boxes1=zeros(3, 4, device="meta"), says="boxes2 is on cpu, boxes1 is on meta"),
        bad(boxes1=many(25), boxes2=many(25), says="result of shape [33554432, 33554432] can't"),
        bad(boxes1=many(31), boxes2=many(31), says="result of shape [2147483648, 2147483648]"),
        bad(boxes1=many(40), boxes2=many(40), says="result of shape [1099511627776,"),
        bad_value(fmt="yxyx", says="is 'yxyx', must be 'xyxy', 'xywh' or 'cxcywh', or 'cxcywhr'"),
        bad_value(kind="giou", says="is 'giou', must be 'iou' or 'iof'"),
        bad_value(
            boxes2=zeros(2, 4),
            aligned=True,
            says="boxes1 has shape [3, 4] and boxes2 [2, 4], must have equally many boxes if",
        ),
        bad_value(
            boxes1=zeros(2, 3, 4),
            boxes2=zeros(3, 2, 4),
            says="has shape [2, 3, 4] and boxes2 [3, 2, 4], batch dimensions must broadcast",
        ),
        bad_value(boxes1=zeros(2, 3, 5), says="has shape [2, 3, 5], must be [..., N, 4]"),
        bad_value(kind="iof2", says="is 'iof2', must be 'iou' or 'iof'"),
    ),
    "generalized_box_iou": Errors(
        {"boxes1": zeros(3, 4), "boxes2": zeros(3, 4)},
        bad(boxes2=zeros(3, 5), says="has shape [3, 5], must be [N, 4]"),
        bad(boxes1=many(31), boxes2=many(31), says="result of shape [2147483648, 2147483648]"),
        bad_value(boxes2=zeros(3, 4, dtype=bool), aligned=True, says="has dtype bool, must be a"),
    ),
    "distance_box_iou": Errors(
        {"boxes1": zeros(3, 4), "boxes2": zeros(3, 4)},
        bad(boxes1=zeros(4), says="has shape [4], must be [N, 4]"),
        bad(eps=-1, says="is -1, must be >= 0 and finite"),
        bad_type(eps="a", says="is 'a', must be a number"),
        bad(boxes1=many(31), boxes2=many(31), says="result of shape [2147483648, 2147483648]"),
        bad_value(eps=-1, aligned=True, says="is -1, must be >= 0 and finite"),
    ),
    "complete_box_iou": Errors(
        {"boxes1": zeros(3, 4), "boxes2": zeros(3, 4)},
        bad(boxes1=zeros(3, 5), says="has shape [3, 5], must be"),
        bad(eps=NAN, says="is nan, must be >= 0 and finite"),
        bad(eps=INF, says="is inf, must be >= 0"),
        bad(boxes2=zeros(3, 4, dtype=bool), says="has dtype bool, must be a floating or integer"),
        bad_type(boxes2=None, says="is a NoneType, must be a torch.Tensor"),
        bad_value(eps=2**2000, says="has 2001 bits, too many"),
        bad(boxes1=many(31), boxes2=many(31), says="result of shape [2147483648, 2147483648]"),
        bad_value(fmt="cxcywhr", says="is 'cxcywhr', must be 'xyxy', 'xywh' or 'cxcywh'"),
        bad_value(eps=INF, aligned=True, says="is inf, must be >= 0 and finite"),
    ),
    "box_iou_rotated": Errors(
        {"boxes1": zeros(3, 5), "boxes2": zeros(3, 5)},
        bad(boxes1=zeros(3, 4), says="has shape [3, 4], must be [N, 5]"),
        bad(boxes2=zeros(5), says="has shape [5], must be [N, 5]"),
        bad(boxes1=zeros(3, 5, dtype=bool), says="has dtype bool, must be a floating or integer"),
        bad_type(boxes2=np.zeros((3, 4), np.float32), says="is a ndarray, must be"),
        bad(boxes2=zeros(3, 5, device="meta"), says="is on meta, boxes1 is on cpu"),
        bad(boxes1=many(25, 5), boxes2=many(25, 5), says="result of shape [33554432, 33554432]"),
        bad(boxes1=many(31, 5), boxes2=many(31, 5), says="result of shape [2147483648,"),
        bad(boxes1=many(40, 5), boxes2=many(40, 5), says="result of shape [1099511627776,"),
        bad_value(boxes2=zeros(3, 5, device="meta"), aligned=True, says="is on meta, boxes1 is"),
    ),
    "distance_box_iou_loss": Errors(
        {"boxes1": zeros(3, 4), "boxes2": zeros(3, 4)},
        bad_value(eps=2**2000, says="has 2001 bits, too many"),
        bad_value(boxes2=zeros(2, 4), says="has shape [2, 4], must fit boxes1's [3, 4]"),
        bad_value(boxes1=tensor(1.0), says="has shape [], must be [..., 4]"),
        bad_type(
            boxes1=zeros(2, 4), boxes2=zeros(2, 4), eps=None, says="is None, must be a number"
        ),
    ),
    "generalized_box_iou_loss": Errors(
        {"boxes1": zeros(3, 4), "boxes2": zeros(3, 4)},
        bad_value(reduction="max", says="is 'max', must be 'none', 'mean' or 'sum'"),
        bad_value(boxes2=zeros(2, 4, dtype=bool), says="has dtype bool, must be a floating or"),
        bad_type(
            boxes1=zeros(2, 4), boxes2=zeros(2, 4), eps=None, says="is None, must be a number"
        ),
    ),
    "complete_box_iou_loss": Errors(
        {"boxes1": zeros(3, 4), "boxes2": zeros(3, 4)},
        bad_type(boxes1=[[0, 0, 1, 1]], says="is a list, must be a torch.Tensor"),
        bad_value(boxes1=zeros(2, 4, dtype=complex64), says="has dtype complex64, must be a"),
        bad_value(
            boxes2=zeros(2, 4, device="meta"),
            says="is on meta, boxes1 is on cpu; all tensors must be on one",
        ),
        bad_type(
            boxes1=zeros(2, 4), boxes2=zeros(2, 4), eps=None, says="is None, must be a number"
        ),
        bad_type(
            boxes2=zeros(0, 4, dtype=float8_e4m3fn),
            says="has dtype float8_e4m3fn, must be float16, bfloat16, float32, float64 or an",
        ),
    ),
    "ops.box_iou": Errors(
        {"boxes1": zeros(3, 4), "boxes2": zeros(3, 4)},
        bad(kind="foo", says="is 'foo', must be iou, iof, iof2, generalized, distance or complete"),
    ),
    "ops.box_iou_backward": Errors(
        {
            "grad": zeros(3, 3),
            "boxes1": zeros(3, 4),
            "boxes2": zeros(3, 4),
            "kind": "iou",
            "eps": 1e-07,
        },
        bad(kind="", says="is '', must be iou, iof, iof2, generalized, distance or complete"),
        bad(grad=zeros(3, 4), boxes2=zeros(5, 4), says="has shape [3, 4], must be [3, 5]"),
        bad(grad=zeros(15), boxes2=zeros(5, 4), says="has shape [15], must be [3, 5]"),
        bad(grad=zeros(3, 3, dtype=float64), says="has dtype float64, must be float32"),
        bad(boxes2=zeros(3, 4, dtype=float64), says="grad has dtype float32, must be float64"),
        bad(boxes1=zeros(3, 4, dtype=int64), says="has dtype int64, must be a floating type to"),
        bad(boxes2=zeros(3, 5), says="has shape [3, 5], must be [N, 4]"),
        bad(eps=-1.0, says="is -1, must be >= 0 and finite"),
        bad(grad=zeros(3, 3, device="meta"), says="boxes1 is on cpu, grad is on meta"),
    ),
    "ops.box_iou_rotated_backward": Errors(
        {"grad": zeros(3, 3), "boxes1": zeros(3, 5), "boxes2": zeros(3, 5)},
        bad(grad=zeros(5, 3), boxes2=zeros(5, 5), says="has shape [5, 3], must be [3, 5]"),
        bad(boxes1=zeros(3, 5, dtype=uint8), says="has dtype uint8, must be a floating type"),
        bad(kind="", says="is '', must be iou, iof or iof2"),
    ),
    "ops.box_iou_rotated": Errors(
        {"boxes1": zeros(3, 5), "boxes2": zeros(3, 5)},
        bad(kind="complete", says="is 'complete', must be iou, iof or iof2"),
    ),
}
