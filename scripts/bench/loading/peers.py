"""The same work by other libraries, each with what it is fastest with."""

import contextlib
import functools
import importlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import albumentations as A
import cv2
import numpy as np
import torch
from bench.augmentation.libraries import albumentations
from bench.augmentation.pictures import MEAN, STD
from bench.loading.by_torchvision import photo
from bench.loading.files import BATCH, JITTER, ONE, SCALE, TARGET, THREADS, folder
from bench.loading.ours import channel_means, start


@functools.cache
def importable(name: str, module: str) -> bool:
    """Whether a peer can be imported; where it can't, a line says that it is left out."""
    try:
        importlib.import_module(module)
    except (ImportError, OSError) as error:  # OSError: a library that it is linked to is missing
        print(f"{name} is left out, since it can't be imported: {error}", file=sys.stderr)
        return False
    return True


@contextlib.contextmanager
def one_thread_each() -> Iterator[None]:
    """Let torch and OpenCV use no threads of their own, and afterwards as many as before."""
    before = torch.get_num_threads(), cv2.getNumThreads()
    start(0)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        cv2.setNumThreads(before[1])


class ByAlbumentations:
    """OpenCV underneath, uint8 until the end: a photo's crop, or a list of its crops."""

    def __init__(self, crops: Sequence[Any] = ONE) -> None:
        names = ("brightness", "contrast", "saturation", "hue")
        jitter: dict[str, Any] = dict(zip(names, JITTER, strict=True))
        self.chains = [
            albumentations(
                A.RandomResizedCrop((side, side), scale, area_for_downscale="image"),
                A.HorizontalFlip(),
                A.ColorJitter(**jitter, p=1.0),
            )
            for side, scale in crops
        ]

    def __call__(self, path: str) -> Any:
        pixels = photo(path)
        views = [chain(image=pixels)["image"] for chain in self.chains]
        return views if len(views) > 1 else views[0]


class Spdl:
    """SPDL's pipeline of threads, around simplejpeg and albumentations.

    Its own decoder needs FFmpeg's shared libraries, which no package of PyPI has. Around
    torchvision it takes twice as long.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.builder: Any = importlib.import_module("spdl.pipeline").PipelineBuilder
        self.paths, self.load = list(paths), ByAlbumentations()

    def __call__(self) -> Any:
        with one_thread_each():
            return channel_means(self._batches())

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


class Ffcv:
    """FFCV's loader, from a file of its own that holds arrays or JPEG files of quality 90.

    It does less: it has no hue. Its batches' memory is channels last.
    """

    def __init__(
        self, paths: Sequence[str], mode: Literal["raw", "JPEG"], jitter: bool = True
    ) -> None:
        ffcv: Any = importlib.import_module("ffcv")
        fields: Any = importlib.import_module("ffcv.fields.rgb_image")
        ops: Any = importlib.import_module("ffcv.transforms")
        colour: Any = importlib.import_module("ffcv.transforms.color_jitter")
        classes = colour.RandomBrightness, colour.RandomContrast, colour.RandomSaturation
        jitters = [made(share, p=1.0) for made, share in zip(classes, JITTER[:3], strict=True)]
        file = str(folder() / f"{id(self)}.beton")
        field = {"image": fields.RGBImageField(write_mode="jpg" if mode == "JPEG" else mode)}
        photos = [(photo(path),) for path in paths]
        with one_thread_each():  # which FFCV sets for itself
            ffcv.writer.DatasetWriter(file, field, num_workers=1).from_indexed_dataset(photos)
            self.loader = ffcv.Loader(
                file,
                BATCH,
                THREADS,
                os_cache=True,
                drop_last=False,
                pipelines={
                    "image": [
                        fields.RandomResizedCropRGBImageDecoder((TARGET, TARGET), SCALE),
                        ops.RandomHorizontalFlip(),
                        *(jitters if jitter else []),
                        ops.NormalizeImage(
                            255 * np.array(MEAN), 255 * np.array(STD), np.dtype(np.float32)
                        ),
                        ops.ToTensor(),
                        ops.ToTorchImage(),
                    ]
                },
            )

    def __call__(self) -> Any:
        with one_thread_each():
            return channel_means(images for (images,) in self.loader)


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
