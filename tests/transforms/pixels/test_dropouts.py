"""Dropouts, JPEG compression and grey means: how they are drawn, and their peers' bits."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import albumentations as A
import numpy as np
import pytest
import torch
from kernels import every_slot, use_slot
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F
from visops import transforms as T
from visops.pixels.adjust import adjust_pixels
from visops.pixels.grey_means import add_grey_means
from visops.transforms.chain.pixel_kinds import PixelKind

from transforms.chains import photo


def test_channels_and_holes() -> None:
    image = torch.ones(4, 60, 80)
    counts = [0] * 16
    dropped = T.Compose([T.ChannelDropout((1, 2), p=1)], seed=0)(
        torch.stack([image[:, :2, :2]] * 4000), index=range(4000)
    )
    for own in (dropped[:, :, 0, 0] == 0).int() @ torch.tensor([1, 2, 4, 8], dtype=torch.int32):
        counts[int(own)] += 1
    ones = [counts[i] for i in (1, 2, 4, 8)]
    twos = [counts[i] for i in (3, 5, 6, 9, 10, 12)]
    assert sum(ones) + sum(twos) == 4000
    assert abs(sum(ones) - 2000) < 160
    assert max(abs(n - 500) for n in ones) < 100
    assert max(abs(n - 333) for n in twos) < 85
    with pytest.raises(ValueError, match="must leave one"):
        T.ChannelDropout((1, 3), p=1)(torch.ones(3, 2, 2))
    hole = T.Compose([T.CoarseDropout((1, 1), (0.1, 0.3), (0.2, 0.5), p=1)], seed=0)
    for index in range(40):
        rows, columns = (hole(image, index=index)[0] == 0).nonzero().unbind(1)
        height, width = (int(v.max() - v.min()) + 1 for v in (rows, columns))
        assert 6 <= height <= 18
        assert 16 <= width <= 40
        assert len(rows) == height * width


@pytest.mark.parametrize(
    "make",
    [
        lambda fill: T.ChannelDropout(fill=fill, p=1.0),
        lambda fill: T.CoarseDropout((1, 1), (3, 3), (3, 3), fill=fill, p=1.0),
        lambda fill: T.GridDropout(fill=fill, p=1.0),
    ],
    ids=["channels", "holes", "grid"],
)
@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.uint16, torch.int16, torch.int32, torch.int64], ids=str
)
def test_fills_are_in_the_image_s_units(make: Any, dtype: torch.dtype) -> None:
    image = torch.zeros(3, 12, 14).to(dtype)
    chain = T.Compose([make(100)], seed=0)
    for given in (image, torch.stack([image] * 2), tv_tensors.Video(torch.stack([image] * 2))):
        values = chain(given).to(torch.int64)
        assert set(values.unique().tolist()) == {0, 100}
    if dtype == torch.uint8:
        with pytest.raises(
            ValueError, match=r"fill is 300, must be within \[0, 255\] for a torch."
        ):
            make(300)(image)


def test_a_grid_of_holes_is_albumentations() -> None:
    image = torch.ones(1, 90, 120)
    fixed = T.GridDropout(0.5, False, holes_number_xy=(4, 3), shift_xy=(3, 5), p=1)(image)
    theirs = A.GridDropout(0.5, False, holes_number_xy=(3, 4), shift_xy=(3, 5), p=1)
    assert (fixed[0] == 0).sum() == 4 * 3 * 15 * 15
    expected = theirs(image=np.ones((90, 120, 1), np.float32))["image"]
    assert np.array_equal(fixed[0].numpy(), expected[..., 0])
    odd = T.GridDropout(0.5, unit_size_range=(10, 20), p=1)(torch.ones(1, 97, 131))
    assert 0.15 < float((odd == 0).float().mean()) < 0.3


# Below, at and above blocks, units of two blocks, and what vectors take; chromas of one to three
# columns are not interpolated, or just so.
SIZES = [
    *[(1, 1), (2, 3), (1, 5), (6, 4), (8, 8), (9, 6), (16, 16), (17, 31), (15, 33), (40, 7)],
    *[(7, 127), (33, 128), (18, 129), (3, 257)],
]

QUALITIES = [1, 7, 49, 50, 75, 96, 100]


def pictures(size: tuple[int, int], channels: int) -> Iterator[Tensor]:
    """Noise, nothing but black and white, and waves."""
    generator = torch.Generator().manual_seed(1000 * size[0] + size[1])
    shape = (channels, *size)
    yield torch.randint(0, 256, shape, generator=generator).byte()
    yield torch.randint(0, 2, shape, generator=generator).byte() * 255
    y, x = torch.arange(size[0])[:, None], torch.arange(size[1])
    waves = [(x / 7 + k).sin() * (y / 9 - k).cos() for k in range(channels)]
    yield (127 + 120 * torch.stack(waves)).byte()


@cache
def cases(size: tuple[int, int]) -> list[tuple[Tensor, Tensor]]:
    """Images, and torchvision's for all qualities."""
    return [
        (image, torch.stack([F.jpeg(image, quality) for quality in QUALITIES]))
        for channels in (1, 3)
        for image in pictures(size, channels)
    ]


def compressed(images: Tensor, qualities: list[int]) -> Tensor:
    return adjust_pixels(images, [PixelKind.JPEG] * len(images), [float(q) for q in qualities])


@every_slot
@pytest.mark.parametrize("size", SIZES)
def test_bits(size: tuple[int, int], slot: str) -> None:
    for image, expected in cases(size):
        batch = image.repeat(len(QUALITIES), 1, 1, 1)
        with use_slot(slot):
            found = compressed(batch, QUALITIES)
            floats = compressed(batch / 255, QUALITIES)
        assert torch.equal(found, expected)
        assert torch.equal(floats, expected.float() * (1 / 255))


def test_forms() -> None:
    image = photo()
    for form in (
        image.permute(1, 2, 0).contiguous().permute(2, 0, 1),
        image[:, ::2, ::3],
        image.flip(-1),
        image[:1, 3:],
    ):
        assert torch.equal(T.JPEG(40)(form), F.jpeg(form.contiguous(), 40))
    wide = torch.full((3, 1, 70000), 200, dtype=torch.uint8)  # wider than a file can be
    assert torch.equal(T.JPEG(40)(wide)[..., -64:], F.jpeg(wide[..., -64:].contiguous(), 40))
    clip = torch.stack([image[:, :20, :30]] * 4).view(2, 2, 3, 20, 30)
    assert torch.equal(T.JPEG(9)(clip)[1, 0], F.jpeg(clip[1, 0], 9))
    assert compressed(torch.zeros(2, 3, 0, 5).byte(), [9, 9]).shape == (2, 3, 0, 5)


def test_draws() -> None:
    chain = T.Compose([T.JPEG((10, 90))], seed=0)
    batch = torch.stack([photo()[:, :40, :50]] * 300)
    out, params = chain(batch, index=range(300), return_params=True)
    qualities = params.steps[0]["amounts"][:, 0]
    assert (qualities.min(), qualities.max()) == (10, 90)
    assert torch.equal(out[7], F.jpeg(batch[7], int(qualities[7])))
    for half in (T.RandomApply([T.JPEG(20)], 0.5), T.JPEG(20, p=0.5)):
        some = T.Compose([half], seed=0)(batch, index=range(300))
        assert 0.4 < (some != batch).flatten(1).any(1).float().mean() < 0.6


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str
)
def test_floating_images_have_levels(dtype: torch.dtype) -> None:
    image = (photo()[:, :33, :50] / 255).to(dtype)
    levels = (image.float() * 255).round().byte()
    expected = (F.jpeg(levels, 30).float() * (1 / 255)).to(dtype)
    assert torch.equal(T.JPEG(30)(image), expected)
    with pytest.raises(
        RuntimeError, match=r"wants a gradient, and a pixel operation \(jpeg\) has none"
    ):
        T.JPEG(30)(image.clone().requires_grad_())
    beyond = torch.tensor([-3.0, 7.0, float("nan"), float("inf")]).repeat_interleave(64)
    found = T.JPEG(100)(beyond.view(4, 1, 8, 8).to(dtype))
    assert found.amax((1, 2, 3)).tolist() == found.amin((1, 2, 3)).tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("image", [torch.zeros(3, 4, 4).short(), torch.zeros(4, 4, 4).byte()])
def test_refusals(image: Any) -> None:
    with pytest.raises(TypeError, match=r"transforms\.JPEG: images have dtype torch\.\w+ and \d "):
        T.JPEG(20)(image)
    if image.dtype == torch.uint8:
        with pytest.raises(RuntimeError, match="4 channels, must have 1 or 3 for a JPEG"):
            compressed(image[None], [20])
    for quality in (0.0, 101.0, 20.5):
        with pytest.raises(RuntimeError, match=r"the quality of image 0 is .*whole number from 1"):
            adjust_pixels(torch.zeros(1, 3, 4, 4).byte(), [PixelKind.JPEG], [quality])


GREY = (0.2989, 0.587, 0.114)


def numbers(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def grey_pictures(batch: int, channels: int, size: tuple[int, int]) -> Tensor:
    generator = torch.Generator().manual_seed(batch * channels + size[0])
    shape = (batch, channels, *size)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)


def expected(images: Tensor, colors: Tensor, weights: Tensor) -> Tensor:
    """The definition, one number after another."""
    out = colors.clone()
    batch, channels, height, width = images.shape
    for i in range(batch):
        sums = [sum(images[i, c].flatten().tolist()) for c in range(channels)]
        shares = (1.0,) if channels == 1 else GREY
        grey = sum(s * share for s, share in zip(sums, shares, strict=False))
        mean = grey / (255.0 * height * width)
        for k in range(colors.shape[1]):
            for c in range(channels):
                out[i, k, c, channels] += mean * weights[i, k, c]
    return out


@pytest.mark.matrix
@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize(
    ("batch", "size", "steps"),
    [(1, (1, 1), 1), (9, (32, 32), 1), (3, (5, 67), 3), (2, (300, 7), 0)],
)
def test_values(channels: int, batch: int, size: tuple[int, int], steps: int) -> None:
    images = grey_pictures(batch, channels, size)
    colors = numbers(1, batch, steps, channels, channels + 1)
    weights = numbers(2, batch, steps, channels)
    found = add_grey_means(images, colors, weights)
    torch.testing.assert_close(found, expected(images, colors, weights), rtol=1e-14, atol=1e-14)
    assert torch.equal(found[..., :-1], colors[..., :-1])


@pytest.mark.matrix
def test_the_largest_white_picture() -> None:
    """32 bits hold its sum."""
    white = torch.full((2, 1, 256, 256), 255, dtype=torch.uint8)
    found = add_grey_means(white, torch.zeros(2, 1, 1, 2).double(), torch.ones(2, 1, 1).double())
    assert torch.equal(found[..., 1], torch.ones(2, 1, 1, dtype=torch.float64))


@pytest.mark.matrix
def test_pictures_that_are_not_contiguous() -> None:
    images = grey_pictures(4, 3, (6, 8))
    colors, weights = numbers(1, 4, 1, 3, 4), numbers(2, 4, 1, 3)
    last = images.contiguous(memory_format=torch.channels_last)
    assert torch.equal(
        add_grey_means(last, colors, weights), add_grey_means(images, colors, weights)
    )


def test_no_pictures() -> None:
    found = add_grey_means(grey_pictures(0, 3, (4, 4)), numbers(0, 0, 2, 3, 4), numbers(0, 0, 2, 3))
    assert found.shape == (0, 2, 3, 4)


def test_opcheck() -> None:
    arguments = grey_pictures(2, 3, (4, 5)), numbers(1, 2, 1, 3, 4), numbers(2, 2, 1, 3)
    torch.library.opcheck(torch.ops.visops.add_grey_means.default, arguments)


def test_no_gradient() -> None:
    colors = numbers(1, 2, 1, 3, 4).requires_grad_()
    found = add_grey_means(grey_pictures(2, 3, (4, 5)), colors, numbers(2, 2, 1, 3))
    assert not found.requires_grad


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "dims": (
        {"pictures": torch.zeros(3, 4, 5, dtype=torch.uint8)},
        r"pictures have shape \[3, 4, 5\], must be \[B, C, H, W\]",
    ),
    "dtype": ({"pictures": torch.zeros(2, 3, 4, 5)}, "pictures have dtype float32, must be uint8"),
    "channels": (
        {
            "pictures": torch.zeros(2, 2, 4, 5, dtype=torch.uint8),
            "colors": numbers(1, 2, 1, 2, 3),
            "weights": numbers(1, 2, 1, 2),
        },
        "pictures have 2 channels, must have 1, 3 or 4",
    ),
    "no pixels": (
        {"pictures": torch.zeros(2, 3, 0, 5, dtype=torch.uint8)},
        "pictures have 0 pixels, must have between 1 and 65536",
    ),
    "pixels": (
        {"pictures": torch.zeros(2, 3, 257, 256, dtype=torch.uint8)},
        "pictures have 65792 pixels, must have between 1 and 65536",
    ),
    "colors' dims": (
        {"colors": numbers(1, 2, 3, 4)},
        r"colors has shape \[2, 3, 4\], must be \[B, K, C, C \+ 1\]",
    ),
    "colors": ({"colors": numbers(1, 2, 1, 3, 3)}, r"colors has shape \[2, 1, 3, 3\]"),
    "colors' dtype": ({"colors": numbers(1, 2, 1, 3, 4).float()}, "colors has dtype float32"),
    "weights": ({"weights": numbers(1, 2, 2, 3)}, r"weights has shape \[2, 2, 3\]"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments(name: str) -> None:
    changed, message = BAD[name]
    given = {
        "pictures": grey_pictures(2, 3, (4, 5)),
        "colors": numbers(1, 2, 1, 3, 4),
        "weights": numbers(2, 2, 1, 3),
        **changed,
    }
    with pytest.raises(RuntimeError, match=rf"^visops\.add_grey_means: {message}"):
        add_grey_means(**given)


def test_steps_must_be_contiguous() -> None:
    weights = numbers(2, 3, 1, 2).transpose(0, 2)
    with pytest.raises(RuntimeError, match=r"add_grey_means: weights must be contiguous"):
        add_grey_means(grey_pictures(2, 3, (4, 5)), numbers(1, 2, 1, 3, 4), weights)
