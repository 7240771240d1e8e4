"""Emulated kernels with the constants of a GPU, where those take another way than small ones do.

`make test-gpu-constants` builds them and runs this (VISOPS_GPU_CONSTANTS=1). Elsewhere these sizes
would take small constants minutes.
"""

import os

import numpy as np
import pytest
import torch
import visops
from kernels import use_slot
from torch import Tensor

pytestmark = pytest.mark.skipif(
    os.environ.get("VISOPS_GPU_CONSTANTS", "0") in ("", "0"),
    reason="built with VISOPS_GPU_CONSTANTS=1",
)


def scattered(count: int, side: float, seed: int = 0) -> Tensor:
    """Boxes of about 20 x 20 in a square."""
    rng = np.random.default_rng(seed)
    corner, extent = rng.uniform(0, side, (count, 2)), rng.uniform(10, 20, (count, 2))
    return torch.from_numpy(np.concatenate([corner, corner + extent], 1)).float()


def test_nms_beyond_a_tile() -> None:
    """More than 1,024 candidates: tiles of 32 groups, and several rounds."""
    boxes, scores = scattered(3000, 400), torch.rand(3000)
    expected = visops.nms(boxes, scores, 0.4)
    with use_slot("cuda_emulated"):
        assert torch.equal(visops.nms(boxes, scores, 0.4), expected)
    assert 100 < len(expected) < 2900


def test_nms_beyond_the_scratch() -> None:
    """More than 2^20 candidates, of which a few overlap all others of their group."""
    count = 2**20 + 5000
    boxes = torch.tensor([[0.0, 0, 10, 10]]).repeat(count, 1)
    boxes[:, 2] += torch.arange(count) % 3
    scores, groups = torch.rand(count), torch.arange(count) // 300_000
    expected = visops.batched_nms(boxes, scores, groups, 0.5)
    with use_slot("cuda_emulated"):
        assert torch.equal(visops.batched_nms(boxes, scores, groups, 0.5), expected)
    assert len(expected) == 4


@pytest.mark.parametrize(("count", "most"), [(700, 60), (2100, None)])
def test_soft_nms_of_many_threads(count: int, most: int | None) -> None:
    """More boxes than a block of a GPU has threads, and more than its shared memory holds."""
    boxes, scores = scattered(count, 400), torch.rand(count)
    expected = visops.soft_nms(boxes, scores, max_output=most)
    with use_slot("cuda_emulated"):
        found = visops.soft_nms(boxes, scores, max_output=most)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("count", [33, 520])
def test_lists_of_many_images(count: int) -> None:
    """Descriptors of more images than the parameters of one launch hold."""
    rng = np.random.default_rng(0)
    images = [
        torch.from_numpy(rng.integers(0, 256, (3, 4 + i % 5, 6), np.uint8)) for i in range(count)
    ]
    matrix = torch.tensor([[[1.5, 0.2, 0.0], [0.0, 1.0, 0.5]]], dtype=torch.float64)
    expected = visops.augment(images, matrix.expand(count, 2, 3), (5, 7), layout="CHW")
    with use_slot("cuda_emulated"):
        found = visops.augment(images, matrix.expand(count, 2, 3), (5, 7), layout="CHW")
    assert torch.equal(found, expected)


def test_tall_tiles() -> None:
    """So many tiles that they have 32 rows."""
    image = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (1, 1, 60, 50), np.uint8))
    matrix = torch.tensor([[[10.0, 0.0, 0.0], [0.0, 16.0, 0.5]]], dtype=torch.float64)
    size = (1030, 2048)

    def both() -> tuple[Tensor, Tensor]:
        warped = visops.warp_affine(image, matrix[0], size)
        return warped, visops.augment(image, matrix, size, layout="CHW")

    expected = both()
    with use_slot("cuda_emulated"):
        found = both()
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
