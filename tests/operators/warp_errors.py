"""Bad input of warp: what is changed of a valid call, and what the error says of it."""

import numpy as np
from torch import (
    bool,
    complex64,
    eye,
    float8_e4m3fn,
    float64,
    int16,
    int32,
    int64,
    ones,
    tensor,
    uint8,
    zeros,
)

from operators.case import INF, NAN, Errors, bad, bad_type, bad_value

IDENTITY = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
IMAGES = zeros(2, 3, 4, 5)

ARRAY = np.zeros((4, 5, 3), np.uint8)


def laid(stride: int) -> np.ndarray:
    """Return an array whose rows share their bytes."""
    return np.lib.stride_tricks.as_strided(ARRAY[1:], (4, 5, 3), (stride, 3, 1))


ERRORS: dict[str, Errors] = {
    "warp_affine": Errors(
        {"image": IMAGES, "matrix": IDENTITY},
        bad_type(image=[[1.0]], says="is a list, must be a torch.Tensor or a numpy.ndarray"),
        bad_value(image=zeros(4, 5), says="has shape [4, 5], must be [batch, channels, height,"),
        bad_value(image=zeros(1, 2, 3, 4, 5), says="has shape [1, 2, 3, 4, 5], must be"),
        bad(image=zeros(2, 3, 4, 5, dtype=complex64), says="has dtype complex64, which is not"),
        bad(image=zeros(2, 3, 4, 5, dtype=float8_e4m3fn), says="has dtype float8_e4m3fn, which"),
        bad_type(matrix="abc", says="is a str, must be a tensor or convertible to one of float64"),
        bad_type(matrix=[[1, 2], [3]], says="is a list, must be a tensor or convertible"),
        bad(matrix=eye(3, 3), says="has shape [3, 3], must be [2, 3] or [batch, 2, 3]"),
        bad(matrix=zeros(1, 1, 2, 3), says="has shape [1, 1, 2, 3], must be [2, 3] or [batch, 2,"),
        bad(matrix=zeros(3, 2, 3), says="has batch 3, image has batch 2"),
        bad(matrix=tensor([[1, 0, 0], [0, 1, 0]]), says="has dtype int64, must be a floating type"),
        bad(matrix=zeros(2, 3, device="meta"), says="is on meta, image is on cpu"),
        bad(
            matrix=tensor([IDENTITY, [[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]]]),
            says="matrix[1] is singular: [[1, 2, 0], [2, 4, 0]] maps the image onto a line",
        ),
        bad(
            matrix=tensor([IDENTITY, [[NAN, 0.0, 0.0], [0.0, 1.0, 0.0]]]),
            says="matrix[1] is not finite: [[nan, 0, 0], [0, 1, 0]]",
        ),
        bad(
            matrix=tensor([IDENTITY, [[1.0, 0.0, -INF], [0.0, 1.0, 0.0]]]),
            says="matrix[1] is not finite: [[1, 0, -inf], [0, 1, 0]]",
        ),
        bad(fill=[1, 2], says="has 2 values, image has 3 channels (1 value, or 1 per channel)"),
        bad(fill=[], says="has 0 values, image has 3 channels"),
        bad(
            image=zeros(2, 3, 4, 5, dtype=uint8),
            fill=[0, 256, 0],
            says="fill[1] is 256, must be within [0, 255] for an image of uint8",
        ),
        bad(image=zeros(2, 3, 4, 5, dtype=int16), fill=NAN, says="fill[0] is nan, must be within"),
        bad_type(fill="a", says="is 'a', must be a number or one per channel"),
        bad_type(fill=None, says="is None, must be a number or one per channel"),
        bad(mode="linear", says="is 'linear', must be 'nearest', 'bilinear' or 'bicubic'"),
        bad(padding_mode="zeros", says="is 'zeros', must be 'constant', 'replicate', 'reflect',"),
        bad_value(convention="opencv", says="is 'opencv', must be 'integer' or 'half_pixel'"),
        bad(size=(-1, 4), says="size[0] (height) is -1, must not be negative"),
        bad(size=(4, 4, 3), says="has 3 values, must be (height, width)"),
        bad(size=(4, 2**40), says="size[1] (width) is 1099511627776, at most 2147483647 is"),
        bad(size=(2**31 - 1, 2**31 - 1), says="output of 2 x 3 x 2147483647 x 2147483647 float32"),
        bad(
            image=zeros(2, 3, 4, 5, dtype=bool),
            says="mode of an image of bool must be 'nearest'; convert the image to a floating",
        ),
        bad(
            image=zeros(1, 1, 0, 5),
            size=(2, 2),
            padding_mode="replicate",
            says="of 0 x 5 pixels has nothing to pad with; only padding_mode 'constant'",
        ),
        bad_type(out=np.zeros((4, 5, 3), np.uint8), says="is a ndarray, must be a torch.Tensor"),
        bad_value(
            size=(4, 4), out=IMAGES, says="has shape [2, 3, 4, 5], size is (4, 4); they must agree"
        ),
        bad(out=zeros(1, 3, 4, 5), says="has shape [1, 3, 4, 5], must begin with [2, 3]"),
        bad(out=zeros(4, 5), says="has shape [4, 5], must be [batch, channels, height, width]"),
        bad(out=zeros(2, 3, 4, 5, dtype=float64), says="has dtype float64, image has float32"),
        bad(
            out=zeros(2, 1, 4, 5).expand(2, 3, 4, 5),
            says="has shape [2, 3, 4, 5] and strides [20, 0, 5, 1]; its elements must",
        ),
        bad(
            image=IMAGES.clone().requires_grad_(),
            out=IMAGES,
            says="can't be given where a gradient is",
        ),
        bad(size=(2**31 - 1, 65536), says="output of shape [2, 3, 2147483647, 65536] can't be"),
        bad(matrix=[[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]], says="is singular: [[1, 2, 0], [2, 4, 0]]"),
        bad(matrix=[[NAN, 0.0, 0.0], [0.0, 1.0, 0.0]], says="is not finite: [[nan, 0, 0], [0, 1,"),
        bad(size=4, says="is 4, must be a sequence of integers"),
        bad(size=(1.5, 2), says="is (1.5, 2), must be a sequence of integers"),
        bad(mode=1, says="is 1, must be a string"),
        bad_value(image=np.zeros(4, np.uint8), says="has shape [4], must be [height, width] or"),
        bad_value(image=np.zeros((1, 4, 5, 3), np.uint8), says="has shape [1, 4, 5, 3]"),
        bad_type(image=np.zeros((4, 5, 3), np.uint32), says="has dtype uint32, which is not"),
        bad_type(image=np.zeros((4, 5, 3), np.complex64), says="has dtype complex64, which is"),
        bad_type(image=np.zeros((4, 5, 3), object), says="has dtype object, which is"),
        bad(image=zeros(4, 5, 3, dtype=bool), says="mode of an image of bool must be 'nearest'"),
        bad_type(image=np.zeros((4, 5, 3), np.uint8), matrix="abc", says="can't be converted to"),
        bad_type(
            image=np.zeros((4, 5, 3), np.uint8),
            matrix=[[1, 2], [3]],
            says="can't be converted to a float64 array",
        ),
        bad_type(
            image=np.zeros((4, 5, 3), np.uint8),
            matrix=np.ones((2, 3), np.complex128),
            says="can't be converted to a float64 array",
        ),
        bad(
            matrix=tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], dtype=float64),
            says="has shape [3, 3], must be [2, 3]",
        ),
        bad_value(
            image=np.zeros((4, 5, 3), np.uint8),
            matrix=[IDENTITY],
            says="has shape [1, 2, 3], must be [2, 3]",
        ),
        bad_value(
            image=np.zeros((4, 5, 3), np.uint8),
            fill=(1, 2),
            says="has 2 values, image has 3 channels (1 value, or 1 per channel)",
        ),
        bad(image=zeros(4, 5, 3, dtype=uint8), fill=-1, says="fill[0] is -1, must be within [0,"),
        bad_type(
            image=np.zeros((4, 5, 3), np.uint8),
            fill=[[1], [2], [3]],
            says="holds a list, must be a number or one per channel",
        ),
        bad_type(image=np.zeros((4, 5, 3), np.uint8), mode=1, says="is a int, must be a string"),
        bad(padding_mode="edge", says="is 'edge', must be"),
        bad_value(convention="cv", says="is 'cv', must be"),
        bad_value(image=np.zeros((4, 5, 3), np.uint8), size=4, says="must be (height, width)"),
        bad_value(image=np.zeros((4, 5, 3), np.uint8), size=(4,), says="must be (height, width)"),
        bad(size=(4, -4), says="size[1] (width) is -4, must not be negative"),
        bad_type(
            image=np.zeros((4, 5, 3), np.uint8),
            size=(4.5, 4),
            says="size[0] (height) is a float, must be an integer",
        ),
        bad_value(
            image=np.zeros((4, 5, 3), np.uint8),
            size=(1180591620717411303424, 4),
            says="size[0] (height) does not fit 64 bits",
        ),
        bad_value(
            image=np.zeros((4, 5, 3), np.uint8),
            size=(2**31 - 1, 2**31 - 1),
            says="output of 1 x 3 x 2147483647 x 2147483647 uint8 elements passes 2^63 bytes",
        ),
        bad_type(
            image=np.zeros((4, 5, 3), np.uint8),
            out=zeros(4, 5, 3),
            says="is a Tensor, must be a numpy.ndarray",
        ),
        bad_value(
            image=np.zeros((4, 5, 3), np.uint8),
            size=(4, 4),
            out=np.zeros((4, 5, 3), np.uint8),
            says="has shape [4, 5, 3], must have the image's rank and channels and 4 x 4",
        ),
        bad_value(
            image=np.zeros((4, 5, 3), np.uint8),
            out=np.zeros((4, 5, 3), np.float32),
            says="has another dtype than image",
        ),
        bad_value(image=ARRAY, out=np.broadcast_to(ARRAY[..., :1], (4, 5, 3)), says="is read-only"),
        bad_value(
            image=ARRAY, out=laid(0), says="has shape [4, 5, 3] and strides [0, 3, 1] in bytes"
        ),
        bad_value(image=ARRAY, out=laid(-3), says="has shape [4, 5, 3] and strides [-3, 3, 1] in"),
        bad_type(image=np.zeros((4, 5, 3), [("a", "u1")]), says="has dtype [('a', 'u1')], which"),
        bad(size=(3.0, 5), says="is (3.0, 5), must be a sequence of integers"),
    ),
    "warp_perspective": Errors(
        {
            "image": zeros(2, 1, 4, 4),
            "matrix": tensor(
                [[0.8, 0.1, 12.0], [-0.1, 0.7, 40.0], [-0.0002, 0.0006, 1.0]], dtype=float64
            ),
        },
        bad_type(image=[1], says="is a list, must be a torch.Tensor or a numpy.ndarray"),
        bad_value(image=zeros(4, 4), says="has shape [4, 4], must be [batch, channels, height,"),
        bad_value(image=np.zeros((1, 1, 4, 4)), says="has shape [1, 1, 4, 4], must be [height,"),
        bad_value(image=zeros(2, 1, 4, 4, dtype=int32), says="has dtype int32, which needs mode"),
        bad_value(image=zeros(2, 1, 4, 4, dtype=int64), says="has dtype int64, must be uint8,"),
        bad(image=zeros(1, 4, 4), matrix=np.zeros((3, 2, 3)), says="has batch 3, image has batch"),
        bad(matrix=np.zeros((3, 3)), says="is singular"),
        bad_value(convention="opencv", says="is 'opencv', must be"),
        bad(size=(3.0, 5), says="is (3.0, 5), must be a sequence of integers"),
    ),
    "remap": Errors(
        {"image": ones(3, 4, 4), "map_x": ones(2, 2), "map_y": ones(2, 2)},
        bad_type(image=[1], says="is list, must be a Tensor or an ndarray"),
        bad_value(map_y=ones(2, 3), says="is of shape [2, 3], must be of map_x's, [2, 2]"),
        bad_value(map_x=ones(2), map_y=ones(2), says="is of shape [2], must be [h, w] or [1, h,"),
        bad_value(mode="area", says="is 'area', must be 'bilinear', 'nearest' or 'bicubic'"),
        bad_value(padding_mode="zeros", says="is 'zeros', must be one of 'constant',"),
        bad_value(fill=(1, 2), says="is 2 numbers, must be one, or 3, one per channel"),
        bad_value(image=zeros(3, 0, 4), says="is of shape [3, 0, 4], must be of at least a row"),
    ),
    "ops.affine": Errors(
        {"image": IMAGES, "matrix": eye(2, 3), "size": (4, 5)},
        bad(matrix=eye(3, 3), says="has shape [3, 3]"),
    ),
    "ops.remap": Errors(
        {
            "images": zeros(2, 2, 7, 9),
            "map_x": zeros(2, 3, 4),
            "map_y": zeros(2, 3, 4),
            "size": [6, 8],
            "matrix": None,
            "grid": "bilinear",
            "relative": True,
            "interpolation": "bilinear",
            "padding_mode": "constant",
            "fill": [0.0],
            "to_float": False,
        },
        bad(images=zeros(2, 7, 9), says="have shape [2, 7, 9], must be [B, C, H, W]"),
        bad(map_x=zeros(3, 3, 4), says="has batch 3, must be 1 or that of the images, 2"),
        bad(map_y=zeros(2, 2, 3, 4), says="has shape [2, 2, 3, 4], must be [B, h, w] or [1, h, w]"),
        bad(map_y=zeros(2, 3, 5), says="has shape [2, 3, 5], must be of map_x's height and"),
        bad(map_x=zeros(2, 3, 4, dtype=int64), says="has dtype int64, must be a floating type"),
        bad(
            map_x=zeros(2, 0, 4),
            map_y=zeros(2, 0, 4),
            says="the map has 0 x 4 points, must have at least one",
        ),
        bad(size=[3, 4, 5], says="has 3 values, must be (height, width)"),
        bad(size=[-1, 4], says="size[0] (height) is -1, must not be negative"),
        bad(matrix=zeros(2, 2, 3), says="has shape [2, 2, 3], must be [B, 3, 3] or [1, 3, 3]"),
        bad(matrix=zeros(2, 3, 3), says="has dtype float32, must be float64"),
        bad(grid="cubic", says="is 'cubic', must be 'dense', 'bilinear' or 'spline'"),
        bad(grid="dense", says="the map is of 3 x 4 pixels, size is 6 x 8; they must agree for"),
        bad(interpolation="area", says="mode is 'area', must be 'nearest', 'bilinear' or"),
        bad(padding_mode="zeros", says="is 'zeros', must be 'constant', 'replicate', 'reflect',"),
        bad(fill=[1.0, 2.0, 3.0], says="has 3 values, images have 2 channels (1 value, or 1 per"),
        bad(
            images=zeros(2, 2, 7, 9, dtype=int32),
            says="interpolation of images of int32 must be 'nearest', with their own dtype;",
        ),
        bad(images=zeros(2, 2, 0, 9), says="of 0 x 9 pixels have nothing to read; they must have"),
        bad(
            images=zeros(2, 2, 7, 9, dtype=float64),
            to_float=True,
            says="would round images of float64; it must be False for them",
        ),
    ),
}
