"""Very long lists, which are cut into tiles: NOTE [ Tiles ] in csrc/cpu/suppression/nms_kernel.cpp.

A list with a limit is not cut, so a limit that changes nothing gives what to expect.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import visops
from torch import Tensor

from suppression.nms_cases import BOXES, Rng, distinct_scores, from_corners

torchvision = pytest.importorskip("torchvision")

COUNT = 36_000


def spread(rng: Rng, count: int) -> np.ndarray:
    """Dense, and small compared with a tile."""
    side = 9.0 * count**0.5
    return from_corners(rng.uniform(0, side, (count, 2)), rng.uniform(5, 65, (count, 2)))


def long_and_short(rng: Rng, count: int) -> np.ndarray:
    """Wide and high boxes, which look further along one axis."""
    boxes = spread(rng, count)
    stretch = np.where(rng.random((count, 1)) < 0.5, [[1.0, 0.1]], [[0.1, 1.0]])
    return from_corners(boxes[:, :2], (boxes[:, 2:] - boxes[:, :2]) * stretch * 2)


def of_many_sizes(rng: Rng, count: int) -> np.ndarray:
    boxes = spread(rng, count)
    extent = (boxes[:, 2:] - boxes[:, :2]) * 2.0 ** rng.uniform(-8, 1, (count, 1))
    extent[:3] *= 300  # larger than tiles
    return from_corners(boxes[:, :2], extent)


def on_a_line(rng: Rng, count: int) -> np.ndarray:
    boxes = spread(rng, count) * 30
    boxes[:, 2:] = boxes[:, :2] + rng.uniform(20, 60, (count, 2))
    boxes[:, 1], boxes[:, 3] = 0, 40
    return boxes


def lonely_positions(rng: Rng, count: int) -> np.ndarray:
    """Tiles with everything, with a few boxes and with none."""
    boxes = spread(rng, count)
    boxes[: count // 200] += rng.uniform(-1, 1, (count // 200, 2)).repeat(2, 0).reshape(-1, 4) * 9e3
    return boxes


def with_odd_ones(rng: Rng, count: int) -> np.ndarray:
    """A tenth is inverted, flat, infinite or NaN."""
    boxes = spread(rng, count)
    boxes[: count // 10] = BOXES["odd"](rng, count // 10)
    return boxes[rng.permutation(count)]


def whole_numbers(rng: Rng, count: int) -> np.ndarray:
    """Centres on the edges of tiles, and many equal boxes."""
    corner = rng.integers(0, int(5 * count**0.5), (count, 2)) * 2.0
    return from_corners(corner, rng.integers(1, 6, (count, 2)) * 4.0)


MAPS: dict[str, Callable[[Rng, int], np.ndarray]] = {
    f.__name__: f
    for f in (
        spread,
        long_and_short,
        of_many_sizes,
        on_a_line,
        lonely_positions,
        with_odd_ones,
        whole_numbers,
    )
}


def uncut(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    return visops.nms(boxes, scores, iou_threshold, max_output=len(boxes))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("kind", MAPS)
def test_tiles_change_nothing(kind: str, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(0)
    boxes = torch.from_numpy(MAPS[kind](rng, COUNT)).to(dtype)
    scores = torch.from_numpy(rng.integers(0, 9000, COUNT) / 9000)
    for threshold in (0.0, 0.1, 0.3, 0.5, 0.8, 1.0):
        kept = visops.nms(boxes, scores, threshold)
        assert torch.equal(kept, uncut(boxes, scores, threshold))
        assert 0 < len(kept) <= COUNT


@pytest.mark.parametrize("kind", ["spread", "with_odd_ones"])
def test_torchvisions_answer(kind: str) -> None:
    rng = np.random.default_rng(1)
    boxes = torch.from_numpy(MAPS[kind](rng, COUNT)).float()
    scores = torch.from_numpy(distinct_scores(rng, COUNT))
    kept = visops.nms(boxes, scores, 0.5)
    assert torch.equal(kept, torchvision.ops.nms(boxes, scores.float(), 0.5))
    assert COUNT / 4 < len(kept) < COUNT * 0.95


@pytest.mark.parametrize("order", ["falling", "rising", "there_and_back", "shuffled"])
@pytest.mark.parametrize("axis", [0, 1])
def test_chains_through_all_tiles(order: str, axis: int) -> None:
    """Each box overlaps the next two, so one decision can depend on all before it."""
    at = torch.arange(COUNT)
    rank = {
        "falling": at.flip(0),
        "rising": at,
        "there_and_back": torch.minimum(2 * at, 2 * (COUNT - at) - 1),
        "shuffled": torch.from_numpy(np.random.default_rng(2).permutation(COUNT)),
    }[order]
    boxes = torch.zeros(COUNT, 4)
    boxes[:, axis] = 3.0 * at
    boxes[:, 2 + axis] = 3.0 * at + 10
    boxes[:, 3 - axis] = 10
    kept = visops.nms(boxes, rank.double(), 0.2)
    assert torch.equal(kept, uncut(boxes, rank.double(), 0.2))
    if order == "falling":
        assert torch.equal(kept, at[::3])


def test_very_long_segments_among_others() -> None:
    """One that is cut, one that can't be (a pile), one of boxes too small, and short ones."""
    rng = np.random.default_rng(3)
    counts = [COUNT, 500, 40_000, 3, 33_000, 10]
    kinds = [spread, BOXES["clusters"], BOXES["pile"], BOXES["uniform"], spread, BOXES["uniform"]]
    boxes = [torch.from_numpy(k(rng, n)) for k, n in zip(kinds, counts, strict=True)]
    boxes[4] *= 1e-143
    scores = [torch.from_numpy(distinct_scores(rng, n)) for n in counts]
    all_boxes, all_scores = torch.cat(boxes), torch.cat(scores)
    ids = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    mixed = torch.from_numpy(rng.permutation(len(ids)))
    found = visops.batched_nms(all_boxes[mixed], all_scores[mixed], ids[mixed], 0.5)
    of_all = mixed[found]
    for i, first in enumerate(np.cumsum([0, *counts[:-1]]).tolist()):
        own = of_all[ids[of_all] == i] - first
        assert torch.equal(own, uncut(boxes[i], scores[i], 0.5))


def test_threads_change_nothing() -> None:
    rng = np.random.default_rng(4)
    boxes = torch.from_numpy(spread(rng, 150_000)).float()
    scores = torch.from_numpy(distinct_scores(rng, len(boxes)))
    expected = uncut(boxes, scores, 0.4)
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            assert torch.equal(visops.nms(boxes, scores, 0.4), expected)
    finally:
        torch.set_num_threads(threads)


def test_a_limit_and_a_score_threshold() -> None:
    rng = np.random.default_rng(5)
    boxes = torch.from_numpy(spread(rng, 80_000)).float()
    scores = torch.from_numpy(distinct_scores(rng, len(boxes)))
    kept = visops.nms(boxes, scores, 0.5)
    assert torch.equal(visops.nms(boxes, scores, 0.5, max_output=700), kept[:700])
    level = scores.median().item()
    above = visops.nms(boxes, scores, 0.5, score_threshold=level)
    assert torch.equal(above, kept[scores[kept] > level])
