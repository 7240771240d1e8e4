"""Gradients of crops and of pasting."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import visops
from torch import Tensor
from torch.autograd import forward_ad, gradcheck
from warp.affine_cases import FLOATING, MODES

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
