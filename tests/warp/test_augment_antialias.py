"""Rotated shrinking with antialias, against what is known of band-limited images.

A plane wave resampled with a filter stays that wave, times the filter's frequency response:
sinc^2(f r) per axis for a tent of width r. So if an image is a sum of waves, the result of any
affine map has a closed form. Waves beyond the output's Nyquist frequency must vanish; without
antialias they come back as waves that were never in the image.
"""

import math
from typing import Any

import numpy as np
import pytest
import torch
import visops

SIDE = 256
SIZE = (40, 44)
ANGLES = (0.0, 13.0, 30.0, 45.0, -77.0, 160.0)
# Cycles per source pixel, and phases. At a third of the size the output's Nyquist frequency is 1/6.
LOW = (((0.011, 0.006), 0.3), ((-0.008, 0.017), 1.1))
HIGH = (((0.30, 0.31), 0.5), ((0.36, -0.29), 2.0), ((0.33, 0.02), 0.9))


def waves(parts: Any, x: np.ndarray, y: np.ndarray, widths: tuple[float, float]) -> np.ndarray:
    """The sum of waves at (x, y), each filtered with a tent of these widths."""
    total = np.full(np.shape(x), 0.5)
    for (fx, fy), phase in parts:
        response = (np.sinc(fx * widths[0]) * np.sinc(fy * widths[1])) ** 2
        total = total + 0.2 * response * np.cos(2 * np.pi * (fx * x + fy * y) + phase)
    return total


def shrinking(angle: float, scale: tuple[float, float] = (1 / 3, 1 / 3)) -> np.ndarray:
    """Source to destination: turn about the middle, then scale; the image covers the output."""
    a = math.radians(angle)
    linear = np.diag(scale) @ np.array([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]])
    middle = np.array([(SIDE - 1) / 2] * 2)
    target = np.array([(SIZE[1] - 1) / 2, (SIZE[0] - 1) / 2])
    return np.column_stack([linear, target - linear @ middle])


def sources(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
    """The output pixels' places in the source, and their widths along its axes."""
    inverse = np.linalg.inv(np.vstack([matrix, [0, 0, 1]]))
    y, x = np.indices(SIZE)
    u, v = (inverse[r, 0] * x + inverse[r, 1] * y + inverse[r, 2] for r in (0, 1))
    assert min(u.min(), v.min()) > 12
    assert max(u.max(), v.max()) < SIDE - 13
    return u, v, (math.hypot(*inverse[0, :2]), math.hypot(*inverse[1, :2]))


def resampled(parts: Any, matrix: np.ndarray, **options: Any) -> np.ndarray:
    y, x = np.indices((SIDE, SIDE))
    image = torch.from_numpy(waves(parts, x, y, (0.0, 0.0)))[None, None].float()
    return visops.augment(image, matrix, SIZE, **options)[0, 0].numpy()


@pytest.mark.parametrize("angle", ANGLES)
def test_known_result(angle: float) -> None:
    """The right waves pass, to 1 % of the contrast (a tent sampled at integers is no exact sinc^2).

    Widths are those of the map: a tent a tenth narrower or wider would fail.
    """
    for scale in ((1 / 3, 1 / 3), (0.4, 0.3)):
        matrix = shrinking(angle, scale)
        u, v, widths = sources(matrix)
        result = resampled(LOW + HIGH, matrix, antialias=True)
        assert np.abs(result - waves(LOW + HIGH, u, v, widths)).max() <= 0.01
    medium = (((0.09, 0.05), 0.2), ((-0.05, 0.1), 1.0))
    result = resampled(medium, matrix, antialias=True)
    right = np.abs(result - waves(medium, u, v, widths)).max()
    for factor in (0.9, 1.1):
        wrong = waves(medium, u, v, (widths[0] * factor, widths[1] * factor))
        assert np.abs(result - wrong).max() > 3 * right


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("angle", ANGLES)
def test_what_the_output_cannot_hold_vanishes(angle: float, mode: str) -> None:
    matrix = shrinking(angle)
    u, v, _ = sources(matrix)
    ideal = waves(LOW, u, v, (0.0, 0.0))
    filtered = resampled(LOW + HIGH, matrix, antialias=True, mode=mode)
    plain = resampled(LOW + HIGH, matrix, mode="bicubic" if mode == "lanczos" else mode)
    assert np.abs(filtered - ideal).max() <= 0.03
    # Without antialias this fails by far: the waves are there at another frequency.
    assert np.abs(plain - ideal).max() >= 0.2
    assert np.sqrt(np.mean((plain - ideal) ** 2)) >= 8 * np.sqrt(np.mean((filtered - ideal) ** 2))


@pytest.mark.parametrize("angle", ANGLES)
def test_frequencies_that_come_back(angle: float) -> None:
    """The spectrum of one high wave: without antialias, a peak where there should be none."""
    matrix = shrinking(angle)
    window = np.outer(np.hanning(SIZE[0]), np.hanning(SIZE[1]))

    def peak(image: np.ndarray) -> float:
        spectrum = np.abs(np.fft.fft2((image - image.mean()) * window))
        return float(spectrum.max() / window.sum() * 2)

    wave = HIGH[:1]
    assert peak(resampled(wave, matrix)) >= 0.04
    assert peak(resampled(wave, matrix, antialias=True)) <= 0.004


@pytest.mark.parametrize("angle", ANGLES)
def test_noise_is_averaged(angle: float) -> None:
    """White noise loses as much variance as a mean over the filter's pixels does."""
    rng = np.random.default_rng(0)
    image = torch.from_numpy(rng.standard_normal((16, 1, SIDE, SIDE))).float()
    matrix = shrinking(angle)
    _, _, widths = sources(matrix)
    result = visops.augment(image, matrix, SIZE, antialias=True)
    # The integral of a squared tent of width r and area 1 is 2 / 3r; sampled, a little more.
    expected = 2 / (3 * widths[0]) * 2 / (3 * widths[1])
    assert abs(float(result.var()) / expected - 1) <= 0.12
    assert float(visops.augment(image, matrix, SIZE).var()) >= 3 * expected


def test_perspective() -> None:
    """The footprint changes over the image; the far half is filtered more than the near one."""
    bend = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0.02, 1.0]])
    inverse = np.linalg.inv(np.vstack([shrinking(20.0), [0, 0, 1]])) @ bend
    y, x = np.indices(SIZE)
    u, v, w = inverse @ np.stack([x.ravel(), y.ravel(), np.ones(x.size)])
    u, v = (u / w).reshape(SIZE), (v / w).reshape(SIZE)
    ideal = waves(LOW, u, v, (0.0, 0.0))
    options: dict[str, Any] = {"inverse_map": True, "padding_mode": "reflect"}
    near = (slice(0, 15), slice(8, -8))
    filtered = resampled(LOW + HIGH, inverse, antialias=True, **options)
    plain = resampled(LOW + HIGH, inverse, **options)
    assert np.abs(filtered - ideal)[near].max() <= 0.05
    assert np.abs(plain - ideal)[near].max() >= 0.2


def test_rim_of_a_rotated_photo_is_one_pixel_wide() -> None:
    """A white image on black, shrunk and turned, keeps its area and gets no dark rim."""
    image = torch.ones(1, 1, SIDE, SIDE)
    for angle in ANGLES:
        matrix = shrinking(angle, (1 / 8, 1 / 8))
        result = visops.augment(image, matrix, SIZE, antialias=True)
        assert result.min() >= 0
        assert result.max() <= 1 + 1e-6
        area = (SIDE / 8) ** 2
        assert abs(float(result.sum()) / area - 1) <= 0.02
        partial = ((result > 0.01) & (result < 0.99)).sum()
        # Two pixels across a diagonal edge, at most, around a square of 32.
        assert partial <= 2 * 4 * SIDE / 8 + 8


@pytest.mark.parametrize("padding_mode", ["replicate", "reflect", "symmetric", "circular"])
@pytest.mark.parametrize("scale", [2.0**18, 2.0**19 - 2, 2.0**20, 2.0**23])
def test_coordinates_sparser_than_the_filter(scale: float, padding_mode: str) -> None:
    """Steps so large that floats at a coordinate are sparser than the filter is wide."""
    image = torch.full((1, 1, 1, 1), 0.75)  # filters are no wider than images
    matrix = np.diag([scale, scale, 1.0])  # output to image
    got = visops.augment(
        image, matrix, (5, 130), inverse_map=True, antialias=True, padding_mode=padding_mode
    )
    torch.testing.assert_close(got, torch.full_like(got, 0.75), rtol=0, atol=1e-5)


@pytest.mark.matrix
@pytest.mark.parametrize("value", [math.inf, math.nan])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("stretch", [2.857, 1.7, 1.3])
def test_what_is_not_finite_stays_within_its_taps(
    stretch: float, mode: str, channels: int, value: float
) -> None:
    """Columns have different numbers of taps, and kernels fill them up."""
    image = torch.rand(1, channels, 1, 120)
    columns = torch.arange(int(120 / stretch))
    matrix = [[stretch, 0.0, 0.31], [0.0, 1.0, 0.0]]

    def resized(of: torch.Tensor) -> torch.Tensor:
        size = 1, len(columns)
        return visops.augment(of, matrix, size, mode=mode, antialias=True, inverse_map=True)

    radius = stretch * (1 if mode == "bilinear" else 2)
    first = (columns * stretch + 0.31 - radius).floor() + 1
    last = first + 2 * math.ceil(radius) - 1
    whole = resized(image)
    for column in (*range(10), 40, 77, *range(110, 120)):
        spoilt = image.clone()
        spoilt[..., column] = value
        result, reached = resized(spoilt), (first <= column) & (column <= last)
        assert not result[..., reached].isfinite().any()
        assert torch.equal(result[..., ~reached], whole[..., ~reached])
