"""Functions of samples in the worker processes of a DataLoader."""

from collections.abc import Callable, Sequence
from typing import Any

import cv2
import torch
from bench.loading.ours import InWorkers, channel_means
from torch.utils.data import Dataset

Load = Callable[[Any], Any]


class Loaded(Dataset[Any]):
    """Samples, loaded by a function."""

    def __init__(self, samples: Sequence[Any], load: Load) -> None:
        self.samples, self.load = samples, load

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        return self.load(self.samples[index])


def start(_: int) -> None:
    torch.set_num_threads(1)
    cv2.setNumThreads(0)


def onto_gpu(samples: Sequence[Any], load: Load, workers: int) -> Callable[[], list[torch.Tensor]]:
    """By so many workers, through pinned memory."""
    loader = in_workers(samples, load, num_workers=workers, pin_memory=True).loader
    return lambda: channel_means(batch.to("cuda", non_blocking=True) for batch in loader)


def in_workers(
    samples: Sequence[Any], load: Load, collate: Any = None, **options: Any
) -> InWorkers:
    """A DataLoader with two workers, or as its options say."""
    return InWorkers(Loaded(samples, load), collate, start, **options)
