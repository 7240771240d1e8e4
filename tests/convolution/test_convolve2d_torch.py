"""convolve2d and correlate2d within torch: gradients, compile, vmap, torch.func, fake tensors."""

from typing import Any

import pytest
import torch
import visops
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck, gradgradcheck

METHODS = ["direct", "im2col", "fft"]
BOUNDARIES = ["fill", "wrap", "symm"]
CALLS = [("convolve2d", "full"), ("correlate2d", "same"), ("correlate2d", "valid")]
every_method = pytest.mark.parametrize("method", METHODS)
FUNCTIONS = {"convolve2d": visops.convolve2d, "correlate2d": visops.correlate2d}


def random(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=dtype, generator=generator)


@pytest.mark.usefixtures("restored_threads")
@every_method
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_gradcheck(boundary: str, method: str) -> None:
    """Functions and modes take turns: each meets every method and every boundary."""
    name, mode = CALLS[(BOUNDARIES.index(boundary) + METHODS.index(method)) % 3]
    torch.set_num_threads(1)  # thousands of tiny calls
    in1 = random(2, 5, 4).requires_grad_()
    in2 = random(3, 2, seed=1).requires_grad_()

    def call(in1: Tensor, in2: Tensor) -> Tensor:
        return FUNCTIONS[name](in1, in2, mode, boundary, 1.5, method=method)

    gradcheck(call, (in1, in2))
    if boundary != "fill":
        gradgradcheck(call, (in1, in2))


@every_method
def test_gradcheck_of_complex_and_of_swapped(method: str) -> None:
    in1 = random(2, 3, dtype=torch.complex128).requires_grad_()
    in2 = random(4, 3, dtype=torch.complex128, seed=1).requires_grad_()
    for function in FUNCTIONS.values():
        gradcheck(lambda a, b, f=function: f(a, b, "valid", method=method), (in1, in2))


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_gradients_of_methods_agree(boundary: str) -> None:
    """For an image of several tiles and blocks. Separable has no gradient of the kernel."""
    in1 = random(120, 170).requires_grad_()
    in2 = torch.outer(random(9, seed=1), random(7, seed=2))
    weights = random(120, 170, seed=3)
    found = {}
    for method in (*METHODS, "separable", "auto"):
        result = visops.convolve2d(in1, in2, "same", boundary, method=method)
        (found[method],) = torch.autograd.grad((result * weights).sum(), in1)
    for gradient in found.values():
        torch.testing.assert_close(gradient, found["direct"], rtol=0, atol=1e-12)


@every_method
def test_gradient_of_a_filter_bank(method: str) -> None:
    """Images and kernels that broadcast: gradients are summed over the repeated dimensions."""
    in1, in2 = random(2, 1, 9, 8).requires_grad_(), random(3, 3, 4, seed=1).requires_grad_()
    result = visops.correlate2d(in1, in2, "valid", method=method)
    wanted = torch.nn.functional.conv2d(in1, in2[:, None])
    torch.testing.assert_close(result, wanted)
    weights = random(*result.shape, seed=2)
    ours = torch.autograd.grad((result * weights).sum(), (in1, in2))
    theirs = torch.autograd.grad((wanted * weights).sum(), (in1, in2))
    torch.testing.assert_close(ours, theirs)


def test_gradients_with_nothing() -> None:
    in1, in2 = random(0, 4).requires_grad_(), random(3, 2).requires_grad_()
    result = visops.convolve2d(in1, in2, fillvalue=2.0)
    gradients = torch.autograd.grad(result.sum(), (in1, in2))
    assert gradients[0].shape == (0, 4)
    assert torch.equal(gradients[1], torch.full((3, 2), 2.0 * result.numel(), dtype=torch.float64))
    in1, in2 = random(3, 4).requires_grad_(), random(0, 2).requires_grad_()
    result = visops.convolve2d(in1, in2, "same")
    gradients = torch.autograd.grad(result.sum(), (in1, in2))
    assert torch.equal(gradients[0], torch.zeros(3, 4, dtype=torch.float64))


@pytest.mark.parametrize("method", [*METHODS, "auto"])
@pytest.mark.parametrize("in_dims", [(0, None), (None, 0), (1, 2)], ids=str)
def test_vmap(in_dims: tuple[int | None, int | None], method: str) -> None:
    in1 = random(2, 6, 7) if in_dims[0] is None else random(5, 2, 6, 7).movedim(0, in_dims[0])
    in2 = random(3, 2) if in_dims[1] is None else random(5, 3, 2).movedim(0, in_dims[1])

    def call(a: Tensor, b: Tensor) -> Tensor:
        return visops.convolve2d(a, b, "same", "symm", method=method)

    found = torch.vmap(call, in_dims)(in1, in2)
    for i in range(5):
        one = in1 if in_dims[0] is None else in1.select(in_dims[0], i)
        two = in2 if in_dims[1] is None else in2.select(in_dims[1], i)
        torch.testing.assert_close(found[i], call(one, two))


def test_vmap_of_images_with_a_separable_kernel() -> None:
    in1, in2 = random(3, 6, 7), torch.outer(random(3, seed=1), random(4, seed=2))

    def call(a: Tensor) -> Tensor:
        return visops.convolve2d(a, in2, "same", method="separable")

    torch.testing.assert_close(torch.vmap(call)(in1), call(in1))


@pytest.mark.parametrize("method", [*METHODS, "auto"])
def test_func(method: str) -> None:
    in1, in2 = random(6, 7), random(3, 2, seed=1)

    def loss(a: Tensor, b: Tensor) -> Tensor:
        return visops.convolve2d(a, b, "same", "wrap", method=method).square().sum()

    found = torch.func.grad(loss, (0, 1))(in1, in2)
    ones = [in1.requires_grad_(), in2.requires_grad_()]
    torch.testing.assert_close(found, torch.autograd.grad(loss(*ones), ones))


@pytest.mark.parametrize(
    ("method", "dynamic"),
    [("direct", False), ("im2col", True), ("fft", False), ("fft", True), ("auto", False)],
)
def test_compile(method: str, dynamic: bool) -> None:
    """A loss and its gradients in one graph; test_compile_for_any_size has the other pairs."""

    def loss(in1: Tensor, in2: Tensor) -> Tensor:
        return visops.correlate2d(in1 * 1.5, in2, "same", "symm", method=method).square().sum()

    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for height, width in ((20, 23), (31, 40)):
        inputs = [random(2, height, width).requires_grad_(), random(5, 4, seed=1).requires_grad_()]
        value, wanted = compiled(*inputs), loss(*inputs)
        torch.testing.assert_close(value, wanted)
        ours, theirs = (torch.autograd.grad(v, inputs) for v in (value, wanted))
        torch.testing.assert_close(ours, theirs)


def test_compile_for_any_size() -> None:
    """Direct and "auto" make one graph for images of all sizes; "auto" only looks at the kernel."""
    for method in ("direct", "auto"):
        torch._dynamo.reset()

        def call(in1: Tensor, in2: Tensor, method: str = method) -> Tensor:
            return visops.convolve2d(in1, in2, "same", method=method)

        compiled = torch.compile(call, fullgraph=True, dynamic=True, backend="aot_eager")
        for i, (height, width) in enumerate(((20, 23), (31, 40), (50, 9))):
            in1, in2 = random(height, width), random(5, 3, seed=1)
            with torch._dynamo.config.patch(error_on_recompile=i > 0):
                assert torch.equal(compiled(in1, in2), call(in1, in2, "direct"))


@pytest.mark.parametrize("method", [*METHODS, "auto"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.float16], ids=str)
def test_fake_tensors(dtype: torch.dtype, method: str) -> None:
    """Shapes, dtypes and strides without values, for a device that may be absent."""
    in1, in2 = random(2, 90, 70, dtype=dtype), random(31, 30, dtype=dtype)
    with FakeTensorMode() as mode:
        fakes = mode.from_tensor(in1), mode.from_tensor(in2)
        for function in FUNCTIONS.values():
            for boundary in ("fill", "symm"):
                found = function(*fakes, "same", boundary, method=method)
                wanted: dict[str, Any] = {"shape": in1.shape, "dtype": dtype}
                assert {key: getattr(found, key) for key in wanted} == wanted
                assert found.is_contiguous()


def test_meta_tensors() -> None:
    in1, in2 = torch.empty(900, 700, device="meta"), torch.empty(9, 9, device="meta")
    for method in (*METHODS, "auto"):
        assert visops.convolve2d(in1, in2, method=method).shape == (908, 708)


def test_factors_need_values() -> None:
    image, kernel = torch.ones(5, 6), torch.ones(2, 3, 3)
    with pytest.raises(ValueError, match=r"^visops\.convolve2d: method is 'separable', must be"):
        torch.vmap(lambda k: visops.convolve2d(image, k, method="separable"))(kernel)
