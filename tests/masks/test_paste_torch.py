"""Pasted masks within torch: gradients, opcheck, compile, vmap, fake tensors, threads."""

from typing import Any

import pytest
import torch
import visops
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torchvision import tv_tensors

from masks.mask_cases import LAYOUTS
from masks.paste_cases import CONVENTIONS, MASK_SIZES, SIZE, boxes, probabilities

OPS = torch.ops.visops


@pytest.mark.parametrize("options", CONVENTIONS, ids=str)
def test_gradcheck(options: dict[str, Any]) -> None:
    where = boxes(torch.float64)[[0, 2, 4, 7]] * 0.3
    masks = probabilities(4, (3, 4)).requires_grad_()

    def paste(masks: Tensor) -> Tensor:
        found: Tensor = visops.paste_masks(masks, where, (7, 9), out="float", **options)
        return found

    assert gradcheck(paste, (masks,), nondet_tol=0)
    assert gradgradcheck(paste, (masks,), nondet_tol=0)


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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_dtypes_of_gradients(dtype: torch.dtype) -> None:
    masks = probabilities().to(dtype).requires_grad_()
    found = visops.paste_masks(masks, boxes(), SIZE, out="float")
    (gradient,) = torch.autograd.grad(found.sum(), masks)
    assert gradient.dtype == dtype
    exact = probabilities().requires_grad_()
    double = visops.paste_masks(exact, boxes(torch.float64), SIZE, out="float")
    (expected,) = torch.autograd.grad(double.sum(), exact)
    torch.testing.assert_close(gradient.double(), expected, atol=1e-3, rtol=0.02)


def test_masks_have_no_gradient() -> None:
    masks = probabilities().requires_grad_()
    for out in ("bool", "uint8"):
        assert not visops.paste_masks(masks, boxes(), SIZE, out=out).requires_grad
    where = boxes().requires_grad_()
    assert not visops.paste_masks(masks.detach(), where, SIZE, out="float").requires_grad
    found = visops.paste_masks(masks, where, SIZE, out="float")
    (gradient,) = torch.autograd.grad(found.sum(), where, allow_unused=True)
    assert gradient is None


@pytest.mark.parametrize("layout", LAYOUTS)
def test_opcheck(layout: str) -> None:
    masks = LAYOUTS[layout](probabilities().float())
    where = boxes()
    torch.library.opcheck(OPS.paste_masks, (masks.detach().requires_grad_(), where, SIZE))
    torch.library.opcheck(OPS.paste_masks, (masks, where, SIZE, "torchvision", 1))
    for out in ("bool", "uint8", "packed"):
        torch.library.opcheck(OPS.paste_binary_masks, (masks, where, (9, 70), 0.4, out))
    grad = LAYOUTS[layout](probabilities(size=SIZE).float()).detach().requires_grad_()
    torch.library.opcheck(OPS.paste_masks_backward, (grad, where, (28, 28), "detectron2", 0))


def test_compile() -> None:
    """One program for all sizes; gradients too."""

    def step(masks: Tensor, where: Tensor, height: int, width: int) -> tuple[Any, ...]:
        size = (height, width)
        numbers = visops.paste_masks(masks, where, size, out="float")
        packed = visops.paste_masks(masks, where, size, out="packed")
        inside = visops.paste_masks(masks[:, None], where, size, convention="torchvision")
        return numbers, packed.bits, inside, visops.mask_area(packed)

    torch._dynamo.reset()
    with torch._dynamo.config.patch(error_on_recompile=True):
        compiled = torch.compile(step, fullgraph=True, dynamic=True, backend="aot_eager")
        for count, size in ((11, (23, 131)), (5, (40, 200)), (7, (33, 164))):
            masks, where = probabilities(count).float(), boxes()[:count].clone()
            inputs = [masks.clone().requires_grad_() for _ in range(2)]
            found = compiled(inputs[0], where, *size)
            expected = step(inputs[1], where, *size)
            for ours, wanted in zip(found, expected, strict=True):
                assert torch.equal(ours, wanted)
            found[0].square().sum().backward()
            expected[0].square().sum().backward()
            assert torch.equal(inputs[0].grad, inputs[1].grad)  # type: ignore[arg-type]


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


def test_vmap() -> None:
    masks = probabilities(22).float().reshape(2, 11, 28, 28)
    where = torch.stack([boxes(), boxes() * 0.7])

    def paste(masks: Tensor, where: Tensor) -> tuple[Tensor, ...]:
        numbers = visops.paste_masks(masks, where, SIZE, out="float")
        packed = visops.paste_masks(masks, where, SIZE, out="packed")
        return numbers, visops.paste_masks(masks, where, SIZE), packed.bits

    found = torch.vmap(paste)(masks, where)
    for ours, one, other in zip(
        found, paste(masks[0], where[0]), paste(masks[1], where[1]), strict=True
    ):
        assert torch.equal(ours, torch.stack([one, other]))
    shared = torch.vmap(lambda m: paste(m, where[0])[0], in_dims=1)(masks.movedim(0, 1))
    assert torch.equal(shared[1], paste(masks[1], where[0])[0])


def test_gradients_of_functions() -> None:
    masks = probabilities().float()

    def loss(masks: Tensor) -> Tensor:
        found: Tensor = visops.paste_masks(masks, boxes(), SIZE, out="float")
        return found.square().sum()

    recorded = masks.clone().requires_grad_()
    loss(recorded).backward()
    assert torch.equal(torch.func.grad(loss)(masks), recorded.grad)  # type: ignore[arg-type]
    stacked = torch.vmap(torch.func.grad(loss))(torch.stack([masks, masks * 0.5]))
    torch.testing.assert_close(stacked[1], stacked[0] * 0.5)


def test_fake_tensors() -> None:
    with FakeTensorMode() as mode:
        masks, where = (mode.from_tensor(t) for t in (probabilities().half(), boxes()))
        found = visops.paste_masks(masks, where, (9, 70), out="float")
        assert (found.shape, found.dtype) == ((11, 9, 70), torch.float16)
        packed = visops.paste_masks(masks, where, (9, 70), out="packed")
        assert (packed.bits.shape, packed.bits.dtype) == ((11, 9, 2), torch.int64)


@pytest.mark.usefixtures("restored_threads")
def test_threads_change_nothing() -> None:
    size = (300, 400)
    masks = probabilities().float().requires_grad_()
    where = boxes() * 13
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        numbers = visops.paste_masks(masks, where, size, out="float")
        (gradient,) = torch.autograd.grad(numbers.sum(), masks)
        packed = visops.paste_masks(masks, where, size, out="packed")
        results.append((numbers.detach(), gradient, packed.bits))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


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
