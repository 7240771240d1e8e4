"""Rows of convolve2d.md, im2col.md and the deformable operators' pages: what both give."""

import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.signal
import torch
import torchvision
import visops
from references.deformable_attention import attend
from torch import Tensor, nn
from torch.nn import functional as F
from visops import compat

Pair = tuple[Any, Any]
Row = tuple[Callable[[], Pair], float]
RNG = np.random.default_rng(6)
IMAGE, KERNEL = RNG.random((9, 11)).astype(np.float32), RNG.random((3, 4)).astype(np.float32)
theirs = scipy.signal.convolve2d


def more_dimensions() -> Pair:
    images = torch.from_numpy(RNG.random((2, 1, 9, 11))).float()
    kernels = torch.from_numpy(RNG.random((3, 3, 4))).float()
    with pytest.raises(ValueError, match="2-D"):
        theirs(images, kernels)
    expected = [[theirs(image[0], kernel) for kernel in kernels] for image in images]
    return visops.convolve2d(images, kernels), np.stack([np.stack(row) for row in expected])


def tensors() -> Pair:
    image, kernel = torch.from_numpy(IMAGE), torch.from_numpy(KERNEL)
    found, expected = visops.convolve2d(image, kernel), theirs(image, kernel)
    assert (type(found), type(expected)) == (torch.Tensor, np.ndarray)
    half = image.half(), kernel.half()
    for dtype in (torch.float16, torch.bfloat16):
        with pytest.raises((TypeError, ValueError)):
            theirs(image.to(dtype), kernel.to(dtype))
    wide = visops.convolve2d(half[0].float(), half[1].float())
    return (
        np.stack([found, visops.convolve2d(*half).float()]),
        np.stack([expected, wide.half().float()]),
    )


def lists() -> Pair:
    with pytest.raises(TypeError):
        visops.convolve2d(IMAGE.tolist(), KERNEL.tolist())
    found = visops.convolve2d(np.asarray(IMAGE.tolist()), np.asarray(KERNEL.tolist()))
    return found, theirs(IMAGE.tolist(), KERNEL.tolist())


def long_doubles() -> Pair:
    with pytest.raises((TypeError, ValueError), match=r"longdouble|float128"):
        visops.convolve2d(IMAGE.astype(np.longdouble), KERNEL.astype(np.longdouble))
    wide = theirs(IMAGE.astype(np.longdouble), KERNEL.astype(np.longdouble))
    assert wide.dtype == np.longdouble
    return visops.convolve2d(IMAGE.astype(np.float64), KERNEL.astype(np.float64)), wide


def nothing_repeated() -> Pair:
    """SciPy dies of it: in a process of its own."""
    call = "import numpy, scipy.signal as s; s.convolve2d(numpy.ones((0, 3)), numpy.ones((2, 2)), "
    ends = []
    for boundary in ("wrap", "symm"):
        with pytest.raises(ValueError, match="boundary"):
            visops.convolve2d(np.ones((0, 3)), np.ones((2, 2)), boundary=boundary)
        done = subprocess.run(
            [sys.executable, "-c", f"{call}boundary={boundary!r})"],
            capture_output=True,
            check=False,
        )
        ends.append(done.returncode)
    return ends, [-signal.SIGFPE] * 2


def fills_of_other_types() -> Pair:
    for fill in ("3", None):
        with pytest.raises(TypeError, match="fillvalue"):
            visops.convolve2d(IMAGE, KERNEL, fillvalue=fill)  # type: ignore[arg-type]
    found = [visops.convolve2d(IMAGE, KERNEL, fillvalue=fill) for fill in (3, np.nan)]
    return np.stack(found), np.stack([theirs(IMAGE, KERNEL, fillvalue=f) for f in ("3", None)])


SCIPY: dict[str, Row] = {
    "dimensions": (more_dimensions, 1e-5),
    "tensors": (tensors, 1e-5),
    "lists": (lists, 1e-12),
    "longdouble": (long_doubles, 1e-12),
    "an empty image with ": (nothing_repeated, 0),
    "fillvalue of strings, None": (fills_of_other_types, 1e-5),
}

MAPS = torch.from_numpy(RNG.random((2, 3, 8, 9)))


def columns_of_any_dimension() -> Pair:
    found = []
    for dims in (1, 2, 3, 4):
        window = (2,) * dims
        maps = torch.from_numpy(RNG.random((2, 3, *(6, 5, 4, 3)[:dims])))
        columns = visops.im2col(maps, window)
        if dims == 2:
            assert torch.equal(F.unfold(maps, window), columns)
        else:
            with pytest.raises((NotImplementedError, RuntimeError)):
                F.unfold(maps, window)
        found.append((columns.shape[1], 3 * 2**dims))
    return [a for a, _ in found], [b for _, b in found]


def leading_dimensions() -> Pair:
    with pytest.raises((IndexError, RuntimeError)):
        F.unfold(MAPS[0, 0], 3)
    patches = visops.im2col(MAPS[None, None], 3, layout="patches", padding=0)
    assert patches.shape == (1, 1, *MAPS.shape[:2], 6, 7, 3, 3)
    expected = F.unfold(MAPS, 3)
    return (
        torch.cat([visops.im2col(MAPS, 3)[0], visops.im2col(MAPS[0], 3)]),
        torch.cat([expected[0], F.unfold(MAPS[0], 3)]),
    )


def dtypes() -> Pair:
    whole = (MAPS * 9).to(torch.int32)
    columns = visops.im2col(whole, 3)
    for call in (lambda: F.unfold(whole, 3), lambda: F.fold(columns, (8, 9), 3)):
        with pytest.raises(RuntimeError, match="not implemented"):
            call()
    for dtype in (torch.float16, torch.complex64, torch.bool):
        of_dtype = MAPS.to(dtype)
        assert torch.equal(visops.im2col(of_dtype, 3), F.unfold(of_dtype, 3))
    found = torch.stack(
        [visops.col2im(columns, (8, 9), 3), visops.im2col(whole, 1).view(whole.shape)]
    )
    folded = F.fold(F.unfold(whole.double(), 3), (8, 9), 3)
    return found, torch.stack([folded, whole.double()])


def outside() -> Pair:
    found = [visops.im2col(MAPS, 3, padding=1, fill_value=fill) for fill in (0, 7)]
    return torch.stack(found), torch.stack(
        [F.unfold(MAPS, 3, padding=1), F.unfold(F.pad(MAPS, (1,) * 4, value=7.0), 3)]
    )


def paddings() -> Pair:
    """The operator takes each side: one row above, two columns to the right."""
    with pytest.raises(TypeError):
        F.unfold(MAPS, 3, padding="same")  # type: ignore[arg-type]
    same = visops.im2col(MAPS, 3, padding="same")
    sides = torch.ops.visops.im2col(MAPS, [3, 3], [1, 1], [1, 0, 0, 2], [1, 1])
    return torch.cat([same, sides], -1), torch.cat(
        [F.unfold(MAPS, 3, padding=1), F.unfold(F.pad(MAPS, (0, 2, 1, 0)), 3)], -1
    )


def nothing() -> Pair:
    with pytest.raises(RuntimeError):
        F.unfold(MAPS[:, :0], 3)
    shapes = [visops.im2col(maps, 3).shape for maps in (MAPS[:0], MAPS[:, :0])]
    return [list(s) for s in shapes], [list(F.unfold(MAPS[:0], 3).shape), [2, 0, 42]]


def sums_of_halves() -> Pair:
    """2048 and ones: halves that are rounded after each addition never grow."""
    columns = torch.ones(1, 9, 9, dtype=torch.float16)
    columns[:, 0] = 2048
    options: dict[str, Any] = {"output_size": (5, 5), "kernel_size": 3, "padding": 1, "stride": 2}
    found = visops.col2im(columns, **options)
    once = F.fold(columns.float(), **options).half()
    rounded = F.fold(columns, **options)
    assert not torch.equal(rounded, found)
    return found, once


COLUMNS: dict[str, Row] = {
    "dimensions": (columns_of_any_dimension, 0),
    "input": (leading_dimensions, 0),
    "dtypes": (dtypes, 0),
    "outside the image": (outside, 0),
    "padding": (paddings, 0),
    "empty dimensions": (nothing, 0),
    "half-precision sums": (sums_of_halves, 0),
}

theirs_deformable = torchvision.ops.deform_conv2d
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
    expected = theirs_deformable(INPUT, positions, state["weight"], state.get("bias"), *GIVEN, mask)
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
    return ours, theirs_deformable(INPUT, OFFSET, WEIGHT, BIAS, *GIVEN, MASK)


CONVOLUTIONS: dict[str, Row] = {
    "torchvision: deform_conv2d(": (modulated, 1e-4),
    "torchvision: DeformConv2d": (layers, 1e-4),
    "mmcv: deform_conv2d(": (
        lambda: (
            visops.deform_conv2d(INPUT, OFFSET, WEIGHT, None, *GIVEN),
            theirs_deformable(INPUT, OFFSET, WEIGHT, None, *GIVEN),
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
