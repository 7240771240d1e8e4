"""Packed masks: values, PackedMasks as a sequence, at random, within torch."""

import copy
import io
import itertools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from bad_input import check
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import use_slot
from references import masks as reference
from torch import Tensor
from torch.utils import _pytree as pytree
from torchvision.ops import masks_to_boxes
from visops.masks import PackedMasks

from masks.cases import (
    CONVENTIONS,
    LAYOUTS,
    SIZES,
    every_kind,
    probabilities,
    random_boxes,
    some_masks,
)

EMULATED = visops.build_info()["cpu"] == "cuda_emulated"


@pytest.mark.matrix
@pytest.mark.parametrize("layout", LAYOUTS)
def test_bits_areas_and_boxes(layout: str) -> None:
    rng = np.random.default_rng(1)
    for i, (height, width) in enumerate(SIZES):
        masks = every_kind(height, width, i)
        values = torch.from_numpy(masks)
        if i % 2:  # pixels that are not 0 are inside, whichever bit is set
            values = values * torch.from_numpy(2 ** rng.integers(0, 8, masks.shape)).byte()
        given = LAYOUTS[layout](values)
        packed = visops.pack_masks(given)
        assert packed.size == (height, width)
        assert packed.bits.dtype == torch.int64
        expected = np.stack([reference.pack(mask) for mask in masks])
        np.testing.assert_array_equal(packed.bits.numpy(), expected)
        np.testing.assert_array_equal(packed.unpack().numpy(), masks)
        for form in (given, packed):
            assert visops.mask_area(form).tolist() == [int(mask.sum()) for mask in masks]
            boxes, empty = visops.masks_to_boxes(form, return_empty=True)
            assert boxes.dtype == torch.float32
            assert boxes.tolist() == [reference.box(mask) for mask in masks]
            assert empty.tolist() == [not mask.any() for mask in masks]
            assert torch.equal(visops.masks_to_boxes(form), boxes)


@pytest.mark.matrix
@pytest.mark.parametrize("kind", ["iou", "ioa"])
def test_overlaps(kind: Any) -> None:
    for i, (height, width) in enumerate(SIZES[:-1]):
        first, second = (
            every_kind(height, width, i),
            every_kind(height, width, i + 20)[::-1][:7].copy(),
        )
        expected = [[reference.overlap(a, b, kind) for b in second] for a in first]
        found = visops.mask_iou(first, second, kind=kind)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, np.array(expected))
        forms: list[list[Any]] = [[m, visops.pack_masks(m)] for m in (first, second)]
        for one, other in itertools.product(*forms):
            np.testing.assert_array_equal(visops.mask_iou(one, other, kind=kind), found)


@pytest.mark.matrix
def test_crowds() -> None:
    masks = every_kind(9, 70)
    crowd = np.arange(len(masks)) % 3 == 0
    found = visops.mask_iou(masks, masks, iscrowd=crowd)
    iou, ioa = (visops.mask_iou(masks, masks, kind=kind) for kind in ("iou", "ioa"))
    np.testing.assert_array_equal(found, np.where(crowd, ioa, iou))
    assert (ioa != iou).any()
    np.testing.assert_array_equal(
        visops.mask_iou(masks, masks, iscrowd=crowd.view(np.uint8)), found
    )


def test_large_masks_are_counted_exactly() -> None:
    """Areas that float32 would round, and rows of many words: all steps of the counting."""
    rng = np.random.default_rng(2)
    height = 50 if EMULATED else 4200
    masks = torch.zeros(5, height, 4100, dtype=torch.bool)
    for mask in masks[1:]:
        begin, end = np.sort(rng.integers(0, height * 4100, 2))
        mask.view(-1)[begin:end] = True
    masks[0] = True
    masks[4] &= torch.from_numpy(rng.random((height, 4100)) < 0.5)
    flat = masks.flatten(1)
    areas = flat.sum(1)
    assert torch.equal(visops.mask_area(masks), areas)
    common = torch.stack([(mask & flat).sum(1) for mask in flat])
    union = areas[:, None] + areas - common
    expected = (common.double() / union.clamp(min=1)).float()
    assert torch.equal(visops.mask_iou(masks, masks), expected)


def test_narrow_masks_in_wide_images() -> None:
    """Few words of each row: they are counted row by row."""
    rng = np.random.default_rng(3)
    masks = np.zeros((12, 40, 1000), bool)
    for mask in masks:
        y, x = rng.integers(0, 20), rng.integers(0, 300)
        mask[y : y + 20, x : x + 90] = rng.random((20, 90)) < 0.7
    flat = masks.reshape(12, -1).astype(np.int64)
    common = flat @ flat.T
    area = flat.sum(1)
    expected = (common / (area[:, None] + area - common)).astype(np.float32)
    np.testing.assert_array_equal(visops.mask_iou(masks, masks), expected)


def test_torchvision() -> None:
    masks = torch.from_numpy(every_kind(60, 90))
    assert torch.equal(visops.masks_to_boxes(masks), masks_to_boxes(masks))


def test_coco() -> None:
    """The overlaps of COCO's evaluation, crowds among them."""
    coco = pytest.importorskip("pycocotools.mask")
    masks = every_kind(60, 90)[:8]
    encoded = coco.encode(np.asfortranarray(masks.transpose(1, 2, 0).astype(np.uint8)))
    crowd = [0, 1, 0, 0, 1, 0, 1, 0]
    theirs = coco.iou(encoded, encoded, crowd)
    ours = visops.mask_iou(masks, masks, iscrowd=np.array(crowd, np.uint8))
    np.testing.assert_array_equal(ours, np.nan_to_num(theirs).astype(np.float32))
    assert visops.mask_area(masks).tolist() == coco.area(encoded).tolist()


@pytest.mark.parametrize("shape", [(0, 4, 5), (2, 0, 5), (2, 4, 0), (0, 0), (3, 0, 2, 2)])
def test_nothing(shape: tuple[int, ...]) -> None:
    masks = torch.ones(shape, dtype=torch.bool)
    packed = visops.pack_masks(masks)
    assert packed.bits.shape == (*shape[:-1], (shape[-1] + 63) // 64)
    assert packed.unpack().shape == shape
    assert visops.mask_area(masks).shape == shape[:-2]
    assert visops.masks_to_boxes(masks).shape == (*shape[:-2], 4)
    if len(shape) == 3:
        overlaps = visops.mask_iou(masks, masks)
        assert overlaps.shape == (shape[0], shape[0])
        assert not overlaps.any()


MASKS = torch.rand(5, 4, 70, generator=torch.Generator().manual_seed(0)) < 0.5

INDICES: tuple[Any, ...] = (
    0,
    -1,
    np.int64(3),
    slice(1, 4),
    slice(None, None, 2),
    slice(4, 1),
    [3, 0, 3],
    [],
    [True, False, True, False, False],
    (2,),
    (slice(1, 3),),
    Ellipsis,
    (Ellipsis, 1),
    None,
    torch.tensor(2),
    torch.tensor([1]),
    torch.tensor([[1, 4], [0, 0]]),
    torch.tensor([False, True, True, False, True]),
    torch.zeros(5, dtype=torch.bool),
    np.array([4, 2]),
    np.array([True, False, False, True, True]),
)


def expected(masks: Any, index: Any) -> Any:
    """The masks at an index that may be meant for all dimensions before height and width."""
    parts = index if isinstance(index, tuple) else (index,)
    if isinstance(masks, np.ndarray):
        parts = tuple(part.numpy() if isinstance(part, Tensor) else part for part in parts)
    if not any(part is Ellipsis for part in parts):
        parts = (*parts, Ellipsis)
    return masks[(*parts, slice(None), slice(None))]


@pytest.mark.parametrize("index", INDICES, ids=repr)
@pytest.mark.parametrize("of_arrays", [False, True])
def test_indices(index: Any, of_arrays: bool) -> None:
    masks = MASKS.numpy() if of_arrays else MASKS
    packed = visops.pack_masks(masks)
    part = packed[index]
    assert isinstance(part, PackedMasks)
    assert part.size == (4, 70)
    np.testing.assert_array_equal(part.unpack(), expected(masks, index))


def test_indices_of_batches() -> None:
    masks = MASKS.expand(3, 5, 4, 70)
    packed = visops.pack_masks(masks)
    assert len(packed) == 3
    for index in ((0, 2), (slice(None), 4), (Ellipsis, [1, 2]), ([0, 1], [4, 3]), (None, 1)):
        assert torch.equal(packed[index].unpack(), expected(masks, index))


def test_what_other_functions_choose() -> None:
    """The indices that mask_nms returns, and the flags of empty masks."""
    scores = torch.rand(5, generator=torch.Generator().manual_seed(1))
    packed = visops.pack_masks(MASKS)
    kept = visops.mask_nms(packed, scores, 0.3)
    assert torch.equal(packed[kept].unpack(), MASKS[kept])
    large = visops.mask_area(packed) > 140
    assert torch.equal(visops.mask_area(packed[large]), visops.mask_area(MASKS[large]))


def test_number_and_loops() -> None:
    packed = visops.pack_masks(MASKS)
    assert len(packed) == 5
    assert len(visops.pack_masks(MASKS[:0])) == 0
    for masks, one in zip(packed, MASKS, strict=True):
        assert torch.equal(masks.unpack(), one)
    first, *others = packed
    assert first == packed[0]
    assert len(others) == 4
    with pytest.raises(ValueError, match="too many values to unpack"):
        _bits, _size = packed


def test_equality() -> None:
    packed = visops.pack_masks(MASKS)
    assert packed == visops.pack_masks(MASKS)
    assert packed != packed[:4]
    assert packed != visops.pack_masks(~MASKS)
    assert packed != visops.pack_masks(MASKS[..., :69])
    assert packed != visops.pack_masks(MASKS.numpy())
    assert visops.pack_masks(MASKS.numpy()) == visops.pack_masks(MASKS.numpy())
    assert packed != (packed.bits, packed.size)
    with pytest.raises(TypeError, match="unhashable"):
        hash(packed)


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))]
)
def test_copies(again: Callable[[PackedMasks], PackedMasks]) -> None:
    for masks in (MASKS, MASKS.numpy()):
        packed = visops.pack_masks(masks)
        other = again(packed)
        assert isinstance(other, PackedMasks)
        assert other == packed


def test_repr() -> None:
    packed = visops.pack_masks(torch.tensor([[True, False, True]]))
    assert repr(packed) == "PackedMasks(bits=tensor([[5]]), size=(1, 3))"


@pytest.mark.parametrize("of_arrays", [False, True])
@pytest.mark.parametrize("width", [1, 10, 63, 64, 65, 70, 128])
def test_bits_past_the_width(width: int, of_arrays: bool) -> None:
    """They are no pixels: the complement of bits, for instance, sets them."""
    full = torch.full((2, 3, (width + 63) // 64), -1)
    bits: Any = full.numpy() if of_arrays else full
    packed = PackedMasks(bits, (3, width))
    assert (bits == -1).all()  # not written into
    inside = np.ones((2, 3, width), bool)
    assert packed == visops.pack_masks(inside if of_arrays else torch.from_numpy(inside))
    assert visops.mask_area(packed).tolist() == [3 * width] * 2
    assert visops.masks_to_boxes(packed).tolist() == [[0, 0, width - 1, 2]] * 2
    np.testing.assert_array_equal(visops.mask_iou(packed, inside if of_arrays else packed), 1)
    assert visops.rle_area(visops.masks_to_rle(packed)).tolist() == [3 * width] * 2
    np.testing.assert_array_equal(packed.unpack(), inside)


def test_complement() -> None:
    packed = visops.pack_masks(MASKS)
    other = PackedMasks(~packed.bits, packed.size)
    assert torch.equal(visops.mask_area(other), 4 * 70 - visops.mask_area(packed))


def test_errors_of_indices() -> None:
    packed = PackedMasks(torch.zeros(2, 3, 2, dtype=torch.int64), (3, 70))
    says = "must index the dimensions before height and width of masks [2, 3, 70]: "
    for index in (2, (0, 1), "a"):
        check(IndexError, f"PackedMasks: index is {index!r}, {says}", lambda: packed[index])  # noqa: B023
    says = "masks have shape [3, 70], must be [N, H, W] to be counted or indexed"
    check(TypeError, f"PackedMasks: {says}", lambda: len(packed[0]))
    # The number of words is equal; the widths are not.
    other = PackedMasks(torch.zeros(2, 3, 2, dtype=torch.int64), (3, 71))
    message = "mask_iou: masks1 are 3 x 70, masks2 are 3 x 71: masks must be of one size"
    check(RuntimeError, message, lambda: visops.mask_iou(packed, other))


few = settings(max_examples=15)
seeds = st.integers(0, 2**32 - 1)
sides = st.integers(1, 400)


@few
@given(seed=seeds, height=st.integers(1, 60), width=sides, count=st.integers(0, 5))
def test_packing_loses_nothing(seed: int, height: int, width: int, count: int) -> None:
    masks = np.random.default_rng(seed).random((count, height, width)) < 0.3
    packed = visops.pack_masks(masks)
    np.testing.assert_array_equal(packed.unpack(), masks)
    bits = np.unpackbits(packed.bits.view(np.uint8), axis=-1, bitorder="little")
    np.testing.assert_array_equal(bits[..., :width], masks)
    assert not bits[..., width:].any()
    np.testing.assert_array_equal(visops.mask_area(packed), masks.sum((1, 2)))


def test_packed_masks_are_a_pytree() -> None:
    packed = visops.pack_masks(some_masks())
    moved = pytree.tree_map(lambda leaf: leaf[:2] if isinstance(leaf, Tensor) else leaf, packed)
    assert isinstance(moved, visops.masks.PackedMasks)
    assert torch.equal(moved.unpack(), some_masks()[:2])


def test_compile_of_indices() -> None:
    """Indices, lengths, loops and PackedMasks of a caller's bits, in one program for all sizes."""

    def step(masks: Tensor, packed: Any, chosen: Tensor) -> tuple[Any, ...]:
        ours = visops.pack_masks(masks)
        areas = [visops.mask_area(one) for one in ours[:2]]
        other = visops.masks.PackedMasks(~packed.bits, packed.size)
        return ours[chosen], ours[-1].unpack(), len(packed), *areas, visops.mask_area(other)

    torch._dynamo.reset()
    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend="aot_eager")
    for masks in (some_masks(), some_masks(3, 20, 133), some_masks(5, 8, 96)):
        given = masks, visops.pack_masks(~masks), torch.tensor([2, 0])
        found, wanted = compiled(*given), step(*given)
        assert found[0] == wanted[0]
        assert found[2] == wanted[2]
        for i in (1, 3, 4, 5):
            assert torch.equal(found[i], wanted[i])


def test_export() -> None:
    """Packed masks go in and out of exported programs."""

    class Step(torch.nn.Module):
        def forward(self, packed: Any) -> Any:
            return packed[1:], visops.mask_area(packed)

    packed = visops.pack_masks(some_masks())
    saved = io.BytesIO()
    torch.export.save(torch.export.export(Step(), (packed,)), saved)
    saved.seek(0)
    found, areas = torch.export.load(saved).module()(packed)
    assert isinstance(found, visops.masks.PackedMasks)
    assert found == packed[1:]
    assert torch.equal(areas, visops.mask_area(packed))


# Rows are taken 8 at a time, 16 bytes or 64 pixels of each.
CUDA_SIZES = [(1, 1), (7, 15), (8, 16), (9, 17), (17, 63), (16, 64), (23, 65), (3, 130), (33, 47)]


def same_on_cuda(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The result of both; tensors' bits must be equal."""
    found = []
    for slot in ("default", "cuda_emulated"):
        with use_slot(slot):
            result = function(*arguments, **options)
        result = getattr(result, "bits", result)
        found.append(result if isinstance(result, tuple) else (result,))
    for one, other in zip(*found, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))
    return found[0][0]


def boxes_at_borders(size: tuple[int, int]) -> Tensor:
    height, width = size
    rows = [
        (0, 0, width, height),  # the image
        (width - 1, height - 1, width, height),  # its last pixel
        (-3, -3, 1, 1),  # its first
        (width / 2, 0, width / 2 + 0.5, height),  # thin
        (0, height / 2, width, height / 2 + 0.5),
        (-2 * width, -2 * height, 3 * width, 3 * height),
        (width + 9, 0, width + 20, height),  # beside
        (0, -30, width, -20),  # above
        (width / 3, height / 3, width / 3, height / 3),  # without extent
    ]
    return torch.tensor(rows, dtype=torch.float32)


@pytest.mark.parametrize("options", CONVENTIONS, ids=str)
@pytest.mark.parametrize("size", CUDA_SIZES, ids=str)
def test_pasting(size: tuple[int, int], options: dict[str, Any]) -> None:
    boxes = torch.cat([boxes_at_borders(size), random_boxes(np.random.default_rng(1), 5, size)])
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        masks = probabilities(len(boxes), (7, 5)).to(dtype)
        for out in ("bool", "uint8", "float", "packed"):
            found = same_on_cuda(visops.paste_masks, masks, boxes, size, out=out, **options)
            assert found.any()


def test_pasting_at_one_place_or_nowhere() -> None:
    masks = probabilities(70, (28, 28)).float()
    one = torch.tensor([[3.5, 4.25, 30.0, 20.5]]).expand(70, 4)
    found = same_on_cuda(visops.paste_masks, masks, one, (33, 47))
    assert found.flatten(1).any(1).all()
    assert not same_on_cuda(visops.paste_masks, masks, one + 100, (33, 47)).any()
    empty = same_on_cuda(visops.paste_masks, masks[:0], one[:0], (33, 47))
    assert empty.shape == (0, 33, 47)
    nothing = same_on_cuda(visops.paste_masks, masks[:, :0], one, (33, 47))
    assert not nothing.any()


def few_pixels(size: tuple[int, int]) -> Tensor:
    """Masks of one pixel, of two that are far apart, of all, and of none."""
    height, width = size
    places = sorted({0, 1, width - 1, width // 2, height * width - 1, height * width // 2})
    masks = torch.zeros(2 * len(places) + 2, height * width, dtype=torch.uint8)
    for i, at in enumerate(places):
        masks[i, min(at, height * width - 1)] = 1
        masks[len(places) + i, [min(at, height * width - 1), -1]] = 255
    masks[-1] = 7
    return masks.view(-1, height, width)


@pytest.mark.parametrize("size", [*CUDA_SIZES, (70, 300), (1, 5000)], ids=str)
def test_boxes_and_areas(size: tuple[int, int]) -> None:
    masks = few_pixels(size)
    random = torch.rand(5, *size, generator=torch.Generator().manual_seed(0)) < 0.3
    # At an odd address, and whole.
    shifted = torch.zeros(masks.numel() + 3, dtype=torch.uint8)[3:].view(masks.shape).copy_(masks)
    for form in (masks, shifted, masks != 0, random, masks[1:2], visops.pack_masks(masks)):
        same_on_cuda(visops.masks_to_boxes, form, return_empty=True)
        same_on_cuda(visops.mask_area, form)
    assert same_on_cuda(visops.masks_to_boxes, masks[:0]).shape == (0, 4)


@pytest.mark.parametrize("size", [(1, 1), (9, 17), (33, 47), (5, 2100), (40, 1024)], ids=str)
def test_overlaps_on_cuda(size: tuple[int, int]) -> None:
    """Wider than a warp has words, and of one set of masks, whose pairs are computed once."""
    masks = few_pixels(size)
    random = torch.rand(6, *size, generator=torch.Generator().manual_seed(0)) < 0.3
    masks = torch.cat([masks, random.to(torch.uint8)])
    crowd = torch.arange(len(masks)) % 3 == 0
    for options in ({}, {"kind": "ioa"}, {"iscrowd": crowd}):
        found = same_on_cuda(visops.mask_iou, masks, masks, **options)
        assert found.any()
        copied = same_on_cuda(visops.mask_iou, masks, masks.clone(), **options)
        assert torch.equal(found, copied)
    for count in (1, 2, 3, 9):
        same_on_cuda(visops.mask_iou, masks[-count:], masks[-count:])
    packed = visops.pack_masks(masks)
    same_on_cuda(visops.mask_iou, packed, packed)
    assert same_on_cuda(visops.mask_iou, masks[:0], masks).shape == (0, len(masks))
