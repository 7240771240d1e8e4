"""Random sizes, canvases and colours of SSD; quarter turns, permutations; against torchvision."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from visops import transforms

from transforms.chains import drawn, photo

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


def square() -> Tensor:
    return torch.arange(3 * 5 * 5, dtype=torch.uint8).reshape(3, 5, 5)


def symmetries(image: Tensor) -> list[bytes]:
    turns = [image.rot90(k, (-2, -1)) for k in range(4)]
    return [turn.contiguous().numpy().tobytes() for t in turns for turn in (t, t.flip(-1))]


def test_d4_draws_all_eight_symmetries_as_often() -> None:
    image, count = square(), 4000
    out = T.Compose([T.D4()], seed=0)(torch.stack([image] * count), index=range(count))
    found = [own.numpy().tobytes() for own in out]
    for expected in symmetries(image):
        assert abs(found.count(expected) - count / 8) < 5 * (count / 8) ** 0.5
    kept = T.Compose([T.D4(0.2)], seed=0)(torch.stack([image] * count), index=range(count))
    moved = (kept != image).flatten(1).any(1).float().mean()
    assert abs(moved - 0.2 * 7 / 8) < 0.03


@pytest.mark.parametrize("quarters", range(4))
@pytest.mark.parametrize("mirror", [False, True])
def test_turns_are_numpy_s_and_albumentations(quarters: int, mirror: bool) -> None:
    image = photo()
    step = {"apply": np.array([True]), "quarters": np.array([quarters])}
    name: Any = T.RandomRotate90()
    if mirror:
        step["mirror"], name = np.array([True]), T.D4()
    params = T.Parameters([type(name).__name__], [step], np.array([image.shape[-2:]]))
    expected = (image.flip(-1) if mirror else image).rot90(quarters, (-2, -1))
    chain = T.Compose([name])
    boxes = torch.tensor([[3.0, 5.0, 30.0, 11.0]])
    out = chain({"image": image, "boxes": boxes, "mask": image[0]}, params=params)
    assert torch.equal(out["image"], expected)
    assert torch.equal(out["mask"], expected[0])
    painted = torch.zeros(1, *image.shape[-2:])
    painted[:, 5:11, 3:30] = 1
    turned = chain(painted, params=params)[0].nonzero()
    low, high = turned.min(0).values.tolist(), (turned.max(0).values + 1).tolist()
    assert out["boxes"].tolist() == [[low[1], low[0], high[1], high[0]]]
    back = chain.inverse({"image": out["image"], "boxes": out["boxes"]}, params)
    assert torch.equal(back["image"], image)
    assert torch.equal(back["boxes"], boxes)


def test_transpose() -> None:
    image = photo()
    assert torch.equal(T.Transpose(1.0)(image), image.transpose(-1, -2))
    assert torch.equal(T.Transpose(0.0)(image), image)


def test_symmetries_fuse() -> None:
    chain = T.Compose([T.RandomResizedCrop(20), T.D4(), T.ColorJitter(0.3), T.Transpose()], seed=0)
    assert len(chain.passes) == 1
    image = photo()
    out, params = chain(image, index=3, return_params=True)
    each = image
    for transform, name, step in zip(chain.transforms, params.names, params.steps, strict=True):
        own = T.Parameters([name], [step], np.array([each.shape[-2:]]))
        each = T.Compose([transform])(each, params=own)
    assert (out.int() - each.int()).abs().max() <= 1


def test_additive_colours_are_albumentations() -> None:
    image = photo()
    values = image.permute(1, 2, 0).numpy().astype(np.float64)
    out = T.RandomBrightnessContrast((0.1, 0.1), (-0.3, -0.3), p=1)(image)
    expected = np.clip(np.rint(values * 0.7 + 0.1 * 255), 0, 255)
    assert (out.permute(1, 2, 0).numpy() == expected).mean() > 0.95  # halves
    assert abs(out.permute(1, 2, 0).numpy() - expected).max() <= 1
    out = T.RGBShift((30, 30), (-20, -20), (0, 0), p=1)(image)
    assert (out.permute(1, 2, 0).numpy() == np.clip(values + np.array([30, -20, 0]), 0, 255)).all()
    gray = T.RandomBrightnessContrast(0.5, 0.5, p=1)
    assert gray(image[:1]).shape == image[:1].shape
    _, params = T.Compose([gray])(torch.stack([image[:, :2, :2]] * 2000), return_params=True)
    scale, shift = params.steps[0]["scale"], params.steps[0]["shift"]
    for found, middle in ((scale, 1.0), (shift, 0.0)):
        assert middle - 0.5 <= found.min() < middle - 0.49
        assert middle + 0.49 < found.max() < middle + 0.5
    assert shift.shape == (2000, 1)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_permutations_of_channels(channels: int) -> None:
    image = torch.arange(channels).reshape(channels, 1, 1).to(torch.uint8).expand(-1, 5, 6)
    batch = torch.stack([image] * 2400)
    out = T.Compose([T.RandomChannelPermutation()], seed=0)(batch, index=range(2400))
    orders, counts = torch.unique(out[..., 0, 0], dim=0, return_counts=True)
    many = int(np.prod(range(1, channels + 1)))
    assert len(orders) == many
    assert (abs(counts - 2400 / many) < 5 * (2400 / many) ** 0.5 + 1).all()


def views_of(**options: Any) -> Any:
    crop = T.Compose([T.RandomResizedCrop(24)], seed=5)
    small = T.Compose([T.RandomResizedCrop(16), T.RandomHorizontalFlip()], seed=5)
    return T.Views([crop, crop, small], **options)


def test_views_draw_for_themselves() -> None:
    image, views = photo(), views_of()
    for index in range(50):
        first, second, third = views(image, index=index)
        assert first.shape == second.shape == (3, 24, 24)
        assert third.shape == (3, 16, 16)
        assert not torch.equal(first, second)
        again = views(image, index=index)
        assert all(map(torch.equal, again, (first, second, third)))
    other = views_of(seed=6)(image, index=0)
    assert not torch.equal(other[0], views(image, index=0)[0])


def test_views_in_a_data_set_and_in_batches() -> None:
    views = views_of()
    data = T.IndexedDataset([(photo(), i) for i in range(4)], views)
    (first, label), (second, _), _ = data[2]
    assert label == 2
    assert torch.equal(first, views(photo(), index=2)[0])
    assert torch.equal(second, views(photo(), index=2)[1])
    samples = [{"image": photo(), "index": i} for i in range(4)]
    batches = views.collate(samples)
    assert [b["image"].shape for b in batches] == [(4, 3, 24, 24)] * 2 + [(4, 3, 16, 16)]
    assert torch.equal(batches[1]["image"][2], second)
    for twin in (copy.deepcopy(views), pickle.loads(pickle.dumps(views))):
        assert torch.equal(twin(photo(), index=2)[1], second)
    unseeded = T.Views([[T.RandomResizedCrop(8)], T.RandomResizedCrop(8)])
    torch.manual_seed(0)
    one, two = unseeded(photo())
    assert not torch.equal(one, two)
    assert "pass 1" in repr(unseeded)


@pytest.mark.parametrize("name", ["Resize", "CenterCrop", "RandomResizedCrop", "Pad"])
def test_sides_that_no_image_has_are_refused(name: str) -> None:
    make = getattr(T, name)
    argument = "padding" if name == "Pad" else "size"
    with pytest.raises(ValueError, match=rf"{name}: {argument} is {2**40}, must be at most"):
        make(2**40)
    with pytest.raises(RuntimeError, match=r"image of shape \[3, \d{9,}, \d{9,}\] can't be alloc"):
        make(2**30)(photo())
