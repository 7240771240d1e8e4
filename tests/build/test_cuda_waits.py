"""docs/cuda.md: how often each operator waits for a GPU.

A mode of torch's dispatcher records what the CUDA way of each front asks for, on CPU tensors under
emulation. tests/recorder.py knows which of torch's operators wait.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import visops
from kernels import use_slot
from recorder import Recorder
from visops._torch.arrays import as_float64
from visops.warp import augment_arguments

from build.operators import OPERATORS, valid_call

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cuda.md"
WAITS = {
    name: int(count)
    for names, count in re.findall(r"^\| (`.+`) \| (\d) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    for name in re.findall(r"`(\w+)`", names)
}


def test_the_page_names_operators() -> None:
    assert len(WAITS) >= 8
    assert set(WAITS) <= set(OPERATORS)


def recorded(name: str) -> Recorder:
    """Record a call without a threshold of scores, for which long lists cost one wait more."""
    target, arguments = valid_call(name)
    if "score_threshold" in arguments:
        arguments = {**arguments, "score_threshold": None}
    with use_slot("cuda_emulated"), torch.no_grad(), Recorder() as found:
        target.function(**arguments)
    return found


@pytest.mark.parametrize("name", OPERATORS)
def test_waits(name: str) -> None:
    found = recorded(name)
    assert len(found.waits) == WAITS.get(name, 0), found.waits


@pytest.mark.cuda
@pytest.mark.parametrize("name", sorted(set(OPERATORS) - set(WAITS)))
def test_others_never_wait(name: str) -> None:
    target, arguments = valid_call(name)
    moved = {
        key: [t.cuda() for t in value]
        if isinstance(value, list) and value and isinstance(value[0], torch.Tensor)
        else value.cuda()
        if isinstance(value, torch.Tensor) and key != "fill"
        else value
        for key, value in arguments.items()
    }
    target.function(**moved)  # loads what the first call loads
    torch.cuda.set_sync_debug_mode("error")
    try:
        target.function(**moved)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def boxes_of(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    corner = torch.rand(count, 2) * 300
    return torch.cat([corner, corner + 20 * torch.rand(count, 2)], 1), torch.rand(count)


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def test_fusion_copies_nothing_to_the_device() -> None:
    """Weights and models are filled in there."""
    assert "empty" not in recorded("weighted_boxes_fusion").names  # memory of the host


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("score_threshold", [None, 0.5])
@pytest.mark.parametrize("count", [0, 1, 300])
def test_padded_never_waits(count: int, score_threshold: float | None) -> None:
    """scatter() did, where algorithms must be deterministic."""
    boxes, scores = boxes_of(count)
    with use_slot("cuda_emulated"), Recorder() as found:
        visops.nms_padded(boxes[None], scores[None], 0.5, 20, score_threshold=score_threshold)
    assert found.waits == []


@pytest.mark.parametrize(("count", "sorts"), [(99, 1), (300, 2)])
def test_soft_nms_sorts_long_lists_by_position(count: int, sorts: int) -> None:
    """On the device: it waits for the number of boxes kept only."""
    with use_slot("cuda_emulated"), Recorder() as found:
        visops.soft_nms(*boxes_of(count))
    assert [name for name, _, _ in found.calls].count("sort") == sorts
    assert len(found.waits) == 1


def sorted_sizes(found: Recorder) -> set[int]:
    return {args[0].numel() for name, args, _ in found.calls if name == "sort"}


@pytest.mark.parametrize("form", ["nms", "ids", "images", "classes", "rotated", "limited"])
def test_boxes_below_the_threshold_are_not_sorted(form: str) -> None:
    boxes, scores = boxes_of(600)
    ids = torch.arange(600) % 7
    options: dict[str, Any] = {"iou_threshold": 0.3, "score_threshold": 0.9}

    def call() -> torch.Tensor:
        if form == "nms":
            return visops.nms(boxes, scores, **options)
        if form == "ids":
            return visops.batched_nms(boxes, scores, ids, **options)
        if form == "rotated":
            rotated = torch.cat([boxes, ids[:, None] * 10.0], 1)
            return visops.nms_rotated(rotated, scores, idxs=ids, **options)
        if form == "limited":
            options["max_output"] = 3
        images = boxes.reshape(4, 150, 4)
        if form == "images":
            return visops.batched_nms(images, scores.reshape(4, 150), None, **options)
        return visops.batched_nms(images[:, :50], scores.reshape(4, 50, 3), None, **options)

    expected = call()
    with use_slot("cuda_emulated"), Recorder() as found:
        ours = call()
    assert torch.equal(ours, expected)
    assert found.names >= {"masked_select", "sort"}
    assert sorted_sizes(found) == {int((scores > 0.9).sum())}


def test_nothing_above_the_threshold() -> None:
    boxes, scores = boxes_of(600)
    with use_slot("cuda_emulated"):
        options: dict[str, Any] = {"score_threshold": 2.0, "max_output": 4}
        kept = visops.nms(boxes, scores, 0.5, **options)
        images = boxes.reshape(2, 300, 4), scores.reshape(2, 300, 1)
        rows = visops.batched_nms(*images, None, 0.5, **options)
    assert (kept.shape, rows.shape) == ((0,), (0, 3))


@pytest.mark.parametrize("count", [300, 900])
def test_groups_wait_for_the_number_kept_only(count: int) -> None:
    boxes, scores = boxes_of(count)
    ids = torch.arange(count) % 5
    expected = visops.batched_nms(boxes, scores, ids, 0.3)
    with use_slot("cuda_emulated"), Recorder() as found:
        ours = visops.batched_nms(boxes, scores, ids, 0.3)
    assert torch.equal(ours, expected)
    (rows,) = [args[0] for name, args, _ in found.calls if name == "_to_copy"]
    assert int(rows.sum()) == len(expected)
    assert len(found.waits) == 1


@pytest.mark.parametrize(("count", "is_sorted"), [(300, False), (301, True)])
def test_few_boxes_are_compared_instead_of_sorted(count: int, is_sorted: bool) -> None:
    """Then torch has nothing to do but to give memory, and to read the number kept."""
    boxes, scores = boxes_of(count)
    scores = (scores * 20).round()  # many are equal
    ids = torch.arange(count) % 3
    calls = {
        "nms": lambda: visops.nms(boxes, scores, 0.3),
        "ids": lambda: visops.batched_nms(boxes, scores, ids, 0.3),
        "padded": lambda: visops.nms_padded(boxes[None], scores[None], 0.3, 99)[0],
    }
    for name, call in calls.items():
        expected = call()
        with use_slot("cuda_emulated"), Recorder() as found:
            ours = call()
        assert torch.equal(ours, expected), name
        assert ("sort" in found.names) == is_sorted, name
        if not is_sorted:
            assert found.names <= {
                *("contiguous", "reshape", "to", "select", "unsqueeze", "_to_copy"),
                *("new_empty", "fill_"),
            }, name


@pytest.mark.parametrize("value", [np.eye(3)[:2], np.eye(3)[:2].tolist()], ids=["array", "list"])
def test_arrays_are_uploaded_without_waiting(value: Any) -> None:
    with Recorder() as found:
        as_float64("warp_affine", "matrix", value, torch.device("meta"))
    assert found.names >= {"_to_copy"}
    assert found.waits == []


def test_rectangles_are_uploaded_without_waiting() -> None:
    with Recorder() as found:
        augment_arguments.erase_tensor([[[0, 0, 4, 4]]], 1, torch.device("meta"))
    assert found.names >= {"_to_copy"}
    assert found.waits == []
