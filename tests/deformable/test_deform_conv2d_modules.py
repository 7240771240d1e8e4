"""Layers of deformable convolution: torchvision's class, and mmcv's with its own offsets."""

from typing import Any

import pytest
import torch
import visops
from torch import Tensor, nn
from visops import compat

from deformable.deform_conv2d_cases import problem

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
