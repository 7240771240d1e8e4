"""Samples, chains and loaders that tests of the loader share."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import visops
from torchvision.transforms import v2
from visops import transforms

from .photos import FILES, Detections, chain, png

BATCH = 5


def expected(samples: Any, own: Any, epoch: int = 0) -> list[Any]:
    """What `Compose.collate` makes of the data set, batch by batch."""
    batches = []
    for begin in range(0, len(samples), BATCH):
        positions = range(begin, min(begin + BATCH, len(samples)))
        batch = own.collate([samples[i] for i in positions], index=positions, epoch=epoch)
        if isinstance(batch, dict) and isinstance(batch.get("mask"), list):
            # It lists masks that came in several sizes; a loader knows only what comes out.
            batch["mask"] = torch.stack(batch["mask"])
        batches.append(batch)
    return batches


def loaded(samples: Any, own: Any, threads: int = 3, **options: Any) -> list[Any]:
    return list(transforms.Loader(samples, own, BATCH, threads=threads, **options))


PHOTOS = [visops.decode_jpeg(file) for file in FILES]

ARRAYS = [visops.decode_jpeg(np.frombuffer(file, np.uint8)) for file in FILES]

SAMPLES: dict[str, Any] = {
    "files": FILES,
    "files and labels": [(file, index % 3) for index, file in enumerate(FILES)],
    "labels first": [(index, file) for index, file in enumerate(FILES)],
    "lists": [[file, index, "name"] for index, file in enumerate(FILES)],
    "dicts": [{"image": file, "label": index} for index, file in enumerate(FILES)],
    "nested": [(file, {"label": index}) for index, file in enumerate(FILES)],
    "buffers": [memoryview(file) for file in FILES],
    "tensors": [torch.frombuffer(bytearray(file), dtype=torch.uint8) for file in FILES],
    "detections": Detections(),
    "PNG among them": [*FILES[:7], png(ARRAYS[7][..., ::-1].copy()), *FILES[8:]],
}

CHAINS: dict[str, Callable[[], transforms.Compose]] = {
    "one pass": chain,
    "channels last": lambda: chain(memory_format=torch.channels_last),
    "uint8": lambda: transforms.Compose(
        [transforms.DecodeJpeg(), transforms.RandomResizedCrop(24)], seed=1
    ),
    "grey, bfloat16": lambda: transforms.Compose(
        [
            transforms.DecodeJpeg("gray"),
            transforms.Resize((20, 30)),
            transforms.RandomAffine(20, shear=5, fill=7),
            transforms.ToDtype(torch.bfloat16, scale=True),
            transforms.RandomErasing(p=0.5),
        ],
        seed=2,
    ),
    "exact": lambda: transforms.Compose(
        [
            transforms.DecodeJpeg(),
            transforms.RandomResizedCrop(24),
            transforms.RandomRotation(20),
            transforms.CenterCrop(16),
        ],
        seed=3,
        exact=True,
    ),
    "sanitize": lambda: chain(boxes="sanitize", min_visibility=0.3),
    "policies": lambda: chain(transforms.RandAugment()),
    "policies between geometry": lambda: chain(
        transforms.RandAugment(),
        transforms.RandomRotation(20),
        transforms.TrivialAugment(),
        transforms.RandomAdjustSharpness(2.0),
        transforms.RandomResizedCrop(16),
        memory_format=torch.channels_last,
    ),
    "policies on floats": lambda: chain(
        transforms.ToDtype(torch.float32, scale=True), transforms.RandAugment()
    ),
    "values at the end": lambda: transforms.Compose(
        [transforms.DecodeJpeg(), transforms.Resize((20, 30)), transforms.RandAugment()], seed=2
    ),
    "two interpolations": lambda: chain(transforms.Resize((18, 20), interpolation="nearest")),
    "another package's": lambda: transforms.Compose(
        [*chain().transforms, v2.GaussianNoise()], seed=1
    ),
}
