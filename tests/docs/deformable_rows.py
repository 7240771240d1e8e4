"""Rows of deform_conv2d.md and deformable_attention.md: our call, and theirs or its definition.

mmcv's extension needs a compiler, and Deformable DETR's a GPU. What they compute is written with
torchvision's deform_conv2d and torch's grid_sample.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torchvision
import visops
from references.deformable_attention import attend
from torch import Tensor, nn
from torch.nn import functional as F
from visops import compat

Pair = tuple[Any, Any]
Row = tuple[Callable[[], Pair], float]
theirs = torchvision.ops.deform_conv2d

torch.manual_seed(2)
INPUT, WEIGHT, BIAS = torch.rand(2, 6, 9, 8), torch.rand(4, 3, 3, 2), torch.rand(4)
OFFSET, MASK = 2 * torch.randn(2, 24, 5, 7), torch.rand(2, 12, 5, 7)  # two groups of offsets
STRIDE, PADDING, DILATION = (2, 1), (1, 0), (1, 1)
GIVEN = STRIDE, PADDING, DILATION

VALUE = torch.rand(2, 12 + 6, 3, 8)  # two levels
SHAPES = [(4, 3), (2, 3)]
LOCATIONS = torch.rand(2, 5, 3, 2, 4, 2) * 1.2 - 0.1
WEIGHTS = torch.rand(2, 5, 3, 2, 4)
STARTS = torch.tensor([0, 12])


def pack(name: str) -> Pair:
    """A layer with random parameters against its two convolutions."""
    layer = getattr(compat, name)(6, 4, (3, 2), *GIVEN)
    state = {key: torch.randn_like(value) for key, value in layer.state_dict().items()}
    layer.load_state_dict(state)
    positions = F.conv2d(INPUT, state["conv_offset.weight"], state["conv_offset.bias"], *GIVEN)
    mask = None
    if name.startswith("Modulated"):
        first, second, third = positions.chunk(3, 1)
        positions, mask = torch.cat([first, second], 1), third.sigmoid()
    expected = theirs(INPUT, positions, state["weight"], state.get("bias"), *GIVEN, mask)
    return layer(INPUT), expected


def packs() -> Pair:
    plain, modulated = pack("DeformConv2dPack"), pack("ModulatedDeformConv2dPack")
    return torch.cat([plain[0], modulated[0]]).detach(), torch.cat([plain[1], modulated[1]])


def layers() -> Pair:
    """State dicts load both ways."""
    ours, other = (m.DeformConv2d(6, 4, 3, padding=1) for m in (visops, torchvision.ops))
    ours.load_state_dict(other.state_dict())
    other.load_state_dict(ours.state_dict())
    offset = torch.randn(2, 18, 9, 8)
    return ours(INPUT, offset).detach(), other(INPUT, offset).detach()


def by_grids(
    value: Tensor = VALUE, locations: Tensor = LOCATIONS, weights: Tensor = WEIGHTS
) -> Tensor:
    """Each level is sampled at its places, and weights add the samples up."""
    batch, _, heads, channels = value.shape
    sums: Any = 0
    for level, part in enumerate(value.split([h * w for h, w in SHAPES], 1)):
        maps = part.permute(0, 2, 3, 1).reshape(batch * heads, channels, *SHAPES[level])
        grid = 2 * locations[:, :, :, level].transpose(1, 2).flatten(0, 1) - 1
        found = F.grid_sample(maps, grid, align_corners=False)  # [B h, d, Q, P]
        shares = weights[:, :, :, level].transpose(1, 2).flatten(0, 1)[:, None]
        sums = sums + (found * shares).sum(3)
    return sums.view(batch, heads * channels, -1).transpose(1, 2)  # type: ignore[no-any-return]


def function(name: str) -> Pair:
    if name == "pytorch":
        found = compat.multi_scale_deformable_attn_pytorch(
            VALUE, torch.tensor(SHAPES), LOCATIONS, WEIGHTS
        )
    else:
        found = compat.MultiScaleDeformableAttnFunction.apply(
            VALUE, torch.tensor(SHAPES), STARTS, LOCATIONS, WEIGHTS, 64
        )
    ours = visops.multi_scale_deformable_attention(VALUE, SHAPES, LOCATIONS, WEIGHTS)
    assert torch.equal(found, ours)
    return ours, by_grids()


def lists_of_points() -> Pair:
    """RT-DETRv2's: another number of points in each level, and nearest pixels."""
    locations, weights = torch.rand(2, 5, 3, 5, 2), torch.rand(2, 5, 3, 5)
    ours, expected = [], []
    for method in ("default", "discrete"):
        found = visops.multi_scale_deformable_attention(
            *(VALUE, SHAPES, locations, weights), num_points_list=[3, 2], method=method
        )
        ours.append(found.numpy())
        given = VALUE.numpy(), SHAPES, locations.numpy(), weights.numpy()
        expected.append(attend(*given, points=[3, 2], method=method))
    return np.stack(ours), np.stack(expected)


def module(cls: Any, *sizes: int, **options: Any) -> Pair:
    """The layer of the paper: projections, offsets in pixels of each level, a softmax."""
    layer = cls(*sizes, **options)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.3)
    query, references = torch.randn(2, 5, 24), torch.rand(2, 5, 2, 2)
    pyramid = torch.randn(2, 18, 24)
    value = layer.value_proj(pyramid).view(2, 18, 3, 8)
    offsets = layer.sampling_offsets(query).view(2, 5, 3, 2, 4, 2)
    weights = layer.attention_weights(query).view(2, 5, 3, 8).softmax(3).view(2, 5, 3, 2, 4)
    sizes_of = torch.tensor([[w, h] for h, w in SHAPES]).view(2, 1, 2)
    locations = references[:, :, None, :, None] + offsets / sizes_of
    expected = layer.output_proj(by_grids(value, locations, weights))
    found = layer(query, references, pyramid, torch.tensor(SHAPES), STARTS)
    return found.detach(), expected.detach()


def modulated() -> Pair:
    ours = visops.deform_conv2d(INPUT, OFFSET, WEIGHT, BIAS, *GIVEN, MASK)
    return ours, theirs(INPUT, OFFSET, WEIGHT, BIAS, *GIVEN, MASK)


CONVOLUTIONS: dict[str, Row] = {
    "torchvision: deform_conv2d(": (modulated, 1e-4),
    "torchvision: DeformConv2d": (layers, 1e-4),
    "mmcv: deform_conv2d(": (
        lambda: (
            visops.deform_conv2d(INPUT, OFFSET, WEIGHT, None, *GIVEN),
            theirs(INPUT, OFFSET, WEIGHT, None, *GIVEN),
        ),
        1e-4,
    ),
    "mmcv: modulated_deform_conv2d(": (modulated, 1e-4),
    "mmcv: DeformConv2dPack, ModulatedDeformConv2dPack": (packs, 1e-3),
}
ATTENTION: dict[str, Row] = {
    "mmcv: MultiScaleDeformableAttnFunction.apply(": (lambda: function("apply"), 1e-5),
    "mmcv, transformers: multi_scale_deformable_attn_pytorch(": (
        lambda: function("pytorch"),
        1e-5,
    ),
    "Deformable DETR: MSDeformAttnFunction.apply(": (lambda: function("apply"), 1e-5),
    "RT-DETRv2 in transformers: multi_scale_deformable_attention_v2(": (lists_of_points, 1e-5),
    "mmcv: MultiScaleDeformableAttention(": (
        lambda: module(visops.MultiScaleDeformableAttention, 24, 3, 2, 4),
        1e-4,
    ),
    "Deformable DETR: MSDeformAttn(": (
        lambda: module(compat.MSDeformAttn, 24, 2, 3, 4),
        1e-4,
    ),
}
