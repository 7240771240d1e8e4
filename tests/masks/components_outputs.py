"""Results of connected components, as bytes, to compare between kernels."""

import itertools
from collections.abc import Iterator

import numpy as np
import torch
import visops

from masks.mask_cases import KINDS, SIZES, label_map


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Names and results of every kind of masks and label maps."""
    rng = np.random.default_rng(0)
    for (height, width), connectivity in itertools.product((*SIZES, (40, 200)), (4, 8)):
        masks = np.stack([make(rng, height, width) for make in KINDS.values()])
        tensor = torch.from_numpy(masks).to(device)
        name = f"{height}x{width}-{connectivity}"
        yield from labelled(name, tensor, connectivity)
        for mode in ("holes", "islands"):
            cleaned, changed = visops.remove_small_regions(
                tensor, 6, mode, connectivity=connectivity
            )
            yield f"{mode}-{name}", cleaned.cpu().numpy()
            yield f"changed-{mode}-{name}", changed.cpu().numpy()
        for dtype in (torch.uint8, torch.int16, torch.int32, torch.int64):
            labels = label_map(rng, height, width, dtype).to(device)
            yield from labelled(f"{dtype}-{name}", labels, connectivity)
    # Large enough that threads share the rows of a mask.
    large = torch.from_numpy(rng.random((701, 300)) < 0.6).to(device)
    for connectivity in (4, 8):
        yield from labelled(f"large-{connectivity}", large, connectivity)


def labelled(name: str, masks: torch.Tensor, connectivity: int) -> Iterator[tuple[str, np.ndarray]]:
    """Labels and statistics."""
    labels, stats = visops.connected_components(masks, connectivity=connectivity, return_stats=True)
    yield f"labels-{name}", labels.cpu().numpy()
    for field, value in stats._asdict().items():
        yield f"{field}-{name}", value.cpu().numpy()


def check(found: dict[str, np.ndarray]) -> None:
    """There are that many cases, most with several components."""
    assert len(found) > 500
    counts = [array.max() for name, array in found.items() if name.startswith("counts")]
    assert np.mean(np.array(counts) > 1) > 0.8
