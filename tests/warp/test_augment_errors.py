"""Bad images, lists, matrices and sizes of the augmentation, each with its message."""

from typing import Any

import numpy as np
import torch
from bad_input import check, table

from warp.augment_bad_calls import (
    GOOD,
    IDENTITY,
    INF,
    LARGEST,
    NAN,
    SINGULAR,
    call,
    images,
    tensor,
)


@table(
    (
        TypeError,
        "augment: images is a str, must be a torch.Tensor, a numpy.ndarray, or a list of them",
        call("photo.jpg"),
    ),
    (
        ValueError,
        "augment: images has shape [4, 5, 3], must be [batch, channels, height, width] or [batch, "
        "height, width, channels]; single images go in a list",
        call(np.zeros((4, 5, 3), np.uint8)),
    ),
    (
        ValueError,
        "augment: images has shape [3, 4], must be [batch, channels, height, width]",
        call(tensor(shape=(3, 4))),
    ),
    (
        RuntimeError,
        "augment: image has dtype int16, must be uint8, float16",
        call(tensor().short()),
    ),
    (
        RuntimeError,
        "augment: image has dtype complex64, which is not supported",
        call(tensor(dtype=torch.complex64)),
    ),
    (
        RuntimeError,
        "augment: image has dtype int32, must be uint8, float16, bfloat16, float32 or float64",
        call(np.zeros((1, 4, 5, 3), np.int32)),
    ),
    (
        TypeError,
        "augment: images has dtype object, must be uint8, float16, float32 or float64",
        call(np.zeros((1, 4, 5, 3), object)),
    ),
    (
        ValueError,
        "augment: layout is 'NCHW', must be 'CHW', 'HWC' or None",
        call(tensor(), layout="NCHW"),
    ),
    (
        ValueError,
        "augment: convention is 'opencv', must be 'integer' or 'half_pixel'",
        call(tensor(), convention="opencv"),
    ),
    (
        ValueError,
        "augment: memory_format is torch.preserve_format, must be torch.contiguous_format or "
        "torch.channels_last",
        call(tensor(), memory_format=torch.preserve_format),
    ),
    (
        TypeError,
        "augment: out_dtype is 'float32', must be a torch.dtype",
        call(tensor(), out_dtype="float32"),
    ),
    (
        RuntimeError,
        "augment: out_dtype is int32, must be uint8, float16, bfloat16, float32 or float64",
        call(tensor(), out_dtype=torch.int32),
    ),
    (
        RuntimeError,
        "augment: mode is 'linear', must be 'nearest', 'bilinear', 'bicubic' or 'lanczos'",
        call(tensor(), mode="linear"),
    ),
    (
        RuntimeError,
        "augment: padding_mode is 'zeros', must be 'constant', 'replicate', 'reflect', 'symmetric' "
        "or 'circular'",
        call(tensor(), padding_mode="zeros"),
    ),
    (
        RuntimeError,
        "augment: antialias is True, mode is 'nearest'; it needs 'bilinear', 'bicubic' or "
        "'lanczos'",
        call(tensor(), antialias=True, mode="nearest"),
    ),
    (
        RuntimeError,
        "augment: mode is 'lanczos', antialias is False; it needs antialias=True",
        call(tensor(), mode="lanczos"),
    ),
)
def test_images_and_options(error: type[Exception], message: str, call: Any) -> None:
    check(error, message, call)


@table(
    (ValueError, "augment: images is an empty list, must hold at least one image", call([])),
    (ValueError, "augment: images is an empty list, must hold at least one image", call(())),
    (
        TypeError,
        "augment: images[2] is a NoneType, must be a torch.Tensor or a numpy.ndarray",
        call([*images(*GOOD[:2]), None]),
    ),
    (
        TypeError,
        "augment: images[0] is a list, must be a torch.Tensor or a numpy.ndarray",
        call([[[[1.0]]]]),
    ),
    (
        RuntimeError,
        "augment: images[1] has shape [4, 5], must be [channels, height, width]",
        call(images(GOOD[0], (4, 5))),
    ),
    (
        ValueError,
        "augment: images[1] has shape [4, 5], must be [height, width, channels]",
        call(images((6, 5, 3), (4, 5))),
    ),
    (
        ValueError,
        "augment: images[1] has shape [2, 4, 5, 3], must be [height, width, channels]",
        call([np.zeros((4, 5, 3)), np.zeros((2, 4, 5, 3))]),
    ),
    (
        RuntimeError,
        "augment: images[2] has 4 channels, images[0] has 3",
        call(images(*GOOD[:2], (4, 6, 6))),
    ),
    (
        RuntimeError,
        "augment: images[1] has 1 channels, images[0] has 3",
        call([np.zeros((4, 5, 3)), np.zeros((4, 5))]),
    ),
    (
        RuntimeError,
        "augment: images[2] has 2 channels, images[0] has 3",
        call([np.zeros((9, 5, 3)), np.zeros((6, 5, 3)), np.zeros((4, 5, 2))]),
    ),
    (
        RuntimeError,
        "augment: images[1] has dtype float32, images[0] has uint8",
        call([tensor(dtype=torch.uint8, shape=GOOD[0]), tensor(shape=GOOD[1])]),
    ),
    (
        TypeError,
        "augment: images[1] has dtype <U1, must be uint8, float16, float32 or float64",
        call([np.zeros((4, 5, 3)), np.full((4, 5, 3), "a")]),
    ),
    (
        RuntimeError,
        "augment: image has dtype int64, must be uint8",
        call(images(*GOOD, dtype=torch.int64)),
    ),
    (
        RuntimeError,
        "augment: images[1] of 0 x 8 pixels has nothing to pad with; only padding_mode 'constant'",
        call(images((3, 4, 5), (3, 0, 8)), padding_mode="reflect"),
    ),
    (
        RuntimeError,
        "augment: images[1] is on meta, images[0] is on cpu; all tensors must be on one device",
        call([tensor(shape=GOOD[0]), torch.zeros(GOOD[1], device="meta")]),
    ),
    (
        RuntimeError,
        "augment: matrix has batch 2, images have batch 3",
        call(images(*GOOD), [IDENTITY, IDENTITY]),
    ),
)
def test_lists(error: type[Exception], message: str, call: Any) -> None:
    check(error, message, call)


@table(
    (
        TypeError,
        "augment: matrix is not an array of numbers",
        call(tensor(), "abc"),
    ),
    (
        TypeError,
        "augment: matrix is not an array of numbers",
        call(tensor(), [[1, 2], [3]]),
    ),
    (
        RuntimeError,
        "augment: matrix has shape [2, 2], must be [2, 3], [3, 3], [batch, 2, 3] or [batch, 3, 3]",
        call(tensor(), torch.eye(2)),
    ),
    (
        RuntimeError,
        "augment: matrix has shape [1, 1, 2, 3], must be [2, 3], [3, 3]",
        call(tensor(), torch.zeros(1, 1, 2, 3)),
    ),
    (
        RuntimeError,
        "augment: matrix has batch 3, images have batch 2",
        call(tensor(), torch.zeros(3, 2, 3)),
    ),
    (
        RuntimeError,
        "augment: matrix has dtype int64, must be a floating type",
        call(tensor(), torch.eye(3, dtype=torch.int64)),
    ),
    (
        RuntimeError,
        "augment: matrix is on meta, image is on cpu; all tensors must be on one device",
        call(tensor(), torch.zeros(2, 3, device="meta")),
    ),
    (
        RuntimeError,
        "augment: matrix[1] is singular: [[1, 2, 0], [2, 4, 0]] maps the image onto a line",
        call(tensor(), [IDENTITY, SINGULAR]),
    ),
    (
        RuntimeError,
        "augment: matrix is singular: [[1, 0, 0], [0, 1, 0], [1, 0, 0]] maps the image onto a line",
        call(tensor(), [[1, 0, 0], [0, 1, 0], [1, 0, 0]]),
    ),
    (
        RuntimeError,
        "augment: matrix is singular: [[1, 0, 0], [0, 1, 0], [0, 0, 0]]",
        call(tensor(), [[1, 0, 0], [0, 1, 0], [0, 0, 0]], inverse_map=True),
    ),
    (
        RuntimeError,
        "augment: matrix[1] is not finite: [[nan, 0, 0], [0, 1, 0]]",
        call(tensor(), [IDENTITY, [[NAN, 0, 0], [0, 1, 0]]]),
    ),
    (
        RuntimeError,
        "augment: matrix[1] is not finite: [[1, 0, 0], [0, 1, 0], [0, -inf, 1]]",
        call(
            tensor(), [np.eye(3).tolist(), [[1, 0, 0], [0, 1, 0], [0, -INF, 1]]], inverse_map=True
        ),
    ),
    (
        TypeError,
        "augment: matrix has layout sparse_coo, must be dense; call to_dense() on it",
        call(tensor(), torch.ones(1, 2, 3).to_sparse()),
    ),
    (
        RuntimeError,
        "augment: size[0] (height) is -1, must be within [0, 2147483647]",
        call(tensor(), size=(-1, 4)),
    ),
    (
        RuntimeError,
        "augment: size[1] (width) is 1099511627776, must be within [0, 2147483647]",
        call(tensor(), size=(4, 2**40)),
    ),
    (
        RuntimeError,
        "augment: size has 3 values, must be (height, width)",
        call(tensor(), size=(4, 4, 3)),
    ),
    (
        RuntimeError,
        "augment: output of 2 x 3 x 2147483647 x 2147483647 elements passes 2^63 bytes",
        call(tensor(), size=(LARGEST, LARGEST)),
    ),
    (
        RuntimeError,
        "augment: image of 0 x 5 pixels has nothing to pad with; only padding_mode 'constant' is",
        call(tensor(shape=(1, 1, 0, 5)), padding_mode="replicate"),
    ),
)
def test_matrix_and_size(error: type[Exception], message: str, call: Any) -> None:
    check(error, message, call)
