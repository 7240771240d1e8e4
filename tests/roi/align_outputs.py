"""All that RoIAlign's kernels compute, to be run once per backend and compared."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from boxes.iou_outputs import bits as bits_of_floats
from torch import Tensor

from roi.align_cases import (
    BOXES,
    FLOATING,
    LAYOUTS,
    OPTIONS,
    boxes_of,
    maps_of,
    proposals,
    pyramid_of,
)

OPS = torch.ops.visops
SCALES = [1 / 4, 1 / 8, 1 / 16]


def bits(tensor: Tensor) -> np.ndarray:
    return bits_of_floats(tensor) if tensor.is_floating_point() else tensor.cpu().numpy()


def random_like(values: Tensor, layout: str) -> Tensor:
    rng = np.random.default_rng(5)
    grad = torch.from_numpy(rng.standard_normal(values.shape)).to(values.dtype)
    return LAYOUTS[layout](grad).to(values.device)


def of_one_map(
    maps: Tensor, boxes: Tensor, options: Any, layout: str
) -> Iterator[tuple[str, Tensor]]:
    """Both reductions and their gradients."""
    bins, *rest = options
    last = "last" in layout
    values = OPS.roi_align(maps, boxes, bins, *rest)
    largest, index = OPS.roi_align_max(maps, boxes, bins, *rest)
    yield "mean", values
    yield "max", largest
    yield "index", index
    yield "max-at", OPS.roi_align_max_at(maps.flip(3), index, boxes, bins, *rest)
    if not maps.is_floating_point():
        return
    grad = random_like(values, "channels_last" if last else "contiguous")
    yield "input", OPS.roi_align_backward_input(grad, boxes, maps.shape, *rest, last)
    arguments = (grad, index, boxes, maps.shape, *rest, not last)
    yield "max-input", OPS.roi_align_max_backward_input(*arguments)
    if boxes.is_floating_point():
        yield "boxes", OPS.roi_align_backward_boxes(grad, maps, boxes, *rest)
        yield "max-boxes", OPS.roi_align_max_backward_boxes(grad, index, maps, boxes, *rest)


def of_pyramid(
    maps: list[Tensor], boxes: Tensor, rule: str, lasts: list[bool]
) -> Iterator[tuple[str, Tensor]]:
    levels = (SCALES, 2, True, 60.0, 4, rule)
    values = OPS.multiscale_roi_align(maps, boxes, (3, 3), *levels)
    yield "mean", values
    grad = random_like(values, "sliced")
    sizes = [size for m in maps for size in m.shape[2:]]
    gradients = OPS.multiscale_roi_align_backward_input(grad, boxes, sizes, 2, *levels, lasts)
    yield from ((f"input{i}", g) for i, g in enumerate(gradients))
    yield "boxes", OPS.multiscale_roi_align_backward_boxes(grad, maps, boxes, *levels)


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Yield names and results for every operator, dtype and kind of boxes; layouts rotate."""
    layout = itertools.cycle(LAYOUTS)
    channels = itertools.cycle((1, 3, 18, 33))
    for kind, dtype, options in itertools.product(BOXES, (*FLOATING, torch.uint8), OPTIONS):
        name, count = next(layout), next(channels)
        size = (2, count, 10, 10) if kind == "torchvision" else (2, count, 9, 11)
        numbers = torch.from_numpy(maps_of(size)) * 200
        maps = LAYOUTS[name]((numbers if dtype == torch.uint8 else numbers - 90).to(dtype))
        boxes = torch.from_numpy(boxes_of(kind, 7, options[1]))
        boxes = boxes.to(dtype if dtype != torch.uint8 else torch.float32)
        case = f"{kind}-{dtype}-{options}-{name}-{count}"
        for what, found in of_one_map(maps.to(device), boxes.to(device), options, name):
            yield f"{what}-{case}", bits(found)
    # More than one task, block and tile; slices of channels.
    rng = np.random.default_rng(0)
    for dtype, name in itertools.product(
        (torch.float32, torch.bfloat16), ("contiguous", "channels_last")
    ):
        maps = LAYOUTS[name](torch.from_numpy(rng.standard_normal((2, 70, 40, 50))).to(dtype))
        boxes = proposals(rng, 60, 80, 100)
        for what, found in of_one_map(
            maps.to(device), boxes.to(device), ((7, 7), 0.5, 2, False), name
        ):
            yield f"{what}-larger-{dtype}-{name}", bits(found)
    # More bins than a block has room for.
    for dtype, name in zip(FLOATING, itertools.cycle(("contiguous", "channels_last"))):
        maps = LAYOUTS[name](torch.from_numpy(maps_of((2, 3, 9, 11))).to(dtype)).to(device)
        boxes = proposals(rng, 5, 9, 11).to(device)
        for what, found in of_one_map(maps, boxes, ((1, 400), 1.0, 2, False), name):
            yield f"{what}-bins-{dtype}-{name}", bits(found)
    for dtype, rule in itertools.product(FLOATING, ("torchvision", "detectron2")):
        names = [next(layout) for _ in SCALES]
        maps_of_levels = [
            LAYOUTS[name](m).to(device)
            for name, m in zip(names, pyramid_of(3, 60, 80, dtype, 5), strict=True)
        ]
        boxes = proposals(rng, 70, 240, 320).to(torch.float64 if rule == "detectron2" else dtype)
        lasts = ["last" in name for name in names]
        for what, found in of_pyramid(maps_of_levels, boxes.to(device), rule, lasts):
            yield f"{what}-pyramid-{dtype}-{rule}-{names}", bits(found)
    far = torch.tensor([[0.0, -1e30, -1e30, 1e30, 1e30], [0, 0, 0, 3e38, 1], [1, 0, 0, 1e5, 1e5]])
    maps = torch.from_numpy(maps_of((2, 3, 9, 11))).float()
    for what, found in of_one_map(
        maps.to(device), far.to(device), ((2, 3), 1.0, -1, True), "contiguous"
    ):
        yield f"{what}-far", bits(found)


def check(found: dict[str, np.ndarray]) -> None:
    """That many cases, and not where all boxes are one."""
    assert len(found) > 2000
    assert np.mean([np.unique(v).size > 2 for v in found.values()]) > 0.7
