"""Properties that hold for every augmentation, on examples from hypothesis."""

import math
from typing import Any

import numpy as np
import pytest
import torch
import visops
from hypothesis import given, settings
from hypothesis import strategies as st
from references.augment import augment
from torch import Tensor

from warp.affine_cases import LAYOUTS, PADDINGS, random_image
from warp.augment_cases import DTYPES, SAMPLERS, random_color, random_erase, random_perspective

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
@given(
    images(None),
    samplers,
    st.sampled_from(["integer", "half_pixel"]),
    st.tuples(st.integers(-20, 20), st.integers(-20, 20)),
    st.tuples(st.booleans(), st.booleans()),
    st.booleans(),
)
def test_shifts_and_flips_are_exact(
    image: Tensor, sampler: Any, convention: str, shift: Any, flip: Any, listed: bool
) -> None:
    mode, antialias = sampler
    height, width = image.shape[2:]
    extra = 0 if convention == "half_pixel" else 1
    matrix = np.eye(3)
    for axis, n in ((0, width), (1, height)):
        if flip[axis]:
            matrix[axis, axis], matrix[axis, 2] = -1, n - extra
        matrix[axis, 2] += shift[axis]
    fill = 0.25 if image.is_floating_point() else 9
    images: Any = list(image) if listed else image
    result = visops.augment(
        images,
        matrix,
        (height + 3, width + 2),
        fill=fill,
        mode=mode,
        antialias=antialias,
        convention=convention,
        out_dtype=image.dtype,
        layout="CHW",
    )
    flipped = image.flip([d for d, f in ((3, flip[0]), (2, flip[1])) if f])
    canvas = torch.full((*image.shape[:2], height + 83, width + 82), fill, dtype=image.dtype)
    x, y = 40 + shift[0], 40 + shift[1]
    canvas[:, :, y : y + height, x : x + width] = flipped
    assert torch.equal(result, canvas[:, :, 40 : 43 + height, 40 : 42 + width])


@few
@given(images(), homographies(), sizes, samplers, paddings)
def test_values(image: Tensor, matrix: Any, size: Any, sampler: Any, padding_mode: str) -> None:
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


@few
@given(images(), homographies(), sizes, samplers, paddings)
def test_linear_in_image_and_fill(
    image: Tensor, matrix: Any, size: Any, sampler: Any, padding_mode: str
) -> None:
    mode, antialias = sampler

    def augmented(image: Tensor, fill: float) -> Tensor:
        return visops.augment(
            image,
            matrix,
            size,
            fill=fill,
            mode=mode,
            antialias=antialias,
            padding_mode=padding_mode,
            out_dtype=torch.float64,
            layout="CHW",
        )

    other = image.flip(3)
    together = augmented(2 * image - 3 * other, 2 * 0.5 - 3 * 0.25)
    apart = 2 * augmented(image, 0.5) - 3 * augmented(other, 0.25)
    torch.testing.assert_close(together, apart, rtol=0, atol=1e-11)


@few
@given(images(), homographies(), sizes, samplers, seeds)
def test_colour_steps_are_one_product(
    image: Tensor, matrix: Any, size: Any, sampler: Any, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    channels = image.shape[1]
    color = random_color(rng, 3, channels)
    mean, std = rng.random(channels), 0.2 + rng.random(channels)
    options: dict[str, Any] = {"mode": sampler[0], "antialias": sampler[1], "fill": 0.5}
    options.update(out_dtype=torch.float64, layout="CHW")
    steps = visops.augment(image, matrix, size, color=color[None], mean=mean, std=std, **options)
    product = np.eye(channels + 1)
    normalise = np.column_stack([np.diag(1 / std), -mean / std])
    for step in (*color, normalise):
        product = np.vstack([step, np.eye(channels + 1)[-1]]) @ product
    once = visops.augment(image, matrix, size, color=product[:channels], **options)
    torch.testing.assert_close(steps, once, rtol=1e-10, atol=1e-10)


@few
@given(images(smallest=3), homographies(), sizes, samplers, paddings, st.data())
def test_a_window_is_a_crop(
    image: Tensor, matrix: Any, size: Any, sampler: Any, padding_mode: str, data: Any
) -> None:
    """What lies outside a window of whole pixels does not matter."""
    mode, antialias = sampler
    height, width = image.shape[2:]
    x1, y1 = (data.draw(st.integers(0, n - 1)) for n in (width, height))
    x2, y2 = (data.draw(st.integers(a + 1, n)) for a, n in ((x1, width), (y1, height)))
    options: dict[str, Any] = {"mode": mode, "antialias": antialias, "fill": 0.5, "layout": "CHW"}
    options.update(padding_mode=padding_mode, out_dtype=torch.float64)
    result = visops.augment(image, matrix, size, window=[x1, y1, x2, y2], **options)
    crop = image[:, :, y1:y2, x1:x2]
    back = np.array([[1.0, 0, x1], [0, 1, y1], [0, 0, 1]])
    expected = visops.augment(crop, matrix @ back, size, window=[0, 0, x2 - x1, y2 - y1], **options)
    if mode == "nearest":
        assert (result != expected).sum() <= max(3, 0.01 * result.numel())
    else:
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-8)


@few
@given(images(), homographies(), sizes, samplers, st.floats(-5, 5).filter(lambda s: abs(s) > 0.1))
def test_homographies_have_no_scale(
    image: Tensor, matrix: Any, size: Any, sampler: Any, scale: float
) -> None:
    options: dict[str, Any] = {"mode": sampler[0], "antialias": sampler[1], "layout": "CHW"}
    one = visops.augment(image, matrix, size, out_dtype=torch.float64, **options)
    other = visops.augment(image, matrix * scale, size, out_dtype=torch.float64, **options)
    if sampler[0] == "nearest":
        assert (one != other).sum() <= max(3, 0.01 * one.numel())
    else:
        torch.testing.assert_close(one, other, rtol=0, atol=1e-8)


@few
@given(st.data(), dtypes, dtypes, samplers, paddings, sizes, seeds)
def test_batches_and_lists_are_loops(
    data: Any, dtype: Any, out_dtype: Any, sampler: Any, padding_mode: str, size: Any, seed: int
) -> None:
    image = data.draw(images(dtype))
    rng = np.random.default_rng(seed)
    batch, channels, height, width = image.shape
    each = {
        "matrix": [
            random_perspective(rng, height, width, size, scale=(0.3, 3.0)) for _ in range(batch)
        ],
        "color": [random_color(rng, 2, channels) for _ in range(batch)],
        "erase": [random_erase(rng, 2, size) for _ in range(batch)],
    }
    options: dict[str, Any] = {
        "mode": sampler[0],
        "antialias": sampler[1],
        "padding_mode": padding_mode,
        "out_dtype": out_dtype,
        "clamp": data.draw(st.booleans()),
        "layout": "CHW",
    }
    stacked: dict[str, Any] = {name: np.stack(values) for name, values in each.items()}
    together = visops.augment(image, size=size, **stacked, **options)
    ragged = [i[:, : height - n % 2] if height > 1 else i for n, i in enumerate(image)]
    listed = visops.augment(ragged, size=size, **stacked, **options)
    for n in range(batch):
        own = {name: values[n][None] for name, values in stacked.items()}
        alone = visops.augment(image[n : n + 1], size=size, **own, **options)
        assert torch.equal(alone[0], together[n])
        alone = visops.augment(ragged[n][None], size=size, **own, **options)
        assert torch.equal(alone[0], listed[n])


# Numbers of every magnitude, and some where arithmetic tends to go wrong.
wild = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-100, 100),
    st.sampled_from([0.0, 1.0, -1.0, 1e-300, 1e300, 2.0**31, -(2.0**31), 2.0**40, 0.5]),
)


@many
@given(st.data(), dtypes, samplers, paddings)
def test_anything_goes(data: Any, dtype: Any, sampler: Any, padding_mode: str) -> None:
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
