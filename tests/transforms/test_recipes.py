"""The recipes of torchvision's reference scripts, with `T` from either library.

They are written here after the scripts in references/{classification, detection, segmentation,
video_classification} of torchvision: same transforms, same arguments, same order.
"""

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from visops import transforms

tv = pytest.importorskip("torchvision.tv_tensors")
v2 = pytest.importorskip("torchvision.transforms.v2")
pil = pytest.importorskip("PIL.Image")

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
HEIGHT, WIDTH = 60, 80
X, Y = np.meshgrid(np.linspace(0, 3, WIDTH), np.linspace(0, 2, HEIGHT))
# Smooth, so that resampling by both libraries is close.
SMOOTH = np.stack([np.sin(X + k) * np.cos(Y - k) * 100 + 120 for k in range(3)], -1)
PICTURE = pil.fromarray(SMOOTH.astype(np.uint8))


def classification(
    T: Any, policy: str | None = None, backend: str = "pil", flip: float = 0.5, erase: float = 0.0
) -> Any:
    steps: list[Any] = [T.PILToTensor()] if backend == "tensor" else []
    mode = T.InterpolationMode.BILINEAR
    steps.append(T.RandomResizedCrop(32, interpolation=mode, antialias=True))
    if flip > 0:
        steps.append(T.RandomHorizontalFlip(flip))
    if policy == "ra":
        steps.append(T.RandAugment(interpolation=mode, magnitude=9))
    elif policy == "ta_wide":
        steps.append(T.TrivialAugmentWide(interpolation=mode))
    elif policy == "augmix":
        steps.append(T.AugMix(interpolation=mode, severity=3))
    elif policy is not None:
        steps.append(T.AutoAugment(policy=T.AutoAugmentPolicy(policy), interpolation=mode))
    if backend == "pil":
        steps.append(T.PILToTensor())
    steps += [T.ToDtype(torch.float, scale=True), T.Normalize(mean=MEAN, std=STD)]
    if erase > 0:
        steps.append(T.RandomErasing(p=erase))
    return T.Compose([*steps, T.ToPureTensor()])


def classification_eval(T: Any, backend: str) -> Any:
    steps: list[Any] = [T.PILToTensor()] if backend == "tensor" else []
    mode = T.InterpolationMode.BILINEAR
    steps += [T.Resize(48, interpolation=mode, antialias=True), T.CenterCrop(32)]
    steps += [T.PILToTensor()] if backend == "pil" else []
    steps += [T.ToDtype(torch.float, scale=True), T.Normalize(mean=MEAN, std=STD)]
    return T.Compose([*steps, T.ToPureTensor()])


def detection(T: Any, augmentation: str, flip: float = 0.5, backend: str = "tv_tensor") -> Any:
    steps: list[Any] = [T.ToImage()] if backend == "tv_tensor" else [T.PILToTensor()]
    flips = [T.RandomHorizontalFlip(p=flip)]
    if augmentation == "hflip":
        steps += flips
    elif augmentation == "lsj":
        steps += [
            T.ScaleJitter(target_size=(64, 64), antialias=True),
            T.RandomCrop((64, 64), fill=MEAN, pad_if_needed=True),
            *flips,
        ]
    elif augmentation == "multiscale":
        steps += [T.RandomShortestSize(min_size=(30, 40, 50), max_size=100), *flips]
    elif augmentation == "ssd":
        fill = defaultdict(lambda: (123.0, 117.0, 104.0), {tv.Mask: 0})
        steps += [T.RandomPhotometricDistort(), T.RandomZoomOut(fill=fill), T.RandomIoUCrop()]
        steps += flips
    elif augmentation == "ssdlite":
        steps += [T.RandomIoUCrop(), *flips]
    steps += [
        T.ToDtype(torch.float, scale=True),
        T.ConvertBoundingBoxFormat(tv.BoundingBoxFormat.XYXY),
        T.SanitizeBoundingBoxes(),
        T.ToPureTensor(),
    ]
    return T.Compose(steps)


class PadIfSmaller(v2.Transform):  # type: ignore[misc, name-defined]
    """A transform of the recipe's own: pads to a least size at the right and at the bottom."""

    def __init__(self, size: int, fill: Any) -> None:
        super().__init__()
        self.size, self.fill = size, fill

    def make_params(self, inputs: list[Any]) -> dict[str, Any]:
        height, width = v2.functional.get_size(inputs[0])
        padding = [0, 0, max(self.size - width, 0), max(self.size - height, 0)]
        return {"padding": padding, "needed": any(padding)}

    def transform(self, value: Any, params: dict[str, Any]) -> Any:
        if not params["needed"]:
            return value
        fill = self.fill.get(type(value), self.fill["others"])
        return v2.functional.pad(value, padding=params["padding"], fill=fill)


def segmentation(T: Any, flip: float = 0.5, low: int = 30, high: int = 120, crop: int = 48) -> Any:
    steps: list[Any] = [T.ToImage(), T.RandomResize(min_size=low, max_size=high)]
    steps += [T.RandomHorizontalFlip(flip)] if flip > 0 else []
    steps += [PadIfSmaller(crop, fill={tv.Mask: 255, "others": 0}), T.RandomCrop(crop)]
    dtypes = {tv.Image: torch.float32, tv.Mask: torch.int64, "others": None}
    steps += [T.ToDtype(dtype=dtypes, scale=True), T.Normalize(mean=MEAN, std=STD)]
    return T.Compose([*steps, T.ToPureTensor()])


class ChannelsFirst(nn.Module):
    """What the recipe for videos ends with: [T, C, H, W] to [C, T, H, W]."""

    def forward(self, clip: Tensor) -> Tensor:
        return clip.transpose(-4, -3)


def video(T: Any, flip: float = 0.5) -> Any:
    steps: list[Any] = [T.Resize((40, 50), antialias=False)]
    steps += [T.RandomHorizontalFlip(flip)] if flip > 0 else []
    steps += [T.ConvertImageDtype(torch.float32), T.Normalize(mean=MEAN, std=STD)]
    return T.Compose([*steps, T.RandomCrop((32, 32)), ChannelsFirst()])


def video_eval(T: Any) -> Any:
    steps: list[Any] = [T.Resize((40, 50), antialias=False), T.ConvertImageDtype(torch.float32)]
    steps += [T.Normalize(mean=MEAN, std=STD), T.CenterCrop((32, 32)), ChannelsFirst()]
    return T.Compose(steps)


def target() -> dict[str, Any]:
    masks = torch.zeros(2, HEIGHT, WIDTH, dtype=torch.bool)
    masks[0, 5:40, 10:50], masks[1, 20:50, 30:75] = True, True
    boxes = tv.BoundingBoxes(
        [[10.0, 5, 50, 40], [30, 20, 75, 50]], format="XYXY", canvas_size=(HEIGHT, WIDTH)
    )
    return {"boxes": boxes, "labels": torch.tensor([1, 2]), "masks": tv.Mask(masks)}


@pytest.mark.parametrize("backend", ["pil", "tensor"])
@pytest.mark.parametrize("policy", [None, "ra", "ta_wide", "augmix", "imagenet", "cifar10", "svhn"])
def test_classification(policy: str | None, backend: str) -> None:
    torch.manual_seed(0)
    ours = classification(transforms, policy, backend, erase=0.5)
    results = [ours(PICTURE) for _ in range(6)]
    for image in results:
        assert type(image) is Tensor
        assert (image.shape, image.dtype) == ((3, 32, 32), torch.float32)
    assert not torch.equal(results[0], results[1])
    # Colours of a smooth photo stay near its own, as they do in torchvision's recipe.
    if policy is None:
        theirs = classification(v2, policy, backend, erase=0.5)
        expected = torch.stack([theirs(PICTURE) for _ in range(60)]).mean((0, 2, 3))
        found = torch.stack([ours(PICTURE) for _ in range(60)]).mean((0, 2, 3))
        assert (found - expected).abs().max() < 0.4


@pytest.mark.parametrize("backend", ["pil", "tensor"])
def test_classification_eval(backend: str) -> None:
    found = classification_eval(transforms, backend)(PICTURE)
    expected = classification_eval(v2, backend)(PICTURE)
    assert found.shape == expected.shape
    assert (found - expected).abs().max() < 2.5 / 255 / min(STD)  # they round once more


@pytest.mark.parametrize("flip", [0.0, 1.0])
@pytest.mark.parametrize("backend", ["tv_tensor", "tensor"])
def test_detection_by_values(flip: float, backend: str) -> None:
    """A flip and nothing else: boxes, masks, labels and pixels are torchvision's."""
    image, found = detection(transforms, "hflip", flip, backend)(PICTURE, target())
    picture, expected = detection(v2, "hflip", flip, backend)(PICTURE, target())
    torch.testing.assert_close(image, picture)
    for key, value in expected.items():
        assert type(found[key]) is Tensor
        assert torch.equal(found[key], value)


@pytest.mark.parametrize("augmentation", ["hflip", "lsj", "multiscale", "ssd", "ssdlite"])
def test_detection(augmentation: str) -> None:
    """Every box holds its object: the mask's bounds, where nothing was cut off."""
    torch.manual_seed(1)
    chain = detection(transforms, augmentation)
    counts = set()
    for _ in range(20):
        image, found = chain(PICTURE, target())
        assert type(image) is Tensor
        assert image.dtype == torch.float32
        assert found["masks"].shape[-2:] == image.shape[-2:]
        assert len(found["boxes"]) == len(found["labels"]) == len(found["masks"])
        counts.add(len(found["boxes"]))
        for box, mask in zip(found["boxes"], found["masks"], strict=True):
            ys, xs = torch.where(mask)
            if len(ys) > 0:
                bounds = torch.stack([xs.min(), ys.min(), xs.max() + 1, ys.max() + 1])
                assert (bounds - box).abs().max() < 2.5
    assert counts <= {0, 1, 2}
    assert counts & {1, 2}


@pytest.mark.parametrize("flip", [0.0, 1.0])
def test_segmentation_by_values(flip: float) -> None:
    classes = np.zeros((HEIGHT, WIDTH), np.uint8)
    classes[10:30, 20:60] = 7
    results = []
    for T in (transforms, v2):
        chain = segmentation(T, flip, HEIGHT, HEIGHT + 1, crop=HEIGHT + 20)
        results.append(chain(PICTURE, tv.Mask(classes)))
    (image, mask), (picture, expected) = results
    assert (mask.dtype, type(mask)) == (torch.int64, Tensor)
    assert torch.equal(mask, expected)
    torch.testing.assert_close(image, picture, atol=1e-5, rtol=0)


def test_segmentation() -> None:
    torch.manual_seed(2)
    chain = segmentation(transforms)
    for _ in range(10):
        image, mask = chain(PICTURE, tv.Mask(np.zeros((HEIGHT, WIDTH), np.uint8)))
        assert image.shape == (3, 48, 48)
        assert (mask.shape, mask.dtype) == ((48, 48), torch.int64)
        assert set(mask.unique().tolist()) <= {0, 255}


def clip() -> Tensor:
    frames = torch.from_numpy(SMOOTH.astype(np.uint8)).movedim(-1, 0)
    return torch.stack([frames, frames.flip(-1), frames // 2])


def test_video() -> None:
    torch.manual_seed(3)
    found = video(transforms)(tv.Video(clip()))
    assert found.shape == (3, 3, 32, 32)
    assert found.dtype == torch.float32
    found, expected = (video_eval(T)(tv.Video(clip())) for T in (transforms, v2))
    assert found.shape == expected.shape
    assert (found - expected).abs().max() < 2.5 / 255 / min(STD)
