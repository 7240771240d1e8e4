"""Gradients of the augmentation."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import visops
from references.affine import random_matrix
from references.augment import destination_to_source
from torch import Tensor
from torch.autograd import forward_ad, gradcheck

from warp.affine_cases import FLOATING, random_image
from warp.augment_cases import name_of, random_color, random_erase, random_perspective

SIZE = (5, 6)
HEIGHT, WIDTH = 5, 6
WINDOW = [1.3, 0.6, 4.9, 4.3]
# Kinks: where a tap changes, and where the window's edge begins and ends.
BENDS = np.array([*range(-30, 40), *(np.arange(-60, 80) / 2), 0.8, 0.1, 4.4, 3.8])


def clear_of_kinks(matrix: np.ndarray, size: Any = SIZE) -> bool:
    """Whether no pixel's source is at a kink, where numerical derivatives are wrong."""
    m = destination_to_source(matrix, inverse_map=False, convention="integer")
    y, x = np.indices(size)
    u, v, w = m @ np.stack([x.ravel(), y.ravel(), np.ones(x.size)])
    coordinates = np.stack([u / w, v / w]).ravel()
    return bool(np.abs(coordinates[:, None] - BENDS).min() > 1e-4)


def draw(rng: np.random.Generator, *, perspective: bool, scale: tuple[float, float]) -> np.ndarray:
    while True:
        if perspective:
            matrix = random_perspective(rng, HEIGHT, WIDTH, SIZE, scale=scale)
        else:
            matrix = random_matrix(rng, HEIGHT, WIDTH, SIZE, scale=scale)
        if clear_of_kinks(matrix):
            return matrix


def problem(
    seed: int,
    *,
    perspective: bool = False,
    steps: int = 1,
    shared: bool = False,
    channels: int = 2,
    scale: tuple[float, float] = (0.5, 2.0),
) -> tuple[Tensor, Tensor, Tensor]:
    """Float64 image [2, C, 5, 6], matrices and colours that require gradients."""
    rng = np.random.default_rng(seed)
    image = random_image(rng, (2, channels, HEIGHT, WIDTH), torch.float64)
    matrices = np.stack([draw(rng, perspective=perspective, scale=scale) for _ in range(2)])
    colors = np.stack([random_color(rng, steps, channels) for _ in range(2)])
    matrix = torch.from_numpy(matrices[0] if shared else matrices)
    color = torch.from_numpy(colors[0, 0] if shared else colors)
    return image.requires_grad_(), matrix.requires_grad_(), color.requires_grad_()


def check(tensors: Any, **options: Any) -> None:
    image, matrix, color = tensors

    def function(image: Tensor, matrix: Tensor, color: Tensor) -> Tensor:
        return visops.augment(
            image,
            matrix,
            SIZE,
            color=color,
            fill=[0.5, -1.0, 2.0][: image.shape[1]],
            out_dtype=torch.float64,
            layout="CHW",
            **options,
        )

    assert gradcheck(function, (image, matrix, color), eps=1e-7, atol=1e-5)


@pytest.mark.parametrize(("channels", "steps"), [(1, 8), (2, 1), (2, 2), (3, 1), (3, 8)])
def test_gradcheck_of_colour(channels: int, steps: int) -> None:
    rng = np.random.default_rng(1)
    erase = np.stack([random_erase(rng, 2, SIZE) for _ in range(2)])
    tensors = problem(1, steps=steps, channels=channels)
    check(tensors, mean=0.4, std=[0.2, 0.5, 2.0][:channels], erase=erase, erase_value=3.0)
    # Every step clamps some values.
    check(tensors, clamp=True, mean=0.4, std=0.2)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("padding_mode", ["constant", "reflect"])
def test_gradcheck_of_the_window(padding_mode: str, mode: str) -> None:
    """The edge's width is not constant, but shifts and turns leave it alone."""
    image, matrix, color = problem(2)
    options: dict[str, Any] = {"mode": mode, "padding_mode": padding_mode, "window": WINDOW}
    angle = torch.tensor([0.3, -1.2], dtype=torch.float64)
    shift = torch.tensor([[0.37, 0.21], [2.13, -0.77]], dtype=torch.float64)

    def function(image: Tensor, angle: Tensor, shift: Tensor, color: Tensor) -> Tensor:
        matrix = visops.get_affine_matrix((2.5, 2.0), angle.rad2deg(), shift)
        return visops.augment(
            image, matrix, SIZE, color=color, fill=0.5, out_dtype=torch.float64, **options
        )

    leaves = (image, angle.requires_grad_(), shift.requires_grad_(), color)
    assert gradcheck(function, leaves, eps=1e-7, atol=1e-5)
    # With a constant matrix, any width will do.
    check((image, matrix.detach(), color), **options)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
def test_matrix_gradient_of_antialias(mode: str) -> None:
    """Under shifts, where the widths are constant."""
    image, _, _ = problem(4)
    image = image.detach()
    shift = torch.tensor([[0.37, 0.21], [1.13, -0.77]], dtype=torch.float64, requires_grad=True)
    linear = torch.tensor([[0.4, 0.1], [-0.05, 0.3]], dtype=torch.float64)
    for padding_mode in ("constant", "symmetric"):

        def function(shift: Tensor, padding_mode: str = padding_mode) -> Tensor:
            matrix = torch.cat([linear.expand(2, 2, 2), shift[..., None]], dim=2)
            return visops.augment(
                image,
                matrix,
                SIZE,
                mode=mode,
                antialias=True,
                padding_mode=padding_mode,
                fill=0.5,
                out_dtype=torch.float64,
            )

        assert gradcheck(function, (shift,), eps=1e-7, atol=1e-5)


@pytest.mark.parametrize("convention", ["integer", "half_pixel"])
@pytest.mark.parametrize("perspective", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_gradcheck_of_conventions(shared: bool, perspective: bool, convention: str) -> None:
    inverse_map = shared ^ perspective ^ (convention == "half_pixel")  # any three meet
    image, matrix, color = problem(5, perspective=perspective, shared=shared)
    full = matrix.detach()
    if not perspective:
        row = torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64)
        full = torch.cat([full, row.expand(*full.shape[:-2], 1, 3)], -2)
    if convention == "half_pixel":  # keep the coordinates of problem()
        half = torch.tensor([[1.0, 0, 0.5], [0, 1, 0.5], [0, 0, 1]], dtype=torch.float64)
        full = half @ full @ half.inverse()
    full = full.inverse() if inverse_map else full
    rows = 3 if perspective else 2
    matrix = full[..., :rows, :].contiguous().requires_grad_()
    check((image, matrix, color), inverse_map=inverse_map, convention=convention)


@pytest.mark.parametrize("inverse_map", [False, True])
def test_gradcheck_of_affine_maps_in_nine_elements(inverse_map: bool) -> None:
    """The last row is 0, 0, w, and still has a gradient."""
    image, matrix, color = problem(5)
    row = torch.tensor([[[0.0, 0.0, 1.0]]], dtype=torch.float64).expand(2, 1, 3)
    full = 1.7 * torch.cat([matrix.detach(), row], 1)
    full = full.inverse() if inverse_map else full
    check((image, full.requires_grad_(), color), inverse_map=inverse_map)


@pytest.mark.parametrize("listed", [False, True])
def test_shared_parameters_collect_from_all_samples(listed: bool) -> None:
    image, matrix, color = problem(8, shared=True)
    images: Any = list(image) if listed else image
    grads = []
    for m, c in ((matrix, color), (matrix.expand(2, 2, 3), color.expand(2, 1, 2, 3))):
        result = visops.augment(images, m, SIZE, color=c, mode="bicubic", layout="CHW")
        grads.append(torch.autograd.grad(result.square().sum(), (matrix, color, image)))
    for got, wanted in zip(*grads, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


def test_lists_have_the_gradients_of_batches() -> None:
    image, matrix, color = problem(9, steps=2)
    options: dict[str, Any] = {
        "color": color,
        "window": [WINDOW, [0.0, 0.0, 6.0, 5.0]],
        "erase": [[0, 0, 2, 2], [1, 1, 1, 1]],
        "std": 0.5,
        "clamp": True,
        "layout": "CHW",
    }
    expected = torch.autograd.grad(
        visops.augment(image, matrix, SIZE, **options).square().sum(), (image, matrix, color)
    )
    leaves = [i.detach().clone().requires_grad_() for i in image]
    result = visops.augment(leaves, matrix, SIZE, **options)
    got = torch.autograd.grad(result.square().sum(), (*leaves, matrix, color))
    assert torch.equal(torch.stack(got[:2]), expected[0])
    assert torch.equal(got[2], expected[1])
    assert torch.equal(got[3], expected[2])
    # Only one of the images, or only the colour.
    result = visops.augment([leaves[0].detach(), leaves[1]], matrix.detach(), SIZE, **options)
    (one,) = torch.autograd.grad(result.square().sum(), leaves[1])
    assert torch.equal(one, expected[0][1])
    result = visops.augment(list(image.detach()), matrix.detach(), SIZE, **options)
    (only,) = torch.autograd.grad(result.square().sum(), color)
    assert torch.equal(only, expected[2])


def test_no_gradient_of_nearest_to_the_matrix() -> None:
    image, matrix, color = problem(10)
    result = visops.augment(image, matrix, SIZE, color=color, mode="nearest")
    grads = torch.autograd.grad(result.sum(), (image, matrix, color))
    assert torch.equal(grads[1], torch.zeros_like(matrix))
    assert grads[0].abs().max() > 0
    assert grads[2].abs().max() > 0


@pytest.mark.parametrize("dtype", FLOATING, ids=name_of)
@pytest.mark.parametrize("out_dtype", FLOATING, ids=name_of)
def test_dtypes(out_dtype: torch.dtype, dtype: torch.dtype) -> None:
    image, matrix, color = problem(11)
    low = image.detach().to(dtype).requires_grad_()
    low_matrix = matrix.detach().to(dtype).requires_grad_()
    low_color = color.detach().to(dtype).requires_grad_()
    result = visops.augment(low, low_matrix, SIZE, color=low_color, out_dtype=out_dtype)
    grads = torch.autograd.grad(result.sum(), (low, low_matrix, low_color))
    assert [g.dtype for g in grads] == [dtype] * 3
    assert [g.shape for g in grads] == [low.shape, low_matrix.shape, low_color.shape]
    exact = [t.detach().double().requires_grad_() for t in (low, low_matrix, low_color)]
    wide = visops.augment(exact[0], exact[1], SIZE, color=exact[2], out_dtype=torch.float64)
    for got, wanted in zip(grads, torch.autograd.grad(wide.sum(), exact), strict=True):
        largest = float(wanted.abs().max())
        allowed = (torch.finfo(dtype).eps + 1e-5) * largest
        torch.testing.assert_close(got.double(), wanted, rtol=0, atol=allowed)


def test_uint8_images_and_results() -> None:
    """uint8 images pass gradients to matrix and colour; uint8 results have none."""
    image = torch.randint(0, 256, (2, 2, HEIGHT, WIDTH), dtype=torch.uint8)
    _, matrix, color = problem(12)
    grads = []
    for given in (image, image / 255):
        result = visops.augment(given, matrix, SIZE, color=color, layout="CHW")
        grads.append(torch.autograd.grad(result.square().sum(), (matrix, color)))
    for got, wanted in zip(*grads, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
    result = visops.augment(image, matrix, SIZE, color=color, out_dtype=torch.uint8, layout="CHW")
    assert not result.requires_grad


def test_only_what_is_needed_is_computed() -> None:
    image, matrix, color = problem(14)
    for needs in itertools.product([False, True], repeat=3):
        leaves = [
            t.detach().requires_grad_(n) for t, n in zip((image, matrix, color), needs, strict=True)
        ]
        wanted: list[tuple[bool, ...]] = []

        class Record(torch.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                if func is torch.ops.visops.augment_backward.default:
                    wanted.append(tuple(args[-3:]))  # noqa: B023
                return func(*args, **(kwargs or {}))

        result = visops.augment(leaves[0], leaves[1], SIZE, color=leaves[2])
        assert result.requires_grad == any(needs)
        if any(needs):
            with Record():
                result.sum().backward()
            assert wanted == [needs]
        assert [leaf.grad is not None for leaf in leaves] == list(needs)


def test_gradients_without_channels_take_no_time() -> None:
    """However many pixels the result has, none of them holds a number."""
    image = torch.empty(1, 0, 3, 8, requires_grad=True)
    matrix = torch.tensor([[[3.5, 0.1, 0.6], [0.3, 3.7, -0.9], [0.001, 0, 1]]], requires_grad=True)
    color = torch.empty(1, 2, 0, 1, requires_grad=True)
    result = visops.augment(image, matrix, (12, 2**31 - 1), color=color, antialias=True)
    leaves = (image, matrix, color)
    for leaf, grad in zip(leaves, torch.autograd.grad(result.sum(), leaves), strict=True):
        assert torch.equal(grad, torch.zeros_like(leaf))


def test_second_derivatives_and_forward_mode_are_refused() -> None:
    image, matrix, color = problem(15)
    result = visops.augment(image, matrix, SIZE, color=color)
    (grad,) = torch.autograd.grad(result.square().sum(), image, create_graph=True)
    with pytest.raises(RuntimeError, match=r"^visops\.augment: its gradients can't be different"):
        torch.autograd.grad(grad.square().sum(), image)
    with forward_ad.dual_level():
        for images in (image, list(image)):
            dual = forward_ad.make_dual(image.detach(), torch.ones_like(image))
            given = dual if images is image else list(dual)
            with pytest.raises(NotImplementedError, match="jvp"):
                visops.augment(given, matrix.detach(), SIZE, layout="CHW")
