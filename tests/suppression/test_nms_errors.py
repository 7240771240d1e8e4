"""Bad input of non-maximum suppression: each row has an input and the message that it must give."""

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
META: dict[str, Any] = {"device": "meta"}


def boxes(*shape: int, dtype: torch.dtype = torch.float32, **where: Any) -> Tensor:
    return torch.zeros(*(shape or (3,)), 4, dtype=dtype, **where)


def scores(*shape: int, dtype: torch.dtype = torch.float32, **where: Any) -> Tensor:
    return torch.zeros(shape or (3,), dtype=dtype, **where)


def ids(*shape: int, dtype: torch.dtype = torch.int64, **where: Any) -> Tensor:
    return torch.zeros(shape or (3,), dtype=dtype, **where)


@dataclass(frozen=True)
class Suppress:
    """A call; of_arrays() is the same with arrays instead of tensors."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    limits: dict[str, Any]

    def __call__(self) -> Any:
        return self.function(*self.arguments, **self.limits)

    def of_arrays(self) -> "Suppress":
        arrays = tuple(a.numpy() if isinstance(a, Tensor) else a for a in self.arguments)
        return Suppress(self.function, arrays, self.limits)


def nms(b: Any, s: Any, threshold: Any = 0.5, **limits: Any) -> Suppress:
    return Suppress(visops.nms, (b, s, threshold), limits)


def batched(b: Any, s: Any, i: Any, threshold: Any = 0.5, **limits: Any) -> Suppress:
    return Suppress(visops.batched_nms, (b, s, i, threshold), limits)


def padded(b: Any, s: Any, threshold: Any = 0.5, most: Any = 3, **limits: Any) -> Suppress:
    return Suppress(visops.nms_padded, (b, s, threshold, most), limits)


SHAPES = (
    ("nms: boxes has shape [3, 5], must be [N, 4]", nms(torch.zeros(3, 5), scores())),
    ("nms: boxes has shape [4], must be [N, 4]", nms(torch.zeros(4), scores(1))),
    ("nms: boxes has shape [], must be [N, 4]", nms(torch.zeros(()), scores(1))),
    ("nms: boxes has shape [1], must be [N, 4]", nms(torch.zeros(1), scores(0))),
    ("nms: boxes has shape [2, 3, 4], must be [N, 4]", nms(boxes(2, 3), scores(2, 3))),
    ("nms: scores has shape [4], must be [3]", nms(boxes(), scores(4))),
    ("nms: scores has shape [3, 1], must be [3]", nms(boxes(), scores(3, 1))),
    ("nms: scores has shape [], must be [3]", nms(boxes(), torch.tensor(1.0))),
    (
        "batched_nms: boxes has shape [3, 5], must be [N, 4] or [B, N, 4]",
        batched(torch.zeros(3, 5), scores(), ids()),
    ),
    (
        "batched_nms: boxes has shape [1, 2, 3, 4], must be [N, 4] or [B, N, 4]",
        batched(boxes(1, 2, 3), scores(1, 2, 3), None),
    ),
    ("batched_nms: scores has shape [4], must be [3]", batched(boxes(), scores(4), ids())),
    ("batched_nms: scores has shape [3, 2], must be [3]", batched(boxes(), scores(3, 2), ids())),
    (
        "batched_nms: scores has shape [2, 6], must be [2, 7] or [2, 7, classes]",
        batched(boxes(2, 7), scores(2, 6), None),
    ),
    (
        "batched_nms: scores has shape [2, 5, 7], must be [2, 7] or [2, 7, classes]",
        batched(boxes(2, 7), scores(2, 5, 7), None),
    ),
    (
        "batched_nms: scores has shape [14], must be [2, 7] or [2, 7, classes]",
        batched(boxes(2, 7), scores(14), None),
    ),
    ("batched_nms: idxs has shape [4], must be [3]", batched(boxes(), scores(), ids(4))),
    ("batched_nms: idxs has shape [3, 1], must be [3]", batched(boxes(), scores(), ids(3, 1))),
    (
        "batched_nms: idxs has shape [7], must be [2, 7]",
        batched(boxes(2, 7), scores(2, 7), ids(7)),
    ),
    (
        "batched_nms: idxs must be given for boxes of shape [3, 4]",
        batched(boxes(), scores(), None),
    ),
    (
        "batched_nms: idxs can't be given with scores of shape [2, 7, 5]; each class is a group",
        batched(boxes(2, 7), scores(2, 7, 5), ids(2, 7)),
    ),
    ("nms_padded: boxes has shape [3, 4], must be [B, N, 4]", padded(boxes(), scores())),
    ("nms_padded: boxes has shape [2, 3, 5], must be", padded(torch.zeros(2, 3, 5), scores(2, 3))),
    ("nms_padded: scores has shape [2, 4], must be [2, 3]", padded(boxes(2, 3), scores(2, 4))),
    (
        "nms_padded: scores has shape [2, 3, 5], must be [2, 3]",
        padded(boxes(2, 3), scores(2, 3, 5)),
    ),
)
VALUES = (
    ("nms: iou_threshold is 1.5, must be in [0, 1]", nms(boxes(), scores(), 1.5)),
    ("nms: iou_threshold is -0.25, must be in [0, 1]", nms(boxes(), scores(), -0.25)),
    ("nms: iou_threshold is nan, must be in [0, 1]", nms(boxes(), scores(), NAN)),
    ("nms: iou_threshold is inf, must be in [0, 1]", nms(boxes(0), scores(0), INF)),
    ("nms: max_output is -2, must be >= 0", nms(boxes(), scores(), max_output=-2)),
    ("nms: max_output is -1, must be >= 0", nms(boxes(), scores(), max_output=-1)),
    (
        "nms: max_output is -1, must be >= 0",
        nms(boxes(), scores(), max_output=np.int64(-1)),
    ),
    (
        "nms: score_threshold is nan, must be a number",
        nms(boxes(), scores(), score_threshold=NAN),
    ),
    (
        "batched_nms: iou_threshold is 2, must be in [0, 1]",
        batched(boxes(), scores(), ids(), 2),
    ),
    (
        "batched_nms: max_output is -1, must be >= 0",
        batched(boxes(2, 7), scores(2, 7, 5), None, max_output=-1),
    ),
    (
        "batched_nms: score_threshold is nan, must be a number",
        batched(boxes(2, 7), scores(2, 7), None, score_threshold=NAN),
    ),
    (
        "nms_padded: iou_threshold is -1, must be in [0, 1]",
        padded(boxes(2, 3), scores(2, 3), -1),
    ),
    (
        "nms_padded: max_output is 9223372036854775808, must be below 2^63",
        padded(boxes(2, 3), scores(2, 3), most=2**63),
    ),
    (
        "nms_padded: indices of shape [2, 4611686018427387904] can't be allocated on cpu",
        padded(boxes(2, 3), scores(2, 3), most=2**62),
    ),
    ("nms_padded: max_output is -1, must be >= 0", padded(boxes(2, 3), scores(2, 3), most=-1)),
    (
        "nms_padded: score_threshold is nan, must be a number",
        padded(boxes(2, 3), scores(2, 3), score_threshold=NAN),
    ),
)
DTYPES = (
    (
        "nms: scores has dtype int64, must be a floating type",
        nms(boxes(), scores(dtype=torch.int64)),
    ),
    (
        "nms: scores has dtype bool, must be a floating type",
        nms(boxes(), scores(dtype=torch.bool)),
    ),
    (
        "nms: boxes has dtype bool, must be a floating or integer type",
        nms(boxes(dtype=torch.bool), scores()),
    ),
    (
        "nms: boxes has dtype complex64, which is not supported",
        nms(boxes(dtype=torch.complex64), scores()),
    ),
    (
        "nms: scores has dtype complex128, which is not supported",
        nms(boxes(), scores(dtype=torch.complex128)),
    ),
    (
        "nms: boxes has dtype uint32, which is not supported",
        nms(boxes(dtype=torch.uint32), scores()),
    ),
    (
        "batched_nms: idxs has dtype bool, must be an integer type",
        batched(boxes(), scores(), ids(dtype=torch.bool)),
    ),
    (
        "nms_padded: scores has dtype uint8, must be a floating type",
        padded(boxes(2, 3), scores(2, 3, dtype=torch.uint8)),
    ),
)


@table(*((RuntimeError, *row) for row in SHAPES + VALUES + DTYPES))
def test_tensors(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@table(*((ValueError, message, call.of_arrays()) for message, call in SHAPES + VALUES + DTYPES))
def test_arrays(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


def box_array(dtype: Any = np.float32) -> np.ndarray:
    return np.zeros((3, 4), dtype)


def score_array(dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(3, dtype)


@table(
    (
        TypeError,
        "nms: boxes is a list, must be a torch.Tensor or a numpy.ndarray",
        nms([[0.0, 0.0, 1.0, 1.0]], scores(1)),
    ),
    (
        TypeError,
        "batched_nms: boxes is a NoneType, must be a torch.Tensor or a numpy.ndarray",
        batched(None, scores(), ids()),
    ),
    (
        TypeError,
        "nms_padded: boxes is a tuple, must be a torch.Tensor or a numpy.ndarray",
        padded((1, 2, 3), scores()),
    ),
    (
        TypeError,
        "nms: scores is a Tensor, must be a numpy.ndarray, as boxes is",
        nms(box_array(), scores()),
    ),
    (TypeError, "nms: scores is a list, must be a numpy", nms(box_array(), [1.0, 2.0, 3.0])),
    (TypeError, "nms: scores is a list, must be a torch.Tensor", nms(boxes(), [1.0, 2.0, 3.0])),
    (TypeError, "nms: scores is a ndarray, must be a torch.Tensor", nms(boxes(), score_array())),
    (
        TypeError,
        "batched_nms: idxs is a list, must be",
        batched(box_array(), score_array(), [1, 2, 3]),
    ),
    (
        TypeError,
        "nms: max_output is 1.5, must be an integer",
        nms(boxes(), scores(), max_output=1.5),
    ),
    (
        TypeError,
        "nms_padded: max_output is None, must be an integer",
        padded(boxes(2, 3), scores(2, 3), most=None),
    ),
    (
        TypeError,
        "nms_padded: max_output is 'a', must be an integer",
        padded(boxes(2, 3), scores(2, 3), most="a"),
    ),
    (
        TypeError,
        "nms: device is for arrays; move tensors with .to('cpu')",
        nms(boxes(), scores(), device="cpu"),
    ),
    (TypeError, "nms: boxes has dtype object", nms(box_array(object), score_array())),
    (TypeError, "nms: scores has dtype <U1", nms(box_array(), score_array("U1"))),
)
def test_kinds(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


def test_numpy_numbers_are_numbers() -> None:
    rng = np.random.default_rng(0)
    values = rng.random((30, 4)), rng.random(30)
    tensors: Any = [torch.from_numpy(v) for v in values]
    call: Any = visops.nms
    expected = call(*tensors, 0.25, max_output=5, score_threshold=0.5).tolist()
    numbers: Any = (np.float32(0.25), np.int32(5), np.float16(0.5))
    pairs: Any = (values, tensors)
    for pair in pairs:
        found = call(*pair, numbers[0], max_output=numbers[1], score_threshold=numbers[2])
        assert found.tolist() == expected


def test_devices() -> None:
    """All tensors must be on one device."""
    ends = "; all tensors must be on one device"
    for message, call in (
        ("nms: scores is on meta, boxes is on cpu", nms(boxes(), scores(**META))),
        ("nms: scores is on cpu, boxes is on meta", nms(boxes(**META), scores())),
        (
            "batched_nms: idxs is on meta, boxes is on cpu",
            batched(boxes(), scores(), ids(**META)),
        ),
        (
            "nms_padded: scores is on meta, boxes is on cpu",
            padded(boxes(2, 3), scores(2, 3, **META)),
        ),
    ):
        check(RuntimeError, message + ends, call)


def test_arguments_of_a_wrong_type() -> None:
    for call, name in (
        (nms(boxes(), scores(), "a"), "iou_threshold"),
        (nms(boxes(), scores(), score_threshold="a"), "score_threshold"),
        (padded(boxes(2, 3), scores(2, 3), score_threshold=[1]), "score_threshold"),
    ):
        with pytest.raises(
            RuntimeError, match=rf"^visops\.nms(_padded)?: {name} is .*, must be a number"
        ):
            call()


def test_more_memory_than_there_is() -> None:
    with pytest.raises(RuntimeError, match=r"^visops\.nms_padded: indices of .* can't be alloc"):
        visops.nms_padded(boxes(2, 3), scores(2, 3), 0.5, 2**60)


@pytest.mark.cuda
def test_cuda() -> None:
    for message, call in (
        ("nms: scores is on cpu, boxes is on cuda:0", nms(boxes(device="cuda"), scores())),
        ("nms: scores is on cuda:0, boxes is on cpu", nms(boxes(), scores(device="cuda"))),
        (
            "batched_nms: idxs is on cpu, boxes is on cuda:0",
            batched(boxes(device="cuda"), scores(device="cuda"), ids()),
        ),
    ):
        check(RuntimeError, message, call)
