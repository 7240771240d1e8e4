"""torch.func under torch.compile, and which results require a gradient."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import visops
from torch import Tensor
from torch.utils import _pytree as pytree

from build.operators import DIFFERENTIABLE, gradients, is_leaf, valid_call


def compiled(call: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(call, backend="aot_eager", fullgraph=True)


def pooled(maps: Tensor) -> Tensor:
    return visops.roi_align(maps, torch.tensor([[0.0, 1, 2, 8, 9]]), 2)


def cubes(maps: Tensor) -> Tensor:
    return pooled(maps).pow(3).sum()


@pytest.mark.parametrize(
    "call",
    [
        torch.func.jacrev(pooled),
        torch.func.jacrev(torch.func.grad(cubes)),
        torch.func.grad(lambda maps: torch.vmap(lambda m: pooled(m[None]))(maps).square().sum()),
        lambda maps: torch.func.vjp(pooled, maps)[1](torch.ones(1, 2, 2, 2)),
    ],
    ids=["jacrev", "hessian", "grad of vmap", "vjp"],
)
def test_nested_transforms(call: Any) -> None:
    maps = torch.rand(1, 2, 10, 11)
    torch.testing.assert_close(compiled(call)(maps), call(maps))


def test_pyramids() -> None:
    boxes = torch.tensor([[0.0, 1, 2, 8, 9], [0, 3, 3, 30, 31]])

    def loss(maps: Tensor) -> Tensor:
        levels = [maps, maps[..., ::2, ::2].contiguous()]
        return visops.multiscale_roi_align(levels, boxes, 2, [0.5, 0.25]).square().sum()

    call, maps = torch.func.grad(loss), torch.rand(1, 2, 16, 18)
    torch.testing.assert_close(compiled(call)(maps), call(maps))


def test_gradients_of_each_sample() -> None:
    """Private and influence methods take those of a layer's parameters."""
    layer = visops.DeformConv2d(3, 4, 3, padding=1)
    images, offsets = torch.rand(5, 3, 6, 7), torch.rand(5, 18, 6, 7)
    parameters = {name: value.detach() for name, value in layer.named_parameters()}

    def loss(parameters: dict[str, Tensor], image: Tensor, offset: Tensor) -> Tensor:
        given = (image[None], offset[None])
        found: Tensor = torch.func.functional_call(layer, parameters, given)
        return found.square().sum()

    call = torch.vmap(torch.func.grad(loss), (None, 0, 0))
    found = compiled(call)(parameters, images, offsets)
    torch.testing.assert_close(found, call(parameters, images, offsets))


def test_operators_themselves() -> None:
    """torch.ops need no wrapper to be transformed, and drop no forward derivative."""
    boxes = torch.tensor([[0.0, 1, 2, 8, 9]])

    def direct(maps: Tensor) -> Tensor:
        found: Tensor = torch.ops.visops.roi_align(maps, boxes, [2, 2])
        return found.pow(3).sum()

    maps = torch.rand(1, 2, 10, 11)
    expected = torch.func.jacrev(torch.func.grad(cubes))(maps)
    torch.testing.assert_close(torch.func.jacrev(torch.func.grad(direct))(maps), expected)
    for call in (direct, torch.func.grad(direct)):
        with pytest.raises(NotImplementedError, match="jvp"):
            torch.func.jvp(call, (maps,), (maps,))


MAPS = torch.rand(2, 8, 9, 10)
IMAGE = MAPS[:1, :3]
PATCHES = torch.rand(2, 8, 4, 4)
BOXES = torch.tensor([[0.0, 1.0, 2.0, 6.0, 7.5], [1.0, 0.0, 1.0, 4.0, 8.0]])
ROTATED = torch.tensor([[0.0, 4.0, 4.0, 5.0, 3.0, 0.4]])
MATRIX = torch.tensor([[0.9, 0.1, 1.0], [-0.1, 1.1, 0.5]])
POINTS = torch.rand(2, 6, 2)
WHERE = torch.rand(1, 4, 2, 3, 2)  # sampling locations
WEIGHTS = torch.rand(1, 4, 2, 3)

# A function of a constant argument and of one with a gradient, and both.
CONSTANTS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], Tensor, Tensor]] = {
    "roi_pool": (lambda boxes, maps: visops.roi_pool(maps, boxes, 3), BOXES, MAPS),
    "ps_roi_align": (lambda boxes, maps: visops.ps_roi_align(maps, boxes, 2), BOXES, MAPS),
    "roi_align_rotated": (
        lambda boxes, maps: visops.roi_align_rotated(maps, boxes, 3),
        ROTATED,
        MAPS,
    ),
    "paste_rois": (
        lambda boxes, maps: visops.paste_rois(maps, PATCHES, boxes),
        BOXES,
        MAPS,
    ),
    "paste_masks": (
        lambda boxes, masks: visops.paste_masks(masks, boxes, (9, 9), out="float"),
        BOXES[:, 1:],
        MAPS[:, 0],
    ),
    "point_sample": (
        lambda points, maps: visops.point_sample(maps, points, mode="nearest"),
        POINTS,
        MAPS,
    ),
    "multi_scale_deformable_attention": (
        lambda positions, maps: torch.ops.visops.multi_scale_deformable_attention(
            maps, None, [2, 4], positions, WEIGHTS, [3], "discrete"
        ),
        WHERE,
        torch.rand(1, 8, 2, 4),
    ),
    "augment window": (
        lambda window, image: torch.ops.visops.augment(image, MATRIX, [8, 8], window=window),
        torch.tensor([[1.0, 1.0, 7.0, 7.0]]).double(),
        IMAGE,
    ),
    "augment_list window": (
        lambda window, image: torch.ops.visops.augment_list(
            [image[0], image[0, :, 1:]], MATRIX, [8, 8], window=window
        ),
        torch.tensor([[1.0, 1.0, 7.0, 7.0]] * 2).double(),
        IMAGE,
    ),
    "convolve2d fill": (
        lambda fill, maps: torch.ops.visops.convolve2d(
            maps, torch.ones(3, 3), [0, 0], [9, 9], "fill", fill
        ),
        torch.tensor(0.5),
        MAPS,
    ),
    "im2col fill": (
        lambda fill, maps: torch.ops.visops.im2col(
            maps, [3, 3], [1, 1], [1] * 4, [1, 1], fill, "unfold"
        ),
        torch.tensor(0.5),
        MAPS,
    ),
}

every_constant = pytest.mark.parametrize("name", CONSTANTS)


def leaf(tensor: Tensor) -> Tensor:
    """Return a copy by which a gradient is wanted."""
    return tensor.clone().requires_grad_()


@every_constant
def test_constants_give_no_gradient(name: str) -> None:
    """Nor does the result claim one, whichever way it is called; other arguments keep theirs."""
    call, constant, other = CONSTANTS[name]
    torch._dynamo.reset()
    expected = torch.autograd.grad(call(constant, mapped := leaf(other)).sum(), mapped)[0]
    for way in (call, torch.compile(call, backend="aot_eager")):
        given = leaf(constant)
        assert not way(given, other).requires_grad
        both = (given, leaf(other))
        found = torch.autograd.grad(way(*both).sum(), both, allow_unused=True)
        assert found[0] is None
        assert torch.equal(found[1], expected)


@pytest.mark.parametrize("name", [name for name in CONSTANTS if hasattr(visops, name)][:-1])
def test_constants_have_zero_derivatives(name: str) -> None:
    """torch.func has no "none"; it differentiates functions, not operators."""
    call, constant, other = CONSTANTS[name]
    found = torch.func.grad(lambda value: call(value, other).sum())(constant)
    assert not found.any()


@pytest.mark.filterwarnings("ignore:Error detected in")  # of derivatives that are refused
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_a_gradient_that_is_required_exists(name: str) -> None:
    """For each argument of every operator."""
    target, arguments = valid_call(name)
    for wanted, value in arguments.items():
        if any(map(is_leaf, pytree.tree_leaves(value))):
            found = gradients(target.function, arguments, wanted)
            assert all(gradient is not None for gradient in found), wanted
