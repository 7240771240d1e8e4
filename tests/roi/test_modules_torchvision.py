"""Modules where torchvision's are expected: isinstance checks, torch.fx, lists of boxes."""

from typing import Any

import numpy as np
import pytest
import torch
import torchvision
import visops
from torch import Tensor, nn
from torchvision.models.feature_extraction import create_feature_extractor

from roi.align_cases import boxes_of, maps_of, proposals, pyramid_of, same_bits

MODULES = {
    "RoIAlign": (7, 0.5, 2),
    "RoIPool": ((3, 4), 0.5),
    "PSRoIAlign": (2, 0.5, 2),
}


def sample(channels: int = 8) -> tuple[Tensor, Tensor]:
    maps = torch.from_numpy(maps_of()).float()
    boxes = torch.from_numpy(boxes_of("inside", 9)).float()
    return maps[:, :1].expand(-1, channels, -1, -1) * torch.arange(1, channels + 1)[
        :, None, None
    ], boxes


class Head(nn.Module):
    def __init__(self, pool: nn.Module) -> None:
        super().__init__()
        self.body = nn.Conv2d(8, 8, 1)
        self.pool = pool

    def forward(self, x: Tensor, boxes: Any) -> Tensor:
        return self.pool(self.body(x), boxes).relu()  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", MODULES)
def test_modules_are_torchvision_s(name: str) -> None:
    ours, theirs = (getattr(m, name)(*MODULES[name]) for m in (visops, torchvision.ops))
    assert isinstance(ours, type(theirs))
    assert repr(ours) == repr(theirs)
    maps, boxes = sample()
    found = ours(maps, boxes)
    torch.testing.assert_close(found, theirs(maps, boxes), rtol=1e-5, atol=1e-4)
    lists = [boxes[:4, 1:], boxes[4:, 1:]]
    assert ours(maps, lists).shape == found.shape
    assert not ours.state_dict()


@pytest.mark.parametrize("name", MODULES)
def test_torch_fx(name: str) -> None:
    """A call in a graph of torch.fx, not an error about its placeholders."""
    model = Head(getattr(visops, name)(*MODULES[name])).eval()
    maps, boxes = sample()
    expected = model(maps, boxes)
    traced = torch.fx.symbolic_trace(model)
    assert same_bits(traced(maps, boxes), expected)
    extractor = create_feature_extractor(model, {"pool": "pooled", "relu": "out"})
    found = extractor(maps, boxes)
    assert same_bits(found["out"], expected)
    assert same_bits(found["pooled"].relu(), expected)


def test_pooler_in_torch_fx() -> None:
    class Detector(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pool = visops.MultiScaleRoIAlign(["a"], 3, 2)

        def forward(self, x: Tensor, boxes: Any, sizes: Any) -> Tensor:
            return self.pool({"a": x}, boxes, sizes).flatten(1)  # type: ignore[no-any-return]

    extractor = create_feature_extractor(Detector(), {"pool": "pooled"})
    maps, boxes = sample()
    lists = [boxes[:4, 1:], boxes[4:, 1:]]
    found = extractor(maps, lists, [(100, 100)] * 2)
    assert found["pooled"].shape == (9, 8, 3, 3)


def test_map_levels() -> None:
    names = ["0", "1", "2", "3"]
    pyramid = dict(zip(names, pyramid_of(4, 60, 80, torch.float32), strict=True))
    rows = proposals(np.random.default_rng(0), 200, 240, 320)
    boxes = [rows[rows[:, 0] == i, 1:] for i in range(2)]
    ours = visops.MultiScaleRoIAlign(names, 3, 2)
    theirs = torchvision.ops.MultiScaleRoIAlign(names, 3, 2)
    with pytest.raises(RuntimeError, match=r"^visops\.MultiScaleRoIAlign: map_levels was called"):
        ours.map_levels(boxes)
    sizes = [(240, 320), (200, 310)]
    ours(pyramid, boxes, sizes)
    theirs(pyramid, boxes, sizes)
    levels = ours.map_levels(boxes)
    assert levels.dtype == torch.int64
    assert len(levels.unique()) > 1
    assert torch.equal(levels, theirs.map_levels(boxes))
    assert ours.map_levels([torch.tensor([]), boxes[1]]).shape == (len(boxes[1]),)


@pytest.mark.parametrize("sides", [(32, 16, 16), (16, 16), (32, 16, 16, 8)])
def test_levels_of_maps_with_one_scale(sides: tuple[int, ...]) -> None:
    """As in torchvision's MobileNet detectors, whose last two maps have the same scale."""
    maps = {str(i): torch.rand(1, 2, side, side) for i, side in enumerate(sides)}
    corners = torch.rand(300, 2) * 100
    boxes = [torch.cat((corners, corners + 600 * torch.rand(300, 1) ** 3 + 1), 1)]
    found = []
    for library in (visops, torchvision.ops):
        pool = library.MultiScaleRoIAlign(list(maps), 3, 2, canonical_scale=100, canonical_level=3)
        pool(maps, boxes, [(128, 128)])
        found.append(pool.map_levels(boxes))
    assert torch.equal(*found)


def test_images_without_boxes() -> None:
    """Lists shorter than the batch, and [0] for no boxes, in every pooling."""
    maps, boxes = sample()
    rows = boxes[:4].clone()
    rows[:, 0] = 0
    poolings: list[Any] = [
        lambda given: visops.roi_align(maps, given, 3),
        lambda given: visops.roi_pool(maps, given, 3),
        lambda given: visops.ps_roi_align(maps, given, 2),
        lambda given: visops.multiscale_roi_align([maps], given, 3, [1.0]),
    ]
    for pool in poolings:
        expected = pool(rows)
        assert same_bits(pool([rows[:, 1:]]), expected)
        assert same_bits(pool([rows[:, 1:], torch.tensor([])]), expected)
        assert len(pool([torch.tensor([])])) == len(pool(torch.tensor([]))) == 0
        assert pool([]).shape == (0, *expected.shape[1:])
    assert len(visops.roi_align_rotated(maps, [torch.tensor([])], 3)) == 0
    with pytest.raises(
        ValueError, match=r"roi_align: boxes is a list of 3, input has batch size 2"
    ):
        visops.roi_align(maps, [rows[:, 1:]] * 3, 3)
