"""Torch's default dtype and device, and torch.compile, around chains."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounter
from torch._subclasses.fake_tensor import FakeTensorMode
from visops import transforms
from visops import transforms as T

from transforms.chains import classification

from .chains import run_torch_operators


def to_float() -> Any:
    return T.ToDtype(torch.float32, scale=True)


STEPS: dict[str, Callable[[], list[Any]]] = {
    "RandAugment": lambda: [T.RandAugment(3)],
    "TrivialAugmentWide": lambda: [T.TrivialAugmentWide()],
    "AutoAugment": lambda: [T.AutoAugment()],
    "AugMix": lambda: [T.AugMix()],
    "RandomAugment": lambda: [T.RandomAugment(3)],
    "elastic": lambda: [T.ElasticTransform(), T.GridDistortion(p=1), T.OpticalDistortion(p=1)],
    "spline": lambda: [T.ThinPlateSpline(p=1)],
    "geometry": lambda: [T.RandomAffine(30, (0.1, 0.1)), T.RandomPerspective(p=1)],
    "colour": lambda: [T.ColorJitter(0.4, 0.4, 0.4, 0.1), T.RandomPhotometricDistort(p=1)],
    "values": lambda: [T.RandomEqualize(p=1), T.RandomAutocontrast(p=1), T.RandomGamma(p=1)],
    "filters": lambda: [T.GaussianBlur(5), T.MedianBlur(p=1), T.MotionBlur(p=1), T.Blur(5, p=1)],
    "sharp": lambda: [T.UnsharpMask(p=1), T.Emboss(p=1), T.Sharpen(p=1), T.CLAHE(p=1)],
    "noise": lambda: [to_float(), T.GaussianNoise(), T.SaltAndPepper(p=1)],
    "bytes": lambda: [T.ShotNoise(p=1), T.SaltAndPepper(p=1), T.RandomHSV(0.1, 0.4, 0.4)],
    "dropout": lambda: [T.CoarseDropout(p=1), T.GridDropout(p=1), T.ChannelDropout(p=1)],
    "erasing": lambda: [to_float(), T.RandomErasing(p=1, value="random"), T.Normalize(0.5, 0.2)],
    "jpeg": lambda: [T.JPEG((20, 50))],
    "sizes": lambda: [T.ScaleJitter(30), T.RandomShortestSize(30), T.Letterbox(40)],
}

DEFAULTS = [
    (torch.float16, "cpu"),
    (torch.bfloat16, "cpu"),
    (torch.float64, "cpu"),
    (torch.float32, "meta"),
]


def image() -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (3, 40, 52), dtype=torch.uint8, generator=generator, device="cpu")


def results(make: Callable[[], list[Any]]) -> Any:
    chain = T.Compose(make(), seed=3, boxes="sanitize", boxes_from="masks")
    masks = torch.ones(2, 40, 52, dtype=torch.bool, device="cpu")
    boxes = torch.tensor([[1.0, 2, 20, 30], [3, 4, 30, 20]], dtype=torch.float32, device="cpu")
    found = []
    for index in range(8):
        sample = {
            "image": image(),
            "boxes": boxes,
            "masks": masks,
            "labels": [1, 2],
            "keypoints": boxes.view(2, 2, 2),
        }
        found.append(chain(sample, index=index))
    return found


@pytest.fixture(params=DEFAULTS, ids=lambda value: f"{value[0]}-{value[1]}")
def changed(request: pytest.FixtureRequest) -> Iterator[Callable[[], None]]:
    dtype, device = request.param

    def change() -> None:
        torch.set_default_dtype(dtype)
        torch.set_default_device(device)

    before = torch.get_default_dtype()
    yield change
    torch.set_default_device(None)
    torch.set_default_dtype(before)


@pytest.mark.parametrize("through", ["native", "torch"])
@pytest.mark.parametrize("name", STEPS)
def test_chains(
    name: str, through: str, changed: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    if through == "torch":
        run_torch_operators(monkeypatch)
    expected = results(STEPS[name])
    changed()
    found = results(STEPS[name])
    for one, other in zip(found, expected, strict=True):
        assert one["labels"] == other["labels"]
        for key in ("image", "boxes", "masks", "keypoints", "keypoints_visible"):
            assert (one[key].device, one[key].dtype) == (other[key].device, other[key].dtype)
            assert torch.equal(one[key], other[key]), key


def test_loaders_shuffle_alike(changed: Callable[[], None]) -> None:
    samples = [image() + i for i in range(8)]
    chain = T.Compose([T.RandomHorizontalFlip()], seed=1)

    def epoch() -> list[torch.Tensor]:
        return list(T.Loader(samples, chain, batch_size=2, shuffle=True, seed=4))

    expected = epoch()
    changed()
    for one, other in zip(epoch(), expected, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", STEPS)
def test_numpy_may_raise(name: str) -> None:
    with np.errstate(all="raise"):
        results(STEPS[name])


@pytest.mark.parametrize("name", ["elastic", "spline", "filters", "noise", "dropout"])
def test_nothing_is_written_where_there_is_no_memory(name: str) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = mode.from_tensor(image())
        try:
            found = T.Compose(STEPS[name](), seed=3)(fake, index=0)
        except ValueError as error:
            assert "FakeTensorMode" in str(error)  # noqa: PT017
        else:
            assert found.shape == fake.shape


CHAINS: dict[str, list[Any]] = {
    "geometry": [T.RandomAffine(30, scale=(0.8, 1.2)), T.RandomHorizontalFlip(), T.Resize((9, 8))],
    "contrast": [T.RandomResizedCrop((9, 8)), T.ColorJitter(0.3, 0.3, 0.3, 0.1)],
    "contrast of few": [T.RandomApply([T.ColorJitter(contrast=0.5)], p=0.7), T.RandomErasing(1)],
}


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", CHAINS)
def test_gradients_and_batches(name: str, exact: bool) -> None:
    chain = T.Compose(CHAINS[name], seed=0, exact=exact)
    images = torch.rand(3, 3, 20, 30)

    def total(image: Tensor) -> Tensor:
        return chain(image, index=4).square().sum()  # type: ignore[no-any-return]

    leaf = images[0].clone().requires_grad_()
    (expected,) = torch.autograd.grad(total(leaf), leaf)
    torch.testing.assert_close(torch.func.grad(total)(images[0]), expected)
    mapped = torch.vmap(lambda image: chain(image, index=4))(images)
    assert torch.equal(mapped, torch.stack([chain(image, index=4) for image in images]))
    each = torch.vmap(torch.func.grad(total))(images)
    torch.testing.assert_close(each[0], expected)


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
