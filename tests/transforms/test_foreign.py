"""Other libraries' transforms in a chain: their draws, what they are given, what they disturb."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from bad_input import check
from torch import Tensor
from visops import transforms as T

v2 = pytest.importorskip("torchvision.transforms.v2")
pil = pytest.importorskip("PIL.Image")

PHOTO = torch.randint(0, 256, (3, 24, 32), dtype=torch.uint8, generator=torch.Generator())


def noisy(image: Tensor) -> Tensor:
    """Draws from all global generators."""
    value = torch.rand(()) + random.random() + np.random.rand()
    return (image.float() * float(value) / 3.0).byte()


class TimmLike:
    """What timm's policies are: classes of that library, called with a PIL image."""

    __module__ = "timm.data.auto_augment"

    def __call__(self, image: Any) -> Any:
        assert isinstance(image, pil.Image)
        return image.point(lambda value: 255 - value)


FOREIGN: dict[str, Callable[[], Any]] = {
    "v2": lambda: v2.ColorJitter(0.5, 0.5),
    "v2 calls": lambda: v2.RandomApply([v2.GaussianNoise()], p=0.5),
    "function": lambda: T.ImageOnly(noisy),
}


def states() -> list[Any]:
    return [torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()]  # type: ignore[index]


@pytest.mark.parametrize("name", FOREIGN)
def test_threads_draw_what_one_thread_draws(name: str) -> None:
    steps = [T.ToDtype(torch.float32, scale=True)] if name == "v2 calls" else []
    chain = T.Compose([*steps, FOREIGN[name](), T.RandomHorizontalFlip()], seed=0)
    expected = [chain(PHOTO, index=i) for i in range(60)]
    before = states()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: chain(PHOTO, index=i), range(60)))
    assert states() == before
    assert all(map(torch.equal, found, expected))
    assert not all(torch.equal(image, expected[0]) for image in expected)
    batch = chain(PHOTO.expand(60, -1, -1, -1), index=range(60))
    assert torch.equal(batch, torch.stack(expected))


@pytest.mark.parametrize("name", [*FOREIGN, "visops"])
def test_no_generator_but_the_cpu_s_is_seeded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.manual_seed reseeds every GPU, and with it a model's dropout."""

    def forbidden(*_: Any) -> None:
        raise AssertionError("a generator of a GPU was seeded")

    step = FOREIGN[name]() if name in FOREIGN else T.RandomOrder([T.RandomHorizontalFlip()])
    chain = T.Compose([T.ToDtype(torch.float32, scale=True), step], seed=0)
    monkeypatch.setattr(torch, "manual_seed", forbidden)
    monkeypatch.setattr(torch.cuda, "manual_seed_all", forbidden)
    monkeypatch.setattr(torch.cuda, "manual_seed", forbidden)
    before = states()
    chain(PHOTO, index=3)
    assert states() == before


def test_choosers_leave_the_global_generators_alone() -> None:
    steps = [T.RandomHorizontalFlip(), T.RandomRotation(9), T.Pad(1)]
    chain = T.Compose([T.RandomOrder(steps)], seed=0)
    before = states()
    results = [chain(PHOTO, index=i) for i in range(24)]
    torch.manual_seed(1)
    assert all(torch.equal(chain(PHOTO, index=i), image) for i, image in enumerate(results))
    torch.set_rng_state(torch.tensor(before[0], dtype=torch.uint8))
    assert len({tuple(image.flatten().tolist()) for image in results}) > 12


def test_orders_are_drawn_evenly() -> None:
    """Each of the six orders of three paddings has a sixth of 3,000 samples."""
    image = torch.zeros(1, 1, 1)
    pads = [T.Pad((1, 0, 0, 0), fill=value) for value in (1, 2, 3)]
    chain = T.Compose([T.RandomOrder(pads)], seed=0)
    orders = [tuple(chain(image, index=i).flatten().tolist()) for i in range(3000)]
    counts = [orders.count(order) for order in set(orders)]
    assert len(counts) == 6
    assert sum((count - 500) ** 2 / 500 for count in counts) < 20.5  # chi squared, p = 0.001


def test_timm_gets_pil_images() -> None:
    chain = T.Compose([T.RandomHorizontalFlip(1.0), TimmLike(), T.ToDtype(torch.float32)])
    assert torch.equal(chain(PHOTO), (255 - PHOTO.flip(-1)).float())
    grey = chain(PHOTO[:1])
    assert torch.equal(grey, (255 - PHOTO[:1].flip(-1)).float())
    late = T.Compose([T.ToDtype(torch.float32, scale=True), TimmLike()])
    message = "transforms: the sample for TimmLike has dtype torch.float32 and 3 channels; must be"
    check(TypeError, message, lambda: late(PHOTO))
    boxed = {"image": PHOTO, "boxes": torch.tensor([[0.0, 0, 2, 3]])}
    check(TypeError, "transforms: TimmLike gets only the image, and", lambda: chain(boxed))


def test_albumentations_gets_arrays() -> None:
    albumentations = pytest.importorskip("albumentations")
    invert = albumentations.InvertImg(p=1.0)
    chain = T.Compose([invert, T.RandomHorizontalFlip(1.0)], seed=0)
    boxed = {"image": PHOTO, "boxes": torch.tensor([[0.0, 0, 2, 3]])}
    result = chain(boxed)
    assert torch.equal(result["image"], 255 - PHOTO.flip(-1))
    assert result["boxes"].tolist() == [[30, 0, 32, 3]]
    jitter = albumentations.RandomBrightnessContrast(p=1.0)
    chain = T.Compose([jitter], seed=0)
    first = [chain(PHOTO, index=i) for i in range(6)]
    assert all(torch.equal(chain(PHOTO, index=i), image) for i, image in enumerate(first))
    assert not torch.equal(first[0], first[1])
    turn = T.Compose([albumentations.HorizontalFlip(p=1.0)])
    assert torch.equal(turn(PHOTO), PHOTO.flip(-1))
    check(TypeError, "transforms: HorizontalFlip gets only the image, and", lambda: turn(boxed))


@pytest.mark.parametrize("takes", ["pil", "array", "tensor"])
def test_image_only_says_what_a_function_takes(takes: Any) -> None:
    kinds = {"pil": pil.Image, "array": np.ndarray, "tensor": Tensor}

    def invert(image: Any) -> Any:
        assert isinstance(image, kinds[takes])
        return image.point(lambda v: 255 - v) if takes == "pil" else 255 - image

    chain = T.Compose([T.ImageOnly(invert, takes)])
    assert torch.equal(chain(PHOTO), 255 - PHOTO)
    message = "transforms.ImageOnly: takes is 'numpy', must be None, 'tensor', 'pil', 'array'"
    check(ValueError, message, lambda: T.ImageOnly(invert, "numpy"))  # type: ignore[arg-type]


UNFUSED: dict[str, Callable[[], Any]] = {
    "order": lambda: T.RandomOrder([T.RandomHorizontalFlip(0.5), T.Pad((1, 2, 3, 4))]),
    "apply": lambda: T.RandomApply([T.RandomVerticalFlip(), T.ImageOnly(torch.neg)], p=0.5),
    "choice": lambda: T.RandomChoice(
        [T.Resize((48, 64), "nearest"), T.Resize((12, 16), "bicubic"), T.Pad(5)]
    ),
    "nested": lambda: T.RandomOrder(
        [T.RandomOrder([T.RandomHorizontalFlip(), T.Pad((0, 1, 2, 3))]), T.RandomVerticalFlip()]
    ),
    "grey": lambda: T.Grayscale(),
}


@pytest.mark.parametrize("name", UNFUSED)
def test_choosers_are_undone(name: str) -> None:
    chain = T.Compose([UNFUSED[name](), T.RandomHorizontalFlip(), T.Pad(2)], seed=0)
    assert (chain.passes[0].kind == "foreign") == (name != "grey")
    image = torch.arange(24.0 * 32).reshape(1, 24, 32)
    for index in range(12):
        boxes = torch.tensor([[3.0, 4, 9, 12], [20, 3, 30, 5]])
        given = {"image": image.repeat(3, 1, 1) if name == "grey" else image, "boxes": boxes}
        moved, params = chain(given, index=index, return_params=True)
        back = chain.inverse(moved, params)
        torch.testing.assert_close(back["boxes"], boxes)
        assert back["image"].shape[-2:] == (24, 32)
        if name == "order":
            assert torch.equal(back["image"], image)
        # What is drawn without running is what a call draws.
        dry = chain.make_params(given, index=index)
        assert torch.equal(chain(given, params=dry)["image"], moved["image"])
        assert all(
            (a[k] == b[k]).all() for a, b in zip(dry.steps, params.steps, strict=True) for k in a
        )


def test_sizes_after_a_chooser_are_known_before_it_runs() -> None:
    order = T.RandomOrder([T.Resize((60, 90)), T.RandomHorizontalFlip()])
    steps: list[Any] = [order, T.RandomCrop((50, 50))]
    chain = T.Compose(steps, seed=0)
    params = [chain.make_params(PHOTO, index=i).steps[1] for i in range(20)]
    run = [chain(PHOTO, index=i, return_params=True)[1].steps[1] for i in range(20)]
    assert all((a[k] == b[k]).all() for a, b in zip(params, run, strict=True) for k in a)


def test_what_cannot_be_undone_is_refused() -> None:
    message = "transforms.Compose.inverse: the chain holds RandomHorizontalFlip, which may have"
    chain = T.Compose([v2.RandomHorizontalFlip(1.0)], seed=0)
    turned, params = chain(PHOTO, index=0, return_params=True)
    check(TypeError, message, lambda: chain.inverse(turned, params))
    chain = T.Compose([v2.GaussianBlur(3), T.RandomHorizontalFlip(1.0)], seed=0)
    image = torch.full((3, 24, 32), 7, dtype=torch.uint8)
    turned, params = chain(image, index=0, return_params=True)
    assert torch.equal(chain.inverse(turned, params), image)
    # A step that moves nothing may say anything about channels.
    four = T.Compose([T.ToDtype(torch.float32), T.Normalize([0.0] * 4, [1.0] * 4), T.Pad(1)])
    padded, params = four(torch.rand(4, 3, 5), return_params=True)
    assert four.inverse(padded, params).shape == (4, 3, 5)


@pytest.mark.parametrize(
    "last", [T.Grayscale(3), T.ElasticTransform(), T.RandomErasing(1.0, value="random"), T.AugMix()]
)
def test_what_ends_a_chain_by_itself_keeps_the_memory_format(last: Any) -> None:
    images = torch.rand(2, 3, 8, 9)
    steps = [T.RandomHorizontalFlip(), last]
    chain = T.Compose(steps, seed=0, memory_format=torch.channels_last)
    for sample in (images, images[0], [*images]):
        found = chain(sample, index=range(2) if len(sample) == 2 else 0)
        expected = T.Compose(steps, seed=0)(sample, index=range(2) if len(sample) == 2 else 0)
        assert torch.equal(found, expected)
        assert found.movedim(-3, -1).is_contiguous()
        assert expected.is_contiguous()
