"""Rows of roi_align.md and pooling.md on other libraries: our call, and theirs or its definition.

detectron2's and mmcv's operators need a compiler: detectron2 pools with torchvision's roi_align,
and for the rest slow references are taken.
"""

from collections.abc import Callable
from typing import Any

import fresh
import numpy as np
import torch
import torchvision
import visops
from references import roi_align as align_reference
from references import roi_pooling as pooling_reference
from torch import Tensor
from visops import compat

Pair = tuple[Any, Any]
Row = tuple[Callable[[], Pair], float]
theirs = torchvision.ops.roi_align

RNG = np.random.default_rng(1)
MAPS = torch.from_numpy(RNG.random((2, 3, 20, 24))).float()
CORNER = RNG.random((9, 2)) * 30
IMAGE = RNG.integers(0, 2, (9, 1))
BOXES = torch.from_numpy(np.concatenate([IMAGE, CORNER, CORNER + 2 + RNG.random((9, 2)) * 15], 1))
ROIS = BOXES.float()
LISTS = [ROIS[ROIS[:, 0] == i, 1:] for i in range(2)]
SCALES = [1 / 4, 1 / 8, 1 / 16]
PYRAMID = [torch.from_numpy(RNG.random((2, 3, 64 >> i, 80 >> i))).float() for i in range(3)]
SIDES = torch.tensor([10.0, 25, 60, 111, 113, 220, 230, 250])
OF_SIZES = torch.stack([SIDES * 0, SIDES * 0, SIDES * 0, SIDES, SIDES], 1)
TURNED = torch.cat([ROIS[:, :1], ROIS[:, 1:3] + 5, ROIS[:, 3:] - ROIS[:, 1:3], ROIS[:, 1:2]], 1)


def half() -> Pair:
    """Ours differs from the exact result by one rounding, theirs by more."""
    maps, boxes = MAPS.half(), ROIS.half()
    exact = visops.roi_align(maps.double(), boxes.double(), 5, 0.5, 2)
    ours = (visops.roi_align(maps, boxes, 5, 0.5, 2).double() - exact).abs().max()
    other = (theirs(maps, boxes, 5, 0.5, 2).double() - exact).abs().max()
    return ours < 2**-11 < other, True


def other_dtypes() -> Pair:
    try:
        theirs(MAPS, BOXES, 5)
    except RuntimeError:
        return visops.roi_align(MAPS, BOXES, 5), theirs(MAPS, ROIS, 5)
    raise AssertionError("torchvision takes boxes of another dtype")


def layouts() -> Pair:
    maps = MAPS.to(memory_format=torch.channels_last)
    ours, other = (pool(maps, ROIS, 5) for pool in (visops.roi_align, theirs))
    last = {"memory_format": torch.channels_last}
    assert not other.is_contiguous(**last)
    return [ours.is_contiguous(**last), *ours.flatten()], [True, *other.flatten()]


def bad_boxes() -> Pair:
    """torchvision reads memory far away from the maps, in a process of its own."""
    code = (
        "import torch, torchvision; torchvision.ops.roi_align("
        "torch.rand(1, 1, 8, 8), torch.tensor([[0, float('nan'), 1, 5, 5]]), 3, 1.0, 2)"
    )
    crashed = fresh.run(code).returncode < 0
    refused = []
    for box in ([2, 1, 1, 5, 5], [-1, 1, 1, 5, 5], [0, float("nan"), 1, 5, 5]):
        try:
            visops.roi_align(MAPS, torch.tensor([box]).float(), 3)
        except RuntimeError as error:
            refused.append("boxes[0]" in str(error))
    return [crashed, *refused], [True] * 4


def gradients() -> Pair:
    found = []
    for pool in (visops.roi_align, theirs):
        maps, boxes = MAPS.clone().requires_grad_(), ROIS.clone().requires_grad_()
        value = pool(maps, boxes, 5, 0.5, 2).square().sum()
        (of_maps,) = torch.autograd.grad(value, maps, create_graph=True)
        (of_boxes,) = torch.autograd.grad(value, boxes, allow_unused=True, retain_graph=True)
        try:
            again = torch.autograd.grad(of_maps.square().sum(), maps)[0].any()
        except RuntimeError:
            again = torch.tensor(False)
        found.append([of_boxes is not None, bool(again)])
    return found, [[True, True], [False, False]]


def pooled_twice(cls: Any, names: list[str], maps: dict[str, Tensor]) -> Tensor:
    pool = cls(names, 3, 2)
    result: Tensor = pool(maps, [OF_SIZES[:, 1:]], [(256, 320)])
    return result


def equal_scales() -> Pair:
    """As in the MobileNet detectors: two maps of the same size."""
    maps = {"a": PYRAMID[2][:1], "b": PYRAMID[2][:1].flip(3)}
    ours, other = (
        pooled_twice(cls, ["a", "b"], maps)
        for cls in (visops.MultiScaleRoIAlign, torchvision.ops.MultiScaleRoIAlign)
    )
    return ours, other


def skipped_level() -> Pair:
    """Boxes of 1/8 are pooled from 1/4; torchvision gives them 0."""
    maps = {"0": PYRAMID[0][:1], "2": PYRAMID[2][:1]}
    ours, other = (
        pooled_twice(cls, ["0", "2"], maps)
        for cls in (visops.MultiScaleRoIAlign, torchvision.ops.MultiScaleRoIAlign)
    )
    finer = visops.multiscale_roi_align(
        list(maps.values()), [OF_SIZES[:, 1:]], 3, [1 / 4, 1 / 16], sampling_ratio=2
    )
    assert bool((other.flatten(1) == 0).all(1).any())
    assert not bool((ours.flatten(1) == 0).all(1).any())
    return ours, finer


def levels(exponents: Tensor, first: int) -> Tensor:
    """Pool each box of OF_SIZES from the map of its level, with torchvision's operator."""
    chosen = (exponents.floor() - first).clamp(0, 2).long()
    rows = [
        theirs(PYRAMID[level], box[None], 3, SCALES[level], 2, True)
        for level, box in zip(chosen.tolist(), OF_SIZES, strict=True)
    ]
    return torch.cat(rows)


def pooler() -> Pair:
    ours = visops.multiscale_roi_align(
        *(PYRAMID, [OF_SIZES[:, 1:], OF_SIZES[:0, 1:]], 3, SCALES, 2),
        aligned=True,
        canonical_scale=224,
        canonical_level=4,
        level_rule="detectron2",
    )
    return ours, levels(4 + (SIDES / 224 + 1e-8).log2(), 2)


def extractor() -> Pair:
    ours = visops.multiscale_roi_align(
        *(PYRAMID, OF_SIZES, 3, SCALES, 2),
        aligned=True,
        canonical_scale=56,
        canonical_level=int(-np.log2(SCALES[0])),
    )
    return ours, levels((SIDES / 56 + 1e-6).log2(), 0)


def largest() -> Pair:
    ours = visops.roi_align(MAPS.double(), BOXES, 3, 0.5, 2, True, reduce="max")
    return ours, align_reference.roi_align_max(
        MAPS.numpy(), BOXES.numpy(), (3, 3), 0.5, 2, aligned=True
    )[0]


def without_samples() -> Pair:
    box = torch.tensor([[0, 4.0, 4, 4, 4]])
    return visops.roi_align(MAPS, box, 2, 1.0, 0, True, reduce="max"), np.zeros((1, 3, 2, 2))


def turned(degrees: bool = False, **options: Any) -> Pair:
    boxes = TURNED.double()
    ours = visops.roi_align_rotated(MAPS.double(), boxes, 3, 0.5, 2, degrees=degrees, **options)
    expected = pooling_reference.roi_align_rotated(
        MAPS.numpy(), boxes.numpy(), (3, 3), 0.5, 2, degrees=degrees, **options
    )
    return ours, expected


def aligned() -> Pair:
    ours = visops.roi_align(MAPS, ROIS, 5, 0.5, 2, True)
    return ours, theirs(MAPS, ROIS, 5, 0.5, 2, True)


TORCHVISION: dict[str, Row] = {
    "roi_align(...), RoIAlign(...)": (
        lambda: (
            torch.cat(
                [visops.roi_align(MAPS, LISTS, 5, 0.5, 2), visops.RoIAlign(5, 0.5, 2)(MAPS, ROIS)]
            ),
            torch.cat(
                [theirs(MAPS, LISTS, 5, 0.5, 2), torchvision.ops.RoIAlign(5, 0.5, 2)(MAPS, ROIS)]
            ),
        ),
        1e-5,
    ),
    "float16: coordinates and sums in float16": (half, 0),
    "boxes of the maps' dtype": (other_dtypes, 1e-5),
    "channels_last is copied to NCHW": (layouts, 1e-5),
    "a NaN or an infinite coordinate": (bad_boxes, 0),
    "no gradient for boxes, no second derivative": (gradients, 0),
    "MultiScaleRoIAlign, two maps of the same scale": (equal_scales, 1e-5),
    "MultiScaleRoIAlign, names of maps that skip a level": (skipped_level, 1e-5),
}
DETECTRON2: dict[str, Row] = {
    "ROIAlign(output_size, spatial_scale, sampling_ratio, aligned=True)(x, rois)": (aligned, 1e-5),
    "ROIPooler(output_size, scales, sampling_ratio": (pooler, 1e-5),
    'pooler_type="ROIAlign"': (
        lambda: (
            visops.roi_align(MAPS, ROIS, 5, 0.5, 2, aligned=False),
            theirs(MAPS, ROIS, 5, 0.5, 2),
        ),
        1e-5,
    ),
    "canonical_box_size": (pooler, 1e-5),
}
MMCV: dict[str, Row] = {
    "roi_align(x, rois, output_size, spatial_scale": (aligned, 1e-5),
    'pool_mode="avg", "max"': (largest, 1e-12),
    'pool_mode="max", a box of size 0': (without_samples, 0),
}
MMDET: dict[str, Row] = {
    "RoIAlign(out_size, spatial_scale, sample_num, use_torchvision, aligned) of version 1": (
        lambda: (
            compat.RoIAlign(5, 0.5, 2, False, True)(MAPS, ROIS),
            theirs(MAPS, ROIS, 5, 0.5, 2, True),
        ),
        1e-5,
    ),
    "SingleRoIExtractor: level floor(log2(scale / finest_scale + 1e-6))": (extractor, 1e-5),
}
POOLING: dict[str, Row] = {
    "torchvision.ops.roi_pool(input, boxes, output_size, spatial_scale)": (
        lambda: (
            visops.roi_pool(MAPS, ROIS, 3, 0.5),
            torchvision.ops.roi_pool(MAPS, ROIS, 3, 0.5),
        ),
        0,
    ),
    "torchvision.ops.ps_roi_align(": (
        lambda: (
            visops.ps_roi_align(MAPS.repeat(1, 4, 1, 1), ROIS, 2, 0.5, 2),
            torchvision.ops.ps_roi_align(MAPS.repeat(1, 4, 1, 1), ROIS, 2, 0.5, 2),
        ),
        1e-5,
    ),
    "detectron2: ROIAlignRotated(": (lambda: turned(degrees=True), 1e-10),
    "mmcv: roi_align_rotated(": (lambda: turned(aligned=False, clockwise=True), 1e-10),
}
