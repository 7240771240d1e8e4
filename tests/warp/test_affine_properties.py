"""Properties that hold for every image and matrix, over what hypothesis comes up with."""

import math
from typing import Any

import numpy as np
import torch
import visops
from hypothesis import given, settings
from hypothesis import strategies as st
from references.affine import warp
from torch import Tensor

from warp.affine_cases import FLOATING, MODES, PADDINGS

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


modes = st.sampled_from(MODES)
paddings = st.sampled_from(PADDINGS)
sizes = st.tuples(st.integers(1, 12), st.integers(1, 140))


@few
@given(images(), matrices(), sizes, modes, paddings)
def test_linear_in_image_and_fill(
    image: Tensor, matrix: np.ndarray, size: Any, mode: str, padding_mode: str
) -> None:
    def warped(image: Tensor, fill: float) -> Tensor:
        return visops.warp_affine(
            image, matrix, size, mode=mode, padding_mode=padding_mode, fill=fill
        )

    other = image.flip(3)
    together = warped(2 * image - 3 * other, 2 * 0.5 - 3 * 0.25)
    apart = 2 * warped(image, 0.5) - 3 * warped(other, 0.25)
    torch.testing.assert_close(together, apart, rtol=0, atol=1e-12)


@few
@given(images(), matrices(), sizes, modes, st.tuples(st.integers(-40, 40), st.integers(-40, 40)))
def test_shifting_the_result_is_shifting_the_matrix(
    image: Tensor, matrix: np.ndarray, size: Any, mode: str, shift: tuple[int, int]
) -> None:
    height, width = size
    matrix = visops.invert_affine(matrix)
    whole = visops.warp_affine(
        image, matrix, (height + 80, width + 80), mode=mode, inverse_map=True
    )
    dx, dy = shift[0] + 40, shift[1] + 40
    moved = visops.compose_affine(np.array([[1.0, 0, dx], [0, 1, dy]]), matrix)
    part = visops.warp_affine(image, moved, size, mode=mode, inverse_map=True)
    window = whole[..., dy : dy + height, dx : dx + width]
    if mode == "nearest":  # a coordinate within its rounding error of a tie may fall either way
        assert (part != window).sum() <= max(1, 0.01 * part.numel())
    else:
        torch.testing.assert_close(part, window, rtol=0, atol=1e-10)


@few
@given(images(torch.float32), matrices(), sizes, st.sampled_from(["nearest", "bilinear"]), paddings)
def test_bounds(image: Tensor, matrix: np.ndarray, size: Any, mode: str, padding_mode: str) -> None:
    result = visops.warp_affine(image, matrix, size, mode=mode, padding_mode=padding_mode, fill=0.5)
    low, high = float(image.min()), float(image.max())
    if padding_mode == "constant":
        low, high = min(low, 0.5), max(high, 0.5)
    slack = 0.0 if mode == "nearest" else 1e-6
    assert low - slack <= result.min()
    assert result.max() <= high + slack


@few
@given(images(), modes, paddings, st.sampled_from(["integer", "half_pixel"]))
def test_identity(image: Tensor, mode: str, padding_mode: str, convention: str) -> None:
    result = visops.warp_affine(
        image, [[1, 0, 0], [0, 1, 0]], mode=mode, padding_mode=padding_mode, convention=convention
    )
    assert torch.equal(result, image)


@few
@given(images(), matrices(), sizes, modes, st.sampled_from(["integer", "half_pixel"]))
def test_inverse_map_is_the_inverse(
    image: Tensor, matrix: np.ndarray, size: Any, mode: str, convention: str
) -> None:
    there = visops.warp_affine(image, matrix, size, mode=mode, convention=convention)
    inverse = visops.invert_affine(matrix)
    back = visops.warp_affine(
        image, inverse, size, mode=mode, inverse_map=True, convention=convention
    )
    if mode == "nearest":
        assert (there != back).sum() <= max(1, 0.01 * there.numel())
    else:
        torch.testing.assert_close(there, back, rtol=0, atol=1e-10)


@few
@given(st.floats(-180, 180), st.floats(0.8, 1.25), st.integers(20, 60), st.integers(20, 60))
def test_there_and_back(angle: float, scale: float, height: int, width: int) -> None:
    """A smooth image comes back from a warp and its inverse, away from the border."""
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    image = (0.5 + 0.25 * torch.sin(x / 12.0) + 0.25 * torch.cos(y / 14.0))[None].double()
    center = ((width - 1) / 2, (height - 1) / 2)
    matrix = visops.get_affine_matrix(center, angle, scale=scale)
    # A canvas that all of the image fits in, with the image in its middle.
    side = 2 * (height + width)
    to_middle = torch.tensor([[1.0, 0, side / 2 - center[0]], [0, 1, side / 2 - center[1]]])
    there = visops.compose_affine(matrix, to_middle.double())
    warped = visops.warp_affine(image, there, (side, side), mode="bicubic")
    back = visops.warp_affine(warped, there, (height, width), mode="bicubic", inverse_map=True)
    inner = (slice(None), slice(4, -4), slice(4, -4))
    torch.testing.assert_close(back[inner], image[inner], rtol=0, atol=5e-3)


@few
@given(st.data(), st.sampled_from(FLOATING), modes, paddings)
def test_batch_is_a_loop(data: Any, dtype: torch.dtype, mode: str, padding_mode: str) -> None:
    image = data.draw(images(dtype))
    each = torch.from_numpy(np.stack([data.draw(matrices()) for _ in image]))
    size = data.draw(sizes)
    options: dict[str, Any] = {"mode": mode, "padding_mode": padding_mode, "fill": 0.5}
    together = visops.warp_affine(image, each, size, **options)
    for sample, matrix, result in zip(image, each, together, strict=True):
        assert torch.equal(visops.warp_affine(sample, matrix, size, **options), result)
        for channel, alone in zip(sample, result, strict=True):
            assert torch.equal(visops.warp_affine(channel[None], matrix, size, **options)[0], alone)


@few
@given(images(), matrices(), sizes, st.sampled_from(["bilinear", "bicubic"]), paddings)
def test_values(image: Tensor, matrix: np.ndarray, size: Any, mode: str, padding_mode: str) -> None:
    sample = image[0].permute(1, 2, 0).numpy()
    options: dict[str, Any] = {"mode": mode, "padding_mode": padding_mode, "fill": 0.5}
    expected = warp(sample, matrix, size, **options)
    result = visops.warp_affine(sample, matrix, size, **options)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-9)
