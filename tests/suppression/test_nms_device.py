"""Greedy suppression by CUDA's kernels under emulation, against the CPU's.

A warp decides a candidate, by 128 earlier ones at a time. Up to 300 candidates of an image are
compared with each other, more are sorted, and those without groups also by place.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import visops
from kernels import SLOTS, take_launches, use_schedule, use_slot
from torch import Tensor

pytestmark = pytest.mark.skipif("cuda_emulated" not in SLOTS, reason="needs a test build")

batched_nms: Any = visops.batched_nms


def assert_cuda_agrees(function: Callable[..., Any], *arguments: Any, **options: Any) -> Tensor:
    """Returns the result."""
    with use_slot("default"):
        expected = function(*arguments, **options)
    with use_slot("cuda_emulated"), use_schedule(3):
        found: Any = function(*arguments, **options)
    if isinstance(expected, tuple):
        assert all(map(torch.equal, found, expected))
        return found[0]
    assert torch.equal(found, expected)
    assert found.stride() == expected.stride()
    return found


def chain(count: int, length: float) -> Tensor:
    """Each box overlaps the ones after it that begin within `length`."""
    at = torch.arange(count).float()
    return torch.stack([at, torch.zeros(count), at + length, torch.ones(count)], 1)


def clusters(count: int, centres: int, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    of_box = torch.randint(centres, (count,))
    corner = (torch.rand(centres, 2) * 300)[of_box] + torch.randn(count, 2) * 6
    return torch.cat([corner, corner + 30 + 5 * torch.rand(count, 2)], 1)


@pytest.mark.parametrize("count", [1, 2, 3, 31, 33, 127, 128, 129, 130, 257, 300, 301, 700])
@pytest.mark.parametrize("length", [1.5, 3.0, 40.0])
def test_chains_of_overlaps(count: int, length: float) -> None:
    """Every decision depends on the one before, from warp to warp."""
    boxes = chain(count, length)
    falling = torch.linspace(1, 0, count)
    kept = assert_cuda_agrees(visops.nms, boxes, falling, 0.2)
    assert_cuda_agrees(visops.nms, boxes, falling.flip(0), 0.2)
    if length == 1.5:  # each overlaps the next one only
        assert kept.tolist() == list(range(0, count, 2))


@pytest.mark.parametrize("is_shuffled", [False, True])
@pytest.mark.parametrize("by_place", [False, True])
def test_a_chain_of_ten_thousand(is_shuffled: bool, by_place: bool) -> None:
    """The warps wait for each other all the way, or at random places."""
    boxes = chain(10_000, 1.5)
    scores = torch.linspace(1, 0, 10_000)
    if is_shuffled:
        torch.manual_seed(0)
        scores = scores[torch.randperm(10_000)]
    group = torch.zeros(10_000, dtype=torch.int64)  # then places aren't looked at
    ids = () if by_place else (group,)
    nms = visops.nms if by_place else batched_nms
    assert len(assert_cuda_agrees(nms, boxes, scores, *ids, 0.2)) >= 3333


def with_inert(boxes: Tensor) -> Tensor:
    """Every seventh box overlaps nothing."""
    boxes = boxes.clone()
    for first, value in ((0, torch.nan), (7, torch.inf), (14, -torch.inf)):
        boxes[first::21, first % 4] = value
    boxes[5::35, 2:] = boxes[5::35, :2]
    return boxes


@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_boxes_by_place(spread: float) -> None:
    """Several runs of 1,024 and levels; images that begin within them; candidates of a list."""
    boxes = with_inert(clusters(2500, 9) * spread)
    boxes[:900, :2] -= 5000 * spread  # negative, and large
    boxes[:900, 2:] = boxes[:900, :2] + 40
    scores = (torch.rand(2500) * 900).round()  # many are equal
    for threshold in (0.0, 0.4, 0.9):
        assert_cuda_agrees(visops.nms, boxes, scores, threshold)
    assert_cuda_agrees(visops.nms, boxes.double(), scores, 0.4, max_output=70)
    assert_cuda_agrees(visops.nms, boxes, scores, 0.4, score_threshold=450.0)
    images, rows = boxes[:2442].reshape(3, 814, 4), scores[:2442].reshape(3, 814)
    for limit in (None, 50):
        assert_cuda_agrees(batched_nms, images, rows, None, 0.4, max_output=limit)
    assert_cuda_agrees(visops.nms_padded, images, rows, 0.4, 60)


@pytest.mark.parametrize("length", [0.5, 40.0])
def test_turned_boxes_by_place(length: float) -> None:
    boxes = with_inert(clusters(1100, 9))
    boxes[:, 2:] = torch.rand(1100, 2) * length + 5
    boxes = torch.cat([boxes, torch.rand(1100, 1) * 3], 1)
    for threshold in (0.0, 0.4):
        assert_cuda_agrees(visops.nms_rotated, boxes, torch.rand(1100), threshold)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32])
def test_boxes_that_touch_share_nothing(dtype: torch.dtype) -> None:
    """Also where all of them meet, at the lowest threshold and the highest."""
    column, row = torch.arange(20).repeat(20), torch.arange(20).repeat_interleave(20)
    boxes = torch.stack([column, row, column + 1, row + 1], 1).to(dtype)
    scores = torch.rand(400)
    assert len(assert_cuda_agrees(visops.nms, boxes, scores, 0.0)) == 400
    boxes[:, 2:] += 1  # now neighbours share a part
    for threshold in (0.0, 1 / 7, 0.5, 1.0):
        assert_cuda_agrees(visops.nms, boxes, scores, threshold)


@pytest.mark.parametrize(("few", "many"), [(20, 300), (301, 3000)])
@pytest.mark.parametrize("length", [1.5, 40.0])
def test_launches_do_not_grow(few: int, many: int, length: float) -> None:
    """However many boxes there are, and however long the chain."""

    def launches(count: int) -> int:
        with use_slot("cuda_emulated"):
            take_launches()
            visops.nms(chain(count, length), torch.linspace(1, 0, count), 0.2)
            return take_launches()

    assert 0 < launches(few) == launches(many)


@pytest.mark.parametrize("count", [256, 300, 800])
@pytest.mark.parametrize("limit", [0, 1, 33, 100, None])
def test_equal_boxes_and_equal_scores(count: int, limit: int | None) -> None:
    boxes = torch.tensor([[1.0, 2, 5, 9]]).repeat(count, 1)
    kept = assert_cuda_agrees(visops.nms, boxes, torch.zeros(count), 0.5, max_output=limit)
    assert kept.tolist() == ([] if limit == 0 else [0])
    kept = assert_cuda_agrees(visops.nms, boxes, torch.zeros(count), 1.0, max_output=limit)
    assert kept.tolist() == list(range(count if limit is None else min(limit, count)))


@pytest.mark.parametrize("ids", [1, 2, 7, 100, 600])
@pytest.mark.parametrize("count", [250, 300, 700])
def test_groups_that_begin_within_32_candidates(count: int, ids: int) -> None:
    """Most begin within a word of decisions; each has a limit of its own."""
    boxes, scores = clusters(count, 5), torch.rand(count)
    group = (torch.rand(count) ** 3 * ids).long() - 3  # the first ones are long
    for limit in (None, 0, 1, 20):
        assert_cuda_agrees(batched_nms, boxes, scores, group, 0.5, max_output=limit)
    images, rows = boxes[:240].reshape(4, 60, 4), scores[:240].reshape(4, 60)
    for limit in (None, 2):
        assert_cuda_agrees(
            batched_nms, images, rows, group[:240].reshape(4, 60), 0.5, max_output=limit
        )


@pytest.mark.parametrize("boxes_of_image", [20, 30, 200])
@pytest.mark.parametrize("classes", [1, 3])
def test_classes_of_images(boxes_of_image: int, classes: int) -> None:
    boxes = clusters(3 * boxes_of_image, 4).reshape(3, boxes_of_image, 4)
    scores = (torch.rand(3, boxes_of_image, classes) * 30).round()
    for limit in (None, 7):
        for least in (None, 9.0):
            assert_cuda_agrees(
                batched_nms, boxes, scores, None, 0.5, max_output=limit, score_threshold=least
            )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("count", [200, 300])
def test_scores_of_every_kind(count: int, dtype: torch.dtype) -> None:
    """NaN of both signs first, then infinity; -0 equals 0; equal ones by index."""
    odd = torch.tensor([0.0, -0.0, 1, -1, torch.inf, -torch.inf, torch.nan, -torch.nan, 1e-30])
    scores = odd.repeat(count // 9 + 1)[:count].to(dtype)
    boxes = clusters(count, 40).to(dtype).float()
    kept = assert_cuda_agrees(visops.nms, boxes, scores, 1.0)
    assert len(kept) == count
    assert_cuda_agrees(visops.nms, boxes, scores, 0.3)
    images = boxes[:160].reshape(2, 80, 4)
    assert_cuda_agrees(visops.nms_padded, images, scores[:160].reshape(2, 80), 0.3, 30)


def test_rows_of_several_chunks() -> None:
    """A block writes 2,048 candidates; here the middle one of three has none that are kept."""
    boxes = torch.zeros(5000, 4)
    boxes[:, 0] = torch.arange(5000) * 3.0
    boxes[2048:4096] = boxes[7]
    boxes[:, 2:] = boxes[:, :2] + 2
    scores = torch.linspace(1, 0, 5000)
    kept = assert_cuda_agrees(visops.nms, boxes, scores, 0.5)
    assert kept.tolist() == [*range(2048), *range(4096, 5000)]
    rows = assert_cuda_agrees(
        batched_nms, boxes.reshape(2, 2500, 4), scores.reshape(2, 2500), None, 0.5, max_output=2400
    )
    assert rows.shape[1] == 2
