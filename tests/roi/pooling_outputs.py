"""All that the other poolings' kernels compute, to be run once per backend and compared."""

from __future__ import annotations

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


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Yield names and results for every operator, dtype and kind of boxes; layouts rotate."""
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
