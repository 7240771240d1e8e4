"""A program: loaders that share a chain begin at the same time, each with many threads.

It needs neither pytest nor OpenCV, so that any interpreter can run it, also one without a lock:

    python tests/transforms/loader/race.py

What is made on first use is made by all threads together: compiled passes, forms of samples, pools
of memory. Each batch must have the bytes that one thread gives.
"""

import io
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from visops import transforms

COUNT, BATCH, LOADERS, THREADS, ROUNDS = 24, 3, 3, 4, 5


def file_of(pixels: np.ndarray, kind: str) -> bytes:
    """Return a file's content."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def darker(image: torch.Tensor) -> torch.Tensor:
    """Return pixels by a function that visops knows nothing about."""
    return image // 2


class Stream(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
    """Samples that can only be read in turn."""

    def __init__(self, samples: list[Any]) -> None:
        self.samples = samples

    def __iter__(self) -> Iterator[Any]:
        return iter(self.samples)


def chain(*more: Any) -> transforms.Compose:
    """A chain that nobody has used yet."""
    steps = [
        transforms.DecodeJpeg(),
        transforms.RandomResizedCrop(32, scale=(0.3, 1.0)),
        transforms.RandomHorizontalFlip(),
        *more,
        transforms.ToDtype(torch.float32, scale=True),
    ]
    return transforms.Compose(steps, seed=3, boxes="clamp")


def cases(folder: Path) -> dict[str, tuple[Any, Any]]:
    """Return data sets and chains by name."""
    rng = np.random.default_rng(0)
    photos, targets = [], []
    for index in range(COUNT):
        height, width = 50 + 3 * (index % 7), 70 - 2 * (index % 5)
        path = folder / f"{index:02}.jpg"
        path.write_bytes(file_of(rng.integers(0, 256, (height, width, 3), np.uint8), "JPEG"))
        photos.append((str(path), index))
        corners = rng.uniform(0, 20, (1 + index % 4, 2)).astype(np.float32)
        targets.append(
            {
                "image": str(path),
                "boxes": np.concatenate([corners, corners + 20], 1),
                "labels": np.arange(len(corners)),
                "mask": file_of(rng.integers(0, 9, (height, width), np.uint8), "PNG"),
            }
        )
    jitter = transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)
    return {
        "photos": (photos, chain(jitter)),
        "several passes": (photos, chain(transforms.RandAugment())),
        "targets": (targets, chain(jitter)),
        "a transform in Python": (targets, chain(transforms.ImageOnly(darker))),
        "a stream": (Stream(photos), chain(jitter)),
    }


def leaves(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of a batch."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)
    else:
        yield torch.as_tensor(value)


def batches(dataset: Any, own: Any, threads: int) -> list[list[torch.Tensor]]:
    """Return copies of an epoch's batches, whose memory is used again meanwhile."""
    loader = transforms.Loader(dataset, own, BATCH, threads=threads)
    loader.set_epoch(1)
    return [[leaf.clone() for leaf in leaves(batch)] for batch in loader]


def at_once(dataset: Any, own: Any) -> list[Any]:
    """Return what each of several loaders gives that begin together; the last one breaks off."""
    found: list[Any] = [None] * LOADERS
    start = threading.Barrier(LOADERS)

    def run(number: int) -> None:
        try:
            start.wait()
            found[number] = batches(dataset, own, THREADS)
            for _ in transforms.Loader(dataset, own, BATCH, threads=THREADS):
                break
        except BaseException as error:
            found[number] = error

    consumers = [threading.Thread(target=run, args=(number,)) for number in range(LOADERS)]
    for consumer in consumers:
        consumer.start()
    for consumer in consumers:
        consumer.join()
    return found


def main() -> None:
    """Compare; print how many batches were equal."""
    sys.setswitchinterval(1e-5)
    torch.set_num_threads(1)
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(ROUNDS):
            for name, (dataset, own) in cases(Path(folder)).items():
                results = at_once(dataset, own)
                expected = batches(dataset, own, 1)
                for got in results:
                    if isinstance(got, BaseException):
                        raise got
                    assert len(got) == len(expected) == COUNT // BATCH, name
                    for batch, wanted in zip(got, expected, strict=True):
                        assert len(batch) == len(wanted) > 0, name
                        assert all(map(torch.equal, batch, wanted)), name
                        count += 1
    left = [t.name for t in threading.enumerate() if t.name.startswith("visops-loader")]
    assert not left, left
    print(count, "equal")


if __name__ == "__main__":
    main()
