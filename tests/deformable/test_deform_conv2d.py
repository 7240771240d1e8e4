"""Deformable convolution: values, gradients, and what torch sees of it."""

import contextlib
from typing import Any

import pytest
import torch
import visops
from kernels import SLOTS, use_slot
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode
from visops import compat

from deformable.deform_conv2d_cases import (
    FLOATING,
    KINDS,
    TOLERANCES,
    Problem,
    assert_near,
    bytes_of,
    one_hot,
    problem,
)

every_dtype = pytest.mark.parametrize("dtype", FLOATING, ids=str)
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.matrix
@every_kind
def test_reference(kind: str) -> None:
    """Every kind of problem in two dtypes; all four in turn."""
    at = list(KINDS).index(kind)
    single = problem(torch.float32, seed=at, **KINDS[kind])
    wanted = single.expected()
    for dtype in (torch.float32, FLOATING[at % 2 * 3 or at % 3]):
        given = single.to(dtype)
        found = given.convolve()
        assert found.dtype == dtype
        is_half = dtype in (torch.float16, torch.bfloat16)  # then the numbers are others
        assert_near(found, given.expected() if is_half else wanted, dtype)


@every_kind
def test_torchvision(kind: str) -> None:
    peer = pytest.importorskip("torchvision.ops").deform_conv2d
    given = problem(torch.float64, seed=5, **KINDS[kind])
    assert_near(given.convolve(), given.convolve(peer), torch.float64)
    given = given.to(torch.float32)
    assert_near(given.convolve(), given.convolve(peer), torch.float32)


def test_torchvision_on_a_larger_map() -> None:
    """Blocks of pixels, parts of rows and several tasks."""
    peer = pytest.importorskip("torchvision.ops").deform_conv2d
    for kinds in (
        {"channels": 72, "outs": 50, "size": (20, 31)},
        {"channels": 1100, "outs": 3, "size": (5, 6), "kernel": (1, 2)},
        {"channels": 96, "outs": 96, "groups": 2, "offset_groups": 3, "size": (17, 16)},
    ):
        options: dict[str, Any] = kinds
        given = problem(torch.float64, **options)
        assert_near(given.convolve(), given.convolve(peer), torch.float64)


@pytest.mark.matrix
@every_dtype
def test_no_offset_is_a_convolution(dtype: torch.dtype) -> None:
    given = problem(dtype, channels=8, outs=6, groups=2, stride=(2, 1), mask=False)
    given.offset.zero_()
    wanted = functional.conv2d(
        given.input.double(),
        given.weight.double(),
        given.bias.double() if given.bias is not None else None,
        *given.options,
        groups=2,
    )
    assert_near(given.convolve(), wanted, dtype)


@pytest.mark.matrix
def test_by_hand() -> None:
    """A kernel of one element: samples themselves; y comes before x."""
    image = torch.arange(12.0).view(1, 1, 3, 4)
    positions = {
        (0.0, 0.0): 0.0,
        (1.0, 0.0): 4.0,
        (0.0, 1.0): 1.0,
        (0.5, 1.5): 3.5,
        (2.5, 3.0): 5.5,  # half of pixel 11
        (-0.5, 1.0): 0.5,
        (-1.0, 1.0): 0.0,
        (3.0, 1.0): 0.0,
        (2.0, 4.0): 0.0,
        (float("nan"), 0.0): 0.0,
        (0.0, float("-inf")): 0.0,
        (1e30, 0.0): 0.0,
    }
    wanted = list(positions.values())
    offset = torch.tensor(list(positions)).view(3, 4, 2) - torch.stack(
        torch.meshgrid(torch.arange(3.0), torch.arange(4.0), indexing="ij"), -1
    )
    offset = offset.permute(2, 0, 1)[None].contiguous()
    found = visops.deform_conv2d(image, offset, torch.ones(1, 1, 1, 1))
    assert found.flatten().tolist() == wanted
    mask = torch.full((1, 1, 3, 4), 2.0)
    mask[0, 0, 2, 1:] = float("inf")  # of samples that don't count
    found = visops.deform_conv2d(image, offset, torch.ones(1, 1, 1, 1), mask=mask)
    assert found.flatten().tolist() == [2 * value for value in wanted]


@pytest.mark.matrix
def test_pixels_that_are_not_finite() -> None:
    """Only samples that read them are affected; a tap outside is 0, whatever lies beside it."""
    image = torch.ones(1, 1, 2, 3)
    image[0, 0, 0, 0] = float("nan")
    offset = torch.zeros(1, 2, 2, 3)
    offset[0, :, 0, 0] = -0.5  # three of its taps are outside
    offset[0, 1, 1, 2] = 0.5
    found = visops.deform_conv2d(image, offset, torch.ones(1, 1, 1, 1))[0, 0]
    assert found[0, 0].isnan()
    assert found[1, 2] == 0.5
    assert int(found.isnan().sum()) == 1


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_positions_of_other_dtypes(dtype: torch.dtype) -> None:
    """Offsets and masks may be wider than the input, or narrower."""
    for positions in (torch.float16, torch.bfloat16, torch.float32):
        given = problem(dtype, positions=positions)
        assert_near(given.convolve(), given.expected(), dtype)
    given = problem(positions=dtype)
    assert given.mask is not None
    given.mask = given.mask.float()
    assert_near(given.convolve(), given.expected(), torch.float32)


@pytest.mark.matrix
def test_sizes_of_zero() -> None:
    given = problem(batch=0)
    assert given.convolve().shape == (0, 4, 7, 9)
    for size, padding in (((0, 4), (2, 1)), ((0, 0), (2, 2))):  # all of it is padding
        given = problem(size=size, padding=padding).with_gradients()
        found = given.convolve()
        assert given.bias is not None
        assert torch.equal(found, given.bias.view(1, 4, 1, 1).expand_as(found))
        grads = torch.autograd.grad(found.sum(), given.leaves)
        assert not any(bool(grads[i].any()) for i in (0, 1, 2, 4))


@pytest.mark.parametrize(
    "sizes",
    [
        {"channels": 72, "outs": 50, "size": (20, 31)},
        {"channels": 300, "outs": 3, "size": (5, 6), "kernel": (1, 2)},
        {"channels": 96, "outs": 96, "groups": 2, "offset_groups": 3, "size": (9, 16)},
    ],
    ids=str,
)
def test_gradients_of_larger_problems(sizes: dict[str, Any]) -> None:
    """Several blocks, parts of rows, and channels that are divided."""
    peer = pytest.importorskip("torchvision.ops").deform_conv2d
    given = problem(torch.float64, smooth=True, **sizes).with_gradients()
    found, wanted = given.convolve(), given.convolve(peer)
    grad = torch.rand_like(wanted)
    ours, theirs = (torch.autograd.grad(out, given.leaves, grad) for out in (found, wanted))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-11 * max(1, float(b.abs().max())))


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@pytest.mark.parametrize("last", [False, True])
def test_gradients_of_other_dtypes(dtype: torch.dtype, last: bool) -> None:
    """As float64's for the same numbers, and of their tensors' dtypes and layouts."""
    positions = torch.float64 if dtype == torch.float64 else torch.float32
    made = problem(dtype, channels=37, outs=18, positions=positions, smooth=True)
    if last:
        made.input = made.input.to(memory_format=torch.channels_last)
    given, exact = made.with_gradients(), made.to(torch.float64).with_gradients()
    grad = torch.rand(2, 18, 7, 9).to(dtype)
    ours = torch.autograd.grad(given.convolve(), given.leaves, grad)
    theirs = torch.autograd.grad(exact.convolve(), exact.leaves, grad.double())
    assert ours[0].stride() == given.input.stride()
    for found, wanted, leaf in zip(ours, theirs, given.leaves, strict=True):
        assert found.dtype == leaf.dtype
        bound = 10 * TOLERANCES[leaf.dtype] * max(1.0, float(wanted.abs().max()))
        torch.testing.assert_close(found.double(), wanted, rtol=0, atol=bound)


@pytest.mark.matrix
def test_borders() -> None:
    """On a pixel the slope is that to the right; at -1 and beyond the last pixel, none."""
    image = torch.tensor([[[[1.0, 3.0, 7.0]]]], dtype=torch.float64)
    positions = {-1.5: 0, -1.0: 0, -0.5: 1, 0.0: 2, 0.5: 2, 1.0: 4, 2.0: -7, 2.5: -7, 3.0: 0}
    for position, slope in positions.items():
        offset = torch.zeros(1, 2, 1, 3, dtype=torch.float64)
        offset[0, 1, 0, 0] = position
        offset.requires_grad_()
        found = visops.deform_conv2d(image, offset, torch.ones(1, 1, 1, 1).double())
        (gradient,) = torch.autograd.grad(found[0, 0, 0, 0], offset)
        assert gradient[0, 1, 0, 0] == slope


@pytest.mark.matrix
def test_samples_that_do_not_count() -> None:
    """No gradient, not even NaN, whatever masks are."""
    given = problem(kernel=(1, 1), padding=(0, 0))
    assert given.mask is not None
    given.offset[:, 0, 0] = float("nan")
    given.offset[:, 1, 1] = float("inf")
    given.offset[:, :, 2] = 1e20
    given.mask[:, :, :3] = float("inf")
    found = given.with_gradients().convolve()
    grads = torch.autograd.grad(found.sum(), given.leaves)
    assert all(bool(gradient.isfinite().all()) for gradient in grads)
    assert not bool(grads[1][:, :, :3].any())
    assert not bool(grads[4][:, :, :3].any())
    assert bool(grads[1][:, :, 3:].any())


def test_second_derivatives_are_refused() -> None:
    given = problem(torch.float64).with_gradients()
    for leaf in (given.input, given.offset, given.weight):
        (found,) = torch.autograd.grad(given.convolve().square().sum(), leaf, create_graph=True)
        with pytest.raises(RuntimeError, match=r"visops\.deform_conv2d: its gradients can't be"):
            found.sum().backward()


OPS = torch.ops.visops


def convolve(
    x: Tensor, offset: Tensor, weight: Tensor, bias: Tensor | None, mask: Tensor | None
) -> Tensor:
    found: Tensor = visops.deform_conv2d(x, offset, weight, bias, 1, 1, 1, mask)
    return found


def test_gradient_without_mask_and_bias() -> None:
    """Where all options equal their defaults, the dispatcher passes three arguments on."""
    given = problem(mask=False)
    weight = given.weight.clone().requires_grad_()

    def call(weight: Tensor) -> Tensor:
        found: Tensor = OPS.deform_conv2d(
            given.input, given.offset, weight, None, [1, 1], [0, 0], [1, 1], None
        )
        return found

    given.offset = given.offset[:, :, 1:-1, 1:-1]
    wanted = torch.autograd.grad(
        visops.deform_conv2d(given.input, given.offset, weight).sum(), weight
    )
    torch._dynamo.reset()
    for way in (call, torch.compile(call, backend="aot_eager")):
        with FlopCounterMode(display=False) if way is call else contextlib.nullcontext():
            found = torch.autograd.grad(way(weight).sum(), weight)
        assert torch.equal(found[0], wanted[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast(dtype: torch.dtype) -> None:
    """Half-precision products; offsets and masks stay float32 or become it."""
    given = problem(channels=8).with_gradients()
    project = torch.nn.Conv2d(8, 18, 3, padding=1)
    with torch.autocast("cpu", dtype=dtype):
        found = given.convolve()
        assert found.dtype == dtype
        half = Problem(
            given.input.to(dtype),
            given.offset,
            given.weight.to(dtype),
            None if given.bias is None else given.bias.to(dtype),
            given.mask,
            *given.options,
        )
        assert torch.equal(found, half.convolve())
        operator = OPS.deform_conv2d(*given.leaves[:4], [1, 1], [1, 1], [1, 1], given.mask)
        assert torch.equal(operator, found)
        offset = project(given.input)
        assert offset.dtype == dtype
        visops.deform_conv2d(given.input, offset, given.weight, padding=1).sum().backward()
    assert_near(found, given.convolve(), dtype)
    assert given.weight.grad is not None
    assert given.weight.grad.dtype == torch.float32
    assert project.weight.grad is not None
    assert bool(project.weight.grad.isfinite().all())


def test_autocast_leaves_float64_alone() -> None:
    given = problem(torch.float64)
    wanted = given.convolve()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(given.convolve(), wanted)


def test_defaults_of_the_operator() -> None:
    given = problem(padding=(0, 0), bias=False, mask=False)
    found = OPS.deform_conv2d(given.input, given.offset, given.weight)
    assert torch.equal(found, given.convolve())


ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((6, 4, 3), {}),
    ((6, 4, (3, 2)), {"stride": 2, "padding": (2, 1), "dilation": (1, 2), "groups": 2}),
    ((6, 6, 1), {"groups": 6, "bias": False}),
]


@pytest.mark.parametrize(("sizes", "options"), ARGUMENTS, ids=str)
def test_torchvision_s_class(sizes: Any, options: Any) -> None:
    """The same parameters from the same seed, the same text, the same results."""
    peers = pytest.importorskip("torchvision.ops")
    torch.manual_seed(3)
    theirs = peers.DeformConv2d(*sizes, **options)
    torch.manual_seed(3)
    ours = visops.DeformConv2d(*sizes, **options)
    assert isinstance(ours, peers.DeformConv2d)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for name, value in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], value)
    fresh = visops.DeformConv2d(*sizes, **options)
    fresh.load_state_dict(theirs.state_dict())
    given = problem(
        kernel=ours.kernel_size,
        stride=ours.stride,
        padding=ours.padding,
        dilation=ours.dilation,
    )
    for mask in (given.mask, None):
        found = fresh(given.input, given.offset, mask)
        torch.testing.assert_close(found, theirs(given.input, given.offset, mask))


def test_torch_fx() -> None:
    """One call in the graph."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.positions = nn.Conv2d(6, 18, 3, padding=1)
            self.layer = visops.DeformConv2d(6, 4, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x, self.positions(x)).relu()  # type: ignore[no-any-return]

    model, x = Model().eval(), torch.rand(1, 6, 5, 5)
    traced = torch.fx.symbolic_trace(model)
    assert torch.equal(traced(x), model(x))


def mmcv_parameters(kind: str, groups: int, deform_groups: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes as in mmcv's mmcv/ops/deform_conv.py and modulated_deform_conv.py."""
    numbers = 2 if kind == "DeformConv2dPack" else 3
    shapes: dict[str, tuple[int, ...]] = {
        "weight": (8, 4 // groups, 3, 2),
        "bias": (8,),
        "conv_offset.weight": (deform_groups * numbers * 6, 4, 3, 2),
        "conv_offset.bias": (deform_groups * numbers * 6,),
    }
    if numbers == 2:
        del shapes["bias"]
    return shapes


@pytest.mark.parametrize("kind", ["DeformConv2dPack", "ModulatedDeformConv2dPack"])
@pytest.mark.parametrize(("groups", "deform_groups"), [(1, 1), (2, 4)])
def test_packs(kind: str, groups: int, deform_groups: int) -> None:
    torch.manual_seed(0)
    options: dict[str, Any] = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)}
    layer = getattr(compat, kind)(
        4, 8, (3, 2), **options, groups=groups, deform_groups=deform_groups
    )
    shapes = mmcv_parameters(kind, groups, deform_groups)
    assert {name: tuple(t.shape) for name, t in layer.state_dict().items()} == shapes
    assert f"deform_groups={deform_groups}" in repr(layer)
    x = torch.rand(2, 4, 9, 8)
    plain = torch.conv2d(x, layer.weight, layer.bias, **options, groups=groups)
    factor = 1.0 if kind == "DeformConv2dPack" else 0.5  # a sigmoid of 0
    torch.testing.assert_close(layer(x), factor * plain)  # its bias is 0

    state = {name: torch.rand(shape) for name, shape in shapes.items()}
    layer.load_state_dict(state)
    offset = torch.conv2d(x, state["conv_offset.weight"], state["conv_offset.bias"], **options)
    mask = None
    if kind != "DeformConv2dPack":
        first, second, third = offset.chunk(3, 1)
        offset, mask = torch.cat([first, second], 1), third.sigmoid()
    wanted = visops.deform_conv2d(
        x, offset, state["weight"], state.get("bias"), **options, mask=mask
    )
    torch.testing.assert_close(layer(x), wanted)
    layer(x).square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in layer.parameters())


@pytest.mark.parametrize("kind", ["DeformConv2dPack", "ModulatedDeformConv2dPack"])
def test_states_of_mmcv_s_first_version(kind: str) -> None:
    """`conv2_offset.weight` beside `conv2.weight`, as in detectors trained before mmcv 1.0."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv2 = getattr(compat, kind)(4, 8, (3, 2))

    shapes = mmcv_parameters(kind, 1, 1)
    state = {
        f"conv2{'_offset.' if 'conv_offset' in name else '.'}{name.removeprefix('conv_offset.')}":
        torch.rand(shape)
        for name, shape in shapes.items()
    }  # fmt: skip
    assert "conv2_offset.weight" in state
    block = Block()
    errors: list[list[str]] = [[], [], []]
    whole = dict(state)
    # As mmengine.runner.checkpoint.load_state_dict does: each layer sees the whole state.
    for prefix, layer in (("conv2.", block.conv2), ("conv2.conv_offset.", block.conv2.conv_offset)):
        layer._load_from_state_dict(whole, prefix, {}, True, *errors)
    assert errors == [[], [], []]
    assert torch.equal(block.conv2.conv_offset.weight, state["conv2_offset.weight"])
    assert torch.equal(block.conv2.conv_offset.bias, state["conv2_offset.bias"])
    block.load_state_dict(block.state_dict())


def test_initial_values_of_packs() -> None:
    torch.manual_seed(0)
    plain = compat.DeformConv2dPack(16, 32, 3)
    bound = (6 / (16 * 9)) ** 0.5  # kaiming_uniform_ for relu
    assert 0.95 * bound < float(plain.weight.detach().abs().max()) <= bound
    assert plain.bias is None
    modulated = compat.ModulatedDeformConv2dPack(16, 32, 3)
    bound = (16 * 9) ** -0.5
    assert 0.95 * bound < float(modulated.weight.detach().abs().max()) <= bound
    assert modulated.bias is not None
    assert not bool(modulated.bias.any())
    for layer in (plain, modulated):
        assert not bool(layer.conv_offset.weight.any())
    assert compat.ModulatedDeformConv2dPack(4, 4, 3, bias=False).bias is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("channels", [1, 3, 4, 20, 128])
def test_offsets_of_any_kind(dtype: torch.dtype, channels: int) -> None:
    """NaN and far ones sample nothing, and those of the border sample half; samples don't mix."""
    for size in ((1, 1), (6, 7), (33, 40)):
        made = problem(dtype, channels=channels, outs=9 * channels, size=size, batch=1)
        made.weight = one_hot(made.weight, 0)
        flat = made.offset.view(-1)
        flat[::7], flat[1::11], flat[2::13] = torch.nan, torch.inf, -1e30
        found = []
        for slot in ("default", "cuda_emulated"):
            with use_slot(slot):
                found.append(bytes_of(made.convolve()))
        assert (found[0] == found[1]).all()


def test_no_images() -> None:
    with use_slot("cuda_emulated"):
        assert problem(torch.float32, batch=0).convolve().shape == (0, 4, 7, 9)


@pytest.mark.skipif("cuda_emulated" not in SLOTS, reason="needs a test build")
def test_infinite_gradients_do_not_reach_taps_outside() -> None:
    """They were multiplied by a tap's 0, but not on CUDA."""
    image = torch.ones(1, 4, 3, 4)
    offset = torch.full((1, 18, 3, 4), 0.25, requires_grad=True)
    mask = torch.ones(1, 9, 3, 4, requires_grad=True)
    found = []
    for slot in SLOTS:
        with use_slot(slot):
            out = visops.deform_conv2d(image, offset, torch.ones(2, 4, 3, 3), padding=1, mask=mask)
            found.append(torch.autograd.grad(out, (offset, mask), torch.full_like(out, torch.inf)))
    for gradients in found:
        assert not bool(gradients[1].isnan().any())
        assert torch.equal(gradients[0].isnan(), found[-1][0].isnan())
