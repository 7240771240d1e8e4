"""Bad input of augment: changes of a valid call, and the error."""

import numpy as np
import torch
from torch import (
    bool,
    complex64,
    eye,
    int16,
    int32,
    int64,
    tensor,
    uint8,
    zeros,
)

from operators.case import INF, NAN, Errors, bad, bad_type, bad_value

IDENTITY = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
IMAGES = zeros(2, 3, 4, 5)


ERRORS: dict[str, Errors] = {
    "augment": Errors(
        {"images": IMAGES, "matrix": IDENTITY, "size": (6, 7)},
        bad(
            images=zeros(2, 3, 8, 9, dtype=int32),
            displacement=zeros(2, 2, 2),
            says="has dtype int32, must be uint8, float16, bfloat16, ",
        ),
        bad(
            images=zeros(2, 3, 8, 9, dtype=bool),
            displacement=zeros(2, 2, 2),
            says="has dtype bool, must be uint8, float16, bfloat16, ",
        ),
        bad(displacement=zeros(2, 2, 2), mode="lanczos", says="is 'lanczos', must be 'nearest',"),
        bad(padding_mode="foo", says="is 'foo', must be 'constant', "),
        bad(
            images=zeros(2, 3, 8, 9, dtype=uint8),
            fill=300,
            says="fill[0] is 300, must be within [0, 255]",
        ),
        bad(displacement=zeros(2, 2, 2), fill=[1, 2], says="has 2 values, images have 3 channels"),
        bad(size=(4,), says="has 1 values, must be"),
        bad_value(matrix=[[0] * 3, [0] * 3], displacement=zeros(2, 2, 2), says="is singular"),
        bad_type(out=1j, says="is a complex, must be a torch.Tensor"),
        bad(
            images=[zeros(3, 8, 9, dtype=int32), zeros(3, 8, 9, dtype=int32)],
            displacement=zeros(2, 2, 2),
            says="has dtype int32, must be uint8, float16, bfloat16, ",
        ),
        bad(
            images=[zeros(3, 8, 9, dtype=bool), zeros(3, 8, 9, dtype=bool)],
            displacement=zeros(2, 2, 2),
            says="has dtype bool, must be uint8, float16, bfloat16, ",
        ),
        bad(
            images=[zeros(3, 8, 9, dtype=uint8), zeros(3, 8, 9, dtype=uint8)],
            fill=300,
            says="fill[0] is 300, must be within [0, 255]",
        ),
        bad_type(images="photo.jpg", says="is a str, must be a torch.Tensor, a numpy.ndarray, or"),
        bad_value(
            images=np.zeros((4, 5, 3), np.uint8),
            says="has shape [4, 5, 3], must be [batch, channels, height, width] or [batch,",
        ),
        bad_value(images=zeros(3, 4), says="has shape [3, 4], must be [batch, channels, height,"),
        bad(images=zeros(2, 3, 4, 5, dtype=int16), says="image has dtype int16, must be uint8,"),
        bad(images=zeros(2, 3, 4, 5, dtype=complex64), says="image has dtype complex64, which is"),
        bad(images=np.zeros((1, 4, 5, 3), np.int32), says="image has dtype int32, must be uint8,"),
        bad_type(images=np.zeros((1, 4, 5, 3), object), says="has dtype object, must be uint8,"),
        bad_value(layout="NCHW", says="is 'NCHW', must be 'CHW', 'HWC' or None"),
        bad_value(convention="opencv", says="is 'opencv', must be 'integer' or 'half_pixel'"),
        bad_value(
            memory_format=torch.preserve_format,
            says="is torch.preserve_format, must be torch.contiguous_format or",
        ),
        bad_type(out_dtype="float32", says="is 'float32', must be a torch.dtype"),
        bad(out_dtype=int32, says="is int32, must be uint8, float16, bfloat16, float32 or float64"),
        bad(mode="linear", says="is 'linear', must be 'nearest', 'bilinear', 'bicubic' or"),
        bad(padding_mode="zeros", says="is 'zeros', must be 'constant', 'replicate', 'reflect',"),
        bad(antialias=True, mode="nearest", says="is True, mode is 'nearest'; it needs"),
        bad(mode="lanczos", says="is 'lanczos', antialias is False; it needs antialias=True"),
        bad_value(images=[], says="is an empty list, must hold at least one image"),
        bad_value(images=(), says="is an empty list, must hold at least one image"),
        bad_type(
            images=[zeros(3, 4, 5, dtype=uint8), zeros(3, 9, 8, dtype=uint8), None],
            says="images[2] is a NoneType, must be a torch.Tensor or a numpy.ndarray",
        ),
        bad_type(images=[[[[1.0]]]], says="images[0] is a list, must be a torch.Tensor or a"),
        bad(
            images=[zeros(3, 4, 5, dtype=uint8), zeros(4, 5, dtype=uint8)],
            says="images[1] has shape [4, 5], must be [channels, height, width]",
        ),
        bad_value(
            images=[zeros(6, 5, 3, dtype=uint8), zeros(4, 5, dtype=uint8)],
            says="images[1] has shape [4, 5], must be [height, width, channels]",
        ),
        bad_value(
            images=[np.zeros((4, 5, 3)), np.zeros((2, 4, 5, 3))],
            says="images[1] has shape [2, 4, 5, 3], must be [height, width, channels]",
        ),
        bad(
            images=[
                zeros(3, 4, 5, dtype=uint8),
                zeros(3, 9, 8, dtype=uint8),
                zeros(4, 6, 6, dtype=uint8),
            ],
            says="images[2] has 4 channels, images[0] has 3",
        ),
        bad(
            images=[np.zeros((4, 5, 3)), np.zeros((4, 5))],
            says="images[1] has 1 channels, images[0] has 3",
        ),
        bad(
            images=[np.zeros((9, 5, 3)), np.zeros((6, 5, 3)), np.zeros((4, 5, 2))],
            says="images[2] has 2 channels, images[0] has 3",
        ),
        bad(
            images=[zeros(3, 4, 5, dtype=uint8), zeros(3, 9, 8)],
            says="images[1] has dtype float32, images[0] has uint8",
        ),
        bad_type(
            images=[np.zeros((4, 5, 3)), np.zeros((4, 5, 3), "<U1")],
            says="images[1] has dtype <U1, must be uint8, float16, float32 or float64",
        ),
        bad(
            images=[
                zeros(3, 4, 5, dtype=int64),
                zeros(3, 9, 8, dtype=int64),
                zeros(3, 1, 1, dtype=int64),
            ],
            says="image has dtype int64, must be uint8",
        ),
        bad(
            images=[zeros(3, 4, 5, dtype=uint8), zeros(3, 0, 8, dtype=uint8)],
            padding_mode="reflect",
            says="images[1] of 0 x 8 pixels has nothing to pad with; only padding_mode",
        ),
        bad(
            images=[zeros(3, 4, 5), zeros(3, 9, 8, device="meta")],
            says="images[1] is on meta, images[0] is on cpu",
        ),
        bad(
            images=[
                zeros(3, 4, 5, dtype=uint8),
                zeros(3, 9, 8, dtype=uint8),
                zeros(3, 1, 1, dtype=uint8),
            ],
            matrix=[IDENTITY, IDENTITY],
            says="has batch 2, images have batch 3",
        ),
        bad_type(matrix="abc", says="is not an array of numbers"),
        bad_type(matrix=[[1, 2], [3]], says="is not an array of numbers"),
        bad(matrix=eye(2, 2), says="has shape [2, 2], must be [2, 3], [3, 3], [batch, 2, 3] or"),
        bad(matrix=zeros(1, 1, 2, 3), says="has shape [1, 1, 2, 3], must be [2, 3], [3, 3]"),
        bad(matrix=zeros(3, 2, 3), says="has batch 3, images have batch 2"),
        bad(matrix=tensor([[1, 0, 0], [0, 1, 0], [0, 0, 1]]), says="has dtype int64, must be a"),
        bad(matrix=zeros(2, 3, device="meta"), says="is on meta, image is on cpu"),
        bad(
            matrix=[IDENTITY, [[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]]],
            says="matrix[1] is singular: [[1, 2, 0], [2, 4, 0]] maps the image onto a line",
        ),
        bad(matrix=[[1, 0, 0], [0, 1, 0], [1, 0, 0]], says="is singular: [[1, 0, 0], [0, 1, 0],"),
        bad(matrix=[[1, 0, 0], [0, 1, 0], [0] * 3], says="is singular: [[1, 0, 0], [0, 1, 0],"),
        bad(matrix=[IDENTITY, [[NAN, 0, 0], [0, 1, 0]]], says="matrix[1] is not finite: [[nan,"),
        bad(
            matrix=[
                [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
                [[1, 0, 0], [0, 1, 0], [0, -INF, 1]],
            ],
            says="matrix[1] is not finite: [[1, 0, 0], [0, 1, 0], [0, -inf, 1]]",
        ),
        bad(size=(-1, 4), says="size[0] (height) is -1, must be within [0, 2147483647]"),
        bad(size=(4, 2**40), says="size[1] (width) is 1099511627776, must be within [0,"),
        bad(size=(4, 4, 3), says="has 3 values, must be (height, width)"),
        bad(size=(2**31 - 1, 2**31 - 1), says="output of 2 x 3 x 2147483647 x 2147483647"),
        bad(
            images=zeros(1, 1, 0, 5),
            padding_mode="replicate",
            says="image of 0 x 5 pixels has nothing to pad with; only padding_mode 'constant' is",
        ),
        bad_value(color=zeros(4), says="has shape [4], must be [3, 4], [2, 3, 4] or [2, steps,"),
        bad_value(color=zeros(3, 3), says="has shape [3, 3], must be [3, 4], [2, 3, 4] or [2,"),
        bad_value(color=zeros(4, 4), says="has shape [4, 4], must be [3, 4], [2, 3, 4] or [2,"),
        bad_value(color=zeros(3, 3, 4), says="has shape [3, 3, 4], must be [3, 4], [2, 3, 4] or"),
        bad_value(color=zeros(3, 1, 3, 4), says="has shape [3, 1, 3, 4], must be [3, 4], [2, 3,"),
        bad_value(color=zeros(2, 1, 4, 4), says="has shape [2, 1, 4, 4], must be [3, 4], [2, 3,"),
        bad_value(color=zeros(1, 1, 1, 3, 4), says="has shape [1, 1, 1, 3, 4], must be [3, 4],"),
        bad_type(color=[[1, 2], [3]], says="is not an array of numbers"),
        bad_type(
            color=tensor(
                [[(1 + 0j), 0j, 0j, 0j], [0j, (1 + 0j), 0j, 0j], [0j, 0j, (1 + 0j), 0j]],
                dtype=complex64,
            ),
            says="is complex",
        ),
        bad(color=zeros(1, 9, 3, 4), says="has 9 steps, must be 1 to 8"),
        bad(color=zeros(1, 0, 3, 4), says="has 0 steps, must be 1 to 8"),
        bad(
            color=np.array(
                [
                    [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]],
                    [[NAN, NAN, NAN, NAN], [NAN, NAN, NAN, NAN], [NAN, NAN, NAN, NAN]],
                ]
            ),
            says="color[1] has the value nan, must be finite",
        ),
        bad(
            color=np.array([[1.0, 0.0, 0.0, INF], [0.0, 1.0, 0.0, INF], [0.0, 0.0, 1.0, INF]]),
            says="color[0] has the value inf, must be finite",
        ),
        bad(
            images=zeros(1, 5, 4, 4),
            color=tensor(
                [
                    [1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
                    [0.0, 1.0, 0.0, 0.0, 0.0, 0.0],
                    [0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
                    [0.0, 0.0, 0.0, 1.0, 0.0, 0.0],
                    [0.0, 0.0, 0.0, 0.0, 1.0, 0.0],
                ]
            ),
            layout="CHW",
            says="image has 5 channels, with color at most 4 are supported",
        ),
        bad(color=zeros(3, 4, device="meta"), says="is on meta, image is on cpu"),
        bad(mean=[0.5, 0.5], says="has 2 values, image has 3 channels (1 value, or 1 per channel)"),
        bad_type(mean="a", says="is 'a', must be a number or one per channel"),
        bad(mean=[0, NAN, 0], says="mean[1] is nan, must be finite"),
        bad(std=0, says="std[0] is 0, must be finite and not 0"),
        bad(std=[1, 1, INF], says="std[2] is inf, must be finite and not 0"),
        bad(std=[1] * 4, says="has 4 values, image has 3 channels"),
        bad(fill=[], says="has 0 values, image has 3 channels"),
        bad_type(fill=None, says="is None, must be a number or one per"),
        bad(
            images=zeros(2, 3, 4, 5, dtype=uint8),
            fill=[0, 256, 0],
            says="fill[1] is 256, must be within [0, 255] for an image of uint8",
        ),
        bad(
            images=[
                zeros(3, 4, 5, dtype=uint8),
                zeros(3, 9, 8, dtype=uint8),
                zeros(3, 1, 1, dtype=uint8),
            ],
            fill=NAN,
            says="fill[0] is nan, must be within [0, 255] for an image of uint8",
        ),
        bad(images=zeros(1, 65, 4, 4), fill=[0] * 65, layout="CHW", says="has 65 values, at most"),
        bad(erase_value=(1, 2), says="has 2 values, image has 3 channels"),
        bad_value(window=zeros(2), says="has shape [2], must be [4] or [2, 4] (x1, y1, x2, y2)"),
        bad_value(window=zeros(3, 4), says="has shape [3, 4], must be [4] or [2, 4] (x1, y1, x2,"),
        bad_value(window=zeros(1, 4), says="has shape [1, 4], must be [4] or [2, 4] (x1, y1, x2,"),
        bad_value(window=zeros(2, 2, 2), says="has shape [2, 2, 2], must be [4] or [2, 4] (x1,"),
        bad(window=[[0, 0, 5, 4], [3, 0, 2, 4]], says="window[1] is [3, 0, 2, 4], must be x1,"),
        bad(window=[0, NAN, 5, 4], says="window[0] is [0, nan, 5, 4], must be x1, y1, x2, y2"),
        bad(window=[7, 0, 9, 4], padding_mode="reflect", says="window[0] is [7, 0, 9, 4], has no"),
        bad_type(window="whole", says="is not an array of numbers"),
        bad_value(erase=zeros(4, dtype=int64), says="has shape [4], must be [2, 4] or [2,"),
        bad_value(erase=zeros(3, 4, dtype=int64), says="has shape [3, 4], must be [2, 4] or [2,"),
        bad_value(erase=zeros(2, 3, dtype=int64), says="has shape [2, 3], must be [2, 4] or [2,"),
        bad_value(erase=zeros(2, 1, 5, dtype=int64), says="has shape [2, 1, 5], must be [2, 4]"),
        bad_value(
            erase=zeros(2, 1, 1, 4, dtype=int64),
            says="has shape [2, 1, 1, 4], must be [2, 4] or [2, rectangles, 4] (x1, y1, x2, y2)",
        ),
        bad_type(erase=zeros(2, 4), says="has dtype torch.float32, must be an integer type"),
        bad_type(erase=[[0.5, 0, 1, 1], [0.5, 0, 1, 1]], says="has dtype float64, must be an"),
        bad_type(erase=zeros(2, 4, dtype=bool), says="has dtype torch.bool, must be an integer"),
        bad(erase=zeros(2, 4, dtype=int64, device="meta"), says="is on meta, image is on cpu"),
        bad_type(out=np.zeros((2, 3, 6, 7), np.float32), says="is a ndarray, must be a"),
        bad_value(
            out=zeros(2, 3, 6, 8), says="has shape [2, 3, 6, 8], size is (6, 7); they must agree"
        ),
        bad(out=zeros(1, 3, 6, 7), says="has shape [1, 3, 6, 7], must begin with [2, 3]"),
        bad(out=zeros(6, 7), says="has shape [6, 7], must be [batch, channels, height, width]"),
        bad(out=zeros(2, 3, 6, 7, dtype=int32), says="out_dtype is int32, must be uint8,"),
        bad(
            out=zeros(2, 1, 6, 7).expand(2, 3, 6, 7),
            says="has shape [2, 3, 6, 7] and strides [42, 0, 7, 1]; its elements must not",
        ),
        bad(
            images=IMAGES.clone().requires_grad_(),
            out=zeros(2, 3, 6, 7),
            says="can't be given where a",
        ),
        bad(
            images=[zeros(3, 4, 5), zeros(3, 9, 8).requires_grad_()],
            out=zeros(2, 3, 6, 7),
            says="out can't be given where a gradient is required",
        ),
        bad(
            color=torch.eye(3, 4).requires_grad_(),
            out=zeros(2, 3, 6, 7),
            says="out can't be given where a gradient is required",
        ),
        bad(size=(2**31 - 1, 65536), says="output of shape [2, 3, 2147483647, 65536] can't be"),
        bad(size=4, says="is 4, must be a sequence of integers"),
        bad(size=(1.5, 2), says="is (1.5, 2), must be a sequence of integers"),
        bad_value(mode=1, says="is 1, must be 'nearest', 'bilinear', 'bicubic' or 'lanczos'"),
    ),
}
