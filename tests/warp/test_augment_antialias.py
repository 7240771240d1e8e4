"""Shrinking with antialias: band-limited images, integers for uint8, Lanczos' filter."""

import math
from typing import Any

import numpy as np
import pytest
import torch
import visops
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import SLOTS, use_slot
from references.affine import random_matrix
from references.augment import augment
from references.augment_integers import REACH, integer_weights, resize
from torch import Tensor

from warp.affine_cases import LAYOUTS, PADDINGS, random_image
from warp.augment_cases import (
    DTYPES,
    aligned,
    check,
    name_of,
    random_color,
    random_perspective,
    random_window,
)

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
def test_coordinates_sparser_than_the_filter(scale: float, padding_mode: Any) -> None:
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
    stretch: float, mode: Any, channels: int, value: float
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


MODES = ("bilinear", "bicubic", "lanczos")

# In levels, for weights and columns of 16 bits; half a level more where the result is rounded.
WITHIN = 0.4


def tensor(image: np.ndarray) -> Tensor:
    """[H, W, C] -> [1, C, H, W], contiguous."""
    return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))[None]


def shrunk(image: Tensor, matrix: Any, size: tuple[int, int], mode: Any, **options: Any) -> Tensor:
    given: dict[str, Any] = {"out_dtype": torch.uint8, "convention": "half_pixel", **options}
    return visops.augment(image, matrix, size, mode=mode, antialias=True, layout="CHW", **given)


def matrix_of(scale: tuple[float, float]) -> np.ndarray:
    """From source to output; `scale` is source per output, y first."""
    return np.array([[1 / scale[1], 0.0, 0.0], [0.0, 1 / scale[0], 0.0]])


def pattern(rng: np.random.Generator, kind: str, shape: tuple[int, int, int]) -> np.ndarray:
    """Noise, noise of the two extremes, or stripes of one pixel, the worst for rounded weights."""
    if kind == "noise":
        return rng.integers(0, 256, shape).astype(np.uint8)
    if kind == "extremes":
        return rng.choice(np.array([0, 255], np.uint8), shape)
    y, x, _ = np.indices(shape)
    return ((x + y if kind == "checks" else x) % 2 * 255).astype(np.uint8)


def check_integers(
    image: np.ndarray, matrix: Any, size: tuple[int, int], mode: str, **options: Any
) -> None:
    """WITHIN of the reference before rounding, and within one level after."""
    given = {"in_dtype": "uint8", "out_dtype": "uint8", "convention": "half_pixel", **options}
    exact = augment(image, matrix, size, mode=mode, antialias=True, **given)
    unrounded = shrunk(tensor(image), matrix, size, mode, out_dtype=torch.float32, **options)
    levels = 255 * unrounded[0].permute(1, 2, 0).numpy()
    assert np.abs(levels - exact).max() <= WITHIN
    result = shrunk(tensor(image), matrix, size, mode, **options)[0].permute(1, 2, 0).numpy()
    assert np.abs(result - np.clip(exact, 0, 255)).max() <= 0.5 + WITHIN
    assert np.abs(result - np.rint(np.clip(exact, 0, 255))).max() <= 1


KINDS = ("noise", "extremes", "checks", "stripes")


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(KINDS),
    st.tuples(st.integers(1, 90), st.integers(1, 90), st.integers(1, 5)),
    st.tuples(st.integers(1, 12), st.integers(1, 140)),
    st.tuples(st.floats(0.3, 12), st.floats(0.3, 12)),
    st.tuples(st.booleans(), st.booleans()),
    st.booleans(),
    st.sampled_from(MODES),
)
def test_within_one_level(
    seed: int, kind: str, shape: Any, size: Any, scale: Any, flip: Any, windowed: bool, mode: str
) -> None:
    rng = np.random.default_rng(seed)
    height, width, _ = shape
    matrix = matrix_of(scale)
    for axis, n in ((0, size[1]), (1, size[0])):
        if flip[axis]:
            matrix[axis] = -matrix[axis]
            matrix[axis, 2] = n
        matrix[axis, 2] += rng.uniform(-3, 3)
    window = None
    if windowed:
        window = [0.13 * width, 0.2 * height, 0.13 * width + 0.8 * width, 0.95 * height]
    check_integers(pattern(rng, kind, shape), matrix, size, mode, fill=77.0, window=window)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", MODES)
def test_worst_patterns(mode: str, kind: str) -> None:
    """Up to the most taps, and one scale beyond, where float32 takes over."""
    most = 32.0 if mode == "bilinear" else 16.0
    for scale in (1.0625, 1.9, 2.0, 7.3, 0.98 * most, most, 1.1 * most):
        rng = np.random.default_rng(3)
        image = pattern(rng, kind, (200, 331, 1))
        size = (min(max(1, int(200 / scale)), 30), min(max(1, int(331 / scale)), 50))
        check_integers(image, matrix_of((scale, scale)), size, mode, fill=255.0)
        check_integers(image, matrix_of((scale, 0.7)), (size[0], 60), mode)


@pytest.mark.parametrize("mode", MODES)
def test_definition(mode: str) -> None:
    """Bit for bit the integers of the reference, where float32 holds all coordinates."""
    rng = np.random.default_rng(7)
    for number, scale in enumerate(
        ((2.5, 3.25), (1.0, 6.5), (7.75, 1.5), (3.0, 0.5), (16.0, 12.5))
    ):
        if 2 * REACH[mode] * max(scale) > 64:  # taps: more are filtered in float32
            continue
        image = pattern(rng, KINDS[number % 2], (61, 173, (3, 1, 4)[number % 3]))
        size = (int(61 / scale[0]) + 1, int(173 / scale[1]) + 1)
        expected = resize(image, scale, size, mode)
        inverse = np.array([[scale[1], 0.0, 0.0], [0.0, scale[0], 0.0]])
        # The last row and column reach beyond the image and blend with fill: left out.
        inside = np.s_[: int(61 / scale[0]), : int(173 / scale[1])]
        for out_dtype, stored in (
            (torch.uint8, np.clip(np.rint(expected), 0, 255)),
            (torch.float32, expected * np.float32(1 / 255)),
        ):
            result = shrunk(
                tensor(image), inverse, size, mode, inverse_map=True, out_dtype=out_dtype
            )
            actual = result[0].permute(1, 2, 0).numpy()
            np.testing.assert_array_equal(actual[inside], stored[inside])


def test_weights_of_the_reference_add_up() -> None:
    for mode in MODES:
        for at, width in ((0.0, 1.0), (-0.5, 5.3), (11.25, 3.1), (19.5, 7.0)):
            _, weights, total = integer_weights(at, width, 20, mode, 1, 15)
            assert sum(weights) == total
            assert max(map(abs, weights)) <= 32767


@pytest.mark.parametrize("mode", MODES)
def test_every_constant_stays(mode: str) -> None:
    levels = (torch.arange(258) % 256).byte().reshape(86, 3, 1, 1)
    image = levels.expand(86, 3, 37, 150)
    for scale in ((2.7, 3.3), (1.01, 9.0), (13.0, 0.7)):
        size = (int(37 / scale[0]), int(150 / scale[1]))
        matrix = np.array([[size[1] / 150, 0.0, 0.0], [0.0, size[0] / 37, 0.0]])
        result = shrunk(image, matrix, size, mode, fill=99.0)
        assert torch.equal(result, levels.expand(86, 3, *size))


@pytest.mark.matrix
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("mode", MODES)
def test_layouts_agree(mode: str, channels: int) -> None:
    """However an image lies in memory, and a channel with others or alone."""
    rng = np.random.default_rng(channels)
    # Rows begin at multiples of four bytes, or anywhere.
    for height, width, scale in ((50, 301, 2.9), (9, 17, 1.7), (33, 160, 3.1), (70, 90, 15.5)):
        image = tensor(pattern(rng, "noise", (height, width, channels)))
        size = (int(height / scale) + 1, int(width / scale) + 2)
        matrix = matrix_of((scale, scale))
        options: dict[str, Any] = {"fill": 31.0, "window": [1.5, 2.25, width - 2.5, height]}
        expected = shrunk(image, matrix, size, mode, **options)
        last = image.contiguous(memory_format=torch.channels_last)
        wide = torch.zeros(1, channels, 2 * height, 3 * width, dtype=torch.uint8)
        wide[:, :, ::2, ::3] = image
        padded = torch.zeros(1, height, width, channels + 3, dtype=torch.uint8)
        padded[..., 1 : channels + 1] = image.permute(0, 2, 3, 1)
        beside = torch.zeros(1, channels, height, width + 12, dtype=torch.uint8)
        beside[..., 3 : width + 3] = image
        views = (
            last,
            wide[:, :, ::2, ::3],
            padded.permute(0, 3, 1, 2)[:, 1 : channels + 1],
            beside[..., 3 : width + 3],
            beside.contiguous(memory_format=torch.channels_last)[..., 3 : width + 3],
        )
        for view in (*views, image.flip(0), list(image)):
            assert torch.equal(shrunk(view, matrix, size, mode, **options), expected)  # type: ignore[arg-type]
        out = torch.empty(1, *size, channels, dtype=torch.uint8).permute(0, 3, 1, 2)
        shrunk(image, matrix, size, mode, out=out, **options)
        assert torch.equal(out, expected)
        alone = [
            shrunk(image[:, c : c + 1], matrix, size, mode, **options) for c in range(channels)
        ]
        assert torch.equal(torch.cat(alone, 1), expected)


@pytest.mark.matrix
@pytest.mark.parametrize("mode", MODES)
def test_gradients_are_those_of_the_filter(mode: str) -> None:
    """Every sample has one pixel, so a colour's gradient is what was sampled."""
    rng = np.random.default_rng(5)
    image = tensor(pattern(rng, "extremes", (61, 90, 3))).expand(16, 3, 61, 90)
    matrix = torch.from_numpy(matrix_of((2.7, 3.25))).repeat(16, 1, 1)
    matrix[:, :, 2] = -torch.from_numpy(rng.uniform(1, 15, (16, 2)))
    color = torch.eye(3, 4).repeat(16, 1, 1).requires_grad_()
    moved = matrix.clone().requires_grad_()
    found = []
    for form in (image, image.float() / 255):
        options: dict[str, Any] = {"color": color, "out_dtype": torch.float32}
        still = shrunk(form, matrix, (1, 1), mode, **options)
        both = shrunk(form, moved, (1, 1), mode, **options)
        (by_color,) = torch.autograd.grad(still.sum(), color)
        found.append((still, by_color, *torch.autograd.grad(both.sum(), (color, moved))))
    integers, exact = found
    assert (integers[0] - exact[0]).abs().max() > 5e-6
    for ours, wanted in zip(integers[1:], exact[1:], strict=True):
        within = 1e-6 * max(1.0, wanted.abs().max().item())
        torch.testing.assert_close(ours, wanted, rtol=0, atol=within)


MAPS = {"upright": aligned, "turned": random_matrix, "perspective": random_perspective}
LANCZOS_SIZE = (14, 130)


@pytest.mark.matrix
@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("padding_mode", PADDINGS)
@pytest.mark.parametrize("dtype", DTYPES, ids=name_of)
def test_values(dtype: torch.dtype, padding_mode: str, kind: str) -> None:
    if dtype == torch.uint8 and padding_mode == "constant" and kind == "upright":
        pytest.skip("in integers: the tests above")
    number = 15 * DTYPES.index(dtype) + 3 * PADDINGS.index(padding_mode) + list(MAPS).index(kind)
    rng = np.random.default_rng(number)
    channels = (3, 1, 4, 2)[number % 4]
    scale = (0.2, 1.5)
    matrices = [MAPS[kind](rng, 23, 31, LANCZOS_SIZE, scale=scale) for _ in range(2)]
    window = [random_window(rng, 23, 31) for _ in range(2)] if number % 2 else None
    color = [random_color(rng, 1, channels) for _ in range(2)] if number % 3 == 0 else None
    layout = list(LAYOUTS.values())[number % len(LAYOUTS)]
    check(
        layout(random_image(rng, (2, channels, 23, 31), dtype)),
        matrices,
        LANCZOS_SIZE,
        gain=2.0,
        mode="lanczos",
        antialias=True,
        padding_mode=padding_mode,
        window=None if window is None else np.stack(window),
        color=None if color is None else np.stack(color),
        fill=0.7,
        out_dtype=(torch.float32, dtype)[number % 2],
    )


@pytest.mark.parametrize("size", [(23, 31), (100, 140), (7, 140), (3, 2)])
def test_pillow(size: tuple[int, int]) -> None:
    """Pillow's images of floats, which it does not round between its two passes."""
    pil = pytest.importorskip("PIL.Image")
    image = np.random.default_rng(0).random((60, 77)).astype(np.float32)
    expected = np.asarray(pil.fromarray(image).resize(size[::-1], pil.Resampling.LANCZOS))
    options: dict[str, Any] = {"mode": "lanczos", "antialias": True, "convention": "half_pixel"}
    matrix = [[size[1] / 77, 0, 0], [0, size[0] / 60, 0]]
    found = visops.augment(torch.from_numpy(image)[None, None], matrix, size, **options)
    torch.testing.assert_close(found[0, 0], torch.tensor(expected), rtol=0, atol=1e-5)


# Steps along y and x, and where the first pixel lies: distances that float32 rounds.
FAR = {
    "rows": (257557601.86, 0.0222, 32.5, -0.109),
    "columns": (1.0, -500000.0, 0.0, 250.0),
    "both": (3e7, 2e9, 1.0, 1.0),
    "beyond": (1.5, 1.5, 1e8, 1e9),
    "before": (2.0, 3.0, -1e12, -2e7),
}


@pytest.mark.parametrize("slot", SLOTS)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32])
@pytest.mark.parametrize("name", FAR)
def test_no_element_beyond_the_image_is_read(name: str, dtype: torch.dtype, slot: str) -> None:
    """Taps that float32 rounds to other places: rows did that, and crashed."""
    step_y, step_x, y, x = FAR[name]
    matrix = [[step_x, 0.0, x], [0.0, step_y, y]]
    values = torch.full((3, 76, 500), 9.0)
    expected = torch.full((1, 3, 49, 90), 9.0 / 255.0 if dtype is torch.uint8 else 9.0)
    surrounded = torch.full((3, 80, 520), 100.0)
    for image in (values, surrounded[:, 2:78, 10:510].copy_(values)):
        for channels_last in (False, True):
            given = image.to(dtype)[None]
            if channels_last:
                given = given.contiguous(memory_format=torch.channels_last)
            with use_slot(slot):
                found = visops.augment(
                    given, matrix, (49, 90), antialias=True, inverse_map=True, fill=9
                )
            torch.testing.assert_close(found, expected, rtol=0.0, atol=1e-5)
