"""Results of matrix suppression, as bytes, to compare between kernels."""

import itertools
from collections.abc import Iterator

import numpy as np
import torch
import visops

from suppression.nms_cases import BOXES, FLOATING, INTEGER, LAYOUTS, SCORES

SIZES = (1, 17, 270)


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Names and results of every kind of boxes, dtype and method, and of masks."""
    rng = np.random.default_rng(0)
    layouts, scores_of = itertools.cycle(LAYOUTS.values()), itertools.cycle(SCORES.values())
    score_dtypes = itertools.cycle(FLOATING)
    for (kind, boxes_of), dtype in itertools.product(BOXES.items(), FLOATING + INTEGER):
        if kind == "odd" and dtype in INTEGER:
            continue  # NaN is no integer
        for size in SIZES:
            plain = torch.from_numpy(boxes_of(rng, size))
            if dtype in INTEGER:  # within int8
                plain = plain.abs().mul(100 / (1e-9 + float(plain.abs().max())))
            boxes = next(layouts)(plain.to(dtype)).to(device)
            scores = torch.from_numpy(next(scores_of)(rng, size)).abs().to(next(score_dtypes))
            idxs = torch.from_numpy(rng.integers(-2, 2, size)).to(device)
            yield from both(f"{kind}-{dtype}-{size}", boxes, scores.to(device), idxs)
    for height, width in ((1, 1), (24, 37), (64, 130)):
        corner = torch.from_numpy(rng.random((40, 2, 1, 1))) * 0.8
        y = torch.arange(height)[None, :, None] / height
        x = torch.arange(width)[None, None] / width
        masks = (y >= corner[:, 0]) & (x >= corner[:, 1]) & (y + x < 1.4)
        for layout in (masks, masks.mT.contiguous().mT):
            scores = torch.from_numpy(next(scores_of)(rng, 40)).abs().to(next(score_dtypes))
            idxs = torch.from_numpy(rng.integers(0, 2, 40)).to(device)
            name = f"masks-{height}-{width}-{layout.is_contiguous()}"
            yield from both(name, layout.to(device), scores.to(device), idxs)


def both(
    name: str, objects: torch.Tensor, scores: torch.Tensor, idxs: torch.Tensor
) -> Iterator[tuple[str, np.ndarray]]:
    """Both methods, with and without groups."""
    options = itertools.product(("gaussian", "linear"), (None, idxs))
    for i, (method, groups) in enumerate(options):
        keep, changed = visops.matrix_nms(objects, scores, groups, method=method, sigma=1.5)
        yield f"keep-{name}-{i}", keep.cpu().numpy()
        # The bits themselves: NaN equals NaN, and 0 differs from -0.
        yield f"scores-{name}-{i}", changed.cpu().view(torch.uint8).numpy()


def check(found: dict[str, np.ndarray]) -> None:
    """There are that many cases, and most have results."""
    assert len(found) > 500
    assert np.mean([v.size > 0 for v in found.values()]) > 0.7
