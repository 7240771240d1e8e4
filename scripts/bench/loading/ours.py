"""Our loader, its bound, our chain in a DataLoader, and functions in its workers."""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from bench.augmentation.pictures import MEAN, STD
from bench.loading.files import BATCH, JITTER, SCALE, TARGET, THREADS, VIEWS
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from visops import transforms as V
from visops._native import Passes
from visops.jpeg.file import JpegFile
from visops.transforms.chain.compile import compiled, stage_of
from visops.transforms.chain.decode import reach_of
from visops.transforms.chain.plan import Plan
from visops.transforms.loading.threads import use_one_thread

Epoch = Callable[[], Any]
Chain = V.Compose | V.Views


def chain(
    side: int = TARGET, scale: tuple[float, float] = SCALE, jitter: bool = True, **options: Any
) -> V.Compose:
    """Crop, flip, jitter, normalise; from files."""
    return V.Compose(
        [
            V.DecodeJpeg(),
            V.RandomResizedCrop(side, scale),
            V.RandomHorizontalFlip(),
            *([V.ColorJitter(*JITTER)] if jitter else []),
            V.ToDtype(torch.float32, scale=True),
            V.Normalize(MEAN, STD),
        ],
        seed=0,
        **options,
    )


def views() -> V.Views:
    """The same for each view."""
    return V.Views([chain(*crop) for crop in VIEWS], seed=0)


def channel_means(batches: Iterable[Any]) -> list[Tensor]:
    """Take batches as a training loop does; return each view's means of channels, to compare."""
    means = []
    for batch in batches:
        images = batch["image"] if isinstance(batch, dict) else batch
        views = images if isinstance(images, (tuple, list)) else [images]
        means.append(torch.stack([view[:, :, ::8, ::8].mean((0, 2, 3)) for view in views]))
    return means


def mean(batches: list[Tensor]) -> Tensor:
    """Over all batches."""
    return torch.stack(batches).mean(0)


def loader(samples: Sequence[Any], own: Chain, threads: int = THREADS, **options: Any) -> Epoch:
    """The loader under test."""
    made = V.Loader(samples, own, BATCH, threads=threads, **options)

    def epoch() -> list[Tensor]:
        made.set_epoch(0)
        return channel_means(made)

    return epoch


class Loaded(Dataset[Any]):
    """Samples, loaded by a function."""

    def __init__(self, samples: Sequence[Any], load: Callable[[Any], Any]) -> None:
        self.samples, self.load = samples, load

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        return self.load(self.samples[index])


def contents(sample: Any) -> Any:
    """A file's contents, and what belongs to it."""
    if not isinstance(sample, dict):
        return Path(sample).read_bytes()
    mask = np.asarray(Image.open(sample["mask"]))
    return {**sample, "image": Path(sample["image"]).read_bytes(), "mask": mask}


def start(_: int) -> None:
    """Begin a worker, which has threads of its own for nothing."""
    torch.set_num_threads(1)
    cv2.setNumThreads(0)


class InWorkers:
    """A DataLoader whose workers persist, two by default; a call is an epoch."""

    def __init__(
        self, dataset: Any, collate: Any = None, start: Any = None, **options: Any
    ) -> None:
        self.loader: Any = DataLoader(
            dataset,
            collate_fn=collate,
            worker_init_fn=start,
            persistent_workers=True,
            **{"batch_size": BATCH, "num_workers": THREADS, **options},
        )

    def __call__(self) -> list[Tensor]:
        return channel_means(self.loader)


def one_by_one(samples: Sequence[Any], own: Chain, collate: Any = None) -> InWorkers:
    """`IndexedDataset` in a DataLoader."""
    return InWorkers(V.IndexedDataset(Loaded(samples, contents), own), collate)


def collated(samples: Sequence[Any], own: Chain) -> InWorkers:
    """`Compose.collate` in a DataLoader."""
    return InWorkers(Loaded(samples, contents), own.collate)


def in_workers(
    samples: Sequence[Any], load: Callable[[Any], Any], collate: Any = None, **options: Any
) -> InWorkers:
    """A DataLoader of a function of samples, with two workers, or as its options say."""
    return InWorkers(Loaded(samples, load), collate, start, **options)


def onto_gpu(samples: Sequence[Any], load: Callable[[Any], Any], workers: int) -> Epoch:
    """By so many workers, through pinned memory."""
    loader = in_workers(samples, load, num_workers=workers, pin_memory=True).loader
    return lambda: channel_means(batch.to("cuda", non_blocking=True) for batch in loader)


class Bound:
    """Decoding the same windows and augmenting them, prepared: nothing is drawn or collated."""

    def __init__(self, paths: Sequence[str], own: V.Compose) -> None:
        (part,) = own.passes
        native = compiled(part, own.slices)
        self.jobs = []
        for index, path in enumerate(paths):
            file = JpegFile(Path(path).read_bytes(), True, 1 << 28)
            plan = Plan.of_images(np.array([file.size]), 3, torch.uint8, False)
            native.set_constants(plan)
            native.chain.draw(plan, 0, 0, [index], False, None)
            window, reduction = plan.windows(*reach_of(part))[0], plan.reductions()[0]
            pixels, corner = file.decode(window, reduction, 3)
            moved = plan.for_parts(np.array([(*corner, *pixels.shape[:2])]))
            stage = stage_of(native, torch.uint8, 3, plan.constants)
            assert stage is not None
            augment = functools.partial(Passes([stage]).run_each, [moved])
            self.jobs.append((functools.partial(file.decode, window, reduction, 3), augment))
        self.pool = ThreadPoolExecutor(THREADS, initializer=use_one_thread)
        self.out = torch.empty(len(paths), 3, TARGET, TARGET)

    def __call__(self) -> list[Tensor]:
        return channel_means(self._batches())

    def _batches(self) -> Iterator[Tensor]:
        found = self.pool.map(self._run, range(len(self.jobs)))
        for begin in range(0, len(self.jobs), BATCH):
            for _ in range(begin, min(begin + BATCH, len(self.jobs))):
                next(found)
            yield self.out[begin : begin + BATCH]

    def _run(self, index: int) -> None:
        decode, augment = self.jobs[index]
        pixels, _ = decode()
        _, columns, channels = pixels.shape
        image = pixels.ctypes.data, (1, columns * channels, channels)
        target = self.out[index]
        pointer = target.data_ptr(), target.stride()
        augment([image], "uint8", [pointer], 1)
