"""Batches that are transformed on the device: all images of one in a call.

Threads decode what the first pass reads of each file, as its plan for the sample says. The thread
that finishes a batch copies all of that to one block of memory, pinned where there is a GPU, and
runs the chain on the batch there. Its plan is drawn from the same numbers, so it asks for the same
windows again, and finds them decoded. Targets move on the CPU meanwhile.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._native import copy_together
from ..chain.execute import run_passes
from ..chain.source import Source
from ..compose import Compose
from ..sample.batches import MOVABLE, batch_leaves, split_samples, stack_masks, unbatch_leaves
from ..sample.files import Encoded
from ..sample.leaf import Leaf
from ..targets.mirrored import may_swap
from .batch import Batch, Blocks, Collate, Item, Transfer, moved

_ALIGNMENT = 64  # bytes, of each image in a block


class OnDevice:
    """Makes batches of samples that threads have decoded.

    Parameters
    ----------
    chain : Compose
    seed, epoch : int
    collate : callable, optional
        That of the user, of samples and their places.
    transfer : Transfer
        To the device.
    blocks : Blocks
        Memory on the CPU.
    """

    def __init__(
        self,
        chain: Compose,
        seed: int,
        epoch: int,
        collate: Collate | None,
        transfer: Transfer,
        blocks: Blocks,
    ) -> None:
        self.chain, self.seed, self.epoch = chain, seed, epoch
        self.collate, self.transfer, self.blocks = collate, transfer, blocks

    def __call__(self, batch: Batch) -> Any:
        """Return a batch of the samples that were not skipped; there is at least one."""
        return self.transfer.run(lambda: self._made([i for i in batch.items if i is not None]))

    def _made(self, items: list[Item]) -> tuple[Any, Any]:
        chain = self.chain
        for item in items:
            if item.image is not None:
                item.leaves = item.own_leaves()
        if any(len(item.leaves) != len(items[0].leaves) for item in items):
            self._split_again(items)
        leaves = batch_leaves([item.leaves for item in items], stack=False)
        blocks = [self._upload(leaf) for leaf in leaves if leaf.kind == "image"]
        indices = [item.index for item in items]
        run_passes(chain, leaves, Source(self.seed, None, None, indices, self.epoch, None))
        if self.collate is None:
            stack_masks(leaves)
            chain.output_types.apply(leaves)
            made = items[0].rebuild(leaves)  # type: ignore[misc]
        else:
            pairs = zip(items, unbatch_leaves(leaves, moves=self._may_change), strict=True)
            made = self.collate([self._alone(item, own) for item, own in pairs], indices)
        return moved(made, self.transfer.device), blocks

    def _split_again(self, items: list[Item]) -> None:
        """Split samples of different leaves together: annotations of some may be missing."""
        found = split_samples([item.result() for item in items], self.chain.split)
        for item, (leaves, rebuild) in zip(items, found, strict=True):
            images = iter([leaf for leaf in item.leaves if leaf.kind == "image"])
            for leaf in leaves:
                if leaf.kind == "image":
                    leaf.value = next(images).value
            item.leaves, item.rebuild = leaves, rebuild

    def _may_change(self, leaf: Leaf) -> bool:
        """Return whether a chain may change labels: drop some with their boxes, or swap classes."""
        return leaf.per_box or may_swap(leaf, self.chain.options)

    def _alone(self, item: Item, moved_leaves: list[Leaf]) -> Any:
        """Return one transformed sample."""
        leaves = []
        for old, new in zip(item.leaves, moved_leaves, strict=True):
            follows = new.kind == "image" or new.kind in MOVABLE
            if not follows and self._may_change(new):
                old.value = _as_before(new.value, old.value)
            leaves.append(new if follows else old)
        self.chain.output_types.apply(leaves)
        return item.rebuild(leaves)  # type: ignore[misc]

    def _upload(self, leaf: Leaf) -> Tensor:
        """Bring the images of a batch to the device in one copy; return the block on the CPU."""
        device = self.transfer.device
        values = [_pixels_of(value) for value in leaf.value]
        begins, size = [], 0
        for value in values:
            begins.append(size)
            size += -(-value.nbytes // _ALIGNMENT) * _ALIGNMENT
        block = self.blocks((1, 1, 1, size), torch.uint8, torch.contiguous_format).flatten()
        copy_together([_bytes_of(value) for value in values], begins, block.data_ptr())
        there = block.to(device, non_blocking=True)
        # One view each, and nothing else: threads wait for the interpreter's lock meanwhile.
        typed: dict[torch.dtype, Tensor] = {torch.uint8: there}
        for index, (value, begin) in enumerate(zip(values, begins, strict=True)):
            dtype = torch.uint8 if isinstance(value, np.ndarray) else value.dtype
            if dtype not in typed:
                typed[dtype] = there.view(dtype)
            strides = value.strides if isinstance(value, np.ndarray) else value.stride()
            own = typed[dtype].as_strided(value.shape, strides, begin // dtype.itemsize)
            image = leaf.value[index]
            if isinstance(image, Encoded):
                image.file.pixels, image.device = own, device
            else:
                leaf.value[index] = own
        return block


def _pixels_of(value: Any) -> np.ndarray | Tensor:
    """Return uint8 arrays and tensors, contiguous."""
    if isinstance(value, Encoded):
        value = value.file.pixels
    if isinstance(value, np.ndarray):
        own = np.ascontiguousarray(value)
        return own if own.dtype == np.uint8 else torch.from_numpy(own)
    return value.as_subclass(Tensor).contiguous()  # type: ignore[no-any-return]


def _bytes_of(value: np.ndarray | Tensor) -> np.ndarray:
    return value if isinstance(value, np.ndarray) else value.flatten().view(torch.uint8).numpy()


def _as_before(value: Any, before: Any) -> Any:
    """Return a label as it was before a batch made a tensor of it."""
    if not isinstance(value, Tensor) or isinstance(before, Tensor):
        return value
    array = value.numpy()
    return array if isinstance(before, np.ndarray) else type(before)(array[()])
