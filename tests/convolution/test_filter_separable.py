"""Separable filters of a batch, against their definition and gaussian_blur()."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from bad_input import Call, check, table
from kernels import every_slot, use_slot
from visops.convolution.blurs import gaussian
from visops.convolution.filter_separable import DTYPES, filter_separable

matrix = pytest.mark.matrix


def reference(image: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """[H, W] in float64, tap by tap."""
    found = image.astype(np.float64)
    for axis, weights in ((1, row), (0, column)):
        before, after = len(weights) // 2, (len(weights) - 1) // 2
        pad = [(0, 0), (0, 0)]
        pad[axis] = (before, after)
        mode: Any = "reflect" if found.shape[axis] > 1 else "edge"
        padded = np.pad(found, pad, mode)
        size = found.shape[axis]
        found = sum(  # type: ignore[assignment]
            weight * padded.take(range(k, k + size), axis) for k, weight in enumerate(weights)
        )
    return found


@matrix
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("size", "taps"),
    [
        ((1, 1), (3, 5)),
        ((9, 1), (5, 3)),
        ((5, 7), (33, 33)),
        ((40, 90), (9, 4)),
        ((33, 64), (1, 1)),
    ],
)
def test_values(dtype: torch.dtype, size: tuple[int, int], taps: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    images = torch.from_numpy(rng.uniform(0, 255, (3, 2, *size))).to(dtype)
    rows, columns = (rng.dirichlet(np.ones(n), 3) for n in taps)
    found = filter_separable(images, rows.ravel().tolist(), columns.ravel().tolist(), False)
    assert found.dtype == dtype
    assert found.is_contiguous()
    for i in range(3):
        for c in range(2):
            expected = reference(images[i, c].double().numpy(), rows[i], columns[i])
            error = np.abs(found[i, c].double().numpy() - expected).max()
            rounding = 0.5 if dtype == torch.uint8 else 256 * torch.finfo(dtype).eps
            assert error <= rounding * 1.001 + 1e-4


@every_slot
def test_gaussian_blur_has_the_same_bits(slot: str) -> None:
    images = (torch.rand(2, 3, 50, 70) * 255).to(torch.uint8)
    for picture in (images, images.float() / 255, images.half()):
        blurred = visops.gaussian_blur(picture, (5, 9), (0.8, 2.0))
        with use_slot(slot):
            row, column = gaussian(9, 2.0).tolist(), gaussian(5, 0.8).tolist()
            assert torch.equal(filter_separable(picture, row, column), blurred)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64])
def test_gaussian_blur_on_a_gpu_has_the_cpu_s_bits(dtype: torch.dtype) -> None:
    images = (torch.rand(2, 3, 90, 70) * 255).to(dtype)
    for size, sigma in (((5, 9), (0.8, 2.0)), (3, None), (41, 6.0)):
        on_cpu = visops.gaussian_blur(images, size, sigma)
        assert torch.equal(visops.gaussian_blur(images.cuda(), size, sigma).cpu(), on_cpu)


@every_slot
def test_images_without_a_filter_are_copied(slot: str) -> None:
    """Infinities don't reach their neighbours, and -0 keeps its sign."""
    images = torch.zeros(2, 1, 4, 5)
    images[:, 0, 1, 2], images[:, 0, 0, 0] = float("inf"), -0.0
    with use_slot(slot):
        found = filter_separable(images, [0, 1, 0, 0.5, 0.25, 0.25], [1, 1], False)
    assert torch.equal(found[0].view(torch.int32), images[0].view(torch.int32))
    assert int(found[1].isinf().sum()) == 3


IMAGES = torch.zeros(2, 1, 3, 4)
OP = "filter_separable: "


def call(**arguments: Any) -> Call:
    given: dict[str, Any] = {"images": IMAGES, "rows": [1.0], "columns": [1.0], **arguments}
    return lambda: filter_separable(**given)


@table(
    (
        RuntimeError,
        OP + "images have shape [1, 3, 4], must be [B, C, H, W]",
        call(images=IMAGES[0]),
    ),
    (
        RuntimeError,
        OP + "images have dtype float64, must be uint8, float16, bfloat16 or float32",
        call(images=IMAGES.double()),
    ),
    (RuntimeError, OP + "rows have 0 taps, must have 1 to 33", call(rows=[])),
    (RuntimeError, OP + "columns have 34 taps, must have 1 to 33", call(columns=[1.0] * 34)),
    (
        RuntimeError,
        OP + "rows has 3 numbers, must have as many for each of 2 images",
        call(rows=[1.0] * 3, shared=False),
    ),
)
def test_errors(error: type[Exception], message: str, call: Call) -> None:
    check(error, message, call)
