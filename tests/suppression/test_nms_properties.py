"""Properties of suppression over random problems, very long lists, NaN scores."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import visops
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import use_slot
from references import nms as reference
from threads import torch_threads
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from suppression.nms_cases import BOXES, SCORES, THRESHOLDS, Rng, distinct_scores, from_corners

torchvision = pytest.importorskip("torchvision")

# A call takes milliseconds under emulation.
EMULATED = visops.build_info()["cpu"] == "cuda_emulated"
few = settings(max_examples=6)
seeds = st.integers(0, 2**32 - 1)


@dataclass
class Problem:
    boxes: Tensor
    scores: Tensor
    threshold: float
    kind: str
    rng: np.random.Generator

    def nms(self, order: Any = slice(None), **limits: Any) -> Tensor:
        return visops.nms(self.boxes[order], self.scores[order], self.threshold, **limits)


def problems(
    seed: int, count: int, largest: int = 40, score: Callable[..., np.ndarray] | None = None
) -> Iterator[Problem]:
    """Every kind of boxes and scores, and every threshold, in both dtypes."""
    kinds, scores = list(BOXES), list(SCORES.values())
    for i in range(max(1, count // 20) if EMULATED else count):
        rng = np.random.default_rng([seed, i])
        kind = kinds[rng.integers(0, len(kinds))]
        size = int(rng.integers(0, largest))
        dtype = (np.float32, np.float64)[rng.integers(0, 2)]
        values = score or scores[rng.integers(0, len(scores))]
        yield Problem(
            torch.from_numpy(BOXES[kind](rng, size).astype(dtype)),
            torch.from_numpy(values(rng, size).astype(dtype)),
            THRESHOLDS[rng.integers(0, len(THRESHOLDS))],
            kind,
            rng,
        )


@few
@given(seeds)
def test_the_reference_is_torchvision(seed: int) -> None:
    for p in problems(seed, 20, largest=25):
        expected = torchvision.ops.nms(p.boxes, p.scores, p.threshold).tolist()
        assert reference.nms(p.boxes.numpy(), p.scores.numpy(), p.threshold) == expected


@few
@given(seeds)
def test_torchvision(seed: int) -> None:
    for p in problems(seed, 250):
        assert torch.equal(p.nms(), torchvision.ops.nms(p.boxes, p.scores, p.threshold))


@few
@given(seeds)
def test_torchvision_on_larger_problems(seed: int) -> None:
    for p in problems(seed, 20, largest=1200):
        assert torch.equal(p.nms(), torchvision.ops.nms(p.boxes, p.scores, p.threshold))


coordinates = st.one_of(
    st.floats(width=32),  # of every magnitude, infinite and NaN
    st.sampled_from([0.0, -0.0, 1.0, 2.0, 3.0, 1e-38, -1e-45, 1e19, -3e38, float("inf")]),
)


@settings(max_examples=20 if EMULATED else 100)
@given(
    st.lists(st.tuples(*[coordinates] * 4), max_size=12),
    st.sampled_from(THRESHOLDS),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_anything_goes(boxes: Any, threshold: float, dtype: torch.dtype) -> None:
    tensor = torch.tensor(boxes, dtype=dtype).reshape(-1, 4)
    scores = torch.arange(len(boxes)).to(dtype)
    expected = torchvision.ops.nms(tensor, scores, threshold)
    assert torch.equal(visops.nms(tensor, scores, threshold), expected)


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
    for count in (1, 2, 5):
        with torch_threads(count):
            assert torch.equal(visops.nms(boxes, scores, 0.4), expected)


def test_a_limit_and_a_score_threshold() -> None:
    rng = np.random.default_rng(5)
    boxes = torch.from_numpy(spread(rng, 80_000)).float()
    scores = torch.from_numpy(distinct_scores(rng, len(boxes)))
    kept = visops.nms(boxes, scores, 0.5)
    assert torch.equal(visops.nms(boxes, scores, 0.5, max_output=700), kept[:700])
    level = scores.median().item()
    above = visops.nms(boxes, scores, 0.5, score_threshold=level)
    assert torch.equal(above, kept[scores[kept] > level])


# Just more than are compared with each other instead, under emulation.
BOXES_4 = torch.tensor([[0.0, 0, 4, 4], [1, 1, 5, 5], [9, 9, 12, 12], [0, 0, 4, 5]])
FEW_BOXES = BOXES_4.repeat(76, 1)
ROTATED = torch.cat([FEW_BOXES + 1, torch.zeros(304, 1)], 1)
FEW_SCORES = torch.tensor([0.5, -torch.nan, 0.25, torch.nan]).repeat(76)
IDS = torch.tensor([0, 1, 0, 1]).repeat(76)


class Sorted(TorchDispatchMode):
    """Collects what a kernel sorts."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[Tensor] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func.namespace == "visops":
            with self:  # for the calls that the kernel makes
                keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
                return func.redispatch(keys, *args, **(kwargs or {}))
        if func is torch.ops.aten.sort.stable and args[0].is_floating_point():
            self.keys.append(args[0])
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "call",
    [
        lambda: visops.nms(FEW_BOXES, FEW_SCORES, 0.5),
        lambda: visops.batched_nms(FEW_BOXES, FEW_SCORES, IDS, 0.5),
        lambda: visops.nms_padded(FEW_BOXES[None], FEW_SCORES[None], 0.5, 3),
        lambda: visops.nms_rotated(ROTATED, FEW_SCORES, 0.5),
        lambda: visops.nms_match(FEW_BOXES, FEW_SCORES, 0.5),
    ],
    ids=["nms", "batched_nms", "nms_padded", "nms_rotated", "nms_match"],
)
def test_sorted_scores_have_one_nan(call: Callable[[], Any]) -> None:
    assert FEW_SCORES[:4].signbit().tolist() == [False, True, False, False]
    with use_slot("cuda_emulated"), Sorted() as found:
        call()
    assert found.keys
    for keys in found.keys:
        assert keys.isnan().any()
        assert not (keys.isnan() & keys.signbit()).any()
