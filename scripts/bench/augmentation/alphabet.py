"""Recipes with what no matrix expresses: bends, noise, blurs, HSV, policies, views.

Everybody draws for itself, so results are not compared: tests/transforms do that. A call makes 16
samples, each with other draws, and every call the same 16.
"""

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import torch
from bench.augmentation.pictures import MEAN, STD
from bench.harness import Case, Contender, case
from torchvision.transforms import v2
from visops import transforms as V
from visops.transforms import presets

_DRAWS = 16


def _photo(height: int, width: int) -> np.ndarray:
    noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    return cv2.GaussianBlur(noise, (0, 0), 2.0)


def _ours(transform: Callable[..., Any], value: Any) -> Callable[[], Any]:
    def call() -> None:
        for index in range(_DRAWS):
            transform(value, index=index)

    return call


def _theirs(transform: Callable[[], Any], seed: Callable[[int], Any]) -> Callable[[], Any]:
    def call() -> None:
        seed(0)
        for _ in range(_DRAWS):
            transform()

    return call


def _contenders(
    ours: Any,
    tensors: Any,
    arrays: Any,
    size: tuple[int, int],
    floors: tuple[float | None, float | None] = (None, None),
) -> list[Contender]:
    array = _photo(*size)
    image = torch.from_numpy(array).permute(2, 0, 1).contiguous()
    found = [Contender("visops.transforms", _ours(ours, image), comparable=_nothing)]
    if tensors is not None:
        call = _theirs(lambda: tensors(image), torch.manual_seed)
        found.append(Contender("torchvision", call, floor=floors[0], comparable=_nothing))
    if arrays is not None:
        seed = getattr(arrays, "set_random_seed", lambda _: None)
        call = _theirs(lambda: arrays(image=array)["image"], seed)
        name = "albumentations or cv2"
        found.append(Contender(name, call, floor=floors[1], comparable=_nothing))
    return found


def _nothing(_: Any) -> list[torch.Tensor]:
    return []


def _finish(m: Any) -> list[Any]:
    own = [] if m is V else [v2.ToPureTensor()]
    return [m.ToDtype(torch.float32, scale=True), m.Normalize(MEAN, STD), *own]


def _elastic() -> list[Contender]:
    import albumentations as A

    def chain(m: Any) -> list[Any]:
        return [m.ElasticTransform(), m.RandomResizedCrop(224), m.RandomHorizontalFlip()]

    arrays = A.Compose(
        [
            A.ElasticTransform(alpha=25, sigma=5, noise_distribution="uniform", p=1),
            A.RandomResizedCrop((224, 224)),
            A.HorizontalFlip(p=0.5),
            A.Normalize(MEAN, STD),
        ]
    )
    ours = V.Compose([*chain(V), *_finish(V)], seed=0)
    return _contenders(
        ours, v2.Compose([*chain(v2), *_finish(v2)]), arrays, (512, 512), (30.0, 3.0)
    )


def _policy(name: str) -> list[Contender]:
    def chain(m: Any) -> list[Any]:
        return [
            m.RandomResizedCrop(224),
            m.RandomHorizontalFlip(),
            getattr(m, name)(),
            *_finish(m),
        ]

    theirs = v2.Compose(chain(v2))
    return _contenders(V.Compose(chain(V), seed=0), theirs, None, (512, 512), (3.5, None))


def _noise() -> list[Contender]:
    import albumentations as A

    ours = V.Compose([V.GaussianNoise()], seed=0)
    arrays = A.GaussNoise((0.1, 0.1), p=1)
    return _contenders(ours, v2.GaussianNoise(), arrays, (512, 512))


class _YoloHsv:
    """Ultralytics' RandomHSV, by OpenCV."""

    def __init__(self, gains: tuple[float, float, float]) -> None:
        self.gains, self.generator = gains, np.random.default_rng(0)

    def __call__(self, image: np.ndarray) -> dict[str, np.ndarray]:
        h, s, v = self.generator.uniform(-1, 1, 3) * self.gains
        levels = np.arange(256, dtype=np.float64)
        tables = [
            ((levels + h * 180) % 180).astype(np.uint8),
            np.clip(levels * (s + 1), 0, 255).astype(np.uint8),
            np.clip(levels * (v + 1), 0, 255).astype(np.uint8),
        ]
        planes = cv2.split(cv2.cvtColor(image, cv2.COLOR_BGR2HSV))
        moved = [cv2.LUT(plane, table) for plane, table in zip(planes, tables, strict=True)]
        return {"image": cv2.cvtColor(cv2.merge(moved), cv2.COLOR_HSV2BGR)}


def _hsv() -> list[Contender]:
    gains = (0.015, 0.7, 0.4)
    ours = V.Compose([V.RandomHSV(*gains)], seed=0)
    return _contenders(ours, None, _YoloHsv(gains), (640, 640))


def _yolo() -> list[Contender]:
    """A mosaic's canvas: affine to half the size, HSV, mirror, float."""
    by_hand = _yolo_by_hand(np.random.default_rng(0))
    ours = presets.yolo_train(translate=0.05, letterbox=False, seed=0)
    return _contenders(ours, None, by_hand, (1280, 1280), (None, 3.0))


def _yolo_by_hand(generator: np.random.Generator) -> Callable[[np.ndarray], dict[str, Any]]:
    hsv = _YoloHsv((0.015, 0.7, 0.4))

    def by_hand(image: np.ndarray) -> dict[str, Any]:
        zoom, (x, y) = generator.uniform(0.5, 1.5), generator.uniform(-64, 64, 2)
        matrix = np.array([[zoom, 0, 320 - 640 * zoom + x], [0, zoom, 320 - 640 * zoom + y]])
        moved = cv2.warpAffine(image, matrix, (640, 640), borderValue=(114, 114, 114))
        moved = hsv(moved)["image"]
        if generator.random() < 0.5:
            moved = np.fliplr(moved)
        planes = np.ascontiguousarray(moved[..., ::-1].transpose(2, 0, 1))
        return {"image": torch.from_numpy(planes).float() / 255}

    return by_hand


def _mosaic() -> list[Contender]:
    """Four samples, each a mosaic of four photos: YOLO's mosaic, affine, HSV, mirror, float."""
    photos = [_photo(720, 960)] * 4
    images = [{"image": torch.from_numpy(p).permute(2, 0, 1).contiguous()} for p in photos]
    mosaics, chain = (
        presets.yolo_mosaic(seed=0),
        presets.yolo_train(translate=0, scale=0, letterbox=False, seed=0),
    )
    generator, finish = np.random.default_rng(0), _yolo_by_hand(np.random.default_rng(0))

    def by_hand() -> list[Any]:
        return [finish(_canvas_by_hand(photos, generator)) for _ in photos]

    def ours() -> None:
        chain(mosaics.collate(images, index=range(4)), index=range(4))

    return [
        Contender("visops.transforms", ours, comparable=_nothing),
        Contender("albumentations or cv2", by_hand, floor=3.0, comparable=_nothing),
    ]


def _canvas_by_hand(photos: list[np.ndarray], generator: np.random.Generator) -> np.ndarray:
    """Return four photos around a point of 1280², each resized to fit into 640², by OpenCV."""
    canvas = np.full((1280, 1280, 3), 114, np.uint8)
    x, y = (int(value) for value in generator.uniform(320, 960, 2))
    for tile, photo in enumerate(photos):
        factor = 640 / max(photo.shape[:2])
        size = int(photo.shape[1] * factor), int(photo.shape[0] * factor)
        part = cv2.resize(photo, size, interpolation=cv2.INTER_LINEAR)
        left, top = (x if tile % 2 else x - size[0]), (y if tile >= 2 else y - size[1])
        x1, y1 = max(left, 0), max(top, 0)
        x2, y2 = min(left + size[0], 1280), min(top + size[1], 1280)
        canvas[y1:y2, x1:x2] = part[y1 - top : y2 - top, x1 - left : x2 - left]
    return canvas


def _nnunet() -> list[Contender]:
    """One floating channel; torchvision's transforms in the same order and probabilities."""
    size, bilinear = 256, v2.InterpolationMode.BILINEAR
    theirs = v2.Compose(
        [
            v2.RandomApply(
                [v2.RandomAffine(180, scale=(0.7, 1.4), interpolation=bilinear)],
                0.36,
            ),
            v2.CenterCrop(size),
            v2.RandomHorizontalFlip(),
            v2.RandomVerticalFlip(),
            v2.RandomApply([v2.GaussianNoise(sigma=0.16)], 0.1),
            v2.RandomApply([v2.GaussianBlur(9, (0.5, 1.0))], 0.2),
            v2.RandomApply([v2.ColorJitter(brightness=(0.75, 1.25))], 0.15),
            v2.RandomApply([v2.ColorJitter(contrast=(0.75, 1.25))], 0.15),
            v2.RandomApply([v2.Resize(192), v2.Resize(size)], 0.25),
            v2.RandomApply([v2.Lambda(lambda i: v2.functional.adjust_gamma(i, 1.2))], 0.4),
        ]
    )
    ours = presets.nnunet_2d(size, seed=0)
    image = torch.from_numpy(_photo(320, 320)[..., :1].transpose(2, 0, 1).copy()).float() / 255
    call = _theirs(lambda: theirs(image), torch.manual_seed)
    return [
        Contender("visops.transforms", _ours(ours, image), comparable=_nothing),
        Contender("torchvision", call, floor=10.0, comparable=_nothing),
    ]


def _dino() -> list[Contender]:
    """DINOv2's first global view."""
    import albumentations as A

    def view(m: Any) -> list[Any]:
        crop = {"interpolation": "bicubic" if m is V else v2.InterpolationMode.BICUBIC}
        return [
            m.RandomResizedCrop(224, (0.32, 1.0), **crop),
            m.RandomHorizontalFlip(),
            m.RandomApply([m.ColorJitter(0.4, 0.4, 0.2, 0.1)], 0.8),
            m.RandomGrayscale(0.2),
            m.GaussianBlur(9, (0.1, 2.0)),
            *_finish(m),
        ]

    arrays = A.Compose(
        [
            A.RandomResizedCrop((224, 224), (0.32, 1.0), interpolation=cv2.INTER_CUBIC),
            A.HorizontalFlip(p=0.5),
            A.ColorJitter(0.4, 0.4, 0.2, 0.1, p=0.8),
            A.ToGray(p=0.2),
            A.GaussianBlur((9, 9), (0.1, 2.0), p=1),
            A.Normalize(MEAN, STD),
        ]
    )
    ours = V.Compose(view(V), seed=0)
    return _contenders(ours, v2.Compose(view(v2)), arrays, (375, 500), (8.0, 1.5))


def _one(name: str) -> list[Contender]:
    """A single transform of albumentations' name, always applied."""
    import albumentations as A

    options: dict[str, dict[str, Any]] = {
        "MotionBlur": {"blur_limit": (7, 7)},
        "MedianBlur": {"blur_limit": (3, 3)},
        "CLAHE": {},
        "Downscale": {},
        "CoarseDropout": {"num_holes_range": (8, 8)},
        "GridDistortion": {},
        "OpticalDistortion": {},
        "ThinPlateSpline": {},
        "ShotNoise": {},
        "UnsharpMask": {"blur_limit": (5, 5)},
    }
    own = options[name]
    ours = V.Compose([getattr(V, name)(**own, p=1.0)], seed=0)
    return _contenders(ours, None, getattr(A, name)(**own, p=1.0), (512, 512))


def _jpeg() -> list[Contender]:
    import albumentations as A

    ours = V.Compose([V.JPEG(60)], seed=0)
    arrays = A.ImageCompression(quality_range=(60, 60), p=1)
    return _contenders(ours, v2.JPEG(60), arrays, (512, 512))


def cases() -> list[Case]:
    """One row for each recipe, and for single transforms."""
    recipes = "recipes with more than matrices, one photo"
    single = "one transform, 512² uint8"
    rows: list[tuple[str, str, Callable[..., list[Contender]], tuple[Any, ...]]] = [
        (recipes, "elastic, crop, flip, normalise: 512² → 224²", _elastic, ()),
        (recipes, "crop, flip, RandAugment, normalise: 512² → 224²", _policy, ("RandAugment",)),
        (
            recipes,
            "crop, flip, TrivialAugmentWide, normalise: 512² → 224²",
            _policy,
            ("TrivialAugmentWide",),
        ),
        (recipes, "DINOv2's first view: 375×500 → 224²", _dino, ()),
        (recipes, "YOLO's affine, HSV, flip: 1280² → 640²", _yolo, ()),
        (recipes, "YOLO's mosaics, four of 720×960 → 640², affine, HSV, flip", _mosaic, ()),
        (recipes, "nnU-Net 2-D, one float channel: 320² → 256²", _nnunet, ()),
        (single, "GaussianNoise", _noise, ()),
        (single, "JPEG, quality 60", _jpeg, ()),
        (single, "RandomHSV, 640²", _hsv, ()),
        *(
            (single, name, _one, (name,))
            for name in (
                *("MotionBlur", "MedianBlur", "CLAHE", "Downscale", "CoarseDropout"),
                *(
                    "GridDistortion",
                    "OpticalDistortion",
                    "ThinPlateSpline",
                    "ShotNoise",
                    "UnsharpMask",
                ),
            )
        ),
    ]
    return [
        case(group, label, build, *arguments, threads=1, memory=False)
        for group, label, build, arguments in rows
    ]
