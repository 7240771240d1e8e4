"""The affine operators within torch: opcheck, compile, vmap, autocast, fake tensors, modes."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from references.affine import random_matrix
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from warp.affine_cases import LAYOUTS, PADDINGS, random_image

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
def test_opcheck(dtype: torch.dtype, layout: str, shared: bool) -> None:
    image, matrix = sample(dtype, shared=shared)
    image = LAYOUTS[layout](image)
    options = ("bilinear", "reflect")
    if not dtype.is_floating_point:
        torch.library.opcheck(OPS.affine, (image, matrix, SIZE))
    out = torch.empty(2, 3, *SIZE, dtype=dtype)
    torch.library.opcheck(OPS.affine_out, (image, matrix, *options, [1.0], False, True, out))
    if not dtype.is_floating_point:
        return
    image.requires_grad_(), matrix.requires_grad_()
    torch.library.opcheck(OPS.affine, (image, matrix, SIZE))
    torch.library.opcheck(OPS.affine, (image, matrix, SIZE, *options, [1.0], False, True))
    grad = LAYOUTS[layout](torch.rand(2, 3, *SIZE).to(dtype))
    image, matrix = image.detach(), matrix.detach()
    backward_image = (grad, matrix, (10, 12), *options, False, True)
    grad.requires_grad_()
    torch.library.opcheck(OPS.affine_backward_image, backward_image)
    backward_matrix = (grad.detach(), image, matrix, *options, [1.0], False, True)
    torch.library.opcheck(OPS.affine_backward_matrix, backward_matrix)


def test_compile() -> None:
    compilations = 0

    def counting(graph: Any, _: Any) -> Any:
        nonlocal compilations
        compilations += 1
        return graph

    def step(image: Tensor, matrix: Tensor) -> Tensor:
        height, width = image.shape[-2:]
        size = (height * 2, width + 1)
        warped = visops.warp_affine(
            image * 2, matrix, size, mode="bicubic", padding_mode="symmetric"
        )
        return warped + 1

    torch._dynamo.reset()
    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend=counting)
    # A batch of 2 would be taken for the 2 rows of a matrix, which never change.
    for batch, height, width in ((4, 10, 12), (5, 11, 40), (7, 8, 9)):
        image = torch.rand(batch, 3, height, width)
        matrix = torch.tensor([[0.9, 0.2, 1.0], [-0.1, 1.1, 0.3]]).expand(batch, 2, 3)
        assert torch.equal(compiled(image, matrix), step(image, matrix))
    assert compilations == 1


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


def loop(image: Tensor, matrix: Tensor, in_dims: tuple[int | None, int | None]) -> Tensor:
    """vmap of the warp, by a Python loop."""
    images = image.unbind(in_dims[0]) if in_dims[0] is not None else None
    matrices = matrix.unbind(in_dims[1]) if in_dims[1] is not None else None
    count = len(images or matrices or ())
    results = [
        visops.warp_affine(
            images[i] if images else image, matrices[i] if matrices else matrix, SIZE, fill=0.5
        )
        for i in range(count)
    ]
    return torch.stack(results)


VMAPS: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int | None, int | None]]] = [
    ((4, 3, 10, 12), (4, 2, 3), (0, 0)),
    ((4, 3, 10, 12), (2, 3), (0, None)),
    ((3, 10, 12), (4, 2, 3), (None, 0)),
    ((3, 10, 4, 12), (2, 3, 4), (2, 2)),
    ((4, 2, 3, 10, 12), (4, 2, 2, 3), (0, 0)),
    ((4, 2, 3, 10, 12), (4, 2, 3), (0, 0)),
    ((2, 3, 10, 12, 4), (2, 2, 3), (4, None)),
    ((2, 3, 10, 12), (2, 4, 2, 3), (None, 1)),
    ((2, 3, 10, 12), (4, 2, 3), (None, 0)),
    ((2, 4, 3, 10, 12), (2, 3), (1, None)),
]


def vmap_arguments(image_shape: tuple[int, ...], matrix_shape: tuple[int, ...]) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    noise = torch.from_numpy(rng.normal(0, 0.1, matrix_shape))
    identity = torch.tensor([[1.0, 0, 0], [0, 1, 0]], dtype=torch.float64)
    rows = [d for d, n in enumerate(matrix_shape) if n == 2][-1:]
    if matrix_shape == (2, 3, 4):
        noise += identity[..., None]
    else:
        noise += identity
    assert rows
    return torch.from_numpy(rng.random(image_shape)), noise


@pytest.mark.parametrize(("image_shape", "matrix_shape", "in_dims"), VMAPS, ids=str)
def test_vmap(image_shape: Any, matrix_shape: Any, in_dims: Any) -> None:
    image, matrix = vmap_arguments(image_shape, matrix_shape)

    def warp(image: Tensor, matrix: Tensor) -> Tensor:
        return visops.warp_affine(image, matrix, SIZE, fill=0.5)

    result = torch.vmap(warp, in_dims=in_dims)(image, matrix)
    assert torch.equal(result, loop(image, matrix, in_dims))


def test_fake_and_meta_tensors_have_the_real_layout() -> None:
    for dtype in (torch.uint8, torch.float32):
        for relayout in LAYOUTS.values():
            image, matrix = sample(dtype)
            image = relayout(image)
            real = visops.warp_affine(image, matrix, SIZE)
            meta = torch.empty_strided(image.shape, image.stride(), dtype=dtype, device="meta")
            result = visops.warp_affine(meta, matrix.to("meta"), SIZE)
            assert (result.shape, result.stride()) == (real.shape, real.stride())
            assert (result.dtype, result.device.type) == (dtype, "meta")
            with FakeTensorMode() as mode:
                fake = visops.warp_affine(mode.from_tensor(image), mode.from_tensor(matrix), SIZE)
            assert (fake.shape, fake.stride()) == (real.shape, real.stride())


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
