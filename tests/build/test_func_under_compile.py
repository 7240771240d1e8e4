"""torch.compile around torch.func: one graph, with the derivatives of eager mode."""

from typing import Any

import pytest
import torch
import visops
from exporting.cases import CASES, leaves
from torch import Tensor

# Every differentiable operator, by cases that export its functions too.
NAMES = [
    *("box_iou", "complete_box_iou", "box_iou_rotated"),
    *("RoIAlign roi_align", "roi_align max", "roi_pool", "ps_roi_align", "roi_align_rotated"),
    *("crop_rois", "paste_rois", "paste_masks", "point_sample"),
    *("multi_scale_deformable_attention", "deform_conv2d"),
    *("warp_affine", "augment list", "warp_perspective", "remap displacement_field"),
    *("im2col", "col2im", "conv2d", "convolve2d", "gaussian_blur"),
]


def compiled(call: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(call, backend="aot_eager", fullgraph=True)


def first_floats(value: Any) -> Tensor:
    """Return the first tensor that a gradient may be wanted by."""
    return next(leaf for leaf in leaves(value) if leaf.is_floating_point())


def replaced(value: Any, old: Tensor, new: Tensor) -> Any:
    if isinstance(value, Tensor):
        return new if value is old else value
    return type(value)(replaced(item, old, new) for item in value)


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name: str) -> None:
    """A batch of losses has them, and one loss has."""
    case = CASES[name]
    inputs = case.inputs(0)
    source = first_floats(inputs)

    def loss(values: Tensor) -> Any:
        results = leaves(case.call(*replaced(inputs, source, values)))
        return sum(r.square().sum() for r in results if r.is_floating_point())

    batch = torch.stack([source, source * 0.875])
    for call, values in (
        (torch.vmap(torch.func.grad(loss)), batch),
        (torch.func.grad(loss), source),
    ):
        torch.testing.assert_close(compiled(call)(values), call(values), rtol=1e-5, atol=1e-5)


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
