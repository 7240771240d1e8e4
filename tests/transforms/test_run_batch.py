"""Batches whose images go through all passes one by one: the bits of pass after pass."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from visops import _native, transforms
from visops.transforms.chain.execute import run_native as run

from transforms.chains import CHAINS
from transforms.loader.photos import FILES
from transforms.samples import SIZE, assert_same, mixed, numbers, typed_boxes

_RUN_BATCH = "visops.transforms.chain.execute.run_native"


def values_first() -> list[Any]:
    return [
        transforms.RandomInvert(0.5),
        transforms.RandomHorizontalFlip(),
        transforms.RandomPosterize(3, p=0.5),
        transforms.ToDtype(torch.float32, scale=True),
        transforms.GaussianNoise(),
        transforms.RandomErasing(0.5),
    ]


def drawn_modes() -> list[Any]:
    return [
        transforms.RandomAffine(30, interpolation=["nearest", "bilinear", "bicubic"]),
        transforms.RandomChoice([transforms.RandomInvert(1.0), transforms.RandomPosterize(2, p=1)]),
        transforms.CenterCrop(30),
    ]


def images(*sizes: tuple[int, int]) -> list[Any]:
    return [numbers(3, height, width + index) for index, (height, width) in enumerate(sizes)]


BATCHES: dict[str, Callable[[], Any]] = {
    "tensor": lambda: numbers(5, 3, *SIZE),
    "floats": lambda: numbers(5, 3, *SIZE) / 255,
    "strided": lambda: numbers(5, *SIZE, 3).permute(0, 3, 1, 2),
    "array": lambda: numbers(4, *SIZE, 3).numpy(),
    "list": lambda: images((40, 52), (40, 51), (40, 50)),
    "list of sizes": lambda: images((40, 52), (61, 33), (25, 90)),
    "videos": lambda: numbers(3, 4, 3, *SIZE),
    "targets": lambda: {
        "image": numbers(2, 3, *SIZE),
        "mask": numbers(2, *SIZE, high=5),
        "boxes": [typed_boxes(), typed_boxes()],
    },
    "two images": lambda: {"image": numbers(2, 3, *SIZE), "img": numbers(2, 3, *SIZE) / 255},
    "halves": lambda: (numbers(3, 3, *SIZE) / 255).half(),
    "wide": lambda: numbers(3, 3, *SIZE).to(torch.int16) * 100,
}


def count(batch: Any) -> int:
    return len(batch["image"] if isinstance(batch, dict) else batch)


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], tuple[Any, Any, int]]:
    """Call something in both ways; return both results, and how often C++ ran all passes."""
    ran: list[bool] = []

    def noting(*arguments: Any) -> bool:
        ran.append(run(*arguments))
        return ran[-1]

    monkeypatch.setattr(_native.Pipeline, "run", lambda *_: (False, None))

    def call(make: Callable[[], Any]) -> tuple[Any, Any, int]:
        monkeypatch.setattr(_RUN_BATCH, lambda *_: False)
        expected = make()
        ran.clear()
        monkeypatch.setattr(_RUN_BATCH, noting)
        return make(), expected, sum(ran)

    return call


@pytest.mark.matrix
@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("make", [mixed, values_first, drawn_modes])
def test_batches(name: str, make: Callable[[], list[Any]], both: Any) -> None:
    layouts: tuple[torch.memory_format, ...] = (torch.contiguous_format, torch.channels_last)
    for memory_format in layouts:
        last = [] if make is mixed else [transforms.Resize((20, 31))]
        options: dict[str, Any] = {"memory_format": memory_format, "per_frame": name != "videos"}
        chain = transforms.Compose([*make(), *last], seed=0, **options)
        batch = BATCHES[name]()
        indices = range(count(batch))
        found, expected, ran = both(lambda c=chain, b=batch, i=indices: c(b, index=i))
        assert_same(found, expected)
        assert ran == (0 if name in ("halves", "wide") else 2 if "two" in name else 1)


@pytest.mark.parametrize("name", CHAINS)
def test_chains_of_every_kind(name: str, both: Any) -> None:
    chain = transforms.Compose([*CHAINS[name](), transforms.RandomInvert()], seed=0)
    batch = numbers(4, 3, *SIZE)
    found, expected, _ = both(lambda: chain(batch, index=range(4)))
    assert_same(found, expected)


def test_parameters_that_are_recorded_and_replayed(both: Any) -> None:
    chain, batch = transforms.Compose(mixed(), seed=0), numbers(4, 3, *SIZE)
    (found, params), (expected, others), ran = both(
        lambda: chain(batch, index=range(4), return_params=True)
    )
    assert ran == 1
    assert_same(found, expected)
    for one, other in zip(params.steps, others.steps, strict=True):
        assert {key: value.tolist() for key, value in one.items()} == {
            key: value.tolist() for key, value in other.items()
        }
    again, expected, ran = both(lambda: chain(batch, params=params))
    assert ran == 1
    assert_same(again, expected)
    assert_same(again, found)


def test_files(both: Any) -> None:
    steps = [transforms.DecodeJpeg(), transforms.RandomResizedCrop(24), transforms.RandAugment()]
    chain = transforms.Compose([*steps, transforms.ToDtype(torch.float32, scale=True)], seed=0)
    found, expected, ran = both(lambda: chain.collate(FILES[:6], index=range(6)))
    assert ran == 1
    assert_same(found, expected)


def test_passes_between_others(both: Any) -> None:
    """A transform by itself divides them into two groups."""
    steps = [*values_first()[:3], transforms.ElasticTransform(20.0, 3.0), *values_first()[3:]]
    chain, batch = transforms.Compose(steps, seed=0), numbers(3, 3, *SIZE)
    found, expected, ran = both(lambda: chain(batch, index=range(3)))
    assert ran == 2
    assert_same(found, expected)


def test_errors_are_those_of_pass_after_pass(both: Any) -> None:
    steps = [transforms.RandomPosterize(3), transforms.Normalize([0.5] * 4, [0.2] * 4)]
    chain = transforms.Compose([transforms.ToDtype(torch.float32, scale=True), *steps], seed=0)

    def outcome() -> str:
        try:
            chain(numbers(3, 3, *SIZE), index=range(3))
        except (TypeError, ValueError) as error:
            return str(error)
        return "none"

    found, expected, _ = both(outcome)
    assert found == expected != "none"
    sizes = transforms.Compose([transforms.RandomInvert(1.0), transforms.Resize(20)], seed=0)
    with pytest.raises(ValueError, match="sample 0 comes out with 20 rows"):
        sizes(images((40, 52), (61, 33)), index=range(2))


def test_more_threads_than_images(both: Any) -> None:
    """Then they share all threads."""
    chain, batch = transforms.Compose(mixed(), seed=0), numbers(2, 3, *SIZE)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(4)
        found, expected, ran = both(lambda: chain(batch, index=range(2)))
    finally:
        torch.set_num_threads(threads)
    assert ran == 1
    assert_same(found, expected)
