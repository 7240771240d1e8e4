"""Bits, areas, boxes and overlaps of masks, to compare between kernels."""

from collections.abc import Iterator

import numpy as np
import torch
import visops

from masks.mask_cases import KINDS, SIZES


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Names and results of every kind of masks and overlap."""
    rng = np.random.default_rng(0)
    for height, width in (*SIZES, (70, 300), (9, 1100)):
        arrays = np.stack([make(rng, height, width) for make in KINDS.values()])
        masks = torch.from_numpy(arrays).to(device)
        name = f"{height}x{width}"
        packed = visops.pack_masks(masks)
        yield f"bits-{name}", packed.bits.cpu().numpy()
        yield f"unpacked-{name}", packed.unpack().cpu().numpy()
        yield f"areas-{name}", visops.mask_area(packed).cpu().numpy()
        yield f"boxes-{name}", visops.masks_to_boxes(packed).cpu().numpy()
        yield f"measured-{name}", visops.masks_to_boxes(masks).cpu().numpy()
        crowd = torch.arange(len(masks), device=device) % 3 == 0
        yield f"iou-{name}", visops.mask_iou(packed, masks).cpu().numpy()
        yield f"unpacked-iou-{name}", visops.mask_iou(masks, masks).cpu().numpy()
        yield f"ioa-{name}", visops.mask_iou(masks, packed, kind="ioa").cpu().numpy()
        yield f"crowd-{name}", visops.mask_iou(packed, packed, iscrowd=crowd).cpu().numpy()


def check(found: dict[str, np.ndarray]) -> None:
    """There are that many cases, and most masks have pixels in common."""
    assert len(found) > 70
    overlaps = [array for name, array in found.items() if name.startswith("iou")]
    assert np.mean(np.concatenate([o.ravel() for o in overlaps]) > 0) > 0.5
