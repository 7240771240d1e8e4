"""Every suppression operator within torch: opcheck, compile, export, fakes, threads."""

import numpy as np
import pytest
import torch
import visops
from torch import Tensor

from suppression.nms_cases import BOXES, SCORES, batch_boxes, distinct_scores

METHODS = ("linear", "gaussian", "hard")


def sample(count: int = 40, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """Boxes [N, 4], scores [N] and ids [N]."""
    rng = np.random.default_rng(0)
    boxes = torch.from_numpy(BOXES["clusters"](rng, count)).to(dtype)
    scores = torch.from_numpy(distinct_scores(rng, count)).float()
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


# Boxes of which one is kept, of which all are kept, and of which none is.
EXTREMES: list[tuple[Tensor, Tensor]] = [
    (torch.tensor([[0.0, 0, 9, 9]]).repeat(50, 1), torch.rand(50) + 0.5),
    (torch.arange(50.0)[:, None] * 15 + torch.tensor([0.0, 0, 9, 9]), torch.rand(50) + 0.5),
    (torch.rand(50, 4), torch.full((50,), -1.0)),
]


def test_compile_after_filters() -> None:
    """Sizes that are unknown, and not known to be equal."""

    def step(boxes: Tensor, scores: Tensor, idxs: Tensor) -> tuple[Tensor, ...]:
        filters = [scores > 0.2, scores * 1 > 0.2, scores + 0 > 0.2]
        boxes, scores, idxs = boxes[filters[0]], scores[filters[1]], idxs[filters[2]]
        padded = visops.nms_padded(boxes[None], scores[None], 0.5, 7)
        kept = visops.nms(boxes, scores, 0.5), visops.batched_nms(boxes, scores, idxs, 0.5)
        return *padded, *kept

    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
        boxes, scores, idxs = sample()
        for values in (scores, scores * 0, scores.flip(0)):
            expected = step(boxes, values, idxs)
            for ours, wanted in zip(compiled(boxes, values, idxs), expected, strict=True):
                assert torch.equal(ours, wanted)


class Detect(torch.nn.Module):
    def forward(self, boxes: Tensor, scores: Tensor) -> tuple[Tensor, ...]:
        kept = visops.nms(boxes, scores, 0.5, score_threshold=0.0)
        soft, lowered = visops.soft_nms(boxes, scores, method="gaussian", min_score=0.3)
        straight = visops.nms_rotated(turned(boxes), scores, 0.5, score_threshold=0.0)
        return boxes[kept], scores[kept] * 2, boxes[soft], lowered * 2, straight


def test_export() -> None:
    """One program for 0, 1 and any other number of results, whichever it was exported with."""
    count = torch.export.Dim("count")
    shapes = {"boxes": {0: count}, "scores": {0: count}}
    for part in (0, 4):
        assert {len(Detect()(*example)[part]) for example in EXTREMES} == {0, 1, 50}
    for example in EXTREMES:
        program = torch.export.export(Detect(), example, dynamic_shapes=shapes).module()
        for boxes, scores in (*EXTREMES, sample(123)[:2]):
            expected = Detect()(boxes, scores)
            for ours, wanted in zip(program(boxes, scores), expected, strict=True):
                assert torch.equal(ours, wanted)


class DetectPadded(torch.nn.Module):
    def forward(self, boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return visops.nms_padded(boxes, scores, 0.5, 10, score_threshold=0.0)


def test_export_of_fixed_sizes() -> None:
    example = sample()[0][None], sample()[1][None]
    program = torch.export.export(DetectPadded(), example)
    shapes = [tuple(n.meta["val"].shape) for n in program.graph.nodes if n.name == "getitem"]
    assert shapes == [(1, 10)]
    for boxes in (example[0], example[0].flip(1)):
        expected = DetectPadded()(boxes, example[1])
        for ours, wanted in zip(program.module()(boxes, example[1]), expected, strict=True):
            assert torch.equal(ours, wanted)


def everything(boxes: Tensor, scores: Tensor, idxs: Tensor, method: str) -> list[Tensor]:
    """The results of all operators."""
    return [
        visops.nms(boxes, scores, 0.5),
        *visops.soft_nms(boxes, scores, method=method),
        visops.batched_nms(boxes, scores, idxs, 0.5),
        *visops.nms_padded(boxes[None], scores[None], 0.5, 9),
        *visops.batched_soft_nms(boxes, scores, idxs, method=method),
        visops.nms_rotated(turned(boxes), scores, 0.5),
        *visops.nms_match(boxes, scores, 0.5),
    ]


def same(found: list[Tensor], expected: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("method", METHODS)
def test_inputs_that_require_grad(method: str) -> None:
    """Neither indices nor lowered scores have a gradient; what indices select has."""
    boxes, scores, idxs = sample()
    expected = everything(boxes, scores, idxs, method)
    boxes.requires_grad_(), scores.requires_grad_()
    found = everything(boxes, scores, idxs, method)
    assert same(found, expected)
    assert not any(r.requires_grad for r in found)
    for kept in found[:2]:
        boxes.grad = scores.grad = None
        (boxes[kept].sum() + scores[kept].square().sum()).backward()
        assert boxes.grad is not None
        assert scores.grad is not None
        assert torch.equal(boxes.grad.sum(1) > 0, torch.isin(torch.arange(40), kept))


@pytest.mark.cuda
def test_padded_in_a_graph() -> None:
    boxes, values = (t.cuda() for t in batch())
    scores = values[..., 0].contiguous()
    visops.nms_padded(boxes, scores, 0.5, 15)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = visops.nms_padded(boxes, scores, 0.5, 15)
    for _ in range(2):
        graph.replay()
        for ours, wanted in zip(found, visops.nms_padded(boxes, scores, 0.5, 15), strict=True):
            assert torch.equal(ours, wanted)
        scores.copy_(scores.flip(1))
