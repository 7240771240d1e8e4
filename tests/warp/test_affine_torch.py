"""The affine operators within torch: gradients, opcheck, compile, modes."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from references.affine import random_matrix
from torch import Tensor
from visops.warp import affine

from warp.affine_cases import FLOATING, LAYOUTS, PADDINGS, random_image

OPS = torch.ops.visops
SIZE = (9, 66)


def sample(
    dtype: torch.dtype = torch.float32, *, shared: bool = False, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """An image [2, 3, 10, 12], and matrices [2, 2, 3] or one [2, 3]."""
    rng = np.random.default_rng(seed)
    image = random_image(rng, (2, 3, 10, 12), dtype)
    matrices = torch.from_numpy(np.stack([random_matrix(rng, 10, 12, SIZE) for _ in range(2)]))
    return image, matrices[0] if shared else matrices


@pytest.mark.parametrize(
    ("dtype", "layout", "shared"),
    [
        (torch.uint8, "contiguous", True),
        (torch.float32, "channels_last", False),
        (torch.bfloat16, "transposed", True),
    ],
    ids=str,
)
def test_opcheck_of_out(dtype: torch.dtype, layout: str, shared: bool) -> None:
    image, matrix = sample(dtype, shared=shared)
    image = LAYOUTS[layout](image)
    options = ("bilinear", "reflect")
    out = torch.empty(2, 3, *SIZE, dtype=dtype)
    torch.library.opcheck(OPS.affine_out, (image, matrix, *options, [1.0], False, True, out))


def test_compile_out_and_single_images() -> None:
    def into(image: Tensor, matrix: Tensor, out: Tensor) -> Tensor:
        return visops.warp_affine(image, matrix, out=out) + 1

    torch._dynamo.reset()
    compiled = torch.compile(into, fullgraph=True, backend="aot_eager")
    image, matrix = sample(shared=True)
    out = torch.zeros(3, *SIZE)
    expected = visops.warp_affine(image[0], matrix, SIZE)
    assert torch.equal(compiled(image[0], matrix, out), expected + 1)
    assert torch.equal(out, expected)


def test_out_of_saved_tensors_is_noticed() -> None:
    image, matrix = sample()
    out = torch.rand(2, 3, *SIZE)
    product = torch.rand(2, 3, *SIZE, requires_grad=True) * out
    visops.warp_affine(image, matrix, out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_defaults_of_the_operator() -> None:
    """The operator's own matrix is destination to source."""
    image, matrix = sample()
    expected = visops.warp_affine(image, matrix, SIZE, inverse_map=True)
    assert torch.equal(OPS.affine(image, matrix, SIZE), expected)
    for padding_mode in PADDINGS:
        named = OPS.affine(image, matrix, SIZE, padding_mode=padding_mode, inverse_map=False)
        public = visops.warp_affine(image, matrix, SIZE, padding_mode=padding_mode)
        assert torch.equal(named, public)


def test_a_batch_of_one_matrix_goes_with_every_image() -> None:
    images = torch.rand(3, 2, 5, 6)
    matrix = torch.tensor([[[0.9, 0.2, 0.3], [-0.1, 1.1, -0.4]]], requires_grad=True)
    result = visops.warp_affine(images, matrix)
    assert torch.equal(result, visops.warp_affine(images, matrix[0]))
    augmented = visops.augment(images, matrix, (5, 6))
    assert torch.equal(augmented, visops.augment(images, matrix[0], (5, 6)))
    result.sum().backward()
    assert matrix.grad is not None
    assert matrix.grad.shape == (1, 2, 3)
    out = torch.empty(3, 2, 5, 6)
    visops.warp_affine(images, matrix.detach(), out=out)
    assert torch.equal(out, result)
    eye = torch.eye(3)[None].expand(1, 3, 3)
    assert torch.equal(visops.augment(images, eye, (5, 6)), images)


GRADIENT_SIZE = (6, 7)


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
        matrix = random_matrix(rng, 5, 6, GRADIENT_SIZE, scale=scale)
        inverse = np.linalg.inv(np.vstack([matrix, [0, 0, 1]]))
        y, x = np.indices(GRADIENT_SIZE)
        coordinates = np.stack(
            [inverse[r, 0] * x + inverse[r, 1] * y + inverse[r, 2] for r in (0, 1)]
        )
        if np.abs(coordinates - np.rint(coordinates)).min() > 1e-4:
            matrices.append(matrix)
    matrix_tensor = torch.from_numpy(matrices[0] if shared else np.stack(matrices))
    return image.requires_grad_(), matrix_tensor.requires_grad_()


def test_matrix_gradient_of_a_shared_matrix_is_the_sum() -> None:
    image, matrix = problem(4, shared=True)
    grads = []
    for sample in (matrix, matrix.expand(2, 2, 3)):
        result = visops.warp_affine(image, sample, GRADIENT_SIZE, mode="bicubic")
        grads.append(torch.autograd.grad(result.square().sum(), matrix)[0])
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-12, atol=1e-12)


def test_no_gradient_of_nearest_to_the_matrix() -> None:
    image, matrix = problem(5)
    result = visops.warp_affine(image, matrix, GRADIENT_SIZE, mode="nearest")
    (grad,) = torch.autograd.grad(result.sum(), matrix)
    assert torch.equal(grad, torch.zeros_like(matrix))


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@pytest.mark.parametrize("matrix_dtype", FLOATING, ids=str)
def test_dtypes(dtype: torch.dtype, matrix_dtype: torch.dtype) -> None:
    image, matrix = problem(6)
    low_image = image.detach().to(dtype).requires_grad_()
    low_matrix = matrix.detach().to(matrix_dtype).requires_grad_()
    result = visops.warp_affine(low_image, low_matrix, GRADIENT_SIZE)
    grads = torch.autograd.grad(result.sum(), (low_image, low_matrix))
    assert [g.dtype for g in grads] == [dtype, matrix_dtype]
    exact_image = low_image.detach().double().requires_grad_()
    exact_matrix = low_matrix.detach().double().requires_grad_()
    exact = visops.warp_affine(exact_image, exact_matrix, GRADIENT_SIZE)
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
    visops.warp_affine(image, matrix.detach(), GRADIENT_SIZE).sum().backward()
    assert calls == ["_affine_backward_image"]
    assert image.grad is not None
    visops.warp_affine(image.detach(), matrix, GRADIENT_SIZE).sum().backward()
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
        visops.warp_affine(image, matrix.detach(), GRADIENT_SIZE)
        assert [t.shape for t in saved] == [(2, 2, 3)]
        visops.warp_affine(image, matrix, GRADIENT_SIZE)
        assert [t.shape for t in saved[1:]] == [(2, 2, 3), (2, 2, 5, 6)]


def test_gradient_of_the_image_gradient() -> None:
    """What a gradient penalty needs: the image gradient's d / d (gradient, matrix)."""
    image, matrix = problem(10)
    for mode in ("bilinear", "bicubic"):
        for inverse_map in (False, True):
            grad = torch.rand(2, 2, *GRADIENT_SIZE, dtype=torch.float64, requires_grad=True)
            options = (mode, "reflect", inverse_map, False)

            def image_gradient(
                grad: Tensor, matrix: Tensor, options: tuple[Any, ...] = options
            ) -> Tensor:
                op = torch.ops.visops.affine_backward_image
                return op(grad, matrix, list(image.shape[2:]), *options)

            assert torch.autograd.gradcheck(image_gradient, (grad, matrix))


def test_gradient_of_the_matrix_gradient_is_refused() -> None:
    image, matrix = problem(10)
    result = visops.warp_affine(image, matrix, GRADIENT_SIZE)
    (grad,) = torch.autograd.grad(result.square().sum(), matrix, create_graph=True)
    with pytest.raises(RuntimeError, match="matrix can't be differentiated again"):
        torch.autograd.grad(grad.square().sum(), image)
    # The image still has a second derivative.
    result = visops.warp_affine(image, matrix, GRADIENT_SIZE)
    (grad,) = torch.autograd.grad(result.square().sum(), image, create_graph=True)
    (second,) = torch.autograd.grad(grad.square().sum(), image)
    assert second.abs().max() > 0
