"""Results of the kernels of pairwise overlaps, to compare between kernels."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import torch
from suppression.nms_cases import BOXES, FLOATING, INTEGER, LAYOUTS
from torch import Tensor

from boxes.iou_cases import FUNCTIONS, SIZES, pair_of_sets, rotated_boxes, rotated_grid

OPS = torch.ops.visops
SHARES = ("iof", "iof2")
DTYPES = [(d, d) for d in (*FLOATING, torch.int32)]
DTYPES += [(torch.float32, torch.float64), (torch.float16, torch.int64)]
LARGER = ((70, 90), (400, 300))  # more than one task
# Emulated threads take a while.
LARGER_DTYPES = ((torch.float32, torch.float32), (torch.float64, torch.float64))


def bits(tensor: Tensor) -> np.ndarray:
    """Values as integers, so that -0 is not 0; all NaNs become one."""
    tensor = torch.where(tensor.isnan(), torch.nan, tensor).cpu()
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return tensor.view(whole).numpy()


def grads(rng: np.random.Generator, values: Tensor) -> Iterator[Tensor]:
    """The same gradient twice, by rows and by columns."""
    grad = torch.from_numpy(rng.standard_normal(values.shape)).to(values.dtype)
    yield grad.to(values.device)
    yield grad.mT.contiguous().mT.to(values.device)


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Names and results of every operator, dtype and kind of boxes; layouts take turns."""
    rng = np.random.default_rng(0)
    layout = itertools.cycle(LAYOUTS.values())
    for kind, dtypes, measure in itertools.product(BOXES, DTYPES, (*FUNCTIONS, *SHARES)):
        if kind == "odd" and any(d in INTEGER for d in dtypes):
            continue  # NaN is no integer
        larger = LARGER if kind == "clusters" and dtypes in LARGER_DTYPES else ()
        for count1, count2 in (*SIZES[3:], *larger):
            sets = pair_of_sets(kind, count1, count2, torch.float64)
            boxes1, boxes2 = (
                next(layout)(boxes.clamp(-1e4, 1e4).to(dtype)).to(device)
                for boxes, dtype in zip(sets, dtypes, strict=True)
            )
            name = f"{kind}-{dtypes}-{measure}-{count1}-{count2}"
            values = OPS.box_iou(boxes1, boxes2, measure)
            yield f"overlap-{name}", bits(values)
            if not boxes1.is_floating_point():
                continue
            for i, grad in enumerate(grads(rng, values)):
                gradient = OPS.box_iou_backward(grad, boxes1, boxes2, measure, 1e-7)
                yield f"gradient-{name}-{i}", bits(gradient)
    for boxes_of, dtypes in itertools.product((rotated_boxes, rotated_grid), DTYPES):
        for count1, count2 in SIZES[3:]:
            boxes1 = next(layout)(torch.from_numpy(boxes_of(rng, count1)).to(dtypes[0]))
            boxes2 = next(layout)(torch.from_numpy(boxes_of(rng, count2)).to(dtypes[1]))
            boxes1, boxes2 = boxes1.to(device), boxes2.to(device)
            name = f"{boxes_of.__name__}-{dtypes}-{count1}-{count2}"
            for measure in ("iou", *SHARES):
                values = OPS.box_iou_rotated(boxes1, boxes2, measure)
                yield f"overlap-{name}-{measure}", bits(values)
                if not boxes1.is_floating_point():
                    continue
                for i, grad in enumerate(grads(rng, values)):
                    gradient = OPS.box_iou_rotated_backward(grad, boxes1, boxes2, measure)
                    yield f"gradient-{name}-{measure}-{i}", bits(gradient)


def check(found: dict[str, np.ndarray]) -> None:
    """There are that many cases, and most have more than two values."""
    assert len(found) > 4500
    assert np.mean([np.unique(v).size > 2 for v in found.values()]) > 0.8
