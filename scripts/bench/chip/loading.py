"""From JPEG files to normalised batches on the device, by all of the host's cores."""

import functools
import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torchvision
import torchvision.transforms.v2 as T
from bench.augmentation.pictures import SAME_MEAN
from bench.harness import Case, Contender
from bench.loading import by_torchvision, files, ours, workers
from torch import Tensor

from .rows import count, row

CORES = os.cpu_count() or 1
OTHER_SIDE = "chain on the CPU"


def in_workers(paths: Sequence[str], device: str) -> ours.Epoch:
    """torchvision and simplejpeg in a process a core; batches are copied from pinned memory."""
    pinned = device != "cpu"
    load = by_torchvision.ByTorchvision()
    options: dict[str, Any] = {"num_workers": CORES, "pin_memory": pinned}
    batches = workers.in_workers(paths, load, **options).loader

    def epoch() -> list[Tensor]:
        moved = (batch.to(device, non_blocking=pinned) for batch in batches)
        return ours.channel_means(moved)

    return epoch


def on_device(paths: Sequence[str], device: str) -> ours.Epoch:
    """nvJPEG by torchvision, and its transforms there, a photo at a time: sizes differ."""
    steps = by_torchvision.torchvision_chain().transforms
    crop, last = T.Compose(steps[:-2]), T.Compose(steps[-2:])  # the last two take a batch

    def batches() -> Iterator[Tensor]:
        for first in range(0, len(paths), files.BATCH):
            contents = [
                torch.frombuffer(bytearray(Path(path).read_bytes()), dtype=torch.uint8)
                for path in paths[first : first + files.BATCH]
            ]
            photos = torchvision.io.decode_jpeg(contents, device=device)
            yield last(torch.stack([crop(photo) for photo in photos]))

    return lambda: ours.channel_means(batches())


def photos(number: int, device: str) -> list[Contender]:
    """Ours, with the chain on either side of the copy; the first is compared with."""
    some = files.paths_of((480, 640))
    paths = [some[index % len(some)] for index in range(number)]

    def by_loader(side: str) -> ours.Epoch:
        target = None if device == "cpu" else device
        return ours.loader(paths, ours.chain(), CORES, device=target, augment_on=side)

    peers: dict[str, Callable[[], Any]] = {}
    if importlib.util.find_spec("simplejpeg") is not None:
        peers["torchvision, workers"] = in_workers(paths, device)
    if device != "cpu":
        peers["torchvision, nvJPEG"] = on_device(paths, device)
    return [
        Contender("visops", by_loader("device"), comparable=ours.mean),
        Contender(OTHER_SIDE, by_loader("cpu"), SAME_MEAN, None, ours.mean, bound=True),
        *(Contender(name, call, SAME_MEAN, 1.0, ours.mean) for name, call in peers.items()),
    ]


def cases(device: str, share: float) -> list[Case]:
    """Every row; `share` of the usual photos."""
    one = functools.partial(row, device=device)
    number = count(32, share) * files.BATCH
    return [one("files", f"{number} JPEG files of 640×480 → batches of 64", photos, number)]
