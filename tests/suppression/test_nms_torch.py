"""Suppression within torch: opcheck, compile, export, vmap, threads, torchvision's detectors."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from detectors import SMALL, photos, untrained
from torch import Tensor

from suppression.nms_cases import BOXES, SCORES, batch_boxes, distinct_scores


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


def test_vmap_of_dynamic_sizes() -> None:
    """Results that differ in size can't be one tensor; none have no size."""
    same = torch.tensor([0.0, 0, 9, 9]).repeat(50, 1)
    boxes = torch.stack([same, same + 15 * torch.arange(50.0)[:, None]])
    scores = torch.rand(2, 50, generator=torch.Generator().manual_seed(0))
    counts = [len(visops.nms(b, s, 0.5)) for b, s in zip(boxes, scores, strict=True)]
    mapped = torch.vmap(lambda b, s: visops.nms(b, s, 0.5))
    with pytest.raises(RuntimeError) as caught:
        mapped(boxes, scores)
    assert str(caught.value) == (
        f"visops.nms: under vmap, sample 1 has {counts[1]} results and sample 0 has {counts[0]}; "
        "all must have as many; nms_padded gives a fixed number"
    )
    with pytest.raises(RuntimeError) as caught:
        mapped(boxes[:0], scores[:0])
    assert str(caught.value) == (
        "visops.nms: vmap maps 0 samples, must be at least one: the number of results depends on "
        "values; nms_padded gives a fixed number"
    )
    twice = boxes[:1].expand(2, -1, -1), scores[:1].expand(2, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch's, where it has to guess a rule
        assert torch.equal(mapped(*twice), visops.nms(boxes[0], scores[0], 0.5).expand(2, -1))


FUSIONS = (visops.weighted_boxes_fusion, visops.non_maximum_weighted)


@pytest.mark.parametrize("fuse", FUSIONS, ids=lambda f: f.__name__)
def test_fusion(fuse: Any) -> None:
    """Where all entries have as many results; one model of two is mapped."""
    boxes = torch.tensor([[[0.0, 0, 5, 5], [9, 9, 12, 13], [0, 0, 5, 4]]]) / 20
    boxes = torch.cat([boxes, boxes.flip(1)])
    scores = torch.tensor([[0.9, 0.5, 0.75], [0.25, 0.5, 0.375]])
    labels = torch.zeros(2, 3, dtype=torch.int64)

    def call(boxes: Tensor, scores: Tensor) -> Any:
        return fuse([boxes, first[0]], [scores, first[1]], [labels[0], labels[0]])

    first = boxes[0], scores[0]
    found = torch.vmap(call)(boxes, scores)
    for i in range(2):
        for part, alone in zip(found, call(boxes[i], scores[i]), strict=True):
            assert torch.equal(part[i], alone)
    message = f"visops.{fuse.__name__}: under vmap, sample 1 has 4 results and sample 0 has 2"
    far = torch.stack([boxes[0], boxes[0] + 0.5])
    with pytest.raises(RuntimeError, match=message):
        torch.vmap(call)(far, scores)
    with pytest.raises(RuntimeError, match=f"visops.{fuse.__name__}: vmap maps 0 samples"):
        torch.vmap(call)(boxes[:0], scores[:0])


def test_match_needs_values() -> None:
    boxes = torch.tensor([[[0.0, 0, 5, 5], [9, 9, 12, 13]]])
    with pytest.raises(RuntimeError, match=r"^visops\.nms_match: under vmap values can't be read"):
        torch.vmap(lambda b: visops.nms_match(b, torch.ones(2), 0.5))(boxes)


detection = pytest.importorskip("torchvision.models.detection")
backbones = pytest.importorskip("torchvision.models.detection.backbone_utils")
box_ops = pytest.importorskip("torchvision.ops.boxes")


def faster_rcnn() -> torch.nn.Module:
    backbone = backbones.resnet_fpn_backbone(backbone_name="resnet18", weights=None)
    limits = {
        "rpn_post_nms_top_n_test": 300,
        "box_score_thresh": 0.05,
        "box_detections_per_img": 300,
    }
    model: torch.nn.Module = detection.FasterRCNN(backbone, **SMALL, **limits)
    return model


def retinanet() -> torch.nn.Module:
    backbone = backbones.resnet_fpn_backbone(
        backbone_name="resnet18", weights=None, returned_layers=[2, 3, 4]
    )
    limits = {"score_thresh": 0.05, "detections_per_img": 300}
    # The default anchors of the four finest levels.
    sizes = tuple((s, int(s * 2 ** (1 / 3)), int(s * 2 ** (2 / 3))) for s in (32, 64, 128, 256))
    anchors = detection.anchor_utils.AnchorGenerator(sizes, ((0.5, 1.0, 2.0),) * len(sizes))
    model: torch.nn.Module = detection.RetinaNet(
        backbone, anchor_generator=anchors, **SMALL, **limits
    )
    return model


def table(found: dict[str, Tensor]) -> np.ndarray:
    """Sorted rows of score, label and box: torchvision's order is not stable."""
    columns = [found["scores"][:, None], found["labels"][:, None], found["boxes"]]
    rows = torch.cat([c.double() for c in columns], 1).numpy()
    return rows[np.lexsort(rows.T[::-1])]


@pytest.mark.parametrize("make", [faster_rcnn, retinanet])
def test_the_same_detections(
    make: Callable[[], torch.nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = untrained(make)
    expected = model(photos())
    sizes = []

    def counted(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
        kept = visops.batched_nms(boxes, scores, idxs, iou_threshold)
        sizes.append((len(boxes), len(kept)))
        return kept

    monkeypatch.setattr(box_ops, "batched_nms", counted)
    found = model(photos())
    # There are many boxes; many are kept and many are dropped.
    assert len(sizes) == (4 if make is faster_rcnn else 2)
    assert all(before > 500 and 100 < after < 0.8 * before for before, after in sizes)
    for ours, theirs in zip(found, expected, strict=True):
        assert len(ours["boxes"]) == 300
        assert len(ours["labels"].unique()) > 3
        np.testing.assert_array_equal(table(ours), table(theirs))


def test_nms_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """visops.nms below torchvision's own batched_nms, with its loops and offsets."""
    model = untrained(faster_rcnn)
    expected = model(photos()[:1])[0]
    calls = []

    def counted(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
        calls.append(len(boxes))
        return visops.nms(boxes, scores, iou_threshold)

    monkeypatch.setattr(box_ops, "nms", counted)
    np.testing.assert_array_equal(table(model(photos()[:1])[0]), table(expected))
    assert sum(calls) > 1000
