"""Transforms under torch.compile: one graph break, the same results, no compilation per draw."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounter
from visops import transforms

from transforms.chains import classification


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def chain(seed: int | None = None) -> transforms.Compose:
    return transforms.Compose(classification(), seed=seed)


def single() -> transforms.Transform:
    return transforms.RandomRotation(30)


@pytest.mark.parametrize("make", [chain, single])
def test_graph_breaks_once_whatever_is_drawn(make: Callable[[], Any]) -> None:
    transform = make()

    def step(image: Tensor) -> Tensor:
        return transform(image.sqrt()).square()  # type: ignore[no-any-return]

    counter = CompileCounter()
    compiled = torch.compile(step, backend=counter)
    for draw in range(3):
        image = torch.rand(3, 40, 50)
        results = []
        for call in (compiled, step):
            torch.manual_seed(draw)
            results.append(call(image))
        assert torch.equal(*results)
    # One graph before the transform, one after it.
    assert (counter.frame_count, counter.op_count) == (2, 2)


def test_other_methods_are_called_too() -> None:
    own = chain(seed=4)
    image = torch.rand(3, 40, 50)

    def there_and_back(image: Tensor) -> Tensor:
        params = own.make_params(image, index=3)
        batch = own.collate([image, image], index=[0, 1])
        return own.inverse(own(image, params=params), params).sum() + batch.sum()  # type: ignore[no-any-return]

    compiled = torch.compile(there_and_back, backend="eager")
    assert torch.equal(compiled(image), there_and_back(image))


def test_whole_graphs_are_refused_with_the_reason() -> None:
    transform = single()
    compiled = torch.compile(lambda image: transform(image), backend="eager", fullgraph=True)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="draws random numbers"):
        compiled(torch.rand(3, 8, 8))


FLIP = transforms.RandomHorizontalFlip(1.0)
MADE: dict[str, Callable[[], Any]] = {
    "RandAugment": lambda: transforms.RandAugment(),
    "TrivialAugmentWide": lambda: transforms.TrivialAugmentWide(),
    "AutoAugment": lambda: transforms.AutoAugment(),
    "AugMix": lambda: transforms.AugMix(),
    "from_timm": lambda: transforms.from_timm("rand-m9-mstd0.5"),
    "Compose": lambda: transforms.Compose([FLIP]),
    "RandomApply": lambda: transforms.RandomApply([transforms.GaussianBlur(3)], 0.5),
    "Grayscale": lambda: transforms.Grayscale(),
    "ElasticTransform": lambda: transforms.ElasticTransform(),
}


@pytest.mark.parametrize("name", MADE)
def test_transforms_are_made_within_compiled_code(name: str) -> None:
    make = MADE[name]

    def step(image: Tensor) -> Tensor:
        return make()(image.sqrt()).square()  # type: ignore[no-any-return]

    compiled = torch.compile(step, backend="eager")
    image = torch.rand(3, 16, 24)
    for draw in range(2):
        results = []
        for call in (compiled, step):
            torch.manual_seed(draw)
            results.append(call(image))
        assert torch.equal(*results)


def test_what_is_made_of_a_batch_in_compiled_code() -> None:
    def step(images: Tensor) -> Tensor:
        mosaic = transforms.Mosaic(8, fill=0, seed=0)
        return mosaic({"image": images.sqrt()}, index=range(4))["image"].square()  # type: ignore[no-any-return]

    images = torch.rand(4, 3, 16, 24)
    assert torch.equal(torch.compile(step, backend="eager")(images), step(images))


def test_whole_graphs_refuse_to_make_transforms() -> None:
    compiled = torch.compile(
        lambda image: transforms.RandomRotation(5)(image), backend="eager", fullgraph=True
    )
    with pytest.raises(torch._dynamo.exc.Unsupported, match="draws random numbers"):
        compiled(torch.rand(3, 8, 8))
