"""The same work by other libraries, each with what it is fastest with."""

import importlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import albumentations as A
import cv2
import numpy as np
import torch
from bench.augmentation.pictures import MEAN, STD
from bench.loading.by_torchvision import photo
from bench.loading.files import BATCH, JITTER, SCALE, TARGET, THREADS
from bench.loading.ours import channel_means
from bench.loading.workers import start


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
        start(0)
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
