"""How many uploads, launches and calls of torch a chain takes on a GPU, where the host binds it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torchvision import tv_tensors
from visops import transforms as T

from transforms.chains import CHAINS, MEAN, STD, photo
from transforms.gpu_calls import counted


def smaller(*more: Any) -> list[Any]:
    """Return a chain of one pass with antialias, all of whose samples shrink."""
    crop = T.RandomResizedCrop(48, scale=(0.5, 1.0), antialias=True)
    return [crop, T.RandomHorizontalFlip(), *more]


def to_floats() -> list[Any]:
    return [T.ToDtype(torch.float32, scale=True), T.Normalize(MEAN, STD)]


# A chain; its uploads, launches of kernels, and at most how many calls of torch, for a batch of
# bytes. An augmentation has a launch that prepares the samples, and one for each kind of sample
# that there is; a contrast has an augmentation for its picture, and a launch that adds its mean.
# Emulated kernels that travel with their images take two at a time; on a GPU it is dozens.
COUNTS: dict[str, tuple[Callable[[], list[Any]], int, int, int]] = {
    "crop": (lambda: smaller(*to_floats()), 1, 2, 3),
    "erase": (lambda: smaller(*to_floats(), T.RandomErasing(1.0)), 1, 2, 7),
    "rotation": (lambda: [T.RandomRotation(30), T.Resize(40, antialias=True)], 1, 2, 3),
    "jitter": (lambda: smaller(T.ColorJitter(0.4, 0.4, 0.4, 0.1), *to_floats()), 1, 5, 11),
    "two contrasts": (
        lambda: smaller(T.ColorJitter(contrast=0.4), T.ColorJitter(0.4, 0.4, 0.4), *to_floats()),
        *(1, 8, 17),
    ),
    "modes": (
        lambda: [T.RandomResizedCrop(32, (0.5, 1.0), interpolation=["bilinear", "bicubic"])],
        *(1, 4, 14),
    ),
    "medians": (lambda: [T.MedianBlur((3, 7), 1.0)], 0, 2, 1),
    "clahe": (lambda: [T.CLAHE((1, 4), p=1.0)], 0, 7, 1),
    "small filters": (
        lambda: [T.RandomChoice([T.MotionBlur(p=1.0), T.Emboss(p=1.0), T.Sharpen(p=1.0)])],
        *(0, 1, 1),
    ),
    "downscale": (lambda: [T.Downscale((0.2, 0.6), 1.0)], 0, 4, 1),
    "jpeg": (lambda: [T.JPEG((20, 90))], 0, 4, 1),
    "blurs": (lambda: [T.Blur((3, 7), 1.0)], 0, 9, 1),
    "unsharp masks": (lambda: [T.UnsharpMask(p=1.0)], 0, 17, 1),
    "channels": (lambda: [T.ChannelDropout(p=1.0)], 0, 6, 1),
    "holes": (lambda: [T.CoarseDropout((3, 5), fill="random", p=1.0)], 0, 6, 1),
    "grids": (lambda: [T.GridDropout(p=1.0)], 0, 6, 1),
    "grey": (lambda: [T.Grayscale()], 1, 2, 9),
    "policy": (lambda: [T.RandAugment(3), *to_floats()], 2, 16, 14),
}


@pytest.fixture(scope="module")
def batch() -> Tensor:
    image = photo()[:, ::2, ::2]
    return torch.stack((image, image.flip(0), image.flip(1), image.flip(0, 1)))


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name: str, batch: Tensor) -> None:
    make, uploads, launches, operators = COUNTS[name]
    chain = T.Compose(make(), seed=4)
    found, calls = counted(chain, batch, index=range(4))
    assert torch.equal(found, chain(batch, index=range(4)))
    assert calls.uploads == uploads
    assert calls.launches == launches
    assert len(calls.operators) <= operators, calls.operators


@pytest.mark.parametrize("p", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_erasing_with_noise(p: float, dtype: torch.dtype, batch: Tensor) -> None:
    """As many calls for any batch, with the bits of the CPU; also of videos."""
    chain = T.Compose([T.RandomErasing(p, value="random")], seed=4)
    samples = (batch / 255).to(dtype).repeat(2, 1, 1, 1)
    counts = []
    for count in (4, 8):
        found, calls = counted(chain, samples[:count], index=range(count))
        assert torch.equal(found, chain(samples[:count], index=range(count)))
        assert calls.uploads == (p > 0.0)
        counts.append(len(calls.operators))
    assert counts[0] == counts[1]
    videos = T.Compose(chain.transforms, seed=4, per_frame=False)
    clips = samples.unflatten(0, (4, 2))
    found, _ = counted(videos, clips, index=range(4))
    assert torch.equal(found, videos(clips, index=range(4)))


DTYPES = [torch.uint8, torch.int64, torch.float16, torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", [T.MixUp, T.CutMix])
def test_mixing(make: Any, dtype: torch.dtype, batch: Tensor) -> None:
    """As many calls for any batch, with the bits of the CPU; also of videos."""
    mix = make(labels_getter=None, seed=5)
    samples = (batch if not dtype.is_floating_point else batch / 255).to(dtype).repeat(2, 1, 1, 1)
    counts = []
    for count in (4, 8):
        given = {"image": samples[:count]}
        found, calls = counted(mix, given, index=range(count))
        assert torch.equal(found["image"], mix(given, index=range(count))["image"])
        assert not torch.equal(found["image"], given["image"])
        assert calls.uploads == 1
        counts.append(len(calls.operators))
    assert counts[0] == counts[1]
    clips = {"image": tv_tensors.Video(samples.unflatten(0, (4, 2)))}
    found, _ = counted(mix, clips, index=range(4))
    assert torch.equal(found["image"], mix(clips, index=range(4))["image"])


@pytest.mark.parametrize("dtype", DTYPES)
def test_aug_mix(dtype: torch.dtype, batch: Tensor) -> None:
    small = batch[..., ::3, ::3]
    samples = (small if not dtype.is_floating_point else small / 255).to(dtype)
    for steps in ([T.AugMix()], [T.RandomApply([T.AugMix()], 0.5)]):
        chain = T.Compose(steps, seed=1)
        found, _ = counted(chain, samples, index=range(4))
        assert torch.equal(found, chain(samples, index=range(4)))
        assert not torch.equal(found, samples)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", CHAINS)
def test_one_upload_a_pass(name: str, exact: bool, batch: Tensor) -> None:
    """And the bits of the CPU."""
    chain = T.Compose(CHAINS[name](), seed=4, exact=exact)
    found, calls = counted(chain, batch, index=range(4))
    assert torch.equal(found, chain(batch, index=range(4)))
    assert calls.uploads <= len(chain.passes)
