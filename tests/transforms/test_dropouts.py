"""Dropouts of channels and rectangles: how many there are, how large, and what fills them."""

from typing import Any

import albumentations as A
import numpy as np
import pytest
import torch
from torchvision import tv_tensors
from visops import transforms as T


def test_channels_and_holes() -> None:
    image = torch.ones(4, 60, 80)
    counts = [0] * 16
    dropped = T.Compose([T.ChannelDropout((1, 2), p=1)], seed=0)(
        torch.stack([image[:, :2, :2]] * 4000), index=range(4000)
    )
    for own in (dropped[:, :, 0, 0] == 0).int() @ torch.tensor([1, 2, 4, 8], dtype=torch.int32):
        counts[int(own)] += 1
    ones = [counts[i] for i in (1, 2, 4, 8)]
    twos = [counts[i] for i in (3, 5, 6, 9, 10, 12)]
    assert sum(ones) + sum(twos) == 4000
    assert abs(sum(ones) - 2000) < 160
    assert max(abs(n - 500) for n in ones) < 100
    assert max(abs(n - 333) for n in twos) < 85
    with pytest.raises(ValueError, match="must leave one"):
        T.ChannelDropout((1, 3), p=1)(torch.ones(3, 2, 2))
    hole = T.Compose([T.CoarseDropout((1, 1), (0.1, 0.3), (0.2, 0.5), p=1)], seed=0)
    for index in range(40):
        rows, columns = (hole(image, index=index)[0] == 0).nonzero().unbind(1)
        height, width = (int(v.max() - v.min()) + 1 for v in (rows, columns))
        assert 6 <= height <= 18
        assert 16 <= width <= 40
        assert len(rows) == height * width


@pytest.mark.parametrize(
    "make",
    [
        lambda fill: T.ChannelDropout(fill=fill, p=1.0),
        lambda fill: T.CoarseDropout((1, 1), (3, 3), (3, 3), fill=fill, p=1.0),
        lambda fill: T.GridDropout(fill=fill, p=1.0),
    ],
    ids=["channels", "holes", "grid"],
)
@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.uint16, torch.int16, torch.int32, torch.int64], ids=str
)
def test_fills_are_in_the_image_s_units(make: Any, dtype: torch.dtype) -> None:
    image = torch.zeros(3, 12, 14).to(dtype)
    chain = T.Compose([make(100)], seed=0)
    for given in (image, torch.stack([image] * 2), tv_tensors.Video(torch.stack([image] * 2))):
        values = chain(given).to(torch.int64)
        assert set(values.unique().tolist()) == {0, 100}
    if dtype == torch.uint8:
        with pytest.raises(
            ValueError, match=r"fill is 300, must be within \[0, 255\] for a torch."
        ):
            make(300)(image)


def test_a_grid_of_holes_is_albumentations() -> None:
    image = torch.ones(1, 90, 120)
    fixed = T.GridDropout(0.5, False, holes_number_xy=(4, 3), shift_xy=(3, 5), p=1)(image)
    theirs = A.GridDropout(0.5, False, holes_number_xy=(3, 4), shift_xy=(3, 5), p=1)
    assert (fixed[0] == 0).sum() == 4 * 3 * 15 * 15
    expected = theirs(image=np.ones((90, 120, 1), np.float32))["image"]
    assert np.array_equal(fixed[0].numpy(), expected[..., 0])
    odd = T.GridDropout(0.5, unit_size_range=(10, 20), p=1)(torch.ones(1, 97, 131))
    assert 0.15 < float((odd == 0).float().mean()) < 0.3
