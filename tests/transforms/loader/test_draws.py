"""Other libraries' and users' code draws the same whatever the threads, and not from the caller."""

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torchvision.transforms import v2
from visops import transforms

from .photos import COUNT, FILES, equal

PHOTO = torch.randint(0, 256, (3, 24, 32), dtype=torch.uint8, generator=torch.Generator())
SAMPLES = [(PHOTO, index) for index in range(COUNT)]


def numbers() -> list[float]:
    """What a training loop draws from each of the process's generators."""
    return [float(torch.rand(())), random.random(), float(np.random.rand())]


def noisy(image: torch.Tensor) -> torch.Tensor:
    """A user's function that draws from all of them."""
    return (image.float() * sum(numbers()) / 3).byte()


def collate(samples: list[Any]) -> Any:
    return torch.stack([image for image, _ in samples]) + torch.rand(())


class Noise:
    """A data set that draws."""

    def __init__(self, draw: Callable[[], Any] = lambda: torch.rand_like(PHOTO.float())) -> None:
        self.draw = draw

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        return torch.as_tensor(self.draw()) + PHOTO.float(), index


class Streamed:
    def __iter__(self) -> Iterator[Any]:
        for index in range(COUNT):
            yield PHOTO + torch.randint(0, 9, (), dtype=torch.uint8), index


class Lazy:
    """A sampler that draws as it goes."""

    def __iter__(self) -> Iterator[int]:
        for _ in range(COUNT):
            yield int(torch.randint(COUNT, ()))


def photos() -> list[Any]:
    return [(file, index) for index, file in enumerate(FILES)]


def compose(*steps: Any) -> transforms.Compose:
    return transforms.Compose(list(steps), seed=2)


RESIZE = transforms.RandomResizedCrop(16)
CASES: dict[str, Callable[[], Any]] = {
    "v2": lambda: (SAMPLES, compose(RESIZE, v2.ColorJitter(0.5, 0.5))),
    "v2 calls": lambda: (
        SAMPLES,
        compose(v2.ToDtype(torch.float32), v2.RandomApply([v2.GaussianNoise()], p=0.7)),
    ),
    "a function": lambda: (SAMPLES, compose(RESIZE, transforms.ImageOnly(noisy))),
    "a function after files": lambda: (
        photos(),
        compose(transforms.DecodeJpeg(), RESIZE, transforms.ImageOnly(noisy), transforms.Resize(8)),
    ),
    "in a container": lambda: (
        SAMPLES,
        compose(transforms.RandomApply([transforms.ImageOnly(noisy)], p=0.5)),
    ),
    "in views": lambda: (
        SAMPLES,
        transforms.Views([compose(RESIZE, transforms.ImageOnly(noisy))] * 2),
    ),
    "a data set": lambda: (Noise(), compose(RESIZE)),
    "a stream": lambda: (Streamed(), compose(RESIZE)),
    "a sampler": lambda: (SAMPLES, compose(RESIZE), {"sampler": Lazy()}),
    "a batch": lambda: (SAMPLES, compose(transforms.Resize((8, 8))), {"collate": collate}),
    "another callable": lambda: (SAMPLES, lambda sample, index, epoch: torch.rand(2)),
}


@pytest.mark.parametrize("kind", CASES)
def test_threads_change_neither_batches_nor_the_callers_numbers(kind: str) -> None:
    def run(threads: int) -> tuple[list[Any], list[list[float]]]:
        torch.manual_seed(1)
        random.seed(1)
        np.random.seed(1)
        dataset, own, *options = CASES[kind]()
        loader = transforms.Loader(dataset, own, 2, threads=threads, **(options or [{}])[0])
        batches, drawn = [], []
        for batch in loader:
            batches.append(batch)
            drawn.append(numbers())
        return batches, drawn

    batches, drawn = run(1)
    assert not all(equal(batch, batches[0]) for batch in batches)
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    if kind == "another callable":  # without a seed, one is drawn
        transforms.Loader(SAMPLES, CASES[kind]()[1], 2)._seed()
    if kind == "a sampler":
        torch.randint(COUNT, ())  # its first, as with torch's loader
    assert drawn == [numbers() for _ in drawn]
    for threads in (4, 3):
        again, also = run(threads)
        assert equal(again, batches)
        assert also == drawn


class Waiting:
    """A transform that is known to draw from torch, and draws while the caller does."""

    __module__ = "torchvision.transforms.v2._color"

    def __init__(self) -> None:
        self.calls, self.inside, self.go = 0, threading.Event(), threading.Event()

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls > 1:
            self.inside.set()
            self.go.wait(30)
        return image + torch.rand(())


def test_the_caller_draws_while_a_transform_does() -> None:
    photos = [PHOTO.float()] * 3
    expected = [compose(Waiting())(photos[0], index=0)]
    torch.manual_seed(4)
    drawn = torch.rand(5)
    waiting = Waiting()
    batches = iter(transforms.Loader(photos, compose(waiting), 1, threads=1))
    assert torch.equal(next(batches)[0], expected[0])
    waiting.inside.wait(30)
    torch.manual_seed(4)
    first = torch.rand(2)
    waiting.go.set()
    rest = list(batches)
    assert torch.equal(torch.cat([first, torch.rand(3)]), drawn)
    assert len(rest) == 2


def test_a_batch_is_that_of_the_chain() -> None:
    for kind in ("v2", "v2 calls", "a function", "in a container"):
        dataset, own = CASES[kind]()
        found = next(iter(transforms.Loader(dataset, own, COUNT)))
        assert equal(found, own.collate(dataset, index=range(COUNT), epoch=0))


@pytest.mark.parametrize(
    ("draw", "name"), [(random.random, "Python's"), (lambda: np.random.rand(), "NumPy's")]
)
def test_a_data_set_that_draws_where_threads_cannot_is_refused(
    draw: Callable[[], Any], name: str
) -> None:
    loader = transforms.Loader(Noise(draw), compose(RESIZE), 4)
    message = f"Loader: dataset is a Noise that draws from {name} global generator, which threads"
    with pytest.raises(ValueError, match=message):
        next(iter(loader))


def test_a_stream_may_shuffle_when_it_begins() -> None:
    class Shuffled:
        def __iter__(self) -> Iterator[Any]:
            order = list(range(COUNT))
            random.shuffle(order)
            for index in order:
                yield PHOTO, index

    def run(threads: int) -> list[int]:
        random.seed(3)
        loader = transforms.Loader(Shuffled(), compose(RESIZE), 4, threads=threads)
        return [index for _, labels in loader for index in labels.tolist()]

    random.seed(3)
    expected = list(range(COUNT))
    random.shuffle(expected)
    assert run(1) == run(4) == expected


def test_what_is_like_a_tensor_draws_the_same() -> None:
    from visops.transforms.chain.random import drawing_apart

    whole = torch.zeros(4, 5, 6).permute(2, 0, 1)
    calls: list[Callable[[], torch.Tensor]] = [
        lambda: torch.rand_like(whole),
        lambda: torch.randn_like(whole, dtype=torch.float64),
        lambda: torch.randint_like(whole, 7),
        lambda: torch.randint_like(whole, low=2, high=9),
        lambda: torch.randn(3),
        lambda: whole.clone().uniform_(2, 3),
        lambda: torch.distributions.Beta(2.0, 3.0).sample(),
    ]
    for call in calls:
        with drawing_apart(1, 2, 3) as mode:
            mode.generator.manual_seed(5)
            found = call()
        torch.manual_seed(5)
        assert torch.equal(found, call())
