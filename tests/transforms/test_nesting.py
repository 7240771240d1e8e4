"""Chains within chains and containers: nothing desynchronises, and no option is lost."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from bad_input import check
from torch import Tensor, nn
from visops import transforms

tv = pytest.importorskip("torchvision.tv_tensors")
v1 = pytest.importorskip("torchvision.transforms")
v2 = pytest.importorskip("torchvision.transforms.v2")

T: Any = transforms
SIZE = (6, 8)
IMAGE = torch.arange(3 * 6 * 8, dtype=torch.uint8).reshape(3, *SIZE)
BOX = torch.tensor([[1.0, 2, 4, 5]])


def sample(**more: Any) -> dict[str, Any]:
    return {"image": IMAGE, "boxes": BOX, **more}


CONTAINERS: dict[str, Callable[[], Any]] = {
    "Sequential of v2": lambda: nn.Sequential(v2.RandomHorizontalFlip(1.0)),
    "Sequential of ours": lambda: nn.Sequential(T.RandomHorizontalFlip(1.0)),
    "Sequential of Sequential": lambda: nn.Sequential(nn.Sequential(T.RandomHorizontalFlip(1.0))),
    "v2.Compose": lambda: v2.Compose([T.RandomHorizontalFlip(1.0)]),
    "v1.Compose": lambda: v1.Compose([v2.RandomHorizontalFlip(1.0)]),
    "v2.RandomApply": lambda: v2.RandomApply([nn.Sequential(T.RandomHorizontalFlip(1.0))], p=1.0),
    "v2.RandomChoice": lambda: v2.RandomChoice([T.RandomHorizontalFlip(1.0)]),
    "v2.RandomOrder": lambda: v2.RandomOrder([v2.RandomHorizontalFlip(1.0)]),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_boxes_follow_containers(name: str) -> None:
    result = T.Compose([CONTAINERS[name]()])(sample())
    assert torch.equal(result["image"], IMAGE.flip(-1))
    assert result["boxes"].tolist() == [[4, 2, 7, 5]]


def test_containers_fuse() -> None:
    inner = nn.Sequential(T.RandomRotation(9), v2.Compose([T.RandomHorizontalFlip()]))
    assert len(T.Compose([T.Resize(8), inner, v1.Compose([T.ColorJitter(0.2)])]).passes) == 1
    network = nn.Sequential(nn.Conv2d(3, 3, 1), nn.ReLU())
    assert T.Compose([network]).transforms == [network]
    # torchvision's Compose gives functions the whole sample.
    whole = v2.Compose([lambda *inputs: inputs[0]])
    assert T.Compose([whole]).transforms == [whole]


def mirror(image: Tensor) -> Tensor:
    return image.flip(-1)


class Subclass(nn.Sequential):
    pass


FOREIGN: list[tuple[Any, str]] = [
    (v1.RandomHorizontalFlip(1.0), "RandomHorizontalFlip"),
    (v1.Compose([v1.RandomHorizontalFlip(1.0)]), "RandomHorizontalFlip"),
    (v1.RandomApply([v1.RandomHorizontalFlip(1.0)]), "RandomApply"),
    (nn.Sequential(nn.Hardtanh(), mirror_module := nn.ReflectionPad2d(1)), "Sequential"),
    (Subclass(T.RandomHorizontalFlip(1.0)), "Subclass"),
    (mirror_module, "ReflectionPad2d"),
    (mirror, "mirror"),
]


@pytest.mark.parametrize(("transform", "name"), FOREIGN, ids=[name for _, name in FOREIGN])
def test_what_gets_only_the_image_is_refused_beside_targets(transform: Any, name: str) -> None:
    message = (
        f"transforms: {name} gets only the image, and sample['boxes'] would stay behind if it "
        "moves; must be a transform of visops or of torchvision.transforms.v2, or be wrapped in "
        "ImageOnly if it moves nothing"
    )
    chain = T.Compose([transform])
    check(TypeError, message, lambda: chain(sample()))
    mask = {"image": IMAGE, "mask": torch.zeros(SIZE)}
    check(TypeError, message.replace("boxes", "mask"), lambda: chain(mask))
    assert chain({"image": IMAGE.float(), "label": 3})["label"] == 3


def test_what_moves_nothing_is_accepted() -> None:
    for still in (v1.ColorJitter(0.2), v1.RandomInvert(1.0), nn.Identity()):
        assert T.Compose([still])(sample())["boxes"].tolist() == BOX.tolist()
    wrapped = T.ImageOnly(lambda image: 255 - image)
    result = T.Compose([T.RandomHorizontalFlip(1.0), wrapped])(sample())
    assert torch.equal(result["image"], 255 - IMAGE.flip(-1))
    assert result["boxes"].tolist() == [[4, 2, 7, 5]]
    assert torch.equal(wrapped(IMAGE), 255 - IMAGE)
    assert "mirror" in repr(T.Compose([T.ImageOnly(mirror)]))
    check(
        TypeError,
        "transforms.ImageOnly: transform is a int, must be callable",
        lambda: T.ImageOnly(3),
    )


OPTIONS: list[tuple[str, Any, Any]] = [
    ("seed", 3, None),
    ("exact", True, False),
    ("keys", {"mask": ["seg"]}, None),
    ("mask_fill", 9, 0),
    ("boxes", "clamp", "keep"),
    ("keypoint_convention", "half_pixel", "integer"),
    ("memory_format", torch.channels_last, torch.contiguous_format),
]


@pytest.mark.parametrize(("name", "value", "default"), OPTIONS, ids=[name for name, *_ in OPTIONS])
def test_inner_options_are_those_of_the_outer_chain(name: str, value: Any, default: Any) -> None:
    inner = T.Compose([T.Pad(1)], **{name: value})
    message = (
        f"transforms.Compose: transforms holds a Compose with {name}={value!r}, this one has "
        f"{name}={default!r}; must be the same (an inner Compose runs with the outer one's options)"
    )
    check(ValueError, message, lambda: T.Compose([T.Pad(1), nn.Sequential(inner)]))
    assert len(T.Compose([T.Pad(1), inner], **{name: value}).transforms) == 2
    assert len(T.Compose([T.Compose([T.Pad(1)])], **{name: value}).transforms) == 1
    if default is not None:  # an option that is given counts, even with its default
        with pytest.raises(ValueError, match=f"holds a Compose with {name}="):
            T.Compose([T.Compose([T.Pad(1)], **{name: default})], **{name: value})


@pytest.mark.parametrize(
    "contain",
    [
        lambda t: v2.RandomApply([t], p=1.0),
        lambda t: v2.RandomChoice([t]),
        lambda t: v2.RandomOrder([t]),
        lambda t: v2.RandomApply([T.Compose([t])], p=1.0),
    ],
)
def test_options_reach_into_other_containers(contain: Any) -> None:
    given = sample(mask=torch.ones(SIZE, dtype=torch.uint8), keypoints=torch.zeros(1, 2))
    for convention in ("integer", "half_pixel"):
        options = {"mask_fill": 9, "keypoint_convention": convention, "boxes": "clamp"}
        resize = T.Resize((12, 16), "nearest")
        whole = [T.Pad(1), resize, T.Pad(2)]
        expected = T.Compose(whole, **options)(given)
        result = T.Compose([contain(T.Pad(1)), contain(resize), contain(whole[2])], **options)(
            given
        )
        assert torch.equal(result["keypoints"], expected["keypoints"])
        assert torch.equal(result["boxes"], expected["boxes"])
        assert set(result["mask"].unique().tolist()) == {1, 9}
    # Masks of boxes have no class to spare.
    masks = sample(masks=torch.ones(1, *SIZE, dtype=torch.uint8), boxes=BOX)
    assert T.Compose([contain(T.Pad(1))], mask_fill=9)(masks)["masks"][0, 0, 0] == 0
    # What the inner chain was given stays.
    inner = v2.RandomApply([T.Compose([T.Pad(1)], mask_fill=7)], p=1.0)
    assert T.Compose([inner], mask_fill=9)(given)["mask"][0, 0] == 7
    # Outside of a chain there is nothing to take over.
    assert T.Pad(1)(given)["mask"][0, 0] == 0


def test_boxes_in_other_containers_are_dropped_by_the_outer_chain() -> None:
    """An inner chain can't drop them: labels aren't given to it."""
    given = {"image": IMAGE, "boxes": torch.cat((BOX - 9, BOX)), "labels": ["outside", "inside"]}
    result = T.Compose([v2.RandomApply([T.Pad(1)], p=1.0)], boxes="sanitize")(given)
    assert result["boxes"].tolist() == [[2, 3, 5, 6]]
    assert result["labels"] == ["inside"]


def test_exact_reaches_into_other_containers() -> None:
    image = torch.rand(3, 40, 40)
    inner = T.Compose([T.CenterCrop(20), T.RandomAffine(0, scale=(0.5, 0.5))])
    expected = T.Compose(inner.transforms, exact=True)(image)
    chain = T.Compose([v2.RandomApply([inner], p=1.0)], exact=True)
    assert torch.equal(chain(image), expected)
    assert not torch.equal(inner(image), expected)  # shows what the crop has cut off
    inner.transforms.pop()
    assert torch.equal(chain(image), T.CenterCrop(20)(image))


def test_the_list_of_transforms_can_change() -> None:
    chain = T.Compose([T.Pad(1)])
    listed = chain.transforms
    listed.append(T.Pad(2))
    assert chain(IMAGE).shape == (3, 12, 14)
    assert len(chain.passes) == 1
    chain.transforms.insert(0, T.RandomErasing(1.0))
    assert len(chain.passes) == 2
    result, params = chain(IMAGE, return_params=True)
    assert params.names == ["RandomErasing", "Pad", "Pad"]
    assert chain.inverse(result, params).shape == IMAGE.shape
    assert type(chain.transforms.pop()) is T.Pad
    assert chain(IMAGE).shape == (3, 8, 10)
    chain.transforms[0] = T.Compose([T.Resize((2, 3)), T.RandomHorizontalFlip()])
    assert chain(IMAGE).shape == (3, 4, 5)
    assert len(chain.transforms) == 3
    assert listed is chain.transforms
    assert "RandomHorizontalFlip" in repr(chain)
    chain.transforms = (T.Pad(3),)
    assert chain(IMAGE).shape == (3, 12, 14)
    chain.transforms = []
    message = "transforms.Compose: transforms is empty, must hold at least one"
    check(ValueError, message, lambda: chain(IMAGE))
    chain.transforms = [3]
    check(TypeError, "transforms.Compose: transforms holds a int", lambda: chain(IMAGE))


def typed(mode: Any, rows: Any = ((-2.0, 0, 12, 5),)) -> Any:
    boxes = tv.BoundingBoxes(torch.tensor(rows), format="XYXY", canvas_size=SIZE)
    boxes.clamping_mode = mode
    return boxes


@pytest.mark.parametrize("mode", [None, "soft", "hard"])
def test_the_clamping_mode_of_boxes_is_theirs(mode: Any) -> None:
    crop = v2.CenterCrop((4, 6))
    expected = crop(tv.Image(IMAGE), typed(mode))[1]
    _, result = T.Compose([T.RandomHorizontalFlip(0.0), crop])(tv.Image(IMAGE), typed(mode))
    assert result.clamping_mode == mode
    assert torch.equal(result, expected)
    _, result = T.Compose([v2.SetClampingMode(mode)])(tv.Image(IMAGE), typed("hard"))
    assert result.clamping_mode == mode


def test_a_clamping_mode_that_is_set_counts_for_what_follows() -> None:
    steps = [v2.SetClampingMode(None), v2.CenterCrop((4, 6))]
    expected = v2.Compose(steps)(tv.Image(IMAGE), typed("hard"))[1]
    chain = T.Compose([steps[0], T.RandomHorizontalFlip(0.0), steps[1]])
    _, result = chain(tv.Image(IMAGE), typed("hard"))
    assert result.clamping_mode is None
    assert result.tolist() == expected.tolist() == [[-3, -1, 11, 4]]


def test_plain_boxes_are_clamped_as_the_chain_says() -> None:
    crop, rows = v2.CenterCrop((4, 6)), [[-2.0, 0, 12, 5]]
    for policy, expected in (("keep", [-3, -1, 11, 4]), ("clamp", [0, 0, 6, 4])):
        result = T.Compose([crop], boxes=policy)({"image": IMAGE, "boxes": rows})
        assert result["boxes"] == [expected]


FILLING: list[Callable[[Any], Any]] = [
    lambda fill: T.Pad(1, fill=fill),
    lambda fill: T.RandomCrop(12, padding=3, fill=fill),
    lambda fill: T.RandomAffine(0, (0.0, 0.0), (0.5, 0.5), fill=fill),
    lambda fill: T.RandomRotation((45, 45), fill=fill),
    lambda fill: T.RandomPerspective(1.0, 1.0, fill=fill),
]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("make", FILLING)
def test_fills_by_type(make: Any, exact: bool) -> None:
    image, mask = torch.full((3, 12, 12), 50, dtype=torch.uint8), np.ones((12, 12), np.uint8)
    given = {"image": image, "mask": mask}
    fills: list[tuple[Any, int, int]] = [
        ({tv.Image: 200, tv.Mask: 9}, 200, 9),
        ({torch.Tensor: [200] * 3, "others": 7}, 200, 7),
        ({"others": 200}, 200, 200),
        ({tv.Mask: None}, 0, 0),
        ({tv.Image: 200}, 200, 0),
        ({tv.Video: 200, tv.BoundingBoxes: 3, tv.KeyPoints: 4}, 200, 0),
        ({tv.Mask: 9, "others": 200}, 200, 9),
    ]
    for fill, outside, label in fills:
        result = T.Compose([make(fill)], exact=exact, seed=0)(given, index=1)
        assert set(np.unique(result["mask"])) == {1, label}
        assert outside in result["image"].unique()


OTHER_MASKS = (torch.float32, torch.float16, torch.float64, torch.bool)


@pytest.mark.parametrize("make", FILLING)
def test_fills_for_masks_of_floats_and_bool(make: Any) -> None:
    """Theirs is only taken where it is given: a fill for classes means nothing there."""
    image = torch.full((3, 12, 12), 50, dtype=torch.uint8)
    for dtype in OTHER_MASKS:
        for fill, outside in (({tv.Mask: 1}, 1), ({"others": 1}, 1), ({tv.Image: 9}, 0), (1, 0)):
            mask = torch.full((12, 12), 1 - outside, dtype=dtype)
            for own in (mask, mask.numpy()):
                chain = T.Compose([make(fill)], seed=0)
                moved = chain({"image": image, "mask": own}, index=1)["mask"]
                assert moved.dtype == own.dtype
                assert sorted(set(moved.reshape(-1).tolist())) == [0, 1]
    mask = torch.zeros(1, 12, 12)
    theirs = v2.Pad(3, fill={tv.Mask: 6})(tv.Mask(mask))
    ours = T.Pad(3, fill={tv.Mask: 6})({"image": image, "mask": mask})["mask"]
    assert torch.equal(ours, theirs)
    message = "transforms: mask_fill is 7, sample['mask'] has dtype torch.bool; must be from 0 to 1"
    wrong = {"image": image, "mask": mask.bool()}
    check(ValueError, message, lambda: T.Pad(1, fill={tv.Mask: 7})(wrong))
    of_boxes = {"image": image, "boxes": torch.ones(1, 4), "masks": torch.ones(1, 12, 12)}
    assert T.Pad(1, fill={tv.Mask: 7})(of_boxes)["masks"].unique().tolist() == [0, 1]


def test_policies_take_fills_by_type() -> None:
    for policy in (T.RandAugment(1, fill={tv.Mask: 4}), T.TrivialAugment(fill={tv.Mask: 4})):
        for exact in (False, True):
            assert T.Compose([policy], exact=exact).options.mask_fill == 4


def test_fills_that_contradict() -> None:
    both = [T.Pad(1, fill={tv.Mask: 3}), T.RandomRotation(9, fill={tv.Mask: 4})]
    message = (
        "transforms.RandomRotation: fill has 4 for masks, Pad has 3; must be the same in a chain"
    )
    check(ValueError, message, lambda: T.Compose(both))
    message = "transforms.Pad: fill has 3 for masks, Compose has mask_fill=5; must be the same"
    check(ValueError, message, lambda: T.Compose(both[:1], mask_fill=5))
    assert T.Compose(both[:1], mask_fill=3).options.mask_fill == 3
    message = "transforms.Pad: fill is {"
    check(ValueError, message, lambda: T.Pad(1, fill={tv.Image: 1, torch.Tensor: 2}))
    check(ValueError, message, lambda: T.Pad(1, fill={tv.Mask: 0.5}))
    check(TypeError, message, lambda: T.Pad(1, fill={"mask": 3}))
