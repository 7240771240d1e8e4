"""Matrix suppression: against a reference, SOLOv2's matrices, by hand, and at random."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from hypothesis import given, settings
from hypothesis import strategies as st
from references import matrix_nms as reference
from torch import Tensor

from suppression.nms_cases import (
    BOXES,
    FLOATING,
    INTEGER,
    LAYOUTS,
    SCORES,
    disc_masks,
    distinct_scores,
    every_other,
    tied_scores,
)

NAN, INF = float("nan"), float("inf")

# Large masks take a minute under emulation.
EMULATED = visops.build_info()["cpu"] == "cuda_emulated"
METHODS = ("gaussian", "linear")


def as_array(tensor: Tensor) -> np.ndarray:
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def check(objects: Tensor, scores: Tensor, idxs: Tensor | None = None, **options: Any) -> None:
    keep, changed = visops.matrix_nms(objects, scores, idxs, **options)
    assert (keep.dtype, changed.dtype) == (torch.int64, scores.dtype)
    assert keep.is_contiguous()
    assert changed.is_contiguous()
    groups = None if idxs is None else idxs.tolist()
    expected = reference.new_scores(as_array(objects), as_array(scores), groups, **options)
    assert set(keep.tolist()) == set(expected)
    unit = max(1e-6, float(torch.finfo(scores.dtype).eps))
    for index, score in zip(keep.tolist(), changed.tolist(), strict=True):
        assert score == pytest.approx(expected[index], rel=unit, abs=1e-7)
    order = sorted(range(len(keep)), key=lambda i: (-changed[i].item(), keep[i].item()))
    assert order == list(range(len(keep)))


@pytest.mark.matrix
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", FLOATING + INTEGER, ids=str)
def test_boxes(dtype: torch.dtype, method: str) -> None:
    rng = np.random.default_rng(0)
    layouts = itertools.cycle(LAYOUTS.values())
    for kind, count in itertools.product(("clusters", "grid", "one"), (0, 1, 2, 33)):
        plain = torch.from_numpy(BOXES[kind](rng, count)).abs()
        boxes = next(layouts)((plain * 100 / (1e-9 + plain.amax(0))).to(dtype) if count else plain)
        scores = torch.from_numpy(rng.random(count)).to(dtype if dtype in FLOATING else torch.half)
        check(boxes, every_other(scores), method=method)
        idxs = torch.from_numpy(rng.integers(-1, 2, count))
        check(boxes, scores, idxs, method=method)


@pytest.mark.matrix
@pytest.mark.parametrize("score", FLOATING, ids=str)
@pytest.mark.parametrize("kind", BOXES)
def test_kinds_of_boxes_and_scores(kind: str, score: torch.dtype) -> None:
    rng = np.random.default_rng(1)
    methods = itertools.cycle((*METHODS, *METHODS[::-1]))
    for scores_of, dtype in itertools.product(SCORES.values(), (np.float32, np.float64)):
        method = next(methods)
        boxes = torch.from_numpy(BOXES[kind](rng, 45).astype(dtype))
        values = torch.from_numpy(scores_of(rng, 45)).nan_to_num(NAN, 7.0, -7.0)
        check(boxes, values.to(score), method=method)


@pytest.mark.parametrize(("count", "groups"), [(256, 1), (257, 1), (530, 2), (300, 300)])
def test_more_than_the_stack_holds(count: int, groups: int) -> None:
    """Around 256 boxes of a group, the most that a CPU kernel has on its stack."""
    rng = np.random.default_rng(2)
    boxes = torch.from_numpy(BOXES["clusters"](rng, count)).float()
    scores = torch.from_numpy(tied_scores(rng, count)).float()
    idxs = None if groups == 1 else torch.arange(count) % groups
    check(boxes, scores, idxs, method=METHODS[count % 2])


@pytest.mark.parametrize("sigma", [1e-3, 0.5, 2.0, 100.0])
def test_sigma(sigma: float) -> None:
    rng = np.random.default_rng(3)
    boxes = torch.from_numpy(BOXES["clusters"](rng, 60))
    check(boxes, torch.from_numpy(distinct_scores(rng, 60)), sigma=sigma)


MASK_LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": Tensor.contiguous,
    "columns": lambda m: m.mT.contiguous().mT,
    "last": lambda m: m.permute(1, 2, 0).contiguous().permute(2, 0, 1),
    "part": lambda m: torch.nn.functional.pad(m, (3, 5, 1, 2), value=1)[:, 1:-2, 3:-5],
    "every other": lambda m: m.repeat_interleave(2, 0)[::2],
}


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8], ids=str)
@pytest.mark.parametrize("layout", MASK_LAYOUTS)
def test_masks(layout: str, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(4)
    methods = itertools.cycle(METHODS)
    for count, height, width in ((0, 5, 5), (1, 8, 8), (20, 24, 37), (9, 1, 64), (9, 130, 1)):
        method = next(methods)
        masks = torch.from_numpy(disc_masks(rng, count, height, width))
        if dtype == torch.uint8:  # pixels that are not 0 are inside, whichever bit is set
            masks = masks * torch.from_numpy(2 ** rng.integers(0, 8, masks.shape)).to(dtype)
        scores = torch.from_numpy(distinct_scores(rng, count)).float()
        view = MASK_LAYOUTS[layout](masks.to(dtype))
        assert torch.equal(view, masks.to(dtype))
        check(view, scores, method=method)
        check(view, scores, torch.from_numpy(rng.integers(0, 2, count)), method=method)


@pytest.mark.parametrize(("height", "width"), [(0, 5), (5, 0), (0, 0)])
def test_masks_without_pixels(height: int, width: int) -> None:
    masks = torch.zeros(3, height, width, dtype=torch.bool)
    keep, changed = visops.matrix_nms(masks, torch.tensor([0.2, 0.9, 0.5]))
    assert keep.tolist() == [1, 2, 0]
    assert changed.tolist() == pytest.approx([0.9, 0.5, 0.2])


def test_large_masks_are_counted_exactly() -> None:
    """Long runs of full words, ends within words, and areas that float32 would round."""
    rng = np.random.default_rng(5)
    height = 100 if EMULATED else 4200
    masks = torch.zeros(6, height, 4100, dtype=torch.bool)
    flat = masks.flatten(1)
    for mask in flat:
        begin, end = np.sort(rng.integers(0, flat.shape[1], 2))
        mask[begin:end] = True
    flat[0] = True
    scores = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], dtype=torch.float64)
    keep, changed = visops.matrix_nms(masks, scores, torch.tensor([0, 0, 1, 1, 2, 2]))
    found = dict(zip(keep.tolist(), changed.tolist(), strict=True))
    for better, worse in ((0, 1), (2, 3), (4, 5)):
        inter = int((flat[better] & flat[worse]).sum())
        iou = inter / int((flat[better] | flat[worse]).sum())
        assert found[worse] == pytest.approx(
            scores[worse].item() * math.exp(-2 * iou**2), rel=1e-14
        )


def by_matrices(
    masks: Tensor, labels: Tensor, scores: Tensor, method: str, sigma: float = 2.0
) -> Tensor:
    """SOLOv2's matrices, for masks that come by falling score, as the paper's figure has them."""
    flat = masks.flatten(1).double()
    inter = flat @ flat.T
    union = flat.sum(1)[:, None] + flat.sum(1)[None] - inter
    same = (labels[:, None] == labels[None]).double()
    iou = (inter / union * same).triu(1)
    comp = iou.max(0)[0][:, None].expand_as(iou)
    if method == "gaussian":
        decay = torch.exp(-sigma * iou**2) / torch.exp(-sigma * comp**2)
    else:
        decay = (1 - iou) / (1 - comp)
    return scores * decay.min(0)[0]


@pytest.mark.parametrize("method", METHODS)
def test_solov2(method: Any) -> None:
    rng = np.random.default_rng(6)
    for _ in range(5):
        masks = torch.from_numpy(disc_masks(rng, 40))
        masks = masks.flatten(1).unique(dim=0).reshape(-1, 24, 37)  # theirs divides by 0
        masks = masks[masks.sum((1, 2)) > 0]
        masks = masks[torch.from_numpy(rng.permutation(len(masks)))]
        scores = torch.from_numpy(distinct_scores(rng, len(masks))).sort(descending=True)[0]
        labels = torch.from_numpy(rng.integers(0, 3, len(masks)))
        keep, changed = visops.matrix_nms(masks, scores, labels, method=method)
        expected = by_matrices(masks, labels, scores, method)
        torch.testing.assert_close(changed, expected[keep], rtol=1e-12, atol=1e-14)
        assert len(keep) == len(masks)


BASE = [0.0, 0.0, 10.0, 10.0]


def scores_of(boxes: Any, scores: Any, **options: Any) -> list[float]:
    tensors = torch.tensor(boxes, dtype=torch.float64), torch.tensor(scores, dtype=torch.float64)
    keep, changed = visops.matrix_nms(*tensors, **options)
    result = [NAN] * len(boxes)
    for index, score in zip(keep.tolist(), changed.tolist(), strict=True):
        result[index] = score
    return result


def test_an_overlapped_object_decays_others_by_less() -> None:
    half = [0.0, 0.0, 10.0, 5.0]
    quarter = [0.0, 0.0, 10.0, 2.5]
    found = scores_of([BASE, half, quarter], [0.9, 0.8, 0.7], method="linear")
    # 1/4 by the first, and (1 - 1/2) / (1 - 1/2) by the second.
    assert found == pytest.approx([0.9, 0.8 * 0.5, 0.7 * 0.75])


def test_a_copy_of_a_better_object_decays_nobody() -> None:
    """comp = 1: the second says nothing about the third, the first does."""
    third = [0.0, 0.0, 10.0, 5.0]
    found = scores_of([BASE, BASE, third], [0.9, 0.8, 0.7], method="linear")
    assert found == pytest.approx([0.9, 0.0, 0.35])
    found = scores_of([BASE, BASE, third], [0.9, 0.8, 0.7])
    assert found == pytest.approx([0.9, 0.8 * math.exp(-2), 0.7 * math.exp(-0.5)])


def test_equal_scores_go_by_index() -> None:
    found = scores_of([BASE, BASE], [0.5, 0.5], method="linear")
    assert found == [0.5, 0.0]
    assert math.copysign(1, found[1]) == 1
    boxes = torch.tensor([BASE, [20.0, 0, 30, 10], [40.0, 0, 50, 10]])
    assert visops.matrix_nms(boxes, torch.full((3,), 0.5))[0].tolist() == [0, 1, 2]


def test_min_score() -> None:
    apart = [BASE, [20.0, 0, 30, 10], [40.0, 0, 50, 10], [60.0, 0, 70, 10]]
    for dtype in FLOATING:  # compared in the scores' dtype: float32's 0.7 is less than 0.7
        scores = torch.tensor([0.7, 0.6, NAN, -0.5], dtype=dtype)
        keep, changed = visops.matrix_nms(torch.tensor(apart), scores, min_score=0.7)
        assert keep.tolist() == [0]
        assert changed.tolist() == scores[:1].tolist()
        assert visops.matrix_nms(torch.tensor(apart), scores)[0].tolist() == [0, 1]
    # Beyond what float16 holds: nothing is that good.
    scores = torch.full((4,), 60000.0, dtype=torch.half)
    assert len(visops.matrix_nms(torch.tensor(apart), scores, min_score=1e6)[0]) == 0
    # An object that falls below still decays worse ones.
    half = [0.0, 0.0, 10.0, 5.0]
    found = scores_of([BASE, BASE, half], [0.9, 0.8, 0.7], method="linear", min_score=0.3)
    assert found[0] == 0.9
    assert math.isnan(found[1])
    assert found[2] == pytest.approx(0.35)


def test_max_output() -> None:
    rng = np.random.default_rng(7)
    boxes = torch.from_numpy(BOXES["clusters"](rng, 50)).float()
    scores = torch.from_numpy(rng.random(50)).float()
    keep, changed = visops.matrix_nms(boxes, scores)
    for most in (0, 1, 7, 50, 1000):
        found = visops.matrix_nms(boxes, scores, max_output=most)
        assert torch.equal(found[0], keep[:most])
        assert torch.equal(found[1], changed[:most])


def test_groups() -> None:
    """Each as if it were alone, whatever its id."""
    rng = np.random.default_rng(8)
    boxes = torch.from_numpy(BOXES["clusters"](rng, 200)).float()
    scores = torch.from_numpy(rng.random(200)).float()
    for names, dtype in (
        ([-(2**62), 3, 2**62], torch.int64),
        ([0, 7, 255], torch.uint8),
        ([9, 40000, 65535], torch.uint16),
    ):
        idxs = torch.tensor(rng.choice(names, 200)).to(dtype)
        keep, changed = visops.matrix_nms(boxes, scores, idxs)
        for name in names:
            own = torch.tensor([i for i, n in enumerate(idxs.tolist()) if n == name])
            alone = visops.matrix_nms(boxes[own], scores[own])
            members = torch.isin(keep, own)
            assert torch.equal(keep[members], own[alone[0]])
            assert torch.equal(changed[members], alone[1])


few = settings(max_examples=6)
seeds = st.integers(0, 2**32 - 1)
KINDS = [kind for kind in BOXES if kind != "odd"]


@pytest.mark.parametrize("method", ["gaussian", "linear"])
@few
@given(seed=seeds)
def test_matrix_suppression_is_the_reference(method: Any, seed: int) -> None:
    for i in range(5):
        rng = np.random.default_rng([seed, i])
        count = int(rng.integers(0, 40))
        kind = KINDS[rng.integers(0, len(KINDS))]
        boxes = BOXES[kind](rng, count)
        scores = (distinct_scores, tied_scores)[rng.integers(0, 2)](rng, count)
        idxs = rng.integers(0, 3, count)
        sigma = float(rng.choice([0.1, 0.5, 2.0, 8.0]))
        keep, changed = visops.matrix_nms(boxes, scores, idxs, method=method, sigma=sigma)
        expected = reference.new_scores(boxes, scores, idxs.tolist(), method, sigma)
        assert set(keep.tolist()) == set(expected)
        wanted = [expected[i] for i in keep.tolist()]
        np.testing.assert_allclose(changed, wanted, rtol=1e-12, atol=1e-15)
        assert (changed <= scores[keep]).all()
        # A limit is a filter.
        least, most = float(rng.random()), int(rng.integers(0, 20))
        options = {"method": method, "sigma": sigma, "min_score": least, "max_output": most}
        limited = visops.matrix_nms(boxes, scores, idxs, **options)  # type: ignore[arg-type]
        enough = changed >= least
        assert limited[0].tolist() == keep[enough][:most].tolist()
        assert limited[1].tolist() == changed[enough][:most].tolist()
