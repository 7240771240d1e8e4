"""Gradients of the affine warp."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from references.affine import random_matrix
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from visops.warp import affine

from warp.affine_cases import FLOATING, LAYOUTS, MODES, PADDINGS, random_image

SIZE = (6, 7)


def problem(
    seed: int, *, shared: bool = False, scale: tuple[float, float] = (0.5, 2.0)
) -> tuple[Tensor, Tensor]:
    """Float64 image [2, 2, 5, 6] and matrices whose coordinates keep clear of pixel centres.

    There interpolation has kinks, and numerical derivatives are wrong.
    """
    rng = np.random.default_rng(seed)
    image = random_image(rng, (2, 2, 5, 6), torch.float64)
    matrices: list[np.ndarray] = []
    while len(matrices) < (1 if shared else 2):
        matrix = random_matrix(rng, 5, 6, SIZE, scale=scale)
        inverse = np.linalg.inv(np.vstack([matrix, [0, 0, 1]]))
        y, x = np.indices(SIZE)
        coordinates = np.stack(
            [inverse[r, 0] * x + inverse[r, 1] * y + inverse[r, 2] for r in (0, 1)]
        )
        if np.abs(coordinates - np.rint(coordinates)).min() > 1e-4:
            matrices.append(matrix)
    matrix_tensor = torch.from_numpy(matrices[0] if shared else np.stack(matrices))
    return image.requires_grad_(), matrix_tensor.requires_grad_()


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("padding_mode", PADDINGS)
def test_gradcheck(mode: str, padding_mode: str) -> None:
    image, matrix = problem(0, shared=(MODES.index(mode) + PADDINGS.index(padding_mode)) % 2 == 1)

    def function(image: Tensor, matrix: Tensor) -> Tensor:
        return visops.warp_affine(
            image, matrix, SIZE, mode=mode, padding_mode=padding_mode, fill=[0.5, -1.0]
        )

    assert gradcheck(function, (image, matrix), eps=1e-7, atol=1e-5)
    assert gradgradcheck(lambda i: function(i, matrix.detach()), (image,))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("inverse_map", [False, True])
@pytest.mark.parametrize("convention", ["integer", "half_pixel"])
def test_gradcheck_of_conventions(mode: str, inverse_map: bool, convention: str) -> None:
    image, matrix = problem(1)
    if convention == "half_pixel":
        # Keep the coordinates of problem(): conjugate with the shift by half a pixel.
        half = torch.tensor([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5]], dtype=torch.float64)
        back = torch.tensor([[1.0, 0.0, -0.5], [0.0, 1.0, -0.5]], dtype=torch.float64)
        matrix = visops.compose_affine(back, matrix.detach(), half).requires_grad_()
    if inverse_map:
        matrix = visops.invert_affine(matrix.detach()).requires_grad_()

    def function(image: Tensor, matrix: Tensor) -> Tensor:
        return visops.warp_affine(
            image, matrix, SIZE, mode=mode, inverse_map=inverse_map, convention=convention
        )

    assert gradcheck(function, (image, matrix), eps=1e-7, atol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mode", MODES)
def test_layouts_agree(layout: str, mode: str) -> None:
    plain, matrix = problem(2)
    weights = torch.rand(2, 2, *SIZE, dtype=torch.float64)
    expected = torch.autograd.grad(
        visops.warp_affine(plain, matrix, SIZE, mode=mode), (plain, matrix), weights
    )
    image = LAYOUTS[layout](plain.detach()).requires_grad_()
    strided = LAYOUTS[layout](weights)
    result = torch.autograd.grad(
        visops.warp_affine(image, matrix, SIZE, mode=mode), (image, matrix), strided
    )
    for got, wanted in zip(result, expected, strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padding_mode", PADDINGS)
def test_image_gradient_is_the_transpose(mode: str, padding_mode: str) -> None:
    """<warp(x), g> = <x, warp'(g)> at sizes that gradcheck can't afford."""
    scale = (0.1, 1.0, 6.0)[(MODES.index(mode) + PADDINGS.index(padding_mode)) % 3]
    rng = np.random.default_rng(3)
    for dtype, tolerance in ((torch.float32, 1e-4), (torch.float64, 1e-11)):
        image = random_image(rng, (2, 3, 70, 90), dtype).requires_grad_()
        matrices = [random_matrix(rng, 70, 90, (65, 140), scale=(scale, scale)) for _ in range(2)]
        result = visops.warp_affine(
            image, np.stack(matrices), (65, 140), mode=mode, padding_mode=padding_mode
        )
        grad = random_image(rng, tuple(result.shape), dtype) - 0.5
        (grad_image,) = torch.autograd.grad(result, image, grad)
        forward = (result.detach().double() * grad.double()).sum()
        backward = (image.detach().double() * grad_image.double()).sum()
        size = (result.detach().double() * grad.double()).abs().sum()
        assert abs(forward - backward) <= tolerance * size


def test_matrix_gradient_of_a_shared_matrix_is_the_sum() -> None:
    image, matrix = problem(4, shared=True)
    grads = []
    for sample in (matrix, matrix.expand(2, 2, 3)):
        result = visops.warp_affine(image, sample, SIZE, mode="bicubic")
        grads.append(torch.autograd.grad(result.square().sum(), matrix)[0])
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-12, atol=1e-12)


def test_no_gradient_of_nearest_to_the_matrix() -> None:
    image, matrix = problem(5)
    result = visops.warp_affine(image, matrix, SIZE, mode="nearest")
    (grad,) = torch.autograd.grad(result.sum(), matrix)
    assert torch.equal(grad, torch.zeros_like(matrix))


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@pytest.mark.parametrize("matrix_dtype", FLOATING, ids=str)
def test_dtypes(dtype: torch.dtype, matrix_dtype: torch.dtype) -> None:
    image, matrix = problem(6)
    low_image = image.detach().to(dtype).requires_grad_()
    low_matrix = matrix.detach().to(matrix_dtype).requires_grad_()
    result = visops.warp_affine(low_image, low_matrix, SIZE)
    grads = torch.autograd.grad(result.sum(), (low_image, low_matrix))
    assert [g.dtype for g in grads] == [dtype, matrix_dtype]
    exact_image = low_image.detach().double().requires_grad_()
    exact_matrix = low_matrix.detach().double().requires_grad_()
    exact = visops.warp_affine(exact_image, exact_matrix, SIZE)
    for got, wanted in zip(
        grads, torch.autograd.grad(exact.sum(), (exact_image, exact_matrix)), strict=True
    ):
        largest = float(wanted.abs().max())
        allowed = (torch.finfo(got.dtype).eps + 1e-5) * largest
        torch.testing.assert_close(got.double(), wanted, rtol=0, atol=allowed)


def test_only_what_is_needed_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name in ("_affine_backward_image", "_affine_backward_matrix"):
        original = getattr(affine, name)

        def record(*args: Any, name: str = name, original: Any = original) -> Any:
            calls.append(name)
            return original(*args)

        monkeypatch.setattr(affine, name, record)
    image, matrix = problem(8)
    visops.warp_affine(image, matrix.detach(), SIZE).sum().backward()
    assert calls == ["_affine_backward_image"]
    assert image.grad is not None
    visops.warp_affine(image.detach(), matrix, SIZE).sum().backward()
    assert calls[1:] == ["_affine_backward_matrix"]
    assert matrix.grad is not None
    integers = torch.zeros(1, 1, 5, 6, dtype=torch.uint8)
    assert not visops.warp_affine(integers, [[1, 0, 0.5], [0, 1, 0]]).requires_grad


def test_image_is_saved_only_for_the_matrix() -> None:
    image, matrix = problem(9)
    saved: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        visops.warp_affine(image, matrix.detach(), SIZE)
        assert [t.shape for t in saved] == [(2, 2, 3)]
        visops.warp_affine(image, matrix, SIZE)
        assert [t.shape for t in saved[1:]] == [(2, 2, 3), (2, 2, 5, 6)]


def test_gradient_of_the_image_gradient() -> None:
    """What a gradient penalty needs: the image gradient's d / d (gradient, matrix)."""
    image, matrix = problem(10)
    for mode in ("bilinear", "bicubic"):
        for inverse_map in (False, True):
            grad = torch.rand(2, 2, *SIZE, dtype=torch.float64, requires_grad=True)
            options = (mode, "reflect", inverse_map, False)

            def image_gradient(
                grad: Tensor, matrix: Tensor, options: tuple[Any, ...] = options
            ) -> Tensor:
                op = torch.ops.visops.affine_backward_image
                return op(grad, matrix, list(image.shape[2:]), *options)

            assert torch.autograd.gradcheck(image_gradient, (grad, matrix))


def test_gradient_of_the_matrix_gradient_is_refused() -> None:
    image, matrix = problem(10)
    result = visops.warp_affine(image, matrix, SIZE)
    (grad,) = torch.autograd.grad(result.square().sum(), matrix, create_graph=True)
    with pytest.raises(RuntimeError, match="matrix can't be differentiated again"):
        torch.autograd.grad(grad.square().sum(), image)
    # The image still has a second derivative.
    result = visops.warp_affine(image, matrix, SIZE)
    (grad,) = torch.autograd.grad(result.square().sum(), image, create_graph=True)
    (second,) = torch.autograd.grad(grad.square().sum(), image)
    assert second.abs().max() > 0
