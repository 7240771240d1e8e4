"""Arrays through tensors, for Pythons without `_numpy`: the results of `_numpy`, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from visops import _numpy
from visops.warp import affine, affine_arrays

RNG = np.random.default_rng(0)
MATRIX = np.array([[0.9, 0.2, 1.5], [-0.1, 1.1, 0.3]])
DTYPES = ("u1", "u2", "i2", "f2", "f4", "f8")
NEAREST_ONLY = ("?", "i1", "i4", "i8")


def image(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    values = RNG.random(shape) * 100
    return values > 50 if dtype == "?" else values.astype(dtype)


def both(array: np.ndarray, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Warp by the module and through tensors."""
    call = {
        "size": (9, 13),
        "mode": "bilinear",
        "padding_mode": "constant",
        "fill": 7,
        "inverse_map": False,
        "half_pixel": False,
        "out": None,
        **options,
    }
    matrix = call.pop("matrix", MATRIX)
    return tuple(  # type: ignore[return-value]
        front.warp_affine(array, matrix, *call.values()) for front in (_numpy, affine_arrays)
    )


def same(one: np.ndarray, other: np.ndarray) -> bool:
    return (
        one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    )


def test_the_module_is_preferred() -> None:
    assert vars(affine)["_warp_ndarray"] is _numpy.warp_affine


@pytest.mark.parametrize("shape", [(12, 14), (12, 14, 1), (12, 14, 3), (12, 14, 5)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES + NEAREST_ONLY)
def test_dtypes(dtype: str, shape: tuple[int, ...]) -> None:
    mode = "nearest" if dtype in NEAREST_ONLY else "bilinear"
    one, other = both(image(dtype, shape), mode=mode, fill=1)
    assert one.any()
    assert same(one, other)
    assert other.flags.c_contiguous


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "bicubic", "padding_mode": "reflect"},
        {"mode": "nearest", "inverse_map": True, "half_pixel": True},
        {"fill": [1, 2, 3]},
        {"fill": np.float32(2.5)},
        {"fill": np.array(3)},
        {"size": None},
        {"size": (np.int64(3), np.int16(4))},
        {"size": (0, 5)},
        {"matrix": MATRIX.tolist()},
        {"matrix": MATRIX.astype(">f4")},
    ],
    ids=str,
)
def test_options(options: dict[str, Any]) -> None:
    assert same(*both(image("f4", (12, 14, 3)), **options))


@pytest.mark.parametrize("shape", [(0, 4, 3), (4, 0, 3), (4, 5, 0)], ids=str)
def test_empty_images(shape: tuple[int, ...]) -> None:
    assert same(*both(image("f4", shape)))


@pytest.mark.parametrize("layout", ["C", "F", "reversed", "foreign", "read-only"])
def test_layouts(layout: str) -> None:
    array = image("f4", (12, 14, 3))
    if layout == "F":
        array = np.asfortranarray(array)
    elif layout == "reversed":
        array = array[::-1, ::-2]
    elif layout == "foreign":
        array = array.astype(">f4")
    elif layout == "read-only":
        array.flags.writeable = False
    assert same(*both(array))


@pytest.mark.parametrize("layout", ["C", "F", "reversed"])
def test_out(layout: str) -> None:
    outs = [np.zeros((9, 13, 3), np.float32, "F" if layout == "F" else "C") for _ in range(2)]
    if layout == "reversed":
        outs = [out[::-1] for out in outs]
    array = image("f4", (12, 14, 3))
    for front, out in zip((_numpy, affine_arrays), outs, strict=True):
        options = (None, "bilinear", "constant", 0, False, False, out)
        assert front.warp_affine(array, MATRIX, *options) is out
    assert same(*outs)
    assert outs[0].any()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_matrices_that_are_not_finite(value: float) -> None:
    messages = []
    for front in (_numpy, affine_arrays):
        matrix = MATRIX.copy()
        matrix[1, 2] = value
        options = (None, "bilinear", "constant", 0, False, False, None)
        with pytest.raises(ValueError, match="matrix") as caught:
            front.warp_affine(image("f4", (5, 5)), matrix, *options)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
