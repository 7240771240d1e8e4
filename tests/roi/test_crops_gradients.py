"""Gradients of crops and of pasting."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from torch import Tensor
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from warp.affine_cases import FLOATING, LAYOUTS, MODES, PADDINGS

from roi.crops_cases import BLENDS, all_boxes, images_of, paste_options, random_boxes

SHAPE = (2, 2, 5, 6)
SIZE = (4, 3)
every_blend = pytest.mark.parametrize("blend", BLENDS)


def crop_problem(seed: int = 0) -> tuple[Tensor, Tensor]:
    """float64 images, and boxes whose samples avoid the kinks at pixel centres."""
    rng = np.random.default_rng(seed)
    images = torch.from_numpy(rng.random(SHAPE))
    boxes: list[np.ndarray] = []
    while len(boxes) < 4:
        box = random_boxes(rng, 1, SHAPE, out=0.3)[0]
        positions = [
            low + (np.arange(n) + 0.5) * (high - low) / n - 0.5
            for low, high, n in ((box[1], box[3], SIZE[1]), (box[2], box[4], SIZE[0]))
        ]
        flat = np.concatenate(positions)
        if np.abs(flat - np.rint(flat)).min() > 1e-4:
            boxes.append(box)
    return images.requires_grad_(), torch.from_numpy(np.stack(boxes)).requires_grad_()


def with_fixed_index(function: Callable[..., Tensor], boxes: Tensor) -> Callable[..., Tensor]:
    """Return a function of corners alone: a batch index has no numerical derivative."""
    index = boxes.detach()[:, :1]
    return lambda images, corners: function(images, torch.cat([index, corners], 1))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("padding_mode", PADDINGS)
def test_gradcheck_of_crops(padding_mode: str, mode: str) -> None:
    """Each padding in full with one of the modes, fast with the other."""
    images, boxes = crop_problem()
    fast_mode = (PADDINGS.index(padding_mode) + MODES.index(mode)) % 2 == 0
    options: dict[str, Any] = {"interpolation": mode, "padding_mode": padding_mode}

    def crop(images: Tensor, boxes: Tensor) -> Tensor:
        return visops.crop_rois(images, boxes, SIZE, fill=[0.5, -1.0], **options)

    corners = boxes.detach()[:, 1:].clone().requires_grad_()
    of_corners = with_fixed_index(crop, boxes)
    assert gradcheck(
        of_corners, (images, corners), eps=1e-6, atol=1e-5, nondet_tol=0, fast_mode=fast_mode
    )
    assert gradgradcheck(lambda i: crop(i, boxes.detach()), (images,), fast_mode=fast_mode)


@pytest.mark.matrix
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padding_mode", PADDINGS)
def test_gradient_of_images_is_the_transpose(padding_mode: str, mode: str) -> None:
    """<crop(x), g> = <x, crop'(g)> for all kinds of boxes, in shapes too large for gradcheck."""
    for dtype, tolerance in ((torch.float32, 1e-4), (torch.float64, 1e-12)):
        images = images_of(dtype, 1, (2, 3, 23, 31)).requires_grad_()
        for size in ((5, 7), (40, 150), (1, 1)):
            found = visops.crop_rois(
                images, all_boxes(), size, interpolation=mode, padding_mode=padding_mode
            )
            grad = images_of(dtype, 2, tuple(found.shape)) - 0.5
            (gradient,) = torch.autograd.grad(found, images, grad)
            assert gradient.dtype == dtype
            forward = (found.detach().double() * grad.double()).sum()
            backward = (images.detach().double() * gradient.double()).sum()
            scale = (found.detach().double() * grad.double()).abs().sum()
            assert abs(forward - backward) <= tolerance * scale


def test_gradient_of_flat_boxes_and_nearest() -> None:
    images, boxes = images_of(torch.float64).requires_grad_(), all_boxes(torch.float64)
    boxes.requires_grad_()
    found = visops.crop_rois(images, boxes, (5, 6))
    (gradient,) = torch.autograd.grad(found.square().sum(), boxes)
    assert bool(gradient.isfinite().all())
    assert bool((gradient[:, 0] == 0).all())
    assert float(gradient[7, 1:].abs().min()) > 0  # flat along x
    assert float(gradient[6].abs().max()) == 0  # beyond the image
    found = visops.crop_rois(images, boxes, (5, 6), interpolation="nearest")
    (gradient,) = torch.autograd.grad(found.square().sum(), boxes)
    assert torch.equal(gradient, torch.zeros_like(boxes))


@pytest.mark.parametrize("mode", MODES)
@every_blend
def test_gradcheck_of_pasting(blend: str, mode: str) -> None:
    """Each mode and blend once in full, else fast."""
    fast_mode = BLENDS.index(blend) != MODES.index(mode)
    rng = np.random.default_rng(0)
    shape = (2, 1, 4, 5)
    images = torch.from_numpy(rng.random(shape)).requires_grad_()
    patches = torch.from_numpy(rng.random((4, 1, 3, 2))).requires_grad_()
    boxes = torch.from_numpy(random_boxes(rng, 4, shape))
    options = paste_options(blend, patches, dtype=torch.float64)
    alpha = options.pop("alpha", None)
    inputs = (images, patches) if alpha is None else (images, patches, alpha.requires_grad_())

    def paste(images: Tensor, patches: Tensor, alpha: Tensor | None = None) -> Tensor:
        return visops.paste_rois(images, patches, boxes, alpha=alpha, interpolation=mode, **options)

    assert gradcheck(paste, inputs, nondet_tol=0, fast_mode=fast_mode)
    fixed = None if alpha is None else alpha.detach()
    assert gradgradcheck(
        lambda i, p: paste(i, p, fixed).square(), (images, patches), fast_mode=fast_mode
    )


def test_second_derivatives_by_alpha() -> None:
    """Derivatives of the images' and patches' gradients with respect to alpha."""
    rng = np.random.default_rng(1)
    boxes = torch.from_numpy(random_boxes(rng, 4, SHAPE))
    alpha = torch.from_numpy(rng.random((4, *SIZE))).requires_grad_()
    grad = torch.from_numpy(rng.random(SHAPE)).requires_grad_()

    def gradients(grad: Tensor, alpha: Tensor) -> tuple[Tensor, ...]:
        images = torch.zeros(SHAPE, dtype=torch.float64, requires_grad=True)
        patches = torch.zeros(4, 2, *SIZE, dtype=torch.float64, requires_grad=True)
        found = visops.paste_rois(images, patches, boxes, blend="alpha", alpha=alpha)
        result: tuple[Tensor, ...] = torch.autograd.grad(
            found, (images, patches), grad, create_graph=True
        )
        return result

    assert gradcheck(gradients, (grad, alpha), nondet_tol=0)


@pytest.mark.matrix
@every_blend
@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_gradients_of_dtypes(dtype: torch.dtype, blend: str) -> None:
    """Every dtype's gradient is float64's, up to rounding."""
    boxes = all_boxes(torch.float64)
    images, patches = images_of(dtype), images_of(dtype, 1, (len(boxes), 3, 9, 8))
    grad = images_of(dtype, 2) - 0.5
    options = paste_options(blend, patches)
    alpha = options.pop("alpha", None)

    def gradients(cast: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
        leaves = [cast(t).requires_grad_() for t in (images, patches)]
        if alpha is not None:
            leaves.append(alpha.detach().clone().requires_grad_())
        weights = leaves[2] if alpha is not None else None
        found = visops.paste_rois(leaves[0], leaves[1], boxes, alpha=weights, **options)
        of_crops = visops.crop_rois(leaves[0], boxes, (6, 7)).square().sum()
        pasted: tuple[Tensor, ...] = torch.autograd.grad(found, leaves, cast(grad))
        return *pasted, *torch.autograd.grad(of_crops, leaves[:1])

    found, wanted = gradients(Tensor.clone), gradients(Tensor.double)
    for ours, exact in zip(found, wanted, strict=True):
        allowed = (2 * torch.finfo(dtype).eps + 1e-5) * float(exact.abs().max())
        if ours is found[-1]:  # squares of rounded values
            allowed *= 4
        torch.testing.assert_close(ours.double(), exact.double(), rtol=0, atol=allowed)


@every_blend
def test_layouts_have_the_same_gradients(blend: str) -> None:
    boxes = all_boxes()
    images, patches = images_of(torch.float32), images_of(torch.float32, 1, (len(boxes), 3, 9, 8))
    grad = images_of(torch.float32, 2)
    options = paste_options(blend, patches)
    results = []
    for laid_out in LAYOUTS.values():
        leaves = [laid_out(t).requires_grad_() for t in (images, patches)]
        found = visops.paste_rois(leaves[0], leaves[1], boxes, **options)
        crops = visops.crop_rois(leaves[0], boxes, (9, 8))
        results.append(
            (
                *torch.autograd.grad(found, leaves, laid_out(grad)),
                *torch.autograd.grad(crops, leaves[:1], laid_out(patches)),
            )
        )
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_many_positions_on_a_pixel() -> None:
    """More samples than kernels keep: patches far larger than boxes, and the reverse."""
    images = images_of(torch.float64, 0, (1, 1, 3, 700)).requires_grad_()
    boxes = torch.tensor([[0, 1.5, 0.25, 2.75, 2.5], [0, 0.3, 0.1, 699.8, 2.9]])
    found = visops.crop_rois(images, boxes, (2, 2600))
    grad = images_of(torch.float64, 1, tuple(found.shape))
    (gradient,) = torch.autograd.grad(found, images, grad)
    forward = float((found.detach() * grad).sum())
    assert float((images.detach() * gradient).sum()) == pytest.approx(forward)
    patches = images_of(torch.float64, 2, (1, 1, 2, 3)).requires_grad_()
    wide = torch.zeros(1, 1, 2, 2600, dtype=torch.float64)
    found = visops.paste_rois(wide, patches, torch.tensor([[0, 0, 0, 2600, 2]]))
    (gradient,) = torch.autograd.grad(found.sum(), patches)
    assert float(gradient.sum()) == pytest.approx(5200)


@pytest.mark.matrix
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [(70, 30), (3, 600)], ids=["rows", "columns"])
def test_more_positions_than_are_held_at_once(size: tuple[int, int], mode: str) -> None:
    """Every element of the gradient: CUDA kernels take such a grid in several pieces."""
    height, width = size
    grad = images_of(torch.float64, 1, (1, 1, height, width)) - 0.5

    basis = torch.eye(24, dtype=torch.float64).view(24, 1, 4, 6)
    boxes = torch.tensor([[i, 0.3, -0.2, 5.6, 4.1] for i in range(24)], dtype=torch.float64)
    found = visops.crop_rois(basis, boxes, size, interpolation=mode)
    image = torch.zeros_like(basis[:1], requires_grad=True)
    crop = visops.crop_rois(image, boxes[:1], size, interpolation=mode)
    (gradient,) = torch.autograd.grad(crop, image, grad)
    torch.testing.assert_close(gradient.flatten(), (found * grad).sum((1, 2, 3)))

    basis = torch.eye(6, dtype=torch.float64).view(6, 1, 2, 3)
    boxes = torch.tensor([[i, 0.3, 0.2, width - 0.6, height - 0.4] for i in range(6)]).double()
    blank = torch.zeros(6, 1, height, width, dtype=torch.float64)
    found = visops.paste_rois(blank, basis, boxes, interpolation=mode)
    patch = torch.zeros_like(basis[:1], requires_grad=True)
    pasted = visops.paste_rois(blank[:1], patch, boxes[:1], interpolation=mode)
    (gradient,) = torch.autograd.grad(pasted, patch, grad)
    torch.testing.assert_close(gradient.flatten(), (found * grad).sum((1, 2, 3)))


def test_only_what_is_needed_is_saved() -> None:
    images, boxes = crop_problem()
    saved: list[torch.Size] = []

    def pack(tensor: Tensor) -> Tensor:
        saved.append(tensor.shape)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        visops.crop_rois(images, boxes.detach(), SIZE)
        assert saved == [(4, 5)]
        saved.clear()
        visops.crop_rois(images, boxes, SIZE)
        assert saved == [(4, 5), SHAPE]
        saved.clear()
        patches = torch.rand(4, 2, *SIZE, dtype=torch.float64, requires_grad=True)
        visops.paste_rois(images, patches, boxes.detach(), blend="feather")
        assert saved == [(4, 5)]


def test_boxes_of_a_paste_have_no_gradient() -> None:
    images, boxes = crop_problem()
    patches = torch.rand(4, 2, *SIZE, dtype=torch.float64)
    found = visops.paste_rois(images, patches, boxes)
    (gradient,) = torch.autograd.grad(found.sum(), boxes, allow_unused=True)
    assert gradient is None


def test_what_is_not_differentiable_says_so() -> None:
    images, boxes = crop_problem()
    found = visops.crop_rois(images, boxes, SIZE)
    (grad,) = torch.autograd.grad(found.square().sum(), boxes, create_graph=True)
    with pytest.raises(RuntimeError, match="boxes can't be differentiated again"):
        torch.autograd.grad(grad.square().sum(), images)
    alpha = torch.rand(4, *SIZE, dtype=torch.float64, requires_grad=True)
    found = visops.paste_rois(
        images, torch.rand(4, 2, *SIZE, dtype=torch.float64), boxes.detach(), blend="alpha",
        alpha=alpha,
    )  # fmt: skip
    (grad,) = torch.autograd.grad(found.square().sum(), alpha, create_graph=True)
    with pytest.raises(RuntimeError, match="alpha can't be differentiated again"):
        torch.autograd.grad(grad.square().sum(), images)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(images.detach(), torch.ones_like(images))
        with pytest.raises(NotImplementedError, match="jvp"):
            visops.crop_rois(dual, boxes.detach(), SIZE)


@pytest.mark.cuda
def test_cuda_takes_no_part_of_boxes_that_are_not_valid() -> None:
    nan = float("nan")
    bad = [[7, 1, 1, 4, 4], [-1, 1, 1, 4, 4], [0.5, 1, 1, 4, 4], [0, nan, 1, 4, 4], [1, 4, 1, 3, 4]]
    boxes = torch.tensor(bad, device="cuda", requires_grad=True)
    images = images_of(torch.float32).cuda().requires_grad_()
    patches = torch.rand(5, 3, 6, 7, device="cuda", requires_grad=True)
    crops = visops.crop_rois(images, boxes, 8, fill=3)
    assert bool((crops == 3).all())
    found = visops.paste_rois(images, patches, boxes.detach())
    assert torch.equal(found, images)
    grads = torch.autograd.grad(crops.sum() + found.sum(), (images, boxes, patches))
    assert torch.equal(grads[0], torch.ones_like(images))
    assert all(float(g.abs().max()) == 0 for g in grads[1:])
