"""Fills that images of integers can't hold are refused, and never clamped."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import visops
from visops import transforms as T

FILLING: list[Callable[[float], Any]] = [
    lambda fill: T.CenterCrop(30, fill=fill),
    lambda fill: T.Pad(3, fill=fill),
    lambda fill: T.Letterbox((20, 40), fill=fill),
    lambda fill: T.RandomAffine((45, 45), fill=fill),
    lambda fill: T.RandomZoomOut(fill=fill, p=1),
    lambda fill: T.ElasticTransform(fill=fill),
    lambda fill: T.Compose([T.RandAugment(num_ops=8, fill=fill)], seed=1),
    lambda fill: T.AugMix(fill=fill),
    lambda fill: T.CoarseDropout(fill=fill, p=1),
]
RANGES = [
    (torch.uint8, 0, 255),
    (torch.uint16, 0, 65535),
    (torch.int8, -128, 127),
    (torch.int16, -32768, 32767),
    (torch.int32, -(2**31), 2**31 - 1),
]


@pytest.mark.parametrize(("dtype", "low", "high"), RANGES)
@pytest.mark.parametrize("number", range(len(FILLING)))
def test_fills_out_of_range_are_refused(
    number: int, dtype: torch.dtype, low: int, high: int
) -> None:
    image = torch.full((3, 16, 16), 100, dtype=dtype)
    for fill in (low - 1, high + 1):
        with pytest.raises((ValueError, RuntimeError), match=r"fill.* is .*, must be within"):
            FILLING[number](fill)(image)
    FILLING[number](low)(image)
    FILLING[number](high)(image)


@pytest.mark.parametrize("dtype", [torch.bool, torch.complex64])
@pytest.mark.parametrize("number", range(len(FILLING)))
def test_images_of_other_dtypes_are_named(number: int, dtype: torch.dtype) -> None:
    image = torch.ones((3, 16, 16), dtype=dtype)
    for transform in (FILLING[number](0), T.GridDropout(p=1), T.ChannelDropout(p=1)):
        with pytest.raises(TypeError, match=rf"the sample has dtype {dtype}, must be uint8, uint1"):
            transform(image)


@pytest.mark.parametrize(("dtype", "low", "high"), RANGES)
@pytest.mark.parametrize("many", [False, True])
def test_erased_values_out_of_range_are_refused(
    many: bool, dtype: torch.dtype, low: int, high: int
) -> None:
    image = torch.full((3, 16, 16), 100, dtype=dtype)
    for value in (low - 1, high + 1):
        erase = T.RandomErasing(p=1, value=[1, value, 2] if many else value)
        with pytest.raises(
            ValueError, match=rf"RandomErasing: value is .*, must be within \[{low}"
        ):
            erase(image)
        with pytest.raises(ValueError, match="RandomErasing: value is"):
            T.RandomErasing(p=0, value=value)(image)  # whatever is drawn
    erased = T.RandomErasing(p=1, value=high)(image)
    assert set(erased.unique().tolist()) == {100, high}


@pytest.mark.parametrize(("dtype", "low", "high"), RANGES)
def test_fills_of_mosaics_out_of_range_are_refused(dtype: torch.dtype, low: int, high: int) -> None:
    batch = torch.full((4, 3, 16, 16), 100, dtype=dtype)
    for fill in (low - 1, high + 1):
        with pytest.raises(ValueError, match=r"Mosaic: fill is .*, must be within"):
            T.Mosaic(20, fill=fill)(batch)
    T.Mosaic(20, fill=high)(batch)


def test_floats_hold_any_fill() -> None:
    image = torch.zeros(3, 16, 16)
    assert T.Pad(1, fill=1000)(image)[0, 0, 0] == 1000
    assert T.RandomErasing(p=1, value=-5)(image).min() == -5


def test_the_operator_refuses_erased_values_that_its_result_cannot_hold() -> None:
    image = torch.zeros(1, 1, 4, 4, dtype=torch.uint8)
    identity, erase = [[1, 0, 0], [0, 1, 0]], [[0, 0, 2, 2]]
    options: dict[str, Any] = {"erase": erase, "erase_value": 256}
    with pytest.raises(
        RuntimeError, match=r"erase_value\[0\] is 256, must be within \[0, 255\] for an image of u"
    ):
        visops.augment(image, identity, (4, 4), out_dtype=torch.uint8, **options)
    assert visops.augment(image, identity, (4, 4), **options).max() == 256
