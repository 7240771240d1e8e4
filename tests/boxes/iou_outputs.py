"""Results of the kernels of pairwise overlaps, to compare between kernels."""

import itertools
from collections.abc import Callable, Iterator

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
TURNS = 4
LARGER_DTYPES = ((torch.float32, torch.float32), (torch.float64, torch.float64))


def bits(tensor: Tensor) -> np.ndarray:
    """Values as integers, so that -0 is not 0; all NaNs become one."""
    tensor = torch.where(tensor.isnan(), torch.nan, tensor).cpu()
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return tensor.view(whole).numpy()


def grads(rng: np.random.Generator) -> Iterator[Callable[[Tensor], Tensor]]:
    """Gradients of some values, by rows and by columns in turn."""
    while True:
        for by_columns in (False, True):

            def grad(values: Tensor, by_columns: bool = by_columns) -> Tensor:
                made = torch.from_numpy(rng.standard_normal(values.shape)).to(values)
                return made.mT.contiguous().mT if by_columns else made

            yield grad


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Names and results of every operator, dtype and size; kinds of boxes and layouts take turns.

    Each dtype, measure and size has two kinds of boxes. In all, each kind has every dtype, every
    measure and every size.
    """
    rng = np.random.default_rng(0)
    layout, grad = itertools.cycle(LAYOUTS.values()), grads(rng)
    sized = itertools.product(DTYPES, (*FUNCTIONS, *SHARES), SIZES[3:])
    cases = [
        (kind, *case) for turn, case in enumerate(sized) for kind in [*BOXES][turn % TURNS :: TURNS]
    ]
    cases += [
        ("clusters", *case)
        for case in itertools.product(LARGER_DTYPES, (*FUNCTIONS, *SHARES), LARGER)
    ]
    for kind, dtypes, measure, (count1, count2) in cases:
        if kind == "odd" and any(d in INTEGER for d in dtypes):
            continue  # NaN is no integer
        sets = pair_of_sets(kind, count1, count2, torch.float64)
        boxes1, boxes2 = (
            next(layout)(boxes.clamp(-1e4, 1e4).to(dtype)).to(device)
            for boxes, dtype in zip(sets, dtypes, strict=True)
        )
        name = f"{kind}-{dtypes}-{measure}-{count1}-{count2}"
        values = OPS.box_iou(boxes1, boxes2, measure)
        yield f"overlap-{name}", bits(values)
        if boxes1.is_floating_point():
            given = next(grad)(values)
            gradient = OPS.box_iou_backward(given, boxes1, boxes2, measure, 1e-7)
            yield f"gradient-{name}", bits(gradient)
    for boxes_of, dtypes in itertools.product((rotated_boxes, rotated_grid), DTYPES):
        for count1, count2 in SIZES[3:]:
            boxes1 = next(layout)(torch.from_numpy(boxes_of(rng, count1)).to(dtypes[0]))
            boxes2 = next(layout)(torch.from_numpy(boxes_of(rng, count2)).to(dtypes[1]))
            boxes1, boxes2 = boxes1.to(device), boxes2.to(device)
            name = f"{boxes_of.__name__}-{dtypes}-{count1}-{count2}"
            for measure in ("iou", *SHARES):
                values = OPS.box_iou_rotated(boxes1, boxes2, measure)
                yield f"overlap-{name}-{measure}", bits(values)
                if boxes1.is_floating_point():
                    given = next(grad)(values)
                    gradient = OPS.box_iou_rotated_backward(given, boxes1, boxes2, measure)
                    yield f"gradient-{name}-{measure}", bits(gradient)


def check(found: dict[str, np.ndarray]) -> None:
    """There are that many cases, and most have more than two values."""
    assert len(found) > 1500
    assert np.mean([np.unique(v).size > 2 for v in found.values()]) > 0.8
