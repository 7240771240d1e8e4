"""Random sizes, larger canvases, SSD's colours and grey images, against torchvision."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from bad_input import check
from visops import transforms

from transforms.chains import drawn

v2 = pytest.importorskip("torchvision.transforms.v2")
F = pytest.importorskip("torchvision.transforms.v2.functional")

T: Any = transforms
SIZES = [(60, 80), (80, 60), (47, 113), (50, 50)]


@pytest.mark.parametrize(
    "make",
    [
        lambda m: m.ScaleJitter((40, 70), (0.7, 0.7)),
        lambda m: m.ScaleJitter((70, 40), (1.3, 1.3)),
        lambda m: m.RandomShortestSize([37]),
        lambda m: m.RandomShortestSize(37, max_size=51),
        lambda m: m.RandomResize(37, 38),
    ],
)
def test_sizes_and_values(make: Any) -> None:
    for size in SIZES:
        image = torch.rand(3, *size)
        expected = make(v2)(image)
        result = make(T)(image)
        assert result.shape == expected.shape
        torch.testing.assert_close(result, expected, atol=1e-5, rtol=0)


def test_distributions() -> None:
    heights = drawn(T.RandomResize(20, 30), 500)["height"]
    assert set(heights) == set(range(20, 30))
    heights = drawn(T.RandomShortestSize([20, 31, 40]), 500)["height"]
    assert set(heights) == {20, 31, 40}
    widths = drawn(T.ScaleJitter((400, 300), (0.5, 1.5)), 2000)["width"] / 400
    np.testing.assert_allclose(np.quantile(widths, (0, 0.5, 1)), (0.5, 1.0, 1.5), atol=0.03)
    params = drawn(T.RandomZoomOut(side_range=(1, 3), p=0.4), 2000)
    grown = params["height"] > 300
    assert abs(grown.mean() - 0.4) < 0.04
    factors = params["height"][grown] / 300
    np.testing.assert_allclose(np.quantile(factors, (0, 0.5, 1)), (1, 2, 3), atol=0.1)
    assert (params["top"] <= params["height"] - 300).all()
    assert (params["left"] <= params["width"] - 400).all()
    position = params["left"][grown] / (params["width"][grown] - 400 + 1e-9)
    np.testing.assert_allclose(np.quantile(position, (0.1, 0.5, 0.9)), (0.1, 0.5, 0.9), atol=0.06)


def test_tiny_images_keep_a_pixel() -> None:
    assert T.ScaleJitter((4, 4), (0.1, 0.1))(torch.rand(3, 5, 80)).shape == (3, 1, 1)


def test_zoom_out_moves_targets() -> None:
    tv = pytest.importorskip("torchvision.tv_tensors")
    image = torch.full((3, 20, 30), 50, dtype=torch.uint8)
    mask = torch.ones(20, 30, dtype=torch.uint8)
    zoom = T.RandomZoomOut({tv.Image: 200, tv.Mask: 9}, (2, 3), p=1.0)
    chain = T.Compose([zoom], seed=0)
    sample = {"image": image, "mask": mask, "boxes": [[0, 0, 30, 20]]}
    result, params = chain(sample, index=0, return_params=True)
    step = {name: int(value[0]) for name, value in params.steps[0].items()}
    left, top = step["left"], step["top"]
    padding = [left, top, step["width"] - left - 30, step["height"] - top - 20]
    assert torch.equal(result["image"], F.pad(image, padding, fill=200))
    assert torch.equal(result["mask"], F.pad(mask[None], padding, fill=9)[0])
    assert result["boxes"] == [[left, top, left + 30, top + 20]]
    assert torch.equal(T.RandomZoomOut(p=0.0)(image), image)


def test_detection_chain_is_one_pass() -> None:
    chain = T.Compose(
        [
            T.RandomZoomOut(),
            T.RandomHorizontalFlip(),
            T.RandomPhotometricDistort(),
            T.ScaleJitter((100, 100)),
            T.RandomCrop(64, pad_if_needed=True),
            T.ToDtype(torch.float32, scale=True),
        ]
    )
    assert len(chain.passes) == 1
    assert chain(torch.zeros(4, 3, 50, 70, dtype=torch.uint8)).shape == (4, 3, 64, 64)


def distorted(image: torch.Tensor, step: dict[str, Any]) -> torch.Tensor:
    """Distort as torchvision does, with our parameters."""
    kinds: list[tuple[str, Callable[..., Any]]] = [
        ("brightness", F.adjust_brightness),
        ("contrast", F.adjust_contrast),
        ("saturation", F.adjust_saturation),
    ]
    for kind in step["order"][0]:
        if kind < 3 and kinds[kind][0] in step:
            name, function = kinds[kind]
            image = function(image, step[name][0])
    orders = ([0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0])
    return image[orders[int(step["permutation"][0])]]


def test_distortion_is_torchvisions() -> None:
    image = 0.4 + 0.2 * torch.rand(3, 20, 30, dtype=torch.float64)  # no value is clamped
    distort = T.RandomPhotometricDistort(contrast=(0.8, 1.2), saturation=(0.8, 1.2), hue=(0, 0))
    chain = T.Compose([distort], exact=True, seed=0)
    orders, permutations = set(), set()
    for index in range(30):
        result, params = chain(image, index=index, return_params=True)
        step = params.steps[0]
        expected = distorted(image, step)
        torch.testing.assert_close(result, expected, atol=1e-6, rtol=0)
        orders.add(tuple(step["order"][0]))
        permutations.add(int(step["permutation"][0]))
    assert orders == {(0, 1, 2, 3), (0, 2, 3, 1)}
    assert permutations == set(range(6))
    batch = image.expand(8, -1, -1, -1)
    for exact in (False, True):
        chain = T.Compose([T.RandomPhotometricDistort()], exact=exact, seed=0)
        whole = chain(batch, index=range(8))
        for index in range(8):
            assert torch.equal(whole[index], chain(image, index=index))
    torch.testing.assert_close(T.RandomPhotometricDistort(p=0.0)(image), image)


def test_how_often_colours_are_distorted() -> None:
    params = drawn(T.RandomPhotometricDistort(p=0.3), 3000)
    for name, neutral in (("brightness", 1), ("contrast", 1), ("saturation", 1), ("hue", 0)):
        assert abs((params[name] != neutral).mean() - 0.3) < 0.03
    assert abs((params["permutation"] != 0).mean() - 0.3 * 5 / 6) < 0.03
    assert abs((params["order"][:, 1] == 1).mean() - 0.5) < 0.03


@pytest.mark.parametrize("exact", [False, True])
def test_grey_and_permuted_values_may_be_of_any_size(exact: bool) -> None:
    """As after Normalize, or in floats from 0 to 255."""
    image = 200.0 * torch.randn(3, 6, 8)
    for grey in (T.RandomGrayscale(1.0), T.Grayscale(3)):
        found = T.Compose([grey], exact=exact)(image)
        torch.testing.assert_close(found, v2.Grayscale(3)(image), atol=1e-4, rtol=1e-5)
    chain = T.Compose([T.Normalize([0.5], [0.01]), T.RandomGrayscale(0.0)], exact=exact)
    torch.testing.assert_close(chain(image), (image - 0.5) / 0.01)
    permuted = T.Compose([T.RandomChannelPermutation()], exact=exact)
    for batch in (image, torch.stack([image] * 9), torch.stack([image] * 9).int()):
        found = permuted(batch)
        assert torch.equal(found.sort(-3)[0], batch.sort(-3)[0])
    # Others do clamp, and what is in one pass with them.
    both = T.Compose([T.RandomGrayscale(1.0), T.ColorJitter(0.5)], exact=exact)
    assert both(image).aminmax() == (0.0, 1.0)


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float16, torch.uint16])
def test_grey_batches_have_the_bits_of_one_channel(dtype: torch.dtype) -> None:
    images = (255.0 * torch.rand(5, 3, 7, 150)).to(dtype)
    expected = T.RandomGrayscale(1.0)(images)
    turned = images.contiguous(memory_format=torch.channels_last)
    for batch in (images, turned, images[:1], images[1], images.mT.contiguous().mT):
        whole = expected[1] if batch.dim() == 3 else expected[: len(batch)]
        assert torch.equal(T.Grayscale()(batch), whole[..., :1, :, :])
        assert torch.equal(T.Grayscale(3)(batch), whole)
    beside = T.Grayscale()({"image": images, "mask": torch.ones(5, 7, 150).byte()})
    assert torch.equal(beside["image"], expected[:, :1])
    assert beside["mask"].all()


@pytest.mark.parametrize("given", [1, 3])
@pytest.mark.parametrize("channels", [1, 3])
def test_grayscale(channels: int, given: int) -> None:
    image = torch.rand(given, 6, 8)
    grey = T.Grayscale(channels)
    torch.testing.assert_close(grey(image), v2.Grayscale(channels)(image))
    assert grey(torch.stack([image, image])).shape == (2, channels, 6, 8)
    chain = T.Compose([T.RandomHorizontalFlip(1.0), grey, T.Pad(1), T.Normalize([0.5], [0.5])])
    assert chain.passes[1].reason == "Grayscale changes the number of channels"
    assert chain(image).shape == (channels, 8, 10)
    sample = {"image": image, "boxes": [[0, 0, 4, 5]]}
    result = chain(sample)
    assert result["image"].shape == (channels, 8, 10)
    assert result["boxes"] == [[5, 1, 9, 6]]
    assert T.Grayscale()(image[:1]).shape == (1, 6, 8)
    clip = torch.rand(5, 3, 6, 8)
    found = T.Compose([grey], per_frame=False)(clip)
    torch.testing.assert_close(found, v2.Grayscale(channels)(clip))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: T.ScaleJitter(9, (0, 1)), "ScaleJitter: scale_range is (0, 1), must be two"),
        (lambda: T.RandomShortestSize([]), "RandomShortestSize: min_size is [], must be a whole"),
        (lambda: T.RandomResize(9, 9), "RandomResize: max_size is 9, must be a whole number > "),
        (lambda: T.RandomZoomOut(0, (0.5, 2)), "RandomZoomOut: side_range is (0.5, 2), must be"),
        (lambda: T.Grayscale(2), "Grayscale: num_output_channels is 2, must be 1 or 3"),
        (
            lambda: T.RandomPhotometricDistort(hue=(0, 1)),
            "RandomPhotometricDistort: hue is (0, 1), must be a number in [0, 0.5] or two in",
        ),
        (
            lambda: T.RandomPhotometricDistort()(torch.zeros(2, 5, 5)),
            "RandomPhotometricDistort: the image has 2 channels, must have 1 or 3",
        ),
    ],
)
def test_arguments(call: Callable[[], Any], message: str) -> None:
    check(ValueError, f"transforms.{message}", call)
