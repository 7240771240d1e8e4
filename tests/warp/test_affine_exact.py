"""The affine warp to the bit: copies, layouts, `out`, what hypothesis comes up with."""

import math
from typing import Any

import numpy as np
import pytest
import torch
import visops
from hypothesis import given, settings
from hypothesis import strategies as st
from references.affine import quarter_turn, random_matrix, warp
from torch import Tensor

from warp.affine_cases import (
    COPIED,
    INTERPOLATED,
    LAYOUTS,
    MODES,
    PADDINGS,
    modes_of,
    random_image,
)

EVERY = INTERPOLATED + COPIED


def case_name(value: Any) -> str:
    return str(value).removeprefix("torch.")


def extreme_image(dtype: torch.dtype, side: int) -> Tensor:
    """Noise with values that would not survive arithmetic."""
    image = random_image(np.random.default_rng(0), (2, 3, side, side), dtype)
    if dtype.is_floating_point:
        info = torch.finfo(dtype)
        extremes = [float("inf"), float("-inf"), float("nan"), info.max, info.tiny, -0.0]
    elif dtype == torch.bool:
        return image
    else:
        info64 = torch.iinfo(dtype)
        extremes = [info64.max, info64.min, info64.max - 1]
    for i, value in enumerate(extremes):
        image[i % 2, i % 3, i, side - 1 - i] = value
        image[1, 2, 0, i] = value
    return image


def flips(image: Tensor) -> Tensor:
    """The image for torch.rot90 and flip, which torch 2.11 lacks for uint16."""
    return image.view(torch.int16) if image.dtype == torch.uint16 else image


def assert_same_bits(actual: Tensor, expected: Tensor) -> None:
    if expected.dtype != actual.dtype:
        actual = flips(actual)
    assert actual.dtype == expected.dtype
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", EVERY, ids=case_name)
@pytest.mark.parametrize("padding_mode", PADDINGS)
def test_quarter_turns_and_flips_copy(dtype: torch.dtype, padding_mode: str) -> None:
    side = 67
    image = extreme_image(dtype, side)
    half_pixel_flip = [[-1, 0, side], [0, 1, 0]]
    for mode in modes_of(dtype):
        options: dict[str, Any] = {"mode": mode, "padding_mode": padding_mode, "fill": 1}
        turned = image
        for turns in range(4):
            assert_same_bits(turned, torch.rot90(flips(image), turns, (2, 3)))
            turned = visops.warp_affine(turned, quarter_turn(side), **options)
        assert_same_bits(turned, image)
        flipped = visops.warp_affine(image, [[-1, 0, side - 1], [0, 1, 0]], **options)
        assert_same_bits(flipped, flips(image).flip(3))
        flipped = visops.warp_affine(image, [[1, 0, 0], [0, -1, side - 1]], **options)
        assert_same_bits(flipped, flips(image).flip(2))
        flipped = visops.warp_affine(image, half_pixel_flip, convention="half_pixel", **options)
        assert_same_bits(flipped, flips(image).flip(3))


@pytest.mark.parametrize("dtype", EVERY, ids=case_name)
@pytest.mark.parametrize("inverse_map", [False, True])
def test_integer_shifts_copy(dtype: torch.dtype, inverse_map: bool) -> None:
    image = extreme_image(dtype, 70)
    for mode in modes_of(dtype):
        for dx, dy in ((0, 0), (3, -5), (-69, 69), (200, 0)):
            sign = -1 if inverse_map else 1
            matrix = [[1, 0, sign * dx], [0, 1, sign * dy]]
            result = visops.warp_affine(image, matrix, mode=mode, fill=1, inverse_map=inverse_map)
            expected = torch.ones_like(image)
            rows, columns = max(0, 70 - abs(dy)), max(0, 70 - abs(dx))
            expected[..., max(dy, 0) :, max(dx, 0) :][..., :rows, :columns] = image[
                ..., max(-dy, 0) :, max(-dx, 0) :
            ][..., :rows, :columns]
            assert_same_bits(result, expected)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32])
@pytest.mark.parametrize("channels", [1, 3])
def test_wide_upright_maps_repeat_columns(dtype: Any, channels: int) -> None:
    """Nearest by 1/2, shifted beyond both edges, over more columns than are made at once."""
    values = np.random.default_rng(0).integers(0, 100, (5, 1500, channels))
    image = values.astype(dtype)
    matrix = np.array([[2.0, 0.0, 100.0], [0.0, 2.0, 2.0]])
    found = visops.warp_affine(image, matrix, (14, 3200), mode="nearest", fill=7)
    expected = np.full((14, 3200, channels), 7, dtype)
    rows, columns = np.arange(14), np.arange(3200)
    y, x = (rows - 1) // 2, (columns - 99) // 2  # floor(v / 2 + 1 / 2)
    inside = np.ix_((y >= 0) & (y < 5), (x >= 0) & (x < 1500))
    y, x = y[(y >= 0) & (y < 5)], x[(x >= 0) & (x < 1500)]
    expected[inside] = image[np.ix_(y, x)]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("padding_mode", ["replicate", "reflect", "symmetric", "circular"])
def test_integer_shifts_pad_as_numpy(padding_mode: Any) -> None:
    names = {"replicate": "edge", "circular": "wrap"}
    image = np.random.default_rng(1).integers(0, 256, (9, 13, 3), dtype=np.uint8)
    padded = np.pad(image, ((20, 20), (30, 30), (0, 0)), names.get(padding_mode, padding_mode))  # type: ignore[call-overload]
    result = visops.warp_affine(
        image, [[1, 0, 30], [0, 1, 20]], (49, 73), padding_mode=padding_mode
    )
    np.testing.assert_array_equal(result, padded)


def test_integers_beyond_their_float() -> None:
    """Masks with ids that float32 or float64 can't distinguish."""
    matrix = random_matrix(np.random.default_rng(2), 20, 30, (25, 66))
    for dtype, first in ((torch.int32, 2**24), (torch.int64, 2**53), (torch.int64, 2**62)):
        ids = torch.arange(first, first + 600, dtype=torch.int64).to(dtype).reshape(1, 1, 20, 30)
        options: dict[str, Any] = {"mode": "nearest", "padding_mode": "reflect"}
        positions = torch.arange(600, dtype=torch.float64).reshape(1, 1, 20, 30)
        expected = visops.warp_affine(positions, matrix, (25, 66), **options)
        # float64 images have float64 coordinates, where a tie may fall the other way.
        result = visops.warp_affine(ids, matrix, (25, 66), **options)
        assert ((result - first) != expected).sum() <= 1
        assert visops.warp_affine(ids, [[1, 0, 0], [0, 1, 0]], mode="nearest").equal(ids)


@pytest.mark.parametrize("mode", MODES)
def test_expanded_images(mode: Any) -> None:
    rng = np.random.default_rng(4)
    matrix = random_matrix(rng, 20, 30, (25, 66))
    for shape in ((1, 3, 20, 30), (2, 1, 20, 30), (2, 3, 1, 30), (2, 3, 20, 1), (1, 1, 1, 1)):
        image = random_image(rng, shape, torch.float32)
        expanded = image.expand(2, 3, 20, 30)
        result = visops.warp_affine(expanded, matrix, (25, 66), mode=mode)
        copied = visops.warp_affine(expanded.contiguous(), matrix, (25, 66), mode=mode)
        assert_same_bits(result, copied)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
def test_array_strides(dtype: Any, mode: Any) -> None:
    rng = np.random.default_rng(5)
    image = (rng.random((20, 30, 3)) * 200).astype(dtype)
    matrix = random_matrix(rng, 20, 30, (25, 66))
    read_only = image.copy()
    read_only.flags.writeable = False
    wide = np.zeros((40, 90, 5), dtype)
    wide[::2, ::3, 1:4] = image
    same = {
        "fortran": np.asfortranarray(image),
        "flipped": image[::-1, ::-1, ::-1].copy()[::-1, ::-1, ::-1],
        "every other": wide[::2, ::3, 1:4],
        "read-only": read_only,
        "channels apart": np.ascontiguousarray(image.transpose(2, 0, 1)).transpose(1, 2, 0),
    }
    expected = visops.warp_affine(image, matrix, (25, 66), mode=mode)
    for name, array in same.items():
        result = visops.warp_affine(array, matrix, (25, 66), mode=mode)
        np.testing.assert_array_equal(result, expected, err_msg=name)
    grey = visops.warp_affine(image[..., 1], matrix, (25, 66), mode=mode)
    np.testing.assert_array_equal(grey, expected[..., 1])
    one = visops.warp_affine(image[..., 1:2], matrix, (25, 66), mode=mode)
    np.testing.assert_array_equal(one, expected[..., 1:2])


# NumPy has no bfloat16.
@pytest.mark.parametrize("dtype", [d for d in EVERY if d != torch.bfloat16], ids=case_name)
def test_arrays_equal_tensors(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(6)
    for channels in (1, 2, 3, 4, 5):
        image = random_image(rng, (channels, 20, 30), dtype)
        hwc = image.permute(1, 2, 0).contiguous()
        matrix = random_matrix(rng, 20, 30, (25, 66))
        for mode in modes_of(dtype):
            expected = visops.warp_affine(image, matrix, (25, 66), mode=mode, fill=1)
            result = visops.warp_affine(hwc.numpy(), matrix, (25, 66), mode=mode, fill=1)
            assert result.dtype == hwc.numpy().dtype
            assert_same_bits(torch.from_numpy(result).permute(2, 0, 1), expected)


@pytest.mark.parametrize("dtype", INTERPOLATED, ids=case_name)
@pytest.mark.parametrize("mode", MODES)
def test_constant_images_stay_constant(dtype: torch.dtype, mode: Any) -> None:
    rng = np.random.default_rng(7)
    value = 0.5 if dtype.is_floating_point else 128
    image = torch.full((2, 3, 20, 30), value, dtype=dtype)
    for padding_mode in PADDINGS:
        matrix = random_matrix(rng, 20, 30, (45, 131))
        result = visops.warp_affine(
            image, matrix, (45, 131), mode=mode, padding_mode=padding_mode, fill=value
        )
        if dtype in (torch.float32, torch.float64):
            error = 4 * torch.finfo(dtype).eps
            torch.testing.assert_close(result, torch.full_like(result, value), rtol=0, atol=error)
        else:
            assert torch.equal(result, torch.full_like(result, value))


@pytest.mark.parametrize("mode", MODES)
def test_out(mode: Any) -> None:
    rng = np.random.default_rng(9)
    image = random_image(rng, (2, 3, 20, 30), torch.float32)
    matrix = random_matrix(rng, 20, 30, (25, 66))
    expected = visops.warp_affine(image, matrix, (25, 66), mode=mode)
    plain = torch.full((2, 3, 25, 66), -7.0)
    for layout, relayout in LAYOUTS.items():
        out = relayout(plain)
        version = out._version
        result = visops.warp_affine(image, matrix, (25, 66), mode=mode, out=out)
        assert result is out, layout
        assert out._version > version
        assert_same_bits(out, expected)
    canvas = torch.full((2, 3, 40, 90), -7.0)
    visops.warp_affine(image, matrix, mode=mode, out=canvas[:, :, 5:30, 7:73])
    assert_same_bits(canvas[:, :, 5:30, 7:73], expected)
    canvas[:, :, 5:30, 7:73] = -7.0
    assert (canvas == -7.0).all()
    single = torch.empty(3, 25, 66)
    assert visops.warp_affine(image[0], matrix, mode=mode, out=single) is single
    assert_same_bits(single, expected[0])


def test_out_array() -> None:
    rng = np.random.default_rng(10)
    image = rng.random((20, 30, 3)).astype(np.float32)
    matrix = random_matrix(rng, 20, 30, (25, 66))
    expected = visops.warp_affine(image, matrix, (25, 66))
    canvas = np.full((40, 90, 3), -7.0, np.float32)
    for out in (canvas[5:30, 7:73], canvas[30:5:-1, 7:73], np.asfortranarray(expected * 0)):
        assert visops.warp_affine(image, matrix, (25, 66), out=out) is out
        np.testing.assert_array_equal(out, expected)
    out = np.empty((25, 66, 3), np.float32)
    assert visops.warp_affine(image, matrix, out=out) is out
    np.testing.assert_array_equal(out, expected)


def test_empty() -> None:
    identity = [[1, 0, 0], [0, 1, 0]]
    for shape, size, expected in (
        ((0, 3, 4, 5), None, (0, 3, 4, 5)),
        ((2, 0, 4, 5), None, (2, 0, 4, 5)),
        ((2, 3, 4, 5), (0, 5), (2, 3, 0, 5)),
        ((2, 3, 4, 5), (4, 0), (2, 3, 4, 0)),
        ((0, 0, 0, 0), (0, 0), (0, 0, 0, 0)),
    ):
        assert visops.warp_affine(torch.rand(shape), identity, size).shape == expected
    assert visops.warp_affine(torch.rand(0, 3, 4, 5), torch.zeros(0, 2, 3)).shape == (0, 3, 4, 5)
    for shape in ((2, 3, 0, 5), (2, 3, 5, 0), (2, 3, 0, 0)):
        result = visops.warp_affine(torch.rand(shape), identity, (4, 6), fill=0.5)
        assert torch.equal(result, torch.full((2, 3, 4, 6), 0.5))
    assert visops.warp_affine(np.zeros((4, 5, 3)), identity, (0, 5)).shape == (0, 5, 3)
    blank = visops.warp_affine(np.zeros((0, 5)), identity, (2, 2), fill=3)
    assert blank.tolist() == [[3, 3], [3, 3]]


few = settings(max_examples=25)


@st.composite
def images(draw: st.DrawFn, dtype: torch.dtype = torch.float64) -> Tensor:
    shape = [draw(st.integers(1, n)) for n in (3, 4, 20, 70)]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return torch.from_numpy(rng.random(shape)).to(dtype)


@st.composite
def matrices(draw: st.DrawFn) -> np.ndarray:
    """Source -> destination, with both scales between 1/8 and 8."""
    angle, turn = (draw(st.floats(-math.pi, math.pi)) for _ in range(2))
    scales = [2.0 ** draw(st.floats(-3, 3)) for _ in range(2)]
    flip = draw(st.sampled_from([1.0, -1.0]))
    shift = [draw(st.floats(-60, 60)) for _ in range(2)]

    def rotation(a: float) -> np.ndarray:
        return np.array([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]])

    linear = rotation(angle) @ np.diag([scales[0] * flip, scales[1]]) @ rotation(turn)
    return np.column_stack([linear, shift])


paddings = st.sampled_from(PADDINGS)
sizes = st.tuples(st.integers(1, 12), st.integers(1, 140))


@few
@given(images(), matrices(), sizes, st.sampled_from(["bilinear", "bicubic"]), paddings)
def test_values(image: Tensor, matrix: np.ndarray, size: Any, mode: str, padding_mode: str) -> None:
    sample = image[0].permute(1, 2, 0).numpy()
    options: dict[str, Any] = {"mode": mode, "padding_mode": padding_mode, "fill": 0.5}
    expected = warp(sample, matrix, size, **options)
    result = visops.warp_affine(sample, matrix, size, **options)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-9)
