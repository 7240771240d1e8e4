"""RoIAlign on pyramids, and in torchvision's own detectors."""

import math
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
import visops
from detectors import SMALL, photos, untrained
from references import roi_align as reference
from torch import Tensor
from torchvision.ops.poolers import LevelMapper

from roi.align_cases import channels_last, proposals, pyramid_of, same_bits

SCALES = [1 / 4, 1 / 8, 1 / 16, 1 / 32]
RULES = ("torchvision", "detectron2")
every_rule = pytest.mark.parametrize("rule", RULES)


def pooled_by_level(maps: list[Tensor], boxes: Tensor, levels: Any, *options: Any) -> Tensor:
    """Pool each level's boxes by roi_align, given the level of every box."""
    level_of = torch.tensor(levels)
    results = [
        visops.roi_align(level, boxes[level_of == i], options[0], SCALES[i], *options[1:])
        for i, level in enumerate(maps)
    ]
    joined = torch.empty((len(boxes), *results[0].shape[1:]), dtype=results[0].dtype)
    for i, result in enumerate(results):
        joined[level_of == i] = result
    return joined


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("bins", [7, (3, 14)], ids=str)
def test_torchvision(bins: Any, dtype: torch.dtype) -> None:
    """torchvision's module, on lists of boxes."""
    rng = np.random.default_rng(0)
    maps = pyramid_of(4, 120, 160, dtype)
    boxes = proposals(rng, 200, 480, 640).to(dtype)
    lists = [boxes[boxes[:, 0] == i, 1:] for i in range(2)]
    for ratio in (2, 0):
        theirs = torchvision.ops.MultiScaleRoIAlign(["a", "b", "c", "d"], bins, ratio)
        named = dict(zip("abcd", maps, strict=True))
        wanted = theirs(named, lists, [(480, 640), (470, 600)])
        found = visops.multiscale_roi_align(named, lists, bins, SCALES, ratio)
        within = 2e-5 if dtype == torch.float32 else 1e-12  # of values up to 4
        torch.testing.assert_close(found, wanted, rtol=0, atol=within)
        assert theirs.scales == SCALES


@pytest.mark.matrix
@every_rule
@pytest.mark.parametrize("aligned", [False, True])
def test_every_level_alone(aligned: bool, rule: Any) -> None:
    """The same bits as each level by itself, whatever the boxes' dtype."""
    rng = np.random.default_rng(1)
    maps = pyramid_of(4, 120, 160, torch.float32, 5)
    every = set()
    for dtype in (torch.float32, torch.float64, torch.float16, torch.int32):
        boxes = proposals(rng, 60, 480, 640).to(dtype)
        computed = boxes.float() if dtype == torch.float16 else boxes
        rows = (computed if computed.is_floating_point() else computed.double()).numpy()
        levels = [reference.level(row, SCALES, 60, rule=rule) for row in rows]
        every |= set(levels)
        wanted = pooled_by_level(maps, boxes, levels, (3, 2), 2, aligned)
        found = visops.multiscale_roi_align(
            maps,
            boxes,
            (3, 2),
            SCALES,
            2,
            canonical_scale=60,
            aligned=aligned,
            level_rule=rule,
        )
        assert same_bits(found, wanted)
    assert every == {0, 1, 2, 3}


def borderline(dtype: torch.dtype, steps: int = 40) -> Tensor:
    """Boxes whose size is a power of two times 224, give or take the last places of float32."""
    sides = torch.tensor([56, 112, 224, 448, 896], dtype=dtype)
    change = torch.arange(-steps, steps + 1, dtype=dtype) * 2.0**-24
    wide = (sides[:, None] * (1 + change)).flatten()
    tall = sides[:, None].expand(-1, 2 * steps + 1).flatten()
    zero = torch.zeros_like(wide)
    squares = torch.stack([zero, zero, zero, wide, wide], 1)
    oblong = torch.stack([zero, zero, zero, wide * 2, tall / 2], 1)
    moved = torch.stack([zero, zero + 7, zero + 3, wide + 7, tall + 3], 1)
    return torch.cat([squares, oblong, moved])


def levels_of(boxes: Tensor, scales: list[float], side: int = 512, **options: Any) -> Tensor:
    """Return the level each box is read from, using maps filled with their level."""
    maps = [torch.full((1, 1, side, side), float(i)) for i in range(len(scales))]
    pooled = visops.multiscale_roi_align(maps, boxes, 1, scales, 1, **options)
    return pooled.flatten().round().long()


def detectron2_levels(boxes: Tensor, lowest: int, highest: int) -> Tensor:
    """detectron2's assign_boxes_to_levels, restated."""
    areas = (boxes[:, 3] - boxes[:, 1]) * (boxes[:, 4] - boxes[:, 2])
    levels = torch.floor(4 + torch.log2(torch.sqrt(areas) / 224 + 1e-8))
    return levels.clamp(lowest, highest).long() - lowest


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_borderline_sizes(dtype: torch.dtype) -> None:
    """Both rules, where the last place decides and they differ from each other."""
    boxes = borderline(dtype)
    torchvisions, detectron2s = LevelMapper(2, 5)([boxes[:, 1:]]), detectron2_levels(boxes, 2, 5)
    # torch's own square roots and logarithms are not always the nearest float32.
    assert int((levels_of(boxes, SCALES) != torchvisions).sum()) <= len(boxes) / 200
    assert torch.equal(levels_of(boxes, SCALES, level_rule="detectron2"), detectron2s)
    assert len(boxes) / 20 < int((torchvisions != detectron2s).sum()) < len(boxes) / 2
    for rule, wanted in zip(RULES, (torchvisions, detectron2s), strict=True):
        found = [reference.level(row, SCALES, rule=rule) for row in boxes.numpy()]
        assert found == levels_of(boxes, SCALES, level_rule=rule).tolist()
        assert int((torch.tensor(found) != wanted).sum()) <= len(boxes) / 200


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_sizes_at_random(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(0)
    extent = 2.0 ** rng.uniform(0, 11, (2000, 2))
    boxes = torch.from_numpy(np.concatenate([np.zeros((2000, 3)), extent], 1)).to(dtype)
    assert torch.equal(levels_of(boxes, SCALES), LevelMapper(2, 5)([boxes[:, 1:]]))
    found = levels_of(boxes, SCALES, level_rule="detectron2")
    assert torch.equal(found, detectron2_levels(boxes, 2, 5))


@pytest.mark.parametrize("canonical", [(224, 4), (112, 3), (300.5, 5), (1e-3, 20), (1e9, -3)])
def test_canonical_box(canonical: tuple[float, int]) -> None:
    rng = np.random.default_rng(0)
    extent = 2.0 ** rng.uniform(0, 9, (300, 2))
    boxes = torch.from_numpy(np.concatenate([np.zeros((300, 3)), extent], 1)).float()
    options = {"canonical_scale": canonical[0], "canonical_level": canonical[1]}
    wanted = LevelMapper(2, 5, *canonical)([boxes[:, 1:]])  # type: ignore[arg-type]
    assert torch.equal(levels_of(boxes, SCALES, 150, **options), wanted)


def test_boxes_without_area() -> None:
    """They go to the finest level."""
    boxes = torch.tensor([[0.0, 5, 5, 5, 5], [0, 5, 5, 500, 5], [0, 5, 5, 5, 500]])
    assert levels_of(boxes, SCALES).tolist() == [0, 0, 0]
    assert levels_of(boxes, SCALES, level_rule="detectron2").tolist() == [0, 0, 0]


def test_eight_levels() -> None:
    scales = [2.0 ** (1 - i) for i in range(8)]
    sides = torch.tensor([20.0 * 2**i for i in range(10)])
    boxes = torch.stack([sides * 0, sides * 0, sides * 0, sides, sides], 1)
    found = levels_of(boxes, scales, 120, canonical_scale=20, canonical_level=0)
    assert found.tolist() == [1, 2, 3, 4, 5, 6, 7, 7, 7, 7]


def test_gaps() -> None:
    """Boxes of a missing level go to the next finer one."""
    sides = torch.tensor([30.0, 60, 120, 230, 500, 1000])
    boxes = torch.stack([sides * 0, sides * 0, sides * 0, sides, sides], 1)
    for rule in RULES:
        assert levels_of(boxes, SCALES, level_rule=rule).tolist() == [0, 0, 1, 2, 3, 3]
        found = levels_of(boxes, [1 / 4, 1 / 16], level_rule=rule)
        assert found.tolist() == [0, 0, 0, 1, 1, 1]
        assert levels_of(boxes, [1 / 8, 1 / 64], level_rule=rule).tolist() == [0, 0, 0, 0, 0, 1]
        wanted = [reference.level(row, [1 / 8, 1 / 64], rule=rule) for row in boxes.numpy()]
        assert wanted == [0, 0, 0, 0, 0, 1]


def test_one_level() -> None:
    """With nothing to choose, boxes need no size to choose by."""
    (maps,) = pyramid_of(1, 40, 50, torch.float32)
    boxes = proposals(np.random.default_rng(0), 30, 160, 200)
    for inverted in (False, True):
        rows = boxes[:, [0, 3, 4, 1, 2]] if inverted else boxes
        wanted = visops.roi_align(maps, rows, 5, 0.3, 2)
        assert same_bits(visops.multiscale_roi_align([maps], rows, 5, [0.3], 2), wanted)
        assert same_bits(visops.multiscale_roi_align((maps,), rows, 5, (0.3,), 2), wanted)


def gradients(
    maps: list[Tensor], boxes: Tensor, grad: Tensor, *options: Any, **keywords: Any
) -> list[Tensor]:
    """Return gradients with respect to every map and to boxes."""
    leaves = [t.detach().requires_grad_() for t in (*maps, boxes)]
    values = visops.multiscale_roi_align(leaves[:-1], leaves[-1], *options, **keywords)
    return list(torch.autograd.grad(values, leaves, grad))


@pytest.mark.matrix
@every_rule
def test_gradients_of_every_level_alone(rule: str) -> None:
    """The same bits as each level by itself, for maps and for boxes."""
    rng = np.random.default_rng(2)
    boxes = proposals(rng, 80, 240, 320)
    rows = boxes.numpy()
    levels = torch.tensor([reference.level(row, SCALES[:3], 60, rule=rule) for row in rows])
    assert levels.unique().tolist() == [0, 1, 2]
    for layout in (Tensor.contiguous, channels_last):
        maps = [layout(m) for m in pyramid_of(3, 60, 80, torch.float32, 5)]
        grad = torch.from_numpy(rng.standard_normal((80, 5, 3, 3))).float()
        *of_maps, of_boxes = gradients(
            maps,
            boxes,
            grad,
            3,
            SCALES[:3],
            2,
            canonical_scale=60,
            aligned=True,
            level_rule=rule,
        )
        for i, level_maps in enumerate(maps):
            leaf, own = level_maps.detach().requires_grad_(), boxes[levels == i].requires_grad_()
            alone = visops.roi_align(leaf, own, 3, SCALES[i], 2, True)
            wanted = torch.autograd.grad(alone, (leaf, own), grad[levels == i])
            assert same_bits(of_maps[i], wanted[0])
            assert of_maps[i].stride() == leaf.stride()
            assert same_bits(of_boxes[levels == i], wanted[1])


def test_levels_of_derivatives_are_the_same() -> None:
    """torch.func pools level by level, and torch's operators choose the levels."""
    boxes = torch.cat(
        [borderline(torch.float32), proposals(np.random.default_rng(0), 90, 300, 400)]
    )
    boxes[:, 0] = 0
    maps = [m[:1] for m in pyramid_of(4, 40, 50, torch.float32, 2)]
    for rule in RULES:

        def pool(m: Tensor, rule: Any = rule) -> Tensor:
            return visops.multiscale_roi_align([m, *maps[1:]], boxes, 2, SCALES, 2, level_rule=rule)

        wanted = pool(maps[0])
        found = torch.vmap(pool)(maps[0][None])[0]
        assert same_bits(found, wanted)
    assert math.isfinite(float(wanted.sum()))


def test_canonical_level_is_a_whole_number() -> None:
    maps = pyramid_of(4, 60, 80, torch.float32)
    boxes = proposals(np.random.default_rng(0), 9, 240, 320)
    wanted = visops.multiscale_roi_align(maps, boxes, 2, SCALES, canonical_level=2)
    levels: tuple[Any, ...] = (-math.log2(SCALES[0]), np.int64(2))
    for level in levels:
        found = visops.multiscale_roi_align(maps, boxes, 2, SCALES, canonical_level=level)
        assert same_bits(found, wanted)
    for wrong in (2.5, "2", None):
        with pytest.raises(TypeError, match=r"^visops\.multiscale_roi_align: canonical_level is "):
            visops.multiscale_roi_align(maps, boxes, 2, SCALES, canonical_level=wrong)  # type: ignore[arg-type]


def test_canonical_scales_of_many_bits() -> None:
    maps, boxes = [torch.rand(1, 2, 8, 8)], torch.tensor([[0.0, 1, 1, 5, 5]])
    with pytest.raises(RuntimeError, match=r"canonical_scale is -1\.18059e\+21, must be finite"):
        visops.multiscale_roi_align(maps, boxes, 2, [1.0], canonical_scale=-(2**70))
    with pytest.raises(ValueError, match="canonical_scale has 2001 bits, too many"):
        visops.multiscale_roi_align(maps, boxes, 2, [1.0], canonical_scale=2**2000)
    for level in (-(2**70), 2**63, 1e30):
        with pytest.raises(ValueError, match=r"canonical_level has \d+ bits, must fit in 64"):
            visops.multiscale_roi_align(maps, boxes, 2, [1.0], canonical_level=level)  # type: ignore[arg-type]


def test_nested_maps_under_vmap() -> None:
    maps = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(3, 3)], layout=torch.jagged)
    boxes = torch.tensor([[0.0, 1, 1, 5, 5]])
    for entries in (0, 1, 2):
        for plain in (torch.ones(1, 2, 8, 8), torch.ones(1, 2, 8, 8, dtype=torch.float64)):
            with pytest.raises(
                RuntimeError, match=r"^visops\.multiscale_roi_align: features\[1\] is a nested"
            ):
                torch.vmap(
                    lambda b, m=plain: visops.multiscale_roi_align([m, maps], b, 2, [0.5, 0.25])
                )(boxes.expand(entries, 1, 5))


def test_a_wrong_type_under_vmap() -> None:
    maps = [torch.ones(1, 2, 8, 8), torch.ones(1, 2, 4, 4)]
    boxes = torch.tensor([[[0.0, 1, 1, 5, 5]]])
    call: Any = visops.multiscale_roi_align
    with pytest.raises(RuntimeError, match="'int' for argument 'sampling_ratio' but instead found"):
        torch.vmap(lambda b: call(maps, b, 2, [0.5, 0.25], sampling_ratio={}))(boxes)


detection = pytest.importorskip("torchvision.models.detection")
backbones = pytest.importorskip("torchvision.models.detection.backbone_utils")
LEVELS = ["0", "1", "2", "3"]


def make(**poolers: Any) -> torch.nn.Module:
    """Return Mask R-CNN, which pools for boxes and for masks."""
    backbone = backbones.resnet_fpn_backbone(backbone_name="resnet18", weights=None)
    limits = {
        "rpn_pre_nms_top_n_train": 200,
        "rpn_post_nms_top_n_train": 100,
        "rpn_post_nms_top_n_test": 100,
        "box_score_thresh": 0.05,
        "box_detections_per_img": 40,
        "box_batch_size_per_image": 64,
    }
    model: torch.nn.Module = detection.MaskRCNN(backbone, **SMALL, **limits, **poolers)
    return model


def with_our_poolers() -> torch.nn.Module:
    return make(
        box_roi_pool=visops.MultiScaleRoIAlign(LEVELS, 7, 2),
        mask_roi_pool=visops.MultiScaleRoIAlign(LEVELS, 14, 2),
    )


@pytest.fixture(scope="module")
def pair() -> tuple[torch.nn.Module, torch.nn.Module]:
    """Two detectors with the same weights: torchvision's poolers, and ours."""
    theirs, ours = untrained(make), untrained(with_our_poolers)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def test_detections(pair: tuple[torch.nn.Module, torch.nn.Module]) -> None:
    theirs, ours = (model.eval() for model in pair)
    assert "MultiScaleRoIAlign" in repr(ours)
    with torch.no_grad():
        for found, wanted in zip(ours(photos()), theirs(photos()), strict=True):
            assert len(wanted["boxes"]) == 40
            assert torch.equal(found["labels"], wanted["labels"])
            torch.testing.assert_close(found["boxes"], wanted["boxes"], rtol=0, atol=1e-2)
            torch.testing.assert_close(found["scores"], wanted["scores"], rtol=0, atol=1e-4)
            assert found["masks"].shape == wanted["masks"].shape
            torch.testing.assert_close(found["masks"], wanted["masks"], rtol=0, atol=1e-3)
    pool: Any = ours.roi_heads
    assert pool.box_roi_pool.scales == [1 / 4, 1 / 8, 1 / 16, 1 / 32]


def test_two_maps_of_one_scale() -> None:
    """MobileNet's pyramid has two maps at 1/32."""

    def mobilenet() -> torch.nn.Module:
        model: torch.nn.Module = detection.fasterrcnn_mobilenet_v3_large_fpn(
            weights=None, weights_backbone=None, **SMALL, box_score_thresh=0.0
        )
        return model

    theirs = untrained(mobilenet).eval()
    pooler: Any = theirs.roi_heads
    before = pooler.box_roi_pool
    pooler.box_roi_pool = visops.MultiScaleRoIAlign(
        before.featmap_names, before.output_size, before.sampling_ratio
    )
    # The detections of random weights have equal scores, so they come in any order: compare what
    # the poolers return in the detector.
    calls = []
    pooler.box_roi_pool.register_forward_hook(lambda _, *call: calls.append(call))
    with torch.no_grad():
        for found in theirs(photos()):
            assert len(found["boxes"]) > 10
        for arguments, result in calls:
            torch.testing.assert_close(result, before(*arguments), rtol=0, atol=1e-4)
    assert len(calls) == 1
    assert pooler.box_roi_pool.scales == before.scales == [1 / 32, 1 / 32]


def targets(images: list[Tensor]) -> list[dict[str, Tensor]]:
    """Two objects in each image."""
    found = []
    for image in images:
        height, width = image.shape[1:]
        boxes = torch.tensor([[0.1, 0.2, 0.6, 0.9], [0.4, 0.1, 0.9, 0.5]])
        boxes = boxes * torch.tensor([width, height, width, height])
        masks = torch.zeros(2, height, width, dtype=torch.uint8)
        for mask, (x1, y1, x2, y2) in zip(masks, boxes.int().tolist(), strict=True):
            mask[y1:y2, x1:x2] = 1
        found.append({"boxes": boxes, "labels": torch.tensor([3, 7]), "masks": masks})
    return found


def training(model: torch.nn.Module) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Losses, and the gradient of their sum by every parameter."""
    model.requires_grad_().train()
    torch.manual_seed(0)  # the detectors choose among proposals at random
    losses = model(photos(), targets(photos()))
    named = dict(model.named_parameters())
    total = torch.stack(list(losses.values())).sum()
    found = torch.autograd.grad(total, list(named.values()), allow_unused=True)
    return losses, {n: g for n, g in zip(named, found, strict=True) if g is not None}


def test_training_step(pair: tuple[torch.nn.Module, torch.nn.Module]) -> None:
    losses, wanted = training(pair[0])
    our_losses, found = training(pair[1])
    assert found.keys() == wanted.keys()
    assert len(found) >= 50
    assert len(losses) == 5
    for name, loss in losses.items():
        torch.testing.assert_close(our_losses[name], loss, rtol=1e-4, atol=1e-5)
    # Norms, not elements: where features differ by 5e-6, a unit at the kink of its ReLU may turn on
    # or off, depending on how torch's own products round in this process. That changes its row by
    # 2.5e-3 of the row's largest element, but norms by less than 5e-4.
    for name, gradient in wanted.items():
        difference, size = (float(g.norm()) for g in (found[name] - gradient, gradient))
        assert difference <= max(1e-3 * size, 1e-7), name
    # The same bits again; torchvision's own backward promises that on a CPU only.
    again = training(pair[1])[1]
    assert all(torch.equal(found[name], again[name]) for name in found)
