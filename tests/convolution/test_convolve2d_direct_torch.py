"""The direct convolution within torch: opcheck, compile, vmap, torch.func, fakes, threads."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from visops.convolution.convolve2d_autograd import convolve2d

from convolution.convolve2d_cases import BOUNDARIES, element, values

OPS = torch.ops.visops
every_boundary = pytest.mark.parametrize("boundary", BOUNDARIES)


def sample(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(0)
    return values(rng, (2, 1, 9, 11), dtype), values(rng, (3, 3, 4), dtype)


def same(input: Tensor, kernel: Tensor, boundary: str = "fill") -> Tensor:
    start = [(k - 1) // 2 for k in kernel.shape[-2:]]
    result: Tensor = convolve2d(input, kernel, start, input.shape[-2:], boundary, None, True)
    return result


@pytest.mark.parametrize(
    ("dtype", "boundary"),
    [(torch.float64, "fill"), (torch.complex64, "symm"), (torch.float16, "wrap")],
    ids=str,
)
def test_opcheck(boundary: str, dtype: torch.dtype) -> None:
    input, kernel = sample(dtype)
    fill = element(dtype) if boundary == "fill" else None
    arguments = [1, 2], [9, 10], boundary, fill, True
    torch.library.opcheck(OPS.convolve2d, (input, kernel, *arguments))
    torch.library.opcheck(OPS.convolve2d, (input.mT, kernel.mT, *arguments))
    out = torch.ones(2, 3, 9, 10, dtype=dtype)
    torch.library.opcheck(OPS.convolve2d_out, (input, kernel, *arguments, out))
    torch.library.opcheck(OPS.convolve2d_fold, (input, [-3, -2], [4, 5], boundary))
    taps = [3, 4], [1, 2], boundary, fill, True
    for sums in (True, False):
        torch.library.opcheck(OPS.convolve2d_backward_kernel, (out, input, *taps, sums))
    if dtype == torch.float16:
        return
    input, kernel, out = (
        t.detach().requires_grad_() for t in (input, kernel, torch.ones_like(out))
    )
    torch.library.opcheck(OPS.convolve2d, (input, kernel, *arguments))
    torch.library.opcheck(OPS.convolve2d_fold, (input, [-3, -2], [4, 5], boundary))
    torch.library.opcheck(OPS.convolve2d_backward_kernel, (out, input, *taps, False))


@pytest.mark.parametrize(
    ("backend", "boundary"), [*(("aot_eager", b) for b in BOUNDARIES), ("eager", "symm")]
)
def test_compile(backend: str, boundary: str) -> None:
    """A loss and its gradients in one graph, for images of any size."""

    def loss(input: Tensor, kernel: Tensor) -> Tensor:
        return same(input * 1.5, kernel, boundary).square().sum()

    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, dynamic=True, backend=backend)
    for i, size in enumerate(((9, 11), (20, 7), (5, 70))):
        rng = np.random.default_rng(i)
        both = [values(rng, s, torch.float32).requires_grad_() for s in ((2, *size), (3, 4))]
        with torch._dynamo.config.patch(error_on_recompile=i > 0):
            value = compiled(*both)
        wanted = loss(*both)
        assert torch.equal(value, wanted)
        found = torch.autograd.grad(value, both)
        for ours, theirs in zip(found, torch.autograd.grad(wanted, both), strict=True):
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("in_dims", [(0, 0), (0, None), (None, 0), (3, 1), (1, 2)], ids=str)
@every_boundary
def test_vmap(boundary: str, in_dims: tuple[int | None, int | None]) -> None:
    rng = np.random.default_rng(0)
    shapes = [(2, 7, 9), (3, 4)]  # one has more dimensions than the other
    both = [
        values(rng, s if d is None else (*s[:d], 5, *s[d:]), torch.float32)
        for s, d in zip(shapes, in_dims, strict=True)
    ]
    found = torch.vmap(lambda i, k: same(i, k, boundary), in_dims=in_dims)(*both)
    assert found.shape == (5, 2, 7, 9)
    for e in range(5):
        own = [t if d is None else t.select(d, e) for t, d in zip(both, in_dims, strict=True)]
        assert torch.equal(found[e], same(own[0], own[1], boundary))


def test_vmap_over_fills() -> None:
    input, kernel = sample()
    fills = torch.tensor([[1.0], [2.0]])

    def call(fill: Tensor) -> Tensor:
        return convolve2d(input, kernel, (0, 0), (9, 11), "fill", fill, True)  # type: ignore[no-any-return]

    found = torch.vmap(call)(fills)
    assert torch.equal(found, torch.stack([call(f) for f in fills]))


@every_boundary
def test_gradients_of_each_of_a_batch(boundary: str) -> None:
    rng = np.random.default_rng(0)
    inputs, kernel = values(rng, (4, 6, 7), torch.float64), values(rng, (2, 3), torch.float64)

    def loss(input: Tensor, kernel: Tensor) -> Tensor:
        return same(input, kernel, boundary).square().sum()

    found = torch.vmap(torch.func.grad(loss, argnums=(0, 1)), in_dims=(0, None))(inputs, kernel)
    for e in range(4):
        both = [t.clone().requires_grad_() for t in (inputs[e], kernel)]
        wanted = torch.autograd.grad(loss(*both), both)
        for ours, theirs in zip(found, wanted, strict=True):
            np.testing.assert_allclose(ours[e], theirs, rtol=1e-12, atol=1e-12)


@every_boundary
def test_hessian(boundary: str) -> None:
    rng = np.random.default_rng(0)
    input, kernel = (values(rng, s, torch.float64) for s in ((3, 4), (2, 2)))

    def total(kernel: Tensor) -> Tensor:
        return same(input, kernel, boundary).square().sum()

    found = torch.func.jacrev(torch.func.grad(total))(kernel)
    hessian = torch.autograd.functional.hessian(total, kernel)
    np.testing.assert_allclose(found, hessian, rtol=1e-12, atol=1e-12)


def test_forward_mode_is_refused() -> None:
    input, kernel = sample()
    with pytest.raises(NotImplementedError, match="jvp"):
        torch.func.jvp(lambda i: same(i, kernel), (input,), (input,))


def test_conjugated_views() -> None:
    input, kernel = sample(torch.complex64)
    expected = same(input.conj().resolve_conj(), kernel)
    assert torch.equal(same(input.conj(), kernel), expected)
    assert torch.equal(
        same(-input.conj().imag, kernel.real), same(input.imag.clone(), kernel.real.clone())
    )


def test_no_gradient_is_wanted() -> None:
    input, kernel = sample()
    expected = same(input, kernel)
    input.requires_grad_()
    with torch.no_grad():
        assert not same(input, kernel).requires_grad
    with torch.inference_mode():
        assert torch.equal(same(input.detach().clone(), kernel), expected)
    whole = (input.detach() * 9).to(torch.int32)
    assert not same(whole, whole[0]).requires_grad


def test_changed_operands_are_noticed() -> None:
    input, kernel = sample()
    input.requires_grad_()
    value = same(input, kernel)
    kernel.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.sum().backward()


@every_boundary
def test_fake_tensors(boundary: str) -> None:
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        both = [mode.from_tensor(t.requires_grad_()) for t in sample()]
        value = same(both[0], both[1], boundary)
        assert (tuple(value.shape), value.dtype) == ((2, 3, 9, 11), torch.float32)
        gradients = torch.autograd.grad(value.sum(), both)
        assert [g.shape for g in gradients] == [t.shape for t in both]
    input, kernel = (t.to("meta") for t in sample(torch.uint8))
    value = same(input, kernel, boundary)
    assert (tuple(value.shape), value.dtype, value.is_meta) == ((2, 3, 9, 11), torch.uint8, True)


@pytest.mark.usefixtures("restored_threads")
@every_boundary
def test_threads_change_nothing(boundary: str) -> None:
    rng = np.random.default_rng(0)
    both = [values(rng, s, torch.float32) for s in ((3, 190, 211), (5, 5))]
    results: list[tuple[Any, ...]] = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        leaves = [t.clone().requires_grad_() for t in both]
        value = same(leaves[0], leaves[1], boundary)
        results.append((value.detach(), *torch.autograd.grad(value.cos().sum(), leaves)))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))
