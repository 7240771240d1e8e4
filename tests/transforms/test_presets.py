"""Recipes by name."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torchvision import tv_tensors as tv
from visops import transforms as T
from visops.transforms import presets

from transforms.chains import photo


def names(chain: Any) -> list[str]:
    return [type(step).__name__.lstrip("_") for step in chain.transforms]


def sample() -> dict[str, Any]:
    image = photo()
    boxes = torch.tensor([[10.0, 20, 200, 150], [100.0, 90, 300, 260]])
    typed = tv.BoundingBoxes(boxes, format="XYXY", canvas_size=tuple(image.shape[-2:]))  # type: ignore[call-overload]
    masks = torch.zeros(2, *image.shape[-2:], dtype=torch.uint8)
    masks[0, 20:150, 10:200] = masks[1, 90:260, 100:300] = 1
    return {
        "image": tv.Image(image),
        "target": {"boxes": typed, "labels": torch.tensor([1, 2]), "masks": tv.Mask(masks)},
    }


@pytest.mark.parametrize("policy", [None, "ra", "ta_wide", "imagenet", "cifar10", "svhn"])
def test_classification(policy: str | None) -> None:
    train = presets.classification_train(64, policy=policy, erasing=0.1, seed=0)
    out = train(torch.stack([photo()] * 3), index=range(3))
    assert out.shape == (3, 3, 64, 64)
    assert out.dtype == torch.float32
    assert names(train)[0] == "RandomResizedCrop"
    assert names(train)[-3:] == ["ToDtype", "Normalize", "RandomErasing"]
    assert len(names(train)) == 5 + (policy is not None)
    plain = presets.classification_train(64, flip=0.0, mean=None)
    assert names(plain) == ["RandomResizedCrop", "ToDtype"]
    assert presets.classification_eval(48, 64)(photo()).shape == (3, 48, 48)


@pytest.mark.parametrize("kind", ["hflip", "multiscale", "lsj", "ssd", "ssdlite", "detr"])
def test_detection(kind: str) -> None:
    chain = presets.detection_train(kind, seed=1)
    for index in range(6):
        out = chain(sample(), index=index)
        image, target = out["image"], out["target"]
        assert image.dtype == torch.float32
        assert 0.0 <= float(image.min()) <= float(image.max()) <= 1.0
        count = len(target["boxes"])
        assert len(target["labels"]) == len(target["masks"]) == count
        assert tuple(target["boxes"].canvas_size) == tuple(image.shape[-2:])
        assert target["masks"].shape[-2:] == image.shape[-2:]
        for box, mask in zip(target["boxes"], target["masks"], strict=True):
            y, x = mask.nonzero(as_tuple=True)
            bounds = torch.stack((x.min(), y.min(), x.max() + 1, y.max() + 1))
            assert (bounds - box.as_subclass(Tensor)).abs().max() <= 2
    if kind == "lsj":
        assert image.shape == (3, 1024, 1024)
    assert presets.detection_eval()(photo()).max() <= 1.0


def test_segmentation() -> None:
    chain = presets.segmentation_train(100, 96, seed=0)
    for index in range(8):
        mask = torch.ones(*photo().shape[-2:], dtype=torch.long)
        out = chain({"image": photo(), "mask": mask}, index=index)
        assert out["image"].shape == (3, 96, 96)
        assert set(out["mask"].unique().tolist()) <= {1, 255}
    assert presets.segmentation_eval(50)(photo()).shape == (3, 50, 50)


VIEWS: dict[str, tuple[Callable[[], T.Views], list[int]]] = {
    "simclr": (lambda: presets.simclr(64, seed=0), [64, 64]),
    "moco 2": (lambda: presets.moco(64, seed=0), [64, 64]),
    "moco 3": (lambda: presets.moco(64, 3, seed=0), [64, 64]),
    "dino": (lambda: presets.dino(64, 32, 3, seed=0), [64, 64, 32, 32, 32]),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views(name: str) -> None:
    make, sizes = VIEWS[name]
    views = make()
    for index in range(4):
        out = views(photo(), index=index)
        assert [view.shape for view in out] == [(3, size, size) for size in sizes]
        again = views(photo(), index=index)
        assert all(map(torch.equal, out, again))
        assert not torch.equal(out[0], out[1])
    assert [names(chain)[:2] for chain in views.chains] == [
        ["RandomResizedCrop", "RandomHorizontalFlip"]
    ] * len(sizes)


def test_probabilities_of_blur_and_solarization() -> None:
    """DINOv2's first view is always blurred, its second sometimes; only that is solarized."""
    images = torch.stack([photo()[:, :60, :60]] * 400)
    found = []
    for chain in presets.dino(24, 16, 1, seed=0).chains:
        params = chain(images, index=range(400), return_params=True)[1]
        steps = dict(zip(params.names, params.steps, strict=True))
        blur = params.steps[4]["apply"].mean()
        solarize = steps["RandomSolarize"]["apply"].mean() if "RandomSolarize" in steps else 0.0
        found.append((blur, solarize))
    (first, none), (second, some), (local, nothing) = found
    assert first == 1.0
    assert none == nothing == 0.0
    assert abs(second - 0.1) < 0.06
    assert abs(some - 0.2) < 0.08
    assert abs(local - 0.5) < 0.1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: presets.classification_train(policy="x"), "policy is 'x', must be None, 'ra'"),
        (lambda: presets.detection_train("x"), "kind is 'x', must be 'hflip', 'multiscale'"),
        (lambda: presets.moco(version=1), "version is 1, must be 2 or 3"),
    ],
)
def test_errors(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
