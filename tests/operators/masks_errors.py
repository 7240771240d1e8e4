"""Bad input of masks, run lengths and polygons: changes of a valid call, and the error."""

from typing import Any

import numpy as np
from torch import bool, complex64, int32, int64, ones, tensor, uint8, zeros
from visops.masks import PackedMasks

from operators.case import INF, NAN, Bad, Errors, bad, bad_type, bad_value

MASKS = zeros(2, 3, 70, dtype=bool)
BITS = zeros(2, 3, 2, dtype=int64)
ORDER = tensor([0, 1])
HUGE = zeros(1, 1, dtype=bool).expand(65536, 32768)  # that share one byte
BOXES = tensor([[0.0, 0.0, 4.0, 4.0], [1.0, 1.0, 5.0, 5.0]])
RLE = {"size": [2, 3], "counts": [6]}


def counts(given: Any) -> dict[str, Any]:
    return {"size": (2, 3) if isinstance(given, list) else [2, 3], "counts": given}


# What stands beside a good mask's dict, and what the error says of it.
ENTRIES: tuple[tuple[Any, str], ...] = (
    (counts([2, 3]), "['counts'] has the sum 5 or more, must be 2 * 3 = 6"),
    (counts([2, 3, 2]), "['counts'] has the sum 7 or more, must be 2 * 3 = 6"),
    (counts([]), "['counts'] has the sum 0 or more, must be 2 * 3 = 6"),
    (counts(b""), "['counts'] has the sum 0 or more, must be 2 * 3 = 6"),
    (counts("7"), "['counts'] has the sum 7 or more, must be 2 * 3 = 6"),
    (counts([1, 2**63 - 1]), "['counts'] has the sum "),
    (counts([1, 2**63]), "['counts'] is [1, "),
    (counts([3, -1, 4]), "['counts'] has the count -1, must be >= 0"),
    (counts(b"N"), "['counts'] has the count -2, must be >= 0"),
    (counts(b"3 3"), "['counts'] has b' ' at position 1, must be of the characters '0' to 'o'"),
    (counts("é"), "['counts'] has b'\\xc3' at position 0, must be of"),
    (counts("p"), "['counts'] has b'p' at position 0, must be of"),
    (counts(b"3PP"), "['counts'] ends within the number that begins at position 1, must end after"),
    (counts(b"3PPPPPPPPPPPPP1"), "['counts'] has a number of more than 60 bits at position 1"),
    (counts([1.5, 4.5]), "['counts'] is [1.5, 4.5], must be bytes, a string or a list of integers"),
    (counts(None), "['counts'] is None, must be bytes, a string or a list of"),
    (counts([[6]]), "['counts'] is [[6]], must be bytes, a string or a list of"),
    (counts([[1], 5]), "['counts'] is [[1], 5], must be bytes, a string or"),
    (counts(["a long text"] * 9), "['counts'] is a list, must be bytes, a string or"),
    ({"size": [2, 3]}, " has no 'counts', must have it"),
    ({"counts": [6]}, " has no 'size', must have it"),
    ({"size": 6, "counts": [6]}, "['size'] is 6, must be two integers, height and width"),
    ({"size": [2], "counts": [6]}, "['size'] is [2], must be two integers"),
    ({"size": [2, 3, 1], "counts": [6]}, "['size'] is [2, 3, 1], must be two integers"),
    ({"size": (2, 3.5), "counts": [6]}, "['size'] is (2, 3.5), must be two integers"),
    ({"size": "23", "counts": [6]}, "['size'] is '23', must be two integers"),
    ({"size": [-2, -3], "counts": [6]}, "['size'] is [-2, -3], must be >= 0"),
    ({"size": [2**16, 2**15], "counts": [2**31]}, "['size'] is [65536, 32768], must have fewer"),
    ([6], " is a list, must be a dict with 'size' and 'counts'"),
)


def spoiled(name: str) -> list[Bad]:
    """Entries as COCO's tools write them take a shorter way, to the same errors."""
    rows = [bad_type(**{name: "rle"}, says="is a str, must be a list of dicts")]
    for entry, says in ENTRIES:
        error = bad_value if isinstance(entry, dict) else bad_type
        for good in (RLE, {"size": [2, 3], "counts": b"6"}):
            rows.append(error(**{name: [good, entry]}, says=f"{name}[1]{says}"))
    return rows


ERRORS: dict[str, Errors] = {
    "PackedMasks": Errors(
        {"bits": BITS, "size": (3, 70)},
        bad(bits=MASKS, says="has dtype bool, must be int64, as pack_masks returns"),
        bad(size=(3, 64), says="bits has shape [2, 3, 2], must be [..., 3, 1] for masks of 3 x 64"),
        bad(bits=zeros(2, dtype=int64), says="has shape [2], must be [..., 3, 2] for masks of"),
        bad_type(bits=[[1]], says="is a list, must be a torch.Tensor or a numpy.ndarray"),
        call=PackedMasks,
    ),
    "connected_components": Errors(
        {"masks": zeros(3, 4, dtype=bool)},
        bad(masks=zeros(3, 4), says="has dtype float32, must be bool or an integer type"),
        bad(masks=zeros(4, dtype=bool), says="has shape [4], must be [..., H, W]"),
        bad(masks=zeros((), dtype=bool), says="has shape [], must be [..., H, W]"),
        bad(connectivity=6, says="is 6, must be 4 or 8"),
        bad(connectivity=0, says="is 0, must be 4 or 8"),
        bad(return_stats=True, max_components=-2, says="is -2, must be >= 0"),
        bad_type(return_stats=True, max_components=2.5, says="is 2.5, must be an integer"),
        bad_type(max_components=3, says="is for return_stats=True"),
        bad_type(masks=[[True]], says="is a list, must be a torch.Tensor or a numpy.ndarray"),
        bad_type(device="cpu", says="is for arrays; move tensors with .to('cpu')"),
        bad(masks=zeros(3, 4, dtype=complex64), says="has dtype complex64, which is not supported"),
        bad_type(masks=np.zeros((1, 1), object), says="has dtype object"),
        bad(masks=HUGE, says="are 65536 x 32768, must have fewer than 2^31 pixels"),
    ),
    "remove_small_regions": Errors(
        {"masks": zeros(3, 4, dtype=bool), "min_area": 3},
        bad(masks=zeros(3, 4, dtype=int32), says="has dtype int32, must be bool or uint8"),
        bad(masks=zeros(4, dtype=bool), says="has shape [4], must be [..., H, W]"),
        bad(mode="hole", says="is 'hole', must be 'holes' or 'islands'"),
        bad(connectivity=26, says="is 26, must be 4 or 8"),
        bad(min_area=-1, says="is -1, must be >= 0"),
        bad_type(min_area=2.5, says="is 2.5, must be an integer"),
        bad(masks=HUGE, says="are 65536 x 32768, must have fewer than 2^31 pixels"),
    ),
    "distance_transform": Errors(
        {"masks": zeros(3, 4, dtype=bool)},
        bad(masks=zeros(3, 4), says="has dtype float32, must be bool or uint8"),
        bad(masks=zeros(3, 4, dtype=int64), says="has dtype int64, must be bool or uint8"),
        bad(masks=zeros(4, dtype=bool), says="has shape [4], must be [..., H, W]"),
        bad(dims=3, says="masks has shape [3, 4], must be [..., D, H, W]"),
        bad(dims=1, says="is 1, must be 2 or 3"),
        bad(dims=2**63 - 1, says="is 9223372036854775807, must be 2 or 3"),
        bad(metric="l2", says="is 'l2', must be 'euclidean', 'taxicab' or 'chessboard'"),
        bad(spacing=(1, 2, 3), says="has length 3, must be 2"),
        bad(spacing=[2.0], says="has length 1, must be 2"),
        bad(spacing=(1, 0), says="is 0, must be from 1e-6 to 1e6"),
        bad(spacing=-1, says="is -1, must be from 1e-6 to 1e6"),
        bad(spacing=NAN, says="is nan, must be from 1e-6 to 1e6"),
        bad(spacing=INF, says="is inf, must be from 1e-6 to 1e6"),
        bad(spacing=2.0, metric="chessboard", says="is for metric 'euclidean'"),
        bad_type(masks=[[True]], says="is a list, must be a torch.Tensor or a numpy.ndarray"),
        bad_type(device="cpu", says="is for arrays; move tensors with .to('cpu')"),
        bad_type(spacing="wide", says="is 'wide', must be a number or one per axis"),
        bad(masks=HUGE, says="are 65536 x 32768, must have fewer than 2^31 pixels each"),
        bad(
            masks=zeros(1, 1, dtype=bool).expand(1, 16777217),
            says="have a side of 16777217, must be at most 16777216",
        ),
    ),
    "pack_masks": Errors(
        {"masks": MASKS},
        bad(masks=zeros(2, 3, 70, dtype=int64), says="has dtype int64, must be bool or uint8"),
        bad(masks=zeros(70, dtype=bool), says="has shape [70], must be [..., H, W]"),
        bad_type(device="cpu", says="is for arrays; move tensors with .to('cpu')"),
        bad(masks=HUGE, says="are 65536 x 32768, must have fewer than 2^31 pixels each"),
    ),
    "mask_area": Errors(
        {"masks": MASKS},
        bad(masks=zeros(2, 3, 70), says="has dtype float32, must be bool or uint8"),
        bad_type(masks="mask", says="is a str, must be a torch.Tensor or a numpy.ndarray"),
    ),
    "masks_to_boxes": Errors(
        {"masks": MASKS},
        bad(masks=zeros(70, dtype=bool), says="has shape [70], must be [..., H, W]"),
    ),
    "mask_iou": Errors(
        {"masks1": MASKS, "masks2": MASKS},
        bad(masks1=zeros(2, 3, 70, dtype=int32), says="has dtype int32, must be bool or uint8"),
        bad(masks1=zeros(3, 70, dtype=bool), says="has shape [3, 70], must be [N, H, W]"),
        bad(
            masks2=zeros(2, 3, 69, dtype=bool),
            says="masks1 are 3 x 70, masks2 are 3 x 69: masks must be of one size",
        ),
        bad(kind="giou", says="is 'giou', must be 'iou', 'ioa' or 'boundary'"),
        bad(iscrowd=zeros(1, dtype=bool), says="has shape [1], must be [2]"),
        bad_type(masks2=[[True]], says="is a list, must be a torch.Tensor, a numpy.ndarray or"),
        bad_type(masks2=np.zeros((2, 3, 70), np.bool_), says="is a ndarray, must be a"),
        bad_type(iscrowd=[0, 1], says="is a list, must be a torch.Tensor"),
        bad(iscrowd=tensor([0, 1]), says="has dtype int64, must be bool or uint8"),
        bad_type(dilation_ratio=0.1, says="is for kind='boundary'"),
        bad(kind="boundary", dilation_ratio=-1.0, says="is -1, must be finite and >= 0"),
        bad(kind="boundary", dilation_ratio=NAN, says="is nan, must be finite and >= 0"),
    ),
    "paste_masks": Errors(
        {"masks": zeros(2, 7, 7), "boxes": BOXES, "size": (8, 9)},
        bad(masks=zeros(7, 7), says="has shape [7, 7], must be [N, h, w] or [N, 1, h, w]"),
        bad(masks=zeros(1, 2, 7, 7), says="has shape [1, 2, 7, 7], must be [N, h, w] or [N, 1,"),
        bad(masks=zeros(2, 7, 7, dtype=int64), says="has dtype int64, must be a floating type"),
        bad(boxes=tensor([[0.0, 0.0, 4.0, 4.0]]), says="has shape [1, 4], must be [2, 4]"),
        bad(
            boxes=tensor([[0.0, 0.0, 4.0], [1.0, 1.0, 5.0]]),
            says="has shape [2, 3], must be [2, 4]",
        ),
        bad(
            boxes=tensor([[False, False, True, True], [True, True, True, True]]),
            says="has dtype bool, must be a floating or integer",
        ),
        bad(
            boxes=tensor([[0.0, 0.0, 4.0, 4.0], [5.0, 1.0, 1.0, 5.0]]),
            says="boxes[1] is [5, 1, 1, 5], must be finite, with x2 >= x1 and y2 >= y1",
        ),
        bad(
            boxes=tensor([[0.0, 0.0, 4.0, 4.0], [1.0, NAN, 5.0, 5.0]]),
            says="boxes[1] is [1, nan, 5, 5], must be",
        ),
        bad(
            boxes=tensor([[0.0, 0.0, 4.0, 4.0], [1.0, 1.0, INF, 5.0]]),
            says="boxes[1] is [1, 1, inf, 5], must be",
        ),
        bad(size=(-1, 9), says="is (-1, 9), must have height and width >= 0 and below 2^30"),
        bad(size=(8, 2**30), says="is (8, 1073741824), must have height"),
        bad(size=(65536, 32768), says="results are 65536 x 32768, must have fewer than 2^31"),
        bad(out="png", says="is 'png', must be 'bool', 'uint8', 'packed', 'rle' or 'float'"),
        bad(
            boxes=tensor([[0.0, 0.0, 4.0, 4.0], [5.0, 1.0, 1.0, 5.0]]),
            says="boxes[1] is [5, 1, 1, 5], must",
        ),
        bad(threshold=NAN, says="is nan, must be a number"),
        bad(convention="mmdet", says="is 'mmdet', must be 'detectron2' or 'torchvision'"),
        bad(convention="torchvision", padding=-1, says="is -1, must be >= 0 and below 2^30"),
        bad(boxes=zeros(2, 3), says="has shape [2, 3], must be [2, 4]"),
        bad_type(size=8, says="is 8, must be (height, width)"),
        bad_type(size=(8, 9.5), says="is (8, 9.5), must be (height, width)"),
        bad_type(out="float", threshold=0.5, says="is for masks; out='float' returns the numbers"),
        bad_type(padding=1, says="is for convention='torchvision'"),
        bad_type(boxes=[[0.0, 0.0, 4.0, 4.0], [1.0, 1.0, 5.0, 5.0]], says="is a list, must be a"),
        bad_type(
            masks=[[[0.5] * 7] * 7] * 2,
            says="is a list, must be a torch.Tensor or a numpy.ndarray",
        ),
        bad(threshold="x", says="is 'x', must be a number"),
    ),
    "mask_nms": Errors(
        {"masks": MASKS, "scores": tensor([0.5, 0.25]), "iou_threshold": 0.5},
        bad(masks=ones(3, 70, dtype=bool), says="has shape [3, 70], must be [N, H, W]"),
        bad(masks=ones(2, 3, 70, dtype=int64), says="has dtype int64, must be bool"),
        bad(scores=tensor([0.5]), says="has shape [1], must be [2]"),
        bad(scores=zeros(2, dtype=int64), says="has dtype int64, must be a"),
        bad(iou_threshold=1.5, says="is 1.5, must be in [0, 1]"),
        bad(iou_threshold=NAN, says="is nan, must be in [0, 1]"),
        bad(score_threshold=NAN, says="is nan"),
        bad_type(score_threshold="x", says="is 'x', must be a number"),
        bad(
            masks=zeros(2, 3, 70, dtype=bool, device="meta"),
            scores=zeros(2, device="meta"),
            says="is on meta, must have values, which decide how many are kept",
        ),
        bad(idxs=tensor([1], dtype=int32), says="has shape [1], must be [2]"),
        bad(idxs=tensor([0.5, 0.25]), says="has dtype float32, must be an integer"),
        bad(max_output=-1, says="is -1, must be >= 0"),
        bad_type(masks=[[True]], says="is a list, must be a torch.Tensor, a"),
        bad_type(scores=[0.5, 0.2], says="is a list, must be a torch.Tensor"),
        bad(iou_threshold="x", says="is 'x', must be a number"),
    ),
    "merge_masks": Errors(
        {"masks": MASKS, "scores": tensor([0.5, 0.25])},
        bad(masks=zeros(3, 70, dtype=bool), says="has shape [3, 70], must be"),
        bad(scores=tensor([[0.5], [0.25]]), says="has shape [2, 1], must be"),
        bad(overlap_threshold=-1.0, says="is -1, must be in [0, 1]"),
        bad(score_threshold=NAN, says="is nan"),
    ),
    "stability_score": Errors(
        {"logits": zeros(2, 3, 70)},
        bad(logits=MASKS, says="has dtype bool, must be a floating type"),
        bad(threshold_offset=-1.0, says="is -1, must be >= 0"),
        bad(mask_threshold=NAN, says="is nan, must be a number"),
        bad(logits=zeros(4), says="has shape [4], must be [..., H, W]"),
    ),
    "ops.component_stats": Errors(
        {"labels": zeros(3, 4, dtype=int32), "regions": 3},
        bad(labels=zeros(3, 4, dtype=int64), says="has dtype int64, must be int32"),
        bad(regions=-1, says="is -1, must be >= 0"),
        bad(labels=zeros(4, dtype=int32), says="has shape [4], must be [..., H, W]"),
    ),
    "ops.unpack_masks": Errors(
        {"bits": BITS, "width": 70},
        bad(width=129, says="is 129, bits has shape [2, 3, 2]: its last dimension must be"),
        bad(width=-1, says="is -1, bits has shape [2, 3, 2]: its last dimension must be"),
        bad(bits=zeros(2, 3, 2, dtype=int32), says="has dtype int32, must be int64, as"),
    ),
    "ops.measure_masks": Errors(
        {"masks": BITS},
        bad(masks=zeros(2, dtype=int64), says="has shape [2], must be [..., H, W]"),
        bad(masks=MASKS, says="has dtype bool, must be int64, as pack_masks returns"),
    ),
    "ops.mask_iou": Errors(
        {"masks1": BITS, "masks2": BITS},
        bad(
            masks2=zeros(2, 3, 1, dtype=int64),
            says="masks1 has shape [2, 3, 2], masks2 has [2, 3, 1]: masks must be of one size",
        ),
        bad(masks2=zeros(3, 2, dtype=int64), says="has shape [3, 2], must be [N, H, words]"),
        bad(
            masks1=MASKS,
            masks2=zeros(2, 3, 1, dtype=int64),
            packed1=False,
            says="has shape [2, 3, 70], masks2 has [2, 3, 1]: masks must be of one size",
        ),
        bad(
            masks1=MASKS,
            masks2=zeros(2, 3, 69, dtype=bool),
            packed1=False,
            packed2=False,
            says="has shape [2, 3, 70], masks2 has [2, 3, 69]: masks must be of one size",
        ),
        bad(packed1=False, says="masks1 has dtype int64, must be bool or uint8"),
    ),
    "ops.paste_masks": Errors(
        {
            "masks": zeros(2, 7, 7),
            "boxes": BOXES,
            "size": (8, 9),
            "convention": "detectron2",
            "padding": 0,
        },
        bad(padding=1, says="is 1, must be 0 for convention 'detectron2'"),
        bad(size=[8, 9, 10], says="is [8, 9, 10], must have two numbers"),
    ),
    "ops.paste_binary_masks": Errors(
        {"masks": zeros(2, 7, 7), "boxes": BOXES, "size": (8, 9), "threshold": 0.5, "out": "bool"},
        bad(out="float", says="is 'float', must be 'bool', 'uint8' or 'packed'"),
    ),
    "ops.paste_masks_backward": Errors(
        {
            "grad": zeros(2, 8, 9),
            "boxes": BOXES,
            "mask_size": (7, 7),
            "convention": "detectron2",
            "padding": 0,
        },
        bad(grad=zeros(7, 7), says="has shape [7, 7], must be [N, H, W]"),
    ),
    "ops.mask_boundaries": Errors(
        {"bits": BITS, "width": 70},
        bad(width=64, says="is 64, bits has shape [2, 3, 2]: its last dimension must be"),
    ),
    "ops.suppress_masks": Errors(
        {"bits": BITS, "order": ORDER, "takes_part": None, "idxs": None, "iou_threshold": 0.5},
        bad(order=tensor([0, 7]), says="order[1] is 7, must be the index of one of 2 masks"),
    ),
    "ops.merge_masks": Errors(
        {"bits": BITS, "width": 70, "order": ORDER, "takes_part": None, "overlap_threshold": 0.5},
        bad(takes_part=ORDER.to(uint8), says="has dtype uint8, must be bool"),
    ),
    "masks_to_rle": Errors(
        {"masks": MASKS},
        bad(masks=zeros(2, 3, 70, dtype=int64), says="has dtype int64, must be bool or uint8"),
        bad(masks=zeros(3, 70), says="has dtype float32, must be bool or uint8"),
        bad(masks=zeros(70, dtype=bool), says="has shape [70], must be [N, H, W] or [H, W]"),
        bad(masks=zeros(1, 2, 3, 70, dtype=bool), says="has shape [1, 2, 3, 70], must be [N, H,"),
        bad(masks=zeros((), dtype=bool), says="has shape [], must be [N, H, W] or [H, W]"),
        bad_type(masks=[[True]], says="is a list, must be a torch.Tensor or a numpy.ndarray"),
        bad_type(device="cpu", says="is for arrays; move tensors with .to('cpu')"),
        bad_value(compressed=False, text=True, says="text is True, must be False unless counts"),
        bad(masks=HUGE, says="are 65536 x 32768, must have fewer than 2^31 pixels each"),
    ),
    "rle_to_masks": Errors(
        {"rles": [RLE]},
        *spoiled("rles"),
        bad_value(
            rles=[RLE, {"size": [3, 2], "counts": [6]}],
            says="rles[1]['size'] is [3, 2], rles[0]['size'] is [2, 3]: masks must be of one",
        ),
        bad_value(
            rles={"size": [3, 2], "counts": [6]},
            size=(2, 3),
            says="rles[0]['size'] is [3, 2], size is [2, 3]: masks must be of one size",
        ),
        bad_value(size=(2,), says="is (2,), must be two integers, height and width"),
        bad_value(rles=[], says="is empty, must hold a dict unless size is given"),
        bad_value(out="float", says="is 'float', must be 'bool', 'uint8' or 'packed'"),
    ),
    "rle_area": Errors(
        {"rles": [RLE]},
        *spoiled("rles"),
    ),
    "rle_to_boxes": Errors(
        {"rles": [RLE]},
        *spoiled("rles"),
    ),
    "rle_iou": Errors(
        {"rles1": [RLE], "rles2": [RLE]},
        *spoiled("rles1"),
        *spoiled("rles2"),
        bad_type(rles1=RLE, says="is a dict, must be a list of dicts"),
        bad_value(
            rles2=[RLE, {"size": [3, 2], "counts": [6]}],
            says="rles2[1]['size'] is [3, 2], rles1[0]['size'] is [2, 3]: masks must be of one",
        ),
        bad_value(rles2=[RLE, RLE], iscrowd=[1], says="has shape [1], must be [2], one for each"),
        bad_value(rles2=[RLE, RLE], iscrowd=[1.0, 0.5], says="has dtype float64, must be bool or"),
    ),
    "masks_to_polygons": Errors(
        {"masks": MASKS},
        bad_value(masks=zeros(2, 3, 70), says="has dtype float32, must be bool or uint8"),
        bad_value(masks=zeros(70, dtype=bool), says="has shape [70], must be [N, H, W] or [H, W]"),
        bad_type(masks=[[True]], says="is a list, must be a torch.Tensor or a numpy.ndarray"),
        bad_value(approximation="tc89", says="is 'tc89', must be 'simple' or 'none'"),
    ),
    "polygons_to_masks": Errors(
        {"polygons": [[[0.0, 0, 4, 0, 0, 4]]], "size": (5, 6)},
        bad_type(polygons={}, says="is a dict, must be a list of objects"),
        bad_type(polygons=np.zeros((1, 2, 3, 2)), says="is a ndarray, must be a list of objects"),
        bad_type(polygons=[0.0, 0, 4, 0, 0, 4], says="polygons[0] is a float, must be a list of"),
        bad_type(polygons=[[], "x"], says="polygons[1] is a str, must be a list of polygons"),
        bad_type(polygons=[[0.0, 0, 4, 0, 0, 4]], says="polygons[0][0] is a float, must be a"),
        bad_value(
            polygons=[[[0.0, 0, 4, 0, 0, 4], [0.0, 0, 4, 0]]],
            says="polygons[0][1] has 2 corners, must have 3 or more",
        ),
        bad_value(polygons=[[[]]], says="polygons[0][0] has 0 corners, must have 3 or more"),
        bad_value(polygons=[[[0.0, 0, 4, 0, 0]]], says="polygons[0][0] has shape [5], must be [2"),
        bad_value(
            polygons=[[np.zeros((2, 3))]],
            says="polygons[0][0] has shape [2, 3], must be [2 K] or [K, 2]",
        ),
        bad_value(
            polygons=[[["a"] * 6]],
            says="polygons[0][0] holds what is no number, must be x1, y1, x2, y2, ...",
        ),
        bad_value(polygons=[[[[1, 2], 3, 4]]], says="polygons[0][0] holds what is no number"),
        bad_value(
            polygons=[[[0.0, 0, 4, 0, 0, 4]], [], [[0.0, 0, 4, 0, 0, 4], [0.0, 0, 4, 0, 0, NAN]]],
            says="polygons[2][1] has y = nan at corner 2, must be finite and from -1e8 to 1e8",
        ),
        bad_value(
            polygons=[[[INF, 0, 4, 0, 0, 4]], [[0.0, 0, 4, 0, 0, 4]]],
            says="polygons[0][0] has x = inf at corner 0, must be finite and from -1e8 to 1e8",
        ),
        bad_value(
            polygons=[[[0.0, 0, 4, 0, 0, 4]], [[0, 0, -200000000.0, 0, 0, 1]]],
            says="polygons[1][0] has x = -200000000.0 at corner 1, must be finite and from -1e8",
        ),
        bad_value(size=5, says="is 5, must be two integers, height and width"),
        bad_value(size=(-1, 5), says="is [-1, 5], must be >= 0"),
        bad_value(out="mask", says="is 'mask', must be 'bool', 'uint8', 'packed' or 'rle'"),
    ),
    "ops.masks_to_runs": Errors(
        {"masks": MASKS},
        bad(width=70, says="masks has dtype bool, must be int64, as pack_masks returns"),
        bad(masks=zeros(3, 70, dtype=bool), says="has shape [3, 70], must be [N, H, W]"),
        bad(masks=zeros(2, 3, 2, dtype=int64), width=60, says="width is 60, masks has shape"),
        bad(
            masks=zeros(1, 1, 1, dtype=int64),
            width=-2,
            says="is -2, masks has shape [1, 1, 1]: its last dimension must be",
        ),
    ),
    "ops.runs_to_bits": Errors(
        {"ends": tensor([3, 6], dtype=int32), "offsets": tensor([0, 2]), "size": [2, 3]},
        bad(ends=tensor([3, 6]), says="has dtype int64, must be int32"),
        bad(ends=tensor([[3, 6]], dtype=int32), says="has shape [1, 2], must be [runs]"),
        bad(offsets=tensor([0, 2], dtype=int32), says="has dtype int32, must be int64"),
        bad(offsets=zeros(0, dtype=int64), says="has shape [0], must be [N + 1]"),
        bad(offsets=tensor([0, 3]), says="offsets[1] is 3, must rise from 0 to ends' length, 2"),
        bad(offsets=tensor([1, 2]), says="offsets[0] is 1, must rise from 0 to ends' length, 2"),
        bad(offsets=tensor([0, 2, 1, 2]), says="offsets[2] is 1, must rise from 0 to ends'"),
        bad(size=[2, -3], says="is [2, -3], must be >= 0"),
        bad(size=[65536, 32768], says="masks are 65536 x 32768, must have fewer than 2^31 pixels"),
    ),
}
