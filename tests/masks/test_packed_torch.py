"""Packed masks within torch: opcheck, compile, pytrees, vmap, fake tensors, threads."""

import io
from typing import Any

import pytest
import torch
import visops
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from masks.mask_cases import LAYOUTS, some_masks

OPS = torch.ops.visops


@pytest.mark.parametrize("layout", LAYOUTS)
def test_opcheck(layout: str) -> None:
    masks = LAYOUTS[layout](some_masks())
    torch.library.opcheck(OPS.pack_masks, (masks,))
    bits = LAYOUTS[layout](OPS.pack_masks(masks))
    torch.library.opcheck(OPS.unpack_masks, (bits, 70))
    torch.library.opcheck(OPS.measure_masks, (bits,))
    torch.library.opcheck(OPS.mask_iou, (bits, bits[:2], "ioa"))
    torch.library.opcheck(OPS.mask_iou, (bits, bits, "iou", torch.arange(4) % 2 == 0))
    torch.library.opcheck(OPS.measure_masks, (masks, False))
    torch.library.opcheck(OPS.mask_iou, (masks, bits[:2], "iou", None, False, True))
    torch.library.opcheck(OPS.mask_iou, (bits[:2], masks, "iou", None, True, False))
    torch.library.opcheck(OPS.mask_iou, (masks, masks, "ioa", None, False, False))


@pytest.mark.parametrize("shape", [(0, 2, 3), (2, 0, 3), (2, 2, 0)])
def test_opcheck_of_nothing(shape: tuple[int, ...]) -> None:
    masks = torch.zeros(shape, dtype=torch.bool)
    torch.library.opcheck(OPS.pack_masks, (masks,))
    bits = OPS.pack_masks(masks)
    torch.library.opcheck(OPS.unpack_masks, (bits, shape[-1]))
    torch.library.opcheck(OPS.measure_masks, (bits,))
    torch.library.opcheck(OPS.mask_iou, (bits, bits))
    torch.library.opcheck(OPS.measure_masks, (masks, False))
    torch.library.opcheck(OPS.mask_iou, (masks, masks, "iou", None, False, False))


def test_compile() -> None:
    """Packed masks go in and out of one program for all sizes."""

    def step(masks: Tensor, packed: Any) -> tuple[Any, ...]:
        ours = visops.pack_masks(masks)
        boxes, empty = visops.masks_to_boxes(ours, return_empty=True)
        overlaps = visops.mask_iou(ours, packed), visops.mask_iou(masks, masks, kind="ioa")
        return ours, ours.unpack(), boxes, empty, visops.mask_area(packed), *overlaps

    torch._dynamo.reset()
    with torch._dynamo.config.patch(error_on_recompile=True):
        compiled = torch.compile(step, fullgraph=True, dynamic=True, backend="aot_eager")
        for masks in (some_masks(), some_masks(3, 20, 133), some_masks(5, 8, 96)):
            packed = visops.pack_masks(~masks)
            found, expected = compiled(masks, packed), step(masks, packed)
            assert found[0].size == expected[0].size == masks.shape[1:]
            assert torch.equal(found[0].bits, expected[0].bits)
            for ours, wanted in zip(found[1:], expected[1:], strict=True):
                assert torch.equal(ours, wanted)


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


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_vmap(dim: int) -> None:
    masks = some_masks()

    def step(mask: Tensor) -> tuple[Tensor, ...]:
        packed = visops.pack_masks(mask)
        return packed.bits, packed.unpack(), visops.mask_area(mask), visops.masks_to_boxes(packed)

    found = torch.vmap(step, in_dims=dim)(masks.movedim(0, dim))
    for ours, wanted in zip(found, step(masks), strict=True):
        assert torch.equal(ours, wanted)


def test_vmap_of_overlaps() -> None:
    batches = torch.stack([some_masks(), ~some_masks()])
    found = torch.vmap(lambda a: visops.mask_iou(a, batches[0]))(batches)
    expected = torch.stack([visops.mask_iou(a, batches[0]) for a in batches])
    assert torch.equal(found, expected)


def test_fake_tensors() -> None:
    with FakeTensorMode() as mode:
        masks = mode.from_tensor(some_masks())
        packed = visops.pack_masks(masks)
        assert (packed.bits.shape, packed.bits.dtype) == ((4, 9, 2), torch.int64)
        assert packed.unpack().shape == (4, 9, 70)
        assert visops.masks_to_boxes(packed).shape == (4, 4)
        overlaps = visops.mask_iou(packed, masks[:3])
        assert (overlaps.shape, overlaps.dtype) == ((4, 3), torch.float32)


@pytest.mark.usefixtures("restored_threads")
def test_threads_change_nothing() -> None:
    masks = torch.rand((9, 300, 200), generator=torch.Generator().manual_seed(0)) < 0.6
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        packed = visops.pack_masks(masks)
        boxes = visops.masks_to_boxes(masks)
        overlaps = [visops.mask_iou(a, b) for a in (masks, packed) for b in (a, masks[2:])]
        results.append((packed.bits, packed.unpack(), boxes, *overlaps))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_modes() -> None:
    masks = some_masks()
    expected = visops.mask_iou(masks, masks)
    with torch.inference_mode():
        assert torch.equal(visops.mask_iou(masks, masks), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(visops.mask_iou(masks, masks), expected)
