"""Values of deformable convolution: against a reference in float64, torchvision, and by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import visops
from torch.nn import functional

from deformable.deform_conv2d_cases import FLOATING, KINDS, assert_near, problem

every_dtype = pytest.mark.parametrize("dtype", FLOATING, ids=str)
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.matrix
@every_kind
def test_reference(kind: str) -> None:
    """Every kind of problem in two dtypes; all four in turn."""
    at = list(KINDS).index(kind)
    wanted: dict[torch.dtype, np.ndarray] = {}
    for dtype in (torch.float32, FLOATING[at % 2 * 3 or at % 3]):
        given = problem(dtype, seed=at, **KINDS[kind])
        if dtype not in wanted:
            wanted[dtype] = given.expected()
        found = given.convolve()
        assert found.dtype == dtype
        assert_near(found, wanted[dtype], dtype)


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
@every_dtype
def test_layouts(dtype: torch.dtype) -> None:
    given = problem(dtype, channels=8, outs=6)
    wanted = given.convolve()
    assert wanted.is_contiguous()
    wide = torch.cat([given.input] * 3, 3)
    turned = given.input.transpose(2, 3).contiguous().transpose(2, 3)
    flipped = given.weight.flip(0).contiguous().flip(0)
    for changed in (
        replace(given, input=wide[..., 9:18]),
        replace(given, input=turned, weight=flipped),
        replace(given, weight=given.weight.to(memory_format=torch.channels_last)),
        replace(given, offset=given.offset.movedim(1, 3).contiguous().movedim(3, 1)),
    ):
        assert torch.equal(changed.convolve(), wanted)
    last = given.input.to(memory_format=torch.channels_last)
    found = replace(given, input=last).convolve()
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(found, wanted)
    expanded = replace(given, input=given.input[:1].expand(2, -1, -1, -1))
    assert torch.equal(expanded.convolve()[0], wanted[0])


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


def test_an_image_by_itself() -> None:
    given = problem(batch=3, channels=20)
    wanted = given.convolve()
    assert given.mask is not None
    for i in range(3):
        part = slice(i, i + 1)
        alone = replace(
            given, input=given.input[part], offset=given.offset[part], mask=given.mask[part]
        )
        assert torch.equal(alone.convolve()[0], wanted[i])
