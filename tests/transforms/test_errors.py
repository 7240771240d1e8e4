"""Wrong arguments: each message names transform, argument, value and what is allowed."""

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from visops import transforms

T: Any = transforms  # arguments of wrong types are what is tested

PAIR = "a whole number >= 1 or a pair (height, width) of such"
FILL = (
    "a finite number or one per channel, in the image's units (masks take Compose's mask_fill), or "
    "a dict of such by type: tv_tensors.Image, Video and Mask, torch.Tensor, PIL.Image.Image or "
    "'others'"
)
PADDING = (
    "a whole number >= 0, or 2 (left and right, top and bottom) or 4 of them (left, top, right, "
    "bottom)"
)
SHEAR = "None, a number >= 0, or 2 or 4 numbers (min, max along x and then y) in (-90, 90)"
MODES = "'nearest', 'bilinear' or 'bicubic'"
FILTERS = (
    "'nearest', 'bilinear', 'bicubic' or 'lanczos', a sequence of such, of which each sample draws "
    "one, or 'random'"
)

# call, exception, message after "visops.transforms."
ARGUMENTS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: T.Resize(0), ValueError, f"Resize: size is 0, must be {PAIR}"),
    (lambda: T.Resize((3, 4, 5)), ValueError, f"Resize: size is (3, 4, 5), must be {PAIR}"),
    (lambda: T.Resize(3.5), TypeError, f"Resize: size is 3.5, must be {PAIR}"),
    (lambda: T.Resize("3"), TypeError, f"Resize: size is '3', must be {PAIR}"),
    (lambda: T.Resize(True), TypeError, f"Resize: size is True, must be {PAIR}"),
    (
        lambda: T.Resize(None),
        ValueError,
        "Resize: max_size is None, must be given where size is None",
    ),
    (
        lambda: T.Resize((3, 4), max_size=9),
        ValueError,
        "Resize: max_size is 9, must be None where size is a pair (height, width)",
    ),
    (
        lambda: T.Resize(9, max_size=9),
        ValueError,
        "Resize: max_size is 9, must be larger than size, which is 9",
    ),
    (
        lambda: T.Resize(9, max_size=-1),
        ValueError,
        "Resize: max_size is -1, must be a whole number >= 1",
    ),
    (
        lambda: T.Resize(9, interpolation="hamming"),
        ValueError,
        f"Resize: interpolation is 'hamming', must be {FILTERS}",
    ),
    (
        lambda: T.Resize(9, interpolation=7),
        ValueError,
        f"Resize: interpolation is 7, must be {FILTERS}",
    ),
    (
        lambda: T.RandomResizedCrop(9, scale=(-1, 1)),
        ValueError,
        "RandomResizedCrop: scale is (-1, 1), must be two numbers >= 0 (min, max)",
    ),
    (
        lambda: T.RandomResizedCrop(9, scale=(0.9, 0.1)),
        ValueError,
        "RandomResizedCrop: scale is (0.9, 0.1), must be two numbers >= 0 (min, max), "
        "the smaller first",
    ),
    (
        lambda: T.RandomResizedCrop(9, ratio=2),
        TypeError,
        "RandomResizedCrop: ratio is 2, must be two numbers > 0 (min, max)",
    ),
    (
        lambda: T.RandomResizedCrop(9, ratio=(1, math.inf)),
        ValueError,
        "RandomResizedCrop: ratio is (1, inf), must be two numbers > 0 (min, max)",
    ),
    (lambda: T.CenterCrop(-1), ValueError, f"CenterCrop: size is -1, must be {PAIR}"),
    (lambda: T.RandomCrop([]), ValueError, f"RandomCrop: size is [], must be {PAIR}"),
    (
        lambda: T.RandomCrop(3, padding=-1),
        ValueError,
        f"RandomCrop: padding is -1, must be {PADDING}",
    ),
    (lambda: T.Pad((1, 2, 3)), ValueError, f"Pad: padding is (1, 2, 3), must be {PADDING}"),
    (
        lambda: T.Pad(1, padding_mode="mirror"),
        ValueError,
        "Pad: padding_mode is 'mirror', must be 'constant', 'edge', 'reflect', 'symmetric' or "
        "'circular'",
    ),
    (lambda: T.Pad(1, fill="red"), TypeError, f"Pad: fill is 'red', must be {FILL}"),
    (lambda: T.Pad(1, fill=math.nan), ValueError, f"Pad: fill is nan, must be {FILL}"),
    (
        lambda: T.Pad(1, fill={int: 3}),
        TypeError,
        f"Pad: fill is {{<class 'int'>: 3}}, must be {FILL}",
    ),
    (
        lambda: T.RandomHorizontalFlip(1.5),
        ValueError,
        "RandomHorizontalFlip: p is 1.5, must be a probability in [0, 1]",
    ),
    (
        lambda: T.RandomVerticalFlip(None),
        TypeError,
        "RandomVerticalFlip: p is None, must be a probability in [0, 1]",
    ),
    (
        lambda: T.RandomAffine(-3),
        ValueError,
        "RandomAffine: degrees is -3, must be a number >= 0 or two finite numbers (min, max)",
    ),
    (
        lambda: T.RandomAffine((3, 1)),
        ValueError,
        "RandomAffine: degrees is (3, 1), must be a number >= 0 or two finite numbers (min, max), "
        "the smaller first",
    ),
    (
        lambda: T.RandomAffine(3, translate=(2, 0)),
        ValueError,
        "RandomAffine: translate is (2, 0), must be None or two numbers (x, y) in [0, 1]",
    ),
    (
        lambda: T.RandomAffine(3, translate=0.1),
        ValueError,
        "RandomAffine: translate is 0.1, must be None or two numbers (x, y) in [0, 1]",
    ),
    (
        lambda: T.RandomAffine(3, scale=(0, 1)),
        ValueError,
        "RandomAffine: scale is (0, 1), must be None or two numbers > 0 (min, max)",
    ),
    (
        lambda: T.RandomAffine(3, shear=(1, 2, 3)),
        ValueError,
        f"RandomAffine: shear is (1, 2, 3), must be {SHEAR}",
    ),
    (
        lambda: T.RandomAffine(3, shear=90),
        ValueError,
        f"RandomAffine: shear is 90, must be {SHEAR}",
    ),
    (
        lambda: T.RandomAffine(3, center=(1, 2, 3)),
        ValueError,
        "RandomAffine: center is (1, 2, 3), must be None or two finite numbers (x, y)",
    ),
    (
        lambda: T.RandomRotation(3, center=4),
        ValueError,
        "RandomRotation: center is 4, must be None or two finite numbers (x, y)",
    ),
    (
        lambda: T.RandomPerspective(1.2),
        ValueError,
        "RandomPerspective: distortion_scale is 1.2, must be a number in [0, 1]",
    ),
    (
        lambda: T.ColorJitter(-1),
        ValueError,
        "ColorJitter: brightness is -1, must be a number >= 0 or two of them (min, max)",
    ),
    (
        lambda: T.ColorJitter(contrast=(0.5, math.nan)),
        ValueError,
        "ColorJitter: contrast is (0.5, nan), must be a number >= 0 or two of them (min, max)",
    ),
    (
        lambda: T.ColorJitter(hue=0.6),
        ValueError,
        "ColorJitter: hue is 0.6, must be a number in [0, 0.5] or two in [-0.5, 0.5] (min, max)",
    ),
    (
        lambda: T.RandomGrayscale(-0.1),
        ValueError,
        "RandomGrayscale: p is -0.1, must be a probability in [0, 1]",
    ),
    (
        lambda: T.RandomErasing(scale=(0.1, 1.1)),
        ValueError,
        "RandomErasing: scale is (0.1, 1.1), must be two numbers in [0, 1] (min, max)",
    ),
    (
        lambda: T.RandomErasing(value="noise"),
        ValueError,
        "RandomErasing: value is 'noise', must be a finite number, one per channel, or 'random'",
    ),
    (
        lambda: T.RandomErasing(value=None),
        TypeError,
        "RandomErasing: value is None, must be a finite number, one per channel, or 'random'",
    ),
    (
        lambda: T.Normalize([0.5], [0.5], 255.0),
        TypeError,
        "Normalize: inplace is 255.0, must be True or False",
    ),
    (
        lambda: T.Normalize([0.5], [0.0]),
        ValueError,
        "Normalize: std is [0.0], must be a finite number other than 0, or one per channel",
    ),
    (
        lambda: T.Normalize([0.5, 0.5], [0.1, 0.1, 0.1]),
        ValueError,
        "Normalize: std is [0.1, 0.1, 0.1], must be as long as mean, which has 2 numbers",
    ),
    (
        lambda: T.Normalize([], [1]),
        ValueError,
        "Normalize: mean is [], must be a finite number or one per channel",
    ),
    (
        lambda: T.ToDtype(torch.uint32),
        TypeError,
        "ToDtype: dtype is torch.uint32, must be torch.uint8, torch.uint16, torch.int16, "
        "torch.int8, torch.int32, torch.int64, torch.float16, torch.bfloat16 or torch.float32",
    ),
    (
        lambda: T.RandAugment(9),
        ValueError,
        "RandAugment: num_ops is 9, must be a whole number from 1 to 8",
    ),
    (
        lambda: T.RandAugment(magnitude=31),
        ValueError,
        "RandAugment: magnitude is 31, must be a whole number from 0 to num_magnitude_bins - 1, "
        "which is 30",
    ),
    (
        lambda: T.TrivialAugment(1),
        ValueError,
        "TrivialAugment: num_magnitude_bins is 1, must be a whole number >= 2",
    ),
    (
        lambda: T.Compose([]),
        ValueError,
        "Compose: transforms is empty, must hold at least one",
    ),
    (
        lambda: T.Compose(T.Resize(3)),
        TypeError,
        "Compose: transforms is a Resize, must be a sequence of transforms",
    ),
    (
        lambda: T.Compose([3]),
        TypeError,
        "Compose: transforms holds a int, must hold transforms or other callables",
    ),
    (
        lambda: T.Compose([T.RandomHorizontalFlip]),
        TypeError,
        "Compose: transforms holds the class RandomHorizontalFlip, must hold its instances, "
        "RandomHorizontalFlip(...)",
    ),
    (
        lambda: T.Compose([T.Resize(3)], seed=0.5),
        TypeError,
        "Compose: seed is 0.5, must be a whole number or None",
    ),
    (
        lambda: T.Compose([T.Resize(3)], boxes="clamp", min_area=4),
        ValueError,
        "Compose: min_area is 4, must be left out unless boxes='sanitize'",
    ),
    (
        lambda: T.Compose([T.Resize(3)], boxes="sanitize", min_visibility=1.5),
        ValueError,
        "Compose: min_visibility is 1.5, must be a number in [0, 1]",
    ),
    (
        lambda: T.Compose([T.Resize(3)], boxes="sanitize", min_size="1"),
        TypeError,
        "Compose: min_size is '1', must be a finite number >= 0",
    ),
    (
        lambda: T.Compose([T.Resize(3)], memory_format=torch.preserve_format),
        ValueError,
        "Compose: memory_format is torch.preserve_format, must be torch.contiguous_format or "
        "torch.channels_last",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), ARGUMENTS, ids=[m for *_, m in ARGUMENTS])
def test_arguments(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == f"visops.transforms.{message}"


def uint8(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.uint8)


# call, exception, message after "visops.transforms."
IMAGES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: T.Normalize([0.5], [0.5])(uint8(3, 4, 5)),
        TypeError,
        "Normalize: the image has dtype torch.uint8, must be floating; put ToDtype(torch.float32, "
        "scale=True) before it",
    ),
    (
        lambda: T.Normalize([0.5] * 3, [0.5])(torch.zeros(1, 4, 5)),
        ValueError,
        "Normalize: mean has 3 numbers, the image has 1 channels",
    ),
    (
        lambda: T.ColorJitter(0.5, 0.5)(torch.zeros(4, 8, 9)),
        ValueError,
        "ColorJitter: the image has 4 channels, must have 1 or 3",
    ),
    (
        lambda: T.RandAugment()(torch.zeros(2, 8, 9)),
        ValueError,
        "RandAugment: the image has 2 channels, must have 1 or 3",
    ),
    (
        lambda: T.RandomErasing(value=(1, 2))(torch.zeros(3, 8, 9)),
        ValueError,
        "RandomErasing: value has 2 numbers, the image has 3 channels",
    ),
    (
        lambda: T.RandomErasing(value="random")(uint8(3, 8, 9)),
        TypeError,
        "RandomErasing: the sample has dtype torch.uint8, must be floating for value='random'; put "
        "ToDtype(torch.float32, scale=True) before it",
    ),
    (
        lambda: T.RandomCrop((9, 10), padding=(0, 1))(torch.zeros(3, 8, 9)),
        ValueError,
        "RandomCrop: size is (9, 10), the image has height 8 and width 9, padded by (0, 1, 0, 1); "
        "must not be larger, unless pad_if_needed",
    ),
    (
        lambda: T.RandomCrop(9)([torch.zeros(3, 9, 9), torch.zeros(3, 12, 8)]),
        ValueError,
        "RandomCrop: size is (9, 9), the image of sample 1 has height 12 and width 8; must not be "
        "larger, unless pad_if_needed",
    ),
    (
        lambda: T.Resize(9)([torch.zeros(3, 20, 30), torch.zeros(3, 20, 20)]),
        ValueError,
        "Compose: sample 0 comes out with 9 rows and 13 columns, sample 1 with 9 and 9; must be "
        "the same in a batch (end with Resize((height, width)) or CenterCrop)",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), IMAGES, ids=[m for *_, m in IMAGES])
def test_images(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == f"visops.transforms.{message}"


def test_numpy_numbers_are_accepted() -> None:
    import numpy as np

    assert T.Resize(np.int64(3)).size == 3
    assert T.RandomHorizontalFlip(np.float32(0.5)).p == 0.5
    assert T.Normalize(np.array([0.5, 0.25]), torch.tensor([1.0, 2.0])).mean == [0.5, 0.25]
    assert T.RandomRotation(np.array([1, 2])).degrees == (1.0, 2.0)


def test_interpolation_may_come_from_torchvision() -> None:
    mode = pytest.importorskip("torchvision.transforms").InterpolationMode
    assert T.Resize(3, interpolation=mode.BICUBIC).interpolation == "bicubic"
    assert T.Resize(3, interpolation=mode.NEAREST_EXACT).interpolation == "nearest"
    assert T.Resize(3, interpolation=2).interpolation == "bilinear"


@pytest.mark.parametrize("dtype", [torch.uint64, torch.uint32, torch.bool, torch.complex64])
def test_dtypes_that_no_pass_takes(dtype: torch.dtype) -> None:
    message = (
        f"visops.transforms: the sample has dtype {dtype}, must be uint8, uint16, int8, int16, "
        "int32, int64, float16, bfloat16, float32 or float64"
    )
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        T.RandomHorizontalFlip(1.0)(torch.zeros(3, 8, 9).to(dtype))


def test_repr_shows_what_was_given() -> None:
    shown = repr(T.RandAugment(num_ops=3))
    assert "num_ops=3" in shown
    assert "draws" not in shown
