"""Bad input of soft_nms, batched_soft_nms, nms_rotated, soft_nms_rotated and nms_match."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import visops
from bad_input import Row, check, table
from torch import Tensor

NAN, INF = float("nan"), float("inf")
META: dict[str, Any] = {"device": "meta"}
Arguments = tuple[Any, ...]
Case = tuple[str, Arguments, dict[str, Any]]  # message, arguments, keywords


def zeros(*shape: int, dtype: torch.dtype = torch.float32, **where: Any) -> Tensor:
    return torch.zeros(shape, dtype=dtype, **where)


def ids(*shape: int, dtype: torch.dtype = torch.int64, **where: Any) -> Tensor:
    return torch.zeros(shape or (3,), dtype=dtype, **where)


BOXES, ROTATED, SCORES = zeros(3, 4), zeros(3, 5), zeros(3)
# Valid arguments, by function; each row below replaces one of them.
SOFT: Arguments = (BOXES, SCORES)
SOFT_GROUPS: Arguments = (BOXES, SCORES, ids())
SOFT_CLASSES: Arguments = (zeros(2, 7, 4), zeros(2, 7, 5), None)
TURNED: Arguments = (ROTATED, SCORES, 0.5)
SOFT_TURNED: Arguments = (ROTATED, SCORES)
MATCH: Arguments = (BOXES, SCORES, 0.5)


def of_boxes(op: str, right: Arguments, last: int = 4) -> list[Case]:
    """Messages of every function that takes boxes [N, last] and scores [N]."""
    rest = right[2:]
    wrong = zeros(3, 9 - last)
    return [
        (f"{op}: boxes has shape [3, {9 - last}], must be [N, {last}]", (wrong, SCORES, *rest), {}),
        (f"{op}: boxes has shape [{last}], must be [N", (zeros(last), zeros(1), *rest), {}),
        (f"{op}: boxes has shape [], must be [N", (zeros(), zeros(1), *rest), {}),
        (f"{op}: boxes has shape [1], must be [N", (zeros(1), zeros(0), *rest), {}),
        (f"{op}: scores has shape [4], must be [3]", (right[0], zeros(4), *rest), {}),
        (f"{op}: scores has shape [3, 1], must be [3]", (right[0], zeros(3, 1), *rest), {}),
        (f"{op}: scores has shape [], must be [3]", (right[0], zeros(), *rest), {}),
        (
            f"{op}: scores has dtype int64, must be a floating type",
            (right[0], ids(), *rest),
            {},
        ),
        (
            f"{op}: scores has dtype bool, must be a floating type",
            (right[0], ids(dtype=torch.bool), *rest),
            {},
        ),
        (
            f"{op}: boxes has dtype bool, must be a floating or integer type",
            (right[0].bool(), SCORES, *rest),
            {},
        ),
        (
            f"{op}: boxes has dtype complex64, which is not supported",
            (right[0].to(torch.complex64), SCORES, *rest),
            {},
        ),
        (
            f"{op}: boxes has dtype uint32, which is not supported",
            (right[0].to(torch.uint32), SCORES, *rest),
            {},
        ),
    ]


def of_soft(op: str, right: Arguments) -> list[Case]:
    """Messages of both soft functions about options, even those that the method ignores."""
    allowed = "must be 'linear', 'gaussian' or 'hard'"
    return [
        (f"{op}: method is 'foo', {allowed}", right, {"method": "foo"}),
        (f"{op}: method is '', {allowed}", right, {"method": ""}),
        (f"{op}: method is 'Linear', {allowed}", right, {"method": "Linear"}),
        (f"{op}: method is 'naive', {allowed}", right, {"method": "naive"}),
        (f"{op}: iou_threshold is 1.5, must be in [0, 1]", right, {"iou_threshold": 1.5}),
        (f"{op}: iou_threshold is -0.25, must be in [0, 1]", right, {"iou_threshold": -0.25}),
        (f"{op}: iou_threshold is nan, must be in [0, 1]", right, {"iou_threshold": NAN}),
        (
            f"{op}: iou_threshold is 2, must be in [0, 1]",
            right,
            {"iou_threshold": 2, "method": "gaussian"},
        ),
        (f"{op}: sigma is 0, must be > 0 and finite", right, {"sigma": 0}),
        (
            f"{op}: sigma is -0.5, must be > 0 and finite",
            right,
            {"sigma": -0.5, "method": "gaussian"},
        ),
        (f"{op}: sigma is nan, must be > 0 and finite", right, {"sigma": NAN, "method": "hard"}),
        (
            f"{op}: sigma is inf, must be > 0 and finite",
            right,
            {"sigma": INF, "method": "gaussian"},
        ),
        (f"{op}: min_score is -1, must be >= 0 and finite", right, {"min_score": -1}),
        (f"{op}: min_score is nan, must be >= 0 and finite", right, {"min_score": NAN}),
        (f"{op}: min_score is inf, must be >= 0 and finite", right, {"min_score": INF}),
        (f"{op}: max_output is -1, must be >= 0", right, {"max_output": -1}),
        (f"{op}: max_output is -2, must be >= 0", right, {"max_output": np.int64(-2)}),
    ]


CASES: dict[str, list[Case]] = {
    "soft_nms": [
        *of_boxes("soft_nms", SOFT),
        *of_soft("soft_nms", SOFT),
        (
            "soft_nms: boxes has shape [2, 3, 4], must be [N, 4]",
            (zeros(2, 3, 4), zeros(2, 3)),
            {},
        ),
    ],
    "soft_nms_rotated": [
        *of_boxes("soft_nms_rotated", SOFT_TURNED, 5),
        *of_soft("soft_nms_rotated", SOFT_TURNED),
        (
            "soft_nms_rotated: boxes has shape [2, 3, 5], must be [N, 5]",
            (zeros(2, 3, 5), zeros(2, 3)),
            {},
        ),
        ("soft_nms_rotated: idxs has shape [2], must be [3]", SOFT_TURNED, {"idxs": ids(2)}),
        (
            "soft_nms_rotated: idxs has dtype bool, must be an integer type",
            SOFT_TURNED,
            {"idxs": ids(dtype=torch.bool)},
        ),
    ],
    "batched_soft_nms": [
        *of_soft("batched_soft_nms", SOFT_GROUPS),
        *of_soft("batched_soft_nms", SOFT_CLASSES),
        (
            "batched_soft_nms: boxes has shape [3, 5], must be [N, 4] or [B, N, 4]",
            (zeros(3, 5), SCORES, ids()),
            {},
        ),
        ("batched_soft_nms: scores has shape [4], must be [3]", (BOXES, zeros(4), ids()), {}),
        (
            "batched_soft_nms: scores has shape [3, 2], must be [3]",
            (BOXES, zeros(3, 2), ids()),
            {},
        ),
        (
            "batched_soft_nms: scores has shape [2, 6], must be [2, 7] or [2, 7, classes]",
            (zeros(2, 7, 4), zeros(2, 6), None),
            {},
        ),
        ("batched_soft_nms: idxs has shape [4], must be [3]", (BOXES, SCORES, ids(4)), {}),
        (
            "batched_soft_nms: idxs must be given for boxes of shape [3, 4]",
            (BOXES, SCORES, None),
            {},
        ),
        (
            "batched_soft_nms: idxs can't be given with scores of shape [2, 7, 5]; each class is",
            (zeros(2, 7, 4), zeros(2, 7, 5), ids(2, 7)),
            {},
        ),
        (
            "batched_soft_nms: idxs has dtype bool, must be an integer type",
            (BOXES, SCORES, zeros(3).bool()),
            {},
        ),
        (
            "batched_soft_nms: idxs has dtype bool, must be an integer type",
            (BOXES, SCORES, ids(dtype=torch.bool)),
            {},
        ),
        (
            "batched_soft_nms: scores has dtype int64, must be a floating type",
            (BOXES, ids(), ids()),
            {},
        ),
    ],
    "nms_rotated": [
        *of_boxes("nms_rotated", TURNED, last=5),
        (
            "nms_rotated: boxes has shape [2, 3, 5], must be [N, 5]",
            (zeros(2, 3, 5), zeros(2, 3), 0.5),
            {},
        ),
        ("nms_rotated: iou_threshold is 1.5, must be in [0, 1]", (*TURNED[:2], 1.5), {}),
        ("nms_rotated: iou_threshold is nan, must be in [0, 1]", (*TURNED[:2], NAN), {}),
        ("nms_rotated: iou_threshold is -1, must be in [0, 1]", (*TURNED[:2], -1), {}),
        ("nms_rotated: max_output is -1, must be >= 0", TURNED, {"max_output": -1}),
        (
            "nms_rotated: score_threshold is nan, must be a number",
            TURNED,
            {"score_threshold": NAN},
        ),
        ("nms_rotated: idxs has shape [4], must be [3]", TURNED, {"idxs": ids(4)}),
        ("nms_rotated: idxs has shape [3, 1], must be [3]", TURNED, {"idxs": ids(3, 1)}),
        (
            "nms_rotated: idxs has dtype bool, must be an integer type",
            TURNED,
            {"idxs": zeros(3).bool()},
        ),
        (
            "nms_rotated: idxs has dtype bool, must be an integer type",
            TURNED,
            {"idxs": ids(dtype=torch.bool)},
        ),
    ],
    "nms_match": [
        *of_boxes("nms_match", MATCH),
        ("nms_match: iou_threshold is 1.5, must be in [0, 1]", (*MATCH[:2], 1.5), {}),
        ("nms_match: iou_threshold is nan, must be in [0, 1]", (*MATCH[:2], NAN), {}),
    ],
}


def as_array(value: Any) -> Any:
    return value.numpy() if isinstance(value, Tensor) else value


def rows(error: type[Exception], arrays: bool) -> list[Row]:
    found: list[Row] = []
    for name, cases in CASES.items():
        for message, arguments, keywords in cases:
            if arrays:
                arguments = tuple(as_array(a) for a in arguments)
                keywords = {k: as_array(v) for k, v in keywords.items()}

            def call(name: str = name, arguments: Any = arguments, keywords: Any = keywords) -> Any:
                return getattr(visops, name)(*arguments, **keywords)

            found.append((error, message, call))
    return found


@table(*rows(RuntimeError, arrays=False))
def test_tensors(error: type[Exception], message: str, call: Any) -> None:
    check(error, message, call)


@table(*rows(ValueError, arrays=True))
def test_arrays(error: type[Exception], message: str, call: Any) -> None:
    check(error, message, call)


EVERY = {
    "soft_nms": SOFT,
    "batched_soft_nms": SOFT_GROUPS,
    "nms_rotated": TURNED,
    "soft_nms_rotated": SOFT_TURNED,
    "nms_match": MATCH,
}


@pytest.mark.parametrize("name", EVERY)
def test_kinds(name: str) -> None:
    function, right = getattr(visops, name), EVERY[name]
    arrays = tuple(as_array(a) for a in right)
    one_of = "must be a torch.Tensor or a numpy.ndarray"
    for message, arguments in (
        (f"boxes is a list, {one_of}", ([[0.0, 0, 1, 1]], *right[1:])),
        (f"boxes is a NoneType, {one_of}", (None, *right[1:])),
        ("scores is a list, must be a torch.Tensor", (right[0], [1.0, 2, 3], *right[2:])),
        (
            "scores is a ndarray, must be a torch.Tensor",
            (right[0], np.zeros(3), *right[2:]),
        ),
        (
            "scores is a Tensor, must be a numpy.ndarray, as boxes is",
            (arrays[0], SCORES, *arrays[2:]),
        ),
        ("boxes has dtype object", (arrays[0].astype(object), *arrays[1:])),
    ):
        check(TypeError, f"{name}: {message}", partial(function, *arguments))
    check(
        TypeError,
        f"{name}: device is for arrays; move tensors with .to('cpu')",
        lambda: function(*right, device="cpu"),
    )


@pytest.mark.parametrize("name", ["soft_nms", "batched_soft_nms", "nms_rotated"])
def test_max_output_is_an_integer(name: str) -> None:
    for wrong in (1.5, "a", [1]):
        check(
            TypeError,
            f"{name}: max_output is {wrong!r}, must be an integer",
            partial(getattr(visops, name), *EVERY[name], max_output=wrong),
        )


@pytest.mark.parametrize("name", EVERY)
def test_devices(name: str) -> None:
    function, right = getattr(visops, name), EVERY[name]
    ends = "; all tensors must be on one device"
    elsewhere = tuple(a.to("meta") if isinstance(a, Tensor) else a for a in right)
    for message, arguments in (
        ("scores is on meta, boxes is on cpu", (right[0], elsewhere[1], *right[2:])),
        ("scores is on cpu, boxes is on meta", (elsewhere[0], *right[1:])),
    ):
        check(RuntimeError, f"{name}: {message}{ends}", partial(function, *arguments))


def test_devices_of_ids() -> None:
    ends = "; all tensors must be on one device"
    there = ids(**META)
    check(
        RuntimeError,
        f"batched_soft_nms: idxs is on meta, boxes is on cpu{ends}",
        lambda: visops.batched_soft_nms(BOXES, SCORES, there),
    )
    check(
        RuntimeError,
        f"nms_rotated: idxs is on meta, boxes is on cpu{ends}",
        lambda: visops.nms_rotated(ROTATED, SCORES, 0.5, idxs=there),
    )


def test_numpy_numbers_are_numbers() -> None:
    rng = np.random.default_rng(0)
    corner = rng.random((30, 2))
    boxes = torch.from_numpy(np.concatenate([corner, corner + rng.random((30, 2))], 1))
    scores = torch.from_numpy(rng.random(30))
    call: Any = visops.soft_nms
    plain = call(boxes, scores, iou_threshold=0.25, sigma=0.5, min_score=0.125, max_output=5)
    numbers = {
        "iou_threshold": np.float32(0.25),
        "sigma": np.float16(0.5),
        "min_score": np.float64(0.125),
        "max_output": np.int32(5),
    }
    found = call(boxes, scores, **numbers)
    assert len(plain[0]) == 5
    assert all(torch.equal(a, b) for a, b in zip(found, plain, strict=True))
    # Integers for floating arguments.
    assert len(call(boxes, scores, iou_threshold=1, sigma=2, min_score=0)[0]) == 30


def test_arguments_of_a_wrong_type() -> None:
    call: Any = visops.soft_nms
    for name, wrong in (("iou_threshold", "a"), ("sigma", [1]), ("method", 1)):
        with pytest.raises(RuntimeError, match=rf"^visops\.soft_nms: {name} is .*, must be"):
            call(BOXES, SCORES, **{name: wrong})


@pytest.mark.cuda
@pytest.mark.parametrize("name", EVERY)
def test_cuda(name: str) -> None:
    function, right = getattr(visops, name), EVERY[name]
    moved = tuple(a.cuda() if isinstance(a, Tensor) else a for a in right)
    check(
        RuntimeError,
        f"{name}: scores is on cpu, boxes is on cuda:0",
        lambda: function(moved[0], SCORES, *moved[2:]),
    )
    check(
        RuntimeError,
        f"{name}: scores is on cuda:0, boxes is on cpu",
        lambda: function(right[0], moved[1], *right[2:]),
    )
