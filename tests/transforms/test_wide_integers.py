"""Values of 16 and 32 bits, against torchvision where it takes them."""

from typing import Any

import pytest
import torch
from torchvision.transforms import v2
from visops import transforms as T

DTYPES = [torch.int8, torch.uint16, torch.int16, torch.int32]


def image_of(dtype: torch.dtype) -> torch.Tensor:
    high = torch.iinfo(dtype).max
    image = torch.randint(0, high, (3, 16, 16), generator=torch.Generator().manual_seed(1))
    image[0, 0, :2] = torch.tensor([0, high])
    return image.to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("share", [0.0, 0.25, 0.500001, 1.0])
@pytest.mark.parametrize("batched", [False, True])
def test_solarize(batched: bool, share: float, dtype: torch.dtype) -> None:
    image = image_of(dtype)
    threshold: float = int(torch.iinfo(dtype).max * share)
    image[1, 1, :3] = torch.tensor([threshold, max(threshold - 1, 0), threshold]).to(dtype)
    given: Any = torch.stack([image, image_of(dtype)]) if batched else image
    for own in (threshold, max(threshold - 0.5, 0.0)):
        found = T.RandomSolarize(own, p=1)(given)
        assert found.dtype == dtype
        # torchvision compares with the threshold as it is, but wide integers in float32.
        white, wide = torch.iinfo(dtype).max, given.double()
        assert torch.equal(found.double(), torch.where(wide >= own, white - wide, wide))
    if not batched and dtype not in (torch.uint16, torch.int32):
        assert torch.equal(
            T.RandomSolarize(threshold, p=1)(image), v2.RandomSolarize(threshold, p=1)(image)
        )


@pytest.mark.parametrize("dtype", DTYPES)
def test_solarize_refuses_a_threshold_above_white(dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match=r"RandomSolarize: threshold is .*, must not be above"):
        T.RandomSolarize(float(torch.iinfo(dtype).max) + 1, p=1)(image_of(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bits", [1, 3, 7])
def test_posterize_is_within_one(bits: int, dtype: torch.dtype) -> None:
    image = image_of(dtype)
    found = T.RandomPosterize(bits, p=1)(image)
    expected = v2.RandomPosterize(bits, p=1)(image)
    assert int((found.long() - expected.long()).abs().max()) <= 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_invert(dtype: torch.dtype) -> None:
    image = image_of(dtype)
    assert torch.equal(T.RandomInvert(p=1)(image), v2.RandomInvert(p=1)(image))


def test_equalize_has_torchvision_s_levels() -> None:
    for dtype, step, theirs in ((torch.uint16, 257, 256), (torch.int16, 32767 / 255, 128)):
        image = image_of(dtype)
        found = T.RandomEqualize(p=1)(image).double() / step
        levels = v2.RandomEqualize(p=1)(image).double() / theirs
        assert torch.equal(found.round(), levels)
        assert (found - levels).abs().max() * step <= 0.5
