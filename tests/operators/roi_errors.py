"""Bad input of regions: what is changed of a valid call, and what the error says of it."""

from typing import Any

import numpy as np
import torch
from torch import (
    Tensor,
    bool,
    complex64,
    float64,
    int32,
    int64,
    tensor,
    uint8,
    zeros,
)

from operators.case import INF, NAN, Bad, Errors, bad, bad_type, bad_value

MAPS = zeros(2, 3, 8, 9)


def rois(*bad: list[float], dtype: torch.dtype = torch.float32) -> Tensor:
    """Return two valid boxes, followed by others."""
    return tensor([[0.0, 1, 1, 5, 5], [0, 1, 1, 5, 5], *bad], dtype=dtype)


def turned(*bad: list[float]) -> Tensor:
    """Return two valid rotated boxes, followed by others."""
    return tensor([[0.0, 4, 4, 5, 5, 1], [0, 4, 4, 5, 5, 1], *bad])


# What the third box may be, and what the error says of it.
ROWS: tuple[tuple[list[float], str], ...] = (
    ([2, 1, 1, 5, 5], "has batch index 2, {} has batch size 2"),
    ([1e6, 1, 1, 5, 5], "has batch index 1e+06, {} has batch size 2"),
    ([-1, 1, 1, 5, 5], "has batch index -1, {} has batch size 2"),
    ([0.5, 1, 1, 5, 5], "has batch index 0.5, must be an integer"),
    ([NAN, 1, 1, 5, 5], "has batch index nan, must be an integer"),
    ([INF, 1, 1, 5, 5], "has batch index inf, must be an integer"),
    ([0, NAN, 1, 5, 5], "is [0, nan, 1, 5, 5], must be finite"),
    ([0, 1, NAN, 5, 5], "is [0, 1, nan, 5, 5], must be finite"),
    ([1, 1, 1, INF, 5], "is [1, 1, 1, inf, 5], must be finite"),
    ([1, 1, -INF, 5, 5], "is [1, 1, -inf, 5, 5], must be finite"),
    ([0, 5, 1, 4, 5], "is [0, 5, 1, 4, 5], must have x2 >= x1 and y2 >= y1"),
    ([0, 1, 5, 5, 4.5], "is [0, 1, 5, 5, 4.5], must have x2 >= x1 and y2 >= y1"),
)


def of_boxes(images: str, inverted: int = 0, **options: Any) -> list[Bad]:
    """Return a row for each; boxes lie in memory by rows and by columns in turn.

    The last two are inverted, which some operators allow.
    """
    found = []
    for i, (row, says) in enumerate(ROWS[:-2] if inverted else ROWS):
        boxes = rois(row, [7, 1, 1, 5, 5])
        layout = boxes.mT.contiguous().mT if i % 2 else boxes
        found.append(bad(boxes=layout, **options, says="boxes[2] " + says.format(images)))
    return found


ERRORS: dict[str, Errors] = {
    "roi_align": Errors(
        {"input": MAPS, "boxes": rois(), "output_size": 7},
        *of_boxes("input", aligned=True),
        *of_boxes("input", aligned=True, reduce="max"),
        bad(boxes=rois([0, -3e38, 1, 3e38, 5]), says="boxes[2] is [0, -3e+38, 1, 3e+38, 5], must"),
        bad(input=zeros(3, 4), says="has shape [3, 4], must be [N, C, H, W]"),
        bad(input=zeros(1, 2, 3, 4, 5), says="has shape [1, 2, 3, 4, 5], must be [N, C, H, W]"),
        bad(boxes=rois()[:, 1:], says="has shape [2, 4], must be [K, 5]"),
        bad(boxes=tensor([0.0, 1.0, 1.0, 5.0, 5.0]), says="has shape [5], must be [K, 5]"),
        bad(boxes=zeros(()), says="has shape [], must be [K, 5]"),
        bad(output_size=(0, 7), says="is [0, 7], must be positive"),
        bad(output_size=-1, says="is [-1, -1], must be positive"),
        bad(output_size=(2**31, 1), says="is [2147483648, 1], must be below 2^31"),
        bad(spatial_scale=0.0, says="is 0, must be finite and > 0"),
        bad(spatial_scale=-1, says="is -1, must be finite and > 0"),
        bad(spatial_scale=NAN, says="is nan, must be"),
        bad(spatial_scale=INF, says="is inf, must be"),
        bad(sampling_ratio=5000, says="is 5000, must be at most 4096"),
        bad(sampling_ratio=257, reduce="max", says="is 257, must be at most 256 for maxima"),
        bad(
            input=zeros(2, 3, 0, 5),
            says="has size [2, 3, 0, 5]; with boxes its height and width must be positive",
        ),
        bad(input=zeros(2, 3, 8, 9, dtype=int32), says="has dtype int32, must be float16,"),
        bad(input=zeros(2, 3, 8, 9, dtype=complex64), says="has dtype complex64, which is not"),
        bad(boxes=rois().bool(), says="has dtype bool, must be a floating or integer type"),
        bad(
            boxes=rois([0, 1, 1, 1e30, 5], dtype=float64),
            spatial_scale=10000000000.0,
            says="boxes[2] is [0, 1, 1, 1e+30, 5], must be finite, and its size too in float32",
        ),
        bad(
            boxes=tensor([[0, 1, 1, 5, 5], [0, 1, 1, 5, 5], [9, 1, 1, 5, 5]]),
            says="boxes[2] has batch index 9, input has batch size 2",
        ),
        bad_type(input=[1, 2], says="is a list, must be a torch.Tensor"),
        bad_type(boxes={}, says="is a dict, must be a tensor or a list"),
        bad_type(boxes=[rois()[:, 1:], 2.0], says="boxes[1] is a float, must be a torch.Tensor"),
        bad_value(boxes=[rois()[:, 1:], rois()], says="boxes[1] has shape [2, 5], must be [L, 4]"),
        bad_value(boxes=[zeros(4), zeros(4)], says="boxes[0] has shape [4], must be [L, 4]"),
        bad_value(
            boxes=[rois()[:, 1:]] * 3,
            says="is a list of 3, input has batch size 2, must be at most one tensor for",
        ),
        bad_value(reduce="sum", says="is 'sum', must be 'mean' or 'max'"),
        bad_type(output_size=(1, 2, 3), says="is (1, 2, 3), must be an integer or (height, width)"),
        bad_type(output_size=2.5, says="is 2.5, must be an integer"),
        bad_type(output_size="ab", says="is 'ab', must be an integer"),
        bad_type(output_size=None, says="is None, must be an integer"),
        bad(output_size=2**20, reduce="mean", says="result of shape [2, 3, 1048576, 1048576]"),
        bad(output_size=2**31 - 1, reduce="mean", says="result of shape [2, 3, 2147483647,"),
        bad(output_size=2**20, reduce="max", says="result of shape [2, 3, 1048576, 1048576]"),
        bad(output_size=2**31 - 1, reduce="max", says="result of shape [2, 3, 2147483647,"),
        bad(boxes=zeros(2, 5, device="meta"), says="is on meta, input is on cpu"),
        bad(input=zeros(2, 3, 8, 9, device="meta"), says="boxes is on cpu, input is on meta"),
        bad(sampling_ratio=3.0, says="is 3.0, must be an integer"),
        bad(input=MAPS.clone().requires_grad_(), sampling_ratio=3.0, says="is 3.0, must be an"),
    ),
    "multiscale_roi_align": Errors(
        {
            "features": [MAPS, zeros(2, 3, 4, 4)],
            "boxes": rois(),
            "output_size": 7,
            "scales": (1.0, 0.5),
        },
        bad(scales=[1.0, 0.5, 0.25], says="features has 2 tensors, scales has 3 numbers"),
        bad_type(scales=None, says="is None, must be a number for each map"),
        bad_value(features=[], says="is empty, must have 1 to 8 maps"),
        bad(
            features=[MAPS] * 9,
            scales=[0.5**i for i in range(9)],
            says="has 9 numbers, must have 1 to 8",
        ),
        bad(
            features=[MAPS, zeros(2, 4, 8, 9)],
            says="features[1] has shape [2, 4, 8, 9], must begin with [2, 3]",
        ),
        bad(
            features=[MAPS, zeros(1, 3, 8, 9)],
            says="features[1] has shape [1, 3, 8, 9], must begin with [2, 3]",
        ),
        bad(features=[MAPS, zeros(3)], says="features[1] has shape [3], must be [N,"),
        bad(
            features=[MAPS, zeros(2, 3, 8, 9, dtype=float64)],
            says="features[1] has dtype float64, the first level has float32",
        ),
        bad(
            features=[MAPS, zeros(2, 3, 8, 9, device="meta")],
            says="features[1] is on meta, features[0] is on cpu",
        ),
        bad(scales=[1.0, 0.0], says="is [1, 0], must be finite and > 0"),
        bad(scales=[0.5, 1.0], says="is [0.5, 1], "),
        bad(scales=[1.0, 1.0], says="is [1, 1], "),
        bad(canonical_scale=0, says="is 0, must be finite and > 0"),
        bad(level_rule="mmdet", says="is 'mmdet', must be torchvision or detectron2"),
        bad(boxes=rois([0, 5, 1, 4, 5]), says="boxes[2] is [0, 5, 1, 4, 5], must have x2 >= x1"),
        bad(boxes=rois([3, 1, 1, 4, 5]), says="boxes[2] has batch index 3, features has batch"),
        bad(
            boxes=rois([0, 1, 1, 3e19, 3e19]),
            says="boxes[2] is [0, 1, 1, 3e+19, 3e+19], must be finite",
        ),
        bad_type(features=MAPS, says="is a Tensor, must be a list or dict of tensors"),
        bad_type(
            features={"a": MAPS, "b": None},
            says="features[1] is a NoneType, must be a torch.Tensor",
        ),
        bad(boxes=zeros(2, 5, device="meta"), says="is on meta, features[0] is on cpu"),
    ),
    "crop_rois": Errors(
        {"images": MAPS, "boxes": rois()[:1], "size": 4},
        *of_boxes("images"),
        bad(
            boxes=tensor([[0.0, 1.0, 1.0, 1e300, 5.0]], dtype=float64),
            says="boxes[0] is [0, 1, 1, 1e+300, 5], must be finite, in float32 too",
        ),
        bad(boxes=tensor([[0, 5, 1, 6, 0]]), says="boxes[0] is [0, 5, 1, 6, 0], must have x2 >="),
        bad(boxes=zeros(1, 4), says="has shape [1, 4], must be [K, 5]"),
        bad(boxes=zeros(5), says="has shape [5], must be [K, 5]"),
        bad(boxes=zeros(1, 5, dtype=bool), says="has dtype bool, must be a floating or integer"),
        bad(images=zeros(3, 8, 9), says="has shape [3, 8, 9], must have four dimensions, [B, C,"),
        bad(size=(0, 4), says="is [0, 4], must be positive"),
        bad(size=-1, says="is [-1, -1], must be positive"),
        bad_type(size=(1, 2, 3), says="is (1, 2, 3), must be an integer"),
        bad_type(size=2.5, says="is 2.5, must be an integer"),
        bad(size=(2**31, 1), says="has height 2147483648 and width 1, must be below 2^31"),
        bad(
            boxes=rois()[:1].expand(3, 5),
            size=(2**31 - 1, 2**31 - 1),
            says="result of shape [3, 3, 2147483647, 2147483647] passes 2^63 bytes",
        ),
        bad(interpolation="cubic", says="is 'cubic', must be 'nearest', 'bilinear' or 'bicubic'"),
        bad(padding_mode="wrap", says="is 'wrap', must be"),
        bad(
            images=zeros(2, 3, 8, 9, dtype=int64),
            says="interpolation of images of int64 must be 'nearest'",
        ),
        bad(images=zeros(2, 3, 8, 9, dtype=complex64), says="has dtype complex64, which is not"),
        bad(fill=[1, 2], says="has 2 values, images have 3 channels (1 value, or 1 per channel)"),
        bad(images=zeros(1, 80, 2, 2), fill=[1] * 80, says="has 80 values, at most 64 different"),
        bad(
            images=zeros(2, 3, 8, 9, dtype=uint8),
            fill=300,
            says="fill[0] is 300, must be within [0, 255] for an image of uint8",
        ),
        bad_type(fill="x", says="is 'x', must be a number"),
        bad(images=zeros(1, 1, 0, 9), padding_mode="reflect", says="of 0 x 9 pixels have nothing"),
        bad_type(images=[1], says="is a list, must be"),
        bad_type(
            boxes=np.array([[0.0, 1.0, 1.0, 5.0, 5.0]], np.float32), says="is a ndarray, must be"
        ),
        bad_type(device="cpu", says="is for arrays"),
        bad_value(
            boxes=[zeros(3, 4)] * 3,
            says="is a list of 3, images has batch size 2, must be at most one tensor",
        ),
        bad_value(boxes=[zeros(3, 4), zeros(3, 5)], says="boxes[1] has shape [3, 5], must be [L,"),
        bad_value(
            images=np.zeros((2, 3, 8, 9), np.float32),
            boxes=[np.zeros((3, 4)), np.zeros((3, 5))],
            says="boxes[1] has shape [3, 5], must be [L, 4]",
        ),
        bad(images=zeros(2, 3, 8, 9, device="meta"), says="boxes is on cpu, images is on meta"),
    ),
    "paste_rois": Errors(
        {"images": MAPS, "patches": zeros(1, 3, 4, 4), "boxes": rois()[:1]},
        *of_boxes("images", patches=zeros(4, 3, 4, 4)),
        bad(
            boxes=tensor([[0.0, 1.0, 1.0, 1e300, 5.0]], dtype=float64),
            says="boxes[0] is [0, 1, 1, 1e+300, 5], must be finite, in float32 too",
        ),
        bad(boxes=tensor([[0, 5, 1, 6, 0]]), says="boxes[0] is [0, 5, 1, 6, 0], must have x2 >="),
        bad(boxes=zeros(1, 4), says="has shape [1, 4], must be [K, 5]"),
        bad(boxes=zeros(5), says="has shape [5], must be [K, 5]"),
        bad(boxes=zeros(1, 5, dtype=bool), says="has dtype bool, must be a floating or integer"),
        bad(images=zeros(3, 8, 9), says="has shape [3, 8, 9], must have four dimensions, [B, C,"),
        bad(patches=zeros(3, 4, 4), says="has shape [3, 4, 4], must have four dimensions, [B, C,"),
        bad(patches=zeros(2, 3, 4, 4), says="has shape [2, 3, 4, 4], must begin with [1, 3]"),
        bad(patches=zeros(1, 3, 4, 4, dtype=float64), says="has dtype float64, images has float32"),
        bad(
            patches=zeros(1, 3, 0, 4),
            says="has size [0, 4]; with boxes its height and width must be positive",
        ),
        bad(
            images=zeros(2, 3, 8, 9, dtype=int64),
            patches=zeros(1, 3, 4, 4, dtype=int64),
            says="has dtype int64, must be a floating type, uint8, int16 or uint16",
        ),
        bad(blend="poisson", says="is 'poisson', must be replace, feather or alpha"),
        bad(blend="feather", feather=0, says="is 0, must be finite and > 0"),
        bad(blend="feather", feather=NAN, says="is nan, must be finite and > 0"),
        bad(interpolation="cubic", says="is 'cubic', must be 'nearest', 'bilinear' or 'bicubic'"),
        bad(blend="alpha", says="alpha is None, must be given where blend is 'alpha'"),
        bad(alpha=zeros(1, 4, 4), says="is given, must be None unless blend is 'alpha'"),
        bad(blend="alpha", alpha=zeros(1, 4, 5), says="has shape [1, 4, 5], must be [1, 4, 4]"),
        bad_type(alpha=zeros(1, 4, 4, dtype=uint8), says="has dtype uint8, must be a floating"),
        bad_type(patches=np.zeros((1, 3, 4, 4), np.float32), says="is a ndarray"),
        bad_type(
            images=np.zeros((2, 3, 8, 9), np.float32),
            patches=np.zeros((1, 3, 4, 4), np.float32),
            boxes=np.array([[0.0, 1.0, 1.0, 5.0, 5.0]], np.float32),
            alpha=zeros(1, 4, 4),
            says="is a Tensor, must be a numpy.ndarray",
        ),
    ),
    "ops.roi_align_backward_input": Errors(
        {
            "grad": zeros(2, 3, 7, 7),
            "boxes": rois(),
            "input_size": [2, 3, 8, 9],
            "spatial_scale": 1.0,
            "sampling_ratio": 2,
            "aligned": False,
            "channels_last": False,
        },
        bad(grad=zeros(3, 3, 7, 7), says="has shape [3, 3, 7, 7], must be [2, 3, 7, 7]"),
        bad(input_size=[2, 4, 8, 9], says="is [2, 4, 8, 9], must have 3 channels for this grad"),
        bad(input_size=[8, 9], says="is [8, 9], must have four numbers"),
        bad(grad=zeros(2, 3, 7, 7, dtype=uint8), says="has dtype uint8, must be a floating type"),
    ),
    "ops.roi_align_backward_boxes": Errors(
        {
            "grad": zeros(2, 3, 7, 7),
            "input": MAPS,
            "boxes": rois(),
            "spatial_scale": 1.0,
            "sampling_ratio": 2,
            "aligned": False,
        },
        bad(grad=zeros(2, 2, 7, 7), says="has shape [2, 2, 7, 7], must be [2, 3, 7, 7]"),
        bad(grad=zeros(2, 3, 7, 7, dtype=float64), says="has dtype float64, must be float32"),
        bad(boxes=rois().long(), says="has dtype int64, must be a"),
    ),
    "ops.roi_align_max_at": Errors(
        {
            "input": MAPS,
            "index": zeros(2, 3, 7, 7, dtype=int64),
            "boxes": rois(),
            "output_size": [7, 7],
            "spatial_scale": 1.0,
            "sampling_ratio": 2,
            "aligned": False,
        },
        bad(index=zeros(2, 3, 7, 7), says="has dtype float32, must be int64"),
        bad(output_size=[7, 6], says="index has shape [2, 3, 7, 7], must be [2, 3, 7, 6]"),
    ),
    "ops.multiscale_roi_align_backward_input": Errors(
        {
            "grad": zeros(2, 3, 7, 7),
            "boxes": rois(),
            "sizes": [8, 9, 4, 4],
            "batch": 2,
            "scales": [1.0, 0.5],
            "sampling_ratio": 2,
            "aligned": False,
            "canonical_scale": 224.0,
            "canonical_level": 4,
            "level_rule": "torchvision",
            "channels_last": [False, False],
        },
        bad(sizes=[8, 9], says="is [8, 9], must have two numbers for each of 2"),
    ),
    "ops.crop_rois": Errors(
        {"images": MAPS, "boxes": rois()[:1], "size": [4, 4]},
        bad(size=[4], says="is [4], must have two numbers"),
    ),
    "ops.crop_rois_backward_images": Errors(
        {
            "grad": zeros(1, 3, 4, 4),
            "boxes": rois()[:1],
            "images_size": [2, 3, 8, 9],
            "interpolation": "bilinear",
            "padding_mode": "constant",
        },
        bad(images_size=[2, 3], says="is [2, 3], must have four numbers"),
        bad(grad=zeros(2, 3, 4, 4), says="has shape [2, 3, 4, 4], must begin with [1, 3]"),
        bad(grad=zeros(1, 3, 4, 4, dtype=uint8), says="has dtype uint8, must be a floating type"),
    ),
    "ops.crop_rois_backward_boxes": Errors(
        {
            "grad": zeros(1, 3, 4, 4),
            "images": MAPS,
            "boxes": rois()[:1],
            "interpolation": "bilinear",
            "padding_mode": "constant",
            "fill": [0.0],
        },
        bad(boxes=tensor([[0, 1, 1, 5, 5]]), says="has dtype int64, must be a floating type to"),
        bad(grad=zeros(1, 3, 4, 4, dtype=float64), says="has dtype float64, must be float32"),
    ),
    "ops.paste_rois_backward_patches": Errors(
        {
            "grad": MAPS,
            "boxes": rois()[:1],
            "alpha": None,
            "patches_size": [1, 3, 4, 4],
            "blend": "replace",
            "feather": 8.0,
            "interpolation": "bilinear",
        },
        bad(patches_size=[2, 3, 4, 4], says="patches has shape [2, 3, 4, 4], must begin with [1,"),
    ),
    "ops.paste_rois_backward_alpha": Errors(
        {
            "grad": MAPS,
            "images": MAPS,
            "patches": zeros(1, 3, 4, 4),
            "boxes": rois()[:1],
            "alpha": zeros(1, 4, 4),
            "interpolation": "bilinear",
        },
        bad(grad=zeros(2, 3, 8, 8), says="has shape [2, 3, 8, 8], must be [2, 3, 8, 9]"),
    ),
    "ops.paste_rois": Errors(
        {
            "images": MAPS,
            "patches": zeros(1, 3, 4, 4),
            "boxes": rois()[:1],
            "alpha": zeros(1, 4, 4),
            "blend": "alpha",
        },
        bad(alpha=zeros(1, 4, 4, dtype=float64), says="has dtype float64, must be float32 for"),
    ),
}
