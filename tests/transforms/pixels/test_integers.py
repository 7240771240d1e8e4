"""Images of uint16 and signed integers: what floats give, rounded; values of 32 bits."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision.transforms import v2
from visops import transforms as T

from transforms.chains import CHAINS

WHITE = 65535.0
EVERY = torch.arange(65536, dtype=torch.int32).to(torch.uint16).reshape(1, 256, 256)
PHOTO = torch.randint(0, 65536, (3, 96, 120), generator=torch.Generator().manual_seed(0))
PHOTO = PHOTO.to(torch.uint16)


def as_float(image: Tensor) -> Tensor:
    return image.to(torch.float32) / WHITE


def rounded(image: Tensor) -> Tensor:
    return (image * WHITE).round().clamp(0, WHITE).to(torch.uint16)


def flipped(image: Tensor, *axes: int) -> Tensor:
    """Flip uint16, which torch 2.11 can't."""
    return image.int().flip(axes).to(image.dtype)


def difference(a: Tensor, b: Tensor) -> Tensor:
    assert a.dtype == b.dtype == torch.uint16
    return (a.to(torch.int32) - b.to(torch.int32)).abs()


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", ["geometry", "colour", "policies"])
def test_equals_rounded_floats(name: str, exact: bool) -> None:
    """Bit for bit where there is one pass."""
    for step in CHAINS[name]():
        for index in range(3):
            # A fill in the units of each, where there is one.
            fill = getattr(step, "fill", None)
            chain = T.Compose([step], seed=7, exact=exact)
            got = chain(PHOTO, index=index)
            if fill is not None:
                step.fill = tuple(v / WHITE for v in fill)
            expected = T.Compose([step], seed=7, exact=exact)(as_float(PHOTO), index=index)
            if fill is not None:
                step.fill = fill
            # Passes after the first read rounded values.
            assert difference(got, rounded(expected)).max() <= len(chain.passes) - 1


@pytest.mark.parametrize(
    "step",
    [
        T.RandomHorizontalFlip(1),
        T.RandomVerticalFlip(1),
        T.Pad(3),
        T.CenterCrop(256),
        T.Resize(256),
    ],
    ids=lambda s: type(s).__name__,
)
def test_every_value_is_kept(step: Any) -> None:
    result = T.Compose([step, T.CenterCrop(256)])(EVERY)
    flips = {"RandomHorizontalFlip": [-1], "RandomVerticalFlip": [-2]}.get(type(step).__name__, [])
    assert difference(result, flipped(EVERY, *flips)).max() == 0


def test_forms() -> None:
    """Arrays, foreign byte order, lists, batches and videos: the same pixels."""
    chain = T.Compose([T.RandomRotation(30), T.ColorJitter(0.4)], seed=0)
    expected = chain(PHOTO, index=4)
    assert expected.dtype == torch.uint16
    array = PHOTO.permute(1, 2, 0).numpy()
    read_only = array.copy()
    read_only.flags.writeable = False
    for image in (array, array.astype(">u2"), read_only, array[::-1].copy()[::-1]):
        assert difference(chain(image, index=4), expected).max() == 0
    for batch in (torch.stack([PHOTO] * 2), [PHOTO] * 2, [array] * 2):
        result = chain({"image": batch}, index=[4, 4])["image"]
        assert difference(result, torch.stack([expected] * 2)).max() == 0
    collated = chain.collate([{"image": array, "index": 4}])["image"]
    assert difference(collated[0], expected).max() == 0
    last = T.Compose([*chain.transforms], seed=0, memory_format=torch.channels_last)
    result = last(PHOTO[None], index=[4])
    assert result.is_contiguous(memory_format=torch.channels_last)
    assert difference(result[0], expected).max() == 0


def test_conversions() -> None:
    scaled = T.ToDtype(torch.float32, scale=True)(EVERY)
    assert torch.equal(scaled, as_float(EVERY))
    kept = T.ToDtype(torch.float32)(EVERY)
    torch.testing.assert_close(kept, EVERY.to(torch.float32), rtol=1e-6, atol=0)
    eight = T.ToDtype(torch.uint8, scale=True)(EVERY)
    levels = EVERY.to(torch.float64) / 257.0
    assert (eight.double() - levels).abs().max() <= 0.5 + 1e-4
    back = T.ToDtype(torch.uint16, scale=True)(torch.arange(256).to(torch.uint8).reshape(1, 1, -1))
    assert back.flatten().tolist() == [257 * level for level in range(256)]
    wild = torch.tensor([[[-1.0, 2.0, float("nan"), float("inf"), 0.5]]])
    expected = [0, 65535, 0, 65535, 32768]
    for dtype in (torch.float32, torch.float64):
        image = T.ToDtype(torch.uint16, scale=True)(wild.to(dtype))
        assert image.flatten().tolist() == expected
        for wide in (torch.int32, torch.int64):
            image = T.ToDtype(wide, scale=True)(wild.to(dtype))
            white = torch.iinfo(wide).max
            assert image.flatten().tolist()[2] == 0  # NaN
            assert image.flatten().tolist()[3] > 0.999 * white
    normalized = T.Compose([T.ToDtype(torch.float32, scale=True), T.Normalize(0.5, 0.25)])
    assert len(normalized.passes) == 1
    torch.testing.assert_close(normalized(EVERY), (as_float(EVERY) - 0.5) / 0.25)


def test_fill_and_erase_are_in_the_units_of_the_image() -> None:
    padded = T.Pad(1, fill=40000)(PHOTO)
    assert padded[:, 0].unique().tolist() == [40000]
    erase = T.RandomErasing(1, (0.2, 0.2), value=50001)
    erased = T.Compose([erase], seed=0)(PHOTO * 0, index=0)
    assert erased.to(torch.int32).unique().tolist() == [0, 50001]
    dark = T.Compose([T.Pad(1, fill=40000), T.ToDtype(torch.float32, scale=True)])(PHOTO)
    assert dark[0, 0, 0] == pytest.approx(40000 / WHITE, rel=1e-6)


def test_a_pass_after_rounding() -> None:
    """Where a chain needs two passes, the second reads what the first has rounded."""
    chain = T.Compose([T.RandomRotation((9, 9)), T.RandomErasing(1), T.Resize(40)], seed=1)
    assert len(chain.passes) == 2
    result = chain(PHOTO, index=0)
    assert (result.dtype, result.shape) == (torch.uint16, (3, 40, 50))


def test_integers_do_not_normalize() -> None:
    with pytest.raises(TypeError, match="the image has dtype torch\\.uint16, must be"):
        T.Normalize(0.5, 0.5)(PHOTO)


def test_mixing() -> None:
    batch = torch.stack([PHOTO, flipped(PHOTO, 1), flipped(PHOTO, 2)])
    for mix in (T.MixUp(labels_getter=None, seed=0), T.CutMix(labels_getter=None, seed=0)):
        got = mix(batch, index=range(3))
        expected = mix(batch.to(torch.float32), index=range(3)).round().to(torch.uint16)
        assert difference(got, expected).max() == 0
    got = T.Mosaic(48, seed=0, fill=30000)(batch, index=range(3))
    floats = T.Mosaic(48, seed=0, fill=30000 / WHITE)(as_float(batch), index=range(3))
    assert difference(got, rounded(floats)).max() == 0


def test_inverse_and_preview() -> None:
    chain = T.Compose([T.RandomHorizontalFlip(1), T.Pad(2)])
    result, params = chain(PHOTO, return_params=True)
    assert difference(chain.inverse(result, params), PHOTO).max() == 0
    figure = T.preview(chain, EVERY, n=1)
    drawn = np.asarray(figure.axes[0].get_images()[0].get_array())
    assert drawn.max() == 1.0
    assert drawn.mean() == pytest.approx(0.5, abs=1e-3)


SIGNED = [torch.int16, torch.int8]


def signed(dtype: torch.dtype) -> Tensor:
    limits = torch.iinfo(dtype)
    generator = torch.Generator().manual_seed(1)
    return torch.randint(limits.min, limits.max + 1, (3, 40, 50), generator=generator).to(dtype)


@pytest.mark.parametrize("dtype", SIGNED)
def test_signed_integers_have_white_where_torchvision_has_it(dtype: torch.dtype) -> None:
    image = signed(dtype)
    expected = v2.functional.to_dtype(image, torch.float32, scale=True)
    result = T.ToDtype(torch.float32, scale=True)(image)
    torch.testing.assert_close(result, expected, rtol=1e-6, atol=0)
    back = T.ToDtype(dtype, scale=True)(result)
    assert torch.equal(back, image)
    erased = T.Compose([T.RandomErasing(1, (0.2, 0.2), value=-9)], seed=0)(image, index=0)
    assert int((erased == -9).sum()) > 300
    mixed = T.MixUp(labels_getter=None, seed=0)(torch.stack([image] * 2), index=range(2))
    assert mixed.dtype == dtype
    assert torch.equal(mixed[0], image)


WIDE = [(torch.int32, 2**31 - 1), (torch.int64, 2**53)]


def wide(dtype: torch.dtype, largest: int) -> Tensor:
    image = torch.randint(
        -largest, largest, (3, 40, 50), generator=torch.Generator().manual_seed(1)
    )
    image[0, 0, :4] = torch.tensor([-largest, largest, largest - 1, 1])
    return image.to(dtype)


def every_value(dtype: torch.dtype) -> Tensor:
    """Return all values of 8 or 16 bits, many of others."""
    limits = torch.iinfo(dtype)
    if limits.bits > 16:
        return wide(dtype, dict(WIDE)[dtype])
    return torch.arange(limits.min, limits.max + 1).to(dtype).reshape(1, 16, -1)


@pytest.mark.parametrize("dtype", [*SIGNED, *dict(WIDE)])
def test_integers_keep_every_value(dtype: torch.dtype) -> None:
    image = every_value(dtype)
    chain = T.Compose([T.RandomHorizontalFlip(1), T.Pad(2, fill=-7)])
    result = chain(image)
    assert result.dtype == dtype
    assert bool((result[:, :2] == -7).all())
    assert torch.equal(result[:, 2:-2, 2:-2], image.flip(-1))
    assert torch.equal(chain(image.permute(1, 2, 0).numpy()), result)


@pytest.mark.parametrize(("dtype", "largest"), WIDE, ids=str)
def test_wide_integers_turn_and_mix(dtype: torch.dtype, largest: int) -> None:
    image = wide(dtype, largest)
    turn = T.RandomRotation((30, 30), "nearest")
    assert set(turn(image).unique().tolist()) <= {*image.unique().tolist(), 0}
    positions = torch.arange(2000).to(dtype).reshape(1, 40, 50)
    theirs = v2.functional.rotate(positions, 30)  # in float32, which holds these numbers
    assert (turn(positions) == theirs).float().mean() > 0.95  # they choose other pixels in ties
    mixed = T.MixUp(labels_getter=None, seed=0)(image[None].repeat(2, 1, 1, 1), index=[0, 1])
    assert (mixed - image).abs().max() <= 1


@pytest.mark.parametrize("dtype", [*SIGNED, *dict(WIDE)])
@pytest.mark.parametrize(
    "step", [T.RandomRotation((20, 20)), T.Resize((24, 20)), T.ColorJitter(0.5)]
)
def test_integers_are_computed_as_floats(dtype: torch.dtype, step: Any) -> None:
    limits = torch.iinfo(dtype)
    image = signed(dtype) if dtype in SIGNED else wide(dtype, dict(WIDE)[dtype] // 2).abs_()
    chain = T.Compose([step], seed=3)
    white = float(limits.max)
    floats = chain(image.to(torch.float64) / white, index=1) * white
    found = chain(image, index=1)
    assert found.dtype == dtype
    # Half a level, and what float32 loses of 16 bits.
    assert (found.double() - floats.round().clamp(limits.min, limits.max)).abs().max() <= 1


@pytest.mark.parametrize("dtype", dict(WIDE))
def test_wide_integers_saturate(dtype: torch.dtype) -> None:
    white = torch.iinfo(dtype).max
    image = torch.full((3, 40, 50), white, dtype=dtype)
    assert T.ColorJitter(brightness=(4.0, 4.0))(image).min() >= white - 1024


def test_wide_integers_have_white_where_torchvision_has_it() -> None:
    image = wide(torch.int32, 2**31 - 1)
    expected = v2.functional.to_dtype(image, torch.float32, scale=True)
    result = T.ToDtype(torch.float32, scale=True)(image)
    torch.testing.assert_close(result, expected, rtol=1e-6, atol=1e-7)
    levels = torch.arange(256).to(torch.uint8).reshape(1, 1, -1)
    for dtype in (torch.int32, torch.int64):
        more = T.ToDtype(dtype, scale=True)(levels)
        assert torch.equal(T.ToDtype(torch.uint8, scale=True)(more), levels)
        assert torch.equal(T.ToDtype(dtype)(levels), levels.to(dtype))


def test_mixtures_saturate() -> None:
    """Limits of int64 are not among the numbers of float64 that it is computed in."""
    for value in (2**63 - 1, -(2**63)):
        batch = torch.full((2, 3, 4, 5), value)
        for mixed in (
            T.MixUp(labels_getter=None, seed=0)(batch),
            T.Mosaic(4, fill=value, seed=0)(batch),
        ):
            assert mixed.dtype == torch.int64
            assert float((mixed.double() - value).abs().max()) <= 1024


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
