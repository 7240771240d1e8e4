"""The table of docs/moving/torchvision.md on torchvision.ops: what is said of every public name."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
import visops

from docs.names import NONE, SAME, rows

peers = pytest.importorskip("torchvision.ops")

ROWS = rows("torchvision.ops")

torch.manual_seed(0)
CORNER = torch.rand(30, 2) * 40
BOXES = torch.cat([CORNER, CORNER + 4 + 30 * torch.rand(30, 2)], 1)
OTHERS = BOXES[:20].flip(0) + 1
SCORES, IDS = torch.rand(30), torch.arange(30) % 3
MAPS = torch.rand(2, 8, 40, 50)
LISTS = [BOXES[:20], BOXES[20:]]
OFFSETS, MASK, KERNELS = (
    torch.randn(2, 18, 40, 50),
    torch.rand(2, 9, 40, 50),
    torch.rand(4, 8, 3, 3),
)
# Boxes without area.
POINTS = torch.tensor([[3.0, 3, 3, 3], [5, 5, 5, 5]])


def seeded(make: Callable[[], Any]) -> Any:
    """Return a layer with the same parameters each time."""
    torch.manual_seed(1)
    return make()


Call = Callable[[Any], Any]
CALLS: dict[str, Call] = {
    "nms": lambda f: f(BOXES, SCORES, 0.4),
    "batched_nms": lambda f: f(BOXES, SCORES, IDS, 0.4),
    "box_iou": lambda f: f(BOXES, OTHERS, "cxcywh"),
    "generalized_box_iou": lambda f: f(BOXES[None], OTHERS),
    "distance_box_iou": lambda f: f(BOXES, OTHERS, 1e-3),
    "complete_box_iou": lambda f: f(BOXES, OTHERS, eps=1e-7),
    "generalized_box_iou_loss": lambda f: f(BOXES, BOXES.flip(0), "mean", 1e-3),
    "distance_box_iou_loss": lambda f: f(BOXES, BOXES.flip(0), "sum", 1e-3),
    "complete_box_iou_loss": lambda f: f(BOXES, BOXES.flip(0)),
    "roi_align": lambda f: f(MAPS, LISTS, (3, 4), 0.5, 2, True),
    "RoIAlign": lambda f: f(7, 0.5, -1)(MAPS, LISTS),
    "MultiScaleRoIAlign": lambda f: f(["a"], 3, 2)({"a": MAPS}, LISTS, [(80, 100)] * 2),
    "roi_pool": lambda f: f(MAPS, LISTS, 3, 0.5),
    "RoIPool": lambda f: f((3, 4), 0.5)(MAPS, LISTS),
    "ps_roi_align": lambda f: f(MAPS, LISTS, 2, 0.5, 2),
    "PSRoIAlign": lambda f: f(2, 0.5, 2)(MAPS, LISTS),
    "masks_to_boxes": lambda f: f(MAPS[0] > 0.9),
    "sigmoid_focal_loss": lambda f: f(MAPS - 0.5, MAPS.flip(0), 0.3, 1.5, "mean"),
    "deform_conv2d": lambda f: f(MAPS, OFFSETS, KERNELS, None, 1, (1, 1), mask=MASK),
    "DeformConv2d": lambda f: seeded(lambda: f(8, 4, 3, padding=1))(MAPS, OFFSETS, MASK),
}
# What the last column says: a call that shows the difference.
DIFFERENCES: dict[str, Call] = {
    "nms": lambda f: f(torch.tensor([]), torch.tensor([]), 0.4),
    "batched_nms": lambda f: f(
        torch.tensor([[0.0, 0, 10, 10], [-11, -11, -1, -1]]), SCORES[:2], IDS[:2], 0.4
    ),
    "box_iou": lambda f: f(POINTS, POINTS),
    "generalized_box_iou": lambda f: f(POINTS, POINTS),
    "distance_box_iou": lambda f: f(POINTS, POINTS),
    "complete_box_iou": lambda f: f(POINTS, POINTS),
    "complete_box_iou_loss": lambda f: f(BOXES, BOXES.flip(0), eps=100.0),
    "roi_align": lambda f: f(MAPS, [BOXES[:, [2, 3, 0, 1]]] * 2, 3, 0.5, 2, True),
    "RoIAlign": lambda f: f(3, 0.5, 2, True)(MAPS, [BOXES[:, [2, 3, 0, 1]]] * 2),
    "roi_pool": lambda f: f(MAPS, [BOXES * float("nan")] * 2, 3, 0.5),
    "RoIPool": lambda f: f(3, 0.5)(MAPS, [BOXES * float("nan")] * 2),
    "ps_roi_align": lambda f: f(MAPS, [POINTS], 2, 0.5, -1),
    "PSRoIAlign": lambda f: f(2, 0.5, -1)(MAPS, [POINTS]),
    "masks_to_boxes": lambda f: f(MAPS[0]),
}


def outcome(call: Call, function: Any) -> Any:
    try:
        return torch.as_tensor(call(function))
    except (RuntimeError, ValueError) as error:
        return type(error)


def test_every_name_has_a_row() -> None:
    public = {
        name
        for name, value in vars(peers).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert set(peers.__all__) <= public
    assert set(ROWS) == public
    assert {ours for ours, _ in ROWS.values()} == {SAME, NONE}


@pytest.mark.parametrize("name", [name for name, (ours, _) in ROWS.items() if ours == NONE])
def test_not_there(name: str) -> None:
    assert not hasattr(visops, name)


@pytest.mark.parametrize("name", [name for name, (ours, _) in ROWS.items() if ours == SAME])
def test_the_same(name: str) -> None:
    ours, theirs = getattr(visops, name), getattr(peers, name)
    names = list(inspect.signature(theirs).parameters)
    assert list(inspect.signature(ours).parameters)[: len(names)] == names
    expected = CALLS[name](theirs)
    torch.testing.assert_close(CALLS[name](ours), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", DIFFERENCES)
def test_what_differs(name: str) -> None:
    assert ROWS[name][1], "the table says that nothing differs"
    ours, theirs = (outcome(DIFFERENCES[name], getattr(m, name)) for m in (visops, peers))
    if isinstance(ours, torch.Tensor) and isinstance(theirs, torch.Tensor):
        assert not torch.equal(ours, theirs)
        said_to_be_0 = ROWS[name][1].startswith("0, not NaN")
        assert not (said_to_be_0 and ours.isnan().any())
        assert theirs.isnan().any() == said_to_be_0
    else:
        assert ours is not theirs


def test_differences_are_all_tried() -> None:
    said = {name for name, (ours, differs) in ROWS.items() if ours == SAME and differs}
    # A missing level is in tests/roi/test_align_multiscale.py.
    assert said == set(DIFFERENCES) | {"MultiScaleRoIAlign"}
