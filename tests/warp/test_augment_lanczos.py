"""Lanczos' filter: values, Pillow's images, layouts, batches and lists."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from references.affine import random_matrix

from warp.affine_cases import LAYOUTS, PADDINGS, random_image
from warp.augment_cases import (
    DTYPES,
    check,
    name_of,
    random_color,
    random_perspective,
    random_window,
)
from warp.augment_outputs import aligned

MAPS = {"upright": aligned, "turned": random_matrix, "perspective": random_perspective}
SIZE = (14, 130)


@pytest.mark.matrix
@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("padding_mode", PADDINGS)
@pytest.mark.parametrize("dtype", DTYPES, ids=name_of)
def test_values(dtype: torch.dtype, padding_mode: str, kind: str) -> None:
    if dtype == torch.uint8 and padding_mode == "constant" and kind == "upright":
        pytest.skip("in integers: test_augment_integers.py")
    number = 15 * DTYPES.index(dtype) + 3 * PADDINGS.index(padding_mode) + list(MAPS).index(kind)
    rng = np.random.default_rng(number)
    channels = (3, 1, 4, 2)[number % 4]
    scale = (0.2, 1.5)
    matrices = [MAPS[kind](rng, 23, 31, SIZE, scale=scale) for _ in range(2)]
    window = [random_window(rng, 23, 31) for _ in range(2)] if number % 2 else None
    color = [random_color(rng, 1, channels) for _ in range(2)] if number % 3 == 0 else None
    layout = list(LAYOUTS.values())[number % len(LAYOUTS)]
    check(
        layout(random_image(rng, (2, channels, 23, 31), dtype)),
        matrices,
        SIZE,
        gain=2.0,
        mode="lanczos",
        antialias=True,
        padding_mode=padding_mode,
        window=None if window is None else np.stack(window),
        color=None if color is None else np.stack(color),
        fill=0.7,
        out_dtype=(torch.float32, dtype)[number % 2],
    )


@pytest.mark.parametrize("size", [(23, 31), (100, 140), (7, 140), (3, 2)])
def test_pillow(size: tuple[int, int]) -> None:
    """Pillow's images of floats, which it does not round between its two passes."""
    pil = pytest.importorskip("PIL.Image")
    image = np.random.default_rng(0).random((60, 77)).astype(np.float32)
    expected = np.asarray(pil.fromarray(image).resize(size[::-1], pil.Resampling.LANCZOS))
    options: dict[str, Any] = {"mode": "lanczos", "antialias": True, "convention": "half_pixel"}
    matrix = [[size[1] / 77, 0, 0], [0, size[0] / 60, 0]]
    found = visops.augment(torch.from_numpy(image)[None, None], matrix, size, **options)
    torch.testing.assert_close(found[0, 0], torch.tensor(expected), rtol=0, atol=1e-5)


def test_layouts_lists_and_copies() -> None:
    rng = np.random.default_rng(1)
    options: dict[str, Any] = {"mode": "lanczos", "antialias": True, "layout": "CHW"}
    for dtype in DTYPES:
        image = random_image(rng, (2, 3, 40, 50), dtype)
        matrices = np.stack([aligned(rng, 40, 50, SIZE, scale=(0.2, 0.5)) for _ in range(2)])
        expected = visops.augment(image, matrices, SIZE, **options)
        for layout in LAYOUTS.values():
            assert torch.equal(visops.augment(layout(image), matrices, SIZE, **options), expected)
        assert torch.equal(visops.augment(list(image), matrices, SIZE, **options), expected)
        one = visops.augment(image[1:], matrices[1:], SIZE, **options)
        assert torch.equal(one, expected[1:])
        still = visops.augment(image, np.eye(3), (40, 50), out_dtype=dtype, **options)
        assert torch.equal(still, image)
