"""Torch's defaults change nothing; transforms within torch.func."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from visops import transforms as T

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
