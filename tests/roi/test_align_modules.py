"""RoIAlign as a module: torchvision's names and checks, those of the old extension, torch.fx."""

import copy
import pickle
from typing import Any

import fresh
import numpy as np
import pytest
import torch
import torchvision
import visops
from bad_input import check
from torch import Tensor, nn
from torchvision.models.feature_extraction import create_feature_extractor
from visops import compat

from roi.align_cases import boxes_of, maps_of, proposals, pyramid_of, same_bits

NAMES = ["0", "1", "2", "3"]


def sample() -> tuple[Tensor, Tensor]:
    return torch.from_numpy(maps_of()).float(), torch.from_numpy(boxes_of("inside", 9)).float()


def named_pyramid(dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    maps = pyramid_of(4, 60, 80, dtype)
    return {**dict(zip(NAMES, maps, strict=True)), "pool": maps[-1]}


def lists_of_boxes(count: int = 60) -> list[Tensor]:
    boxes = proposals(np.random.default_rng(0), count, 240, 320)
    return [boxes[boxes[:, 0] == i, 1:] for i in range(2)]


SHAPES = [(240, 320), (200, 310)]


def pooler(*arguments: Any, **keywords: Any) -> Any:
    return visops.MultiScaleRoIAlign(*arguments, **keywords)


@pytest.mark.parametrize("arguments", [(7, 0.5, 2), ((3, 4), 1.0, -1, True)], ids=str)
def test_module(arguments: Any) -> None:
    maps, boxes = sample()
    ours, theirs = visops.RoIAlign(*arguments), torchvision.ops.RoIAlign(*arguments)
    assert repr(ours) == repr(theirs)
    lists = [boxes[:4, 1:], boxes[4:, 1:]]
    for given in (boxes, lists):
        torch.testing.assert_close(ours(maps, given), theirs(maps, given), rtol=0, atol=5e-6)
    again = pickle.loads(pickle.dumps(ours))
    assert same_bits(again(maps, boxes), ours(maps, boxes))
    assert not ours.state_dict()


@pytest.mark.parametrize("bins", [7, (7, 5)], ids=str)
def test_pooler(bins: Any) -> None:
    theirs = torchvision.ops.MultiScaleRoIAlign(NAMES, bins, 2, canonical_scale=60)
    ours = pooler(NAMES, bins, 2, canonical_scale=60)
    assert repr(ours) == repr(theirs)
    assert isinstance(ours, torchvision.ops.MultiScaleRoIAlign)
    wanted = theirs(named_pyramid(), lists_of_boxes(), SHAPES)
    found = ours(named_pyramid(), lists_of_boxes(), SHAPES)
    torch.testing.assert_close(found, wanted, rtol=0, atol=2e-5)
    assert ours.scales == theirs.scales == [1 / 4, 1 / 8, 1 / 16, 1 / 32]
    for other in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert type(other) is visops.MultiScaleRoIAlign
        assert same_bits(other(named_pyramid(), lists_of_boxes(), SHAPES), found)
    assert not ours.state_dict()


def test_pooler_takes_the_maps_of_its_names() -> None:
    """In the order of the dict, as in torchvision."""
    maps = named_pyramid()
    for names in (["1"], ["2", "1"], ["0", "1", "missing"]):
        theirs, ours = torchvision.ops.MultiScaleRoIAlign(names, 3, 2), pooler(names, 3, 2)
        wanted = theirs(maps, lists_of_boxes(), SHAPES)
        found = ours(maps, lists_of_boxes(), SHAPES)
        assert ours.scales == theirs.scales
        torch.testing.assert_close(found, wanted, rtol=0, atol=2e-5)


def test_pooler_of_mixed_dtypes() -> None:
    """Autocast may leave mixed dtypes; the result has the first map's."""
    maps = named_pyramid()
    maps["0"] = maps["0"].to(torch.bfloat16)
    ours = pooler(NAMES, 3, 2)
    found = ours(maps, lists_of_boxes(), SHAPES)
    assert found.dtype == torch.bfloat16
    wanted = ours(named_pyramid(torch.bfloat16), lists_of_boxes(), SHAPES)
    assert same_bits(found, wanted)


def test_pooler_of_nothing() -> None:
    empty = [torch.zeros(0, 4), torch.zeros(0, 4)]
    assert pooler(NAMES, 3, 2)(named_pyramid(), empty, SHAPES).shape == (0, 3, 3, 3)


def test_pooler_keeps_its_scales() -> None:
    """As torchvision's, it keeps the first call's scales until they are reset."""
    ours = pooler(["0"], 3, 2)
    ours(named_pyramid(), lists_of_boxes(), SHAPES)
    ours(named_pyramid(), lists_of_boxes(), [(480, 640)] * 2)
    assert ours.scales == [1 / 4]
    ours.scales = None
    ours(named_pyramid(), lists_of_boxes(), [(480, 640)] * 2)
    assert ours.scales == [1 / 8]


def test_scales_are_those_of_heights() -> None:
    """Scales come from the tallest image, as in torchvision: batches are padded to it."""
    maps, boxes = {"0": torch.rand(2, 1, 60, 400)}, lists_of_boxes()
    for shapes in ([(240, 320), (60, 1600)], [(60, 100), (480, 100)]):
        theirs, ours = torchvision.ops.MultiScaleRoIAlign(["0"], 3, 2), pooler(["0"], 3, 2)
        theirs(maps, boxes, shapes)
        ours(maps, boxes, shapes)
        assert ours.scales == theirs.scales


def test_pooler_errors() -> None:
    maps, boxes = named_pyramid(), lists_of_boxes()
    for message, call in (
        (
            "MultiScaleRoIAlign: x has ['0', '1', '2', '3', 'pool'], none of ['a', 'b']",
            lambda: pooler(["a", "b"], 3, 2)(maps, boxes, SHAPES),
        ),
        (
            "MultiScaleRoIAlign: image_shapes is empty, must have every image",
            lambda: pooler(NAMES, 3, 2)(maps, boxes, []),
        ),
        ("multiscale_roi_align: boxes", lambda: pooler(NAMES, 3, 2)(maps, boxes * 2, SHAPES)),
    ):
        check(ValueError, message, call)
    with pytest.raises(TypeError, match=r"^visops\.MultiScaleRoIAlign: x\['1'\] is a ndarray"):
        pooler(NAMES, 3, 2)({**maps, "1": maps["1"].numpy()}, boxes, SHAPES)
    with pytest.raises(TypeError, match=r"^visops\.MultiScaleRoIAlign: output_size is 'a'"):
        pooler(NAMES, "a", 2)


def test_compile() -> None:
    """In one graph from the first call on, which infers the scales."""
    torch._dynamo.reset()
    module = pooler(NAMES, 3, 2)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for count in (60, 20):
        boxes = lists_of_boxes(count)
        leaves = {k: m.requires_grad_() for k, m in named_pyramid().items()}
        found = compiled(leaves, boxes, SHAPES)
        wanted = pooler(NAMES, 3, 2)(leaves, boxes, SHAPES)
        assert same_bits(found, wanted)
        every = [leaves[name] for name in NAMES]
        ours = torch.autograd.grad(found.square().sum(), every)
        theirs = torch.autograd.grad(wanted.square().sum(), every)
        assert all(same_bits(a, b) for a, b in zip(ours, theirs, strict=True))
    assert module.scales == [1 / 4, 1 / 8, 1 / 16, 1 / 32]
    single = visops.RoIAlign(3, 1.0, 2)
    compiled = torch.compile(single, fullgraph=True, backend="eager")
    assert same_bits(compiled(*sample()), single(*sample()))


PROGRAM = """
import sys, torch, visops
visops.roi_align
assert "torchvision" not in sys.modules
sys.modules["torchvision"] = None  # importing it fails
pool = visops.MultiScaleRoIAlign(["a"], 2, 2)
assert type(pool).__mro__[1] is torch.nn.Module
assert visops.RoIAlign.__mro__[1] is visops.RoIPool.__mro__[1] is torch.nn.Module
boxes = [torch.tensor([[0.0, 0, 9, 9]])]
print(pool({"a": torch.ones(1, 1, 8, 8)}, boxes, [(16, 16)]).sum().item())
"""


def test_torchvision_is_not_needed() -> None:
    """Neither imported on the way, nor missed where it can't be."""
    finished = fresh.run(PROGRAM)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip() == "4.0"


def test_no_other_names() -> None:
    assert visops.MultiScaleRoIAlign is visops.MultiScaleRoIAlign
    with pytest.raises(AttributeError, match="module 'visops' has no attribute 'RoiAlign'"):
        visops.RoiAlign  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("out_size", [7, (3, 4)], ids=str)
def test_previous_interface(out_size: Any, aligned: bool) -> None:
    """Both values of aligned; argument positions and names as before."""
    maps, boxes = sample()
    for sample_num in (0, 2):
        wanted = torchvision.ops.roi_align(maps, boxes, out_size, 0.5, sample_num, aligned)
        found = compat.roi_align(maps, boxes, out_size, 0.5, sample_num, aligned)
        torch.testing.assert_close(found, wanted, rtol=0, atol=5e-6)
        module = compat.RoIAlign(out_size, 0.5, sample_num, False, aligned)
        assert same_bits(module(maps, boxes), found)
        theirs = compat.RoIAlign(out_size, 0.5, sample_num, use_torchvision=True, aligned=aligned)
        assert same_bits(theirs(maps, boxes), wanted)
    keywords: Any = {"features": maps, "rois": boxes, "out_size": out_size, "spatial_scale": 0.5}
    assert same_bits(
        compat.roi_align(**keywords), compat.roi_align(maps, boxes, out_size, 0.5, 0, True)
    )


def test_previous_module() -> None:
    module = compat.RoIAlign(7, 1 / 16, 2)
    text = "RoIAlign(out_size=(7, 7), spatial_scale=0.0625, sample_num=2, use_torchvision=False, "
    assert repr(module) == text + "aligned=True)"
    assert (module.out_size, module.spatial_scale) == ((7, 7), 0.0625)
    with pytest.raises(TypeError, match=r"^visops\.compat\.RoIAlign: output_size is"):
        compat.RoIAlign("a", 1.0)  # type: ignore[arg-type]


def test_previous_gradient() -> None:
    """A numerical check in float64, as in that extension's test."""
    maps = torch.from_numpy(maps_of((1, 1, 5, 6))).requires_grad_()
    boxes = torch.tensor([[0.0, 0.3, 0.2, 4.1, 3.7], [0, 1.1, 1.2, 2.3, 4.9]], dtype=torch.float64)
    for aligned in (False, True):
        module = compat.RoIAlign(2, 1.0, 2, aligned=aligned)
        assert torch.autograd.gradcheck(lambda m, f=module: f(m, boxes), (maps,), nondet_tol=0)  # type: ignore[misc]


def test_module_takes_the_largest_sample() -> None:
    maps, boxes = sample()
    largest = visops.RoIAlign(3, 0.5, 2, True, reduce="max")
    wanted = visops.roi_align(maps, boxes, 3, 0.5, 2, True, reduce="max")
    assert same_bits(largest(maps, boxes), wanted)
    assert not same_bits(visops.RoIAlign(3, 0.5, 2, True)(maps, boxes), wanted)
    assert repr(largest).endswith("aligned=True, reduce='max')")
    check(
        ValueError,
        "RoIAlign: reduce is 'sum', must be 'mean' or 'max'",
        lambda: visops.RoIAlign(3, 0.5, 2, reduce="sum"),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    "sizes", [(20, 20, 10), (20, 20), (20, 20, 20), (40, 20, 20, 10), (40, 40, 20)], ids=str
)
def test_pooler_of_maps_with_one_scale(sizes: tuple[int, ...]) -> None:
    """As torchvision's MobileNet detectors have them: a level's map is chosen by position."""
    generator = torch.Generator().manual_seed(0)
    maps = {
        str(i): torch.rand(1, 3, size, size, generator=generator) for i, size in enumerate(sizes)
    }
    sides = torch.tensor([20.0, 60, 110, 150, 230, 300, 440, 470, 600])
    boxes = [torch.stack([sides * 0, sides / 50, sides, sides * 1.01], 1)]
    results = []
    for module in (visops.MultiScaleRoIAlign, torchvision.ops.MultiScaleRoIAlign):
        pooled = module(list(maps), 3, 2)(maps, boxes, [(640, 640)])
        results.append(pooled)
    torch.testing.assert_close(*results, rtol=0, atol=5e-6)


MODULES = {
    "RoIAlign": (7, 0.5, 2),
    "RoIPool": ((3, 4), 0.5),
    "PSRoIAlign": (2, 0.5, 2),
}


def sample_boxes(channels: int = 8) -> tuple[Tensor, Tensor]:
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
    maps, boxes = sample_boxes()
    found = ours(maps, boxes)
    torch.testing.assert_close(found, theirs(maps, boxes), rtol=1e-5, atol=1e-4)
    lists = [boxes[:4, 1:], boxes[4:, 1:]]
    assert ours(maps, lists).shape == found.shape
    assert not ours.state_dict()


@pytest.mark.parametrize("name", MODULES)
def test_torch_fx(name: str) -> None:
    """A call in a graph of torch.fx, not an error about its placeholders."""
    model = Head(getattr(visops, name)(*MODULES[name])).eval()
    maps, boxes = sample_boxes()
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
    maps, boxes = sample_boxes()
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
    maps, boxes = sample_boxes()
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
