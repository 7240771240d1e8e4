"""Properties of the other poolings that hold for any maps and boxes."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor
from torch.nn.functional import pad

from roi.align_cases import BOXES
from roi.pooling_cases import OUTPUT_SIZE, PIXELS, POOLINGS, problem

every_pooling = pytest.mark.parametrize("name", POOLINGS)
kinds = st.sampled_from([kind for kind in BOXES if kind not in ("large", "torchvision")])
seeds = st.integers(0, 10_000)
few = settings(max_examples=25)


def moved(boxes: Tensor, right: float, down: float) -> Tensor:
    by = [0.0, right, down, 0, 0, 0] if boxes.shape[1] == 6 else [0.0, right, down, right, down]
    return boxes + torch.tensor(by, dtype=boxes.dtype)


def rounded(boxes: Tensor, step: float = 1 / 64) -> Tensor:
    """Round coordinates so that their sums and halves are exact; angles stay."""
    parts = boxes.clone()
    parts[:, :5] = (boxes[:, :5] / step).round() * step
    return parts


@every_pooling
@few
@given(kinds, seeds, st.integers(0, 4), st.integers(0, 4))
def test_whole_pixels_move_all_alike(
    name: str, kind: str, seed: int, right: int, down: int
) -> None:
    """Moving map and boxes together by whole pixels changes nothing."""
    maps, boxes = problem(name, kind, 5, seed=seed)
    inner = rounded(boxes.clamp(1, 8)) if boxes.shape[1] == 5 else rounded(boxes)
    if boxes.shape[1] == 6:
        inner[:, 1:3] = inner[:, 1:3].clamp(4, 5)
        inner[:, 3:5] = inner[:, 3:5].clamp(0, 3)
    inner[:, 0] = boxes[:, 0]
    function = POOLINGS[name].function
    found = function(pad(maps, (right, 2, down, 3)), moved(inner, right, down), OUTPUT_SIZE)
    wanted = function(pad(maps, (0, 2, 0, 3)), inner, OUTPUT_SIZE)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


@every_pooling
@few
@given(kinds, seeds, st.randoms(use_true_random=False))
def test_boxes_don_t_know_of_each_other(
    name: str, kind: str, seed: int, random: np.random.Generator
) -> None:
    maps, boxes = problem(name, kind, 8, seed=seed)
    function = POOLINGS[name].function
    every = function(maps, boxes, OUTPUT_SIZE)
    order = list(range(8))
    random.shuffle(order)
    assert torch.equal(function(maps, boxes[order], OUTPUT_SIZE), every[order])
    alone = boxes[3:4].clone()
    image = int(alone[0, 0])
    alone[0, 0] = 0
    assert torch.equal(function(maps[image : image + 1], alone, OUTPUT_SIZE), every[3:4])


@every_pooling
@few
@given(kinds, seeds)
def test_values_are_within_those_of_the_map(name: str, kind: str, seed: int) -> None:
    """... or 0, for samples outside."""
    maps, boxes = problem(name, kind, 8, seed=seed)
    found = POOLINGS[name].function(maps, boxes, OUTPUT_SIZE)
    assert float(found.max()) <= float(maps.max()) + 1e-12
    assert float(found.min()) >= 0


@every_pooling
@few
@given(kinds, seeds)
def test_the_gradient_is_the_transpose(name: str, kind: str, seed: int) -> None:
    """<pool(map), grad> = <map, gradient>, and no more is handed out than is given."""
    maps, boxes = problem(name, kind, 8, seed=seed)
    leaf = maps.clone().requires_grad_()
    value = POOLINGS[name].function(leaf, boxes, OUTPUT_SIZE)
    grad = torch.rand(value.shape, dtype=value.dtype)
    (gradient,) = torch.autograd.grad(value, leaf, grad)
    products = (value.detach() * grad).sum(), (maps * gradient).sum()
    assert math.isclose(*products, rel_tol=1e-9, abs_tol=1e-9)
    assert float(gradient.sum()) <= float(grad.sum()) + 1e-9


@few
@given(kinds, seeds, st.integers(-3, 3))
def test_whole_turns_change_nothing(kind: str, seed: int, turns: int) -> None:
    maps, boxes = problem("roi_align_rotated", kind, 8, seed=seed)
    function = POOLINGS["roi_align_rotated"].function
    again = boxes.clone()
    again[:, 5] += turns * 2 * math.pi
    for a, b in ((boxes, again), (half_turned(boxes), boxes)):
        found, wanted = (function(maps, r, OUTPUT_SIZE) for r in (a, b))
        if a is not boxes:
            found = found.flip(2, 3)
        # Samples on the border of what counts may change sides.
        close = (found - wanted).abs() < 1e-9
        assert float(close.double().mean()) > (0.8 if kind == "grid" else 0.99)


def half_turned(boxes: Tensor) -> Tensor:
    other = boxes.clone()
    other[:, 5] += math.pi
    return other


@few
@given(seeds)
def test_roi_pool_is_never_below_a_sample(seed: int) -> None:
    """The largest element of the pixels is no less than their mean."""
    maps, boxes = problem("roi_pool", "inside", 8, seed=seed)
    whole = boxes.round()
    whole[:, 3] = whole[:, 3].clamp(max=PIXELS[1] - 1)
    whole[:, 4] = whole[:, 4].clamp(max=PIXELS[0] - 1)
    found = POOLINGS["roi_pool"].function(maps, whole, 1)
    for k, (image, x1, y1, x2, y2) in enumerate(whole.long().tolist()):
        region = maps[image, :, y1 : y2 + 1, x1 : x2 + 1]
        if region.numel():
            assert torch.equal(found[k, :, 0, 0], region.amax((1, 2)))
