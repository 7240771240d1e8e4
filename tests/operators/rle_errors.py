"""Bad input of run lengths and polygons: changes of a valid call, and the error."""

from typing import Any

import numpy as np
from torch import bool, int32, int64, tensor, zeros

from operators.case import INF, NAN, Bad, Errors, bad, bad_type, bad_value

MASKS = zeros(2, 3, 70, dtype=bool)
HUGE = zeros(1, 1, dtype=bool).expand(65536, 32768)  # that share one byte
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
