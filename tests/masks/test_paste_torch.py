"""Pasted masks within torch: gradients, opcheck, compile, vmap, fake tensors, threads."""

from typing import Any

import pytest
import torch
import visops
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torchvision import tv_tensors

from masks.paste_cases import CONVENTIONS, MASK_SIZES, SIZE, boxes, probabilities


@pytest.mark.matrix
@pytest.mark.parametrize("options", CONVENTIONS, ids=str)
def test_gradient_is_the_transpose(options: dict[str, Any]) -> None:
    """<paste(x), g> = <x, paste'(g)>, in shapes too large for gradcheck."""
    for mask_size in MASK_SIZES:
        masks = probabilities(size=mask_size).requires_grad_()
        found = visops.paste_masks(masks, boxes(torch.float64), SIZE, out="float", **options)
        grad = torch.sin(torch.arange(found.numel(), dtype=torch.float64)).reshape(found.shape)
        (gradient,) = torch.autograd.grad(found, masks, grad)
        assert gradient.abs().max() > 0.1
        torch.testing.assert_close((found * grad).sum(), (masks * gradient).sum())


def test_masks_have_no_gradient() -> None:
    masks = probabilities().requires_grad_()
    for out in ("bool", "uint8"):
        assert not visops.paste_masks(masks, boxes(), SIZE, out=out).requires_grad
    where = boxes().requires_grad_()
    assert not visops.paste_masks(masks.detach(), where, SIZE, out="float").requires_grad
    found = visops.paste_masks(masks, where, SIZE, out="float")
    (gradient,) = torch.autograd.grad(found.sum(), where, allow_unused=True)
    assert gradient is None


def test_run_lengths_break_graphs() -> None:
    """They are made between two graphs, as masks_to_rle makes them."""

    def step(masks: Tensor, where: Tensor) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = visops.paste_masks(masks + 0.1, where, SIZE, out="rle")
        return found

    masks, where = probabilities().float().requires_grad_(), boxes()
    torch._dynamo.reset()
    assert torch.compile(step, backend="eager")(masks, where) == step(masks, where)
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="its Python reads values"):
        torch.compile(step, backend="eager", fullgraph=True)(masks, where)


class Results(TorchDispatchMode):
    """Collects the tensors that operators return."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        self.seen += [part for part in tree_leaves(found) if isinstance(part, Tensor)]
        return found


def test_run_lengths_need_no_masks() -> None:
    """No operator makes a mask of bools or bytes."""
    masks, where = probabilities().float(), boxes()
    with Results() as found:
        visops.paste_masks(masks, where, SIZE, out="rle")
    dtypes = [part.dtype for part in found.seen]
    assert dtypes[:3] == [torch.int64, torch.int32, torch.int64]  # bits, ends, offsets
    assert not {torch.bool, torch.uint8} & set(dtypes)


def test_memory_is_that_of_the_result() -> None:
    """No operator below allocates more than a mask of bits for each box."""
    masks, where = probabilities(8).float(), boxes()[:8] * 20
    with torch.profiler.profile(profile_memory=True) as profile:
        visops.paste_masks(masks, where, (400, 600), out="packed")
    most = max(event.cpu_memory_usage for event in profile.events())
    assert most <= 8 * 400 * 10 * 8 + 4096


@pytest.mark.parametrize("out", ["bool", "packed", "float", "rle"])
def test_masks_beside_boxes_of_torchvision(out: str) -> None:
    """Each kind of tensor leaves a call with the other to somebody else."""
    masks, where = probabilities(4).float().requires_grad_(), boxes()[:4]
    typed = tv_tensors.BoundingBoxes(where, format="XYXY", canvas_size=SIZE)  # type: ignore[call-overload]
    expected = visops.paste_masks(masks, where, SIZE, out=out)
    found = visops.paste_masks(tv_tensors.Mask(masks), typed, SIZE, out=out)
    if out == "packed":
        expected, found = expected.bits, found.bits
    if out == "rle":
        assert found == expected
        return
    assert type(found) is Tensor
    assert torch.equal(found, expected)
