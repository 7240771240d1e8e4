"""One augmentation, written for each library: the same ranges, at the library's best settings.

All take a sample of the demo, a uint8 photo with boxes, a mask, labels and key points, and give a
float32 image, normalised, with the targets moved and the boxes that have left the picture dropped.
"""

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from visops import transforms

Sample = dict[str, Any]

SIZE = 224
SCALE = (0.35, 1.0)  # of the area that is cropped
DEGREES, SHIFT, ZOOM, SHEAR = 12.0, 0.1, (0.85, 1.15), 5.0
BRIGHTNESS, CONTRAST, SATURATION, HUE = 0.3, 0.3, 0.3, 0.05
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
IGNORED = 255  # class of the mask where there is no photo


@dataclass
class Chain:
    """A library's chain, for one sample."""

    name: str
    how: str
    call: Callable[[Sample, int], Sample]


def visops_chain() -> transforms.Compose:
    """The chain of this library: one pass."""
    return transforms.Compose(
        [
            transforms.RandomResizedCrop(SIZE, scale=SCALE),
            transforms.RandomHorizontalFlip(),
            transforms.RandomAffine(DEGREES, (SHIFT, SHIFT), ZOOM, SHEAR),
            transforms.ColorJitter(BRIGHTNESS, CONTRAST, SATURATION, HUE),
            transforms.ToDtype(torch.float32, scale=True),
            transforms.Normalize(MEAN, STD),
        ],
        seed=0,
        boxes="sanitize",
        mask_fill=IGNORED,
    )


class Visops:
    """A sample at a time."""

    def __init__(self) -> None:
        self.chain = visops_chain()

    def __call__(self, sample: Sample, index: int) -> Sample:
        result: Sample = self.chain(sample, index=index)
        return result


class Torchvision:
    """transforms.v2 on uint8 tensors, channels last in memory as the decoder puts them."""

    def __init__(self) -> None:
        v2: Any = importlib.import_module("torchvision.transforms.v2")
        tv: Any = importlib.import_module("torchvision.tv_tensors")
        fill = {tv.Image: 0, tv.Mask: IGNORED, "others": 0}
        bilinear = v2.InterpolationMode.BILINEAR
        self.chain = v2.Compose(
            [
                v2.RandomResizedCrop(SIZE, scale=SCALE, antialias=True),
                v2.RandomHorizontalFlip(),
                v2.RandomAffine(DEGREES, (SHIFT, SHIFT), ZOOM, SHEAR, bilinear, fill),
                v2.ColorJitter(BRIGHTNESS, CONTRAST, SATURATION, HUE),
                v2.ToDtype({tv.Image: torch.float32, "others": None}, scale=True),
                v2.Normalize(MEAN, STD),
                v2.SanitizeBoundingBoxes(labels_getter=_labels),
            ]
        )

    def __call__(self, sample: Sample, _: int) -> Sample:
        # Not an attribute: this object may be pickled for workers, and modules can't be.
        tv: Any = importlib.import_module("torchvision.tv_tensors")
        photo = torch.from_numpy(sample["image"]).permute(2, 0, 1)
        size = tuple(photo.shape[1:])
        boxes = torch.from_numpy(sample["boxes"])
        points = torch.from_numpy(sample["keypoints"])
        result: Sample = self.chain(
            {
                "image": tv.Image(photo),
                "mask": tv.Mask(torch.from_numpy(sample["mask"])),
                "boxes": tv.BoundingBoxes(boxes, format="XYXY", canvas_size=size),
                "labels": torch.arange(len(boxes)),
                "keypoints": tv.KeyPoints(points, canvas_size=size),
            }
        )
        return result


def _labels(sample: Sample) -> Any:
    return sample["labels"]


class Albumentations:
    """OpenCV underneath, uint8 until the end."""

    def __init__(self) -> None:
        os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")  # it would ask the network
        a: Any = importlib.import_module("albumentations")
        to_tensor: Any = importlib.import_module("albumentations.pytorch").ToTensorV2
        near = {"brightness": BRIGHTNESS, "contrast": CONTRAST, "saturation": SATURATION}
        self.chain = a.Compose(
            [
                a.RandomResizedCrop((SIZE, SIZE), scale=SCALE),
                a.HorizontalFlip(),
                a.Affine(
                    scale=ZOOM,
                    translate_percent=(-SHIFT, SHIFT),
                    rotate=(-DEGREES, DEGREES),
                    shear={"x": (-SHEAR, SHEAR), "y": (0, 0)},
                    fill_mask=IGNORED,
                    p=1.0,
                ),
                a.ColorJitter(
                    **{name: (1 - v, 1 + v) for name, v in near.items()}, hue=(-HUE, HUE), p=1.0
                ),
                a.Normalize(MEAN, STD),
                to_tensor(),
            ],
            bbox_params=a.BboxParams(
                "pascal_voc", label_fields=["labels"], min_width=1, min_height=1
            ),
            keypoint_params=a.KeypointParams("xy", remove_invisible=False),
        )

    def __call__(self, sample: Sample, _: int) -> Sample:
        result: Sample = self.chain(
            image=sample["image"],
            mask=sample["mask"],
            bboxes=sample["boxes"],
            labels=sample["labels"],
            keypoints=sample["keypoints"],
        )
        result["boxes"] = result.pop("bboxes")
        return result


class Kornia:
    """Float batches of one photo, since photos of different sizes can't share a batch."""

    def __init__(self) -> None:
        k: Any = importlib.import_module("kornia.augmentation")
        self.chain = k.AugmentationSequential(
            k.RandomResizedCrop((SIZE, SIZE), scale=SCALE),
            k.RandomHorizontalFlip(),
            k.RandomAffine(DEGREES, (SHIFT, SHIFT), ZOOM, SHEAR, p=1.0),
            k.ColorJitter(BRIGHTNESS, CONTRAST, SATURATION, HUE, p=1.0),
            k.Normalize(torch.tensor(MEAN), torch.tensor(STD)),
            data_keys=["input", "mask", "bbox_xyxy", "keypoints"],
        )

    def __call__(self, sample: Sample, _: int) -> Sample:
        photo = torch.from_numpy(sample["image"]).permute(2, 0, 1).float().div_(255)
        mask = torch.from_numpy(sample["mask"].astype(np.float32))
        boxes = torch.from_numpy(sample["boxes"])
        points = torch.from_numpy(sample["keypoints"])
        image, moved, found, seen = self.chain(
            photo[None], mask[None, None], boxes[None], points[None]
        )
        corners = found[0].clamp(0, SIZE)
        kept = ((corners[:, 2:] - corners[:, :2]) >= 1).all(1)
        return {
            "image": image[0],
            "mask": moved[0, 0],
            "boxes": corners[kept],
            "labels": kept.nonzero()[:, 0],
            "keypoints": seen[0],
        }


def make_chains() -> tuple[list[Chain], list[str]]:
    """Every library that is installed, and the names of those that are not."""
    chains = [Chain("visops, samples", "Compose, a sample at a time", Visops())]
    peers: list[tuple[str, str, Callable[[], Callable[[Sample, int], Sample]]]] = [
        ("torchvision", "transforms.v2 on tensors", Torchvision),
        ("albumentations", "arrays, OpenCV underneath", Albumentations),
        ("kornia", "float batches of one", Kornia),
    ]
    missing = []
    for name, how, make in peers:
        try:
            call = make()
            version = importlib.import_module(name).__version__.partition("+")[0]
            chains.append(Chain(f"{name} {version}", how, call))
        except ImportError:
            missing.append(name)
    return chains, missing
