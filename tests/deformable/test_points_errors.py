"""Bad input to point samples: each row is an input and the message it must give."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from bad_input import check, table
from torch import Tensor

OPS = torch.ops.visops
MAPS, POINTS = torch.zeros(2, 3, 4, 5), torch.zeros(2, 6, 2)
GRAD = torch.zeros(2, 3, 6)


def sample(maps: Any = MAPS, points: Any = POINTS, **options: Any) -> Callable[[], Any]:
    return lambda: visops.point_sample(maps, points, **options)


def by_operator(part: str, *arguments: Any) -> Callable[[], Any]:
    return lambda: getattr(OPS, f"point_sample{part}")(*arguments)


@table(
    (
        RuntimeError,
        "point_sample: input has shape [3, 4, 5], points has [2, 6, 2]; input must be "
        "[B, C, H, W], points [B, ..., 2]",
        sample(MAPS[0]),
    ),
    (
        RuntimeError,
        "point_sample: input has shape [2, 3, 4, 5], points has [6, 2]; input must be "
        "[B, C, H, W], points [B, ..., 2]",
        sample(points=POINTS[0]),
    ),
    (
        RuntimeError,
        "point_sample: points has shape [2, 6, 3], must be [2, P, 2]",
        sample(points=torch.zeros(2, 6, 3)),
    ),
    (
        RuntimeError,
        "point_sample: points has shape [3, 6, 2], must be [2, P, 2]",
        sample(points=torch.zeros(3, 6, 2)),
    ),
    (
        RuntimeError,
        "point_sample: input has maps of 0 x 5 pixels, must have at least one",
        sample(MAPS[:, :, :0]),
    ),
    (
        RuntimeError,
        "point_sample: input has dtype int64, must be bool, uint8 or a floating type",
        sample(MAPS.long()),
    ),
    (
        RuntimeError,
        "point_sample: points has dtype float64, must be float16, bfloat16 or float32 for input of "
        "float32",
        sample(points=POINTS.double()),
    ),
    (
        RuntimeError,
        "point_sample: points has dtype float32, must be float64 for input of float64",
        sample(MAPS.double()),
    ),
    (
        RuntimeError,
        "point_sample: points has dtype int64, must be float16, bfloat16 or float32 for input of "
        "float32",
        sample(points=POINTS.long()),
    ),
    (
        RuntimeError,
        "point_sample: mode is 'bicubic', must be 'bilinear' or 'nearest'",
        sample(mode="bicubic"),
    ),
    (
        RuntimeError,
        "point_sample: padding_mode is 'wrap', must be 'zeros', 'border' or 'reflection'",
        sample(padding_mode="wrap"),
    ),
    (
        TypeError,
        "point_sample: points is a ndarray, must be a torch.Tensor",
        sample(points=POINTS.numpy()),
    ),
    (
        ValueError,
        "point_sample: mode is '', must be 'bilinear' or 'nearest'",
        sample(MAPS.numpy(), POINTS.numpy(), mode=""),
    ),
)
def test_messages(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@table(
    (
        RuntimeError,
        "point_sample_backward_input: input_size is [2, 3, 4], must have four numbers",
        by_operator("_backward_input", GRAD, POINTS, [2, 3, 4]),
    ),
    (
        RuntimeError,
        "point_sample_backward_input: grad has shape [2, 3, 6], must be [2, 4, 6]",
        by_operator("_backward_input", GRAD, POINTS, [2, 4, 4, 5]),
    ),
    (
        RuntimeError,
        "point_sample_backward_input: input has shape [2, -3, H, W], sizes must be >= 0",
        by_operator("_backward_input", GRAD, POINTS, [2, -3, 4, 5]),
    ),
    (
        RuntimeError,
        "point_sample_backward_input: input has maps of 4 x -5 pixels, must have at least one",
        by_operator("_backward_input", GRAD, POINTS, [2, 3, 4, -5]),
    ),
    (
        RuntimeError,
        "point_sample_backward_input: grad has dtype int64, must be a floating type",
        by_operator("_backward_input", GRAD.long(), POINTS, [2, 3, 4, 5]),
    ),
    (
        RuntimeError,
        "point_sample_backward_points: grad has dtype float16, must be float32 for input of uint8",
        by_operator("_backward_points", GRAD.half(), MAPS.byte(), POINTS),
    ),
    (
        RuntimeError,
        "point_sample_backward_points: grad has shape [2, 3, 5], must be [2, 3, 6]",
        by_operator("_backward_points", GRAD[..., 1:], MAPS, POINTS),
    ),
    (
        RuntimeError,
        "point_sample_backward_points: mode is 'nearest', must be 'bilinear': points have no "
        "gradient otherwise",
        by_operator("_backward_points", GRAD, MAPS, POINTS, "nearest"),
    ),
)
def test_operators(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@pytest.mark.parametrize("size", [2**30 + 1, 2**40])
def test_huge_maps(size: int) -> None:
    """Refused by their sides before anything is allocated or read."""
    maps = torch.zeros(1, 1, 1, 1).expand(1, 1, size, 1)
    message = f"point_sample: input has maps of {size} x 1 pixels, sides must be at most {2**30}"
    check(RuntimeError, message, sample(maps, POINTS[:1]))


def test_expanded_maps() -> None:
    """Maps larger than any memory, of one element."""
    maps = torch.ones(1, 1, 1, 1).expand(1, 2, 2**20, 2**20)
    found = visops.point_sample(maps, torch.rand(1, 50, 2) * 0.9 + 0.05)
    torch.testing.assert_close(found, torch.ones(1, 2, 50))


def test_devices() -> None:
    meta: Tensor = POINTS.to("meta")
    with pytest.raises(RuntimeError, match="points is on meta, input is on cpu"):
        visops.point_sample(MAPS, meta)


def test_arrays_of_another_type() -> None:
    with pytest.raises(ValueError, match="input has dtype int32"):
        visops.point_sample(np.zeros((1, 1, 2, 2), np.int32), np.zeros((1, 1, 2), np.float32))


def test_generators() -> None:
    with pytest.raises(
        TypeError, match=r"^visops\.sample_points_by_uncertainty: generator is a int"
    ):
        visops.sample_points_by_uncertainty(MAPS[:, :1].float(), 4, generator=3)  # type: ignore[arg-type]
