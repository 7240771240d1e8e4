"""Bad input to crops and pasting: each row is an input and the message it must give."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from bad_input import check, table
from torch import Tensor

NAN, INF = float("nan"), float("inf")
OPS = torch.ops.visops


def images(dtype: torch.dtype = torch.float32, **where: Any) -> Tensor:
    return torch.zeros(2, 3, 8, 9, dtype=dtype, **where)


def boxes(*rows: Any) -> Tensor:
    return torch.tensor(rows or [[0.0, 1, 1, 5, 5]])


def patches(count: int = 1, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(count, 3, 4, 4, dtype=dtype)


def crop(*arguments: Any, **keywords: Any) -> Callable[[], Any]:
    return lambda: visops.crop_rois(*arguments, **keywords)


def paste(*arguments: Any, **keywords: Any) -> Callable[[], Any]:
    return lambda: visops.paste_rois(*arguments, **keywords)


# Bad boxes, whose errors both functions share.
BOXES = (
    ("boxes[0] has batch index 2, images has batch size 2", boxes([2.0, 1, 1, 5, 5])),
    (
        "boxes[1] has batch index -1, images has batch size 2",
        boxes([0.0, 1, 1, 5, 5], [-1.0, 1, 1, 5, 5]),
    ),
    ("boxes[0] has batch index 0.5, must be an integer", boxes([0.5, 1, 1, 5, 5])),
    ("boxes[0] has batch index nan, must be an integer", boxes([NAN, 1, 1, 5, 5])),
    ("boxes[0] has batch index inf, must be an integer", boxes([INF, 1, 1, 5, 5])),
    ("boxes[0] is [0, nan, 1, 5, 5], must be finite", boxes([0, NAN, 1, 5, 5])),
    ("boxes[0] is [1, 1, 1, inf, 5], must be finite", boxes([1, 1, 1, INF, 5])),
    (
        "boxes[0] is [0, 1, 1, 1e+300, 5], must be finite, in float32 too",
        boxes([0, 1, 1, 1e300, 5]).new_tensor([[0, 1, 1, 1e300, 5]], dtype=torch.float64),
    ),
    (
        "boxes[0] is [0, 5, 1, 4.5, 5], must have x2 >= x1 and y2 >= y1",
        boxes([0, 5, 1, 4.5, 5]),
    ),
    ("boxes[0] is [0, 5, 1, 6, 0], must have x2 >= x1 and y2 >= y1", boxes([0, 5, 1, 6, 0])),
    ("boxes has shape [1, 4], must be [K, 5]", torch.zeros(1, 4)),
    ("boxes has shape [5], must be [K, 5]", torch.zeros(5)),
    ("boxes has dtype bool, must be a floating or integer type", torch.zeros(1, 5).bool()),
)


@pytest.mark.parametrize(("message", "bad"), BOXES, ids=[m for m, _ in BOXES])
def test_boxes(message: str, bad: Tensor) -> None:
    count = bad.shape[0]
    check(RuntimeError, f"crop_rois: {message}", crop(images(), bad, 4))
    check(RuntimeError, f"paste_rois: {message}", paste(images(), patches(count), bad))
    arrays = images().numpy(), patches(count).numpy(), bad.numpy()
    check(ValueError, f"crop_rois: {message}", crop(arrays[0], arrays[2], 4))
    check(ValueError, f"paste_rois: {message}", paste(*arrays))


SIZED = "must have four dimensions, [B, C, H, W]"


@table(
    (
        RuntimeError,
        f"crop_rois: images has shape [3, 8, 9], {SIZED}",
        crop(images()[0], boxes(), 4),
    ),
    (RuntimeError, "crop_rois: size is [0, 4], must be positive", crop(images(), boxes(), (0, 4))),
    (RuntimeError, "crop_rois: size is [-1, -1], must be positive", crop(images(), boxes(), -1)),
    (
        TypeError,
        "crop_rois: size is (1, 2, 3), must be an integer",
        crop(images(), boxes(), (1, 2, 3)),
    ),
    (TypeError, "crop_rois: size is 2.5, must be an integer", crop(images(), boxes(), 2.5)),
    (
        RuntimeError,
        "crop_rois: size has height 2147483648 and width 1, must be below 2^31",
        crop(images(), boxes(), (2**31, 1)),
    ),
    (
        RuntimeError,
        "crop_rois: result of shape [3, 3, 2147483647, 2147483647] passes 2^63 bytes",
        crop(images(), boxes().expand(3, 5), (2**31 - 1, 2**31 - 1)),
    ),
    (
        RuntimeError,
        "crop_rois: interpolation is 'cubic', must be 'nearest', 'bilinear' or 'bicubic'",
        crop(images(), boxes(), 4, interpolation="cubic"),
    ),
    (
        RuntimeError,
        "crop_rois: padding_mode is 'wrap', must be",
        crop(images(), boxes(), 4, padding_mode="wrap"),
    ),
    (
        RuntimeError,
        "crop_rois: interpolation of images of int64 must be 'nearest'",
        crop(images(torch.int64), boxes(), 4),
    ),
    (
        RuntimeError,
        "crop_rois: images has dtype complex64, which is not supported",
        crop(images(torch.complex64), boxes(), 4),
    ),
    (
        RuntimeError,
        "crop_rois: fill has 2 values, images have 3 channels (1 value, or 1 per channel)",
        crop(images(), boxes(), 4, fill=[1, 2]),
    ),
    (
        RuntimeError,
        "crop_rois: fill has 80 values, at most 64 different ones are supported",
        crop(torch.zeros(1, 80, 2, 2), boxes(), 4, fill=[1] * 80),
    ),
    (
        RuntimeError,
        "crop_rois: fill[0] is 300, must be within [0, 255] for an image of uint8",
        crop(images(torch.uint8), boxes(), 4, fill=300),
    ),
    (TypeError, "crop_rois: fill is 'x', must be a number", crop(images(), boxes(), 4, fill="x")),
    (
        RuntimeError,
        "crop_rois: images of 0 x 9 pixels have nothing to pad with",
        crop(torch.zeros(1, 1, 0, 9), boxes(), 4, padding_mode="reflect"),
    ),
    (TypeError, "crop_rois: images is a list, must be", crop([1], boxes(), 4)),
    (TypeError, "crop_rois: boxes is a ndarray, must be", crop(images(), boxes().numpy(), 4)),
    (TypeError, "crop_rois: device is for arrays", crop(images(), boxes(), 4, device="cpu")),
    (
        ValueError,
        "crop_rois: boxes is a list of 3, images has batch size 2, must be at most one tensor",
        crop(images(), [torch.zeros(3, 4)] * 3, 4),
    ),
    (
        ValueError,
        "crop_rois: boxes[1] has shape [3, 5], must be [L, 4]",
        crop(images(), [torch.zeros(3, 4), torch.zeros(3, 5)], 4),
    ),
    (
        ValueError,
        "crop_rois: boxes[1] has shape [3, 5], must be [L, 4]",
        crop(images().numpy(), [np.zeros((3, 4)), np.zeros((3, 5))], 4),
    ),
)
def test_crops(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@table(
    (
        RuntimeError,
        f"paste_rois: images has shape [3, 8, 9], {SIZED}",
        paste(images()[0], patches(), boxes()),
    ),
    (
        RuntimeError,
        f"paste_rois: patches has shape [3, 4, 4], {SIZED}",
        paste(images(), patches()[0], boxes()),
    ),
    (
        RuntimeError,
        "paste_rois: patches has shape [2, 3, 4, 4], must begin with [1, 3]",
        paste(images(), patches(2), boxes()),
    ),
    (
        RuntimeError,
        "paste_rois: patches has dtype float64, images has float32",
        paste(images(), patches().double(), boxes()),
    ),
    (
        RuntimeError,
        "paste_rois: patches has size [0, 4]; with boxes its height and width must be positive",
        paste(images(), patches()[:, :, :0], boxes()),
    ),
    (
        RuntimeError,
        "paste_rois: images has dtype int64, must be a floating type, uint8, int16 or uint16",
        paste(images(torch.int64), patches(1, torch.int64), boxes()),
    ),
    (
        RuntimeError,
        "paste_rois: blend is 'poisson', must be replace, feather or alpha",
        paste(images(), patches(), boxes(), blend="poisson"),
    ),
    (
        RuntimeError,
        "paste_rois: feather is 0, must be finite and > 0",
        paste(images(), patches(), boxes(), blend="feather", feather=0),
    ),
    (
        RuntimeError,
        "paste_rois: feather is nan, must be finite and > 0",
        paste(images(), patches(), boxes(), blend="feather", feather=NAN),
    ),
    (
        RuntimeError,
        "paste_rois: interpolation is 'cubic', must be 'nearest', 'bilinear' or 'bicubic'",
        paste(images(), patches(), boxes(), interpolation="cubic"),
    ),
    (
        RuntimeError,
        "paste_rois: alpha is None, must be given where blend is 'alpha'",
        paste(images(), patches(), boxes(), blend="alpha"),
    ),
    (
        RuntimeError,
        "paste_rois: alpha is given, must be None unless blend is 'alpha'",
        paste(images(), patches(), boxes(), alpha=torch.zeros(1, 4, 4)),
    ),
    (
        RuntimeError,
        "paste_rois: alpha has shape [1, 4, 5], must be [1, 4, 4]",
        paste(images(), patches(), boxes(), blend="alpha", alpha=torch.zeros(1, 4, 5)),
    ),
    (
        TypeError,
        "paste_rois: alpha has dtype uint8, must be a floating type or bool",
        paste(images(), patches(), boxes(), blend="alpha", alpha=torch.zeros(1, 4, 4).byte()),
    ),
    (
        TypeError,
        "paste_rois: alpha has layout mkldnn, must be dense; call to_dense() on it",
        paste(images(), patches(), boxes(), blend="alpha", alpha=torch.zeros(1, 4, 4).to_mkldnn()),
    ),
    (TypeError, "paste_rois: patches is a ndarray", paste(images(), patches().numpy(), boxes())),
    (
        TypeError,
        "paste_rois: alpha is a Tensor, must be a numpy.ndarray",
        paste(
            images().numpy(), patches().numpy(), boxes().numpy(), blend="alpha",
            alpha=torch.zeros(1, 4, 4),
        ),
    ),
)  # fmt: skip
def test_pasting(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


CROP, PASTE = ("bilinear", "constant"), ("replace", 8.0, "bilinear")


@table(
    (
        RuntimeError,
        "crop_rois: size is [4], must have two numbers",
        lambda: OPS.crop_rois(images(), boxes(), [4, 4, 4][:1]),
    ),
    (
        RuntimeError,
        "crop_rois_backward_images: images_size is [2, 3], must have four numbers",
        lambda: OPS.crop_rois_backward_images(patches(), boxes(), [2, 3], *CROP),
    ),
    (
        RuntimeError,
        "crop_rois_backward_images: grad has shape [2, 3, 4, 4], must begin with [1, 3]",
        lambda: OPS.crop_rois_backward_images(patches(2), boxes(), [2, 3, 8, 9], *CROP),
    ),
    (
        RuntimeError,
        "crop_rois_backward_images: grad has dtype uint8, must be a floating type",
        lambda: OPS.crop_rois_backward_images(
            patches(1, torch.uint8), boxes(), [2, 3, 8, 9], *CROP
        ),
    ),
    (
        RuntimeError,
        "crop_rois_backward_boxes: boxes has dtype int64, must be a floating type to have",
        lambda: OPS.crop_rois_backward_boxes(patches(), images(), boxes().long(), *CROP, [0.0]),
    ),
    (
        RuntimeError,
        "crop_rois_backward_boxes: grad has dtype float64, must be float32",
        lambda: OPS.crop_rois_backward_boxes(patches().double(), images(), boxes(), *CROP, [0.0]),
    ),
    (
        RuntimeError,
        "paste_rois_backward_patches: patches has shape [2, 3, 4, 4], must begin with [1, 3]",
        lambda: OPS.paste_rois_backward_patches(images(), boxes(), None, [2, 3, 4, 4], *PASTE),
    ),
    (
        RuntimeError,
        "paste_rois_backward_alpha: grad has shape [2, 3, 8, 8], must be [2, 3, 8, 9]",
        lambda: OPS.paste_rois_backward_alpha(
            images()[..., 1:], images(), patches(), boxes(), torch.zeros(1, 4, 4), "bilinear"
        ),
    ),
    (
        RuntimeError,
        "paste_rois: alpha has dtype float64, must be float32 for images of float32",
        lambda: OPS.paste_rois(
            images(), patches(), boxes(), torch.zeros(1, 4, 4).double(), "alpha"
        ),
    ),
)
def test_operators(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


def test_devices() -> None:
    check(
        RuntimeError,
        "crop_rois: boxes is on cpu, images is on meta; all tensors must be on one device",
        crop(images(device="meta"), boxes(), 4),
    )
