"""Suppression under torch.vmap: results of a fixed size, and of one that depends on values."""

import warnings
from typing import Any

import pytest
import torch
import visops
from torch import Tensor


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
