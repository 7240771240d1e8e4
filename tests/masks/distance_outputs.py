"""Results of distance transforms, as bytes, to compare between kernels."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import visops

from masks.mask_cases import KINDS, SIZES

OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"metric": "taxicab"},
    {"metric": "chessboard"},
    {"spacing": (0.7, 1.9)},
)


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Names and results of every kind of masks, metric and spacing."""
    rng = np.random.default_rng(0)
    for (height, width), options in itertools.product((*SIZES, (40, 200)), OPTIONS):
        masks = torch.from_numpy(np.stack([make(rng, height, width) for make in KINDS.values()]))
        yield from both(f"{height}x{width}-{options}", masks.to(device), **options)
    # Far from everything: kernels that switch to other algorithms do so here.
    sparse = torch.ones(3, 2, 1200, dtype=torch.bool)
    sparse[0, 1, ::900] = sparse[1, 0, 5] = False
    for options in OPTIONS:
        yield from both(f"sparse-{options}", sparse.to(device), **options)
    # Squares that need 64 bits.
    yield from both("wide", torch.nn.functional.pad(sparse, (0, 31_800), value=True).to(device))
    volume = torch.from_numpy(rng.random((2, 9, 20, 70)) < 0.97).to(device)
    for options in ({}, {"metric": "taxicab"}, {"metric": "chessboard"}, {"spacing": (3, 1, 0.5)}):
        yield from both(f"volume-{options}", volume, dims=3, **options)
        far = torch.ones(1, 90, 11, 6, dtype=torch.bool)
        far[0, [3, 80], [2, 9], 4] = False
        yield from both(f"far-volume-{options}", far.to(device), dims=3, **options)
    # Large enough that threads share the rows of a mask.
    large = torch.from_numpy(rng.random((600, 300)) < 0.99).to(device)
    yield from both("large", large)


def both(name: str, masks: torch.Tensor, **options: object) -> Iterator[tuple[str, np.ndarray]]:
    """Distances alone, and with indices."""
    alone = visops.distance_transform(masks, **options)  # type: ignore[call-overload]
    yield f"alone-{name}", alone.cpu().numpy()
    found, positions = visops.distance_transform(  # type: ignore[call-overload]
        masks, return_indices=True, **options
    )
    yield f"distances-{name}", found.cpu().numpy()
    yield f"indices-{name}", positions.cpu().numpy()


def check(found: dict[str, np.ndarray]) -> None:
    """There are that many cases; most have distances beyond 1, some are infinite."""
    assert len(found) > 100
    distances = [array for name, array in found.items() if name.startswith("distances")]
    assert np.mean([np.nan_to_num(array, posinf=0).max() > 1 for array in distances]) > 0.8
    assert any(np.isinf(array).any() for array in distances)
