"""Soft, rotated and matching suppression within torch: opcheck, compile, export, fake tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import visops
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from suppression.nms_cases import BOXES, LAYOUTS, SCORES, batch_boxes, distinct_scores

OPS = torch.ops.visops
METHODS = ("linear", "gaussian", "hard")


def sample(count: int = 40, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """Boxes [N, 4], scores [N] and ids [N]."""
    rng = np.random.default_rng(0)
    boxes = torch.from_numpy(BOXES["clusters"](rng, count)).to(dtype)
    scores = torch.from_numpy(distinct_scores(rng, count)).to(dtype)
    return boxes, scores, torch.from_numpy(rng.integers(-2, 3, count))


def batch(images: int = 3, count: int = 20, classes: int = 4) -> tuple[Tensor, Tensor]:
    """Boxes [B, N, 4] and scores [B, N, C]."""
    rng = np.random.default_rng(1)
    boxes = torch.from_numpy(batch_boxes(rng, images, count)).float()
    return boxes, torch.from_numpy(SCORES["wild"](rng, (images, count, classes))).float()


def turned(boxes: Tensor) -> Tensor:
    """Corners as rotated boxes [N, 5]."""
    middle, size = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
    return torch.cat([middle, size, middle.sum(1, keepdim=True)], 1)


# One that few boxes, one that all of many, and one that none survive.
EXTREMES: list[tuple[Tensor, Tensor]] = [
    (torch.tensor([[0.0, 0, 9, 9]]).repeat(50, 1), torch.rand(50) + 0.5),
    (torch.arange(50.0)[:, None] * 15 + torch.tensor([0.0, 0, 9, 9]), torch.rand(50) + 0.5),
    (torch.rand(50, 4), torch.full((50,), -1.0)),
]


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32], ids=str)
def test_opcheck(dtype: torch.dtype, layout: str) -> None:
    boxes, scores, idxs = sample()
    boxes = LAYOUTS[layout](boxes.to(dtype))
    torch.library.opcheck(OPS.soft_nms, (boxes, scores))
    torch.library.opcheck(OPS.soft_nms, (boxes, scores, "gaussian", 0.3, 0.25, 0.1, 7))
    torch.library.opcheck(OPS.batched_soft_nms, (boxes, scores, idxs, "linear", 0.5))
    torch.library.opcheck(OPS.nms_match, (boxes, scores, 0.5))
    rotated = LAYOUTS[layout](turned(boxes.float()).to(dtype))
    torch.library.opcheck(OPS.nms_rotated, (rotated, scores, None, 0.5))
    torch.library.opcheck(OPS.nms_rotated, (rotated, scores, idxs, 0.5, 7, 0.25))
    boxes, values = batch()
    boxes = LAYOUTS[layout](boxes.nan_to_num(0, 0, 0).to(dtype))
    torch.library.opcheck(OPS.batched_soft_nms, (boxes, values[..., 0], None, "hard"))
    torch.library.opcheck(OPS.batched_soft_nms, (boxes, values, None))


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1, 2])
def test_opcheck_of_few(count: int) -> None:
    boxes, scores, idxs = sample(count)
    torch.library.opcheck(OPS.soft_nms, (boxes, scores))
    torch.library.opcheck(OPS.batched_soft_nms, (boxes, scores, idxs))
    torch.library.opcheck(OPS.nms_match, (boxes, scores, 0.5))
    torch.library.opcheck(OPS.nms_rotated, (turned(boxes), scores, None, 0.5))


@pytest.mark.slow
def test_opcheck_with_gradients() -> None:
    boxes, scores, idxs = sample()
    boxes.requires_grad_(), scores.requires_grad_()
    torch.library.opcheck(OPS.soft_nms, (boxes, scores))
    torch.library.opcheck(OPS.batched_soft_nms, (boxes, scores, idxs))
    torch.library.opcheck(OPS.nms_match, (boxes, scores, 0.5))
    torch.library.opcheck(OPS.nms_rotated, (turned(boxes), scores, None, 0.5))


def problems() -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    for boxes, scores in EXTREMES:
        yield boxes, scores, torch.arange(len(boxes)) % 3
    yield sample(40)
    yield sample(77)
    yield sample(300)


def detections(boxes: Tensor, scores: Tensor, idxs: Tensor) -> tuple[Tensor, ...]:
    """What is around suppression in a detector."""
    grown = boxes + boxes.new_tensor([-1, -1, 1, 1])
    kept, lowered = visops.soft_nms(grown, scores * 2, method="gaussian", min_score=0.5)
    rows, values = visops.batched_soft_nms(grown, scores, idxs, max_output=20, min_score=0.1)
    straight = visops.nms_rotated(turned(grown), scores, 0.5, idxs=idxs, score_threshold=0.0)
    matched = torch.ops.visops.nms_match(grown, scores, 0.5)
    return grown[kept], lowered + 1, grown[rows].sum(0), values * 2, straight + 1, matched - 1


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", "eager"])
def test_compile(backend: str) -> None:
    torch._dynamo.reset()
    options: Any = {"capture_dynamic_output_shape_ops": True, "error_on_recompile": True}
    with torch._dynamo.config.patch(**options):
        compiled = torch.compile(detections, fullgraph=True, dynamic=True, backend=backend)
        sizes = set()
        for problem in problems():
            expected = detections(*problem)
            for ours, wanted in zip(compiled(*problem), expected, strict=True):
                assert torch.equal(ours, wanted)
            sizes.add(len(expected[0]))
    assert {0, 1, 50} < sizes


@pytest.mark.slow
def test_compile_batches() -> None:
    def step(boxes: Tensor, scores: Tensor) -> tuple[Tensor, ...]:
        rows, values = visops.batched_soft_nms(boxes, scores, None, min_score=0.25)
        images, lowered = visops.batched_soft_nms(boxes, scores[..., 0], None, method="hard")
        return rows.sum(0), values * 2, images.sum(0), lowered + 1

    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(step, fullgraph=True, dynamic=True, backend="aot_eager")
        for size in ((3, 20, 4), (5, 50, 2), (2, 7, 9)):
            for ours, wanted in zip(compiled(*batch(*size)), step(*batch(*size)), strict=True):
                assert torch.equal(ours, wanted)


class Detect(torch.nn.Module):
    def forward(self, boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        kept, lowered = visops.soft_nms(boxes, scores, method="gaussian", min_score=0.3)
        straight = visops.nms_rotated(turned(boxes), scores, 0.5, score_threshold=0.0)
        return boxes[kept], lowered * 2, straight


@pytest.mark.slow
def test_export() -> None:
    """A program for 0, 1 and any other number of results, whichever it was exported with."""
    count = torch.export.Dim("count")
    shapes = {"boxes": {0: count}, "scores": {0: count}}
    found = {len(Detect()(*example)[2]) for example in EXTREMES}
    assert found == {0, 1, 50}
    for example in EXTREMES:
        program = torch.export.export(Detect(), example, dynamic_shapes=shapes).module()
        for boxes, scores in (*EXTREMES, sample(123)[:2]):
            expected = Detect()(boxes, scores)
            for ours, wanted in zip(program(boxes, scores), expected, strict=True):
                assert torch.equal(ours, wanted)


@pytest.mark.parametrize("method", METHODS)
def test_inputs_that_require_grad(method: str) -> None:
    """Neither indices nor lowered scores have a gradient; what indices select has."""
    boxes, scores, idxs = sample()
    expected = visops.soft_nms(boxes, scores, method=method)
    boxes.requires_grad_(), scores.requires_grad_()
    kept, lowered = visops.soft_nms(boxes, scores, method=method)
    assert torch.equal(kept, expected[0])
    assert torch.equal(lowered, expected[1])
    results = [kept, lowered, *visops.batched_soft_nms(boxes, scores, idxs, method=method)]
    results += [visops.nms_rotated(turned(boxes), scores, 0.5)]
    results += visops.nms_match(boxes, scores, 0.5)
    assert not any(r.requires_grad for r in results)
    (boxes[kept].sum() + scores[kept].square().sum()).backward()
    assert boxes.grad is not None
    assert torch.equal(boxes.grad.sum(1) > 0, torch.isin(torch.arange(40), kept))


def test_inference_mode_and_autocast() -> None:
    boxes, scores, _ = sample()

    def everything() -> list[Tensor]:
        found = [*visops.soft_nms(boxes, scores, method="gaussian")]
        found += [visops.nms_rotated(turned(boxes), scores, 0.5)]
        return found + visops.nms_match(boxes, scores, 0.5)

    expected = everything()
    with torch.inference_mode():
        assert all(torch.equal(a, b) for a, b in zip(everything(), expected, strict=True))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert all(torch.equal(a, b) for a, b in zip(everything(), expected, strict=True))


def test_fake_tensors() -> None:
    """Sizes that are not known yet, and may be 0 or 1."""
    shapes = ShapeEnv()
    with FakeTensorMode(shape_env=shapes) as mode:
        boxes, scores, idxs = (mode.from_tensor(t) for t in sample())
        half = scores.half()
        images, values = (mode.from_tensor(t) for t in batch())
        results: list[tuple[Any, tuple[int, ...], torch.dtype]] = [
            (visops.soft_nms(boxes, half), (), torch.float16),
            (visops.batched_soft_nms(boxes, scores, idxs), (), torch.float32),
            (visops.batched_soft_nms(images, values[..., 0], None), (2,), torch.float32),
            (visops.batched_soft_nms(images, values.double(), None), (3,), torch.float64),
            ((visops.nms_rotated(turned(boxes), scores, 0.5), None), (), torch.int64),
        ]
        for (rows, lowered), columns, dtype in results:
            assert (rows.dtype, rows.device.type) == (torch.int64, "cpu")
            count, *rest = rows.shape
            assert tuple(rest) == columns
            assert isinstance(count, torch.SymInt)
            bounds = shapes.bound_sympy(count.node.expr)
            assert bounds.lower == 0
            if lowered is not None:
                assert (lowered.dtype, lowered.dim()) == (dtype, 1)
                assert lowered.shape[0].node.expr == count.node.expr
        matched = OPS.nms_match(boxes, scores, 0.5)
        assert (matched.dtype, matched.shape) == (torch.int64, (40,))


def test_meta_tensors() -> None:
    """What has a size of its own can be computed without values."""
    boxes, scores, _ = (t.to("meta") for t in sample())
    matched = OPS.nms_match(boxes, scores, 0.5)
    assert (matched.dtype, matched.shape, matched.is_meta) == (torch.int64, (40,), True)


@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize("kind", BOXES)
def test_threads_change_nothing(kind: str) -> None:
    rng = np.random.default_rng(3)
    count = 700
    boxes = torch.from_numpy(np.stack([BOXES[kind](rng, count) for _ in range(3)])).float()
    scores = torch.from_numpy(SCORES["tied"](rng, (3, count, 2))).float()
    idxs = torch.from_numpy(rng.integers(0, 5, count))
    angle = torch.from_numpy(rng.uniform(-math.pi, math.pi, (count, 1))).float()
    rotated = torch.cat([turned(boxes[0])[:, :4], angle], 1)
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        results.append(
            [
                *visops.batched_soft_nms(boxes[0], scores[0, :, 0], idxs, method="gaussian"),
                *visops.batched_soft_nms(boxes, scores, None, max_output=300),
                visops.nms_rotated(rotated, scores[0, :, 0], 0.3, idxs=idxs),
                OPS.nms_match(boxes[0], scores[0, :, 0], 0.3),
            ]
        )
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))
