"""Values of the augmentation against the reference, also at random; displacement by a field."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
import visops
from hypothesis import given, settings
from hypothesis import strategies as st
from references.affine import Size, random_matrix
from references.augment import augment
from references.remap import displaced_positions
from references.remap import remap as reference
from torch import Tensor

from warp.affine_cases import LAYOUTS, PADDINGS, random_image
from warp.augment_cases import (
    DTYPES,
    SAMPLERS,
    check,
    name_of,
    random_color,
    random_erase,
    random_perspective,
    random_window,
)

FORMATS = (torch.contiguous_format, torch.channels_last)
MEAN, STD = [0.48, 0.45, 0.4, 0.5], [0.23, 0.22, 0.25, 0.3]

ALL_SAMPLERS = [
    (mode, antialias, padding_mode) for mode, antialias in SAMPLERS for padding_mode in PADDINGS
]

ALL_CASES = [(dtype, *sampler) for dtype in DTYPES for sampler in ALL_SAMPLERS]
MATRIX_CASES = set(ALL_CASES[::4])  # repeated on every kind of kernel

# The other options rotate over the samplers; their counts share no divisors, so all pairs meet.
ELSE = list(
    itertools.product((0, 1, 2, 8), (False, True), (False, True), (0, 1, 3), LAYOUTS, FORMATS)
)


@pytest.mark.parametrize(
    ("dtype", "mode", "antialias", "padding_mode"),
    [
        pytest.param(*case, marks=[pytest.mark.matrix] if case in MATRIX_CASES else [])
        for case in ALL_CASES
    ],
    ids=name_of,
)
def test_values(dtype: torch.dtype, mode: str, antialias: bool, padding_mode: str) -> None:
    case = ALL_SAMPLERS.index((mode, antialias, padding_mode))
    number = ALL_CASES.index((dtype, mode, antialias, padding_mode))
    windowed = (case + DTYPES.index(dtype)) % 2 == 1
    rng = np.random.default_rng(number)
    steps, clamp, normalised, rectangles, layout, memory_format = ELSE[number * 7 % len(ELSE)]
    out_dtype = DTYPES[(case + case // 5) % 5]
    channels = (3, 1, 4, 2)[number % 4]
    height, width, size = 23, 31, (14, (130, 37)[case % 2])
    scale = (0.2, 1.5)
    image = random_image(rng, (2, channels, height, width), dtype)
    matrices = [
        random_perspective(rng, height, width, size, scale=scale)
        if case % 3 == 0
        else random_matrix(rng, height, width, size, scale=scale)
        for _ in range(2)
    ]
    colors = [random_color(rng, steps, channels) for _ in range(2)] if steps else None
    options: dict[str, Any] = {
        "mode": mode,
        "antialias": antialias,
        "padding_mode": padding_mode,
        "window": np.stack([random_window(rng, height, width) for _ in range(2)])
        if windowed
        else None,
        "color": np.stack(colors) if colors else None,
        "clamp": clamp,
        "mean": MEAN[:channels] if normalised else None,
        "std": STD[:channels] if normalised else None,
        "fill": [200.0, 30.0, 99.0, 10.0][:channels] if dtype == torch.uint8 else 0.7,
        "erase": np.stack([random_erase(rng, rectangles, size) for _ in range(2)])
        if rectangles
        else None,
        "erase_value": [7.0, 5.0, 3.0, 1.0][:channels],
        "convention": ("integer", "half_pixel")[number % 2],
    }
    gain = (5.0 if normalised else 1.0) * 1.6**steps
    check(
        LAYOUTS[layout](image),
        matrices if case % 3 == 0 else [m[:2] for m in matrices],
        size,
        out_dtype=out_dtype,
        memory_format=memory_format,
        gain=gain,
        **options,
    )


@pytest.mark.parametrize(("mode", "antialias"), SAMPLERS)
@pytest.mark.parametrize("image_size", [(1, 1), (1, 7), (9, 1), (2, 2), (64, 65)], ids=str)
def test_sizes(image_size: Size, mode: str, antialias: bool) -> None:
    rng = np.random.default_rng(1)
    sizes = ((1, 1), (1, 64), (5, 1), (3, 63), (2, 129), (17, 65))
    for i, (size, channels) in enumerate(itertools.product(sizes, (1, 3, 4, 2, 5))):
        image = random_image(rng, (1, channels, *image_size), (torch.uint8, torch.float32)[i % 2])
        matrix = random_matrix(rng, *image_size, size, scale=(0.3, 3.0))
        padding_mode = PADDINGS[i % 5]
        check(image, [matrix], size, mode=mode, antialias=antialias, padding_mode=padding_mode)


@pytest.mark.parametrize("scale", [0.02, 0.1, 0.5, 1.0, 8.0])
@pytest.mark.parametrize(("mode", "antialias"), SAMPLERS)
def test_scales(mode: str, antialias: bool, scale: float) -> None:
    """From an image smaller than an output pixel to one larger than the output."""
    rng = np.random.default_rng(2)
    for dtype, padding_mode in ((torch.uint8, "reflect"), (torch.float32, "constant")):
        image = random_image(rng, (2, 3, 18, 22), dtype)
        matrices = [random_matrix(rng, 18, 22, (9, 33), scale=(scale, 2 * scale)) for _ in "ab"]
        options: dict[str, Any] = {"mode": mode, "padding_mode": padding_mode, "fill": 0.3}
        gain = max(1.0, 0.5 / scale)  # steps of many pixels, times float32's precision
        check(image, matrices, (9, 33), antialias=antialias, gain=gain, **options)


@pytest.mark.parametrize(("mode", "antialias"), SAMPLERS)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float64], ids=name_of)
def test_lists(dtype: torch.dtype, mode: Any, antialias: bool) -> None:
    """Images of different sizes, with their own parameters."""
    rng = np.random.default_rng(3)
    sides = ((1, 1), (37, 20), (5, 64), (20, 21), (2, 1))
    size = (18, 131)
    images = [random_image(rng, (3, *side), dtype) for side in sides]
    images[1] = images[1].permute(2, 0, 1).contiguous().permute(1, 2, 0)
    images[3] = images[3].repeat_interleave(2, 2)[..., ::2]
    options: dict[str, Any] = {
        "window": np.stack([random_window(rng, *side) for side in sides]),
        "color": np.stack([random_color(rng, 2, 3) for _ in sides]),
        "erase": np.stack([random_erase(rng, 2, size) for _ in sides]),
        "fill": 0.5,
        "std": 0.5,
    }
    matrices = [random_perspective(rng, *side, size, scale=(0.3, 2.0)) for side in sides]
    result = check(images, matrices, size, mode=mode, antialias=antialias, gain=8.0, **options)
    # Bit for bit the result of a batch of one.
    for i, image in enumerate(images):
        own: dict[str, Any] = {
            k: v[i : i + 1] if isinstance(v, np.ndarray) else v for k, v in options.items()
        }
        one = visops.augment(
            image[None], matrices[i], size, mode=mode, antialias=antialias, layout="CHW", **own
        )
        assert torch.equal(one[0], result[i])


def test_per_sample_parameters_and_shared_ones() -> None:
    rng = np.random.default_rng(4)
    image = random_image(rng, (3, 3, 20, 30), torch.float32)
    matrix = random_matrix(rng, 20, 30, (25, 66))
    full = np.vstack([matrix, [0, 0, 1]])
    color, window = random_color(rng, 1, 3), random_window(rng, 20, 30)
    expected = check(
        image,
        [matrix] * 3,
        (25, 66),
        color=np.stack([color] * 3),
        window=np.stack([window] * 3),
        gain=2.0,
    )
    for mapping in (matrix, full, [full] * 3, matrix.tolist(), torch.from_numpy(full), 2 * full):
        for maps in (color[0], color, np.stack([color] * 3), color[0].tolist(), color[None]):
            for part in (window, [window] * 3, torch.from_numpy(window)):
                result = visops.augment(image, mapping, (25, 66), color=maps, window=part)
                assert torch.equal(result, expected)
    # Several steps per sample.
    steps = np.stack([random_color(rng, 2, 3)] * 3)
    check(image, [matrix] * 3, (25, 66), color=steps, gain=2.0)


@pytest.mark.parametrize("channels", [1, 3, 5, 64])
def test_values_per_channel(channels: int) -> None:
    rng = np.random.default_rng(6)
    image = random_image(rng, (2, channels, 6, 7), torch.float32)
    fill, mean, value = (rng.random(channels).tolist() for _ in range(3))
    std = (0.1 + rng.random(channels)).tolist()
    matrices = [random_matrix(rng, 6, 7, (8, 9)) for _ in range(2)]
    erase = [random_erase(rng, 1, (8, 9)) for _ in range(2)]
    each: dict[str, Any] = {"fill": fill, "mean": mean, "std": std, "erase_value": value}
    options: dict[str, Any] = {"erase": np.stack(erase)}
    result = check(image, matrices, (8, 9), gain=10.0, **each, **options)
    for c in range(channels):
        own: dict[str, Any] = {n: torch.tensor(v[c], dtype=torch.float64) for n, v in each.items()}
        alone = visops.augment(
            image[:, c : c + 1], np.stack(matrices), (8, 9), layout="CHW", **own, **options
        )
        assert torch.equal(alone[:, 0], result[:, c])


def test_images_without_channels_take_no_time() -> None:
    """However many pixels the result would have."""
    size = (8, 2**31 - 1)
    image, matrix = torch.zeros(1, 0, 4, 4), torch.eye(2, 3)
    assert visops.augment(image, matrix, size, layout="CHW").shape == (1, 0, *size)
    assert visops.warp_affine(image, matrix, size).shape == (1, 0, *size)


def test_wide_images_keep_precise_coordinates() -> None:
    rng = np.random.default_rng(8)
    # Naive float32 coordinates are off by 2e-4 at column 3,000.
    image = random_image(rng, (1, 1, 4, 3000), torch.float32)
    matrix = np.array([[0.97, 0.001, 3.3], [0.0001, 1.01, 0.2], [1e-6, 1e-5, 1]])
    check(image, [matrix], (1, 2900), padding_mode="reflect")
    check(image, [matrix[:2]], (1, 2900), padding_mode="constant", window=[[9.5, 0, 2990, 3]])


@pytest.mark.matrix
@pytest.mark.parametrize(("mode", "antialias"), SAMPLERS)
def test_horizon(mode: str, antialias: bool) -> None:
    """Where w passes through 0 within the output."""
    rng = np.random.default_rng(9)
    image = random_image(rng, (1, 3, 40, 50), torch.float32)
    tilted = [[1.0, 0, -30], [0, 1, -20], [0.02, 0, -1.0]]
    steep = [[1.0, 0, 30], [0, 1, 20], [0.9, 0.01, -60.0]]
    for matrix in (tilted, steep, np.array(tilted)[:, [1, 0, 2]]):
        options: dict[str, Any] = {"mode": mode, "antialias": antialias, "fill": 0.5}
        exact = visops.augment(image.double(), matrix, (60, 140), inverse_map=True, **options)
        result = check(image, [matrix], (60, 140), inverse_map=True, gain=10.0, **options)
        assert torch.isfinite(exact).all()
        if mode != "nearest":
            torch.testing.assert_close(result.double(), exact.double(), rtol=0, atol=2e-4)


def problem(batch: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Photos, displacements and matrices from source to destination."""
    generator = np.random.default_rng(0)
    photos = torch.from_numpy(generator.integers(0, 256, (batch, 3, 19, 23), np.uint8))
    shifts = torch.from_numpy(generator.normal(0, 1.5, (batch, 4, 5, 2)))
    matrix = torch.tensor([[1.2, 0.3, -2.0], [-0.2, 0.9, 1.5]]).double().repeat(batch, 1, 1)
    return photos, shifts, matrix


@pytest.mark.matrix
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
@pytest.mark.parametrize("half_pixel", [False, True])
@pytest.mark.parametrize("spline", [False, True])
def test_displaced_values(mode: str, half_pixel: bool, spline: bool) -> None:
    photos, shifts, matrix = problem()
    options: dict[str, Any] = {
        "mode": mode,
        "convention": "half_pixel" if half_pixel else "integer",
        "displacement_grid": "spline" if spline else "bilinear",
        "padding_mode": "reflect",
    }
    wide = photos.double() / 255
    found = visops.augment(
        wide, matrix, (14, 16), displacement=shifts, out_dtype=torch.float64, **options
    )
    half = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]]) if half_pixel else np.eye(3)
    for i in range(2):
        full = np.vstack((matrix[i].numpy(), (0, 0, 1)))
        back = np.linalg.inv(half) @ np.linalg.inv(full) @ half
        x, y = displaced_positions(shifts[i].numpy(), (14, 16), back, spline)
        wanted = reference(wide[i].numpy(), x, y, mode, "reflect", [0, 0, 0])
        np.testing.assert_allclose(found[i].numpy(), wanted, rtol=0, atol=1e-8)
    narrow = visops.augment(photos, matrix, (14, 16), displacement=shifts, **options)
    assert narrow.dtype == torch.float32
    assert (narrow.double() - found).abs().max() <= (1e-4 if mode != "nearest" else 1e-6)
    whole = visops.augment(
        photos, matrix, (14, 16), displacement=shifts, out_dtype=torch.uint8, **options
    )
    clipped = (found * 255).clamp(0, 255)
    assert (whole.double() - clipped).abs().max() <= 0.51


def test_nothing_displaced_is_the_pass_without() -> None:
    photos, shifts, matrix = problem()
    options: dict[str, Any] = {"mean": 0.4, "std": 0.3, "fill": 7.0}
    wanted = visops.augment(photos, matrix, (14, 16), **options)
    found = visops.augment(photos, matrix, (14, 16), displacement=shifts * 0, **options)
    torch.testing.assert_close(found, wanted, rtol=0, atol=2e-4)
    perspective = torch.cat(
        (matrix, torch.tensor([0.002, -0.001, 1.0]).double().expand(2, 1, 3)), 1
    )
    wanted = visops.augment(photos, perspective, (14, 16), padding_mode="replicate")
    found = visops.augment(
        photos, perspective, (14, 16), padding_mode="replicate", displacement=shifts * 0
    )
    torch.testing.assert_close(found, wanted, rtol=0, atol=2e-3)


def test_the_rest_of_the_pass_follows() -> None:
    """Colour, normalisation, erasing, dtype and layout are those of a pass over the bent photos."""
    photos, shifts, matrix = problem()
    color = torch.tensor([[0.5, 0.2, 0, 0.1], [0, 0.7, 0, 0], [0.1, 0, 0.8, 0]]).double()
    erase = torch.tensor([[[1, 2, 5, 6]], [[3, 3, 9, 9]]])
    rest: dict[str, Any] = {
        "color": color,
        "clamp": True,
        "mean": (0.4, 0.5, 0.6),
        "std": 0.2,
        "erase": erase,
        "erase_value": 3.0,
    }
    bent = visops.augment(photos, matrix, (14, 16), displacement=shifts, fill=9)
    still = torch.eye(2, 3)
    for dtype in (torch.float32, torch.float16, torch.uint8):
        for form in (torch.contiguous_format, torch.channels_last):
            own: dict[str, Any] = {**rest, "out_dtype": dtype, "memory_format": form}
            found = visops.augment(photos, matrix, (14, 16), displacement=shifts, fill=9, **own)
            wanted = visops.augment(bent, still, (14, 16), mode="nearest", **own)
            assert torch.equal(found, wanted)
            assert found.is_contiguous(memory_format=form)
    out = torch.empty(2, 3, 14, 16, dtype=torch.float16)
    assert visops.augment(photos, matrix, (14, 16), displacement=shifts, out=out) is out
    wanted = visops.augment(photos, matrix, (14, 16), displacement=shifts, out_dtype=torch.float16)
    assert torch.equal(out, wanted)


def test_forms_of_images_and_displacements() -> None:
    photos, shifts, matrix = problem()
    wanted = visops.augment(photos, matrix, (14, 16), displacement=shifts)
    listed = visops.augment(list(photos), matrix, (14, 16), displacement=shifts)
    assert torch.equal(listed, wanted)
    arrays = photos.permute(0, 2, 3, 1).contiguous().numpy()
    by_array = visops.augment(arrays, matrix.numpy(), (14, 16), displacement=shifts.numpy())
    assert torch.equal(by_array, wanted)
    ragged = visops.augment([photos[0], photos[1][:, :11]], matrix, (14, 16), displacement=shifts)
    assert torch.equal(ragged[0], wanted[0])
    one = visops.augment(photos, matrix[0], (14, 16), displacement=shifts[0])
    assert torch.equal(one[0], wanted[0])
    field = torch.stack(visops.displacement_field(shifts, (14, 16)), -1)
    dense = visops.augment(photos, matrix, (14, 16), displacement=field)
    torch.testing.assert_close(dense, wanted, rtol=0, atol=1e-4)


def test_lists_of_images_that_differ() -> None:
    photos, shifts, matrix = problem()
    for other, message in (
        (photos[1][:1], r"images\[1\] has shape \[1, 19, 23\], must be \[3, height, width\]"),
        (photos[1].float(), r"images\[1\] has dtype torch.float32, images\[0\] has torch.uint8"),
    ):
        with pytest.raises(RuntimeError, match=message):
            visops.augment([photos[0], other], matrix, (14, 16), displacement=shifts, layout="CHW")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"displacement": torch.zeros(3, 4)}, "displacement has shape [3, 4], must be [gh, gw, 2]"),
        ({"displacement": torch.zeros(3, 4, 4, 2)}, "must be [gh, gw, 2] or [2, gh, gw, 2]"),
        ({"displacement": torch.zeros(0, 4, 2)}, "displacement has shape [0, 4, 2]"),
        ({"displacement_grid": "cubic"}, "displacement_grid is 'cubic', must be 'bilinear' or"),
        ({"antialias": True}, "antialias can't be given together with displacement"),
        ({"window": [0, 0, 5, 5]}, "window can't be given together with displacement"),
        ({"matrix": torch.zeros(2, 3)}, "matrix is singular"),
        ({"mode": "lanczos"}, "lanczos"),
    ],
)
def test_bad_input(options: dict[str, Any], message: str) -> None:
    photos, shifts, matrix = problem()
    given: dict[str, Any] = {"matrix": matrix, "displacement": shifts, **options}
    with pytest.raises((RuntimeError, ValueError)) as error:
        visops.augment(photos, given.pop("matrix"), (14, 16), **given)
    assert "visops." in str(error.value)
    assert message in str(error.value)


few = settings(max_examples=25)
many = settings(max_examples=150)

samplers = st.sampled_from(SAMPLERS)
paddings = st.sampled_from(PADDINGS)
dtypes = st.sampled_from(DTYPES)
sizes = st.tuples(st.integers(1, 12), st.integers(1, 140))
seeds = st.integers(0, 2**32 - 1)


@st.composite
def images(draw: st.DrawFn, dtype: torch.dtype | None = torch.float64, smallest: int = 1) -> Tensor:
    shape = (draw(st.integers(1, 3)), draw(st.integers(1, 4)))
    sides = (draw(st.integers(smallest, n)) for n in (20, 70))
    rng = np.random.default_rng(draw(seeds))
    image = random_image(rng, (*shape, *sides), draw(dtypes) if dtype is None else dtype)
    return LAYOUTS[draw(st.sampled_from(list(LAYOUTS)))](image)


@st.composite
def homographies(draw: st.DrawFn) -> np.ndarray:
    """[3, 3] source to destination; mild perspective or none, scales between 1/8 and 8."""
    angle, turn = (draw(st.floats(-math.pi, math.pi)) for _ in range(2))
    scales = [2.0 ** draw(st.floats(-3, 3)) for _ in range(2)]
    shift = [draw(st.floats(-60, 60)) for _ in range(2)]
    tilt = [draw(st.sampled_from([0.0, 1e-3, -1e-3, 2e-3])) for _ in range(2)]

    def rotation(a: float) -> np.ndarray:
        return np.array([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]])

    affine = np.eye(3)
    affine[:2, :2] = rotation(angle) @ np.diag(scales) @ rotation(turn)
    affine[:2, 2] = shift
    bend = np.eye(3)
    bend[2, :2] = tilt
    return np.linalg.inv(np.linalg.inv(affine) @ bend)


@few
@given(images(), homographies(), sizes, samplers, paddings)
def test_values_of_any_kind(
    image: Tensor, matrix: Any, size: Any, sampler: Any, padding_mode: str
) -> None:
    mode, antialias = sampler
    options: dict[str, Any] = {"mode": mode, "antialias": antialias, "fill": 0.5}
    options["padding_mode"] = padding_mode
    result = visops.augment(image, matrix, size, out_dtype=torch.float64, layout="CHW", **options)
    expected = augment(image[0].permute(1, 2, 0).numpy(), matrix, size, **options)
    difference = np.abs(result[0].permute(1, 2, 0).numpy() - expected)
    # Ties may round either way.
    assert np.count_nonzero(~(difference <= 1e-8)) <= (
        max(3, 0.01 * difference.size) if mode == "nearest" else 0
    )


# Numbers of every magnitude, and some where arithmetic tends to go wrong.
wild = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-100, 100),
    st.sampled_from([0.0, 1.0, -1.0, 1e-300, 1e300, 2.0**31, -(2.0**31), 2.0**40, 0.5]),
)


@many
@given(st.data(), dtypes, samplers, paddings)
def test_anything_goes(data: Any, dtype: Any, sampler: Any, padding_mode: Any) -> None:
    """Any map, window and rectangle: a result within the bounds of image and fill, or an error."""
    mode, antialias = sampler
    sides = st.sampled_from([0, 1, 2, 3, 7, 20])
    counts = st.sampled_from([0, 1, 2])
    shape = (data.draw(counts), data.draw(st.sampled_from([0, 1, 3, 5])))
    image = random_image(
        np.random.default_rng(0), (*shape, data.draw(sides), data.draw(sides)), dtype
    )
    size = (data.draw(sides), data.draw(st.sampled_from([0, 1, 5, 130])))
    rows = data.draw(st.sampled_from([2, 3]))
    matrix = np.array([[data.draw(wild) for _ in range(3)] for _ in range(rows)])
    x1, y1, x2, y2 = (data.draw(wild) for _ in range(4))
    window = [min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)]
    whole = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-5, 150))
    erase = np.array([[[data.draw(whole) for _ in range(4)]]] * shape[0]).reshape(shape[0], 1, 4)
    fill = 0.25 if dtype.is_floating_point else 64
    try:
        result = visops.augment(
            image,
            matrix,
            size,
            mode=mode,
            antialias=antialias,
            padding_mode=padding_mode,
            window=window if data.draw(st.booleans()) else None,
            erase=erase,
            erase_value=fill,
            fill=fill,
            out_dtype=dtype,
            inverse_map=data.draw(st.booleans()),
            convention=data.draw(st.sampled_from(["integer", "half_pixel"])),
            layout="CHW",
        )
    except RuntimeError as error:
        if not any(word in str(error) for word in ("singular", "nothing to pad", "has no pixel")):
            raise
        return
    assert result.shape == (*shape, *size)
    if result.numel() == 0:
        return
    values = result.double()
    low = min(fill, float(image.min())) if image.numel() else fill
    high = max(fill, float(image.max())) if image.numel() else fill
    slack = 0.0 if mode == "nearest" else 2e-5 * high
    if mode in (
        "bicubic",
        "lanczos",
    ):  # overshoots by at most the sum of its negative weights along both axes
        slack = high
    assert torch.isfinite(values).all()
    assert low - slack <= values.min()
    assert values.max() <= high + slack


@few
@given(st.data(), st.sampled_from([float("nan"), float("inf"), -float("inf")]))
def test_what_is_not_finite_is_an_error(data: Any, value: float) -> None:
    matrix = np.eye(3)[: data.draw(st.sampled_from([2, 3]))]
    row, column = data.draw(st.integers(0, len(matrix) - 1)), data.draw(st.integers(0, 2))
    matrix[row, column] = value
    inverse_map = data.draw(st.booleans())
    with pytest.raises(RuntimeError, match=r"^visops\.augment: matrix is not finite"):
        visops.augment(torch.zeros(1, 1, 4, 4), matrix, (4, 4), inverse_map=inverse_map)
