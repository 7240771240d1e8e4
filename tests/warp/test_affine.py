"""Values of the affine warp against the reference, quarter turns, and bad input."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import visops
from references.affine import Size, padded_index, random_matrix, warp, warp_loops
from torch import Tensor

from warp.affine_cases import (
    COPIED,
    FLOATING,
    INTERPOLATED,
    MODES,
    PADDINGS,
    assert_matches,
    largest_value,
    modes_of,
    random_image,
    to_hwc,
)

ALL_CASES = [(d, m, p) for d in INTERPOLATED + COPIED for m in modes_of(d) for p in PADDINGS]

SCALES = (0.05, 0.3, 1.0, 4.0, 40.0)
# Exact in binary, or far from ties of integers.
SHIFTS = ((0.25, 0.0), (0.0, -0.5), (-7.25, 5.4142), (49.71, 0.2361), (-0.4142, -29.9))

# Repeated on every kind of kernel: each dtype, mode and padding, and each pair of the last two.
MATRIX_CASES = set(ALL_CASES[::4])


def case_name(value: Any) -> str:
    return str(value).removeprefix("torch.")


def check(image: Tensor, matrices: np.ndarray, size: Size, **options: Any) -> Tensor:
    """Warp [B, C, H, W] and compare every sample with the reference."""
    result = visops.warp_affine(image, torch.from_numpy(matrices), size, **options)
    assert result.dtype == image.dtype
    assert result.shape == (*image.shape[:2], *size)
    for sample, matrix, output in zip(image, matrices, result, strict=True):
        expected = warp(to_hwc(sample), matrix, size, **options)
        assert_matches(to_hwc(output), expected, image.dtype, options["mode"])
    return result


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padding_mode", PADDINGS)
def test_reference_is_its_own_definition(mode: str, padding_mode: str) -> None:
    rng = np.random.default_rng(0)
    image = rng.random((5, 6, 2))
    for convention in ("integer", "half_pixel"):
        for inverse_map in (False, True):
            matrix = random_matrix(rng, 5, 6, (7, 4))
            options: dict[str, Any] = {
                "mode": mode,
                "padding_mode": padding_mode,
                "fill": [0.25, 2.0],
                "inverse_map": inverse_map,
                "convention": convention,
            }
            loops = warp_loops(image, matrix, (7, 4), **options)
            np.testing.assert_allclose(
                warp(image, matrix, (7, 4), **options), loops, rtol=0, atol=1e-12
            )


def test_reference_pads_as_documented() -> None:
    reach = range(-4, 8)
    rows = {
        "constant": [None] * 4 + [0, 1, 2, 3] + [None] * 4,
        "replicate": [0, 0, 0, 0, 0, 1, 2, 3, 3, 3, 3, 3],
        "reflect": [2, 3, 2, 1, 0, 1, 2, 3, 2, 1, 0, 1],
        "symmetric": [3, 2, 1, 0, 0, 1, 2, 3, 3, 2, 1, 0],
        "circular": [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3],
    }
    for padding_mode, expected in rows.items():
        assert [padded_index(i, 4, padding_mode) for i in reach] == expected


@pytest.mark.parametrize(
    ("dtype", "mode", "padding_mode"),
    [
        pytest.param(*case, marks=[pytest.mark.matrix] if case in MATRIX_CASES else [])
        for case in ALL_CASES
    ],
    ids=case_name,
)
def test_values(dtype: torch.dtype, mode: str, padding_mode: str) -> None:
    rng = np.random.default_rng(1)
    image = random_image(rng, (2, 3, 40, 50), dtype)
    size = (45, 131)
    matrices = np.stack([random_matrix(rng, 40, 50, size) for _ in range(2)])
    top = largest_value(dtype) if dtype != torch.bool else 1.0
    fill = [0.0, 1.0, 1.0] if top == 1.0 else [0.0, 100.0, 3.0]
    check(image, matrices, size, mode=mode, padding_mode=padding_mode, fill=fill)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64], ids=case_name)
def test_conventions_scales_and_shifts(dtype: torch.dtype, mode: str) -> None:
    rng = np.random.default_rng(2)
    image, size = random_image(rng, (2, 3, 31, 43), dtype), (40, 70)
    options: dict[str, Any] = {"mode": mode, "padding_mode": "constant", "fill": 1.0}
    for scale in SCALES:
        turned = [random_matrix(rng, 31, 43, size, scale=(scale, scale)) for _ in range(2)]
        check(image, np.stack(turned), size, **options)
    for dx, dy in SHIFTS:
        check(image, np.array([[[1.0, 0.0, dx], [0.0, 1.0, dy]]] * 2), size, **options)
    matrices = np.stack([random_matrix(rng, 31, 43, size) for _ in range(2)])
    for convention, inverse_map in itertools.product(("integer", "half_pixel"), (False, True)):
        own = {"convention": convention, "inverse_map": inverse_map}
        check(image, matrices, size, **options, **own)


@pytest.mark.matrix
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("image_size", [(1, 1), (1, 7), (9, 1), (2, 2), (3, 4), (64, 65)], ids=str)
def test_sizes(image_size: Size, mode: str) -> None:
    rng = np.random.default_rng(3)
    sizes = ((1, 1), (1, 64), (5, 1), (3, 63), (2, 129), (17, 65))
    channel_counts = (1, 3, 4, 2, 5)
    for i, (size, channels) in enumerate(itertools.product(sizes, channel_counts)):
        image = random_image(rng, (1, channels, *image_size), (torch.uint8, torch.float32)[i % 2])
        matrix = random_matrix(rng, *image_size, size, scale=(0.3, 3.0))
        padding_mode = PADDINGS[(i + i // 5) % 5]  # in turn for every number of channels
        check(image, matrix[None], size, mode=mode, padding_mode=padding_mode)


def test_arrays_with_channels_first_are_refused() -> None:
    photo, eye = np.zeros((3, 40, 60), np.uint8), np.eye(3)
    maps = np.zeros((2, 5, 6), np.float32)
    for call in (
        lambda: visops.warp_affine(photo, eye[:2]),
        lambda: visops.warp_perspective(photo, eye),
        lambda: visops.remap(photo, *maps),
    ):
        with pytest.raises(ValueError, match=r"shape \[3, 40, 60\], and arrays are \[height, "):
            call()
    assert visops.warp_affine(photo[..., :8], eye[:2]).shape == (3, 40, 8)  # eight bands


def test_wide_images_keep_precise_coordinates() -> None:
    # Naive float32 coordinates would be off by 1e-3 at column 10,000, and values here with them.
    rng = np.random.default_rng(6)
    image = random_image(rng, (1, 1, 4, 20000), torch.float32)
    matrix = np.array([[[0.97, 0.001, 3.3], [0.0001, 1.01, 0.2]]])
    check(image, matrix, (4, 19000), mode="bilinear", padding_mode="reflect")


@pytest.mark.matrix
@pytest.mark.parametrize("padding_mode", PADDINGS)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64], ids=case_name)
def test_far_outside(dtype: torch.dtype, padding_mode: Any) -> None:
    image = random_image(np.random.default_rng(7), (1, 2, 12, 13), dtype)
    for offset in (1e3, -1e5, 1e9, -1e12, 1e15, 1e300):
        for mode in MODES:
            matrix = torch.tensor([[0.9, 0.1, offset], [0.2, 1.1, -offset]], dtype=torch.float64)
            result = visops.warp_affine(
                image, matrix, (9, 70), mode=mode, padding_mode=padding_mode, fill=1
            )
            if padding_mode == "constant":
                assert torch.equal(result, torch.ones_like(result))
            elif mode == "nearest":
                assert torch.isin(result, image).all()
            elif mode == "bilinear":
                assert result.min() >= image.min() - 1e-6
                assert result.max() <= image.max() + 1e-6


@pytest.mark.parametrize("dtype", FLOATING, ids=case_name)
def test_matrix_dtypes(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(8)
    image = random_image(rng, (2, 3, 20, 30), torch.float32)
    exact = [random_matrix(rng, 20, 30, (25, 66)) for _ in range(2)]
    matrices = torch.from_numpy(np.stack(exact)).to(dtype)
    result = visops.warp_affine(image, matrices, (25, 66))
    assert torch.equal(result, visops.warp_affine(image, matrices.double(), (25, 66)))
    transposed = matrices.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    assert torch.equal(result, visops.warp_affine(image, transposed, (25, 66)))


def test_matrix_kinds() -> None:
    rng = np.random.default_rng(9)
    image = random_image(rng, (2, 3, 20, 30), torch.float32)
    array = random_matrix(rng, 20, 30, (20, 30))
    expected = visops.warp_affine(image, torch.from_numpy(array))
    assert torch.equal(visops.warp_affine(image, array), expected)
    assert torch.equal(visops.warp_affine(image, array.tolist()), expected)
    assert torch.equal(visops.warp_affine(image, torch.from_numpy(array).expand(2, 2, 3)), expected)
    assert torch.equal(visops.warp_affine(image, array[None]), expected)  # one for the batch
    one = visops.warp_affine(image[0], array)
    assert torch.equal(one, expected[0])
    assert torch.equal(visops.warp_affine(image[0], array[None]), expected[0])
    hwc = image[0].permute(1, 2, 0).contiguous().numpy()
    for matrix in (array, array.tolist(), torch.from_numpy(array), np.asfortranarray(array)):
        np.testing.assert_array_equal(visops.warp_affine(hwc, matrix), to_hwc(expected[0]))


def test_default_size_is_the_images() -> None:
    image = torch.rand(2, 3, 5, 9)
    assert visops.warp_affine(image, [[1, 0, 0.5], [0, 1, 0]]).shape == (2, 3, 5, 9)
    assert visops.warp_affine(image[0, 0].numpy(), [[1, 0, 0.5], [0, 1, 0]]).shape == (5, 9)


@pytest.mark.parametrize("fill", [0.5, 1, np.float32(0.5), torch.tensor(0.5), (0.25,)])
def test_kinds_of_fill(fill: Any) -> None:
    image = torch.zeros(1, 2, 3, 3)
    number = float(fill[0]) if isinstance(fill, tuple) else float(fill)
    result = visops.warp_affine(image, [[1, 0, 100.5], [0, 1, 0]], fill=fill)
    assert torch.equal(result, torch.full_like(result, number))
    hwc = np.zeros((3, 3, 2), np.float32)
    array = visops.warp_affine(hwc, [[1, 0, 100.5], [0, 1, 0]], fill=fill)
    assert np.array_equal(array, np.full_like(hwc, number))


@pytest.mark.parametrize("channels", [1, 3, 63, 64, 65, 130])
def test_fill_per_channel(channels: int) -> None:
    rng = np.random.default_rng(10)
    image = random_image(rng, (2, channels, 6, 7), torch.float32)
    fill = rng.random(channels).tolist()
    matrices = np.stack([random_matrix(rng, 6, 7, (8, 9)) for _ in range(2)])
    options: dict[str, Any] = {"mode": "bilinear", "padding_mode": "constant", "fill": fill}
    check(image, matrices, (8, 9), **options)
    per_channel = [
        visops.warp_affine(image[:, c : c + 1], torch.from_numpy(matrices), (8, 9), fill=fill[c])
        for c in range(channels)
    ]
    result = visops.warp_affine(image, torch.from_numpy(matrices), (8, 9), fill=fill)
    assert torch.equal(result, torch.cat(per_channel, dim=1))


def test_saturation_and_rounding() -> None:
    # Bicubic overshoots at an edge; halves round to even.
    edge = np.repeat([[0, 255]], 8, axis=1).astype(np.uint8).repeat(4, axis=0)
    shifted = visops.warp_affine(edge, [[1, 0, 0.4], [0, 1, 0]], mode="bicubic")
    assert {0, 255} <= set(shifted.ravel().tolist())
    ramp = np.arange(0, 40, dtype=np.uint8)[None]
    halves = visops.warp_affine(ramp, [[1, 0, -0.5], [0, 1, 0]], padding_mode="replicate")
    assert halves[0, :-1].tolist() == np.rint(np.arange(39) + 0.5).astype(int).tolist()


SHAPES = [(1, 1), (7, 90), (32, 64), (101, 75), (130, 33)]
TURNS = list(itertools.product((1.0, -1.0), (1.0, -1.0)))


def picture(shape: tuple[int, ...], dtype: str = "uint8") -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    return rng.integers(0, 120, shape).astype(dtype)


def warped(image: np.ndarray, m: np.ndarray, size: tuple[int, int], fill: float) -> np.ndarray:
    """Pixel by pixel at the nearest integers; `m` maps the output to the image."""
    y, x = np.mgrid[: size[0], : size[1]]
    column = np.floor(m[0, 0] * x + (m[0, 1] * y + m[0, 2]) + 0.5).astype(int)
    row = np.floor(m[1, 0] * x + (m[1, 1] * y + m[1, 2]) + 0.5).astype(int)
    height, width = image.shape[:2]
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    out = np.full((*size, *image.shape[2:]), fill, image.dtype)
    out[inside] = image[row[inside], column[inside]]
    return out


def turn(across: float, down: float, shape: tuple[int, ...], shift: tuple[int, int]) -> np.ndarray:
    """Maps that fill the output, if not shifted."""
    x = 0.0 if across > 0 else shape[1] - 1.0
    y = 0.0 if down > 0 else shape[0] - 1.0
    return np.array([[0.0, across, x + shift[0]], [down, 0.0, y + shift[1]]])


@pytest.mark.matrix
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("channels", [None, 1, 2, 3, 4, 5, 8])
def test_arrays(shape: tuple[int, int], channels: int | None) -> None:
    full = shape if channels is None else (*shape, channels)
    for dtype in ("uint8", "int16", "float32"):
        image = picture(full, dtype)
        strided = picture((*shape, 2 * (channels or 1)), dtype)[..., ::2].reshape(full)
        for (across, down), shift in itertools.product(TURNS, ((0, 0), (3, -40), (-9, 2))):
            m = turn(across, down, shape, shift)
            for size in (shape[::-1], (shape[1] + 5, shape[0] + 41)):
                options: dict[str, Any] = {"mode": "nearest", "inverse_map": True, "fill": 7}
                expected = warped(image, m, size, 7)
                assert np.array_equal(visops.warp_affine(image, m, size, **options), expected)
                whole = np.zeros((size[0], size[1] + 3, *full[2:]), dtype)
                out = whole[:, 1:-2]  # rows that don't touch
                visops.warp_affine(image[::-1], m, size, out=out, **options)
                assert np.array_equal(out, warped(image[::-1], m, size, 7))
                found = visops.warp_affine(strided, m, size, **options)
                assert np.array_equal(found, warped(strided, m, size, 7))


@pytest.mark.matrix
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_layouts_of_batches(channels: int) -> None:
    formats = (torch.contiguous_format, torch.channels_last)
    image = picture((2, 70, 99, channels))
    pixels = torch.from_numpy(image).permute(0, 3, 1, 2)
    window = torch.tensor([[9.0, 3.0, 80.0, 66.0], [0.0, 0.0, 99.0, 70.0]])
    erase = torch.tensor([[[5, 9, 40, 33]], [[0, 0, 70, 1]]])
    for (across, down), source, target in itertools.product(TURNS, formats, formats):
        m = turn(across, down, (70, 99), (2, -5))
        moved = visops.augment(
            pixels.contiguous(memory_format=source),
            torch.from_numpy(m),
            (103, 71),
            mode="nearest",
            inverse_map=True,
            fill=9.0,
            window=window,
            erase=erase,
            erase_value=3.0,
            out_dtype=torch.uint8,
            memory_format=target,
        )
        assert moved.is_contiguous(memory_format=target)
        for i in range(2):
            x1, y1, x2, y2 = map(int, window[i].tolist())
            clipped = m - [[0, 0, x1], [0, 0, y1]]
            expected = warped(image[i, y1:y2, x1:x2], clipped, (103, 71), 9)
            x1, y1, x2, y2 = erase[i, 0].tolist()
            expected[y1:y2, x1:x2] = 3
            assert np.array_equal(moved[i].permute(1, 2, 0).numpy(), expected)


@pytest.mark.parametrize("error", [0.0, 6e-17, 1e-7, 1e-3, 2e-3, 4e-3, -4e-3, 0.02])
def test_turns_that_are_not_exact(error: float) -> None:
    """Where an error adds up to half a pixel, the nearest pixel is another one. No ties."""
    image = picture((97, 120))
    for across, down in TURNS:
        for shift in (0.0, 0.2, 0.26, -0.4):
            m = turn(across, down, (97, 120), (0, 0))
            m += [[error, 2 * error, shift + 0.0013], [error, -error, 0.0013 - shift]]
            found = visops.warp_affine(image, m, (120, 97), mode="nearest", inverse_map=True)
            assert np.array_equal(found, warped(image, m, (120, 97), 0))


def test_sines_of_an_angle_are_a_turn() -> None:
    image = picture((200, 200, 3))
    angle = np.deg2rad(90.0)
    m = np.array([[np.cos(angle), -np.sin(angle), 199.0], [np.sin(angle), np.cos(angle), 0.0]])
    found = visops.warp_affine(image, m, (200, 200), mode="nearest")
    assert np.array_equal(found, np.rot90(image, -1))


@pytest.mark.parametrize("shift", [3e9, -1e19, 1e300])
def test_far_beyond_the_image(shift: float) -> None:
    image = picture((40, 50))
    for across, down in TURNS:
        for m in (
            [[0.0, across, shift], [down, 0.0, 3.0]],
            [[0.0, across, 3.0], [down, 0.0, shift]],
        ):
            found = visops.warp_affine(
                image, np.array(m), (50, 40), mode="nearest", inverse_map=True, fill=9
            )
            assert np.array_equal(found, np.full((50, 40), 9, np.uint8))


IDENTITY = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
SINGULAR = [[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]]
NAN, INF = float("nan"), float("inf")


def tensor(*, dtype: torch.dtype = torch.float32, shape: Any = (2, 3, 4, 5)) -> Tensor:
    return torch.zeros(shape, dtype=dtype)


def array(dtype: Any = np.uint8, shape: Any = (4, 5, 3)) -> np.ndarray:
    return np.zeros(shape, dtype)


def test_in_place() -> None:
    message = "out shares memory with image; a warp can't be done in place"
    image = torch.zeros(1, 1, 8, 8)
    for out in (image, image[:, :, 1:, 1:], image.transpose(2, 3)):
        with pytest.raises(RuntimeError, match=f"^visops.warp_affine: {message}"):
            visops.warp_affine(image, IDENTITY, out=out)
    pixels = np.zeros((8, 8))
    for view in (pixels, pixels[1:], pixels[::-1]):
        with pytest.raises(ValueError, match=f"^visops.warp_affine: {message}"):
            visops.warp_affine(pixels, IDENTITY, out=view)


@pytest.mark.parametrize("matrix", [SINGULAR, [[NAN, 0.0, 0.0], [0.0, 1.0, 0.0]]], ids=str)
def test_shared_matrices_are_not_numbered(matrix: Any) -> None:
    rows: list[tuple[Any, type[Exception]]] = [(tensor(), RuntimeError), (array(), ValueError)]
    for image, error in rows:
        with pytest.raises(error, match=r"^visops\.warp_affine: matrix is (singular|not finite)"):
            visops.warp_affine(image, matrix)


@pytest.mark.parametrize(
    "matrix", [torch.tensor(IDENTITY), IDENTITY, torch.zeros(2, 3)], ids=["tensor", "list", "zeros"]
)
def test_singular_matrices_are_fine_as_they_are(matrix: Any) -> None:
    """Destination to source: every output pixel may well come from one place."""
    result = visops.warp_affine(torch.rand(1, 1, 4, 5), matrix, inverse_map=True)
    assert torch.isfinite(result).all()
