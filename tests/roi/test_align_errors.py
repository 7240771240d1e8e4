"""Bad input to RoIAlign: each row is an input and the message it must give."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import visops
from bad_input import check, table
from torch import Tensor

NAN, INF = float("nan"), float("inf")
META: dict[str, Any] = {"device": "meta"}
OPS = torch.ops.visops
ENDS = "; all tensors must be on one device"


def maps(*size: int, dtype: torch.dtype = torch.float32, **where: Any) -> Tensor:
    return torch.zeros(size or (2, 3, 8, 9), dtype=dtype, **where)


def boxes(*rows: Any, dtype: torch.dtype = torch.float32, **where: Any) -> Tensor:
    """Good boxes, followed by the given rows."""
    good = [0.0, 1, 1, 5, 5]
    return torch.tensor([good, good, *rows], dtype=dtype, **where)


def call(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Callable[[], Any]:
    return lambda: function(*arguments, **keywords)


def pool(
    input: Any = None, rows: Any = None, size: Any = 7, *options: Any, **keywords: Any
) -> Callable[[], Any]:
    given = maps() if input is None else input
    return call(
        visops.roi_align, given, boxes() if rows is None else rows, size, *options, **keywords
    )


def levels(
    features: Any = None,
    rows: Any = None,
    size: Any = 7,
    scales: Any = (1.0, 0.5),
    *options: Any,
    **keywords: Any,
) -> Callable[[], Any]:
    given = [maps(), maps(2, 3, 4, 4)] if features is None else features
    given_boxes = boxes() if rows is None else rows
    return call(visops.multiscale_roi_align, given, given_boxes, size, scales, *options, **keywords)


@table(
    (RuntimeError, "roi_align: input has shape [3, 4], must be [N, C, H, W]", pool(maps(3, 4))),
    (
        RuntimeError,
        "roi_align: input has shape [1, 2, 3, 4, 5], must be [N, C, H, W]",
        pool(maps(1, 2, 3, 4, 5)),
    ),
    (RuntimeError, "roi_align: boxes has shape [2, 4], must be [K, 5]", pool(None, boxes()[:, 1:])),
    (RuntimeError, "roi_align: boxes has shape [5], must be [K, 5]", pool(None, boxes()[0])),
    (RuntimeError, "roi_align: boxes has shape [], must be [K, 5]", pool(None, torch.tensor(0.0))),
    (RuntimeError, "roi_align: output_size is [0, 7], must be positive", pool(size=(0, 7))),
    (RuntimeError, "roi_align: output_size is [-1, -1], must be positive", pool(size=-1)),
    (
        RuntimeError,
        "roi_align: output_size is [2147483648, 1], must be below 2^31",
        pool(size=(2**31, 1)),
    ),
    (
        RuntimeError,
        "roi_align: spatial_scale is 0, must be finite and > 0",
        pool(None, None, 7, 0.0),
    ),
    (
        RuntimeError,
        "roi_align: spatial_scale is -1, must be finite and > 0",
        pool(None, None, 7, -1),
    ),
    (RuntimeError, "roi_align: spatial_scale is nan, must be", pool(None, None, 7, NAN)),
    (RuntimeError, "roi_align: spatial_scale is inf, must be", pool(None, None, 7, INF)),
    (
        RuntimeError,
        "roi_align: sampling_ratio is 5000, must be at most 4096",
        pool(None, None, 7, 1.0, 5000),
    ),
    (
        RuntimeError,
        "roi_align: sampling_ratio is 257, must be at most 256 for maxima",
        pool(None, None, 7, 1.0, 257, reduce="max"),
    ),
    (
        RuntimeError,
        "roi_align: input has size [2, 3, 0, 5]; with boxes its height and width must be positive",
        pool(maps(2, 3, 0, 5)),
    ),
    (
        RuntimeError,
        "roi_align: input has dtype int32, must be float16, bfloat16, float32, float64 or uint8",
        pool(maps(dtype=torch.int32)),
    ),
    (
        RuntimeError,
        "roi_align: input has dtype complex64, which is not supported",
        pool(maps(dtype=torch.complex64)),
    ),
    (
        RuntimeError,
        "roi_align: boxes has dtype bool, must be a floating or integer type",
        pool(None, boxes(dtype=torch.bool)),
    ),
)
def test_arguments(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@pytest.mark.parametrize("reduce", ["mean", "max"])
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([2, 1, 1, 5, 5], "boxes[2] has batch index 2, input has batch size 2"),
        ([1e6, 1, 1, 5, 5], "boxes[2] has batch index 1e+06, input has batch size 2"),
        ([-1, 1, 1, 5, 5], "boxes[2] has batch index -1, input has batch size 2"),
        ([0.5, 1, 1, 5, 5], "boxes[2] has batch index 0.5, must be an integer"),
        ([NAN, 1, 1, 5, 5], "boxes[2] has batch index nan, must be an integer"),
        ([INF, 1, 1, 5, 5], "boxes[2] has batch index inf, must be an integer"),
        ([0, NAN, 1, 5, 5], "boxes[2] is [0, nan, 1, 5, 5], must be finite"),
        ([0, 1, NAN, 5, 5], "boxes[2] is [0, 1, nan, 5, 5], must be finite"),
        ([1, 1, 1, INF, 5], "boxes[2] is [1, 1, 1, inf, 5], must be finite"),
        ([1, 1, -INF, 5, 5], "boxes[2] is [1, 1, -inf, 5, 5], must be finite"),
        ([0, -3e38, 1, 3e38, 5], "boxes[2] is [0, -3e+38, 1, 3e+38, 5], must be finite"),
        (
            [0, 5, 1, 4, 5],
            "boxes[2] is [0, 5, 1, 4, 5], must have x2 >= x1 and y2 >= y1 where aligned is True",
        ),
        ([0, 1, 5, 5, 4.5], "boxes[2] is [0, 1, 5, 5, 4.5], must have x2 >= x1 and y2 >= y1"),
    ],
    ids=str,
)
def test_boxes(row: list[float], message: str, reduce: str) -> None:
    """The first bad box is named, whatever the layout and dtype."""
    for dtype in (torch.float32, torch.float64):
        if dtype == torch.float64 and 3e38 in row:
            continue
        rows = boxes(row, [7, 1, 1, 5, 5], dtype=dtype)
        for form in (rows, rows.mT.contiguous().mT):
            bad = pool(None, form, (2, 2), 1.0, 2, True, reduce=reduce)
            check(RuntimeError, f"roi_align: {message}", bad)


def test_boxes_are_checked_on_their_map() -> None:
    """Boxes may overflow on a float32 map and not on a float64 one."""
    far = boxes([0, 1, 1, 1e30, 5], dtype=torch.float64)
    message = "roi_align: boxes[2] is [0, 1, 1, 1e+30, 5], must be finite, and its size too in"
    check(RuntimeError, message + " float32", pool(None, far, 7, 1e10))
    assert visops.roi_align(maps(dtype=torch.float64), far, 7, 1e10).shape == (3, 3, 7, 7)
    inverted = boxes([0, 5, 5, 1, 1])
    assert visops.roi_align(maps(), inverted, 7).shape == (3, 3, 7, 7)
    integers = boxes([9, 1, 1, 5, 5], dtype=torch.int64)
    check(
        RuntimeError,
        "roi_align: boxes[2] has batch index 9, input has batch size 2",
        pool(None, integers),
    )


@table(
    (TypeError, "roi_align: input is a list, must be a torch.Tensor", pool([1, 2])),
    (TypeError, "roi_align: boxes is a dict, must be a tensor or a list", pool(None, {})),
    (
        TypeError,
        "roi_align: boxes[1] is a float, must be a torch.Tensor",
        pool(None, [boxes()[:, 1:], 2.0]),
    ),
    (
        ValueError,
        "roi_align: boxes[1] has shape [2, 5], must be [L, 4]",
        pool(None, [boxes()[:, 1:], boxes()]),
    ),
    (
        ValueError,
        "roi_align: boxes[0] has shape [4], must be [L, 4]",
        pool(None, [torch.zeros(4)] * 2),
    ),
    (
        ValueError,
        "roi_align: boxes is a list of 3, input has batch size 2, must be at most one tensor for",
        pool(None, [boxes()[:, 1:]] * 3),
    ),
    (ValueError, "roi_align: reduce is 'sum', must be 'mean' or 'max'", pool(reduce="sum")),
    (
        TypeError,
        "roi_align: output_size is (1, 2, 3), must be an integer or (height, width)",
        pool(size=(1, 2, 3)),
    ),
    (TypeError, "roi_align: output_size is 2.5, must be an integer", pool(size=2.5)),
    (TypeError, "roi_align: output_size is 'ab', must be an integer", pool(size="ab")),
    (TypeError, "roi_align: output_size is None, must be an integer", pool(size=None)),
)
def test_kinds(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@table(
    (
        RuntimeError,
        "multiscale_roi_align: features has 2 tensors, scales has 3 numbers",
        levels(scales=[1.0, 0.5, 0.25]),
    ),
    (ValueError, "multiscale_roi_align: features is empty, must have 1 to 8 maps", levels([])),
    (
        RuntimeError,
        "multiscale_roi_align: scales has 9 numbers, must have 1 to 8",
        levels([maps()] * 9, scales=[0.5**i for i in range(9)]),
    ),
    (
        RuntimeError,
        "multiscale_roi_align: features[1] has shape [2, 4, 8, 9], must begin with [2, 3]",
        levels([maps(), maps(2, 4, 8, 9)]),
    ),
    (
        RuntimeError,
        "multiscale_roi_align: features[1] has shape [1, 3, 8, 9], must begin with [2, 3]",
        levels([maps(), maps(1, 3, 8, 9)]),
    ),
    (
        RuntimeError,
        "multiscale_roi_align: features[1] has shape [3], must be [N, C, H, W]",
        levels([maps(), maps(3)]),
    ),
    (
        RuntimeError,
        "multiscale_roi_align: features[1] has dtype float64, the first level has float32",
        levels([maps(), maps(dtype=torch.float64)]),
    ),
    (
        RuntimeError,
        "multiscale_roi_align: features[1] is on meta, features[0] is on cpu" + ENDS,
        levels([maps(), maps(**META)]),
    ),
    (
        RuntimeError,
        "multiscale_roi_align: scales is [1, 0], must be finite and > 0",
        levels(scales=[1.0, 0.0]),
    ),
    (
        RuntimeError,
        "multiscale_roi_align: scales is [0.5, 1], ",
        levels(scales=[0.5, 1.0]),
    ),
    (
        RuntimeError,
        "multiscale_roi_align: scales is [1, 1], ",
        levels(scales=[1.0, 1.0]),
    ),
    (
        RuntimeError,
        "multiscale_roi_align: canonical_scale is 0, must be finite and > 0",
        levels(canonical_scale=0),
    ),
    (
        RuntimeError,
        "multiscale_roi_align: level_rule is 'mmdet', must be torchvision or detectron2",
        levels(level_rule="mmdet"),
    ),
    (
        RuntimeError,
        "multiscale_roi_align: boxes[2] is [0, 5, 1, 4, 5], must have x2 >= x1 and y2 >= y1",
        levels(rows=boxes([0, 5, 1, 4, 5])),
    ),
    (
        RuntimeError,
        "multiscale_roi_align: boxes[2] has batch index 3, features has batch size 2",
        levels(rows=boxes([3, 1, 1, 4, 5])),
    ),
    (
        RuntimeError,
        "multiscale_roi_align: boxes[2] is [0, 1, 1, 3e+19, 3e+19], must be finite",
        levels(rows=boxes([0, 1, 1, 3e19, 3e19])),
    ),
    (
        TypeError,
        "multiscale_roi_align: features is a Tensor, must be a list or dict of tensors",
        levels(maps()),
    ),
    (
        TypeError,
        "multiscale_roi_align: features[1] is a NoneType, must be a torch.Tensor",
        levels({"a": maps(), "b": None}),
    ),
)
def test_pyramids(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


OPTIONS = (1.0, 2, False)
GRAD = torch.zeros(2, 3, 7, 7)
INDEX = torch.zeros(2, 3, 7, 7, dtype=torch.int64)


def backward_input(grad: Tensor, size: list[int] | None = None) -> Callable[[], Any]:
    return call(OPS.roi_align_backward_input, grad, boxes(), size or [2, 3, 8, 9], *OPTIONS, False)


@table(
    (
        RuntimeError,
        "roi_align_backward_input: grad has shape [3, 3, 7, 7], must be [2, 3, 7, 7]",
        backward_input(torch.zeros(3, 3, 7, 7)),
    ),
    (
        RuntimeError,
        "roi_align_backward_input: input_size is [2, 4, 8, 9], must have 3 channels for this grad",
        backward_input(GRAD, [2, 4, 8, 9]),
    ),
    (
        RuntimeError,
        "roi_align_backward_input: input_size is [8, 9], must have four numbers",
        backward_input(GRAD, [8, 9]),
    ),
    (
        RuntimeError,
        "roi_align_backward_input: grad has dtype uint8, must be a floating type",
        backward_input(GRAD.byte()),
    ),
    (
        RuntimeError,
        "roi_align_backward_boxes: grad has shape [2, 2, 7, 7], must be [2, 3, 7, 7]",
        call(OPS.roi_align_backward_boxes, torch.zeros(2, 2, 7, 7), maps(), boxes(), *OPTIONS),
    ),
    (
        RuntimeError,
        "roi_align_backward_boxes: grad has dtype float64, must be float32",
        call(OPS.roi_align_backward_boxes, GRAD.double(), maps(), boxes(), *OPTIONS),
    ),
    (
        RuntimeError,
        "roi_align_backward_boxes: boxes has dtype int64, must be a floating type to have",
        call(OPS.roi_align_backward_boxes, GRAD, maps(), boxes().long(), *OPTIONS),
    ),
    (
        RuntimeError,
        "roi_align_max_at: index has dtype float32, must be int64",
        call(OPS.roi_align_max_at, maps(), GRAD, boxes(), [7, 7], *OPTIONS),
    ),
    (
        RuntimeError,
        "roi_align_max_at: index has shape [2, 3, 7, 7], must be [2, 3, 7, 6]",
        call(OPS.roi_align_max_at, maps(), INDEX, boxes(), [7, 6], *OPTIONS),
    ),
    (
        RuntimeError,
        "multiscale_roi_align_backward_input: sizes is [8, 9], must have two numbers for each of 2",
        call(
            OPS.multiscale_roi_align_backward_input,
            GRAD,
            boxes(),
            [8, 9],
            2,
            [1.0, 0.5],
            2,
            False,
            224.0,
            4,
            "torchvision",
            [False, False],
        ),
    ),
)
def test_operators(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


def test_indices_of_no_sample() -> None:
    """Whatever the index, nothing out of bounds is read."""
    maps_of_ones = torch.ones(2, 3, 8, 9)
    for value in (-(2**62), -2, 4, 10**6, 2**62):
        index = torch.full((2, 3, 7, 7), value)
        found = OPS.roi_align_max_at(maps_of_ones, index, boxes(), [7, 7], *OPTIONS)
        assert bool(((found == 0) | (found - 1).abs().lt(1e-6)).all())
        OPS.roi_align_max_backward_input(GRAD + 1, index, boxes(), [2, 3, 8, 9], *OPTIONS, False)
        OPS.roi_align_max_backward_boxes(GRAD + 1, index, maps(), boxes(), *OPTIONS)


@pytest.mark.parametrize("reduce", ["mean", "max"])
def test_more_memory_than_there_is(reduce: str) -> None:
    for size in (2**20, 2**31 - 1):
        with pytest.raises(RuntimeError, match=r"^visops\.roi_align: result of .* can't be alloc"):
            visops.roi_align(maps(), boxes(), size, reduce=reduce)


def test_devices() -> None:
    for message, bad in (
        ("roi_align: boxes is on meta, input is on cpu", pool(None, boxes(**META))),
        ("roi_align: boxes is on cpu, input is on meta", pool(maps(**META))),
        (
            "multiscale_roi_align: boxes is on meta, features[0] is on cpu",
            levels(rows=boxes(**META)),
        ),
    ):
        check(RuntimeError, message + ENDS, bad)


@pytest.mark.cuda
def test_cuda() -> None:
    for message, bad in (
        ("roi_align: boxes is on cpu, input is on cuda:0", pool(maps(device="cuda"))),
        ("roi_align: boxes is on cuda:0, input is on cpu", pool(None, boxes(device="cuda"))),
    ):
        check(RuntimeError, message + ENDS, bad)
