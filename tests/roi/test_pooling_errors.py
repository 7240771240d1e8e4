"""Bad input to the other poolings: each row is an input and the message it must give."""

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
    return torch.zeros(size or (2, 4, 8, 9), dtype=dtype, **where)


def boxes(*rows: Any, dtype: torch.dtype = torch.float32, **where: Any) -> Tensor:
    """Good boxes, followed by the given rows."""
    good = [0.0, 1, 1, 5, 5]
    return torch.tensor([good, good, *rows], dtype=dtype, **where)


def turned(*rows: Any, dtype: torch.dtype = torch.float32, **where: Any) -> Tensor:
    good = [0.0, 4, 4, 5, 5, 1]
    return torch.tensor([good, good, *rows], dtype=dtype, **where)


def call(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Callable[[], Any]:
    return lambda: function(*arguments, **keywords)


def pool(
    input: Any = None, rows: Any = None, size: Any = 2, *options: Any, **keywords: Any
) -> Callable[[], Any]:
    arguments = (maps() if input is None else input, boxes() if rows is None else rows, size)
    return call(visops.roi_pool, *arguments, *options, **keywords)


def ps(
    input: Any = None, rows: Any = None, size: Any = 2, *options: Any, **keywords: Any
) -> Callable[[], Any]:
    arguments = (maps() if input is None else input, boxes() if rows is None else rows, size)
    return call(visops.ps_roi_align, *arguments, *options, **keywords)


def rotated(
    input: Any = None, rows: Any = None, size: Any = 2, *options: Any, **keywords: Any
) -> Callable[[], Any]:
    arguments = (maps() if input is None else input, turned() if rows is None else rows, size)
    return call(visops.roi_align_rotated, *arguments, *options, **keywords)


@table(
    (RuntimeError, "roi_pool: input has shape [3, 4], must be [N, C, H, W]", pool(maps(3, 4))),
    (RuntimeError, "ps_roi_align: boxes has shape [2, 6], must be [K, 5]", ps(None, turned())),
    (
        RuntimeError,
        "roi_align_rotated: boxes has shape [2, 5], must be [K, 6]",
        rotated(None, boxes()),
    ),
    (RuntimeError, "roi_pool: boxes has shape [5], must be [K, 5]", pool(None, torch.zeros(5))),
    (
        RuntimeError,
        "roi_pool: input has dtype int32, must be float16, bfloat16, float32, float64 or uint8",
        pool(maps(dtype=torch.int32)),
    ),
    (
        RuntimeError,
        "roi_align_rotated: boxes has dtype bool, must be a floating or integer type",
        rotated(None, turned(dtype=torch.bool)),
    ),
    (RuntimeError, "ps_roi_align: output_size is [0, 2], must be positive", ps(size=(0, 2))),
    (RuntimeError, "roi_pool: output_size is [-1, -1], must be positive", pool(size=-1)),
    (
        RuntimeError,
        "roi_align_rotated: spatial_scale is 0, must be finite and > 0",
        rotated(None, None, 2, 0.0),
    ),
    (RuntimeError, "roi_pool: spatial_scale is nan, must be finite", pool(None, None, 2, NAN)),
    (
        RuntimeError,
        "ps_roi_align: sampling_ratio is 5000, must be at most 4096",
        ps(None, None, 2, 1.0, 5000),
    ),
    (
        RuntimeError,
        "roi_align_rotated: sampling_ratio is 257, must be at most 256 for rotated boxes",
        rotated(None, None, 2, 1.0, 257),
    ),
    (
        RuntimeError,
        "roi_pool: input has size [2, 4, 0, 9]; with boxes its height and width must be positive",
        pool(maps(2, 4, 0, 9)),
    ),
    (
        RuntimeError,
        "ps_roi_align: input has 4 channels, must be a multiple of the number of bins, 9",
        ps(size=3),
    ),
    (
        RuntimeError,
        "roi_pool: input has height and width [65536, 32768], must have less than 2^31 pixels",
        pool(torch.zeros(2, 1, 1, 1).expand(2, 1, 65536, 32768)),
    ),
)
def test_arguments(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


def test_boxes() -> None:
    for name, form, row in (("roi_pool", pool, boxes), ("ps_roi_align", ps, boxes)):
        for numbers, message in (
            ([2, 1, 1, 5, 5], "boxes[2] has batch index 2, input has batch size 2"),
            ([-1, 1, 1, 5, 5], "boxes[2] has batch index -1, input has batch size 2"),
            ([0.5, 1, 1, 5, 5], "boxes[2] has batch index 0.5, must be an integer"),
            ([NAN, 1, 1, 5, 5], "boxes[2] has batch index nan, must be an integer"),
            ([0, NAN, 1, 5, 5], "boxes[2] is [0, nan, 1, 5, 5], must be finite"),
            ([0, 1, 1, 5, INF], "boxes[2] is [0, 1, 1, 5, inf], must be finite"),
            ([0, 1, 1, 5, 3e38], "boxes[2] is [0, 1, 1, 5, 3e+38], must be finite"),
        ):
            scale = 2.0 if 3e38 in numbers else 1.0
            check(RuntimeError, f"{name}: {message}", form(None, row(numbers), 2, scale))
    inverted = boxes([0, 5, 1, 4, 5])
    message = "boxes[2] is [0, 5, 1, 4, 5], must have x2 >= x1 and y2 >= y1"
    check(RuntimeError, f"ps_roi_align: {message}", ps(None, inverted))
    assert pool(None, inverted)().shape == (3, 4, 2, 2)


def test_rotated_boxes() -> None:
    for numbers, message in (
        ([2, 1, 1, 5, 5, 0], "boxes[2] has batch index 2, input has batch size 2"),
        ([1.5, 1, 1, 5, 5, 0], "boxes[2] has batch index 1.5, must be an integer"),
        ([0, NAN, 1, 5, 5, 0], "boxes[2] is [0, nan, 1, 5, 5, 0], must be finite"),
        ([0, 1, 1, 5, 5, INF], "boxes[2] is [0, 1, 1, 5, 5, inf], must be finite"),
        (
            [0, 1, 1, -1, 5, 0],
            "boxes[2] is [0, 1, 1, -1, 5, 0], must have width >= 0 and height >= 0 where aligned",
        ),
        (
            [0, 1, 1, 2e7, 5, 0],
            "boxes[2] is [0, 1, 1, 2e+07, 5, 0], its numbers times spatial_scale must be at most "
            "16777216",
        ),
        ([0, 1, -1e30, 5, 5, 0], "boxes[2] is [0, 1, -1e+30, 5, 5, 0], its numbers times"),
    ):
        check(RuntimeError, f"roi_align_rotated: {message}", rotated(None, turned(numbers)))
    assert rotated(None, turned([0, 1, 1, -1, 5, 0]), aligned=False)().shape == (3, 4, 2, 2)
    assert rotated(None, turned([0, 1, 1, 2e7, 5, 0]), 2, 0.5)().shape == (3, 4, 2, 2)


@table(
    (TypeError, "roi_pool: input is a list, must be a torch.Tensor", pool([1.0])),
    (TypeError, "ps_roi_align: boxes is a int, must be a tensor or a list of tensors", ps(None, 3)),
    (
        TypeError,
        "roi_align_rotated: boxes[1] is a list, must be a torch.Tensor",
        rotated(None, [torch.zeros(1, 5), [1]]),
    ),
    (
        ValueError,
        "roi_align_rotated: boxes[0] has shape [1, 4], must be [L, 5]",
        rotated(None, [torch.zeros(1, 4), torch.zeros(1, 5)]),
    ),
    (
        ValueError,
        "roi_pool: boxes is a list of 3, input has batch size 2, must be at most one tensor for",
        pool(None, [torch.zeros(1, 4)] * 3),
    ),
    (TypeError, "roi_pool: output_size is (1, 2, 3), must be an integer or", pool(size=(1, 2, 3))),
    (TypeError, "roi_pool: output_size is 2.5, must be an integer or", pool(size=2.5)),
)
def test_kinds(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


def pool_backward(grad: Tensor, index: Tensor, size: Any = (2, 4, 8, 9)) -> Callable[[], Any]:
    return call(OPS.roi_pool_backward, grad, index, boxes(), size, 1.0, False)


GRAD, INDEX = torch.zeros(2, 4, 2, 2), torch.zeros(2, 4, 2, 2, dtype=torch.int32)


@table(
    (
        RuntimeError,
        "roi_pool_backward: index has shape [2, 4, 2, 2], must be [2, 4, 2, 1]",
        pool_backward(GRAD[..., :1], INDEX),
    ),
    (RuntimeError, "roi_pool_backward: index has dtype int64", pool_backward(GRAD, INDEX.long())),
    (
        RuntimeError,
        "roi_pool_backward: input_size is [2, 3, 8, 9], must have 4 channels for this grad",
        pool_backward(GRAD, INDEX, (2, 3, 8, 9)),
    ),
    (
        RuntimeError,
        "roi_pool_backward: input_size is [2, 4], must have four numbers",
        pool_backward(GRAD, INDEX, (2, 4)),
    ),
    (
        RuntimeError,
        "roi_pool_backward: grad has dtype uint8, must be a floating type",
        pool_backward(GRAD.byte(), INDEX),
    ),
    (
        RuntimeError,
        "ps_roi_align_backward: input_size is [2, 4, 8, 9], must have 16 channels for this grad",
        call(OPS.ps_roi_align_backward, GRAD, boxes(), (2, 4, 8, 9), 1.0, 2, False),
    ),
    (
        RuntimeError,
        "roi_align_rotated_backward: boxes has shape [2, 5], must be [K, 6]",
        call(
            OPS.roi_align_rotated_backward,
            *(GRAD, boxes(), (2, 4, 8, 9), 1.0, 2, True, False, False, False),
        ),
    ),
    (
        RuntimeError,
        "roi_pool_at: index has shape [2, 4, 2], must be [N, C, H, W]",
        call(OPS.roi_pool_at, maps(), INDEX[..., 0], boxes(), 1.0),
    ),
)
def test_backward(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


def test_indices_may_be_anything() -> None:
    """An index that is no pixel of the map counts as no pixel taken."""
    index = torch.tensor([-1, 72, 2**31 - 1, -(2**31)], dtype=torch.int32)
    index = index.reshape(1, 1, 2, 2).expand(2, 4, 2, 2)
    values = OPS.roi_pool_at(torch.ones(2, 4, 8, 9), index, boxes(), 1.0)
    assert torch.equal(values, torch.zeros(2, 4, 2, 2))
    gradient = OPS.roi_pool_backward(
        torch.ones(2, 4, 2, 2), index, boxes(), (2, 4, 8, 9), 1.0, True
    )
    assert torch.equal(gradient, torch.zeros(2, 4, 8, 9))


def test_devices() -> None:
    for message, bad in (
        ("roi_pool: boxes is on meta, input is on cpu", pool(None, boxes(**META))),
        ("ps_roi_align: boxes is on cpu, input is on meta", ps(maps(**META))),
        ("roi_align_rotated: boxes is on meta, input is on cpu", rotated(None, turned(**META))),
        (
            "roi_pool_backward: index is on meta, grad is on cpu",
            pool_backward(GRAD, INDEX.to("meta")),
        ),
    ):
        check(RuntimeError, message + ENDS, bad)


@pytest.mark.parametrize("form", [pool, ps, rotated])
def test_more_memory_than_there_is(form: Callable[..., Callable[[], Any]]) -> None:
    side = 2**20
    rows = (turned if form is rotated else boxes)()[:1].expand(2**20, -1)
    channels = 2**40 if form is ps else 4
    bad = form(torch.zeros(1, 1, 8, 9).expand(1, channels, 8, 9), rows, side)
    with pytest.raises(RuntimeError, match=r"^visops\..*: result of shape .* can't be allocated"):
        bad()


@pytest.mark.cuda
def test_cuda() -> None:
    for message, bad in (
        ("roi_pool: boxes is on cpu, input is on cuda:0", pool(maps(device="cuda"))),
        (
            "roi_align_rotated: boxes is on cuda:0, input is on cpu",
            rotated(None, turned(device="cuda")),
        ),
    ):
        check(RuntimeError, message + ENDS, bad)
