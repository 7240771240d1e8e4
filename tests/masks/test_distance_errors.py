"""Bad input of distance transforms: each row has an input and the message that it must give."""

from collections.abc import Callable
from typing import Any

import torch
import visops
from bad_input import check, table

MASK = torch.zeros(3, 4, dtype=torch.bool)
POINT = torch.zeros(1, 1, dtype=torch.bool)
NAN, INF = float("nan"), float("inf")


def measure(masks: Any = MASK, **options: Any) -> Callable[[], Any]:
    return lambda: visops.distance_transform(masks, **options)


ROWS: tuple[tuple[str, Any, dict[str, Any]], ...] = (
    ("masks has dtype float32, must be bool or uint8", MASK.float(), {}),
    ("masks has dtype int64, must be bool or uint8", MASK.long(), {}),
    ("masks has shape [4], must be [..., H, W]", MASK[0], {}),
    ("masks has shape [3, 4], must be [..., D, H, W]", MASK, {"dims": 3}),
    ("dims is 1, must be 2 or 3", MASK, {"dims": 1}),
    (f"dims is {2**63 - 1}, must be 2 or 3", MASK, {"dims": 2**63 - 1, "spacing": 1.5}),
    (
        "metric is 'l2', must be 'euclidean', 'taxicab' or 'chessboard'",
        MASK,
        {"metric": "l2"},
    ),
    ("spacing has length 3, must be 2", MASK, {"spacing": (1, 2, 3)}),
    ("spacing has length 1, must be 2", MASK, {"spacing": [2.0]}),
    ("spacing is 0, must be from 1e-6 to 1e6", MASK, {"spacing": (1, 0)}),
    ("spacing is -1, must be from 1e-6 to 1e6", MASK, {"spacing": -1}),
    ("spacing is nan, must be from 1e-6 to 1e6", MASK, {"spacing": NAN}),
    ("spacing is inf, must be from 1e-6 to 1e6", MASK, {"spacing": INF}),
    (
        "spacing is for metric 'euclidean'",
        MASK,
        {"spacing": 2.0, "metric": "chessboard"},
    ),
)


@table(
    *(
        (RuntimeError, f"distance_transform: {message}", measure(masks, **options))
        for message, masks, options in ROWS
    )
)
def test_tensors(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@table(
    *(
        (ValueError, f"distance_transform: {message}", measure(masks.numpy(), **options))
        for message, masks, options in ROWS
    )
)
def test_arrays(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@table(
    (
        TypeError,
        "distance_transform: masks is a list, must be a torch.Tensor or a numpy.ndarray",
        measure([[True]]),
    ),
    (
        TypeError,
        "distance_transform: device is for arrays; move tensors with .to('cpu')",
        measure(device="cpu"),
    ),
    (
        TypeError,
        "distance_transform: spacing is 'wide', must be a number or one per axis",
        measure(spacing="wide"),
    ),
    # Refused before anything is allocated: these masks are one byte.
    (
        RuntimeError,
        "distance_transform: masks are 65536 x 32768, must have fewer than 2^31 pixels each",
        measure(POINT.expand(2**16, 2**15)),
    ),
    (
        RuntimeError,
        "distance_transform: masks have a side of 16777217, must be at most 16777216",
        measure(POINT.expand(1, 2**24 + 1)),
    ),
)
def test_kinds(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)
