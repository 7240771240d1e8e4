"""How many launches and calls of torch a chain takes on a GPU, where the host binds it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from kernels import take_launches, use_slot
from torch import Tensor
from torchvision import tv_tensors
from visops import transforms as T

from transforms.chains import CHAINS, MEAN, STD, photo
from transforms.gpu_calls import as_on_gpu, counted


def smaller(*more: Any) -> list[Any]:
    """Return a chain of one pass with antialias, all of whose samples shrink."""
    crop = T.RandomResizedCrop(48, scale=(0.5, 1.0), antialias=True)
    return [crop, T.RandomHorizontalFlip(), *more]


def to_floats() -> list[Any]:
    return [T.ToDtype(torch.float32, scale=True), T.Normalize(MEAN, STD)]


class Count(NamedTuple):
    """What a chain takes for a batch of bytes."""

    chain: Callable[[], list[Any]]
    # Launches of kernels, where C++ runs the chain: one that stores a pass's numbers, one for each
    # kind of sample that there is, and two for a contrast, whose picture they take and whose mean
    # they add. Emulated kernels that travel with their images take two at a time; on a GPU it is
    # dozens.
    # None: torch's operators run it.
    launches: int | None
    # Where torch's operators run it, because something has to see them, and at most how many calls
    # of torch that takes.
    launches_by_operators: int
    operators: int


COUNTS = {
    "crop": Count(lambda: smaller(*to_floats()), 2, 5, 3),
    "erase": Count(lambda: smaller(*to_floats(), T.RandomErasing(1.0)), 2, 5, 7),
    "rotation": Count(lambda: [T.RandomRotation(30), T.Resize(40, antialias=True)], 2, 5, 3),
    "jitter": Count(lambda: smaller(T.ColorJitter(0.4, 0.4, 0.4, 0.1), *to_floats()), 4, 8, 13),
    "two contrasts": Count(
        lambda: smaller(T.ColorJitter(contrast=0.4), T.ColorJitter(0.4, 0.4, 0.4), *to_floats()),
        *(6, 11, 22),
    ),
    "modes": Count(
        lambda: [T.RandomResizedCrop(32, (0.5, 1.0), interpolation=["bilinear", "bicubic"])],
        *(None, 12, 14),
    ),
    "medians": Count(lambda: [T.MedianBlur((3, 7), 1.0)], 2, 2, 1),
    "clahe": Count(lambda: [T.CLAHE((1, 4), p=1.0)], 7, 7, 1),
    "small filters": Count(
        lambda: [T.RandomChoice([T.MotionBlur(p=1.0), T.Emboss(p=1.0), T.AdvancedBlur(p=1.0)])],
        *(2, 2, 1),
    ),
    "downscale": Count(lambda: [T.Downscale((0.2, 0.6), 1.0)], 4, 4, 1),
    "jpeg": Count(lambda: [T.JPEG((20, 90))], 4, 4, 1),
    "blurs": Count(lambda: [T.Blur((3, 7), 1.0)], 9, 9, 1),
    "unsharp masks": Count(lambda: [T.UnsharpMask(p=1.0)], 17, 17, 1),
    "channels": Count(lambda: [T.ChannelDropout(p=1.0)], 6, 6, 1),
    "holes": Count(lambda: [T.CoarseDropout((3, 5), fill="random", p=1.0)], 6, 6, 1),
    "grids": Count(lambda: [T.GridDropout(p=1.0)], 6, 6, 1),
    "grey": Count(lambda: [T.Grayscale()], 4, 2, 9),
    "gaussian": Count(lambda: [T.GaussianBlur(5, (0.1, 2.0))], 1, 1, 2),
    "two gaussians": Count(
        lambda: [
            T.RandomChoice([T.GaussianBlur(3, (0.4, 1.0)), T.GaussianBlur((7, 5), (0.1, 2.0))]),
            T.RandomApply([T.GaussianBlur(9, (1.0, 2.0)), T.RandomInvert(1.0)]),
        ],
        *(5, 5, 9),
    ),
    "policy": Count(lambda: [T.RandAugment(3), *to_floats()], 16, 16, 20),
}


@pytest.fixture(scope="module")
def batch() -> Tensor:
    image = photo()[:, ::2, ::2]
    return torch.stack((image, image.flip(0), image.flip(1), image.flip(0, 1)))


@pytest.mark.parametrize("name", COUNTS)
def test_counts_by_operators(name: str, batch: Tensor) -> None:
    count = COUNTS[name]
    chain = T.Compose(count.chain(), seed=4)
    found, calls = counted(chain, batch, index=range(4))
    assert torch.equal(found, chain(batch, index=range(4)))
    assert calls.launches == count.launches_by_operators
    assert len(calls.operators) <= count.operators, calls.operators


@pytest.mark.parametrize("name", [name for name in COUNTS if COUNTS[name].launches is not None])
def test_launches(name: str, batch: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call of C++, and no operator: nothing is uploaded, and nothing waits."""
    chain = T.Compose(COUNTS[name].chain(), seed=4)
    expected = chain(batch, index=range(4))
    monkeypatch.setattr("visops.transforms.compose.run_passes", None)
    with use_slot("cuda_emulated"):
        take_launches()
        found = chain(batch, index=range(4))
        launches = take_launches()
    assert torch.equal(found, expected)
    assert launches == COUNTS[name].launches


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", CHAINS)
def test_all_forms_of_a_batch(name: str, exact: bool, batch: Tensor) -> None:
    """Batches, lists, strided images and videos have the bits of the CPU, by all ways."""
    chain = T.Compose(CHAINS[name](), seed=4, exact=exact)
    channels_last = T.Compose(CHAINS[name](), seed=4, memory_format=torch.channels_last)
    images = [image[:, i : 150 + i, 2 * i : 150 + 2 * i] for i, image in enumerate(batch)]
    videos = tv_tensors.Video(batch.unflatten(0, (2, 2)))
    calls = [
        (chain, given) for given in (images, batch[..., ::2, 1:], (batch / 255).half(), videos)
    ]
    of_videos = chain(videos, index=range(2))
    for own, given in [*calls, (channels_last, batch)]:
        index = range(len(given))
        expected = own(given, index=index)
        with use_slot("cuda_emulated"):
            found = own(given, index=index)
        assert torch.equal(found, expected)
        assert found.stride() == expected.stride()
    with as_on_gpu():
        assert torch.equal(chain(videos, index=range(2)), of_videos)
        assert torch.equal(channels_last(batch, index=range(4)), expected)


def test_images_of_several_sizes(batch: Tensor) -> None:
    images = [image[:, i:, 7 * i :] for i, image in enumerate(batch)]
    chain = T.Compose(smaller(T.ColorJitter(0.4, 0.4), *to_floats()), seed=4)
    expected = chain(images, index=range(4))
    with use_slot("cuda_emulated"):
        take_launches()
        assert torch.equal(chain(images, index=range(4)), expected)
        assert take_launches() == 4


def test_recorded_parameters(batch: Tensor) -> None:
    """By them, a CUDA graph can hold a chain: all that a call does is to start kernels."""
    chain = T.Compose(smaller(T.ColorJitter(0.4, 0.4), *to_floats()), seed=4)
    expected, params = chain(batch, index=range(4), return_params=True)
    with as_on_gpu():
        take_launches()
        assert torch.equal(chain(batch, params=params), expected)
        assert take_launches() == 4


def test_targets_are_beside_images(batch: Tensor) -> None:
    """Where targets are on a GPU as well, torch moves them; images still take C++'s way."""
    chain = T.Compose(smaller(T.ColorJitter(0.4, 0.4), *to_floats()), seed=4)
    sample = {"image": batch[0], "boxes": torch.tensor([[10.0, 20.0, 90.0, 80.0]])}
    expected = chain(sample, index=3)
    with as_on_gpu():
        take_launches()
        found = chain(sample, index=3)
        assert take_launches() == 4
    assert torch.equal(found["image"], expected["image"])
    assert torch.equal(found["boxes"], expected["boxes"])


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
