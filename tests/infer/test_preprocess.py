"""Batches of images of any sizes: values as from interpolate(), and placements."""

from typing import Any

import pytest
import torch
from visops.infer.frames import Frame
from visops.infer.images.preprocess import IMAGENET_MEAN, IMAGENET_STD, Preprocess

from infer.folders import photo

SIZES = ((40, 60), (64, 32), (17, 90))
NEAR = 0.02 / 255  # photos are filtered in integers


def images(sizes: Any = SIZES) -> Any:
    return [
        torch.from_numpy(photo(i, *size).copy()).permute(2, 0, 1) for i, size in enumerate(sizes)
    ]


def frames(sizes: Any = SIZES) -> Any:
    return [Frame(i, 0, *size, *size) for i, size in enumerate(sizes)]


def test_stretch_is_interpolate() -> None:
    preprocess = Preprocess((20, 24))
    batch, _ = preprocess.run(images(), frames())
    mean = torch.tensor(IMAGENET_MEAN)[:, None, None]
    std = torch.tensor(IMAGENET_STD)[:, None, None]
    for row, image in zip(batch, images(), strict=True):
        resized = torch.nn.functional.interpolate(
            image[None].float() / 255, (20, 24), mode="bilinear", antialias=True
        )[0]
        torch.testing.assert_close(row, (resized - mean) / std, atol=NEAR / 0.224, rtol=0)


def test_letterbox() -> None:
    preprocess = Preprocess((24, 24), "letterbox", None, None, fill=51)
    batch, placements = preprocess.run(images(), frames())
    assert (placements[0].scale_x, placements[0].scale_y) == (0.4, 0.4)
    assert (placements[0].left, placements[0].top) == (0, 4)
    torch.testing.assert_close(batch[0, :, :3], torch.full((3, 3, 24), 0.2))
    torch.testing.assert_close(batch[0, :, -3:], torch.full((3, 3, 24), 0.2))
    resized = torch.nn.functional.interpolate(
        images()[0][None].float() / 255, (16, 24), mode="bilinear", antialias=True
    )[0]
    torch.testing.assert_close(batch[0, :, 4:20], resized, atol=NEAR, rtol=0)


def test_crop() -> None:
    preprocess = Preprocess((16, 16), "crop", None, None, crop=0.8)
    batch, placements = preprocess.run(images(), frames())
    # 40 x 60 becomes 20 x 30, of which the middle 16 x 16 are kept.
    assert (placements[0].scale_x, placements[0].scale_y) == (0.5, 0.5)
    assert (placements[0].left, placements[0].top) == (-7, -2)
    resized = torch.nn.functional.interpolate(
        images()[0][None].float() / 255, (20, 30), mode="bilinear", antialias=True
    )[0]
    torch.testing.assert_close(batch[0], resized[:, 2:18, 7:23], atol=1e-5, rtol=0)


@pytest.mark.parametrize("fit", ["stretch", "letterbox", "crop"])
def test_a_reduced_image_goes_where_the_whole_one_goes(fit: str) -> None:
    (image,) = images([(64, 96)])
    small = torch.nn.functional.avg_pool2d(image[None].float(), 2)[0].round().to(torch.uint8)
    preprocess = Preprocess((16, 16), fit, None, None)
    whole, placements = preprocess.run([image], [Frame(0, 0, 64, 96, 64, 96)])
    reduced, again = preprocess.run([small], [Frame(0, 0, 32, 48, 64, 96, 2)])
    assert placements == again
    assert (whole - reduced).abs().max() < 0.03


def test_channels_last() -> None:
    batch, _ = Preprocess((8, 8)).run(images(), frames(), torch.channels_last)
    assert batch.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fit": "cover"}, "fit is 'cover', must be one of"),
        ({"size": (0, 3)}, r"size is \(0, 3\), must be two positive"),
        ({"crop": 0}, "crop is 0, must be above 0 and at most 1"),
        ({"std": (1, 0, 1)}, r"std is \(1.0, 0.0, 1.0\), must have no 0"),
        ({"size": 64}, "size is 64, must be 2 integers"),
        ({"size": (8, 8.5)}, r"size is \(8, 8.5\), must be 2 integers"),
        ({"mean": (0.5, 0.5)}, r"mean is \(0.5, 0.5\), must be 3 numbers, or None"),
        ({"std": "one"}, "std is 'one', must be 3 numbers, or None"),
    ],
)
def test_bad_options(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Preprocess(**options)


def test_lists_are_taken_like_tuples() -> None:
    given = Preprocess([24, 24], mean=[0.5, 0.5, 0.5], std=[1, 1, 1])  # type: ignore[arg-type]
    same = Preprocess((24, 24), mean=(0.5, 0.5, 0.5), std=(1, 1, 1))
    assert {given: 1} == {same: 1}  # they are keys of a batch's inputs
    assert repr(given) == repr(same)
