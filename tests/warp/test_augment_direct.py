"""Small batches go past torch's dispatcher: with the operator's bits, and only unseen."""

from typing import Any

import pytest
import torch
import visops
from torch.utils._python_dispatch import TorchDispatchMode
from visops.warp.augment_direct import augment_direct


class Seen(TorchDispatchMode):
    """Counts calls of the operator."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.visops.augment.default
        return func(*args, **(kwargs or {}))


def forms() -> list[tuple[torch.Tensor, torch.Tensor, dict[str, Any]]]:
    """Images, matrices and options of every kind that the short way takes."""
    image = torch.randint(0, 256, (2, 3, 12, 10), generator=torch.Generator().manual_seed(0))
    turned = torch.tensor([[0.9, 0.2, 1.0], [-0.3, 1.1, 0.5]], dtype=torch.float64)
    tilted = torch.cat([turned, torch.tensor([[0.01, 0.0, 1.0]], dtype=torch.float64)])
    each = torch.stack([turned, turned * 1.25])
    color = torch.rand(2, 2, 3, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    full: dict[str, Any] = {
        "color": color,
        "clamp": True,
        "mean": [0.1, 0.2, 0.3],
        "std": 0.5,
        "window": [[1, 2, 9, 11], [0, 0, 10, 12]],
        "erase": [[[1, 1, 4, 4]], [[0, 0, 0, 0]]],
        "erase_value": [1.0, 2.0, 3.0],
        "fill": [5.0, 6.0, 7.0],
    }
    u8 = image.to(torch.uint8)
    return [
        (u8, turned, {"mode": "nearest", "fill": 255, "out_dtype": torch.uint8}),
        (u8, each, full),
        (u8[..., ::2, 1:], tilted.float(), {"padding_mode": "reflect", "inverse_map": True}),
        (image.double(), each, {"mode": "bicubic", "out_dtype": torch.float64}),
        (image.half(), turned, {"antialias": True, "convention": "half_pixel"}),
        (image.bfloat16(), turned, {"memory_format": torch.channels_last}),
    ]


@pytest.mark.matrix
def test_values_and_strides_are_the_operators() -> None:
    for image, matrix, options in forms():
        for size in ((7, 9), (200, 150)):  # without and with the interpreter's lock
            result = visops.augment(image, matrix, size, **options)
            with Seen() as seen:
                expected = visops.augment(image, matrix, size, **options)
            assert seen.count == 1
            assert result.stride() == expected.stride()
            assert result.dtype == expected.dtype
            assert torch.equal(result, expected)


def direct(image: Any, matrix: Any, size: Any = (4, 4)) -> torch.Tensor | None:
    tail: Any = (None, None, False, [], [], None, [0.0], False, False)
    return augment_direct(image, matrix, size, "bilinear", "constant", [0.0], False, *tail)


def test_what_is_unusual_is_left_to_the_operator() -> None:
    image, matrix = torch.rand(1, 1, 4, 4), torch.eye(2, 3)
    assert direct(image, matrix) is not None
    for other in (
        image.int(),
        image[0],
        image[:0],
        image.to_sparse(),
        image.to("meta"),
        torch.nn.Parameter(image),
        torch._neg_view(image),
    ):
        assert direct(other, matrix) is None
    for other in (
        torch.zeros(2, 3),
        torch.full((2, 3), torch.nan),
        torch.eye(4),
        torch.eye(3).int(),
    ):
        assert direct(image, other) is None
    for size in (4, (4,), (4.0, 4), (-1, 4), (0, 4), (1 << 20, 1 << 20), (1 << 10, 1 << 10)):
        assert direct(image, matrix, size) is None
    with torch.device("meta"):  # new tensors would be there
        assert direct(image, matrix) is None
    with torch.profiler.profile() as profile:
        visops.augment(image, matrix, (4, 4))
    assert "visops::augment" in {event.name for event in profile.events()}
