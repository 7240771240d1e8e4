"""Operators of regions within torch, and what they take: lists of boxes, odd boxes."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import visops
from bad_input import check, table
from torch import Tensor
from visops.roi.arguments import as_boxes
from warp import affine_cases

from roi.align_cases import (
    FLOATING,
    OPS,
    OUTPUT_SIZE,
    POOLINGS,
    boxes_of,
    maps_of,
    problem,
    same_bits,
)
from roi.crops_cases import all_boxes, images_of, paste_options

SCALES = [1.0, 0.5]
Pool = Callable[[Tensor, Tensor], Tensor]


def mean(maps: Tensor, boxes: Tensor) -> Tensor:
    return visops.roi_align(maps, boxes, (2, 3), 0.9, 2, True)


def largest(maps: Tensor, boxes: Tensor) -> Tensor:
    return visops.roi_align(maps, boxes, (2, 3), 0.9, 2, True, reduce="max")


def pyramid(maps: Tensor, boxes: Tensor) -> Tensor:
    """Pool from a map and its upper left quarter."""
    levels = [maps, maps[..., : maps.shape[2] // 2, : maps.shape[3] // 2] * 2]
    return visops.multiscale_roi_align(
        levels, boxes, (2, 3), SCALES, 2, canonical_scale=6, canonical_level=1, aligned=True
    )


POOLS: dict[str, Pool] = {"mean": mean, "max": largest, "pyramid": pyramid}
every_pool = pytest.mark.parametrize("name", POOLS)


def sample(
    dtype: torch.dtype = torch.float32, channels: int = 3, count: int = 7, height: int = 9
) -> tuple[Tensor, Tensor]:
    maps = torch.from_numpy(maps_of((2, channels, height, 11))).to(dtype)
    return maps, torch.from_numpy(boxes_of("overhanging", count)).to(dtype)


def gradients(pool: Pool, maps: Tensor, boxes: Tensor) -> tuple[Tensor, ...]:
    leaves = maps.detach().requires_grad_(), boxes.detach().requires_grad_()
    values = pool(*leaves)
    return values.detach(), *torch.autograd.grad(values.square().sum(), leaves)


def leaves(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(t.detach().requires_grad_() for t in tensors)


def test_compile_lists_of_boxes() -> None:
    """As detectors pass them; the result has the input's layout."""

    def pool(maps: Tensor, first: Tensor, second: Tensor) -> Tensor:
        return visops.roi_align(maps, [first, second], 3, 0.5) * 2

    torch._dynamo.reset()
    compiled = torch.compile(pool, fullgraph=True, dynamic=True, backend="aot_eager")
    maps, boxes = sample(count=9)
    for layout in (torch.contiguous_format, torch.channels_last):
        laid = maps.contiguous(memory_format=layout)
        for part in (4, 6):
            lists = boxes[:part, 1:], boxes[part:, 1:]
            found = compiled(laid, *lists)
            assert found.is_contiguous(memory_format=layout)
            assert same_bits(found, pool(laid, *lists))


@every_pool
def test_maps_are_kept_for_the_boxes_only(name: str) -> None:
    """What is linear needs no maps for its gradient: they may change, and need not live on."""
    maps, boxes = sample()
    leaf = maps.clone().requires_grad_()
    used = leaf * 1
    value = POOLS[name](used, boxes)
    used.data.zero_()
    used.detach().add_(1)
    if name != "pyramid":  # its slicing keeps nothing either, but counts versions
        (found,) = torch.autograd.grad(value.sum(), leaf)
        (wanted,) = torch.autograd.grad(POOLS[name](leaf, boxes).sum(), leaf)
        assert same_bits(found, wanted)


@pytest.mark.cuda
@every_pool
def test_cuda_skips_bad_boxes(name: str) -> None:
    """Zeros, no gradient, and the others as without them."""
    maps, boxes = (t.cuda() for t in sample())
    bad = boxes[:1].repeat(6, 1)
    bad[0, 0], bad[1, 0], bad[2, 0] = -1, 2, 0.5
    bad[3, 2], bad[4, 3] = float("nan"), float("inf")
    bad[5, 3] = bad[5, 1] - 1
    wanted = gradients(POOLS[name], maps, boxes)
    found = gradients(POOLS[name], maps, torch.cat([boxes[:3], bad, boxes[3:]]))
    good = [0, 1, 2, 9, 10, 11, 12]
    assert same_bits(found[0][good], wanted[0])
    assert same_bits(found[1], wanted[1])
    assert same_bits(found[2][good], wanted[2])
    assert int(found[0][3:9].count_nonzero()) == int(found[2][3:9].count_nonzero()) == 0


def test_bad_arguments_are_refused_by_name_under_vmap() -> None:
    """Rules compute with sizes and scales before an operator sees them."""
    maps, boxes = torch.zeros(2, 1, 1, 4, 4), torch.tensor([[0.0, 0, 0, 2, 2]])

    def pyramid(level: Tensor) -> Tensor:
        return visops.multiscale_roi_align([level, level], boxes, (2, 2), [math.inf, 0.5])

    def gradient(grad: Tensor) -> Tensor:
        options = (1.0, 2, False, False)
        return torch.ops.visops.roi_align_backward_input(grad, boxes, [4], *options)

    with pytest.raises(RuntimeError, match=r"scales is \[inf, 0\.5\], must be finite and > 0"):
        torch.vmap(pyramid)(maps)
    with pytest.raises(RuntimeError, match=r"input_size is .*, must have four numbers"):
        torch.vmap(gradient)(torch.zeros(2, 1, 1, 2, 2))


def test_a_wrong_size_is_named_as_it_was_given_under_vmap() -> None:
    """Maps become channels of one call; a gradient's size has channels, a size of bins has not."""
    call = torch.ops.visops.roi_align
    maps, boxes = torch.zeros(3, 1, 2, 4, 4), torch.tensor([[0.0, 1, 1, 3, 3]])
    with pytest.raises(RuntimeError, match=r"output_size is \[7, 5, 7, 7\], must have two numbers"):
        torch.vmap(lambda entry: call(entry, boxes, [7, 5, 7, 7]))(maps)


every_pooling = pytest.mark.parametrize("name", POOLINGS)


def pool(name: str, boxes: Tensor, **options: Any) -> Callable[[Tensor], Tensor]:
    return lambda maps: POOLINGS[name].function(maps, boxes, OUTPUT_SIZE, **options)


@pytest.mark.cuda
@every_pooling
def test_cuda_boxes_that_are_not_valid(name: str) -> None:
    """Zeros, and no gradient."""
    maps, boxes = problem(name, count=8)
    good = boxes[:1].clone()
    bad = good.repeat(8, 1)
    for i, (column, number) in enumerate(
        ((0, 2), (0, -1), (0, 0.5), (0, torch.nan), (1, torch.nan), (2, torch.inf), (4, 1e300))
    ):
        bad[i, column] = number
    if name == "roi_pool":
        bad[7, 0] = 1e30
    else:
        bad[7, 3] = -100
    leaf = maps.cuda().requires_grad_()
    value = pool(name, bad.cuda().float())(leaf.float())
    assert torch.equal(value, torch.zeros_like(value))
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    assert torch.equal(gradient, torch.zeros_like(leaf))


def crops_problem(
    dtype: torch.dtype = torch.float32, layout: str = "contiguous", blend: str = "replace"
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return images, patches, boxes and, if the blend needs it, alpha."""
    boxes = all_boxes()
    images = affine_cases.LAYOUTS[layout](images_of(dtype))
    patches = affine_cases.LAYOUTS[layout](images_of(dtype, 1, (len(boxes), 3, 5, 6)))
    double = torch.float64 if dtype == torch.float64 else torch.float32
    alpha = paste_options(blend, patches, dtype=double).get("alpha")
    return images, patches, boxes, alpha


def test_defaults_of_the_operators() -> None:
    images, patches, boxes, _ = crops_problem()
    assert torch.equal(OPS.crop_rois(images, boxes, [5, 5]), visops.crop_rois(images, boxes, 5))
    found = OPS.paste_rois(images, patches, boxes)
    assert torch.equal(found, visops.paste_rois(images, patches, boxes))
    found = OPS.paste_rois(images, patches, boxes, None, "feather")
    assert torch.equal(found, visops.paste_rois(images, patches, boxes, blend="feather"))


SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
ROWS = torch.tensor([[0.0, 1, 1, 5, 6], [1, 0, 2, 7, 7]], dtype=torch.float64)
MAPS = torch.from_numpy(maps_of((2, 3, 9, 11)))
HALF = torch.tensor([[1.0, 2, 3, 4]], dtype=torch.float16)


@pytest.mark.parametrize("dtype", [*FLOATING, *SIGNED, *UNSIGNED], ids=str)
def test_any_dtype(dtype: torch.dtype) -> None:
    """Also beside tensors of another one."""
    wanted = visops.roi_align(MAPS, ROWS, 3)
    first, second = ROWS[:1, 1:], ROWS[1:, 1:]
    for other in (dtype, torch.float16, torch.float32, torch.float64, torch.int64, torch.uint8):
        for parts in ([first.to(dtype), second.to(other)], [first.to(other), second.to(dtype)]):
            assert same_bits(visops.roi_align(MAPS, parts, 3), wanted)


def test_every_digit_stays() -> None:
    """Those of integers beyond 2^24 and of float64, beside float16 too."""
    scale = 2.0**-24
    far = torch.tensor([[2**24 + 1, 2**24 + 3, 2**26 + 5, 2**26 + 7]])
    for boxes in (far, far.double() + 2.0**-20):
        rows = torch.cat([torch.ones(1, 1), boxes.double()], 1)
        wanted = visops.roi_align(MAPS, rows, 2, scale, 2)
        assert not same_bits(visops.roi_align(MAPS, rows.float(), 2, scale, 2), wanted)
        for first in (HALF, HALF.float(), HALF.long(), HALF[:0]):
            found = visops.roi_align(MAPS, [first, boxes], 2, scale, 2)[-1:]
            assert same_bits(found, wanted)


@pytest.mark.parametrize(
    ("parts", "dtype"),
    [
        ([HALF], torch.float32),
        ([HALF.bfloat16(), HALF], torch.float32),
        ([HALF.float()], torch.float32),
        ([HALF, HALF.double()], torch.float64),
        ([HALF.byte()], torch.float64),
        ([HALF, HALF.long()], torch.float64),
        ([], torch.float32),
        ([HALF[:0]], torch.float32),
        ([HALF.long()[:0], HALF], torch.float64),
    ],
    ids=str,
)
def test_rows(parts: list[Tensor], dtype: torch.dtype) -> None:
    """float32 holds the indices of images; more is only for numbers that need it."""
    rows = as_boxes("roi_align", parts, torch.zeros(2, 3, 9, 11, dtype=torch.float16))
    assert (rows.dtype, rows.shape) == (dtype, (sum(len(part) for part in parts), 5))
    assert all(row.tolist()[1:] == [1, 2, 3, 4] for row in rows)


def test_no_boxes() -> None:
    """Empty tensors may have one dimension, as those of torch.tensor([])."""
    nothing = torch.zeros(0)
    for boxes in ([], (), [nothing], [nothing, nothing], nothing, nothing.long()):
        assert visops.roi_align(MAPS, boxes, 2).shape == (0, 3, 2, 2)
        assert visops.roi_pool(MAPS, boxes, 2).shape == (0, 3, 2, 2)
        assert visops.crop_rois(MAPS, boxes, 2).shape == (0, 3, 2, 2)
        assert visops.roi_align_rotated(MAPS, boxes, 2).shape == (0, 3, 2, 2)
        assert same_bits(visops.paste_rois(MAPS, MAPS[:0], boxes), MAPS)
    for arrays in ([], [nothing.numpy()], nothing.numpy()):
        assert visops.crop_rois(MAPS.numpy(), arrays, 2).shape == (0, 3, 2, 2)
    wanted = visops.roi_align(MAPS, ROWS[1:], 3)
    assert same_bits(visops.roi_align(MAPS, [nothing, ROWS[1:, 1:]], 3), wanted)
    turned = torch.cat([ROWS, ROWS[:, :1]], 1)
    wanted = visops.roi_align_rotated(MAPS, turned[1:], 3)
    assert same_bits(visops.roi_align_rotated(MAPS, [nothing, turned[1:, 1:]], 3), wanted)


def pool_lists(boxes: Any, maps: Tensor = MAPS) -> Callable[[], Any]:
    return lambda: visops.roi_align(maps, boxes, 2)


@table(
    (
        ValueError,
        "roi_align: boxes[1] has dtype bool, must be a floating or integer type",
        pool_lists([HALF, HALF.bool()]),
    ),
    (
        ValueError,
        "roi_align: boxes[0] has dtype complex64, must be a floating or integer type",
        pool_lists([HALF.to(torch.complex64)]),
    ),
    (
        TypeError,
        "roi_align: boxes[1] has dtype float8_e5m2, must be float16, bfloat16, float32, float64 or",
        pool_lists([HALF, HALF.to(torch.float8_e5m2)]),
    ),
    (
        ValueError,
        "roi_align: boxes[1] is on meta, boxes[0] is on cpu; all tensors must be on one device",
        pool_lists([HALF, HALF.to("meta")]),
    ),
    (
        RuntimeError,
        "roi_align: input has shape [], must be [N, C, H, W]",
        pool_lists([HALF], torch.zeros(())),
    ),
    (
        RuntimeError,
        "roi_align: input has shape [3, 9], must be [N, C, H, W]",
        pool_lists([HALF], MAPS[0, :, :, 0]),
    ),
)
def test_bad_input(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


def boxes(*rows: list[float], dtype: torch.dtype = torch.float32) -> Tensor:
    """Good boxes, followed by the given rows."""
    return torch.tensor([[0.0, 1, 1, 5, 5], [0, 1, 1, 5, 5], *rows], dtype=dtype)


def test_boxes_are_checked_on_their_map() -> None:
    """Boxes may overflow on a float32 map and not on a float64 one."""
    far = boxes([0, 1, 1, 1e30, 5], dtype=torch.float64)
    maps = torch.zeros(2, 3, 8, 9)
    assert visops.roi_align(maps.double(), far, 7, 1e10).shape == (3, 3, 7, 7)
    inverted = boxes([0, 5, 5, 1, 1])
    assert visops.roi_align(maps, inverted, 7).shape == (3, 3, 7, 7)
    assert visops.roi_pool(maps, inverted, 2).shape == (3, 3, 2, 2)


def test_indices_of_no_sample() -> None:
    """Whatever the index, nothing out of bounds is read."""
    maps, grad, options = torch.ones(2, 3, 8, 9), torch.ones(2, 3, 7, 7), (1.0, 2, False)
    for value in (-(2**62), -2, 4, 10**6, 2**62):
        index = torch.full((2, 3, 7, 7), value)
        found = OPS.roi_align_max_at(maps, index, boxes(), [7, 7], *options)
        assert bool(((found == 0) | (found - 1).abs().lt(1e-6)).all())
        OPS.roi_align_max_backward_input(grad, index, boxes(), [2, 3, 8, 9], *options, False)
        OPS.roi_align_max_backward_boxes(grad, index, maps, boxes(), *options)


def test_indices_of_no_pixel() -> None:
    """An index that is no pixel of the map counts as no pixel taken."""
    index = torch.tensor([-1, 72, 2**31 - 1, -(2**31)], dtype=torch.int32)
    index = index.reshape(1, 1, 2, 2).expand(2, 4, 2, 2)
    values = OPS.roi_pool_at(torch.ones(2, 4, 8, 9), index, boxes(), 1.0)
    assert torch.equal(values, torch.zeros(2, 4, 2, 2))
    gradient = OPS.roi_pool_backward(
        torch.ones(2, 4, 2, 2), index, boxes(), (2, 4, 8, 9), 1.0, True
    )
    assert torch.equal(gradient, torch.zeros(2, 4, 8, 9))
