"""All that the other poolings' kernels compute, to be run once per backend and compared."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from boxes.iou_outputs import bits
from torch import Tensor

from roi.align_cases import BOXES, FLOATING, LAYOUTS
from roi.pooling_cases import OPS, OUTPUT_SIZE, POOLINGS, problem

SCALES = (1.0, 0.3)
# What the operators take after spatial_scale.
OPTIONS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "roi_pool": ((),),
    "ps_roi_align": ((-1,), (2,)),
    "roi_align_rotated": (
        (-1, True, False, False),
        (3, False, True, False),
        (1, True, False, True),
    ),
}


def numbers(tensor: Tensor) -> np.ndarray:
    return bits(tensor) if tensor.is_floating_point() else tensor.cpu().numpy()


def of_maps(dtype: torch.dtype, maps: Tensor) -> Tensor:
    """With infinities, NaN and ties."""
    if dtype == torch.uint8:
        return (maps * 255).byte()
    maps = (maps - 0.5).to(dtype)
    maps.view(-1)[::97] = torch.inf
    maps.view(-1)[5::301] = torch.nan
    return maps


# Channels of the bins, boxes and output size: several slices of channels, more boxes than a CUDA
# tile lists at once, and more bins than a block has room for.
LARGE = {
    "roi_pool": ((300, 30, (7, 7)), (2, 600, (2, 2))),
    "ps_roi_align": ((7, 30, (7, 7)), (1, 600, (2, 2)), (1, 7, (1, 400))),
    "roi_align_rotated": ((150, 30, (7, 7)), (2, 600, (2, 2))),
}


def gradients_of_many(device: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yield names and gradients for many channels, boxes and bins."""
    for name, cases in LARGE.items():
        for (channels, count, size), dtype in itertools.product(cases, FLOATING):
            if dtype != torch.float32 and size != (1, 400):
                continue
            rng = np.random.default_rng(count)
            of_map = channels * (size[0] * size[1] if name == "ps_roi_align" else 1)
            shape = (2, of_map, 9, 37)
            corners = rng.uniform(-3, (30, 8), (count, 2))
            rows = [rng.integers(0, 2, (count, 1)), corners]
            if name == "roi_align_rotated":
                rows += [rng.uniform(0, 14, (count, 2)), rng.uniform(-4, 4, (count, 1))]
            else:
                rows += [corners + rng.uniform(0, 14, (count, 2))]
            boxes = torch.from_numpy(np.concatenate(rows, 1)).float().to(device)
            options = OPTIONS[name][0]
            index: list[Tensor] = []
            if name == "roi_pool":
                maps = torch.from_numpy(rng.standard_normal(shape)).to(dtype).to(device)
                index = [OPS.roi_pool(maps, boxes, size, 1.0)[1]]
            grad = torch.from_numpy(rng.standard_normal((count, channels, *size))).to(dtype)
            backward = getattr(OPS, f"{name}_backward")
            for last in (False, True):
                gradient = backward(grad.to(device), *index, boxes, shape, 1.0, *options, last)
                yield f"many-{name}-{channels}-{count}-{dtype}-{last}", numbers(gradient)


def means_of_many(device: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yield names and rotated means for many channels: adjacent ones, and bins side by side."""
    rng = np.random.default_rng(1)
    corners = [rng.integers(0, 2, (20, 1)), rng.uniform(-3, 30, (20, 2))]
    rows = [*corners, rng.uniform(0, 14, (20, 2)), rng.uniform(-4, 4, (20, 1))]
    boxes = torch.from_numpy(np.concatenate(rows, 1)).float().to(device)
    values = torch.from_numpy(rng.standard_normal((2, 150, 9, 37)))
    for dtype, (layout, lay) in itertools.product(FLOATING, LAYOUTS.items()):
        maps = lay(values.to(dtype)).to(device)
        found = OPS.roi_align_rotated(maps, boxes, (7, 11), 1.0, *OPTIONS["roi_align_rotated"][0])
        yield f"many-means-{dtype}-{layout}", numbers(found)


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Yield names and results for every operator, dtype and kind of boxes; layouts rotate."""
    yield from gradients_of_many(device)
    yield from means_of_many(device)
    layout = itertools.cycle(LAYOUTS.values())
    for name, kind, dtype in itertools.product(POOLINGS, BOXES, (*FLOATING, torch.uint8)):
        for i, (scale, channels) in enumerate(zip(SCALES, (1, 37), strict=True)):
            maps, boxes = problem(name, kind, 12, torch.float64, channels, scale, seed=i)
            values = next(layout)(of_maps(dtype, maps)).to(device)
            boxes = boxes.to((torch.float32, torch.float64, torch.float16)[len(kind) % 3])
            boxes = boxes.to(device)
            for options in OPTIONS[name]:
                if kind == "large" and options and options[0] == -1 and channels > 1:
                    continue  # slow in emulation
                case = f"{name}-{kind}-{dtype}-{scale}-{options}"
                found = getattr(OPS, name)(values, boxes, OUTPUT_SIZE, scale, *options)
                result, *index = found if name == "roi_pool" else (found,)
                yield f"values-{case}", numbers(result)
                if index:
                    yield f"index-{case}", index[0].cpu().numpy()
                    at = OPS.roi_pool_at(values, *index, boxes, scale)
                    yield f"at-{case}", numbers(at)
                if dtype == torch.uint8:
                    continue
                rng = np.random.default_rng(i)
                grad = torch.from_numpy(rng.standard_normal(result.shape)).to(dtype)
                grad = next(layout)(grad).to(device)
                backward = getattr(OPS, f"{name}_backward")
                for last in (False, True):
                    gradient = backward(grad, *index, boxes, maps.shape, scale, *options, last)
                    yield f"gradient-{case}-{last}", numbers(gradient)


def check(found: dict[str, np.ndarray]) -> None:
    """Check that there are many cases, and that results aren't all one number."""
    assert len(found) > 900
    assert np.mean([np.unique(v).size > 2 for v in found.values()]) > 0.7
