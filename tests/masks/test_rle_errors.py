"""Bad input of run lengths: each row has an input and the message that it must give."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from bad_input import check, table

MASKS = torch.zeros(2, 3, 70, dtype=torch.bool)
HUGE = torch.zeros(1, 1, dtype=torch.bool).expand(2**16, 2**15)
GOOD = {"size": [2, 3], "counts": [6]}
OPS = torch.ops.visops
ENDS, OFFSETS = torch.tensor([3, 6], dtype=torch.int32), torch.tensor([0, 2])

Call = Callable[[], Any]

MASK_ROWS: tuple[tuple[str, Callable[[Any], Any], Any], ...] = (
    ("masks has dtype int64, must be bool or uint8", visops.masks_to_rle, MASKS.long()),
    ("masks has dtype float32, must be bool or uint8", visops.masks_to_rle, MASKS[0].float()),
    ("masks has shape [70], must be [N, H, W] or [H, W]", visops.masks_to_rle, MASKS[0, 0]),
    (
        "masks has shape [1, 2, 3, 70], must be [N, H, W] or [H, W]",
        visops.masks_to_rle,
        MASKS[None],
    ),
    ("masks has shape [], must be [N, H, W] or [H, W]", visops.masks_to_rle, MASKS[0, 0, 0]),
)


@table(*((RuntimeError, "masks_to_rle: " + m, lambda f=f, x=x: f(x)) for m, f, x in MASK_ROWS))
def test_tensors(error: type[Exception], message: str, call: Call) -> None:
    check(error, message, call)


@table(
    *((ValueError, "masks_to_rle: " + m, lambda f=f, x=x: f(x.numpy())) for m, f, x in MASK_ROWS)
)
def test_arrays(error: type[Exception], message: str, call: Call) -> None:
    check(error, message, call)


@table(
    (
        TypeError,
        "masks_to_rle: masks is a list, must be a torch.Tensor or a numpy.ndarray",
        lambda: visops.masks_to_rle([[True]]),  # type: ignore[arg-type]
    ),
    (
        TypeError,
        "masks_to_rle: device is for arrays; move tensors with .to('cpu')",
        lambda: visops.masks_to_rle(MASKS, device="cpu"),
    ),
    (
        RuntimeError,
        "masks_to_rle: masks are 65536 x 32768, must have fewer than 2^31 pixels each",
        lambda: visops.masks_to_rle(HUGE),
    ),
    (
        RuntimeError,
        "masks_to_runs: width is 60, masks has shape [2, 3, 2]: its last dimension must be",
        lambda: OPS.masks_to_runs(visops.pack_masks(MASKS).bits, 60),
    ),
    (
        RuntimeError,
        "masks_to_runs: masks has dtype bool, must be int64, as pack_masks returns, where width",
        lambda: OPS.masks_to_runs(MASKS, 70),
    ),
    (
        RuntimeError,
        "masks_to_runs: masks has shape [3, 70], must be [N, H, W]",
        lambda: OPS.masks_to_runs(MASKS[0]),
    ),
    (
        RuntimeError,
        "masks_to_runs: width is -2, masks has shape [1, 1, 1]: its last dimension must be",
        lambda: OPS.masks_to_runs(torch.zeros(1, 1, 1, dtype=torch.int64), -2),
    ),
    (
        RuntimeError,
        "runs_to_bits: ends has dtype int64, must be int32",
        lambda: OPS.runs_to_bits(ENDS.long(), OFFSETS, [2, 3]),
    ),
    (
        RuntimeError,
        "runs_to_bits: ends has shape [1, 2], must be [runs]",
        lambda: OPS.runs_to_bits(ENDS[None], OFFSETS, [2, 3]),
    ),
    (
        RuntimeError,
        "runs_to_bits: offsets has dtype int32, must be int64",
        lambda: OPS.runs_to_bits(ENDS, OFFSETS.int(), [2, 3]),
    ),
    (
        RuntimeError,
        "runs_to_bits: offsets has shape [0], must be [N + 1]",
        lambda: OPS.runs_to_bits(ENDS, OFFSETS[:0], [2, 3]),
    ),
    (
        RuntimeError,
        "runs_to_bits: offsets[1] is 3, must rise from 0 to ends' length, 2",
        lambda: OPS.runs_to_bits(ENDS, torch.tensor([0, 3]), [2, 3]),
    ),
    (
        RuntimeError,
        "runs_to_bits: offsets[0] is 1, must rise from 0 to ends' length, 2",
        lambda: OPS.runs_to_bits(ENDS, torch.tensor([1, 2]), [2, 3]),
    ),
    (
        RuntimeError,
        "runs_to_bits: offsets[2] is 1, must rise from 0 to ends' length, 2",
        lambda: OPS.runs_to_bits(ENDS, torch.tensor([0, 2, 1, 2]), [2, 3]),
    ),
    (
        RuntimeError,
        "runs_to_bits: size is [2, -3], must be >= 0",
        lambda: OPS.runs_to_bits(ENDS, OFFSETS, [2, -3]),
    ),
    (
        RuntimeError,
        "runs_to_bits: masks are 65536 x 32768, must have fewer than 2^31 pixels each",
        lambda: OPS.runs_to_bits(ENDS, OFFSETS, [2**16, 2**15]),
    ),
)
def test_operators(error: type[Exception], message: str, call: Call) -> None:
    check(error, message, call)


def bad(counts: Any, size: Any = (2, 3)) -> list[dict[str, Any]]:
    """The second of two RLEs."""
    return [GOOD, {"size": size, "counts": counts}]


SIX = "must be 2 * 3 = 6"
ENTRIES: tuple[tuple[type[Exception], str, Any], ...] = (
    (ValueError, "[1]['counts'] has the sum 5 or more, " + SIX, bad([2, 3])),
    (ValueError, "[1]['counts'] has the sum 7 or more, " + SIX, bad([2, 3, 2])),
    (ValueError, "[1]['counts'] has the sum 0 or more, " + SIX, bad([])),
    (ValueError, "[1]['counts'] has the sum 0 or more, " + SIX, bad(b"")),
    (ValueError, "[1]['counts'] has the sum ", bad([1, 2**63 - 1])),
    (ValueError, "[1]['counts'] is [1, ", bad([1, 2**63])),
    (ValueError, "[1]['counts'] has the count -1, must be >= 0", bad([3, -1, 4])),
    (ValueError, "[1]['counts'] has the count -2, must be >= 0", bad(b"N")),
    (ValueError, "[1]['counts'] has the sum 7 or more, " + SIX, bad("7")),
    (
        ValueError,
        "[1]['counts'] has b' ' at position 1, must be of the characters '0' to 'o'",
        bad(b"3 3"),
    ),
    (ValueError, "[1]['counts'] has b'\\xc3' at position 0, must be of", bad("é")),
    (ValueError, "[1]['counts'] has b'p' at position 0, must be of", bad("p")),
    (
        ValueError,
        "[1]['counts'] ends within the number that begins at position 1, must end after one",
        bad(b"3PP"),
    ),
    (
        ValueError,
        "[1]['counts'] has a number of more than 60 bits at position 1, must be < 2^31",
        bad(b"3" + b"P" * 13 + b"1"),
    ),
    (
        ValueError,
        "[1]['counts'] is [1.5, 4.5], must be bytes, a string or a list of integers",
        bad([1.5, 4.5]),
    ),
    (ValueError, "[1]['counts'] is None, must be bytes, a string or a list of", bad(None)),
    (ValueError, "[1]['counts'] is [[6]], must be bytes, a string or a list of", bad([[6]])),
    (ValueError, "[1]['counts'] is [[1], 5], must be bytes, a string or", bad([[1], 5])),
    (ValueError, "[1]['counts'] is a list, must be bytes, a string or", bad(["a long text"] * 9)),
    (ValueError, "[1] has no 'counts', must have it", [GOOD, {"size": [2, 3]}]),
    (ValueError, "[0] has no 'size', must have it", [{"counts": [6]}]),
    (ValueError, "[1]['size'] is 6, must be two integers, height and width", bad([6], 6)),
    (ValueError, "[1]['size'] is [2], must be two integers", bad([6], [2])),
    (ValueError, "[1]['size'] is [2, 3, 1], must be two integers", bad([6], [2, 3, 1])),
    (ValueError, "[1]['size'] is (2, 3.5), must be two integers", bad([6], (2, 3.5))),
    (ValueError, "[1]['size'] is '23', must be two integers", bad([6], "23")),
    (ValueError, "[1]['size'] is [-2, -3], must be >= 0", bad([6], [-2, -3])),
    (
        ValueError,
        "[1]['size'] is [65536, 32768], must have fewer than 2^31 pixels",
        bad([2**31], [2**16, 2**15]),
    ),
    (TypeError, "[1] is a list, must be a dict with 'size' and 'counts'", [GOOD, [6]]),
    (TypeError, " is a str, must be a list of dicts", "rle"),
)


@table(*((e, "rle_to_masks: rles" + m, lambda r=r: visops.rle_to_masks(r)) for e, m, r in ENTRIES))
def test_entries(error: type[Exception], message: str, call: Call) -> None:
    check(error, message, call)


@table(*((e, "rle_area: rles" + m, lambda r=r: visops.rle_area(r)) for e, m, r in ENTRIES))
def test_entries_of_areas(error: type[Exception], message: str, call: Call) -> None:
    check(error, message, call)


@table(*((e, "rle_iou: rles2" + m, lambda r=r: visops.rle_iou([GOOD], r)) for e, m, r in ENTRIES))
def test_entries_of_overlaps(error: type[Exception], message: str, call: Call) -> None:
    check(error, message, call)


TEXTS = [rles for _, _, rles in ENTRIES if isinstance(rles[-1], dict)]


@pytest.mark.parametrize("rles", [r for r in TEXTS if isinstance(r[-1].get("counts"), bytes)])
def test_corrupt_texts_among_plain_ones(rles: Any) -> None:
    """Entries as COCO's tools write them take a shorter way, to the same errors."""
    plain = [{"size": [2, 3], "counts": b"6"}, {"size": [2, 3], "counts": rles[1]["counts"]}]
    with pytest.raises(ValueError, match="rles") as expected:
        visops.rle_to_masks(plain)
    message = str(expected.value).removeprefix("visops.rle_to_masks: rles")
    assert message.startswith("[1]['counts'] ")
    check(ValueError, "rle_area: rles" + message, lambda: visops.rle_area(plain))
    check(ValueError, "rle_iou: rles1" + message, lambda: visops.rle_iou(plain, plain))
    check(ValueError, "rle_iou: rles2" + message, lambda: visops.rle_iou(plain[:1], plain))


OTHER = {"size": [3, 2], "counts": [6]}


@table(
    (
        ValueError,
        "rle_to_masks: rles[1]['size'] is [3, 2], rles[0]['size'] is [2, 3]: masks must be of one",
        lambda: visops.rle_to_masks([GOOD, OTHER]),
    ),
    (
        ValueError,
        "rle_to_masks: rles[0]['size'] is [3, 2], size is [2, 3]: masks must be of one size",
        lambda: visops.rle_to_masks(OTHER, size=(2, 3)),
    ),
    (
        ValueError,
        "rle_to_masks: size is (2,), must be two integers, height and width",
        lambda: visops.rle_to_masks([], size=(2,)),
    ),
    (
        ValueError,
        "rle_to_masks: rles is empty, must hold a dict unless size is given",
        lambda: visops.rle_to_masks([]),
    ),
    (
        ValueError,
        "rle_to_masks: out is 'float', must be 'bool', 'uint8' or 'packed'",
        lambda: visops.rle_to_masks(GOOD, out="float"),
    ),
    (
        TypeError,
        "rle_iou: rles1 is a dict, must be a list of dicts",
        lambda: visops.rle_iou(GOOD, [GOOD]),  # type: ignore[arg-type]
    ),
    (
        ValueError,
        "rle_iou: rles2[1]['size'] is [3, 2], rles1[0]['size'] is [2, 3]: masks must be of one",
        lambda: visops.rle_iou([GOOD], [GOOD, OTHER]),
    ),
    (
        ValueError,
        "rle_iou: iscrowd has shape [1], must be [2], one for each of rles2",
        lambda: visops.rle_iou([GOOD], [GOOD] * 2, [1]),
    ),
    (
        ValueError,
        "rle_iou: iscrowd has dtype float64, must be bool or integers",
        lambda: visops.rle_iou([GOOD], [GOOD] * 2, [1.0, 0.5]),
    ),
)
def test_lists(error: type[Exception], message: str, call: Call) -> None:
    check(error, message, call)


TRIANGLE = [0.0, 0, 4, 0, 0, 4]


def draw(polygons: Any, size: Any = (5, 6), **options: Any) -> Call:
    return lambda: visops.polygons_to_masks(polygons, size, **options)


@table(
    (TypeError, "polygons is a dict, must be a list of objects", draw({})),
    (TypeError, "polygons is a ndarray, must be a list of objects", draw(np.zeros((1, 2, 3, 2)))),
    (TypeError, "polygons[0] is a float, must be a list of polygons", draw(TRIANGLE)),
    (TypeError, "polygons[1] is a str, must be a list of polygons", draw([[], "x"])),
    (TypeError, "polygons[0][0] is a float, must be a list of coordinates", draw([TRIANGLE])),
    (
        ValueError,
        "polygons[0][1] has 2 corners, must have 3 or more",
        draw([[TRIANGLE, TRIANGLE[:4]]]),
    ),
    (ValueError, "polygons[0][0] has 0 corners, must have 3 or more", draw([[[]]])),
    (ValueError, "polygons[0][0] has shape [5], must be [2 K] or [K, 2]", draw([[TRIANGLE[:5]]])),
    (
        ValueError,
        "polygons[0][0] has shape [2, 3], must be [2 K] or [K, 2]",
        draw([[np.zeros((2, 3))]]),
    ),
    (
        ValueError,
        "polygons[0][0] holds what is no number, must be x1, y1, x2, y2, ...",
        draw([[["a"] * 6]]),
    ),
    (ValueError, "polygons[0][0] holds what is no number", draw([[[[1, 2], 3, 4]]])),
    (
        ValueError,
        "polygons[2][1] has y = nan at corner 2, must be finite and from -1e8 to 1e8",
        draw([[TRIANGLE], [], [TRIANGLE, [*TRIANGLE[:5], np.nan]]]),
    ),
    (
        ValueError,
        "polygons[0][0] has x = inf at corner 0, must be finite and from -1e8 to 1e8",
        draw([[[np.inf, *TRIANGLE[1:]]], [TRIANGLE]]),
    ),
    (
        ValueError,
        "polygons[1][0] has x = -200000000.0 at corner 1, must be finite and from -1e8 to 1e8",
        draw([[TRIANGLE], [[0, 0, -2e8, 0, 0, 1]]]),
    ),
    (ValueError, "size is 5, must be two integers, height and width", draw([], 5)),
    (ValueError, "size is [-1, 5], must be >= 0", draw([], (-1, 5))),
    (
        ValueError,
        "out is 'mask', must be 'bool', 'uint8', 'packed' or 'rle'",
        draw([], out="mask"),
    ),
)
def test_polygons(error: type[Exception], message: str, call: Call) -> None:
    check(error, "polygons_to_masks: " + message, call)


def test_vmap() -> None:
    """Runs can be mapped where all entries have as many; dictionaries can't be made there."""
    masks = torch.zeros(2, 3, 8, 8, dtype=torch.bool)
    masks[..., 2:5, 3:6] = True
    message = "masks_to_rle: under vmap values can't be read; give it all masks as [N, H, W]"
    check(RuntimeError, message, lambda: torch.vmap(visops.masks_to_rle)(masks))
    boxes = torch.tensor([[0.0, 0, 5, 5]]).expand(3, 4)

    def paste(soft: torch.Tensor) -> Any:
        return visops.paste_masks(soft, boxes, (8, 8), out="rle")

    check(
        RuntimeError,
        "paste_masks: under vmap values can't be read; give it all masks and boxes, or another out",
        lambda: torch.vmap(paste)(masks.float()),
    )
    ends, offsets = torch.vmap(OPS.masks_to_runs)(masks)
    bits = torch.vmap(lambda e, o: OPS.runs_to_bits(e, o, [8, 8]))(ends, offsets)
    for i in range(2):
        alone = OPS.masks_to_runs(masks[i])
        assert torch.equal(ends[i], alone[0])
        assert torch.equal(offsets[i], alone[1])
        assert torch.equal(bits[i], OPS.runs_to_bits(*alone, [8, 8]))
    message = "masks_to_runs: under vmap, sample 1 has 3 results and sample 0 has 21"
    masks[1] = False
    check(RuntimeError, message, lambda: torch.vmap(OPS.masks_to_runs)(masks))
