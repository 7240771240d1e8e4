"""Recipes with what no matrix expresses: bends, noise, blurs, HSV, policies, views.

Everybody draws for itself, so results are not compared: tests/transforms do that. A call makes 16
samples, each with other draws, and every call the same 16.
"""

import functools
from collections.abc import Callable
from typing import Any

import albumentations as A
import cv2
import numpy as np
import torch
from bench.augmentation.libraries import finish
from bench.augmentation.pictures import MEAN, STD
from bench.harness import Case, Contender
from torchvision.transforms import v2
from visops import transforms as V
from visops.transforms import presets

_DRAWS = 16
_GAINS = (0.015, 0.7, 0.4)  # of YOLO's jitter


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


def _nothing(_: Any) -> list[torch.Tensor]:
    return []


def _contenders(ours: Any, tensors: Any, arrays: Any, size: tuple[int, int]) -> list[Contender]:
    array = _photo(*size)
    image = torch.from_numpy(array).permute(2, 0, 1).contiguous()
    found = [Contender("visops.transforms", _ours(ours, image), comparable=_nothing)]
    if tensors is not None:
        call = _theirs(lambda: tensors(image), torch.manual_seed)
        found.append(Contender("torchvision", call, comparable=_nothing))
    if arrays is not None:
        seed = getattr(arrays, "set_random_seed", lambda _: None)
        call = _theirs(lambda: arrays(image=array)["image"], seed)
        name = "albumentations or cv2"
        found.append(Contender(name, call, comparable=_nothing))
    return found


def _recipe(
    steps: Callable[[Any], list[Any]], arrays: list[Any], size: tuple[int, int]
) -> list[Contender]:
    """The same steps in visops and torchvision, albumentations' own, and normalised floats."""
    ours = V.Compose([*steps(V), *finish(V)], seed=0)
    tensors = v2.Compose([*steps(v2), *finish(v2)])
    theirs = A.Compose([*arrays, A.Normalize(MEAN, STD)]) if arrays else None
    return _contenders(ours, tensors, theirs, size)


def _elastic() -> list[Contender]:
    def steps(m: Any) -> list[Any]:
        return [m.ElasticTransform(), m.RandomResizedCrop(224), m.RandomHorizontalFlip()]

    arrays = [
        A.ElasticTransform(alpha=25, sigma=5, noise_distribution="uniform", p=1),
        A.RandomResizedCrop((224, 224)),
        A.HorizontalFlip(p=0.5),
    ]
    return _recipe(steps, arrays, (512, 512))


def _policy(name: str) -> list[Contender]:
    def steps(m: Any) -> list[Any]:
        return [m.RandomResizedCrop(224), m.RandomHorizontalFlip(), getattr(m, name)()]

    return _recipe(steps, [], (512, 512))


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


def _yolo() -> list[Contender]:
    """A mosaic's canvas: affine to half the size, HSV, mirror, float."""
    by_hand = _yolo_by_hand(np.random.default_rng(0))
    ours = presets.yolo_train(translate=0.05, letterbox=False, seed=0)
    return _contenders(ours, None, by_hand, (1280, 1280))


def _yolo_by_hand(generator: np.random.Generator) -> Callable[[np.ndarray], dict[str, Any]]:
    hsv = _YoloHsv(_GAINS)

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
    mosaics = presets.yolo_mosaic(seed=0)
    chain = presets.yolo_train(translate=0, scale=0, letterbox=False, seed=0)
    generator, finish = np.random.default_rng(0), _yolo_by_hand(np.random.default_rng(0))

    def by_hand() -> list[Any]:
        return [finish(_canvas_by_hand(photos, generator)) for _ in photos]

    def ours() -> None:
        chain(mosaics.collate(images, index=range(4)), index=range(4))

    return [
        Contender("visops.transforms", ours, comparable=_nothing),
        Contender("albumentations or cv2", by_hand, comparable=_nothing),
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


def _dino() -> list[Contender]:
    """DINOv2's first global view."""

    def steps(m: Any) -> list[Any]:
        return [
            m.RandomResizedCrop(224, (0.32, 1.0), interpolation=v2.InterpolationMode.BICUBIC),
            m.RandomHorizontalFlip(),
            m.RandomApply([m.ColorJitter(0.4, 0.4, 0.2, 0.1)], 0.8),
            m.RandomGrayscale(0.2),
            m.GaussianBlur(9, (0.1, 2.0)),
        ]

    arrays = [
        A.RandomResizedCrop((224, 224), (0.32, 1.0), interpolation=cv2.INTER_CUBIC),
        A.HorizontalFlip(p=0.5),
        A.ColorJitter(0.4, 0.4, 0.2, 0.1, p=0.8),
        A.ToGray(p=0.2),
        A.GaussianBlur((9, 9), (0.1, 2.0), p=1),
    ]
    return _recipe(steps, arrays, (375, 500))


def _single(ours: Any, tensors: Any, arrays: Any, side: int = 512) -> list[Contender]:
    return _contenders(V.Compose([ours], seed=0), tensors, arrays, (side, side))


# Transforms of albumentations' names, always applied.
_OPTIONS: dict[str, dict[str, Any]] = {
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
    "AdvancedBlur": {},
    "Illumination": {},
    "RandomShadow": {},
    "RandomSnow": {},
    "RandomToneCurve": {},
    "PlasmaBrightnessContrast": {},
    "PlasmaShadow": {},
    "Morphological": {},
    "RandomGridShuffle": {},
    "PadIfNeeded": {"min_height": 600, "min_width": 600},
}


def _one(name: str) -> list[Contender]:
    ours, theirs = (getattr(library, name)(**_OPTIONS[name], p=1.0) for library in (V, A))
    return _single(ours, None, theirs)


_OTHERS: dict[str, Callable[[], list[Contender]]] = {
    "GaussianNoise": lambda: _single(
        V.GaussianNoise(), v2.GaussianNoise(), A.GaussNoise((0.1, 0.1), p=1)
    ),
    "JPEG, quality 60": lambda: _single(
        V.JPEG(60), v2.JPEG(60), A.ImageCompression(quality_range=(60, 60), p=1)
    ),
    "RandomHSV, 640²": lambda: _single(V.RandomHSV(*_GAINS), None, _YoloHsv(_GAINS), 640),
}


def cases() -> list[Case]:
    """One row for each recipe, and for single transforms."""
    recipes: dict[str, Callable[[], list[Contender]]] = {
        "elastic, crop, flip, normalise: 512² → 224²": _elastic,
        **{
            f"crop, flip, {name}, normalise: 512² → 224²": functools.partial(_policy, name)
            for name in ("RandAugment", "TrivialAugmentWide")
        },
        "DINOv2's first view: 375×500 → 224²": _dino,
        "YOLO's affine, HSV, flip: 1280² → 640²": _yolo,
        "YOLO's mosaics, four of 720×960 → 640², affine, HSV, flip": _mosaic,
    }
    single: dict[str, Callable[[], list[Contender]]] = {
        **_OTHERS,
        **{name: functools.partial(_one, name) for name in _OPTIONS},
    }
    return [
        Case(group, label, build, threads=1, memory=False)
        for group, builds in (
            ("recipes with more than matrices, one photo", recipes),
            ("one transform, 512² uint8", single),
        )
        for label, build in builds.items()
    ]
