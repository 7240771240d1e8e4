"""Properties of RoIAlign that hold for any maps and boxes."""

from typing import Any

import numpy as np
import torch
import visops
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from roi.align_cases import LAYOUTS, same_bits

# Multiples of 1/2: their sums and products with whole numbers are exact.
coordinates = st.integers(-12, 30).map(lambda n: n / 2)
ratios = st.sampled_from([-1, 1, 2, 3])
bins = st.tuples(st.integers(1, 4), st.integers(1, 4))
reduces = st.sampled_from(["mean", "max"])


@st.composite
def problems(draw: Any) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """Maps of whole numbers, boxes [K, 5] on them, and options."""
    shape = [draw(st.integers(1, n)) for n in (3, 4, 12, 12)]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    maps = torch.from_numpy(rng.integers(-8, 9, shape)).float()
    count = draw(st.integers(0, 6))
    rows = []
    for _ in range(count):
        x1, x2 = sorted([draw(coordinates), draw(coordinates)])
        y1, y2 = sorted([draw(coordinates), draw(coordinates)])
        rows.append([draw(st.integers(0, shape[0] - 1)), x1, y1, x2, y2])
    boxes = torch.tensor(rows, dtype=torch.float32).reshape(count, 5)
    options = {
        "output_size": draw(bins),
        "sampling_ratio": draw(ratios),
        "aligned": draw(st.booleans()),
        "reduce": draw(reduces),
    }
    return maps, boxes, options


@settings(max_examples=60)
@given(problems(), st.sampled_from(sorted(LAYOUTS)))
def test_layout(problem: Any, layout: str) -> None:
    maps, boxes, options = problem
    wanted = visops.roi_align(maps, boxes, **options)
    assert same_bits(visops.roi_align(LAYOUTS[layout](maps), boxes, **options), wanted)


@settings(max_examples=60)
@given(problems(), st.randoms(use_true_random=False))
def test_order_and_company_of_boxes(problem: Any, random: Any) -> None:
    """A box's values do not depend on other boxes, images or channels."""
    maps, boxes, options = problem
    wanted = visops.roi_align(maps, boxes, **options)
    order = list(range(len(boxes)))
    random.shuffle(order)
    assert same_bits(visops.roi_align(maps, boxes[order], **options), wanted[order])
    for k, box in enumerate(boxes[:2]):
        image = int(box[0])
        alone = torch.cat([torch.zeros(1), box[1:]])[None]
        found = visops.roi_align(maps[image : image + 1], alone, **options)
        assert same_bits(found[0], wanted[k])
        channel = visops.roi_align(maps[:, -1:], box[None], **options)
        assert same_bits(channel[0, 0], wanted[k, -1])


@settings(max_examples=60)
@given(problems(), st.integers(0, 5), st.integers(0, 5))
def test_translation(problem: Any, right: int, down: int) -> None:
    """Boxes well inside the map, moved with it by whole pixels."""
    maps, boxes, options = problem
    n, c, h, w = maps.shape
    # With a border of 20 pixels, no box is near the edge.
    wide = torch.zeros(n, c, h + 45, w + 45)
    wide[..., 20 : 20 + h, 20 : 20 + w] = maps
    moved = torch.zeros_like(wide)
    moved[..., 20 + down : 20 + down + h, 20 + right : 20 + right + w] = maps
    inside = boxes.clone()
    inside[:, 1:] = (inside[:, 1:] + 20).clamp(1, 30)
    wanted = visops.roi_align(wide, inside, **options)
    shift = torch.tensor([0.0, right, down, right, down])
    found = visops.roi_align(moved, inside + shift, **options)
    torch.testing.assert_close(found, wanted, rtol=0, atol=2e-4)


@settings(max_examples=60)
@given(problems())
def test_bounds(problem: Any) -> None:
    """Means and maxima lie between the samples' extremes; constants stay within the map."""
    maps, boxes, options = problem
    found = visops.roi_align(maps, boxes, **options)
    low, high = min(0.0, float(maps.min())), max(0.0, float(maps.max()))
    assert bool(((found >= low - 1e-4) & (found <= high + 1e-4)).all())
    larger = visops.roi_align(maps, boxes, **{**options, "reduce": "max"})
    mean = visops.roi_align(maps, boxes, **{**options, "reduce": "mean"})
    assert bool((larger >= mean - 1e-4).all())


@settings(max_examples=60)
@given(problems(), st.integers(-3, 3))
def test_powers_of_two(problem: Any, exponent: int) -> None:
    """Exact for maps times 2^k, and for boxes times 2^k at a scale of 2^-k."""
    maps, boxes, options = problem
    wanted = visops.roi_align(maps, boxes, **options)
    factor = 2.0**exponent
    assert same_bits(visops.roi_align(maps * factor, boxes, **options), wanted * factor)
    scaled = boxes * torch.tensor([1, factor, factor, factor, factor])
    found = visops.roi_align(maps, scaled, **options, spatial_scale=1 / factor)
    assert same_bits(found, wanted)


@settings(max_examples=60)
@given(problems())
def test_mirrored(problem: Any) -> None:
    """Rows and columns swapped: the same except for the order of a sum."""
    maps, boxes, options = problem
    wanted = visops.roi_align(maps, boxes, **options)
    turned = {**options, "output_size": options["output_size"][::-1]}
    found = visops.roi_align(maps.mT, boxes[:, [0, 2, 1, 4, 3]], **turned).mT
    torch.testing.assert_close(found, wanted, rtol=0, atol=2e-5)


@settings(max_examples=60)
@given(problems())
def test_adjoint(problem: Any) -> None:
    """<g, pool m> = <pool^T g, m>."""
    maps, boxes, options = problem
    if not len(boxes):
        return
    leaf = maps.double().requires_grad_()
    values = visops.roi_align(leaf, boxes, **options)
    rng = np.random.default_rng(0)
    grad = torch.from_numpy(rng.standard_normal(values.shape))
    (gradient,) = torch.autograd.grad(values, leaf, grad)
    ours, theirs = (gradient * leaf).sum(), (values * grad).sum()
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
