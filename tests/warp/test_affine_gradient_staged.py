"""CUDA's gradients of warps' images have the CPU's bits, staged or not."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from kernels import SLOTS, use_schedule, use_slot
from torch import Tensor

from warp.affine_cases import LAYOUTS
from warp.test_affine_staged import turned

pytestmark = pytest.mark.skipif(
    "cuda_emulated" not in SLOTS, reason="a build without the emulation"
)

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

# The image's size, the output's size, the angle, the scale, and where the output's middle lies.
Border = tuple[tuple[int, int], tuple[int, int], float, float, tuple[float, float]]
BORDERS: dict[str, Border] = {
    "inside": ((40, 50), (100, 120), 0.5, 1.0, (25, 20)),
    "upright": ((40, 50), (40, 50), 0.0, 0.97, (25, 20)),
    "turned by a quarter": ((40, 50), (50, 40), math.pi / 2, 1.02, (25, 20)),
    "nearly upright": ((40, 50), (40, 50), 0.004, 1.0, (25.3, 20.1)),
    "turned by three eighths": ((40, 50), (60, 70), 3 * math.pi / 4, 1.0, (25, 20)),
    "the largest output that is staged": ((32, 32), (90, 90), math.pi / 4, 0.955, (16, 16)),
    "the smallest that is not": ((32, 32), (90, 90), math.pi / 4, 0.95, (16, 16)),
    "two rows of candidates": ((70, 80), (50, 40), 0.7, 2.0, (40, 35)),
    "enlarged": ((9, 40), (90, 300), 2.0, 0.13, (20, 4)),
    "reduced": ((90, 80), (20, 30), 0.7, 3.5, (40, 45)),
    "output inside the image": ((70, 60), (20, 20), 0.3, 1.0, (30, 40)),
    "no output on the tile": ((20, 70), (10, 10), 0.3, 1.0, (60, 10)),
    "beyond the image": ((20, 20), (40, 140), 0.3, 1.0, (-20, -80)),
    "several segments": ((20, 300), (24, 310), 0.01, 0.98, (150, 10)),
    "less than a part": ((5, 3), (30, 30), 1.0, 1.0, (1, 2)),
    "one pixel": ((1, 1), (40, 5), 0.2, 1.0, (0, 0)),
    "one output pixel": ((30, 30), (1, 1), 0.2, 1.0, (11.3, 12.2)),
}


def assert_cuda_gradient(grad: Tensor, matrix: Any, size: tuple[int, int], padding: str) -> None:
    """The CPU's bits; of a NaN, that it is one."""
    fixed = torch.tensor([matrix], dtype=torch.float64)
    found = []
    for slot in ("default", "cuda_emulated"):
        with use_slot(slot), use_schedule(3):
            found.append(
                torch.ops.visops.affine_backward_image(
                    grad, fixed, [*size], "bilinear", padding, True, False
                )
            )
    expected, got = found
    assert (got.dtype, got.stride()) == (expected.dtype, expected.stride())
    torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)
    known = ~expected.isnan()
    assert torch.equal(torch.signbit(got[known]), torch.signbit(expected[known]))


def gradients(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.from_numpy(np.random.default_rng(4).standard_normal(shape)).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("border", BORDERS)
def test_borders(border: str, dtype: torch.dtype) -> None:
    size, output, angle, scale, centre = BORDERS[border]
    grad = gradients(1, 3, *output, dtype=dtype)
    matrix = turned(angle, scale, centre, output)
    for padding in ("constant", "replicate"):
        assert_cuda_gradient(grad, matrix, size, padding)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_channels_and_layouts(layout: str, channels: int) -> None:
    """Three at a time, then one by one; gradients of any strides."""
    size, output, angle, scale, centre = BORDERS["inside"]
    grad = LAYOUTS[layout](gradients(1, channels, *output))
    assert_cuda_gradient(grad, turned(angle, scale, centre, output), size, "constant")


@pytest.mark.parametrize("special", [math.inf, -math.inf, math.nan, -0.0])
def test_special_gradients(special: float) -> None:
    """They reach the pixels of their taps and no others."""
    size, output, angle, scale, centre = BORDERS["inside"]
    grad = gradients(1, 3, *output)
    grad[0, :, ::7, ::5] = special
    assert_cuda_gradient(grad, turned(angle, scale, centre, output), size, "constant")
    grad[:] = special
    assert_cuda_gradient(grad, turned(angle, scale, centre, output), size, "replicate")


def test_maps_of_other_shapes() -> None:
    """Sheared, flipped, and steep along one axis: candidates as bounds of either axis have them."""
    rng = np.random.default_rng(9)
    for _ in range(60):
        matrix = rng.normal(size=(2, 2)) * rng.choice([0.5, 1.0, 2.0], (2, 1))
        shift = np.array([20, 15]) - matrix @ [20, 15] + rng.normal(size=2)
        given = np.concatenate([matrix, shift[:, None]], 1).tolist()
        assert_cuda_gradient(gradients(1, 1, 30, 40), given, (30, 40), "constant")
