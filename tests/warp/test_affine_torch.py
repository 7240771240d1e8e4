"""The affine operators within torch: gradients, opcheck, compile, modes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from references.affine import random_matrix
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck, gradgradcheck
from visops.warp import affine

from warp.affine_cases import FLOATING, LAYOUTS, MODES, PADDINGS, random_image

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


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("padding_mode", PADDINGS)
def test_gradcheck(mode: str, padding_mode: str) -> None:
    image, matrix = problem(0, shared=(MODES.index(mode) + PADDINGS.index(padding_mode)) % 2 == 1)

    def function(image: Tensor, matrix: Tensor) -> Tensor:
        return visops.warp_affine(
            image, matrix, GRADIENT_SIZE, mode=mode, padding_mode=padding_mode, fill=[0.5, -1.0]
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
            image, matrix, GRADIENT_SIZE, mode=mode, inverse_map=inverse_map, convention=convention
        )

    assert gradcheck(function, (image, matrix), eps=1e-7, atol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mode", MODES)
def test_layouts_agree(layout: str, mode: str) -> None:
    plain, matrix = problem(2)
    weights = torch.rand(2, 2, *GRADIENT_SIZE, dtype=torch.float64)
    expected = torch.autograd.grad(
        visops.warp_affine(plain, matrix, GRADIENT_SIZE, mode=mode), (plain, matrix), weights
    )
    image = LAYOUTS[layout](plain.detach()).requires_grad_()
    strided = LAYOUTS[layout](weights)
    result = torch.autograd.grad(
        visops.warp_affine(image, matrix, GRADIENT_SIZE, mode=mode), (image, matrix), strided
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


RECORDED_SIZE = [5, 9]

CALLS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "warp_affine": (
        lambda x, m: visops.warp_affine(x, m, RECORDED_SIZE, inverse_map=True),
        lambda x, m: torch.ops.visops.affine(
            x, m, RECORDED_SIZE, "bilinear", "constant", [0.0], True, False
        ),
    ),
    "augment": (
        lambda x, m: visops.augment(x, m, RECORDED_SIZE, inverse_map=True),
        # Defaults that the call leaves out reach the formulas all the same.
        lambda x, m: torch.ops.visops.augment(x, m, RECORDED_SIZE, inverse_map=True),
    ),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("wanted", [(True, False), (False, True), (True, True)])
def test_gradients_are_those_of_the_dispatcher(name: str, wanted: tuple[bool, bool]) -> None:
    generator = torch.Generator().manual_seed(0)
    image = torch.rand(2, 3, 7, 8, generator=generator)
    matrix = torch.tensor([[0.9, 0.1, 0.5], [-0.1, 0.9, 1.0]])
    grad = torch.rand(2, 3, *RECORDED_SIZE, generator=generator)

    def gradients(call: Callable[..., Any]) -> list[Tensor]:
        inputs = [
            tensor.clone().requires_grad_(needed)
            for tensor, needed in zip((image, matrix), wanted, strict=True)
        ]
        output = call(*inputs)
        needed = [tensor for tensor in inputs if tensor.requires_grad]
        return [output.detach(), *torch.autograd.grad(output, needed, grad)]

    eager, dispatched = CALLS[name]
    for ours, theirs in zip(gradients(eager), gradients(dispatched), strict=True):
        assert torch.equal(ours, theirs)
