"""uint8 to uint8 with nearest taps moves bytes: as float32 does, which goes through colour."""

import itertools
import math
from typing import Any

import pytest
import torch
import visops
from torch import Tensor

SIZE = (61, 301)  # three segments, the last one short
MAPS = {
    "flip": [[-1.0, 0.0, 300.0], [0.0, 1.0, 0.0]],
    "crop": [[1.0, 0.0, -37.0], [0.0, 1.0, -11.0]],
    "beside": [[1.0, 0.0, 1000.0], [0.0, 1.0, 0.0]],
    "turn": [[0.0, 1.0, 20.0], [-1.0, 0.0, 70.0]],
    "rotation": [[1.3, -0.4, 9.2], [0.35, 0.8, -17.7]],
    "perspective": [[1.1, 0.2, 3.0], [-0.1, 0.9, 8.0], [4e-4, -6e-4, 1.0]],
}
FORMATS = (torch.contiguous_format, torch.channels_last)


def picture(channels: int, memory_format: torch.memory_format) -> Tensor:
    generator = torch.Generator().manual_seed(channels)
    image = torch.randint(0, 256, (1, channels, 83, 307), generator=generator, dtype=torch.uint8)
    return image.contiguous(memory_format=memory_format)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", MAPS)
def test_bytes_are_those_of_float32(name: str, channels: int) -> None:
    matrix = torch.tensor(MAPS[name], dtype=torch.float64)
    window = torch.tensor([[20.0, 5.0, 280.0, 77.0]])
    erase = torch.tensor([[[10, 3, 140, 9], [250, 0, 301, 61]]])
    for source, target, padding, more in itertools.product(
        FORMATS, FORMATS, ("constant", "replicate", "reflect"), (False, True)
    ):
        image = picture(channels, source)
        options: dict[str, Any] = {"mode": "nearest", "padding_mode": padding, "fill": 2.5}
        if more:
            options |= {"window": window, "erase": erase, "erase_value": 77.0}
        moved = visops.augment(
            image, matrix, SIZE, out_dtype=torch.uint8, memory_format=target, **options
        )
        floats = visops.augment(image.float(), matrix, SIZE, **options)
        assert torch.equal(moved, floats.round().to(torch.uint8))  # half to even, as 2.5
        assert moved.is_contiguous(memory_format=target)


def test_last_pixel_is_not_passed() -> None:
    # Pixels of three bytes are moved by four; the last one of memory must not be.
    image = picture(3, torch.channels_last)
    flipped = visops.augment(
        image, torch.tensor([[-1.0, 0, 306], [0, -1, 82]]), (83, 307), out_dtype=torch.uint8,
        memory_format=torch.channels_last,
    )  # fmt: skip
    assert torch.equal(flipped, image.flip(2, 3))
    angle = math.radians(2.0)
    turned = torch.tensor(
        [[math.cos(angle), -math.sin(angle), 3], [math.sin(angle), math.cos(angle), -5]]
    )
    moved = visops.augment(image, turned, (83, 307), mode="nearest", out_dtype=torch.uint8)
    floats = visops.augment(image.float(), turned, (83, 307), mode="nearest")
    assert torch.equal(moved, floats.to(torch.uint8))
