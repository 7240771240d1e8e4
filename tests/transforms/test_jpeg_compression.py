"""JPEG: the bits of torchvision's encoder and decoder, on every kind of kernel."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import torch
from kernels import every_slot, use_slot
from torch import Tensor
from torchvision.transforms.v2 import functional as F
from visops import transforms as T
from visops.pixels.adjust import adjust_pixels
from visops.transforms.chain.pixel_kinds import PixelKind

from transforms.chains import photo

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
