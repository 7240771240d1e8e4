"""Masks kept and merged, their boundaries and stability, to compare between kernels."""

from collections.abc import Iterator

import numpy as np
import torch
import visops

from masks.mask_cases import KINDS, SIZES
from masks.select_cases import crowded, scores_of


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Names and results of all thresholds."""
    for count, size in ((5, (9, 31)), (40, (13, 70)), (70, (30, 200)), (150, (9, 64))):
        masks = torch.from_numpy(crowded(count, *size)).to(device)
        scores = scores_of(count).to(device)
        ids = torch.arange(count, device=device) % 3
        for threshold in (0.0, 0.3, 0.6, 1.0):
            name = f"{count}-{size}-{threshold}"
            kept = visops.mask_nms(masks, scores, threshold)
            yield f"kept-{name}", kept.cpu().numpy()
            groups = visops.mask_nms(masks, scores, threshold, idxs=ids, score_threshold=0.2)
            yield f"groups-{name}", groups.cpu().numpy()
            labels, of_masks = visops.merge_masks(masks, scores, overlap_threshold=threshold)
            yield f"labels-{name}", labels.cpu().numpy()
            yield f"ids-{name}", of_masks.cpu().numpy()
        for ratio in (0.0, 0.12) if count < 100 else (0.06,):
            overlaps = visops.mask_iou(masks, masks, kind="boundary", dilation_ratio=ratio)
            yield f"boundary-{count}-{size}-{ratio}", overlaps.cpu().numpy()
    rng = np.random.default_rng(0)
    for height, width in SIZES:
        made = np.stack([make(rng, height, width) for make in KINDS.values()])
        bits = visops.pack_masks(torch.from_numpy(made).to(device)).bits
        for ratio in (0.02, 0.3):
            outline = torch.ops.visops.mask_boundaries(bits, width, ratio)
            yield f"outline-{height}x{width}-{ratio}", outline.cpu().numpy()
        logits = torch.from_numpy(rng.normal(size=made.shape)).to(device)
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
            stable = visops.stability_score(logits.to(dtype), 0.1, 0.5)
            yield f"stability-{height}x{width}-{dtype}", stable.cpu().numpy()


def check(found: dict[str, np.ndarray]) -> None:
    """There are that many cases; masks are dropped, and several drawn."""
    assert len(found) > 100
    kept = [len(array) for name, array in found.items() if name.startswith("kept-70")]
    assert 1 < min(kept) < max(kept)
    drawn = [array.max() for name, array in found.items() if name.startswith("ids")]
    assert max(drawn) > 5
