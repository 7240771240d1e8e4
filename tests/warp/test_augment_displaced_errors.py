"""What a displaced augmentation refuses names visops.augment."""

from typing import Any

import pytest
import torch
import visops

IMAGES = torch.zeros(2, 3, 8, 9, dtype=torch.uint8)
IDENTITY = [[1, 0, 0], [0, 1, 0]]
SHIFTS = torch.zeros(2, 2, 2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"images": IMAGES.int()}, "images has dtype int32, must be uint8, float16, bfloat16, "),
        ({"images": IMAGES.bool()}, "images has dtype bool, must be uint8, float16, bfloat16, "),
        ({"mode": "lanczos"}, "mode is 'lanczos', must be 'nearest', 'bilinear' or 'bicubic'"),
        ({"padding_mode": "foo"}, "padding_mode is 'foo', must be 'constant', "),
        ({"fill": 300}, r"fill\[0\] is 300, must be within \[0, 255\]"),
        ({"fill": [1, 2]}, "fill has 2 values, images have 3 channels"),
        ({"size": (4,)}, "size has 1 values, must be"),
        ({"matrix": [[0, 0, 0], [0, 0, 0]]}, "matrix is singular"),
        ({"out": 1j}, r"out is a complex, must be a torch\.Tensor"),
    ],
)
@pytest.mark.parametrize("listed", [False, True])
def test_errors_name_the_operator(listed: bool, given: dict[str, Any], message: str) -> None:
    images = given.get("images", IMAGES)
    options = {key: given[key] for key in given.keys() - {"images", "matrix", "size"}}
    error = (RuntimeError, TypeError, ValueError)
    with pytest.raises(error, match=rf"^visops\.augment: {message}"):
        visops.augment(
            list(images) if listed else images,
            given.get("matrix", IDENTITY),
            given.get("size", (4, 4)),
            displacement=SHIFTS,
            **options,
        )
