"""Crops and pasting as torch sees them: opcheck, compile, vmap, torch.func, fake tensors."""

from collections.abc import Callable

import pytest
import torch
import visops
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from warp.affine_cases import LAYOUTS

from roi.crops_cases import BLENDS, SHAPE, all_boxes, images_of, paste_options

OPS = torch.ops.visops
CROP = ("bilinear", "reflect")
every_blend = pytest.mark.parametrize("blend", BLENDS)


def problem(
    dtype: torch.dtype = torch.float32, layout: str = "contiguous", blend: str = "replace"
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return images, patches, boxes and, if the blend needs it, alpha."""
    boxes = all_boxes()
    images = LAYOUTS[layout](images_of(dtype))
    patches = LAYOUTS[layout](images_of(dtype, 1, (len(boxes), 3, 5, 6)))
    double = torch.float64 if dtype == torch.float64 else torch.float32
    alpha = paste_options(blend, patches, dtype=double).get("alpha")
    return images, patches, boxes, alpha


@pytest.mark.parametrize(
    ("dtype", "layout"),
    [(torch.float64, "contiguous"), (torch.float32, "channels_last"), (torch.uint8, "transposed")],
    ids=str,
)
def test_opcheck_of_crops(dtype: torch.dtype, layout: str) -> None:
    images, patches, boxes, _ = problem(dtype, layout)
    options = (*CROP, [0.0])
    torch.library.opcheck(OPS.crop_rois, (images, boxes, [5, 6], *options))
    if dtype == torch.uint8:
        return
    torch.library.opcheck(OPS.crop_rois_backward_images, (patches, boxes, list(SHAPE), *CROP))
    torch.library.opcheck(OPS.crop_rois_backward_boxes, (patches, images, boxes, *options))
    images, patches, boxes = (t.detach().requires_grad_() for t in (images, patches, boxes))
    torch.library.opcheck(OPS.crop_rois, (images, boxes, [5, 6], *options))
    torch.library.opcheck(OPS.crop_rois_backward_images, (patches, boxes, list(SHAPE), *CROP))


@pytest.mark.parametrize(
    ("dtype", "layout", "blend"),
    [
        (torch.float64, "contiguous", "alpha"),
        (torch.float16, "channels_last", "alpha"),
        (torch.float64, "channels_last", "feather"),
        (torch.float16, "contiguous", "replace"),
        (torch.uint8, "transposed", "alpha"),
        (torch.uint8, "contiguous", "replace"),
    ],
    ids=str,
)
def test_opcheck_of_pasting(dtype: torch.dtype, layout: str, blend: str) -> None:
    images, patches, boxes, alpha = problem(dtype, layout, blend)
    options = (blend, 3.0, "bilinear")
    torch.library.opcheck(OPS.paste_rois, (images, patches, boxes, alpha, *options))
    if dtype == torch.uint8:
        return
    size = list(patches.shape)
    torch.library.opcheck(OPS.paste_rois_backward_patches, (images, boxes, alpha, size, *options))
    leaves = [t.detach().requires_grad_() for t in (images, patches)]
    if alpha is not None:
        torch.library.opcheck(
            OPS.paste_rois_backward_alpha, (images, images, patches, boxes, alpha, "bilinear")
        )
        alpha = alpha.requires_grad_()
    torch.library.opcheck(OPS.paste_rois, (*leaves, boxes, alpha, *options))
    torch.library.opcheck(
        OPS.paste_rois_backward_patches, (leaves[0], boxes, alpha, size, *options)
    )


def roundtrip(blend: str) -> Callable[..., Tensor]:
    """Return a loss that crops, processes and pastes back."""

    def loss(images: Tensor, boxes: Tensor, alpha: Tensor) -> Tensor:
        patches = visops.crop_rois(images * 2, boxes, 6).cos()
        weights = alpha if blend == "alpha" else None
        found = visops.paste_rois(
            images, patches, boxes.detach(), blend=blend, alpha=weights, feather=2.0
        )
        return found.square().sum()

    return loss


@pytest.mark.parametrize(
    ("blend", "backend"), [*((blend, "aot_eager") for blend in BLENDS), ("alpha", "eager")]
)
def test_compile(backend: str, blend: str) -> None:
    """A loss and its gradients in one graph, for any number of boxes."""
    loss = roundtrip(blend)
    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, dynamic=True, backend=backend)
    for i, count in enumerate((11, 5, 8)):
        images = images_of(torch.float32).requires_grad_()
        boxes = all_boxes()[:count].clone().requires_grad_()  # a view would be compiled as one
        alpha = torch.rand(count, 6, 6).requires_grad_()
        leaves = (images, boxes, alpha) if blend == "alpha" else (images, boxes)
        with torch._dynamo.config.patch(error_on_recompile=i > 0):
            value = compiled(images, boxes, alpha)
        wanted = loss(images, boxes, alpha)
        torch.testing.assert_close(value, wanted, rtol=1e-6, atol=0)
        found = torch.autograd.grad(value, leaves)
        for ours, theirs in zip(found, torch.autograd.grad(wanted, leaves), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_vmap() -> None:
    images = torch.stack([images_of(torch.float64, seed) for seed in range(3)])
    boxes = all_boxes(torch.float64)
    found = torch.vmap(lambda i: visops.crop_rois(i, boxes, 5))(images)
    for i in range(3):
        assert torch.equal(found[i], visops.crop_rois(images[i], boxes, 5))
    patches = torch.rand(3, len(boxes), 3, 4, 4, dtype=torch.float64)
    pasted = torch.vmap(visops.paste_rois, in_dims=(0, 0, None))(images, patches, boxes)
    for i in range(3):
        assert torch.equal(pasted[i], visops.paste_rois(images[i], patches[i], boxes))


@every_blend
def test_gradients_of_a_batch(blend: str) -> None:
    images = torch.stack([images_of(torch.float64, seed) for seed in range(2)])
    boxes, alpha = all_boxes(torch.float64), torch.rand(11, 6, 6, dtype=torch.float64)
    loss = roundtrip(blend)
    found = torch.vmap(torch.func.grad(loss), in_dims=(0, None, None))(images, boxes, alpha)
    for i in range(2):
        leaf = images[i].clone().requires_grad_()
        assert torch.equal(found[i], torch.autograd.grad(loss(leaf, boxes, alpha), leaf)[0])


def test_jacobian() -> None:
    images = images_of(torch.float64, 0, (1, 1, 5, 6))
    boxes = torch.tensor([[0, 0.75, 1.1, 4.9, 4.3]], dtype=torch.float64)

    def crop(images: Tensor) -> Tensor:
        return visops.crop_rois(images, boxes, (3, 4), interpolation="bicubic")

    found = torch.func.jacrev(crop)(images)
    basis = torch.eye(30, dtype=torch.float64).view(30, 1, 1, 5, 6)
    columns = torch.stack([crop(b) for b in basis], -1).view(found.shape)
    torch.testing.assert_close(found, columns, rtol=0, atol=1e-14)


@every_blend
def test_fake_tensors(blend: str) -> None:
    *given, weights = problem(torch.float32, "channels_last", blend)
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        images, patches, boxes = (mode.from_tensor(t.requires_grad_()) for t in given)
        alpha = None if weights is None else mode.from_tensor(weights.requires_grad_())
        crops = visops.crop_rois(images, boxes, (4, 7))
        assert tuple(crops.shape) == (11, 3, 4, 7)
        assert crops.stride(1) == 1  # channels_last
        found = visops.paste_rois(images, patches, boxes.detach(), blend=blend, alpha=alpha)
        assert found.shape == images.shape
        assert found.stride(1) == 1
        leaves = [t for t in (images, patches, alpha) if t is not None]
        grads = torch.autograd.grad(crops.sum() + found.sum(), [*leaves, boxes])
        assert [g.shape for g in grads] == [t.shape for t in (*leaves, boxes)]


def test_no_gradient_is_wanted() -> None:
    images, patches, boxes, _ = problem()
    crops, found = visops.crop_rois(images, boxes, 5), visops.paste_rois(images, patches, boxes)
    images.requires_grad_()
    with torch.no_grad():
        assert not visops.crop_rois(images, boxes, 5).requires_grad
    with torch.inference_mode():
        assert torch.equal(visops.crop_rois(images.detach(), boxes, 5), crops)
        assert torch.equal(visops.paste_rois(images.detach(), patches, boxes), found)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(visops.crop_rois(images, boxes, 5), crops)
    whole = images.detach().mul(255).to(torch.uint8)
    assert not visops.crop_rois(whole, boxes.requires_grad_(), 5).requires_grad


def test_defaults_of_the_operators() -> None:
    images, patches, boxes, _ = problem()
    assert torch.equal(OPS.crop_rois(images, boxes, [5, 5]), visops.crop_rois(images, boxes, 5))
    found = OPS.paste_rois(images, patches, boxes)
    assert torch.equal(found, visops.paste_rois(images, patches, boxes))
    found = OPS.paste_rois(images, patches, boxes, None, "feather")
    assert torch.equal(found, visops.paste_rois(images, patches, boxes, blend="feather"))
