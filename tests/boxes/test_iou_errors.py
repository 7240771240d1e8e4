"""Bad input of pairwise overlaps: each row has an input and the message that it must give."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
import visops
from bad_input import check, table
from torch import Tensor

from boxes.iou_cases import FUNCTIONS

NAN, INF = float("nan"), float("inf")
META: dict[str, Any] = {"device": "meta"}
OPS = torch.ops.visops


def boxes(count: int = 3, dtype: torch.dtype = torch.float32, **where: Any) -> Tensor:
    return torch.zeros(count, 4, dtype=dtype, **where)


def rotated(count: int = 3, dtype: torch.dtype = torch.float32, **where: Any) -> Tensor:
    return torch.zeros(count, 5, dtype=dtype, **where)


def ragged() -> Tensor:
    return torch.nested.nested_tensor([boxes(2), boxes(3)], layout=torch.jagged)


@dataclass(frozen=True)
class Call:
    """A call; of_arrays() is the same with arrays instead of tensors."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any] = field(default_factory=dict)

    def __call__(self) -> Any:
        return self.function(*self.arguments, **self.keywords)

    def of_arrays(self) -> "Call":
        arrays = tuple(a.numpy() if isinstance(a, Tensor) else a for a in self.arguments)
        return Call(self.function, arrays, self.keywords)


def call(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Call:
    return Call(function, arguments, keywords)


def iou(*arguments: Any, **keywords: Any) -> Call:
    return Call(visops.box_iou, arguments, keywords)


def complete(*arguments: Any, **keywords: Any) -> Call:
    return Call(visops.complete_box_iou, arguments, keywords)


def turned(*arguments: Any, **keywords: Any) -> Call:
    return Call(visops.box_iou_rotated, arguments, keywords)


VALUES = (
    ("box_iou: boxes1 has shape [3, 5], must be [N, 4]", iou(rotated(), boxes())),
    ("box_iou: boxes2 has shape [4], must be [N, 4]", iou(boxes(), torch.zeros(4))),
    ("box_iou: boxes2 has shape [], must be [N, 4]", iou(boxes(), torch.tensor(0.0))),
    ("box_iou: boxes1 has shape [1], must be [N, 4]", iou(torch.zeros(1), boxes())),
    (
        "generalized_box_iou: boxes2 has shape [3, 5], must be [N, 4]",
        call(visops.generalized_box_iou, boxes(), rotated()),
    ),
    (
        "distance_box_iou: boxes1 has shape [4], must be [N, 4]",
        call(visops.distance_box_iou, torch.zeros(4), boxes()),
    ),
    ("complete_box_iou: boxes1 has shape [3, 5], must be", complete(rotated(), boxes())),
    ("box_iou_rotated: boxes1 has shape [3, 4], must be [N, 5]", turned(boxes(), rotated())),
    ("box_iou_rotated: boxes2 has shape [5], must be [N, 5]", turned(rotated(), torch.zeros(5))),
    (
        "distance_box_iou: eps is -1, must be >= 0 and finite",
        call(visops.distance_box_iou, boxes(), boxes(), -1),
    ),
    ("complete_box_iou: eps is nan, must be >= 0 and finite", complete(boxes(), boxes(), NAN)),
    ("complete_box_iou: eps is inf, must be >= 0", complete(boxes(0), boxes(), eps=INF)),
    (
        "box_iou: boxes1 has dtype bool, must be a floating or integer type",
        iou(boxes(dtype=torch.bool), boxes()),
    ),
    (
        "complete_box_iou: boxes2 has dtype bool, must be a floating or integer type",
        complete(boxes(), boxes(dtype=torch.bool)),
    ),
    (
        "box_iou: boxes2 has dtype complex64, which is not supported",
        iou(boxes(), boxes(dtype=torch.complex64)),
    ),
    (
        "box_iou_rotated: boxes1 has dtype bool, must be a floating or integer type",
        turned(rotated(dtype=torch.bool), rotated()),
    ),
)


@table(*((RuntimeError, *row) for row in VALUES))
def test_tensors(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@table(*((ValueError, message, call.of_arrays()) for message, call in VALUES))
def test_arrays(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


def backward(
    grad: Tensor, first: Tensor, second: Tensor, kind: str = "iou", eps: float = 1e-7
) -> Call:
    return Call(OPS.box_iou_backward, (grad, first, second, kind, eps))


def rotated_backward(*arguments: Any) -> Call:
    return Call(OPS.box_iou_rotated_backward, arguments)


@table(
    (
        RuntimeError,
        "box_iou: kind is 'foo', must be iou, iof, iof2, generalized, distance or complete",
        call(OPS.box_iou, boxes(), boxes(), "foo"),
    ),
    (
        RuntimeError,
        "box_iou_backward: kind is '', must be iou, iof, iof2, generalized, distance or complete",
        backward(torch.zeros(3, 3), boxes(), boxes(), ""),
    ),
    (
        RuntimeError,
        "box_iou_backward: grad has shape [3, 4], must be [3, 5]",
        backward(torch.zeros(3, 4), boxes(), boxes(5)),
    ),
    (
        RuntimeError,
        "box_iou_backward: grad has shape [15], must be [3, 5]",
        backward(torch.zeros(15), boxes(), boxes(5)),
    ),
    (
        RuntimeError,
        "box_iou_backward: grad has dtype float64, must be float32",
        backward(torch.zeros(3, 3).double(), boxes(), boxes()),
    ),
    (
        RuntimeError,
        "box_iou_backward: grad has dtype float32, must be float64",
        backward(torch.zeros(3, 3), boxes(), boxes().double()),
    ),
    (
        RuntimeError,
        "box_iou_backward: boxes1 has dtype int64, must be a floating type to have a gradient",
        backward(torch.zeros(3, 3), boxes().long(), boxes()),
    ),
    (
        RuntimeError,
        "box_iou_backward: boxes2 has shape [3, 5], must be [N, 4]",
        backward(torch.zeros(3, 3), boxes(), rotated()),
    ),
    (
        RuntimeError,
        "box_iou_backward: eps is -1, must be >= 0 and finite",
        backward(torch.zeros(3, 3), boxes(), boxes(), "distance", -1.0),
    ),
    (
        RuntimeError,
        "box_iou_rotated_backward: grad has shape [5, 3], must be [3, 5]",
        rotated_backward(torch.zeros(5, 3), rotated(), rotated(5)),
    ),
    (
        RuntimeError,
        "box_iou_rotated_backward: boxes1 has dtype uint8, must be a floating type",
        rotated_backward(torch.zeros(3, 3), rotated().byte(), rotated()),
    ),
)
def test_operators(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


def array(dtype: Any = np.float32) -> np.ndarray:
    return np.zeros((3, 4), dtype)


@table(
    (
        TypeError,
        "box_iou: boxes1 is a list, must be a torch.Tensor or a numpy.ndarray",
        iou([[0.0, 0.0, 1.0, 1.0]], boxes()),
    ),
    (
        TypeError,
        "complete_box_iou: boxes2 is a NoneType, must be a torch.Tensor",
        complete(boxes(), None),
    ),
    (
        TypeError,
        "box_iou: boxes2 is a Tensor, must be a numpy.ndarray, as boxes1 is",
        iou(array(), boxes()),
    ),
    (TypeError, "box_iou_rotated: boxes2 is a ndarray, must be", turned(rotated(), array())),
    (
        TypeError,
        "box_iou: device is for arrays; move tensors with .to('cpu')",
        iou(boxes(), boxes(), device="cpu"),
    ),
    (TypeError, "box_iou: boxes1 has dtype object", iou(array(object), array())),
    (
        TypeError,
        "distance_box_iou: boxes1 is a nested tensor, must be a dense one; unbind() it",
        call(visops.distance_box_iou, ragged(), boxes()),
    ),
    (
        TypeError,
        "complete_box_iou_loss: boxes2 has layout sparse_coo, must be dense; call to_dense()",
        call(visops.complete_box_iou_loss, boxes(), boxes().to_sparse()),
    ),
)
def test_kinds(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


def test_numbers() -> None:
    with pytest.raises(TypeError, match="distance_box_iou: eps is 'a', must be a number"):
        visops.distance_box_iou(boxes(), boxes(), "a")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="complete_box_iou: eps has 2001 bits, too many"):
        visops.complete_box_iou(boxes(), boxes(), 2**2000)
    with pytest.raises(ValueError, match="distance_box_iou_loss: eps has 2001 bits, too many"):
        visops.distance_box_iou_loss(boxes(), boxes(), eps=2**2000)
    first = boxes().requires_grad_()
    visops.distance_box_iou(first, boxes(), eps=2**64).sum().backward()
    assert first.grad is not None


def test_devices() -> None:
    ends = "; all tensors must be on one device"
    for message, bad in (
        ("box_iou: boxes2 is on meta, boxes1 is on cpu", iou(boxes(), boxes(**META))),
        ("box_iou: boxes2 is on cpu, boxes1 is on meta", iou(boxes(**META), boxes())),
        (
            "box_iou_rotated: boxes2 is on meta, boxes1 is on cpu",
            turned(rotated(), rotated(**META)),
        ),
        (
            "box_iou_backward: boxes1 is on cpu, grad is on meta",
            backward(torch.zeros(3, 3, **META), boxes(), boxes()),
        ),
    ):
        check(RuntimeError, message + ends, bad)


@pytest.mark.parametrize("name", [*FUNCTIONS, "rotated"])
def test_more_memory_than_there_is(name: str) -> None:
    function = FUNCTIONS.get(name, visops.box_iou_rotated)
    one = torch.zeros(1, 5 if name == "rotated" else 4)
    for count in (2**25, 2**31, 2**40):
        many = one.expand(count, -1)
        with pytest.raises(
            RuntimeError, match=r"^visops\..*box_iou.*: result of .* can't be alloc"
        ):
            function(many, many)


@pytest.mark.cuda
def test_cuda() -> None:
    ends = "; all tensors must be on one device"
    for message, bad in (
        ("box_iou: boxes2 is on cpu, boxes1 is on cuda:0", iou(boxes(device="cuda"), boxes())),
        (
            "box_iou_rotated: boxes2 is on cuda:0, boxes1 is on cpu",
            turned(rotated(), rotated(device="cuda")),
        ),
    ):
        check(RuntimeError, message + ends, bad)
