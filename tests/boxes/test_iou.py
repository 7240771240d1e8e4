"""Pairwise overlaps: values, formats, batches, one to one, the losses made of them, subclasses."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
import visops
from references import box_iou as reference
from subclasses import Other, Stranger
from suppression.nms_cases import BOXES, FLOATING, INTEGER, LAYOUTS
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from boxes.iou_cases import FUNCTIONS, PEERS, PROPER, SIZES, pair_of_sets, rotated_boxes

every_measure = pytest.mark.parametrize("measure", FUNCTIONS)
NAN, INF = float("nan"), float("inf")


def expected(boxes1: Tensor, boxes2: Tensor, measure: str, eps: float = 1e-7) -> np.ndarray:
    """The reference's overlaps, in the dtype that the boxes are computed in."""
    single = all(b.is_floating_point() and b.dtype != torch.float64 for b in (boxes1, boxes2))
    dtype = torch.float32 if single else torch.float64
    double = torch.float64 in (boxes1.dtype, boxes2.dtype)
    first, second = boxes1.to(dtype).numpy(), boxes2.to(dtype).numpy()
    found = reference.overlaps(first, second, measure, eps)
    return found.astype(np.float64 if double else np.float32)


def assert_same(found: Tensor | np.ndarray, wanted: np.ndarray, measure: str) -> None:
    """The same bits, but for the last ones where an arctangent is involved."""
    found = np.asarray(found)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    within = 4 * np.finfo(wanted.dtype).eps if measure == "complete" else 0.0
    np.testing.assert_allclose(found, wanted, rtol=within, atol=within)


@pytest.mark.matrix
@every_measure
@pytest.mark.parametrize("kind", BOXES)
@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_reference(dtype: torch.dtype, kind: str, measure: str) -> None:
    layouts = itertools.cycle(itertools.permutations(LAYOUTS.values(), 2))
    for seed, (count1, count2) in enumerate(((1, 1), (9, 20), (33, 6))):
        boxes1, boxes2 = pair_of_sets(kind, count1, count2, dtype, seed)
        wanted = expected(boxes1, boxes2, measure)
        first, second = next(layouts)
        assert_same(FUNCTIONS[measure](first(boxes1), second(boxes2)), wanted, measure)


@pytest.mark.matrix
@every_measure
@pytest.mark.parametrize("dtype", INTEGER, ids=str)
def test_integers(dtype: torch.dtype, measure: str) -> None:
    rng = np.random.default_rng(0)
    corners = rng.integers(0, 60, (2, 25, 2))
    boxes1, boxes2 = torch.from_numpy(
        np.concatenate([corners, corners + rng.integers(0, 60, (2, 25, 2))], -1)
    ).to(dtype)
    found = FUNCTIONS[measure](boxes1, boxes2)
    assert found.dtype == torch.float32
    assert_same(found, expected(boxes1, boxes2, measure), measure)


@every_measure
@pytest.mark.parametrize(
    "dtypes",
    [
        (torch.float32, torch.float64),
        (torch.float64, torch.float16),
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.int32),
        (torch.int64, torch.float64),
        (torch.uint8, torch.int16),
    ],
    ids=str,
)
def test_two_dtypes(dtypes: tuple[torch.dtype, torch.dtype], measure: str) -> None:
    boxes1, boxes2 = pair_of_sets("clusters", 12, 21, torch.float64)
    boxes1 = boxes1.abs().clamp(max=100).to(dtypes[0])
    boxes2 = boxes2.abs().clamp(max=100).to(dtypes[1])
    assert_same(FUNCTIONS[measure](boxes1, boxes2), expected(boxes1, boxes2, measure), measure)


def test_large_integers_are_exact() -> None:
    """In float32, 2^24 + 1 would be 2^24."""
    boxes = torch.tensor([[0, 0, 2**24 + 1, 1], [0, 0, 2**24, 1]])
    assert visops.box_iou(boxes, boxes).tolist() == [[1.0, 1.0 - 2**-24], [1.0 - 2**-24, 1.0]]
    wide = torch.tensor([[2**40, 0, 2**40 + 1, 1], [2**40 + 1, 0, 2**40 + 2, 1]])
    assert visops.box_iou(wide, wide).tolist() == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.matrix
@every_measure
@pytest.mark.parametrize("kind", PROPER)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_torchvision(dtype: torch.dtype, kind: str, measure: str) -> None:
    for count1, count2 in SIZES:
        boxes1, boxes2 = pair_of_sets(kind, count1, count2, dtype)
        wanted = PEERS[measure](boxes1, boxes2)
        assert_same(FUNCTIONS[measure](boxes1, boxes2), wanted.numpy(), measure)


@every_measure
def test_torchvision_where_it_has_values(measure: str) -> None:
    """Inverted, flat and infinite boxes too, except where torchvision has NaN."""
    for seed in range(5):
        boxes1, boxes2 = pair_of_sets("odd", 40, 50, torch.float64, seed)
        wanted = PEERS[measure](boxes1, boxes2)
        there = wanted.isfinite()
        assert bool(there.any())
        found = FUNCTIONS[measure](boxes1, boxes2)
        assert_same(found[there], wanted[there].numpy(), measure)


@every_measure
@pytest.mark.parametrize("seed", range(3))
def test_roles(measure: str, seed: int) -> None:
    """Swapping the sets changes no bit."""
    for kind in BOXES:
        boxes1, boxes2 = pair_of_sets(kind, 40, 23, torch.float32, seed)
        found = FUNCTIONS[measure](boxes1, boxes2)
        other = FUNCTIONS[measure](boxes2, boxes1).mT
        assert torch.equal(found.nan_to_num(7), other.nan_to_num(7))


@pytest.mark.parametrize("eps", [0.0, 1e-3, 0.5])
@pytest.mark.parametrize("measure", ["distance", "complete"])
def test_eps(measure: str, eps: float) -> None:
    boxes1, boxes2 = pair_of_sets("clusters", 9, 20, torch.float32)
    boxes1, boxes2 = boxes1 / 1000, boxes2 / 1000
    wanted = expected(boxes1, boxes2, measure, eps)
    assert_same(FUNCTIONS[measure](boxes1, boxes2, eps), wanted, measure)
    assert not np.array_equal(wanted, expected(boxes1, boxes2, measure))


FLAT = [[0.0, 0, 0, 0], [0, 0, 4, 0], [0, 0, 0, 4], [1, 0, 5, 0], [9, 9, 9, 9]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32], ids=str)
def test_boxes_without_area(dtype: torch.dtype) -> None:
    """0 / 0 gives 0."""
    boxes = torch.tensor(FLAT, dtype=torch.float64).to(dtype)
    one = torch.tensor([[0.0, 0, 2, 2]], dtype=torch.float64).to(dtype)
    for eps in (0.0, 1e-7):
        assert visops.box_iou(boxes, boxes).abs().max() == 0
        assert visops.box_iou(boxes, one).abs().max() == 0
        generalized = visops.generalized_box_iou(boxes, boxes)
        assert generalized[1, 2] == -1  # the box around both has an area
        assert generalized[0, :4].tolist() == [0, 0, 0, 0]
        distance = visops.distance_box_iou(boxes, boxes, eps)
        assert distance.diagonal().tolist() == [0.0] * 5
        assert distance[0, 4].item() == pytest.approx(-1.0)
        for measure, function in FUNCTIONS.items():
            options = [eps] if measure in ("distance", "complete") else []
            wanted = expected(boxes, boxes, measure, eps)
            assert_same(function(boxes, boxes, *options), wanted, measure)


def test_angles_of_flat_boxes() -> None:
    """Level and upright boxes are a quarter turn apart; points have the angle of upright ones."""
    level, upright, point = [0.0, 0, 4, 0], [0.0, 0, 0, 4], [0.0, 0, 0, 0]
    boxes = torch.tensor([level, upright, point], dtype=torch.float64)
    v = visops.distance_box_iou(boxes, boxes) - visops.complete_box_iou(boxes, boxes)
    half = 1 / (2 + 1e-7)  # v is 1, alpha v / (1 + v + eps)
    np.testing.assert_allclose(v, [[0, half, half], [half, 0, 0], [half, 0, 0]], atol=1e-15)


@pytest.mark.matrix
@every_measure
@pytest.mark.parametrize("coordinate", range(4))
def test_nan(measure: str, coordinate: int) -> None:
    boxes1, boxes2 = pair_of_sets("clusters", 6, 40, torch.float32)
    boxes1[2, coordinate] = NAN
    for found in (FUNCTIONS[measure](boxes1, boxes2), FUNCTIONS[measure](boxes2, boxes1).mT):
        assert bool(found[2].isnan().all())
        assert not bool(found[[0, 1, 3, 4, 5]].isnan().any())


def test_by_hand() -> None:
    a = torch.tensor([[0.0, 0, 2, 2]])
    b = torch.tensor([[1.0, 0, 3, 2], [0, 0, 2, 2], [4, 0, 6, 2], [0, 0, 4, 2]])
    assert visops.box_iou(a, b)[0].tolist() == pytest.approx([1 / 3, 1, 0, 1 / 2])
    assert visops.generalized_box_iou(a, b)[0].tolist() == pytest.approx([1 / 3, 1, -1 / 3, 1 / 2])
    wanted = [1 / 3 - 1 / 13, 1, -16 / 40, 1 / 2 - 1 / 20]
    assert visops.distance_box_iou(a, b)[0].tolist() == pytest.approx(wanted)
    v = (2 / np.pi * (np.arctan(2) - np.arctan(1))) ** 2
    wanted[3] -= v * v / (1 - 1 / 2 + v)
    assert visops.complete_box_iou(a, b)[0].tolist() == pytest.approx(wanted)


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
def test_formats(fmt: Any, dtype: torch.dtype) -> None:
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
def test_integers_of_any_size_in_any_format(fmt: Any, aligned: bool) -> None:
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
def test_losses_are_torchvision_s(name: str, reduction: Any) -> None:
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


LOSS_FUNCTIONS = (
    visops.generalized_box_iou_loss,
    visops.distance_box_iou_loss,
    visops.complete_box_iou_loss,
)


class Plain(Tensor):
    """A subclass that leaves everything to torch."""


A = torch.tensor([[0.0, 0.0, 10.0, 10.0]])
B = torch.tensor([[1.0, 1.0, 9.0, 9.0]])


@pytest.mark.parametrize("loss", LOSS_FUNCTIONS, ids=lambda loss: loss.__name__)
@pytest.mark.parametrize(("first", "second"), [(Other, Stranger), (Plain, Other), (Other, Plain)])
def test_strangers_are_refused_as_by_torch(
    loss: Callable[[Tensor, Tensor], Tensor], first: type, second: type
) -> None:
    boxes: tuple[Tensor, Tensor] = (A.as_subclass(first), B.as_subclass(second))
    with pytest.raises(TypeError):
        boxes[0] + boxes[1]
    message = (
        rf"^visops\.{loss.__name__}: boxes1 has the type {first.__name__} and boxes2 the type "
        rf"{second.__name__}, which don't take each other; pass boxes\.as_subclass\(torch\.Tensor\)"
    )
    with pytest.raises(TypeError, match=message):
        loss(*boxes)


@pytest.mark.parametrize("loss", LOSS_FUNCTIONS, ids=lambda loss: loss.__name__)
def test_others_are_taken(loss: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Plain tensors, parameters, and torchvision's types, which are plain once they are sliced."""
    tv_tensors = pytest.importorskip("torchvision.tv_tensors")
    wanted = loss(A, B)
    boxes = tv_tensors.BoundingBoxes(A, format="XYXY", canvas_size=(20, 20))
    pairs = [(A.as_subclass(Other), B), (A, B.as_subclass(Stranger)), (A.as_subclass(Plain), B)]
    pairs += [(boxes, tv_tensors.Mask(B)), (boxes, B.as_subclass(Other)), (boxes, B)]
    pairs += [(boxes, torch.nn.Parameter(B)), (A.as_subclass(Other), torch.nn.Parameter(B))]
    for first, second in pairs:
        assert torch.equal(loss(first, second).as_subclass(Tensor).detach(), wanted)


@pytest.mark.parametrize("loss", LOSS_FUNCTIONS, ids=lambda loss: loss.__name__)
def test_a_parameter_and_a_tensor_are_compiled(loss: Callable[[Tensor, Tensor], Tensor]) -> None:
    compiled = torch.compile(loss, fullgraph=True, backend="eager")
    assert torch.equal(compiled(torch.nn.Parameter(A), B).detach(), loss(A, B))


def test_errors_of_a_subclass_stay() -> None:
    class Broken(Other):
        @classmethod
        def __torch_function__(
            cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func is torch.result_type:
                raise TypeError("Broken has no type")
            return super().__torch_function__(func, types, args, kwargs)

    for loss in LOSS_FUNCTIONS:
        with pytest.raises(TypeError, match=r"^Broken has no type$"):
            loss(A.as_subclass(Broken), B.as_subclass(Other))
