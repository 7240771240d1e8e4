"""Bad input of poolings other than the aligned one: changes of a valid call, and the error."""

from torch import int32, int64, tensor, uint8, zeros

from operators.case import INF, NAN, Errors, bad, bad_type, bad_value
from operators.roi_errors import of_boxes, rois, turned

ERRORS: dict[str, Errors] = {
    "roi_pool": Errors(
        {"input": zeros(2, 4, 8, 9), "boxes": rois(), "output_size": 2},
        *of_boxes("input", inverted=1),
        bad(boxes=rois([0, 1, 1, 5, 3e38]), spatial_scale=2.0, says="boxes[2] is [0, 1, 1, 5, 3e"),
        bad(input=zeros(3, 4), says="has shape [3, 4], must be [N, C, H, W]"),
        bad(boxes=zeros(5), says="has shape [5], must be [K, 5]"),
        bad(input=zeros(2, 4, 8, 9, dtype=int32), says="has dtype int32, must be float16,"),
        bad(output_size=-1, says="is [-1, -1], must be positive"),
        bad(spatial_scale=NAN, says="is nan, must be finite"),
        bad(
            input=zeros(2, 4, 0, 9),
            says="has size [2, 4, 0, 9]; with boxes its height and width must be positive",
        ),
        bad(
            input=zeros(2, 1, 1, 1).expand(2, 1, 65536, 32768),
            says="has height and width [65536, 32768], must have less than 2^31 pixels",
        ),
        bad_type(input=[1.0], says="is a list, must be a torch.Tensor"),
        bad_value(
            boxes=[zeros(1, 4)] * 3,
            says="is a list of 3, input has batch size 2, must be at most one tensor for",
        ),
        bad_type(output_size=(1, 2, 3), says="is (1, 2, 3), must be an integer or"),
        bad_type(output_size=2.5, says="is 2.5, must be an integer or"),
        bad(boxes=zeros(2, 5, device="meta"), says="is on meta, input is on cpu"),
        bad(
            boxes=rois()[:1].expand(2**20, 5),
            output_size=2**20,
            says="result of shape [1048576, 4, 1048576, 1048576] can't be allocated on cpu: not",
        ),
    ),
    "ps_roi_align": Errors(
        {"input": zeros(2, 4, 8, 9), "boxes": rois(), "output_size": 2},
        *of_boxes("input"),
        bad(boxes=rois([0, 1, 1, 5, 3e38]), spatial_scale=2.0, says="boxes[2] is [0, 1, 1, 5, 3e"),
        bad(boxes=turned(), says="has shape [2, 6], must be [K, 5]"),
        bad(output_size=(0, 2), says="is [0, 2], must be positive"),
        bad(sampling_ratio=5000, says="is 5000, must be at most 4096"),
        bad(output_size=3, says="input has 4 channels, must be a multiple of the number of bins,"),
        bad_type(boxes=3, says="is a int, must be a tensor or a list of tensors"),
        bad(input=zeros(2, 4, 8, 9, device="meta"), says="boxes is on cpu, input is on meta"),
        bad(
            input=zeros(1, 1, 8, 9).expand(1, 2**40, 8, 9),
            boxes=rois()[:1].expand(2**20, 5),
            output_size=2**20,
            says="result of shape [1048576, 1, 1048576, 1048576] can't be allocated on cpu: not",
        ),
    ),
    "roi_align_rotated": Errors(
        {"input": zeros(2, 4, 8, 9), "boxes": turned(), "output_size": 2},
        bad(boxes=rois(), says="has shape [2, 5], must be [K, 6]"),
        bad(
            boxes=tensor(
                [[False, True, True, True, True, True], [False, True, True, True, True, True]]
            ),
            says="has dtype bool, must be a floating or integer type",
        ),
        bad(spatial_scale=0.0, says="is 0, must be finite and > 0"),
        bad(sampling_ratio=257, says="is 257, must be at most 256 for rotated boxes"),
        bad(boxes=turned([2, 1, 1, 5, 5, 0]), says="boxes[2] has batch index 2, input has batch"),
        bad(boxes=turned([1.5, 1, 1, 5, 5, 0]), says="boxes[2] has batch index 1.5, must be an"),
        bad(
            boxes=turned([0, NAN, 1, 5, 5, 0]),
            says="boxes[2] is [0, nan, 1, 5, 5, 0], must be finite",
        ),
        bad(
            boxes=turned([0, 1, 1, 5, 5, INF]),
            says="boxes[2] is [0, 1, 1, 5, 5, inf], must be finite",
        ),
        bad(boxes=turned([0, 1, 1, -1, 5, 0]), says="boxes[2] is [0, 1, 1, -1, 5, 0], must have"),
        bad(
            boxes=turned([0, 1, 1, 20000000, 5, 0]),
            says="boxes[2] is [0, 1, 1, 2e+07, 5, 0], its numbers times spatial_scale must be at",
        ),
        bad(
            boxes=turned([0, 1, -1.0000000150474662e30, 5, 5, 0]),
            says="boxes[2] is [0, 1, -1e+30, 5, 5, 0], its numbers times",
        ),
        bad_type(boxes=[zeros(1, 5), [1]], says="boxes[1] is a list, must be a torch.Tensor"),
        bad_value(boxes=[zeros(1, 4), zeros(1, 5)], says="boxes[0] has shape [1, 4], must be [L,"),
        bad(boxes=zeros(2, 6, device="meta"), says="is on meta, input is on cpu"),
        bad(
            boxes=turned()[:1].expand(2**20, 6),
            output_size=2**20,
            says="result of shape [1048576, 4, 1048576, 1048576] can't be allocated on cpu: not",
        ),
    ),
    "ops.roi_pool_backward": Errors(
        {
            "grad": zeros(2, 4, 2, 2),
            "index": zeros(2, 4, 2, 2, dtype=int32),
            "boxes": rois(),
            "input_size": (2, 4, 8, 9),
            "spatial_scale": 1.0,
            "channels_last": False,
        },
        bad(grad=zeros(2, 4, 2, 1), says="index has shape [2, 4, 2, 2], must be [2, 4, 2, 1]"),
        bad(index=zeros(2, 4, 2, 2, dtype=int64), says="has dtype int64"),
        bad(input_size=(2, 3, 8, 9), says="is [2, 3, 8, 9], must have 4 channels for this grad"),
        bad(input_size=(2, 4), says="is [2, 4], must have four numbers"),
        bad(grad=zeros(2, 4, 2, 2, dtype=uint8), says="has dtype uint8, must be a floating type"),
        bad(index=zeros(2, 4, 2, 2, dtype=int32, device="meta"), says="is on meta, grad is on cpu"),
    ),
    "ops.ps_roi_align_backward": Errors(
        {
            "grad": zeros(2, 4, 2, 2),
            "boxes": rois(),
            "input_size": (2, 16, 8, 9),
            "spatial_scale": 1.0,
            "sampling_ratio": 2,
            "channels_last": False,
        },
        bad(input_size=(2, 4, 8, 9), says="is [2, 4, 8, 9], must have 16 channels for this grad"),
    ),
    "ops.roi_align_rotated_backward": Errors(
        {
            "grad": zeros(2, 4, 2, 2),
            "boxes": turned(),
            "input_size": (2, 4, 8, 9),
            "spatial_scale": 1.0,
            "sampling_ratio": 2,
            "aligned": True,
            "clockwise": False,
            "degrees": False,
            "channels_last": False,
        },
        bad(boxes=rois(), says="has shape [2, 5], must be [K, 6]"),
    ),
    "ops.roi_pool_at": Errors(
        {
            "input": zeros(2, 4, 8, 9),
            "index": zeros(2, 4, 2, 2, dtype=int32),
            "boxes": rois(),
            "spatial_scale": 1.0,
        },
        bad(index=zeros(2, 4, 2, dtype=int32), says="has shape [2, 4, 2], must be [N, C, H, W]"),
    ),
}
