"""Properties of non-maximum suppression, over thousands of random problems.

Most tests draw a seed and go through many problems that NumPy makes of it, which takes less time
for each than hypothesis does.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import visops
from hypothesis import given, settings
from hypothesis import strategies as st
from references import nms as reference
from torch import Tensor

from suppression.nms_cases import BOXES, SCORES, THRESHOLDS, distinct_scores

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


@few
@given(seeds)
def test_limits_are_filters(seed: int) -> None:
    for p in problems(seed, 40):
        least = float(p.rng.choice([-0.5, 0.0, 0.5, 0.75]))
        candidates = (p.scores > least).nonzero()[:, 0]
        expected = candidates[p.nms(candidates)]
        most = int(p.rng.integers(0, 12))
        assert torch.equal(p.nms(score_threshold=least), expected)
        assert torch.equal(p.nms(max_output=most), p.nms()[:most])
        assert torch.equal(p.nms(max_output=most, score_threshold=least), expected[:most])


@few
@given(seeds)
def test_what_is_kept_is_kept_again(seed: int) -> None:
    for p in problems(seed, 50):
        kept = p.nms()
        assert torch.equal(p.nms(kept), torch.arange(len(kept)))
        # Dropped boxes don't matter.
        among = kept.sort()[0]
        assert torch.equal(among[p.nms(among)], kept)


@few
@given(seeds)
def test_order_does_not_matter_if_scores_differ(seed: int) -> None:
    for p in problems(seed, 50, score=distinct_scores):
        order = torch.from_numpy(p.rng.permutation(len(p.scores)))
        assert torch.equal(order[p.nms(order)], p.nms())


@few
@given(seeds)
def test_the_definition(seed: int) -> None:
    """Two kept boxes never overlap by more than the threshold; a dropped and a better one do."""
    for p in problems(seed, 10, largest=25, score=distinct_scores):
        boxes, kept = p.boxes.numpy(), p.nms().tolist()
        with np.errstate(all="ignore"):
            over = [[float(reference.iou(a, b)) > p.threshold for b in boxes] for a in boxes]
        assert p.scores[kept].tolist() == sorted(p.scores[kept].tolist(), reverse=True)
        assert not any(over[a][b] for a in kept for b in kept if a != b)
        for box in set(range(len(boxes))) - set(kept):
            assert any(over[a][box] and p.scores[a] > p.scores[box] for a in kept)


SYMMETRIES: dict[str, Callable[[Tensor], Tensor]] = {
    "x and y": lambda b: b[:, [1, 0, 3, 2]],
    "left and right": lambda b: b[:, [2, 1, 0, 3]] * torch.tensor([-1.0, 1, -1, 1], dtype=b.dtype),
    "up and down": lambda b: b[:, [0, 3, 2, 1]] * torch.tensor([1.0, -1, 1, -1], dtype=b.dtype),
    "twice as large": lambda b: b * 2,
    "a 16th": lambda b: b / 16,
}


@few
@given(seeds, st.sampled_from(list(SYMMETRIES)))
def test_symmetries(seed: int, name: str) -> None:
    for p in problems(seed, 30, largest=80):
        moved = SYMMETRIES[name](p.boxes)
        assert torch.equal(visops.nms(moved, p.scores, p.threshold), p.nms())


@few
@given(seeds)
def test_groups_are_independent(seed: int) -> None:
    for p in problems(seed, 20, largest=80):
        names = p.rng.integers(-(2**63), 2**63 - 1, p.rng.integers(1, 6))
        idxs = torch.from_numpy(p.rng.choice(names, len(p.scores)))
        found = visops.batched_nms(p.boxes, p.scores, idxs, p.threshold)
        for name in idxs.unique():
            own = (idxs == name).nonzero()[:, 0]
            assert torch.equal(found[idxs[found] == name], own[p.nms(own)])
        assert torch.equal(found, found[p.scores[found].sort(descending=True, stable=True)[1]])
        one = torch.full_like(idxs, -3)
        assert torch.equal(visops.batched_nms(p.boxes, p.scores, one, p.threshold), p.nms())
        other = torch.arange(len(idxs))
        everything = visops.batched_nms(p.boxes, p.scores, other, p.threshold)
        assert torch.equal(everything, p.scores.sort(descending=True, stable=True)[1])


@few
@given(seeds)
def test_batches_are_loops(seed: int) -> None:
    for p in problems(seed, 12, largest=50):
        classes, most = int(p.rng.integers(1, 5)), int(p.rng.integers(0, 20))
        least = float(p.rng.choice([-2.0, 0.0, 0.6]))
        own = torch.stack([p.scores[p.rng.permutation(len(p.scores))] for _ in range(classes)], 1)
        boxes, scores = torch.stack([p.boxes, p.boxes.flip(0)]), torch.stack([own, own])
        limits: dict[str, Any] = {"max_output": most, "score_threshold": least}
        rows = visops.batched_nms(boxes, scores, None, p.threshold, **limits)
        for image in range(2):
            flat = scores[image].T.reshape(-1)
            idxs = torch.arange(classes).repeat_interleave(len(p.scores))
            repeated = boxes[image].repeat(classes, 1)
            found = visops.batched_nms(repeated, flat, idxs, p.threshold, **limits)
            expected = torch.stack([idxs[found], found % max(len(own), 1)], 1)
            assert torch.equal(rows[rows[:, 0] == image][:, 1:], expected)
        # Each class as an image of its own.
        images = boxes.repeat_interleave(classes, 0)
        values = scores.mT.reshape(2 * classes, -1)
        indices, count = visops.nms_padded(images, values, p.threshold, most, score_threshold=least)
        for i in range(2 * classes):
            alone = visops.nms(images[i], values[i], p.threshold, **limits)
            assert count[i] == len(alone)
            assert torch.equal(indices[i, : len(alone)], alone)
            assert (indices[i, len(alone) :] == -1).all()


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
