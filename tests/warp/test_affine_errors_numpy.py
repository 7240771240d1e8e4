"""Bad input of the affine warp of NumPy arrays; see test_affine_errors.py for tensors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import visops
from bad_input import check, table

IDENTITY = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
LARGEST = 2**31 - 1


def array(dtype: Any = np.uint8, shape: Any = (4, 5, 3)) -> np.ndarray:
    return np.zeros(shape, dtype)


def warp(image: Any, matrix: Any = IDENTITY, size: Any = None, **options: Any) -> Callable[[], Any]:
    return lambda: visops.warp_affine(image, matrix, size, **options)


@table(
    (
        ValueError,
        "warp_affine: image has shape [4], must be [height, width] or [height, width, channels]",
        warp(array(shape=(4,))),
    ),
    (ValueError, "warp_affine: image has shape [1, 4, 5, 3]", warp(array(shape=(1, 4, 5, 3)))),
    (TypeError, "warp_affine: image has dtype uint32, which is not supported", warp(array("u4"))),
    (TypeError, "warp_affine: image has dtype complex64, which is", warp(array(np.complex64))),
    (TypeError, "warp_affine: image has dtype object, which is", warp(array(object))),
    (TypeError, "warp_affine: image has dtype [('a', 'u1')], which", warp(array([("a", "u1")]))),
    (
        ValueError,
        "warp_affine: mode of an image of bool must be 'nearest'",
        warp(array(bool)),
    ),
    (
        TypeError,
        "warp_affine: matrix can't be converted to a float64 array",
        warp(array(), "abc"),
    ),
    (
        TypeError,
        "warp_affine: matrix can't be converted to a float64 array",
        warp(array(), [[1, 2], [3]]),
    ),
    (
        TypeError,
        "warp_affine: matrix can't be converted to a float64 array",
        warp(array(), np.ones((2, 3), complex)),
    ),
    (
        ValueError,
        "warp_affine: matrix has shape [3, 3], must be [2, 3]",
        warp(array(), np.eye(3)),
    ),
    (
        ValueError,
        "warp_affine: matrix has shape [1, 2, 3], must be [2, 3]",
        warp(array(), [IDENTITY]),
    ),
    (
        ValueError,
        "warp_affine: fill has 2 values, image has 3 channels (1 value, or 1 per channel)",
        warp(array(), fill=(1, 2)),
    ),
    (
        ValueError,
        "warp_affine: fill[0] is -1, must be within [0, 255] for an image of uint8",
        warp(array(), fill=-1),
    ),
    (
        TypeError,
        "warp_affine: fill holds a list, must be a number or one per channel",
        warp(array(), fill=[[1], [2], [3]]),
    ),
    (
        ValueError,
        "warp_affine: mode is 'linear', must be 'nearest', 'bilinear' or 'bicubic'",
        warp(array(), mode="linear"),
    ),
    (TypeError, "warp_affine: mode is a int, must be a string", warp(array(), mode=1)),
    (
        ValueError,
        "warp_affine: padding_mode is 'edge', must be",
        warp(array(), padding_mode="edge"),
    ),
    (ValueError, "warp_affine: convention is 'cv', must be", warp(array(), convention="cv")),
    (ValueError, "warp_affine: size must be (height, width)", warp(array(), size=4)),
    (ValueError, "warp_affine: size must be (height, width)", warp(array(), size=(4,))),
    (
        ValueError,
        "warp_affine: size[1] (width) is -4, must not be negative",
        warp(array(), size=(4, -4)),
    ),
    (
        TypeError,
        "warp_affine: size[0] (height) is a float, must be an integer",
        warp(array(), size=(4.5, 4)),
    ),
    (
        ValueError,
        "warp_affine: size[0] (height) does not fit 64 bits",
        warp(array(), size=(2**70, 4)),
    ),
    (
        ValueError,
        "warp_affine: output of 1 x 3 x 2147483647 x 2147483647 uint8 elements passes 2^63 bytes",
        warp(array(), size=(LARGEST, LARGEST)),
    ),
    (
        TypeError,
        "warp_affine: out is a Tensor, must be a numpy.ndarray",
        warp(array(), out=torch.zeros(4, 5, 3)),
    ),
    (
        ValueError,
        "warp_affine: out has shape [4, 5, 3], must have the image's rank and channels and 4 x 4",
        warp(array(), size=(4, 4), out=array()),
    ),
    (
        ValueError,
        "warp_affine: out has another dtype than image",
        warp(array(), out=array(np.float32)),
    ),
    (
        ValueError,
        "warp_affine: out is read-only",
        warp(array(), out=np.broadcast_to(array(shape=(4, 5, 1)), (4, 5, 3))),
    ),
    (
        ValueError,
        "warp_affine: out has shape [4, 5, 3] and strides [0, 3, 1] in bytes; its elements must",
        warp(array(), out=np.lib.stride_tricks.as_strided(array(), (4, 5, 3), (0, 3, 1))),
    ),
    (
        ValueError,
        "warp_affine: out has shape [4, 5, 3] and strides [-3, 3, 1] in bytes; its elements must",
        warp(array(), out=np.lib.stride_tricks.as_strided(array()[1:], (4, 5, 3), (-3, 3, 1))),
    ),
)
def test_arrays(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)
