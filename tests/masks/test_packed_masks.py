"""PackedMasks as a sequence of masks: indices, loops, equality, pickles, bits past the width."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from bad_input import check
from torch import Tensor
from visops.masks import PackedMasks

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
