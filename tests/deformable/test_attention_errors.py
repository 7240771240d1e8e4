"""Bad input to deformable attention: each row is an input and the message it must give."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from bad_input import check, table
from torch import Tensor

OP = "multi_scale_deformable_attention"
SHAPES = ((2, 3), (1, 2))
OPS = torch.ops.visops


def value(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(1, 8, 2, 4, dtype=dtype)


def locations(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(1, 5, 2, 2, 3, 2, dtype=dtype)


def weights(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(1, 5, 2, 2, 3, dtype=dtype)


def attend(
    of_value: Any = None,
    shapes: Any = SHAPES,
    positions: Any = None,
    factors: Any = None,
    **options: Any,
) -> Callable[[], Any]:
    arguments = (
        value() if of_value is None else of_value,
        shapes,
        locations() if positions is None else positions,
        weights() if factors is None else factors,
    )
    return lambda: visops.multi_scale_deformable_attention(*arguments, **options)


FLAT = torch.zeros(1, 5, 2, 6, 2), torch.zeros(1, 5, 2, 6)
HALF, DOUBLE = torch.float16, torch.float64


@table(
    (
        RuntimeError,
        f"{OP}: value has shape [1, 8, 8], must be [B, S, h, d]",
        attend(value().flatten(2)),
    ),
    (
        RuntimeError,
        f"{OP}: value has dtype int32, must be a floating type",
        attend(value(torch.int32)),
    ),
    (
        RuntimeError,
        f"{OP}: spatial_shapes cover 7 positions, value has shape [B, 8, h, d]",
        attend(shapes=((2, 3), (1, 1))),
    ),
    (
        RuntimeError,
        f"{OP}: spatial_shapes cover more positions than value's 8: levels 0 to 1 have 6 + 3",
        attend(shapes=((2, 3), (1, 3))),
    ),
    (
        RuntimeError,
        f"{OP}: spatial_shapes[1] is (-1, -2), must be >= 0",
        attend(shapes=((2, 3), (-1, -2))),
    ),
    (
        RuntimeError,
        f"{OP}: spatial_shapes[1] is (-1, -2), must be >= 0",
        attend(shapes=torch.tensor(((2, 3), (-1, -2)))),
    ),
    (
        RuntimeError,
        f"{OP}: spatial_shapes[1] is (4611686018427387904, 2), must be at most 1073741824",
        attend(shapes=((2, 3), (2**62, 2))),
    ),
    (
        TypeError,
        f"{OP}: spatial_shapes is [2, 3], must be a (height, width) for each level, or a tensor",
        attend(shapes=[2, 3]),
    ),
    (
        TypeError,
        f"{OP}: spatial_shapes is [(2, 3, 1)], must be a (height, width) for each level",
        attend(shapes=[(2, 3, 1)]),
    ),
    (
        TypeError,
        f"{OP}: spatial_shapes is [(2.5, 3)], must be a (height, width) for each level",
        attend(shapes=[(2.5, 3)]),
    ),
    (
        TypeError,
        f"{OP}: spatial_shapes is None, must be a (height, width) for each level",
        lambda: visops.multi_scale_deformable_attention(
            value(),
            None,  # type: ignore[arg-type]
            locations(),
            weights(),
        ),
    ),
    (
        RuntimeError,
        f"{OP}: spatial_shapes has shape [4], must be [L, 2]",
        attend(shapes=torch.tensor([2, 3, 1, 2])),
    ),
    (
        RuntimeError,
        f"{OP}: spatial_shapes has shape [2, 3], must be [2, 2]",
        attend(shapes=torch.ones(2, 3, dtype=torch.int64)),
    ),
    (
        RuntimeError,
        f"{OP}: spatial_shapes has dtype float32, must be int64 or int32",
        attend(shapes=torch.tensor(SHAPES).float()),
    ),
    (
        RuntimeError,
        f"{OP}: sampling_locations has shape [1, 5, 2, 6, 2], must be [B, Q, h, 2, P, 2]",
        attend(positions=FLAT[0], factors=FLAT[1]),
    ),
    (
        RuntimeError,
        f"{OP}: sampling_locations has shape [1, 5, 2, 2, 3, 3], must be [B, Q, h, 2, P, 2]",
        attend(positions=torch.zeros(1, 5, 2, 2, 3, 3)),
    ),
    (
        RuntimeError,
        f"{OP}: sampling_locations has shape [1, 5, 2, 2, 3, 2], must be [B, Q, h, 3, P, 2]",
        attend(shapes=((2, 3), (1, 1), (1, 1))),
    ),
    (
        RuntimeError,
        f"{OP}: sampling_locations has shape [1, 5, 1, 6, 2], must be [1, Q, 2, samples, 2]",
        attend(positions=locations()[:, :, :1], factors=weights()[:, :, :1]),
    ),
    (
        RuntimeError,
        f"{OP}: sampling_locations has shape [2, 5, 2, 6, 2], must be [1, Q, 2, samples, 2]",
        attend(positions=locations().expand(2, *[-1] * 5), factors=weights().expand(2, *[-1] * 4)),
    ),
    (
        RuntimeError,
        f"{OP}: attention_weights has shape [1, 5, 2, 3, 2], must be [1, 5, 2, 2, 3]",
        attend(factors=weights().mT),
    ),
    (
        RuntimeError,
        f"{OP}: sampling_locations has dtype float64, must be float16, bfloat16 or float32 for "
        "value of float16",
        attend(value(HALF), positions=locations(DOUBLE)),
    ),
    (
        RuntimeError,
        f"{OP}: attention_weights has dtype float32, must be float64 for value of float64",
        attend(value(DOUBLE), positions=locations(DOUBLE)),
    ),
    (
        RuntimeError,
        f"{OP}: attention_weights has dtype int64, must be a floating type",
        attend(factors=weights(torch.int64)),
    ),
    (
        RuntimeError,
        f"{OP}: sampling_locations is on meta, value is on cpu; all tensors must be on one device",
        attend(positions=locations().to("meta")),
    ),
    (
        RuntimeError,
        f"{OP}: method is 'nearest', must be 'default' or 'discrete'",
        attend(method="nearest"),
    ),
    (
        RuntimeError,
        f"{OP}: num_points_list has 1 numbers, must have one for each of 2 levels",
        attend(positions=FLAT[0], factors=FLAT[1], num_points_list=[6]),
    ),
    (
        TypeError,
        f"{OP}: num_points_list is [3, 3.0], must be an integer for each level",
        attend(positions=FLAT[0], factors=FLAT[1], num_points_list=[3, 3.0]),
    ),
    (
        RuntimeError,
        f"{OP}: sampling_locations has shape [1, 5, 2, 2, 3, 2], must be [B, Q, h, 6, 2] with "
        "num_points_list",
        attend(num_points_list=[3, 3]),
    ),
    (
        RuntimeError,
        f"{OP}: points has the sum 5, sampling_locations has samples for 6",
        attend(positions=FLAT[0], factors=FLAT[1], num_points_list=[2, 3]),
    ),
    (
        RuntimeError,
        f"{OP}: points[0] is -1, must be >= 0",
        attend(positions=FLAT[0], factors=FLAT[1], num_points_list=[-1, 7]),
    ),
    (
        ValueError,
        f"{OP}: level_start_index is [0, 5], must be [0, 6]: levels lie one after another",
        attend(level_start_index=[0, 5]),
    ),
    (
        ValueError,
        f"{OP}: level_start_index is [6, 0], must be [0, 6]",
        attend(shapes=torch.tensor(SHAPES), level_start_index=torch.tensor([6, 0])),
    ),
    (
        RuntimeError,
        f"{OP}: points has 33 levels, must have 1 to 32",
        attend(
            torch.zeros(1, 33, 2, 4),
            [(1, 1)] * 33,
            torch.zeros(1, 5, 2, 33, 1, 2),
            torch.zeros(1, 5, 2, 33, 1),
        ),
    ),
    (
        TypeError,
        f"{OP}: sampling_locations is a ndarray, must be a torch.Tensor or a numpy.ndarray",
        attend(positions=locations().numpy()),
    ),
    (
        ValueError,
        f"{OP}: spatial_shapes cover 7 positions, value has shape [B, 8, h, d]",
        attend(value().numpy(), ((2, 3), (1, 1)), locations().numpy(), weights().numpy()),
    ),
    (
        TypeError,
        f"{OP}: device is for arrays; move tensors with .to('cpu')",
        attend(device="cpu"),
    ),
    (
        RuntimeError,
        f"{OP}: value is quantized, must be a plain tensor",
        attend(torch.quantize_per_tensor(value(), 1.0, 0, torch.qint8)),
    ),
)
def test_bad_input(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


def operators(**changed: Any) -> list[tuple[str, Callable[[], Any]]]:
    """Return the operators of the gradients with one argument changed."""
    given: dict[str, Any] = {
        "grad": torch.zeros(1, 5, 8),
        "value": value(),
        "spatial_shapes": None,
        "sizes": [2, 3, 1, 2],
        "sampling_locations": FLAT[0],
        "attention_weights": FLAT[1],
        "points": [3, 3],
        "method": "default",
        "value_size": [1, 8, 2, 4],
    }
    given |= changed
    of_value = {k: v for k, v in given.items() if k != "value"}
    of_samples = {k: v for k, v in given.items() if k != "value_size"}
    return [
        (f"{OP}_backward_value", lambda: getattr(OPS, f"{OP}_backward_value")(**of_value)),
        (f"{OP}_backward_samples", lambda: getattr(OPS, f"{OP}_backward_samples")(**of_samples)),
    ]


@pytest.mark.parametrize(
    ("name", "bad", "message"),
    [
        ("grad", torch.zeros(1, 4, 8), "grad has shape [1, 4, 8], must be [1, 5, 8]"),
        ("grad", torch.zeros(5, 8), "grad has shape [5, 8], must be [1, 5, 8]"),
        ("method", "best", "method is 'best', must be 'default' or 'discrete'"),
        (
            "attention_weights",
            torch.zeros(1, 5, 2, 5),
            "attention_weights has shape [1, 5, 2, 5], must be [1, 5, 2, 6]",
        ),
        ("sizes", [2, 3], "spatial_shapes has 2 numbers, must have 2 for each of 2 levels"),
        ("points", [6], "spatial_shapes has 4 numbers, must have 2 for each of 1 levels"),
        (
            "spatial_shapes",
            torch.tensor(SHAPES),
            "sizes has 4 numbers, must be empty where spatial_shapes is a tensor",
        ),
    ],
)
def test_gradients(name: str, bad: Any, message: str) -> None:
    for op, call in operators(**{name: bad}):
        check(RuntimeError, f"{op}: {message}", call)


def test_more_of_the_gradients() -> None:
    op, call = operators(value_size=[1, 8, 8])[0]
    check(RuntimeError, f"{op}: value_size is [1, 8, 8], must have four numbers", call)
    op, call = operators(value_size=[1, 7, 2, 4])[0]
    check(RuntimeError, f"{op}: spatial_shapes cover more positions than value's 7", call)
    op, call = operators(grad=torch.zeros(1, 5, 8).half())[1]
    check(RuntimeError, f"{op}: grad has dtype float16, value has float32", call)


def test_mapped_shapes() -> None:
    shapes = torch.tensor(SHAPES).expand(3, 2, 2)

    def call(shapes: Tensor) -> Any:
        return visops.multi_scale_deformable_attention(value(), shapes, locations(), weights())

    check(
        RuntimeError,
        f"{OP}: spatial_shapes can't be mapped by vmap",
        lambda: torch.vmap(call)(shapes),
    )


def test_starts_on_a_device_are_not_read() -> None:
    found = attend(level_start_index=torch.tensor([7, 7], device="meta"))()
    assert torch.equal(found, attend()())
    assert isinstance(np.asarray(found), np.ndarray)
