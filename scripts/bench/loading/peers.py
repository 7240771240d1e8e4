"""The same work by other libraries, each with what it is fastest with."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import albumentations as A
import cv2
import numpy as np
import simplejpeg
import torch
import torchvision.transforms.v2 as T
from bench.augmentation.pictures import MEAN, STD
from bench.loading.files import BATCH, JITTER, SCALE, TARGET, THREADS
from bench.loading.ours import InWorkers, channel_means
from PIL import Image
from torch.utils.data import Dataset
from torchvision import tv_tensors

Load = Callable[[Any], Any]


class Loaded(Dataset[Any]):
    """Samples, loaded by a function."""

    def __init__(self, samples: Sequence[Any], load: Load) -> None:
        self.samples, self.load = samples, load

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        return self.load(self.samples[index])


def _start(_: int) -> None:
    torch.set_num_threads(1)
    cv2.setNumThreads(0)


def photo(path: str) -> Any:
    """Pixels [H, W, 3]: simplejpeg is the fastest of the decoders that peers have."""
    return simplejpeg.decode_jpeg(Path(path).read_bytes())


def torchvision_chain() -> T.Compose:
    """transforms.v2 on tensors whose memory is HWC, which it resizes fastest."""
    return T.Compose(
        [
            T.RandomResizedCrop(TARGET, SCALE, antialias=True),
            T.RandomHorizontalFlip(),
            T.ColorJitter(*JITTER),
            T.ToDtype({tv_tensors.Mask: None, "others": torch.float32}, scale=True),
            T.Normalize(MEAN, STD),
        ]
    )


class ByTorchvision:
    """One photo."""

    def __init__(self) -> None:
        self.chain = torchvision_chain()

    def __call__(self, path: str) -> Any:
        return self.chain(torch.from_numpy(photo(path)).permute(2, 0, 1)).contiguous()


class DetectionByTorchvision:
    """A photo with boxes and a mask."""

    def __init__(self) -> None:
        self.chain = torchvision_chain()
        self.sanitize = T.SanitizeBoundingBoxes(labels_getter=None)

    def __call__(self, sample: dict[str, Any]) -> Any:
        pixels = torch.from_numpy(photo(sample["image"])).permute(2, 0, 1)
        size: Any = tuple(pixels.shape[1:])
        boxes = torch.from_numpy(sample["boxes"])
        whole = {
            "image": tv_tensors.Image(pixels),
            "boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=size),  # type: ignore[call-overload]
            "mask": tv_tensors.Mask(torch.from_numpy(np.array(Image.open(sample["mask"])))),
        }
        found = self.sanitize(self.chain(whole))
        return {name: value.as_subclass(torch.Tensor) for name, value in found.items()}


def lists_of_boxes(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Collate: images and masks stacked, boxes listed."""
    return {
        "image": torch.stack([sample["image"] for sample in samples]),
        "mask": torch.stack([sample["mask"] for sample in samples]),
        "boxes": [sample["boxes"] for sample in samples],
    }


class ByAlbumentations:
    """OpenCV underneath, uint8 until the end."""

    def __init__(self) -> None:
        os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")
        names = ("brightness", "contrast", "saturation", "hue")
        jitter: dict[str, Any] = dict(zip(names, JITTER, strict=True))
        self.chain = A.Compose(
            [
                A.RandomResizedCrop((TARGET, TARGET), SCALE, area_for_downscale="image"),
                A.HorizontalFlip(),
                A.ColorJitter(**jitter, p=1.0),
                A.Normalize(MEAN, STD),
                A.ToTensorV2(),
            ],
            is_check_shapes=False,
        )

    def __call__(self, path: str) -> Any:
        return self.chain(image=photo(path))["image"]


def in_workers(samples: Sequence[Any], load: Load, collate: Any = None) -> InWorkers:
    """A DataLoader with two workers."""
    return InWorkers(Loaded(samples, load), collate, _start)


class Spdl:
    """SPDL's pipeline of threads, around simplejpeg and albumentations.

    Its own decoder needs FFmpeg's shared libraries, which no package of PyPI has. Around
    torchvision it takes twice as long.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.builder: Any = importlib.import_module("spdl.pipeline").PipelineBuilder
        self.paths, self.load = list(paths), ByAlbumentations()

    def __call__(self) -> Any:
        before = torch.get_num_threads(), cv2.getNumThreads()
        _start(0)
        try:
            return channel_means(self._batches())
        finally:
            torch.set_num_threads(before[0])
            cv2.setNumThreads(before[1])

    def _batches(self) -> Iterator[Any]:
        pipeline = (
            self.builder()
            .add_source(self.paths)
            .pipe(self.load, concurrency=THREADS, output_order="input")
            .aggregate(BATCH)
            .pipe(torch.stack)
            .add_sink(2)
            .build(num_threads=THREADS)
        )
        with pipeline.auto_stop():
            yield from pipeline.get_iterator()


class Dali:
    """DALI's pipeline on the CPU; its decoder leaves out what the crop doesn't need, too."""

    def __init__(self, paths: Sequence[str]) -> None:
        dali: Any = importlib.import_module("nvidia.dali")
        fn: Any = importlib.import_module("nvidia.dali.fn")
        types: Any = importlib.import_module("nvidia.dali.types")
        self.batches = len(paths) // BATCH
        brightness, contrast, saturation, hue = JITTER
        build: Any = dali.pipeline_def(
            batch_size=BATCH, num_threads=THREADS, device_id=None, seed=0
        )

        @build
        def define() -> Any:
            files, _ = fn.readers.file(files=list(paths))
            images = fn.decoders.image_random_crop(
                files, device="cpu", random_area=list(SCALE), random_aspect_ratio=[3 / 4, 4 / 3]
            )
            images = fn.resize(images, size=[TARGET, TARGET], antialias=True)
            images = fn.color_twist(
                images,
                brightness=fn.random.uniform(range=[1 - brightness, 1 + brightness]),
                contrast=fn.random.uniform(range=[1 - contrast, 1 + contrast]),
                saturation=fn.random.uniform(range=[1 - saturation, 1 + saturation]),
                hue=fn.random.uniform(range=[-360 * hue, 360 * hue]),
            )
            return fn.crop_mirror_normalize(
                images,
                mean=[255 * value for value in MEAN],
                std=[255 * value for value in STD],
                mirror=fn.random.coin_flip(),
                output_layout="CHW",
                dtype=types.FLOAT,
            )

        self.pipeline = define()
        self.pipeline.build()

    def __call__(self) -> Any:
        return channel_means(self._batches())

    def _batches(self) -> Iterator[Any]:
        # run() would begin two batches of the next epoch, during another contender's turn.
        ahead = min(2, self.batches)
        for _ in range(ahead):
            self.pipeline.schedule_run()
        for number in range(self.batches):
            (images,) = self.pipeline.share_outputs()
            yield torch.from_numpy(np.asarray(images.as_tensor()))
            self.pipeline.release_outputs()
            if number + ahead < self.batches:
                self.pipeline.schedule_run()
