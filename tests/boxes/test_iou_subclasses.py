"""Losses of subclasses of torch.Tensor that don't know each other."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import visops
from subclasses import Other, Stranger
from torch import Tensor

LOSSES = (
    visops.generalized_box_iou_loss,
    visops.distance_box_iou_loss,
    visops.complete_box_iou_loss,
)


class Plain(Tensor):
    """A subclass that leaves everything to torch."""


A = torch.tensor([[0.0, 0.0, 10.0, 10.0]])
B = torch.tensor([[1.0, 1.0, 9.0, 9.0]])


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)
@pytest.mark.parametrize(("first", "second"), [(Other, Stranger), (Plain, Other), (Other, Plain)])
def test_strangers_are_refused_as_by_torch(
    loss: Callable[[Tensor, Tensor], Tensor], first: type, second: type
) -> None:
    boxes: tuple[Tensor, Tensor] = (A.as_subclass(first), B.as_subclass(second))
    with pytest.raises(TypeError):
        boxes[0] + boxes[1]
    message = (
        rf"^visops\.{loss.__name__}: boxes1 has the type {first.__name__} and boxes2 the type "
        rf"{second.__name__}, which don't take each other; pass boxes\.as_subclass\(torch\.Tensor\)"
    )
    with pytest.raises(TypeError, match=message):
        loss(*boxes)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)
def test_others_are_taken(loss: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Plain tensors, parameters, and torchvision's types, which are plain once they are sliced."""
    tv_tensors = pytest.importorskip("torchvision.tv_tensors")
    wanted = loss(A, B)
    boxes = tv_tensors.BoundingBoxes(A, format="XYXY", canvas_size=(20, 20))
    pairs = [(A.as_subclass(Other), B), (A, B.as_subclass(Stranger)), (A.as_subclass(Plain), B)]
    pairs += [(boxes, tv_tensors.Mask(B)), (boxes, B.as_subclass(Other)), (boxes, B)]
    pairs += [(boxes, torch.nn.Parameter(B)), (A.as_subclass(Other), torch.nn.Parameter(B))]
    for first, second in pairs:
        assert torch.equal(loss(first, second).as_subclass(Tensor).detach(), wanted)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)
def test_a_parameter_and_a_tensor_are_compiled(loss: Callable[[Tensor, Tensor], Tensor]) -> None:
    compiled = torch.compile(loss, fullgraph=True, backend="eager")
    assert torch.equal(compiled(torch.nn.Parameter(A), B).detach(), loss(A, B))


def test_errors_of_a_subclass_stay() -> None:
    class Broken(Other):
        @classmethod
        def __torch_function__(
            cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func is torch.result_type:
                raise TypeError("Broken has no type")
            return super().__torch_function__(func, types, args, kwargs)

    for loss in LOSSES:
        with pytest.raises(TypeError, match=r"^Broken has no type$"):
            loss(A.as_subclass(Broken), B.as_subclass(Other))
