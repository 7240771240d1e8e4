"""RandomApply, RandomChoice and RandomOrder: fused where they can be, and always with targets."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from visops import transforms

T: Any = transforms
IMAGE = torch.randint(0, 256, (3, 40, 50), dtype=torch.uint8)
BOXES = torch.tensor([[5.0, 6, 20, 30], [30, 2, 45, 12]])

# Contents that fit into one pass.
FUSING: dict[str, Callable[[], list[Any]]] = {
    "jitter": lambda: [T.ColorJitter(0.4, 0.4, 0.4, 0.1)],
    "rotation": lambda: [T.RandomRotation((20, 40), expand=True)],
    "perspective": lambda: [T.RandomPerspective(0.5, 1.0)],
    "crop": lambda: [T.Resize((30, 44)), T.CenterCrop((20, 30))],
    "policy": lambda: [T.RandAugment(2, interpolation="bilinear", operations="linear")],
    "erasing": lambda: [T.RandomErasing(1.0)],
    "geometry and colour": lambda: [T.RandomAffine(20), T.ColorJitter(0.3, 0.3), T.Pad(2)],
}


def sample() -> dict[str, Any]:
    mask = (IMAGE[0] % 5).to(torch.int64)
    points = torch.tensor([[10.0, 20], [40, 30]])
    return {"image": IMAGE, "mask": mask, "boxes": BOXES, "keypoints": points}


def equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    assert list(one) == list(other)
    return all(torch.equal(value, other[key]) for key, value in one.items())


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", FUSING)
def test_apply_is_all_or_nothing(name: str, exact: bool) -> None:
    """A sample comes out as by the contents with its parameters, or as it came."""
    contents = FUSING[name]()
    chain = T.Compose([T.RandomApply(contents, p=0.5)], exact=exact, seed=0)
    whole = T.Compose(contents, exact=exact)
    if exact and len(whole.passes) > 1:
        assert [part.kind for part in chain.passes] == ["foreign"]
        return
    assert [part.kind for part in chain.passes] == ["fused"]
    applied = 0
    for index in range(6):
        result, params = chain(sample(), index=index, return_params=True)
        step = params.steps[0]
        if not step["apply"][0]:
            expected = T.Compose([T.Pad(0)])(sample())
        else:
            applied += 1
            steps = []
            for position in range(len(whole.transforms)):
                own = {k[2:]: v for k, v in step.items() if k.startswith(f"{position}_")}
                steps.append(own)
            names = [t._get_name() for t in whole.transforms]
            expected = whole(sample(), params=transforms.Parameters(names, steps, params.size))
        assert equal(result, expected)
        assert equal(chain(sample(), params=params), result)
    assert 0 < applied < 6


def test_choice_takes_one() -> None:
    contents = [T.RandomHorizontalFlip(1.0), T.RandomVerticalFlip(1.0), T.Resize((20, 25))]
    choice = T.RandomChoice(contents, p=[1, 2, 1])
    chain = T.Compose([choice], seed=0)
    assert [part.kind for part in chain.passes] == ["fused"]
    counts = np.zeros(3)
    for index in range(40):
        result, params = chain(sample(), index=index, return_params=True)
        position = int(params.steps[0]["choice"][0])
        counts[position] += 1
        if counts[position] < 3:
            assert equal(result, contents[position](sample()))
    assert counts[1] > max(counts[0], counts[2]) > 0
    assert (counts > 0).all()


@pytest.mark.parametrize("exact", [False, True])
def test_batches_equal_their_samples(exact: bool) -> None:
    steps = [
        T.RandomApply([T.RandomAffine(30), T.ColorJitter(0.4, 0.4)], p=0.5),
        T.RandomChoice([T.RandomPerspective(0.4, 1.0), T.RandomHorizontalFlip(1.0)]),
        T.RandomApply([T.RandomErasing(1.0)]),
    ]
    chain = T.Compose(steps, exact=exact, seed=1)
    images = torch.randint(0, 256, (6, 3, 40, 50), dtype=torch.uint8)
    boxes = [BOXES + index for index in range(6)]
    indices = list(range(6))
    result = chain({"image": images, "boxes": boxes}, index=indices)
    for position, index in enumerate(indices):
        alone = chain({"image": images[position], "boxes": boxes[position]}, index=index)
        assert torch.equal(result["image"][position], alone["image"])
        assert torch.equal(result["boxes"][position], alone["boxes"])


def test_they_fuse_with_their_neighbours() -> None:
    chain = T.Compose(
        [
            T.RandomResizedCrop(24),
            T.RandomApply([T.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8),
            T.RandomChoice([T.RandomRotation(10), T.RandomAffine(5, shear=5)]),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.5], [0.5]),
        ]
    )
    assert len(chain.passes) == 1
    assert chain(IMAGE).shape == (3, 24, 24)
    assert "RandomApply(p=0.8" in repr(chain)
    assert chain.make_params(IMAGE).names[1] == "RandomApply"


to_float = T.ToDtype(torch.float32, scale=True)
UNFUSED: dict[str, Callable[[], Any]] = {
    "other interpolation": lambda: T.RandomChoice(
        [T.RandomRotation((9, 9), "nearest"), T.RandomRotation((9, 9), "bicubic")]
    ),
    "conversion": lambda: T.RandomApply([T.RandomHorizontalFlip(1.0), to_float], p=1.0),
    "function": lambda: T.RandomApply([T.ImageOnly(torch.neg)], p=1.0),
    "order": lambda: T.RandomOrder([T.RandomHorizontalFlip(1.0), T.Pad(1), T.RandomRotation(9)]),
}


@pytest.mark.parametrize("name", UNFUSED)
def test_what_cannot_fuse_runs_with_all_targets(name: str) -> None:
    chain = T.Compose([UNFUSED[name](), T.Pad(1)], seed=0, mask_fill=9, boxes="clamp")
    assert [part.kind for part in chain.passes] == ["foreign", "fused"]
    result, params = chain(sample(), index=1, return_params=True)
    assert sorted(params.steps[0]) == ["seed"]
    assert equal(chain(sample(), params=params), result)
    assert result["mask"].shape == result["image"].shape[1:]
    assert set(result["mask"].unique().tolist()) <= {0, 1, 2, 3, 4, 9}
    if name in ("conversion", "order"):
        assert not torch.equal(result["boxes"], BOXES + 1)
    batch = {"image": IMAGE.expand(2, -1, -1, -1), "boxes": [BOXES, BOXES[:1]]}
    result = chain(batch, index=[1, 4])
    assert torch.equal(result["boxes"][0], chain(sample(), index=1)["boxes"])


def test_order() -> None:
    image = torch.arange(4.0).reshape(1, 1, 4)
    order = T.RandomOrder([T.RandomHorizontalFlip(1.0), T.RandomCrop((1, 2), padding=0)])
    contents = [T.RandomHorizontalFlip(1.0), T.Pad((1, 0, 0, 0), fill=9)]
    order = T.Compose([T.RandomOrder(contents)], seed=0)
    seen = {tuple(order(image, index=i).flatten().tolist()) for i in range(20)}
    assert seen == {(9.0, 3.0, 2.0, 1.0, 0.0), (3.0, 2.0, 1.0, 0.0, 9.0)}


def test_integer_boxes_are_rounded_once() -> None:
    rows = torch.tensor([[1, 1, 2, 2]])
    thirds = [T.Resize((60, 60)), T.RandomOrder([T.Resize((45, 45))]), T.Resize((180, 180))]
    result = T.Compose(thirds)({"image": torch.zeros(3, 90, 90), "boxes": rows})
    assert result["boxes"].tolist() == [[2, 2, 4, 4]]


def test_cuts_inside_count_for_visibility() -> None:
    boxes = torch.tensor([[-5.0, 0, 5, 10], [10, 10, 20, 20]])
    crop = T.RandomOrder([T.CenterCrop((40, 40)), T.Pad(2)])
    chain = T.Compose([crop], boxes="sanitize", min_visibility=0.9)
    given = {"image": IMAGE, "boxes": boxes, "labels": [0, 1]}
    assert chain(given)["labels"] == [1]


def test_alone_and_pickled() -> None:
    apply = T.RandomApply([T.RandomHorizontalFlip(1.0)], p=1.0)
    for one in (apply, pickle.loads(pickle.dumps(apply))):
        assert torch.equal(one(IMAGE), IMAGE.flip(-1))
    assert torch.equal(T.RandomApply([T.Pad(1)], p=0.0)(IMAGE), IMAGE)
    chain = T.Compose([apply], seed=0)
    assert torch.equal(pickle.loads(pickle.dumps(chain))(IMAGE, index=1), IMAGE.flip(-1))
    turned, params = chain(sample(), return_params=True)
    assert equal(
        {k: v for k, v in chain.inverse(turned, params).items() if k in sample()}, sample()
    )


def test_fills_of_masks_inside() -> None:
    tv = pytest.importorskip("torchvision.tv_tensors")
    chain = T.Compose([T.RandomApply([T.Pad(1, fill={tv.Mask: 7})], p=1.0)])
    assert chain(sample())["mask"][0, 0] == 7
