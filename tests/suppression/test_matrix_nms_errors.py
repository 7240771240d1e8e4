"""Bad input of matrix suppression: each row has an input and the message that it must give."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import visops
from bad_input import check, table
from torch import Tensor

NAN, INF = float("nan"), float("inf")


@dataclass(frozen=True)
class Suppress:
    """A call; of_arrays() is the same with arrays instead of tensors."""

    arguments: tuple[Any, ...]
    options: dict[str, Any]

    def __call__(self) -> Any:
        return visops.matrix_nms(*self.arguments, **self.options)

    def of_arrays(self) -> "Suppress":
        arrays = tuple(a.numpy() if isinstance(a, Tensor) else a for a in self.arguments)
        return Suppress(arrays, self.options)


def suppress(objects: Any = None, scores: Any = None, idxs: Any = None, **options: Any) -> Suppress:
    """By default, three boxes."""
    return Suppress(
        (
            torch.zeros(3, 4) if objects is None else objects,
            torch.zeros(3) if scores is None else scores,
            idxs,
        ),
        options,
    )


ROWS = (
    (
        "objects has shape [3, 5], must be [N, 4] (boxes) or [N, H, W] (masks)",
        suppress(torch.zeros(3, 5)),
    ),
    (
        "objects has shape [4], must be [N, 4] (boxes) or [N, H, W] (masks)",
        suppress(torch.zeros(4)),
    ),
    (
        "objects has shape [3, 1, 5, 5], must be [N, 4] (boxes) or [N, H, W] (masks)",
        suppress(torch.zeros(3, 1, 5, 5, dtype=torch.bool)),
    ),
    ("scores has shape [4], must be [3]", suppress(scores=torch.zeros(4))),
    ("scores has shape [3, 1], must be [3]", suppress(scores=torch.zeros(3, 1))),
    ("idxs has shape [4], must be [3]", suppress(idxs=torch.zeros(4).long())),
    ("idxs has shape [], must be [3]", suppress(idxs=torch.tensor(1))),
    (
        "objects has dtype bool, boxes must be of a floating or integer type",
        suppress(torch.zeros(3, 4, dtype=torch.bool)),
    ),
    (
        "objects has dtype float32, masks must be bool or uint8",
        suppress(torch.zeros(3, 5, 5)),
    ),
    (
        "objects has dtype complex64, which is not supported",
        suppress(torch.zeros(3, 4, dtype=torch.complex64)),
    ),
    (
        "scores has dtype int64, must be a floating type",
        suppress(scores=torch.zeros(3).long()),
    ),
    ("idxs has dtype bool, must be an integer type", suppress(idxs=torch.zeros(3).bool())),
    ("method is 'hard', must be 'gaussian' or 'linear'", suppress(method="hard")),
    ("sigma is 0, must be > 0 and finite", suppress(sigma=0)),
    ("sigma is -2, must be > 0 and finite", suppress(sigma=-2, method="linear")),
    ("sigma is nan, must be > 0 and finite", suppress(sigma=NAN)),
    ("sigma is inf, must be > 0 and finite", suppress(sigma=INF)),
    ("min_score is -0.5, must be >= 0 and finite", suppress(min_score=-0.5)),
    ("min_score is nan, must be >= 0 and finite", suppress(min_score=NAN)),
    ("min_score is inf, must be >= 0 and finite", suppress(min_score=INF)),
    ("max_output is -1, must be >= 0", suppress(max_output=-1)),
    ("max_output is -2, must be >= 0", suppress(max_output=-2)),
)


@table(*((RuntimeError, f"matrix_nms: {message}", call) for message, call in ROWS))
def test_tensors(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@table(*((ValueError, f"matrix_nms: {message}", call.of_arrays()) for message, call in ROWS))
def test_arrays(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@table(
    (
        TypeError,
        "matrix_nms: objects is a list, must be a torch.Tensor or a numpy.ndarray",
        suppress([[0.0, 0, 1, 1]]),
    ),
    (
        TypeError,
        "matrix_nms: scores is a ndarray, must be a torch.Tensor",
        suppress(scores=np.zeros(3)),
    ),
    (
        TypeError,
        "matrix_nms: max_output is 1.5, must be an integer",
        suppress(max_output=1.5),
    ),
    (
        TypeError,
        "matrix_nms: device is for arrays; move tensors with .to('cpu')",
        suppress(device="cpu"),
    ),
    (
        RuntimeError,
        "matrix_nms: max_output is -2, must be >= 0",
        lambda: torch.ops.visops.matrix_nms(torch.zeros(3, 4), torch.zeros(3), None, max_output=-2),
    ),
)
def test_kinds(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)
