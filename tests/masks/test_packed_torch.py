"""Packed masks within torch: opcheck, compile, pytrees, vmap, fake tensors, threads."""

import io
from typing import Any

import torch
import visops
from torch import Tensor
from torch.utils import _pytree as pytree

from masks.mask_cases import some_masks


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
