"""Bad input of the affine warp: each row is an input and the message that it must give."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from torch import Tensor

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
