"""Boxes, images and tolerances that the tests of crops and pasting share."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from warp.affine_cases import assert_matches, random_image

BLENDS = ("replace", "feather", "alpha")
SHAPE = (2, 3, 23, 31)

# For an image of SHAPE: inside, whole, across each side, beyond, flat, tiny.
BOXES = (
    (3.25, 4.5, 17.75, 15.125),
    (0.0, 0.0, 31.0, 23.0),
    (-4.5, 2.25, 9.0, 14.0),
    (20.5, -6.75, 33.25, 8.0),
    (12.0, 16.5, 40.0, 30.25),
    (-20.0, -30.0, -9.5, -8.0),
    (50.0, 3.0, 61.0, 9.0),
    (7.3, 5.0, 7.3, 15.0),
    (10.2, 11.1, 10.6, 11.3),
    (5.0, 6.0, 13.0, 17.0),
    (-60.5, -41.0, 92.25, 65.5),
)


def all_boxes(dtype: torch.dtype = torch.float32, images: int = SHAPE[0]) -> Tensor:
    """[K, 5]: BOXES, with the images taking turns."""
    rows = [(i % images, *box) for i, box in enumerate(BOXES)]
    return torch.tensor(rows, dtype=torch.float64).to(dtype)


def random_boxes(
    rng: np.random.Generator, count: int, shape: tuple[int, ...], *, out: float = 0.2
) -> np.ndarray:
    """[count, 5] float64: sides of at least 2 pixels; centres up to `out` of a side outside."""
    batch, _, height, width = shape
    boxes = np.zeros((count, 5))
    boxes[:, 0] = rng.integers(0, batch, count)
    for axis, size in ((1, width), (2, height)):
        side = rng.uniform(2, size, count)
        start = rng.uniform(-out * size, (1 + out) * size, count) - side / 2
        boxes[:, axis], boxes[:, axis + 2] = start, start + side
    return boxes


def images_of(dtype: torch.dtype, seed: int = 0, shape: tuple[int, ...] = SHAPE) -> Tensor:
    return random_image(np.random.default_rng(seed), shape, dtype)


def to_numpy(tensor: Tensor) -> np.ndarray:
    tensor = tensor.detach().cpu()
    return (tensor.double() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def paste_options(
    blend: str, patches: Tensor, seed: int = 0, dtype: torch.dtype = torch.float32
) -> dict[str, Any]:
    """Return keywords for `paste_rois` and for its reference."""
    if blend == "feather":
        return {"blend": blend, "feather": 3.5}
    if blend == "alpha":
        rng = np.random.default_rng(seed)
        shape = (patches.shape[0], *patches.shape[2:])
        return {"blend": blend, "alpha": torch.from_numpy(rng.random(shape)).to(dtype)}
    return {"blend": blend}


def assert_near(found: Tensor, wanted: np.ndarray, mode: str) -> None:
    """Compare with the reference before rounding: boxes at quarter pixels cause many ties."""
    dtype = found.dtype
    if dtype != torch.uint8 or mode == "nearest":
        assert_matches(to_numpy(found), wanted, dtype, mode)
        return
    error = np.abs(to_numpy(found).astype(np.float64) - np.clip(wanted, 0, 255))
    assert error.max() <= 0.5 + 1e-3
