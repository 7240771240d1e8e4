"""Overlaps of rotated boxes: against exact polygons, and cases reported to other libraries."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
import visops
from references import rotated as reference
from suppression.nms_cases import FLOATING, LAYOUTS
from torch import Tensor

from boxes.iou_cases import rotated_boxes, rotated_grid

NAN, INF = float("nan"), float("inf")

# Right-angled triangles of whole numbers: angles whose sine and cosine are fractions.
TRIPLES = ((3, 4, 5), (5, 12, 13), (8, 15, 17), (20, 21, 29), (0, 1, 1), (1, 0, 1), (-3, 4, 5))


def slender(rng: np.random.Generator, count: int) -> np.ndarray:
    """A thousand times as long as wide, crossing."""
    boxes = rotated_boxes(rng, count)
    boxes[:, 2] *= 30.0 ** rng.uniform(-1, 1, count)
    boxes[:, 3] /= 30.0 ** rng.uniform(-1, 1, count)
    return boxes


def mixed(rng: np.random.Generator, count: int) -> np.ndarray:
    """Huge and tiny."""
    boxes = rotated_boxes(rng, count)
    boxes[:, 2:4] *= 10.0 ** rng.uniform(-6, 6, (count, 1))
    return boxes


def near_copies(rng: np.random.Generator, count: int) -> np.ndarray:
    """One box, its quarter and whole turns, and boxes that differ in the last digits."""
    boxes = np.tile([[3.0, 4.0, 7.0, 2.0, 0.3]], (count, 1))
    boxes[:, 4] += rng.integers(-4, 5, count) * (math.pi / 2)
    some = rng.random(count) < 0.6
    boxes[some] *= 1 + rng.integers(-3, 4, (int(some.sum()), 5)) * 2.0**-50
    return boxes


KINDS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "any": rotated_boxes,
    "grid": rotated_grid,
    "slender": slender,
    "mixed": mixed,
    "near copies": near_copies,
}


@pytest.mark.matrix
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_reference(dtype: torch.dtype, kind: str) -> None:
    layouts = itertools.cycle(itertools.permutations(LAYOUTS.values(), 2))
    rng = np.random.default_rng(0)
    for count1, count2 in ((1, 1), (5, 7), (2, 33)):
        boxes1, boxes2 = (torch.from_numpy(KINDS[kind](rng, c)).to(dtype) for c in (count1, count2))
        first, second = next(layouts)
        found = visops.box_iou_rotated(first(boxes1), second(boxes2))
        wanted = reference.ious(boxes1.double().numpy(), boxes2.double().numpy())
        assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        within = 1e-13 if dtype == torch.float64 else 6e-8
        np.testing.assert_allclose(found, wanted, rtol=0, atol=within)


@pytest.mark.matrix
@pytest.mark.parametrize("aspect", [1, 10, 100, 1e3, 1e4, 1e6])
def test_error_grows_with_the_aspect_ratio(aspect: float) -> None:
    """As docs/nms.md says: about 1e-15 of the overlap, or 1e-16 times the aspect ratio."""
    rng = np.random.default_rng(int(aspect))
    widths, turns = rng.uniform(0.7, 1.4, (2, 40)), rng.uniform(-1, 1, 40) / aspect
    angles, along = rng.uniform(-4, 4, 40), rng.uniform(-0.3, 0.3, 40) * aspect
    ones = np.stack([0 * angles, 0 * angles, aspect * widths[0], 1 + 0 * angles, angles], 1)
    others = np.stack(
        [along * np.cos(angles), along * np.sin(angles), aspect + 0 * angles, widths[1], angles], 1
    )
    others[:20, 4] += turns[:20]  # almost parallel, and crossing anywhere
    others[20:, 4], others[20:, :2] = rng.uniform(-4, 4, 20), rng.uniform(-0.3, 0.3, (20, 2))
    found = visops.box_iou_rotated(torch.from_numpy(ones), torch.from_numpy(others)).diagonal()
    wanted = [
        float(reference.ious(a[None], b[None])[0, 0]) for a, b in zip(ones, others, strict=True)
    ]
    np.testing.assert_allclose(found, wanted, rtol=max(2e-15, 2e-16 * aspect), atol=0)


@pytest.mark.parametrize("first", TRIPLES)
@pytest.mark.parametrize("second", TRIPLES)
def test_rational_angles(first: Any, second: Any) -> None:
    """Nothing of the reference is rounded."""
    rng = np.random.default_rng(1)
    for _ in range(10):
        boxes, exact = [], []
        for opposite, adjacent, long in (first, second):
            numbers = [*rng.integers(-3, 4, 2).tolist(), *rng.integers(1, 9, 2).tolist()]
            boxes.append([*numbers, math.atan2(opposite, adjacent)])
            sine, cosine = Fraction(opposite, long), Fraction(adjacent, long)
            x, y, width, height = numbers
            exact.append(reference.exact(x, y, width, height, cosine, sine))
        a, b = torch.tensor(boxes, dtype=torch.float64).split(1)
        wanted = float(reference.iou(exact[0], exact[1]))
        assert visops.box_iou_rotated(a, b).item() == pytest.approx(wanted, abs=1e-14)


def test_a_box_with_itself_is_one() -> None:
    rng = np.random.default_rng(2)
    for boxes in (KINDS[kind](rng, 200) for kind in ("any", "slender", "mixed", "grid")):
        for dtype in (torch.float64, torch.float32):
            tensor = torch.from_numpy(boxes).to(dtype)
            found = visops.box_iou_rotated(tensor, tensor)
            assert found.diagonal().tolist() == [1.0] * 200
            assert float(found.max()) == 1.0
            assert float(found.min()) >= 0.0


def test_angle_zero_agrees_with_box_iou() -> None:
    rng = np.random.default_rng(3)
    corner, extent = rng.integers(0, 9, (2, 40, 2)), rng.integers(1, 9, (2, 40, 2))
    straight = torch.from_numpy(np.concatenate([corner, corner + extent], -1)).double()
    centred = np.concatenate([corner + extent / 2, extent, np.zeros((2, 40, 1))], -1)
    found = visops.box_iou_rotated(*torch.from_numpy(centred))
    np.testing.assert_allclose(found, visops.box_iou(*straight), rtol=0, atol=1e-15)


def test_direction_of_angles() -> None:
    """Angles go from x to y: a long box along x = y meets the boxes that lie there."""
    long = torch.tensor([[0.0, 0, 20, 1, math.pi / 4]])
    there = torch.tensor([[5.0, 5, 1, 1, 0], [-5, -5, 1, 1, 0], [5, -5, 1, 1, 0]])
    assert (visops.box_iou_rotated(long, there)[0] > 0).tolist() == [True, True, False]


@pytest.mark.skipif(
    not hasattr(torch.ops.torchvision, "box_iou_rotated"), reason="this torchvision has none"
)
def test_torchvision() -> None:
    """torchvision's angles are in degrees, the other way round, and its numbers float32."""
    rng = np.random.default_rng(4)
    boxes1, boxes2 = (torch.from_numpy(rotated_boxes(rng, c)).float() for c in (40, 60))
    degrees = torch.tensor([1, 1, 1, 1, -180 / math.pi])
    theirs = torch.ops.torchvision.box_iou_rotated(boxes1 * degrees, boxes2 * degrees)
    ours = visops.box_iou_rotated(boxes1, boxes2)
    assert float((ours - theirs).abs().median()) < 1e-6
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-3)


def from_degrees(*box: float) -> list[float]:
    """A box in detectron2's form: its angle goes from x to -y."""
    return [*box[:4], -math.radians(box[4])]


NEARLY = (
    from_degrees(2563.744629, 1436.790161, 2174.703369, 214.095001, 115.118347),
    from_degrees(2563.744629, 1436.790283, 2174.702881, 214.094955, 115.118355),
)
SAME = [0.0, 0.0, 180.6422271729, 136.3633728027, 0.9559648633]
THIN = [135.07, 406.72, 7.9445e-7, 1971.1, 1.7708]
BESIDE = [151.008, 436.2173, 302.0159, 313.7347, 3.1184]
# Named by the library's issue and its result; last, what is right (None: the reference's).
REPORTED: dict[str, tuple[list[float], list[float], float | None]] = {
    "mmcv 2621, 0.333": (SAME, SAME, 1.0),
    "mmcv 2952, -12128368": (THIN, BESIDE, None),
    "detectron2 2167, 0.5848": (*NEARLY, None),
    "detectron2 1207, 0.2655": (
        from_degrees(160, 153, 230, 23, -37),
        from_degrees(190, 127, 80, 21, -46),
        0.0,
    ),
    "a shared edge": ([0.0, 0.0, 2.0, 2.0, 0.5], [0.0, 0.0, 2.0, 1.0, 0.5], 0.5),
    "touching": ([0.0, 0.0, 2.0, 2.0, 0.0], [2.0, 0.0, 2.0, 2.0, 0.0], 0.0),
    "a quarter turn": ([0.0, 0.0, 4.0, 2.0, 0.0], [0.0, 0.0, 2.0, 4.0, math.pi / 2], 1.0),
    "far from the origin": ([1e6, 1e6, 0.5, 0.25, 0.7], [1e6 + 0.25, 1e6, 0.5, 0.25, 0.7], None),
    "apart": ([0.0, 0.0, 1.0, 1.0, 1.0], [1e8, -1e8, 1.0, 1.0, 2.0], 0.0),
    "tiny within huge": ([0.0, 0.0, 1e9, 1e9, 0.3], [5.0, 5.0, 1e-3, 1e-3, 1.0], 1e-24),
}


@pytest.mark.parametrize("name", REPORTED)
def test_reported(name: str) -> None:
    first, second, wanted = REPORTED[name]
    exact = float(reference.iou(reference.rectangle(first), reference.rectangle(second)))
    if wanted is not None:
        assert exact == pytest.approx(wanted, rel=1e-9, abs=1e-15)
    a, b = (torch.tensor([box], dtype=torch.float64) for box in (first, second))
    for found in (visops.box_iou_rotated(a, b), visops.box_iou_rotated(b, a)):
        assert found.item() == pytest.approx(exact, rel=1e-9, abs=1e-15)
        assert 0 <= found.item() <= 1


def test_rounding_of_long_boxes() -> None:
    """mmcv #2952 has 6.0509: a box so long that its positions round by more than its width."""
    longer = torch.tensor([[*THIN[:3], 1.9711e10, THIN[4]]], dtype=torch.float64)
    beside = torch.tensor([BESIDE], dtype=torch.float64)
    for a, b in ((longer, beside), (beside, longer)):
        assert 0 <= visops.box_iou_rotated(a, b).item() < 1e-8


def test_odd_boxes() -> None:
    box = [1.0, 2.0, 3.0, 4.0, 0.5]
    without = [[1.0, 2, 0, 4, 0.5], [1, 2, 3, -4, 0.5], [INF, 2, 3, 4, 0.5], [1, 2, INF, 4, 0.5]]
    without += [[1.0, 2, 3, 4, INF], [1, -INF, 3, 4, 0.5], [0, 0, 0, 0, 0], [INF, -INF, 3, 4, 0]]
    boxes = torch.tensor([box, *without], dtype=torch.float64)
    wanted = torch.zeros(9, 9, dtype=torch.float64)
    wanted[0, 0] = 1
    assert torch.equal(visops.box_iou_rotated(boxes, boxes), wanted)
    for i in range(5):
        boxes = torch.tensor([box, box, *without])
        boxes[1, i] = NAN
        found = visops.box_iou_rotated(boxes, boxes)
        known = [j for j in range(10) if j != 1]
        assert bool(found[1].isnan().all())
        assert bool(found[:, 1].isnan().all())
        assert torch.equal(found[known][:, known], wanted.float())


@pytest.mark.parametrize("dtypes", [(torch.float32, torch.float64), (torch.int32, torch.float16)])
def test_two_dtypes(dtypes: Any) -> None:
    rng = np.random.default_rng(5)
    boxes1, boxes2 = (torch.from_numpy(rotated_boxes(rng, 9)).to(d) for d in dtypes)
    found = visops.box_iou_rotated(boxes1, boxes2)
    wanted = visops.box_iou_rotated(boxes1.double(), boxes2.double())
    assert torch.equal(found, wanted.to(found.dtype))
    assert (found.dtype == torch.float64) == (torch.float64 in dtypes)


def gradients(boxes1: Tensor, boxes2: Tensor, grad: Tensor) -> tuple[Tensor, ...]:
    boxes1, boxes2 = (b.detach().clone().requires_grad_() for b in (boxes1, boxes2))
    value = visops.box_iou_rotated(boxes1, boxes2)
    return torch.autograd.grad(value, (boxes1, boxes2), grad)


@pytest.mark.parametrize("count", [1, 31, 32, 33, 200])
def test_gradients_are_sums(count: int) -> None:
    """Sums over pairs, each of which is compared elsewhere."""
    rng = np.random.default_rng(7)
    boxes1, boxes2 = (torch.from_numpy(rotated_boxes(rng, c)) for c in (3, count))
    grad = torch.from_numpy(rng.standard_normal((3, count)))
    pairs = [
        [gradients(a[None], b[None], grad[i, j].reshape(1, 1)) for j, b in enumerate(boxes2)]
        for i, a in enumerate(boxes1)
    ]
    first = torch.stack([sum(p[0][0] for p in row) for row in pairs])  # type: ignore[misc]
    second = torch.stack([sum(row[j][1][0] for row in pairs) for j in range(count)])  # type: ignore[misc]
    for view in (grad, grad.mT.contiguous().mT, torch.stack([grad, grad], -1)[..., 1]):
        found = gradients(boxes1, boxes2, view)
        np.testing.assert_allclose(found[0], first, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(found[1], second, rtol=1e-12, atol=1e-13)


def test_gradients_at_angle_zero_agree_with_box_iou() -> None:
    """Edges on one another have half of it, touching boxes none."""
    rng = np.random.default_rng(8)
    numbers = rng.integers(0, 5, (2, 30, 2)), rng.integers(1, 5, (2, 30, 2))
    centred = torch.from_numpy(np.concatenate([*numbers, np.zeros((2, 30, 1))], -1))
    grad = torch.from_numpy(rng.standard_normal((30, 30)))

    def corners(boxes: Tensor) -> Tensor:
        centre, extent = boxes[:, :2], boxes[:, 2:4]
        return torch.cat([centre - extent / 2, centre + extent / 2], 1)

    boxes1, boxes2 = (b.clone().requires_grad_() for b in centred)
    value = visops.box_iou(corners(boxes1), corners(boxes2))
    wanted = torch.autograd.grad(value, (boxes1, boxes2), grad)
    for found, straight in zip(gradients(boxes1, boxes2, grad), wanted, strict=True):
        np.testing.assert_allclose(found[:, :4], straight[:, :4], rtol=0, atol=1e-13)


def test_gradients_of_odd_boxes() -> None:
    boxes = torch.tensor(
        [[1.0, 2, 3, 4, 0.5], [1, 2, 0, 4, 0.5], [INF, 2, 3, 4, 0], [1, 2, 3, 4, NAN]],
        dtype=torch.float64,
    )
    usual, flat, infinite, _ = boxes.split(1)
    ones = torch.ones(1, 1, dtype=torch.float64)
    for a, b in itertools.product((flat, infinite), (usual, flat, infinite)):
        for found in (*gradients(a, b, ones), *gradients(b, a, ones)):
            assert torch.equal(found, torch.zeros(1, 5, dtype=torch.float64))
    first, _ = gradients(boxes[:3], boxes[3:], torch.ones(3, 1, dtype=torch.float64))
    assert bool(first.isnan().any(1).all())
    found, _ = gradients(usual, usual, ones)
    np.testing.assert_allclose(found, 0, atol=1e-15)


def test_second_derivative_with_integers() -> None:
    rng = np.random.default_rng(10)
    boxes = torch.from_numpy(rotated_boxes(rng, 5)).requires_grad_()
    whole = torch.from_numpy(rotated_boxes(rng, 6)).to(torch.int64)

    def derivatives(others: Tensor) -> Tensor:
        value = visops.box_iou_rotated(boxes, others).sum()
        (first,) = torch.autograd.grad(value, boxes, create_graph=True)
        return torch.autograd.grad(first.square().sum(), boxes)[0]

    assert torch.equal(derivatives(whole), derivatives(whole.double()))


def test_second_derivatives_of_boxes_that_share_sides() -> None:
    """Along a side that two boxes share nothing has a kink, and the area counts the side once."""
    dtype = torch.float64
    first = torch.tensor([[0.0, 1, 4, 2, 0], [0.5, 1, 9, 2, 0]], dtype=dtype)
    second = torch.tensor([[0.3, 1, 2, 2, 0], [1.1, 1, 4, 2, 0], [9, 1, 1, 2, 0]], dtype=dtype)

    def corners(boxes: Tensor) -> Tensor:
        centre, extent = boxes[:, :2], boxes[:, 2:4]
        return torch.cat([centre - extent / 2, centre + extent / 2], 1)

    def derivatives(overlap: Callable[[Tensor, Tensor], Tensor]) -> list[Tensor]:
        boxes1, boxes2 = first.clone().requires_grad_(), second.clone().requires_grad_()
        grad = torch.arange(1.0, 7.0, dtype=dtype).reshape(2, 3).requires_grad_()
        value = overlap(boxes1, boxes2)
        of_boxes = torch.autograd.grad(value, (boxes1, boxes2), grad, create_graph=True)
        along = [gradient[:, [0, 2]].square().sum() for gradient in of_boxes]
        by_grad, by_first, by_second = torch.autograd.grad(
            along[0] + along[1], (grad, boxes1, boxes2)
        )
        return [by_grad, by_first[:, [0, 2]], by_second[:, [0, 2]]]

    found = derivatives(visops.box_iou_rotated)
    wanted = derivatives(lambda a, b: visops.box_iou(corners(a), corners(b)))
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
