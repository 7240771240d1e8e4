"""The CUDA kernels of image gradients test few candidates, whatever the map; bits are the CPU's.

NOTE [ Image gradient by tiles ] in csrc/cuda/warp/gather.h has the search, and NOTE [ Image
gradient by the inverse map ] in inverse_gather.h that of most samples.
"""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from kernels import SLOTS, take_tally, use_slot
from torch import Tensor

pytestmark = pytest.mark.skipif(
    "cuda_emulated" not in SLOTS, reason="only test builds (VISOPS_EMULATION=1) count candidates"
)

SIZE = (128, 160)
Matrix = list[list[float]]


def horizon(across: float, down: float, position: float) -> Matrix:
    """A map whose w is 0 on a line through the output, which goes down or across it."""
    a, b = 3 * across / SIZE[1], 3 * down / SIZE[0]
    return [[0.6, 0, 0], [0, 0.6, 0], [a, b, -3 * position * (across + down)]]


# Destination to source.
MAPS: dict[str, Matrix] = {
    "rotation": [[0.8, 0.6, 0.3], [-0.6, 0.8, 60], [0, 0, 1]],
    "reduction": [[2, 0, -80], [0, 2, -64], [0, 0, 1]],
    "enlargement": [[0.02, 0.01, 20], [0.003, 0.02, 20], [0, 0, 1]],
    "shear": [[30, 28, -3000], [0.1, 1, 0], [0, 0, 1]],
    "far": [[1, 0, 1e6], [0, 1, 1e6], [0, 0, 1]],
    "saturated": [[3e8, 1e8, -2e10], [1e7, 4e8, -3e10], [0, 0, 1]],
    "horizon": horizon(0.8, 0.6, 0.5),
    "upright horizon": horizon(1, 0, 0.5),
    "level horizon": horizon(0, 1, 0.4),
}


def image_gradient(matrix: Matrix, size: Any, channels: int, options: dict[str, Any]) -> Tensor:
    """By augment where the map is perspective or antialiased, else by warp_affine."""
    rng = np.random.default_rng(0)
    shape = (1, channels, *SIZE)
    image = torch.from_numpy(rng.standard_normal(shape).astype(np.float32)).requires_grad_()
    if matrix[2] == [0, 0, 1] and not options.get("antialias"):
        result = visops.warp_affine(image, matrix[:2], size, inverse_map=True, **options)
    else:
        result = visops.augment(image, matrix, size, inverse_map=True, layout="CHW", **options)
    incoming = torch.from_numpy(rng.standard_normal(tuple(result.shape)).astype(np.float32))
    return torch.autograd.grad(result, image, incoming)[0]


def candidates(
    matrix: Matrix, size: Any = SIZE, channels: int = 1, **options: Any
) -> tuple[int, Tensor]:
    """How many candidates the emulated kernel tests, once its bits are compared; the gradient."""
    with use_slot("default"):
        expected = image_gradient(matrix, size, channels, options)
    with use_slot("cuda_emulated"):
        take_tally()
        actual = image_gradient(matrix, size, channels, options)
        count = take_tally()
    assert torch.equal(actual.view(torch.int32), expected.view(torch.int32))
    return count, actual


@pytest.mark.parametrize("padding_mode", ["constant", "replicate"])
@pytest.mark.parametrize("name", MAPS)
def test_few_candidates(name: str, padding_mode: str) -> None:
    """Testing every output pixel in every tile would take 20 a pixel; in every pixel, 10,000."""
    count, gradient = candidates(MAPS[name], padding_mode=padding_mode)
    pixels = 2 * SIZE[0] * SIZE[1]
    assert count <= 7 * pixels
    # The two weights of a saturated coordinate cancel where both are of the border.
    none = name == "saturated" or (name == "far" and padding_mode == "constant")
    assert bool(gradient.any()) != none


@pytest.mark.parametrize("name", ["reduction", "horizon"])
def test_few_candidates_of_filters(name: str) -> None:
    count, gradient = candidates(MAPS[name], antialias=True)
    assert count <= 7 * 2 * SIZE[0] * SIZE[1]
    assert gradient.any()


@pytest.mark.parametrize("padding_mode", ["reflect", "circular"])
@pytest.mark.parametrize("name", ["rotation", "far", "level horizon"])
def test_few_candidates_where_padding_folds(name: str, padding_mode: str) -> None:
    """A group of output pixels across a seam meets tiles on both sides, and all between."""
    count, gradient = candidates(MAPS[name], padding_mode=padding_mode)
    assert count <= 9 * 2 * SIZE[0] * SIZE[1]
    assert gradient.any()


@pytest.mark.parametrize(("size", "channels"), [((3, 8300), 1), ((1100, 5), 2), (SIZE, 6)], ids=str)
def test_sizes_that_loop(size: tuple[int, int], channels: int) -> None:
    """More runs than a list of groups holds, more bands and channels than are done at once."""
    scale_x, scale_y = SIZE[1] / size[1], SIZE[0] / size[0]
    matrix: Matrix = [[scale_x, 0, 0.4], [0, scale_y, 0.2], [0, 0, 1]]
    for mode in ("bilinear", "bicubic"):
        _, gradient = candidates(matrix, size, channels, mode=mode, padding_mode="replicate")
        assert gradient.any()
        _, gradient = candidates(matrix, size, channels, mode=mode, antialias=True)
        assert gradient.any()


@pytest.mark.parametrize(
    ("name", "mode", "most"),
    [
        ("rotation", "nearest", 0.5),
        ("rotation", "bilinear", 1.8),
        ("rotation", "bicubic", 6.6),
        ("shift", "bilinear", 2.0),
        ("doubled", "bilinear", 2.1),
        ("reduced", "bicubic", 2.1),
    ],
)
def test_candidates_by_the_inverse_map(name: str, mode: str, most: float) -> None:
    """Hardly more than the taps, of which bilinear has 4 a pixel and bicubic 16; fewer by tiles."""
    maps: dict[str, Matrix] = {
        "rotation": MAPS["rotation"],
        "shift": [[1, 0, 0.3], [0, 1, 0.2], [0, 0, 1]],
        "doubled": [[0.5, 0, 0.3], [0, 0.5, 0.2], [0, 0, 1]],
        "reduced": [[2, 0, 0.3], [0, 2, 0.2], [0, 0, 1]],
    }
    count, gradient = candidates(maps[name], mode=mode)
    assert 0.9 * most <= count / (2 * SIZE[0] * SIZE[1]) <= most
    assert gradient.any()


def random_map(rng: np.random.Generator) -> Matrix:
    """Some that the inverse serves, some that it doesn't; axes almost upright, and exactly."""
    scale = np.exp(rng.uniform(-3.5, 4.5, 2))
    shear = rng.choice([0, 1e-9, 1e-3, 0.3, 1]) * rng.standard_normal((2, 2))
    turn = [np.eye(2), np.array([[0, -1], [1, 0]]), np.eye(2) * [1, -1]][rng.integers(3)]
    linear = scale[:, None] * (turn + shear)
    middle = np.array([SIZE[1], SIZE[0]]) / 2
    offset = middle - linear @ middle + rng.uniform(-9, 9, 2) * rng.integers(0, 2)
    return [*np.c_[linear, offset].tolist(), [0, 0, 1]]


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_bits_of_many_maps(mode: str) -> None:
    rng = np.random.default_rng(5)
    some = 0
    for number in range(60):
        size = [(33, 47), (20, 300), (150, 7)][number % 3]
        padding = ("constant", "replicate")[number % 2]
        matrix, channels = random_map(rng), 1 + number % 5
        some += bool(candidates(matrix, size, channels, mode=mode, padding_mode=padding)[1].any())
    assert some > 40
