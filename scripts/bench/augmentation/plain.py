"""Chains without rotation or scale: crop, flip, ToDtype, Normalize, as many trainings have them.

There is little to fuse: torchvision's steps are a view, two copies and arithmetic in place.
"""

from dataclasses import replace
from typing import Any

import torch
from bench.augmentation.libraries import finish
from bench.harness import Case, Contender, Tolerance, pair, rows
from torchvision.transforms import v2
from visops import transforms as V

_ROUNDING = Tolerance(max_abs=1e-5, why="scale and mean in one product and sum")


def _chain(library: Any, crop: int, whole: bool) -> Any:
    steps = [library.CenterCrop(crop), library.RandomHorizontalFlip(1.0)]
    return library.Compose([*steps, *(finish(library) if whole else [])])


def contenders(size: int, crop: int, layout: str, whole: bool) -> list[Contender]:
    """One photo [3, size, size], planes or channels_last."""
    generator = torch.Generator().manual_seed(0)
    image = torch.randint(0, 256, (3, size, size), dtype=torch.uint8, generator=generator)
    if layout == "HWC":
        image = image.permute(1, 2, 0).contiguous().permute(2, 0, 1)
    floor = 1.0 if whole else None
    both = _chain(V, crop, whole), _chain(v2, crop, whole)
    ours, theirs = pair("torchvision", *both, [image], _ROUNDING, floor)
    return [replace(ours, name="visops.transforms"), theirs]


def cases() -> list[Case]:
    """A small picture, and photos of two sizes; the last rows have nothing to fuse."""
    group = "one uint8 photo, CenterCrop, flip, ToDtype, Normalize → float32 CHW"
    sizes = (
        (40, 32, "CHW"),
        (256, 224, "CHW"),
        (256, 224, "HWC"),
        (576, 512, "CHW"),
        (576, 512, "HWC"),
    )
    table = {f"{size}² → {crop}², {of}": (size, crop, of, True) for size, crop, of in sizes}
    table["256² → 224², CHW, crop and flip alone"] = (256, 224, "CHW", False)
    return rows(group, contenders, table, "^256")
