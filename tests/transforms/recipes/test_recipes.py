"""The recipes of torchvision's scripts, with `T` from either library; preview()."""

import sys
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
import torch
from bad_input import check
from torch import Tensor, nn
from visops import transforms
from visops.transforms import preview
from visops.transforms.recipes.preview import describe

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


pytest.importorskip("matplotlib")

IMAGE = (
    torch.arange(3 * 40 * 60, dtype=torch.int64).remainder(251).to(torch.uint8).reshape(3, 40, 60)
)

SAMPLE: dict[str, Any] = {
    "image": IMAGE,
    "mask": torch.arange(40 * 60).reshape(40, 60) // 600,
    "boxes": torch.tensor([[10.0, 5, 50, 30], [0, 0, 20, 10]]),
    "labels": ["a", "b"],
    "keypoints": torch.tensor([[[12.0, 7], [500, 3]], [[1, 2], [3, 4]]]),
}


def pictures(figure: Any) -> list[np.ndarray]:
    return [np.asarray(axes.get_images()[0].get_array()) for axes in figure.axes]


def captions(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.texts]


def rectangle(patch: Any) -> np.ndarray:
    return patch.get_bbox().extents  # type: ignore[no-any-return]


def test_grid() -> None:
    from matplotlib.figure import Figure

    chain = transforms.Compose([transforms.RandomRotation(30)], seed=4)
    for count in (1, 2, 5):
        figure = preview(chain, SAMPLE, count)
        assert type(figure) is Figure
        assert len(figure.axes) == count + 1
        boxes = [axes.get_position() for axes in figure.axes]
        for box in boxes:
            assert box.x0 >= 0
            assert box.y0 >= -1e-9
            assert box.x1 <= 1
            assert box.y1 <= 1
        for i, box in enumerate(boxes):
            assert not any(box.overlaps(other) for other in boxes[:i])
    assert len(preview(chain, SAMPLE).axes) == 17
    figure.canvas.draw()


def test_results_are_those_of_the_chain() -> None:
    chain = transforms.Compose(
        [transforms.RandomRotation(30), transforms.RandomHorizontalFlip()], seed=4, boxes="clamp"
    )
    figure = preview(chain, SAMPLE, 3)
    shown = pictures(figure)
    np.testing.assert_allclose(shown[0], IMAGE.permute(1, 2, 0).numpy() / 255)
    for index in range(3):
        result, params = chain(SAMPLE, index=index, return_params=True)
        np.testing.assert_allclose(shown[index + 1], result["image"].permute(1, 2, 0) / 255)
        angle = f"{params.steps[0]['angle'][0]:.2f}".rstrip("0").rstrip(".").replace("-", "−")
        assert f"Rotation: angle {angle}" in captions(figure)[index + 1]
        flipped = bool(params.steps[1]["apply"][0])
        assert ("HorizontalFlip" in captions(figure)[index + 1]) == flipped
        axes = figure.axes[index + 1]
        rectangles = [rectangle(patch) for patch in axes.patches]
        np.testing.assert_allclose(rectangles, result["boxes"] - 0.5, atol=1e-5)
        assert [text.get_text() for text in axes.texts] == ["a", "b"]
        points = np.asarray(axes.collections[0].get_offsets())
        flags = result["keypoints_visible"]
        np.testing.assert_allclose(points, result["keypoints"][flags], atol=1e-5)
        # matplotlib shows what is within the axes' limits: the whole picture.
        assert axes.get_xlim() == (-0.5, 59.5)
        assert axes.get_ylim() == (39.5, -0.5)


def test_masks_are_tinted() -> None:
    chain = transforms.Compose([transforms.Pad(4)], mask_fill=255)
    figure = preview(chain, SAMPLE, 1)
    layers = [np.asarray(image.get_array()) for image in figure.axes[1].get_images()[1:]]
    result = chain(SAMPLE)["mask"].numpy()
    assert len(layers) == 4  # classes 1 to 3, and the hatched fill; class 0 stays as it is
    for number, layer in enumerate(layers[:3], start=1):
        np.testing.assert_array_equal(layer[..., 3] > 0, result == number)
    hatched = layers[3][..., 3] > 0
    assert hatched.any()
    assert not hatched[result != 255].any()
    many = {"image": IMAGE, "masks": torch.rand(3, 40, 60) > 0.5, "boxes": torch.zeros(3, 4)}
    layers = [np.asarray(i.get_array()) for i in preview(chain, many, 1).axes[0].get_images()[1:]]
    for layer, mask in zip(layers, many["masks"], strict=True):
        np.testing.assert_array_equal(layer[..., 3] > 0, mask)
    soft = {"image": IMAGE, "mask": torch.rand(40, 60)}
    layers = [np.asarray(i.get_array()) for i in preview(chain, soft, 1).axes[0].get_images()[1:]]
    np.testing.assert_allclose(
        layers[0][..., 3] / layers[0][..., 3].max(), soft["mask"] / soft["mask"].max()
    )


@pytest.mark.parametrize("scale", [True, False])
def test_normalisation_is_undone(scale: bool) -> None:
    unit = 1.0 if scale else 255.0
    chain = [
        transforms.ToDtype(torch.float32, scale=scale),
        transforms.Normalize([0.4 * unit, 0.5 * unit, 0.6 * unit], [0.2 * unit] * 3),
    ]
    shown = pictures(preview(transforms.Compose(chain), IMAGE, 1))
    np.testing.assert_allclose(shown[1], IMAGE.permute(1, 2, 0) / 255, atol=1e-5)


def test_kinds_of_samples() -> None:
    flip = transforms.RandomHorizontalFlip()
    grey = torch.rand(1, 40, 60)
    for sample in (IMAGE, IMAGE.permute(1, 2, 0).numpy(), grey, (IMAGE, 3), torch.rand(4, 40, 60)):
        assert all(picture.shape == (40, 60, 3) for picture in pictures(preview(flip, sample, 2)))
    typed = {
        "video": tv.Video(torch.rand(5, 3, 40, 60)),
        "boxes": tv.BoundingBoxes([[1, 2, 3, 4]], format="XYWH", canvas_size=(40, 60)),
        "points": tv.KeyPoints(torch.rand(2, 2), canvas_size=(40, 60)),
    }
    figure = preview(flip, typed, 2)
    assert rectangle(figure.axes[0].patches[0]).tolist() == [0.5, 1.5, 3.5, 5.5]
    half = preview(transforms.Compose([flip], keypoint_convention="half_pixel"), typed, 1)
    difference = np.subtract(
        figure.axes[0].collections[0].get_offsets(), half.axes[0].collections[0].get_offsets()
    )
    np.testing.assert_allclose(difference, 0.5)
    column = {"image": IMAGE, "keypoints": np.array([[3.0, 4, 0], [5, 6, 2]])}
    offsets = preview(flip, column, 1).axes[0].collections[0].get_offsets()
    assert np.asarray(offsets).tolist() == [[5, 6]]


def test_draws_are_repeatable_and_leave_the_global_generator_alone() -> None:
    state = torch.get_rng_state()
    chain = transforms.Compose([transforms.RandomAffine(30, (0.1, 0.1))])
    first, second = (pictures(preview(chain, IMAGE, 3)) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(first[1], first[2])
    assert torch.equal(torch.get_rng_state(), state)


def test_captions() -> None:
    everything = transforms.Compose(
        [
            transforms.RandomAffine(30, (0.1, 0.1), (0.8, 1.2), 10),
            transforms.RandomPerspective(p=1.0),
            transforms.ColorJitter(0.3),
            transforms.RandAugment(),
            transforms.RandomGrayscale(0.0),
            transforms.Resize((40, 60)),
            transforms.ToDtype(torch.float32),
            torch.nn.Identity(),
        ],
        seed=0,
    )
    _, params = everything(IMAGE, index=0, return_params=True)
    pairs = zip(everything.transforms, params.steps, strict=True)
    lines = [describe(transform, step) for transform, step in pairs]
    assert lines[0].startswith("Affine: angle ")
    assert "translate (" in lines[0]
    assert lines[1].startswith("Perspective: (")
    assert lines[1].count("(") == 4
    assert lines[2].startswith("ColorJitter: brightness ")
    assert lines[3].startswith("RandAugment: ")
    assert lines[4:] == ["", "", "", "Identity"]


def test_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    flip = transforms.RandomHorizontalFlip()
    for bad in (0, -1, 2.0, True):
        check(
            ValueError,
            f"transforms.preview: n is {bad!r}, must be a whole number >= 1",
            lambda bad=bad: preview(flip, IMAGE, bad),  # type: ignore[misc]
        )
    check(
        ValueError,
        "transforms.preview: sample is a batch, must be a single sample",
        lambda: preview(flip, IMAGE[None]),
    )
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    check(
        ImportError,
        "transforms.preview: needs matplotlib, which can't be imported",
        lambda: preview(flip, IMAGE),
    )
