"""Formats, batches and boxes one to one of the overlaps, and the losses made of them."""

import numpy as np
import pytest
import torch
import torchvision
import visops
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from boxes.iou_cases import FUNCTIONS, PEERS, PROPER, pair_of_sets, rotated_boxes

NAN = float("nan")
LOSSES = {
    "generalized": (
        visops.generalized_box_iou_loss,
        torchvision.ops.generalized_box_iou_loss,
    ),
    "distance": (visops.distance_box_iou_loss, torchvision.ops.distance_box_iou_loss),
    "complete": (visops.complete_box_iou_loss, torchvision.ops.complete_box_iou_loss),
}


@pytest.mark.parametrize("measure", FUNCTIONS)
@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.float32, torch.float64, torch.int64], ids=str
)
def test_one_to_one_is_the_diagonal(measure: str, dtype: torch.dtype) -> None:
    function = FUNCTIONS[measure]
    for kind in (*PROPER, "flat", "inverted"):
        try:
            boxes1, boxes2 = pair_of_sets(kind, 40, 40, dtype)
        except KeyError:
            continue
        diagonal = function(boxes1, boxes2).diagonal()
        aligned = function(boxes1, boxes2, aligned=True)
        assert aligned.dtype == diagonal.dtype
        if measure in ("distance", "complete"):  # sums in another order, and the arctangent
            eps = torch.finfo(diagonal.dtype).eps
            torch.testing.assert_close(aligned, diagonal, rtol=8 * eps, atol=8 * eps)
        else:
            torch.testing.assert_close(aligned, diagonal, rtol=0, atol=0, equal_nan=True)
        array = function(boxes1.numpy(), boxes2.numpy(), aligned=True)
        np.testing.assert_array_equal(array, aligned.numpy())


def test_special_boxes_one_to_one() -> None:
    special = torch.tensor(
        [[0.0, 0, 10, 10], [3, 3, 3, 9], [5, 5, 5, 5], [9, 9, 2, 2], [NAN, 0, 1, 1]]
    )
    boxes1, boxes2 = special.repeat_interleave(5, 0), special.repeat(5, 1)
    for function in FUNCTIONS.values():
        pairs = function(special, special).flatten()
        aligned = function(boxes1, boxes2, aligned=True)
        torch.testing.assert_close(aligned, pairs, rtol=0, atol=1e-6, equal_nan=True)


def test_intersection_over_foreground() -> None:
    boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 5, 5], [20, 20, 30, 30], [5, 5, 5, 5]])
    found = visops.box_iou(boxes, boxes, kind="iof")
    assert found.tolist() == [[1, 0.25, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    aligned = visops.box_iou(boxes, boxes.flip(0), kind="iof", aligned=True)
    assert torch.equal(aligned, found.fliplr().diagonal())
    boxes1, boxes2 = pair_of_sets("uniform", 20, 30, torch.float64)
    lefts = torch.maximum(boxes1[:, None, :2], boxes2[:, :2])
    sides = torch.minimum(boxes1[:, None, 2:], boxes2[:, 2:]).sub(lefts).clamp(min=0)
    areas = (boxes1[:, 2:] - boxes1[:, :2]).prod(-1)
    expected = sides.prod(-1) / areas[:, None]
    torch.testing.assert_close(visops.box_iou(boxes1, boxes2, kind="iof"), expected)


@pytest.mark.parametrize("fmt", ["xywh", "cxcywh"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.uint8], ids=str)
def test_formats(fmt: str, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(0)
    values = [rng.integers(100, 160, (7, 4)), rng.integers(100, 160, (9, 4))]
    first, second = (torch.from_numpy(v).to(dtype) for v in values)
    result = visops.box_iou(first, second, fmt)
    assert result.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    expected = torchvision.ops.box_iou(first.double(), second.double(), fmt)
    torch.testing.assert_close(result.double(), expected, rtol=0, atol=1e-7)
    for name, function in FUNCTIONS.items():
        corners = torchvision.ops.box_convert(first.double(), fmt, "xyxy")
        others = torchvision.ops.box_convert(second.double(), fmt, "xyxy")
        found = function(first, second, fmt=fmt).double()
        torch.testing.assert_close(found, function(corners, others), rtol=0, atol=1e-6)
        assert name in PEERS


@pytest.mark.parametrize("fmt", ["xywh", "cxcywh"])
@pytest.mark.parametrize("aligned", [False, True])
def test_integers_of_any_size_in_any_format(fmt: str, aligned: bool) -> None:
    """They become float64, not float32, which has no 2 ** 25 + 1."""
    first = torch.tensor([[2**25 + 1, 2**25 + 1, 6, 6]])
    second = first + torch.tensor([0, 2, 0, 0])
    found = visops.box_iou(first, second, fmt, aligned=aligned)
    assert found.flatten().tolist() == [0.5]


@pytest.mark.parametrize("measure", ["distance", "complete"])
def test_eps_one_to_one(measure: str) -> None:
    boxes1, boxes2 = (b / 50 for b in pair_of_sets("uniform", 20, 20, torch.float64))
    aligned = FUNCTIONS[measure](boxes1, boxes2, 0.5, aligned=True)
    torch.testing.assert_close(aligned, FUNCTIONS[measure](boxes1, boxes2, 0.5).diagonal())
    assert not torch.allclose(aligned, FUNCTIONS[measure](boxes1, boxes2, aligned=True))


def test_torchvision_s_rotated_format() -> None:
    rng = np.random.default_rng(1)
    boxes = torch.from_numpy(rotated_boxes(rng, 12)).float()
    boxes[:, 4] = boxes[:, 4].rad2deg()
    found = visops.box_iou(boxes[:5], boxes[5:], "cxcywhr")
    assert found.dtype == torch.float32
    aligned = visops.box_iou(boxes[:6], boxes[6:], "cxcywhr", aligned=True)
    torch.testing.assert_close(aligned, visops.box_iou(boxes[:6], boxes[6:], "cxcywhr").diagonal())
    try:
        expected = torchvision.ops.box_iou(boxes[:5], boxes[5:], fmt="cxcywhr")
    except ValueError:
        pytest.skip("this torchvision has no rotated format")
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


def test_rotated_one_to_one() -> None:
    rng = np.random.default_rng(2)
    boxes = torch.from_numpy(np.concatenate([rotated_boxes(rng, 60, 4.0), rotated_boxes(rng, 60)]))
    boxes1, boxes2 = boxes[:80], torch.cat([boxes[:20], boxes[60:]])
    pairs = visops.box_iou_rotated(boxes1, boxes2)
    aligned = visops.box_iou_rotated(boxes1, boxes2, aligned=True)
    torch.testing.assert_close(aligned, pairs.diagonal(), rtol=0, atol=1e-12)
    areas = boxes[:, 2] * boxes[:, 3]
    foreground = visops.box_iou_rotated(boxes1, boxes2, kind="iof")
    both = areas[:80, None] + (boxes2[:, 2] * boxes2[:, 3])[None]
    torch.testing.assert_close(foreground * areas[:80, None], pairs * both / (1 + pairs))
    special = torch.tensor([[0.0, 0, -1, 2, 0], [NAN, 0, 1, 1, 0]])
    proper = torch.tensor([[0.0, 0, 2, 2, 0]] * 2)
    found = visops.box_iou_rotated(special, proper, aligned=True)
    assert found[0] == 0
    assert found[1].isnan()
    leaf = boxes1[:6].clone().requires_grad_()
    assert gradcheck(lambda b: visops.box_iou_rotated(b, boxes2[30:36], aligned=True), (leaf,))


@pytest.mark.parametrize("measure", FUNCTIONS)
def test_batches(measure: str) -> None:
    boxes1, boxes2 = pair_of_sets("uniform", 30, 40, torch.float32)
    first, second = boxes1.reshape(2, 3, 5, 4), boxes2.reshape(2, 1, 20, 4)
    function, peer = FUNCTIONS[measure], PEERS[measure]
    result = function(first, second)
    assert result.shape == (2, 3, 5, 20)
    torch.testing.assert_close(result, peer(first, second), rtol=1e-5, atol=1e-6)
    for i in range(2):
        for j in range(3):
            assert torch.equal(result[i, j], function(first[i, j], second[i, 0]))
    assert torch.equal(function(boxes1, second)[1, 0], function(boxes1, second[1, 0]))
    assert function(first[:0], second[:0]).shape == (0, 3, 5, 20)
    assert function(first, first, aligned=True).shape == (2, 3, 5)
    leaf = first.double().requires_grad_()
    assert gradcheck(lambda b: function(b, second.double()[..., :3, :]), (leaf,), fast_mode=True)


def test_no_boxes_without_columns() -> None:
    """What torch.tensor([]) and np.array([]) are."""
    boxes, none = torch.rand(3, 4), torch.tensor([])
    for function in FUNCTIONS.values():
        assert function(none, boxes).shape == (0, 3)
        assert function(boxes, none).shape == (3, 0)
        assert function(np.array([]), boxes.numpy()).shape == (0, 3)
    assert visops.box_iou_rotated(none, torch.rand(3, 5)).shape == (0, 3)
    assert visops.box_iou_rotated(torch.rand(3, 5), none).shape == (3, 0)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses_are_torchvision_s(name: str, reduction: str) -> None:
    ours, theirs = LOSSES[name]
    for dtype in (torch.float16, torch.float32, torch.float64):
        for scale in (1.0, 1e-3):  # eps matters to small boxes
            boxes1, boxes2 = (b * scale for b in pair_of_sets("uniform", 50, 50, dtype))
            boxes1 = boxes1.requires_grad_()
            result = ours(boxes1, boxes2, reduction)
            expected = theirs(boxes1, boxes2, reduction)
            torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
            assert result.dtype == expected.dtype
    empty = torch.zeros(0, 4, requires_grad=True)
    assert torch.equal(ours(empty, empty, reduction), theirs(empty, empty, reduction))
    ours(empty, empty, "sum").backward()


@pytest.mark.parametrize("name", ["generalized", "distance"])
@pytest.mark.parametrize("eps", [0.0, 0.5, 7.0])
def test_eps_of_losses_is_torchvision_s(name: str, eps: float) -> None:
    """That of complete losses is the page's: torchvision's is for one quotient of four."""
    ours, theirs = LOSSES[name]
    boxes1, boxes2 = (b / 50 for b in pair_of_sets("uniform", 50, 50, torch.float64))
    torch.testing.assert_close(ours(boxes1, boxes2, eps=eps), theirs(boxes1, boxes2, eps=eps))


@pytest.mark.parametrize("name", LOSSES)
def test_losses_take_one_box_and_batches(name: str) -> None:
    loss = LOSSES[name][0]
    boxes1, boxes2 = pair_of_sets("uniform", 6, 6, torch.float32)
    expected = loss(boxes1, boxes2)
    assert torch.equal(loss(boxes1.reshape(2, 3, 4), boxes2.reshape(2, 3, 4)).flatten(), expected)
    assert torch.equal(loss(boxes1[4], boxes2[4]), expected[4])
    assert torch.equal(loss(boxes1, boxes2[4])[4], expected[4])


@pytest.mark.parametrize("name", LOSSES)
def test_losses_have_gradients(name: str) -> None:
    ours, theirs = LOSSES[name]
    boxes1, boxes2 = (b.requires_grad_() for b in pair_of_sets("uniform", 4, 4, torch.float64, 3))
    shifted = (boxes2.detach() + 0.7).requires_grad_()
    if name != "complete":  # its weight is constant in gradients, not in finite differences
        assert gradcheck(ours, (boxes1, shifted))
        assert gradgradcheck(ours, (boxes1, shifted), fast_mode=True)
    for boxes in (boxes1, shifted):
        grads = [
            torch.autograd.grad(loss(boxes1, shifted, "sum"), boxes)[0] for loss in (ours, theirs)
        ]
        torch.testing.assert_close(*grads)


def boxes(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(*shape, 4, dtype=dtype)
