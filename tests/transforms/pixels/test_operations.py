"""Noise, HSV and neighbourhoods: values of their peers, and how they are drawn."""

import itertools
from typing import Any

import albumentations as A
import albumentations.augmentations.blur.functional as blurs
import albumentations.augmentations.pixel.functional as pixels
import cv2
import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor
from torchvision.transforms.v2 import functional as F
from visops import transforms as T

from transforms.chains import photo, run_torch_operators
from transforms.pixels.steps import made, picture


def amounts(step: Any, image: Tensor, *values: float) -> T.Parameters:
    """Parameters with which a step is applied to an image."""
    numbers = np.zeros((1, 10))
    numbers[0, : len(values)] = values
    drawn = {"apply": np.array([True]), "amounts": numbers}
    return T.Parameters([type(step).__name__], [drawn], np.array([image.shape[-2:]]))


def run(step: Any, image: Tensor, *values: float) -> Tensor:
    return T.Compose([step])(image, params=amounts(step, image, *values))  # type: ignore[no-any-return]


def as_array(image: Tensor) -> np.ndarray:
    return np.ascontiguousarray(image.permute(1, 2, 0).numpy())


def levels(found: Tensor, expected: np.ndarray) -> np.ndarray:
    """How far apart images are, in levels of 255."""
    scale = 1 if found.dtype == torch.uint8 else 255
    return np.abs(as_array(found).astype(np.float64) - expected.astype(np.float64)) * scale


@pytest.mark.parametrize("name", ["box", "motion", "unsharp", "emboss", "sharpen", "gaussian blur"])
def test_narrow_images_of_many_channels(name: str) -> None:
    """Three columns are no channels, in dtypes whose filters are torch's operators as well."""
    chain = T.Compose([made(name)], seed=0, layout="CHW")
    for width in (3, 4):
        image = torch.rand(7, 9, width, dtype=torch.float64)
        expected = chain(image.float(), index=0).double()
        torch.testing.assert_close(chain(image, index=0), expected, atol=1e-5, rtol=0.0)


def test_gaussian_noise_is_normal() -> None:
    grey = torch.full((3, 300, 400), 0.5)
    chain = T.Compose([T.GaussianNoise(0.0, 0.1, clip=False)], seed=0)
    noise = [
        ((chain(grey, index=i, epoch=e) - grey) / 0.1).double() for i, e in ((0, 0), (1, 0), (0, 1))
    ]
    for own in noise:
        flat = own.flatten().numpy()
        assert abs(flat.mean()) < 5 / len(flat) ** 0.5
        assert abs(flat.std() - 1) < 5e-3
        assert abs(stats.kurtosis(flat)) < 0.03
        assert stats.kstest(flat[:50000], "norm").pvalue > 1e-3
    # Independent: channels, neighbours, samples, epochs.
    pairs = [(noise[0][0], noise[0][1]), (noise[0][:, :, 1:], noise[0][:, :, :-1])]
    pairs += [(noise[0][:, 1:], noise[0][:, :-1]), (noise[0], noise[1]), (noise[0], noise[2])]
    for a, b in pairs:
        assert abs(float((a * b).mean())) < 5 / a.numel() ** 0.5


def test_gaussian_noise_is_torchvision_s() -> None:
    image = photo()
    chain = T.Compose([T.GaussianNoise(0.03, 0.15)], seed=0)
    ours = (chain(image, index=0).double() - image.double()).flatten()
    theirs = (F.gaussian_noise(image, 0.03, 0.15).double() - image.double()).flatten()
    assert stats.ks_2samp(ours[::7], theirs[::7]).pvalue > 1e-3
    wrapped = T.Compose([T.GaussianNoise(0.0, 0.5, clip=False)], seed=0)(image, index=0)
    assert (wrapped.int() - image.int()).abs().max() > 200


def test_shot_noise_is_albumentations() -> None:
    for scale in (0.05, 0.2, 0.004):
        image = torch.full((1, 200, 200), 160, dtype=torch.uint8)
        ours = run(T.ShotNoise(), image, scale, 0.37)
        theirs = pixels.shot_noise(as_array(image), scale, np.random.default_rng(0))
        pair = ours.numpy().ravel().astype(float), theirs.ravel().astype(float)
        assert abs(pair[0].mean() - pair[1].mean()) < 1.0
        assert abs(pair[0].std() / pair[1].std() - 1) < 0.03
        assert set(np.unique(ours)) <= set(np.unique(theirs)) | set(range(256))
        counts = [np.bincount(p.astype(int), minlength=256) / p.size for p in pair]
        assert np.abs(counts[0] - counts[1]).max() < 0.02


def test_salt_and_pepper_changes_as_many_pixels() -> None:
    image = torch.full((3, 300, 300), 100, dtype=torch.uint8)
    out = run(T.SaltAndPepper(), image, 0.1, 0.25, 0.6)
    assert (out == out[:1]).all()
    assert abs(float((out == 255).float().mean()) - 0.025) < 0.002
    assert abs(float((out == 0).float().mean()) - 0.075) < 0.003


def yolo_hsv(image: np.ndarray, gains: tuple[float, float, float]) -> np.ndarray:
    """What Ultralytics' RandomHSV does by OpenCV, in RGB."""
    levels = np.arange(256)
    hues = ((levels + gains[0] * 180) % 180).astype(np.uint8)
    saturations = np.clip(levels * (gains[1] + 1), 0, 255).astype(np.uint8)
    saturations[0] = 0
    values = np.clip(levels * (gains[2] + 1), 0, 255).astype(np.uint8)
    h, s, v = cv2.split(cv2.cvtColor(image, cv2.COLOR_RGB2HSV))
    tables = ((h, hues), (s, saturations), (v, values))
    return cv2.cvtColor(cv2.merge([cv2.LUT(p, t) for p, t in tables]), cv2.COLOR_HSV2RGB)


@pytest.mark.parametrize("gains", [(0.0, 0.0, 0.0), (0.3, 0.5, -0.4), (-0.21, -0.7, 0.6)])
def test_hsv_is_yolo_s(gains: tuple[float, float, float]) -> None:
    colours = torch.cartesian_prod(*[torch.arange(0, 256, 5, dtype=torch.uint8)] * 3)
    image = colours.T.reshape(3, -1, 1).contiguous()
    # In wide images, OpenCV's vectors cut off what its scalars round.
    distance = levels(run(T.RandomHSV(), image, *gains), yolo_hsv(as_array(image), gains))
    assert distance.max() <= 1
    assert (distance > 0).mean() < 1e-3
    wide = image.reshape(3, 52, -1)
    assert levels(run(T.RandomHSV(), wide, *gains), yolo_hsv(as_array(wide), gains)).max() <= 1
    floats = run(T.RandomHSV(), image / 255, *gains)
    assert np.abs(as_array(floats) * 255 - yolo_hsv(as_array(image), gains)).mean() < 2.5


@pytest.mark.matrix
@pytest.mark.parametrize(
    "gains",
    [
        *((0.0, 0.0, 0.0), (0.37, 0.9, -0.31), (-0.62, -0.4, 1.0)),
        # What float32 can't compute: 255 times a bit less than 1 is 254, as for NumPy.
        *((0.0, -(2.0**-53), 0.3), (0.1, 0.2, -(2.0**-53)), (-(2.0**-60), 0.1, 0.1)),
    ],
)
def test_hsv_of_every_value_and_saturation(
    gains: tuple[float, float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel computes OpenCV's tables: torch's operators read them, and give the same."""
    value, span = torch.meshgrid(torch.arange(256), torch.arange(256), indexing="ij")
    least = (value - span).clamp(min=0)
    between = (least + (span * torch.rand(256, 256)).long()).minimum(value)
    orders = itertools.permutations((value, between, least))
    colors = torch.cat([torch.stack(order) for order in orders], -1).to(torch.uint8)
    found = run(T.RandomHSV(), colors, *gains)
    run_torch_operators(monkeypatch)
    assert torch.equal(found, run(T.RandomHSV(), colors, *gains))


@pytest.mark.parametrize("side", [3, 5, 9])
def test_blurs_are_opencv_s(side: int) -> None:
    image = picture()
    array = as_array(image)
    assert levels(run(T.Blur(), image, side), cv2.blur(array, (side, side))).max() <= 1
    assert levels(run(T.MedianBlur(), image, side), cv2.medianBlur(array, side)).max() == 0
    floats = image / 255
    if side < 6:  # as far as OpenCV has it
        found = run(T.MedianBlur(), floats, side)
        assert levels(found, cv2.medianBlur(as_array(floats), side)).max() == 0
    found = run(T.Blur(), floats, side)
    assert levels(found, cv2.blur(as_array(floats), (side, side))).max() < 1e-3


@pytest.mark.parametrize(
    "numbers", [(7, 30, 0.0, 0, 0), (5, 200, -0.6, 0.5, -1), (9, 95, 1, -0.7, 1)]
)
def test_motion_is_albumentations(numbers: tuple[float, ...]) -> None:
    side, angle, direction, *shifts = numbers

    class Shifts:
        def uniform(self, low: float, high: float) -> float:
            return shifts.pop(0)

    image = picture()
    kernel = blurs.create_motion_kernel(int(side), angle, direction, True, Shifts())  # type: ignore[arg-type]
    expected = cv2.filter2D(as_array(image), -1, kernel / kernel.sum())
    assert levels(run(T.MotionBlur(), image, *numbers), expected).max() <= 1


def test_sharpening_is_albumentations() -> None:
    image = picture()
    array = as_array(image)
    for dtype in (torch.uint8, torch.float32):
        own = image if dtype == torch.uint8 else image / 255
        own_array, bound = as_array(own), 1.0 if dtype == torch.uint8 else 1e-3
        emboss: Any = A.Emboss((0.4, 0.4), (0.6, 0.6), p=1)
        assert (
            levels(run(T.Emboss(), own, 0.4, 0.6), emboss(image=own_array)["image"]).max() <= bound
        )
        sharpen: Any = A.Sharpen((0.4, 0.4), (0.6, 0.6), p=1)
        found = run(T.Sharpen(), own, 0.4, 0.6)
        assert levels(found, sharpen(image=own_array)["image"]).max() <= bound
    for sigma in (0.0, 1.3):
        found = run(T.UnsharpMask(), image, 0.5, 5, sigma, 10)
        expected = pixels.unsharp_mask(array, 5, sigma=sigma, alpha=0.5, threshold=10)
        distance = levels(found, expected)
        assert distance.max() <= 4  # where a difference is as large as the threshold
        assert (distance > 1).mean() < 1e-3


@pytest.mark.parametrize("size", [(96, 128), (111, 133), (64, 133)])
@pytest.mark.parametrize("clip", [0.0, 1.0, 3.5])
def test_clahe_is_opencv_s(size: tuple[int, int], clip: float) -> None:
    image = photo()[:1, : size[0], : size[1]].contiguous()
    for grid in ((8, 8), (3, 5)):
        expected = cv2.createCLAHE(clip, grid).apply(image[0].numpy())
        step = T.CLAHE((clip, clip), grid, p=1)
        assert levels(step(image), expected[..., None]).max() == 0


def test_clahe_of_colours_is_albumentations() -> None:
    image = photo()
    expected = pixels.clahe(as_array(image), 3.0, (8, 8))
    distance = levels(T.CLAHE((3, 3), p=1)(image), expected)
    assert distance.mean() < 1.0
    assert (distance > 8).mean() < 1e-3


@pytest.mark.parametrize("scale", [0.25, 0.5, 0.37])
def test_downscale_is_albumentations(scale: float) -> None:
    image = picture()
    step: Any = A.Downscale((scale, scale), p=1)
    assert levels(run(T.Downscale(), image, scale), step(image=as_array(image))["image"]).max() == 0


@pytest.mark.parametrize("scale", [0.1, 0.37, 0.6, 0.9, 0.95])
def test_downscaled_positions_are_opencv_s(scale: float) -> None:
    """All widths, also those where a pixel lies between two of the smaller image."""
    for width in range(20, 300, 4):
        row = torch.arange(width, dtype=torch.float32).expand(1, 20, width).contiguous()
        small = cv2.resize(row[0].numpy(), None, fx=scale, fy=scale, interpolation=0)
        expected = cv2.resize(small, (width, 20), interpolation=0)
        assert np.array_equal(T.Downscale((scale, scale), 1.0)(row)[0, 0], expected[0]), width


def test_sides_are_odd_and_as_likely() -> None:
    step = T.Compose([T.Blur((3, 7), 1.0)], seed=0)
    _, params = step(torch.zeros(3000, 1, 2, 2), index=range(3000), return_params=True)
    sides, counts = np.unique(params.steps[0]["amounts"][:, 0], return_counts=True)
    assert sides.tolist() == [3, 5, 7]
    assert (np.abs(counts - 1000) < 130).all()
