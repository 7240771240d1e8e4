"""antialias of uint8 images, which is computed in integers where the map is upright."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from hypothesis import given, settings
from hypothesis import strategies as st
from references.augment import augment
from references.augment_integers import REACH, integer_weights, resize
from torch import Tensor

MODES = ("bilinear", "bicubic", "lanczos")
# In levels, for weights and columns of 16 bits; half a level more where the result is rounded.
WITHIN = 0.4


def tensor(image: np.ndarray) -> Tensor:
    """[H, W, C] -> [1, C, H, W], contiguous."""
    return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))[None]


def shrunk(image: Tensor, matrix: Any, size: tuple[int, int], mode: str, **options: Any) -> Tensor:
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


def check(image: np.ndarray, matrix: Any, size: tuple[int, int], mode: str, **options: Any) -> None:
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
    check(pattern(rng, kind, shape), matrix, size, mode, fill=77.0, window=window)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", MODES)
def test_worst_patterns(mode: str, kind: str) -> None:
    """Up to the most taps, and one scale beyond, where float32 takes over."""
    most = 32.0 if mode == "bilinear" else 16.0
    for scale in (1.0625, 1.9, 2.0, 7.3, 0.98 * most, most, 1.1 * most):
        rng = np.random.default_rng(3)
        image = pattern(rng, kind, (200, 331, 1))
        size = (min(max(1, int(200 / scale)), 30), min(max(1, int(331 / scale)), 50))
        check(image, matrix_of((scale, scale)), size, mode, fill=255.0)
        check(image, matrix_of((scale, 0.7)), (size[0], 60), mode)


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


@pytest.mark.parametrize("mode", MODES)
def test_threads_agree(mode: str) -> None:
    image = tensor(pattern(np.random.default_rng(4), "noise", (333, 500, 3)))
    threads = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            results.append(shrunk(image, matrix_of((2.3, 3.1)), (144, 161), mode))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


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
