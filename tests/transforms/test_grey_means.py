"""add_grey_means: what a contrast adds to colour matrices, from small pictures."""

from typing import Any

import pytest
import torch
from torch import Tensor
from visops.pixels.grey_means import add_grey_means

GREY = (0.2989, 0.587, 0.114)


def numbers(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def pictures(batch: int, channels: int, size: tuple[int, int]) -> Tensor:
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
    images = pictures(batch, channels, size)
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
    images = pictures(4, 3, (6, 8))
    colors, weights = numbers(1, 4, 1, 3, 4), numbers(2, 4, 1, 3)
    last = images.contiguous(memory_format=torch.channels_last)
    assert torch.equal(
        add_grey_means(last, colors, weights), add_grey_means(images, colors, weights)
    )


def test_no_pictures() -> None:
    found = add_grey_means(pictures(0, 3, (4, 4)), numbers(0, 0, 2, 3, 4), numbers(0, 0, 2, 3))
    assert found.shape == (0, 2, 3, 4)


def test_opcheck() -> None:
    arguments = pictures(2, 3, (4, 5)), numbers(1, 2, 1, 3, 4), numbers(2, 2, 1, 3)
    torch.library.opcheck(torch.ops.visops.add_grey_means.default, arguments)


def test_no_gradient() -> None:
    colors = numbers(1, 2, 1, 3, 4).requires_grad_()
    found = add_grey_means(pictures(2, 3, (4, 5)), colors, numbers(2, 2, 1, 3))
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
        "pictures": pictures(2, 3, (4, 5)),
        "colors": numbers(1, 2, 1, 3, 4),
        "weights": numbers(2, 2, 1, 3),
        **changed,
    }
    with pytest.raises(RuntimeError, match=rf"^visops\.add_grey_means: {message}"):
        add_grey_means(**given)


def test_steps_must_be_contiguous() -> None:
    weights = numbers(2, 3, 1, 2).transpose(0, 2)
    with pytest.raises(RuntimeError, match=r"add_grey_means: weights must be contiguous"):
        add_grey_means(pictures(2, 3, (4, 5)), numbers(1, 2, 1, 3, 4), weights)
