"""im2col and col2im within torch: gradients, opcheck, compile, vmap, fake tensors, threads."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import visops
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from convolution.im2col_cases import LARGE, WINDOWS, Window, every_window, numbers, window

OPS = torch.ops.visops
LAYOUTS = ("unfold", "patches")
every_layout = pytest.mark.parametrize("layout", LAYOUTS)
FEW = [
    window((9,), (4,), 2, (3, 1), 2),
    window((6, 7), (3, 2), (1, 2), 1, (2, 1)),
    window((3, 4, 3), (2, 3, 2), 1, (1, 1, 0, 1, 1, 1)),
]
few_windows = pytest.mark.parametrize("w", FEW, ids=[f"{w.dims}d-{i}" for i, w in enumerate(FEW)])


def leaf(shape: Any, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    return numbers(shape, dtype, seed).requires_grad_()


@every_layout
@few_windows
def test_gradcheck(w: Window, layout: str) -> None:
    for dtype, leads in ((torch.float64, (2, 2)), (torch.complex128, (2,)), (torch.float64, ())):
        fill = torch.ones((), dtype=dtype)

        def forward(x: Tensor, fill: Tensor = fill) -> Tensor:
            return OPS.im2col(x, *w.arguments, fill, layout)

        def backward(y: Tensor) -> Tensor:
            return OPS.col2im(y, w.sizes, *w.arguments, layout)

        image = leaf((*leads, *w.sizes), dtype)
        columns = forward(image).detach().requires_grad_()
        for function, argument in ((forward, image), (backward, columns)):
            torch.autograd.gradcheck(function, argument, fast_mode=True)
            torch.autograd.gradgradcheck(function, argument, fast_mode=True)


@every_layout
def test_gradient_is_the_other(layout: str) -> None:
    for _, w in every_window():
        image = leaf((2, 3, *w.sizes))
        columns = OPS.im2col(image, *w.arguments, None, layout)
        grad = numbers(columns.shape, torch.float64, 1)
        (found,) = torch.autograd.grad(columns, image, grad)
        assert torch.equal(found, OPS.col2im(grad, w.sizes, *w.arguments, layout))
        grad.requires_grad_()
        back = OPS.col2im(grad, w.sizes, *w.arguments, layout)
        (found,) = torch.autograd.grad(back, grad, image.detach())
        assert torch.equal(found, columns)


@every_layout
def test_expanded_gradient(layout: str) -> None:
    image = leaf((2, 3, 6, 7))
    visops.im2col(image, 3, padding=1, layout=layout).sum().backward()
    ones = torch.ones_like(visops.im2col(image, 3, padding=1, layout=layout))
    assert torch.equal(
        image.grad,  # type: ignore[arg-type]
        visops.col2im(ones, (6, 7), 3, padding=1, layout=layout),
    )


@every_layout
@few_windows
def test_opcheck(w: Window, layout: str) -> None:
    """Dtypes and leading dimensions take turns over windows and layouts."""
    turn = FEW.index(w) + LAYOUTS.index(layout)
    dtype = (torch.float32, torch.int16)[turn % 2]
    leads = ((2, 3), ())[LAYOUTS.index(layout)]
    image = numbers((*leads, *w.sizes), dtype)
    columns = OPS.im2col(image, *w.arguments, None, layout)
    if dtype.is_floating_point:
        image.requires_grad_()
        columns.requires_grad_()
    fill = torch.ones((), dtype=dtype)
    torch.library.opcheck(OPS.im2col, (image, *w.arguments, fill, layout))
    torch.library.opcheck(OPS.col2im, (columns, w.sizes, *w.arguments, layout))


@pytest.mark.parametrize(
    ("backend", "layout"), [("aot_eager", "unfold"), ("aot_eager", "patches"), ("eager", "unfold")]
)
def test_compile(backend: str, layout: str) -> None:
    """Both and their gradients in one graph, for images of any size."""

    def loss(image: Tensor) -> Tensor:
        columns = visops.im2col(image * 2, (3, 2), padding=1, layout=layout, fill_value=0.5)
        back = visops.col2im(columns.sin(), image.shape[-2:], (3, 2), padding=1, layout=layout)
        return back.square().sum()

    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, dynamic=True, backend=backend)
    for i, shape in enumerate(((2, 3, 8, 9), (4, 2, 11, 7), (3, 5, 6, 20))):
        image = leaf(shape)
        with torch._dynamo.config.patch(error_on_recompile=i > 0):
            value = compiled(image)
        assert torch.equal(value, loss(image))
        (found,) = torch.autograd.grad(value, image)
        assert torch.equal(found, torch.autograd.grad(loss(image), image)[0])


@every_layout
@pytest.mark.parametrize("in_dim", [0, 1, -1])
@pytest.mark.parametrize("leads", [(), (3,), (2, 3)], ids=str)
def test_vmap(leads: tuple[int, ...], in_dim: int, layout: str) -> None:
    images = [numbers((*leads, 5, 6), torch.float64, i) for i in range(3)]
    batch = torch.stack(images, in_dim)

    def forward(x: Tensor) -> Tensor:
        return visops.im2col(x, 3, padding=1, layout=layout, fill_value=2)

    def backward(y: Tensor) -> Tensor:
        return visops.col2im(y, (5, 6), 3, padding=1, layout=layout)

    found = torch.vmap(forward, in_dims=in_dim)(batch)
    assert torch.equal(found, torch.stack([forward(x) for x in images]))
    back = torch.vmap(backward, in_dims=in_dim)(found.movedim(0, in_dim))
    assert torch.equal(back, torch.stack([backward(forward(x)) for x in images]))


@every_layout
def test_transforms(layout: str) -> None:
    image = numbers((2, 4, 4), torch.float64)

    def function(x: Tensor) -> Tensor:
        return visops.im2col(x, 2, padding=1, layout=layout)

    jacobian = torch.func.jacrev(function)(image)
    wanted = torch.autograd.functional.jacobian(function, image)
    assert torch.equal(jacobian, wanted)

    def loss(x: Tensor) -> Tensor:
        return visops.col2im(function(x).sin(), (4, 4), 2, padding=1, layout=layout).square().sum()

    per_image = torch.vmap(torch.func.grad(loss))(image[None].repeat(3, 1, 1, 1))
    x = leaf((2, 4, 4))
    (gradient,) = torch.autograd.grad(loss(x), x)
    assert torch.equal(per_image[1], gradient)
    second = torch.func.jacrev(torch.func.grad(loss))(image)
    assert torch.allclose(second, torch.autograd.functional.hessian(loss, image))


@every_layout
def test_fake_tensors(layout: str) -> None:
    for _, w in every_window(WINDOWS + LARGE):
        for leads in ((2, 3), (3,), ()):
            image = numbers((*leads, *w.sizes), torch.int16)
            columns = OPS.im2col(image, *w.arguments, None, layout)
            back = OPS.col2im(columns, w.sizes, *w.arguments, layout)
            meta = OPS.im2col(image.to("meta"), *w.arguments, None, layout)
            assert (meta.shape, meta.stride()) == (columns.shape, columns.stride())
            meta = OPS.col2im(meta, w.sizes, *w.arguments, layout)
            assert (meta.shape, meta.stride()) == (back.shape, back.stride())
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        image = mode.from_tensor(leaf((2, 3, 6, 7)))
        columns = visops.im2col(image, 3, fill_value=1, layout=layout)
        (gradient,) = torch.autograd.grad(columns.sum(), image)
        assert gradient.shape == image.shape


@every_layout
def test_no_gradient_is_wanted(layout: str) -> None:
    image = leaf((2, 5, 6), torch.float32)
    with torch.no_grad():
        assert not visops.im2col(image, 3, layout=layout).requires_grad
    with torch.inference_mode():
        assert torch.equal(
            visops.im2col(image.detach().clone(), 3, layout=layout),
            visops.im2col(image, 3, layout=layout),
        )
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert visops.im2col(image, 3, layout=layout).dtype == torch.float32


def test_conjugate_and_negative_views() -> None:
    image = numbers((2, 5, 6), torch.complex64)
    for view in (image.conj(), image.conj().imag):
        assert torch.equal(
            visops.im2col(view, 3), visops.im2col(view.resolve_conj().resolve_neg(), 3)
        )


@pytest.mark.usefixtures("restored_threads")
@every_layout
def test_threads_change_nothing(layout: str) -> None:
    for w, dtype in itertools.product(LARGE, (torch.float32, torch.bfloat16)):
        image = numbers((3, *w.sizes), dtype)
        results = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            columns = OPS.im2col(image, *w.arguments, None, layout)
            results.append((columns, OPS.col2im(columns, w.sizes, *w.arguments, layout)))
        for other in results[1:]:
            assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@pytest.mark.cuda
@every_layout
def test_cuda_waits_for_nothing(layout: str) -> None:
    image = leaf((2, 3, 6, 7)).detach().cuda().requires_grad_()
    visops.im2col(image, 3, layout=layout, fill_value=1).sum().backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        visops.im2col(image, 3, layout=layout, fill_value=1).sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.cuda
@every_layout
def test_cuda_arrays(layout: str) -> None:
    image = numbers((2, 3, 6, 7), torch.float32).numpy()
    found = visops.im2col(image, 3, layout=layout, device="cuda")
    assert np.array_equal(found, visops.im2col(image, 3, layout=layout))
