"""Chains without rotation or scale: crop, flip, ToDtype, Normalize, as many trainings have them.

There is little to fuse: torchvision's steps are a view, two copies and arithmetic in place.
"""

from typing import Any

import torch
from bench.augmentation.pictures import MEAN, STD
from bench.harness import Case, Contender, Tolerance, case
from torchvision.transforms import v2
from visops import transforms as V

_ROUNDING = Tolerance(max_abs=1e-5, why="scale and mean in one product and sum")


def _steps(library: Any, crop: int, whole: bool) -> list[Any]:
    steps = [library.CenterCrop(crop), library.RandomHorizontalFlip(1.0)]
    if whole:
        steps += [library.ToDtype(torch.float32, scale=True), library.Normalize(MEAN, STD)]
    return steps


def contenders(size: int, crop: int, layout: str, whole: bool) -> list[Contender]:
    """One photo [3, size, size], planes or channels_last."""
    generator = torch.Generator().manual_seed(0)
    image = torch.randint(0, 256, (3, size, size), dtype=torch.uint8, generator=generator)
    if layout == "HWC":
        image = image.permute(1, 2, 0).contiguous().permute(2, 0, 1)
    ours, theirs = V.Compose(_steps(V, crop, whole)), v2.Compose(_steps(v2, crop, whole))
    return [
        Contender("visops.transforms", lambda: ours(image)),
        Contender("torchvision", lambda: theirs(image), _ROUNDING, floor=1.0 if whole else None),
    ]


def cases() -> list[Case]:
    """A small picture, and photos of two sizes; the last rows have nothing to fuse."""
    group = "one uint8 photo, CenterCrop, flip, ToDtype, Normalize → float32 CHW"
    rows: list[tuple[int, int, str, bool]] = [
        (40, 32, "CHW", True),
        (256, 224, "CHW", True),
        (256, 224, "HWC", True),
        (576, 512, "CHW", True),
        (576, 512, "HWC", True),
        (256, 224, "CHW", False),
    ]
    return [
        case(
            group,
            f"{size}² → {crop}², {layout}{'' if whole else ', crop and flip alone'}",
            contenders,
            *(size, crop, layout, whole),
            quick=size == 256,
        )
        for size, crop, layout, whole in rows
    ]
