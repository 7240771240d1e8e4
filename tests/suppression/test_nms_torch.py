"""The suppression operators within torch: opcheck, compile, export, vmap, fake tensors, threads."""

from __future__ import annotations

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


# One that few boxes, one that all of many, and one that none survive.
EXTREMES: list[tuple[Tensor, Tensor]] = [
    (torch.tensor([[0.0, 0, 9, 9]]).repeat(50, 1), torch.rand(50)),
    (torch.arange(50.0)[:, None] * 10 + torch.tensor([0.0, 0, 9, 9]), torch.rand(50)),
    (torch.rand(50, 4), torch.full((50,), -1.0)),
]


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32], ids=str)
def test_opcheck(dtype: torch.dtype, layout: str) -> None:
    boxes, scores, idxs = sample()
    boxes = LAYOUTS[layout](boxes.to(dtype))
    torch.library.opcheck(OPS.nms, (boxes, scores, 0.5))
    torch.library.opcheck(OPS.nms, (boxes, scores, 0.5, 7, 0.25))
    torch.library.opcheck(OPS.batched_nms, (boxes, scores, idxs, 0.5, 7, 0.25))
    boxes, values = batch()
    boxes = LAYOUTS[layout](boxes.nan_to_num(0, 0, 0).to(dtype))
    torch.library.opcheck(OPS.batched_nms, (boxes, values[..., 0], None, 0.5, 7, 0.25))
    torch.library.opcheck(OPS.batched_nms, (boxes, values, None, 0.5))
    torch.library.opcheck(OPS.nms_padded, (boxes, values[..., 0], 0.5, 7))
    torch.library.opcheck(OPS.nms_padded, (boxes, values[..., 0], 0.5, 30, 0.25))


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1, 2])
def test_opcheck_of_few(count: int) -> None:
    boxes, scores, idxs = sample(count)
    torch.library.opcheck(OPS.nms, (boxes, scores, 0.5))
    torch.library.opcheck(OPS.batched_nms, (boxes, scores, idxs, 0.5))
    torch.library.opcheck(OPS.nms_padded, (boxes[None], scores[None], 0.5, 2))


@pytest.mark.slow
def test_opcheck_with_gradients() -> None:
    boxes, scores, idxs = sample()
    boxes.requires_grad_(), scores.requires_grad_()
    torch.library.opcheck(OPS.nms, (boxes, scores, 0.5))
    torch.library.opcheck(OPS.batched_nms, (boxes, scores, idxs, 0.5))
    torch.library.opcheck(OPS.nms_padded, (boxes[None], scores[None], 0.5, 9))


def detections(boxes: Tensor, scores: Tensor, idxs: Tensor) -> tuple[Tensor, ...]:
    """What is around suppression in a detector."""
    grown = boxes + boxes.new_tensor([-1, -1, 1, 1])
    kept = visops.nms(grown, scores * 2, 0.5, score_threshold=0.0)
    among = visops.batched_nms(grown, scores, idxs, 0.5, max_output=20)
    return grown[kept], scores[kept] + 1, grown[among].sum(0)


def problems() -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    for boxes, scores in EXTREMES:
        yield boxes, scores, torch.arange(len(boxes)) % 3
    yield sample(40)
    yield sample(77)
    yield sample(300)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", "eager"])
def test_compile(backend: str) -> None:
    compilations = 0

    def counting(graph: Any, inputs: Any) -> Any:
        nonlocal compilations
        compilations += 1
        return torch._dynamo.lookup_backend(backend)(graph, inputs)

    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(detections, fullgraph=True, dynamic=True, backend=counting)
        for problem in problems():
            for ours, wanted in zip(compiled(*problem), detections(*problem), strict=True):
                assert torch.equal(ours, wanted)
    assert compilations == 1


@pytest.mark.slow
def test_compile_batches() -> None:
    def step(boxes: Tensor, scores: Tensor) -> Tensor:
        rows = visops.batched_nms(boxes, scores, None, 0.5, score_threshold=0.0)
        indices, count = visops.nms_padded(boxes, scores[..., 0], 0.5, boxes.shape[1] // 2)
        return rows.sum(0) + (indices.sum() + count.sum())

    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(step, fullgraph=True, dynamic=True, backend="aot_eager")
        for size in ((3, 20, 4), (5, 50, 2), (2, 7, 9)):
            assert torch.equal(compiled(*batch(*size)), step(*batch(*size)))


@pytest.mark.slow
def test_compile_after_filters() -> None:
    """Sizes that are not known, and not known to be equal."""

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
    def forward(self, boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        kept = visops.nms(boxes, scores, 0.5, score_threshold=0.0)
        return boxes[kept], scores[kept] * 2


@pytest.mark.slow
def test_export() -> None:
    """A program for 0, 1 and any other number of results, whichever it was exported with."""
    count = torch.export.Dim("count")
    shapes = {"boxes": {0: count}, "scores": {0: count}}
    for example in EXTREMES:
        program = torch.export.export(Detect(), example, dynamic_shapes=shapes).module()
        for boxes, scores in (*EXTREMES, sample(123)[:2]):
            expected = Detect()(boxes, scores)
            for ours, wanted in zip(program(boxes, scores), expected, strict=True):
                assert torch.equal(ours, wanted)
    found = {len(Detect()(*example)[0]) for example in EXTREMES}
    assert found == {0, 1, 50}


class DetectPadded(torch.nn.Module):
    def forward(self, boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return visops.nms_padded(boxes, scores, 0.5, 10, score_threshold=0.0)


@pytest.mark.slow
def test_export_of_fixed_sizes() -> None:
    example = sample()[0][None], sample()[1][None]
    program = torch.export.export(DetectPadded(), example)
    shapes = [tuple(n.meta["val"].shape) for n in program.graph.nodes if n.name == "getitem"]
    assert shapes == [(1, 10)]
    for boxes in (example[0], example[0].flip(1)):
        expected = DetectPadded()(boxes, example[1])
        for ours, wanted in zip(program.module()(boxes, example[1]), expected, strict=True):
            assert torch.equal(ours, wanted)


VMAPS: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int | None, int | None]]] = [
    ((5, 2, 30, 4), (5, 2, 30), (0, 0)),
    ((5, 2, 30, 4), (2, 30), (0, None)),
    ((2, 30, 4), (5, 2, 30), (None, 0)),
    ((2, 5, 30, 4), (2, 30, 5), (1, 2)),
    ((2, 30, 4, 5), (5, 2, 30), (3, 0)),
    ((5, 0, 30, 4), (5, 0, 30), (0, 0)),
]


@pytest.mark.parametrize(("box_shape", "score_shape", "in_dims"), VMAPS, ids=str)
@pytest.mark.parametrize("options", [(7, None), (40, 0.25), (0, None)], ids=str)
def test_vmap(options: Any, box_shape: Any, score_shape: Any, in_dims: Any) -> None:
    rng = np.random.default_rng(2)
    # Corners and sides, wherever their dimension is.
    boxes = torch.from_numpy(rng.integers(0, 10, box_shape) * 1.0)
    boxes = boxes.sort(box_shape.index(4))[0]
    scores = torch.from_numpy(rng.random(score_shape))
    most, least = options

    def suppress(boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return visops.nms_padded(boxes, scores, 0.2, most, score_threshold=least)

    found = torch.vmap(suppress, in_dims=in_dims)(boxes, scores)
    for i in range(5):
        own = [
            t if d is None else t.select(d, i)
            for t, d in zip((boxes, scores), in_dims, strict=True)
        ]
        for ours, wanted in zip(found, suppress(*own), strict=True):
            assert torch.equal(ours[i], wanted)


def test_vmap_of_vmap() -> None:
    boxes, scores, _ = sample(120)

    def suppress(boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return visops.nms_padded(boxes[None], scores[None], 0.4, 12)

    found = torch.vmap(torch.vmap(suppress))(boxes.reshape(2, 3, 20, 4), scores.reshape(2, 3, 20))
    expected = visops.nms_padded(boxes.reshape(6, 20, 4), scores.reshape(6, 20), 0.4, 12)
    assert torch.equal(found[0].reshape(6, 12), expected[0])
    assert torch.equal(found[1].reshape(6), expected[1])


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_of_what_has_any_size() -> None:
    """Results that differ in size can't be one tensor."""
    boxes = torch.stack([EXTREMES[0][0], EXTREMES[1][0]])
    with pytest.raises(RuntimeError, match=r"vmap|size|shape"):
        torch.vmap(lambda b, s: visops.nms(b, s, 0.5))(boxes, torch.rand(2, 50))


def test_inputs_that_require_grad() -> None:
    """Indices have no gradient; what they select has."""
    boxes, scores, idxs = sample()
    expected = visops.nms(boxes, scores, 0.5)
    boxes.requires_grad_(), scores.requires_grad_()
    kept = visops.nms(boxes, scores, 0.5)
    assert torch.equal(kept, expected)
    (boxes[kept].sum() + scores[kept].square().sum()).backward()
    assert boxes.grad is not None
    assert scores.grad is not None
    assert torch.equal(boxes.grad.sum(1) > 0, torch.isin(torch.arange(40), expected))
    results = [visops.batched_nms(boxes, scores, idxs, 0.5)]
    results += visops.nms_padded(boxes[None], scores[None], 0.5, 9)
    assert not any(r.requires_grad for r in (kept, *results))


def test_inference_mode_and_autocast() -> None:
    boxes, scores, _ = sample()
    expected = visops.nms(boxes, scores, 0.5)
    with torch.inference_mode():
        assert torch.equal(visops.nms(boxes.clone(), scores, 0.5), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(visops.nms(boxes, scores, 0.5), expected)


def test_fake_tensors() -> None:
    """A size that is not known yet, and may be 0 or 1."""
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        boxes, scores, idxs = (mode.from_tensor(t) for t in sample())
        images, values = (mode.from_tensor(t) for t in batch())
        for result, columns in (
            (visops.nms(boxes, scores, 0.5), ()),
            (visops.batched_nms(boxes, scores, idxs, 0.5), ()),
            (visops.batched_nms(images, values[..., 0], None, 0.5), (2,)),
            (visops.batched_nms(images, values, None, 0.5), (3,)),
        ):
            assert (result.dtype, result.device.type) == (torch.int64, "cpu")
            count, *rest = result.shape
            assert tuple(rest) == columns
            assert isinstance(count, torch.SymInt)
            bounds = mode.shape_env.bound_sympy(count.node.expr)
            assert bounds.lower == 0
        indices, kept = visops.nms_padded(images, values[..., 0], 0.5, 7)
    assert (indices.shape, kept.shape) == ((3, 7), (3,))
    assert indices.dtype == kept.dtype == torch.int64


def test_meta_tensors() -> None:
    images, values = (t.to("meta") for t in batch())
    indices, kept = visops.nms_padded(images, values[..., 0], 0.5, 7)
    assert (indices.shape, kept.shape) == ((3, 7), (3,))
    assert indices.dtype == kept.dtype == torch.int64
    assert indices.is_meta


@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize("kind", BOXES)
def test_threads_change_nothing(kind: str) -> None:
    rng = np.random.default_rng(3)
    count = 700
    boxes = torch.from_numpy(np.stack([BOXES[kind](rng, count) for _ in range(3)])).float()
    scores = torch.from_numpy(SCORES["tied"](rng, (3, count, 2))).float()
    idxs = torch.from_numpy(rng.integers(0, 5, count))
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        results.append(
            (
                visops.nms(boxes[0], scores[0, :, 0], 0.5),
                visops.batched_nms(boxes[0], scores[0, :, 0], idxs, 0.5),
                visops.batched_nms(boxes, scores, None, 0.5, max_output=300),
                *visops.nms_padded(boxes, scores[..., 0], 0.5, 400),
            )
        )
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@pytest.mark.cuda
def test_padded_waits_for_nothing() -> None:
    boxes, values = (t.cuda() for t in batch())
    scores = values[..., 0].contiguous()
    expected = visops.nms_padded(boxes, scores, 0.5, 15, score_threshold=0.0)
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = visops.nms_padded(boxes, scores, 0.5, 15, score_threshold=0.0)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for ours, wanted in zip(found, expected, strict=True):
        assert torch.equal(ours, wanted)


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
