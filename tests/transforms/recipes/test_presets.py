"""Recipes by name, beside their originals."""

import importlib.util
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision import tv_tensors as tv
from visops import transforms as T
from visops.transforms import presets
from visops.transforms.recipes.frameworks import ChannelValues

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
def test_classification(policy: Any) -> None:
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
def test_detection(kind: Any) -> None:
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
        (lambda: presets.classification_train(policy="x"), "policy is 'x', must be None, 'ra'"),  # type: ignore[arg-type]
        (lambda: presets.detection_train("x"), "kind is 'x', must be 'hflip', 'multiscale'"),  # type: ignore[arg-type]
        (lambda: presets.moco(version=1), "version is 1, must be 2 or 3"),
    ],
)
def test_errors(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def parts(step: Any) -> tuple[Any, float | None]:
    """Return the transform of a RandomApply, fused or not, and its probability."""
    step = getattr(step, "_owner", step)
    p = getattr(step, "p", None)
    return (step.transforms[0], p) if type(step).__name__ == "RandomApply" else (step, p)


def of_view(steps: Any) -> dict[str, Any]:
    """Return the numbers of a view, of this library or of torchvision's classes."""
    found: dict[str, Any] = {}
    for step in steps:
        child, p = parts(step)
        name = type(child).__name__
        if name == "RandomResizedCrop":
            found["scale"] = tuple(child.scale)
        elif name == "ColorJitter":
            kinds = ("brightness", "contrast", "saturation", "hue")
            ranges = [getattr(child, kind) for kind in kinds]
            found["jitter"] = tuple(round(float(high - low) / 2, 6) for low, high in ranges)
            found["jitter p"] = p
        elif name == "GaussianBlur":
            own = child.prob if hasattr(child, "prob") else p
            found["blur p"] = own
            found["sigma"] = tuple(child.sigma if hasattr(child, "sigma") else child.sigmas)
        elif name in ("RandomHorizontalFlip", "RandomGrayscale", "RandomSolarize"):
            found[name.removeprefix("Random")] = p
        elif name == "RandomSolarization":
            found["Solarize"] = child.prob
    return {key: value for key, value in found.items() if value not in (0, None)}


def view(scale: float, jitter: tuple[float, ...], blur: float, **more: Any) -> dict[str, Any]:
    numbers = {"scale": (scale, 1.0), "jitter": jitter, "jitter p": 0.8, "Grayscale": 0.2}
    return {**numbers, "HorizontalFlip": 0.5, "blur p": blur, "sigma": (0.1, 2.0), **more}


BYOL, SOLARIZED = (0.4, 0.4, 0.2, 0.1), {"Solarize": 0.2}
LOCAL = {**view(0.05, BYOL, 0.5), "scale": (0.05, 0.32)}

ORIGINAL_VIEWS: dict[str, tuple[Callable[[], T.Views], list[dict[str, Any]]]] = {
    # google-research/simclr, data_util.py
    "simclr": (presets.simclr, [view(0.08, (0.8, 0.8, 0.8, 0.2), 0.5)] * 2),
    # facebookresearch/moco, main_moco.py, --aug-plus
    "moco 2": (presets.moco, [view(0.2, (0.4, 0.4, 0.4, 0.1), 0.5)] * 2),
    # facebookresearch/moco-v3, main_moco.py: --crop-min is 0.08
    "moco 3": (
        lambda: presets.moco(version=3),
        [view(0.08, BYOL, 1.0), view(0.08, BYOL, 0.1, **SOLARIZED)],
    ),
    # facebookresearch/dinov2, data/augmentations.py and configs/ssl_default_config.yaml
    "dino": (
        lambda: presets.dino(local_views=1),
        [view(0.32, BYOL, 1.0), view(0.32, BYOL, 0.1, **SOLARIZED), LOCAL],
    ),
}


@pytest.mark.parametrize("name", ORIGINAL_VIEWS)
def test_views_of_originals(name: str) -> None:
    make, expected = ORIGINAL_VIEWS[name]
    assert [of_view(chain.transforms) for chain in make().chains] == expected


@pytest.mark.parametrize("name", ["simclr", "moco 2", "moco 3"])
def test_views_of_lightly(name: str) -> None:
    """Its numbers are those of the tables."""
    lightly = pytest.importorskip("lightly.transforms", reason="lightly is not installed")
    made: dict[str, Callable[[], list[Any]]] = {
        "simclr": lambda: lightly.SimCLRTransform().transforms,
        "moco 2": lambda: lightly.MoCoV2Transform().transforms,
        "moco 3": lambda: lightly.BYOLTransform().transforms,
    }
    found = [of_view(one.transform.transforms) for one in made[name]()]
    assert found == ORIGINAL_VIEWS[name][1]


def test_blurs_of_small_views() -> None:
    """A tenth of the size; of CIFAR's it would be a single tap, which blurs nothing."""
    sides = {}
    for size in (16, 32, 96, 224):
        blur, _ = parts(presets.simclr(size).chains[0].transforms[4])
        sides[size] = blur.kernel_size[0]
    assert sides == {16: 3, 32: 3, 96: 9, 224: 23}


@pytest.mark.parametrize("channels", [1, 8])
@pytest.mark.parametrize("name", ["simclr", "moco", "dino"])
def test_views_of_other_channels(name: str, channels: int) -> None:
    make = getattr(presets, name)
    with pytest.raises(ValueError, match=f"mean is None, must be given .* {channels} channels"):
        make(16, channels=channels)
    views = make(16, channels=channels, mean=[0.5] * channels, std=[0.2] * channels, seed=0)
    image = photo()[:1].repeat(channels, 1, 1)
    for index in range(6):
        assert all(view.shape[0] == channels for view in views(image, index=index))


# nnunetv2 2.8.1, training/nnUNetTrainer/nnUNetTrainer.py, get_training_transforms: what, the
# probability for an image times that for a channel, and the range.
NNUNET = [
    ("RandomAffine", 0.2, (-180.0, 180.0)),
    ("RandomAffine", 0.2, (1 / 1.4, 1 / 0.7)),
    ("CenterCrop", None, None),
    ("GaussianNoise", 0.1 * 1.0, (0.0, 0.1)),
    ("GaussianBlur", 0.2 * 0.5, (0.5, 1.0)),
    ("brightness", 0.15 * 1.0, (0.75, 1.25)),
    ("contrast", 0.15 * 1.0, (0.75, 1.25)),
    ("Downscale", 0.25 * 0.5, (0.5, 0.999)),
    ("gamma of the negative", 0.1 * 1.0, (0.7, 1.5)),
    ("gamma", 0.3 * 1.0, (0.7, 1.5)),
    ("RandomHorizontalFlip", 0.5, None),
    ("RandomVerticalFlip", 0.5, None),
]


def of_nnunet(step: Any) -> tuple[str, float | None, Any]:
    step, p = parts(step)
    name = type(step).__name__
    if isinstance(step, ChannelValues):
        return step.kind + " of the negative" * step.inverted, p, (step.low, step.high)
    if name == "RandomAffine":
        return name, p, tuple(step.scale or step.degrees)
    return (
        name,
        p,
        next(
            (tuple(getattr(step, key)) for key in ("sigma", "scale_range") if hasattr(step, key)),
            None,
        ),
    )


def test_nnunet() -> None:
    assert [of_nnunet(step) for step in presets.nnunet_2d(64).transforms] == NNUNET
    turned = presets.nnunet_2d((320, 128)).transforms[0]
    assert of_nnunet(turned) == ("RandomAffine", 0.2, (-15.0, 15.0))


def gamma_reference(x: np.ndarray, power: float, negative: bool) -> np.ndarray:
    """batchgeneratorsv2 0.3.6, transforms/intensity/gamma.py, with kept statistics."""
    x = -x if negative else x
    low, reach = x.min(), x.max() - x.min()
    y = ((x - low) / reach) ** power * reach + low
    y = (y - y.mean()) * (x.std(ddof=1) / y.std(ddof=1)) + x.mean()
    return -y if negative else y


def reference(step: ChannelValues, x: np.ndarray, factor: float) -> np.ndarray:
    if step.kind == "brightness":
        return x * factor
    if step.kind == "contrast":
        return np.clip((x - x.mean()) * factor + x.mean(), x.min(), x.max())
    return gamma_reference(x, factor, step.inverted)


VALUES = [step for step in presets.nnunet_2d(64).transforms if isinstance(step, ChannelValues)]


@pytest.mark.parametrize("step", VALUES, ids=lambda step: of_nnunet(step)[0])
def test_values_of_nnunet(step: ChannelValues) -> None:
    """Each channel by a factor of its own; half of them below 1, half above."""
    always = ChannelValues(step.kind, step.low, step.high, 1.0, inverted=step.inverted)
    images = torch.randn(200, 2, 9, 10)
    found, params = T.Compose([always], seed=3)(images, index=range(200), return_params=True)
    factors = params.steps[0]["factors"]
    assert step.low <= factors.min() and factors.max() <= step.high  # noqa: PT018
    assert abs((factors < 1.0).mean() - 0.5) < 0.06
    for n, c in ((0, 0), (7, 1)):
        expected = reference(step, images[n, c].double().numpy(), factors[n, c])
        np.testing.assert_allclose(found[n, c].numpy(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("negative", [False, True])
def test_gamma_of_batchgenerators(negative: bool) -> None:
    """The formula above is the package's."""
    reason = "batchgeneratorsv2 is not installed"
    module = "batchgeneratorsv2.transforms.intensity.gamma"
    GammaTransform = pytest.importorskip(module, reason=reason).GammaTransform
    image = torch.randn(1, 8, 9)
    step = GammaTransform((1.3, 1.3), float(negative), False, 1.0, 1.0)
    found = step._apply_to_image(image.clone(), **step.get_parameters(image=image))
    expected = gamma_reference(image[0].double().numpy(), 1.3, negative)
    np.testing.assert_allclose(found[0].numpy(), expected, rtol=1e-4, atol=1e-4)


# ultralytics 8.4.190, cfg/default.yaml
YOLO = {
    **{"degrees": 0.0, "translate": 0.1, "scale": 0.5, "shear": 0.0, "fliplr": 0.5},
    **{"hsv_h": 0.015, "hsv_s": 0.7, "hsv_v": 0.4},
}


def test_yolo() -> None:
    given = inspect.signature(presets.yolo_train).parameters
    found = {key: given[key].default for key in ("degrees", "translate", "scale", "shear")}
    gains = dict(zip(("hsv_h", "hsv_s", "hsv_v"), given["hsv"].default, strict=True))
    assert {**found, **gains, "fliplr": given["flip"].default} == YOLO
    spec = importlib.util.find_spec("ultralytics")
    if spec is not None and spec.origin is not None:
        lines = (Path(spec.origin).parent / "cfg" / "default.yaml").read_text().splitlines()
        pairs = [line.split("#")[0].partition(":") for line in lines]
        theirs = {key: float(value) for key, _, value in pairs if key in YOLO}
        assert theirs == YOLO


def test_yolo_fits_images_into_the_size() -> None:
    """As LetterBox does there before RandomPerspective; it does not cut out the middle."""
    large = torch.arange(128 * 200, dtype=torch.uint8).view(1, 128, 200).expand(3, -1, -1)
    still: dict[str, Any] = {"translate": 0.0, "scale": 0.0, "hsv": (0.0, 0.0, 0.0), "flip": 0.0}
    found = presets.yolo_train(64, **still, seed=0)(large, index=0)
    boxed = T.Compose([T.Letterbox(64), T.ToDtype(torch.float32, scale=True)])(large)
    torch.testing.assert_close(found, boxed, rtol=0, atol=2 / 255)
    middle = presets.yolo_train(64, **still, letterbox=False, seed=0)(large, index=0)
    torch.testing.assert_close(middle, large[:, 32:96, 68:132].float() / 255)


@pytest.mark.parametrize("shape", [(40, 90), (90, 40), (30, 200), (50, 50)])
def test_sizes_of_mmsegmentation(shape: tuple[int, int]) -> None:
    """Both limits scale by the ratio: mmcv 2.1.0, RandomResize and image/geometric.py."""
    for ratio in (0.5, 1.25, 2.0):
        step = T.ScaleJitter((128, 64), (ratio, ratio), turn=True)
        found = step(torch.zeros(1, *shape)).shape[1:]
        factor = min(128 * ratio / max(shape), 64 * ratio / min(shape))
        assert all(abs(a - b * factor) <= 1 for a, b in zip(found, shape, strict=True))
    scale = presets.mmsegmentation_train().transforms[0]
    assert isinstance(scale, T.ScaleJitter)
    assert (scale.target_size, scale.scale_range, scale.turn) == ((2048, 1024), (0.5, 2.0), True)


def test_colors_of_mmsegmentation() -> None:
    """mmseg 1.2.2, PhotoMetricDistortion: four changes by halves, no other order of channels."""
    steps = presets.mmsegmentation_train().transforms
    light, choice = steps[3], steps[4]
    assert isinstance(light, T.RandomBrightnessContrast)
    assert (light.p, light.contrast_limit) == (0.5, (0.0, 0.0))
    assert light.brightness_limit == (-32 / 255, 32 / 255)
    assert isinstance(choice, T.RandomChoice)
    chains: list[Any] = list(choice.transforms)
    for chain, order in zip(chains, ([0, 1, 2], [1, 2, 0]), strict=True):
        contrast, saturation, hue = (chain.transforms[order.index(i)] for i in range(3))
        assert (contrast.p, contrast.contrast_limit) == (0.5, (-0.5, 0.5))
        assert contrast.brightness_limit == (0.0, 0.0)
        assert [(s.p, s.hgain, s.sgain, s.vgain) for s in (saturation, hue)] == [
            (0.5, 0.0, 0.5, 0.0),
            (0.5, 18 / 180, 0.0, 0.0),
        ]


@pytest.mark.parametrize(
    "chain",
    [
        presets.segmentation_train(32, 100, flip=0.0, seed=0),
        presets.mmsegmentation_train(100, (40, 30), seed=0),
    ],
    ids=["torchvision", "mmsegmentation"],
)
def test_padding_is_at_the_right_and_the_bottom(chain: T.Compose) -> None:
    sample = {"image": photo()[:, :60, :60], "mask": torch.ones(60, 60, dtype=torch.long)}
    for index in range(4):
        mask = chain(sample, index=index)["mask"]
        assert mask[0, 0] == 1
        assert mask[-1, -1] == 255
        rows, columns = mask.eq(1).nonzero().amax(0).tolist()
        assert torch.equal(
            mask[: rows + 1, : columns + 1], torch.ones(rows + 1, columns + 1).long()
        )


def test_recipes_keep_their_options() -> None:
    """Their transforms alone would lose them; files need no other chain."""
    chain = presets.detection_train("hflip", seed=0)
    with pytest.raises(ValueError, match="part of a recipe with boxes='sanitize'"):
        T.Compose([T.DecodeJpeg(), *chain.transforms])
    assert T.Compose([T.DecodeJpeg(), *chain.transforms], boxes="sanitize").reads_files
    made: list[Any] = [
        *(presets.classification_train, presets.classification_eval, presets.detection_train),
        *(presets.detection_eval, presets.segmentation_train, presets.segmentation_eval),
        *(presets.mmsegmentation_train, presets.yolo_train),
        *(presets.simclr, presets.moco, presets.dino),
    ]
    assert all(make(files=True).reads_files and not make().reads_files for make in made)
