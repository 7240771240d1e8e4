"""Values of run lengths: against loops over pixels and pycocotools."""

import json
from typing import Any

import numpy as np
import pytest
import torch
import visops
from references import rle as reference
from roi.align_cases import same_bits
from visops import _native

from masks.mask_cases import KINDS, LAYOUTS, SIZES

EMULATED = visops.build_info()["cpu"] == "cuda_emulated"
ALL_SIZES = (*SIZES, (63, 66), (64, 64), (65, 3), (128, 5), (130, 70))


def sample(height: int, width: int, seed: int = 0) -> np.ndarray:
    """A mask of every kind."""
    rng = np.random.default_rng(seed)
    return np.stack([make(rng, height, width) for make in KINDS.values()])


def coco_encode(masks: np.ndarray) -> list[dict[str, Any]]:
    """What pycocotools makes of masks [N, H, W]."""
    coco = pytest.importorskip("pycocotools.mask")
    found: list[dict[str, Any]] = coco.encode(
        np.asfortranarray(masks.transpose(1, 2, 0).astype(np.uint8))
    )
    return found


@pytest.mark.matrix
@pytest.mark.parametrize("layout", LAYOUTS)
def test_encode(layout: str) -> None:
    rng = np.random.default_rng(1)
    for i, (height, width) in enumerate(ALL_SIZES):
        masks = sample(height, width, i)
        values = torch.from_numpy(masks)
        if i % 2:  # pixels that are not 0 are inside, whichever bit is set
            values = values * torch.from_numpy(2 ** rng.integers(0, 8, masks.shape)).byte()
        given = LAYOUTS[layout](values)
        counts = [reference.counts_of(mask) for mask in masks]
        texts = [{"size": [height, width], "counts": reference.text_of(c)} for c in counts]
        for form in (given, visops.pack_masks(given), given.numpy()):
            assert visops.masks_to_rle(form) == texts
        plain = visops.masks_to_rle(given, compressed=False)
        assert [rle["counts"] for rle in plain] == counts
        assert visops.masks_to_rle(given[3]) == texts[3]
        assert coco_encode(masks) == texts


@pytest.mark.matrix
@pytest.mark.parametrize("out", ["bool", "uint8", "packed"])
def test_decode(out: str) -> None:
    coco = pytest.importorskip("pycocotools.mask")
    for i, (height, width) in enumerate(ALL_SIZES):
        masks = sample(height, width, i)
        rles = coco_encode(masks)
        np.testing.assert_array_equal(coco.decode(rles).transpose(2, 0, 1), masks)
        mixed = [
            {"size": (height, width), "counts": [bytes, str, list][k % 3](_counts_in(rle, k % 3))}
            for k, rle in enumerate(rles)
        ]
        for given in (rles, tuple(mixed)):
            found = visops.rle_to_masks(given, out=out, size=(height, width))
            if out == "packed":
                assert torch.equal(found.bits, visops.pack_masks(torch.from_numpy(masks)).bits)
                found = found.unpack()
            assert found.dtype == (torch.uint8 if out == "uint8" else torch.bool)
            np.testing.assert_array_equal(found.numpy(), masks)
        one = visops.rle_to_masks(mixed[4], out=out)
        one = one.unpack() if out == "packed" else one
        np.testing.assert_array_equal(one.numpy(), masks[4])


def _counts_in(rle: dict[str, Any], kind: int) -> Any:
    """The counts of an RLE as bytes, a string or integers."""
    if kind == 0:
        return rle["counts"]
    if kind == 1:
        return rle["counts"].decode()
    mask = visops.rle_to_masks(rle)
    return reference.counts_of(mask.numpy())


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor])
def test_counts_as_numbers(kind: Any) -> None:
    """Runs without pixels too, anywhere."""
    counts = [0, 3, 0, 0, 5, 1, 0, 2, 1, 0]
    rle = {"size": [3, 4], "counts": kind(counts)}
    expected = reference.mask_of(counts, 3, 4)
    np.testing.assert_array_equal(visops.rle_to_masks(rle).numpy(), expected)
    assert visops.rle_area(rle).item() == expected.sum()
    text = {"size": [3, 4], "counts": reference.text_of(counts)}
    np.testing.assert_array_equal(visops.rle_to_masks(text).numpy(), expected)
    whole = [visops.masks_to_rle(expected)]
    assert visops.rle_iou([rle, text], whole).tolist() == [[1.0], [1.0]]


def test_areas_and_overlaps() -> None:
    coco = pytest.importorskip("pycocotools.mask")
    for i, (height, width) in enumerate((*SIZES[3:], (40, 50))):
        masks = np.concatenate([sample(height, width, i), sample(height, width, i + 50)])
        rles = coco_encode(masks)
        assert visops.rle_area(rles).tolist() == coco.area(rles).tolist()
        assert visops.rle_area(rles).dtype == torch.int64
        own = coco.iou(rles, rles, [False] * len(rles))
        np.testing.assert_array_equal(visops.rle_iou(rles, rles).numpy(), own)
        crowd = [k % 3 == 0 for k in range(9)]
        for flags in (None, crowd, np.array(crowd), torch.tensor(crowd), list(map(int, crowd))):
            found = visops.rle_iou(rles, rles[:9], flags)
            decoded = [{**rle, "counts": rle["counts"].decode()} for rle in rles]
            assert torch.equal(visops.rle_iou(decoded, rles[:9], flags), found)
            given = [False] * 9 if flags is None else crowd
            expected = coco.iou(rles, rles[:9], given)
            assert found.dtype == torch.float64
            np.testing.assert_array_equal(found.numpy(), expected)
            loops = [
                [reference.overlap(a, b, c) for b, c in zip(masks[:9], given, strict=True)]
                for a in masks
            ]
            np.testing.assert_array_equal(found.numpy(), loops)
    assert visops.rle_area(rles[0]).shape == ()


def test_what_is_read_in_python_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dictionaries as COCO's tools write them are read in C++, all others in Python."""
    rles = visops.masks_to_rle(sample(40, 50))
    others = visops.masks_to_rle(sample(33, 50))
    calls = [
        (lambda: visops.rle_area(rles), (len(rles),)),
        (lambda: visops.rle_area(rles + others), (2 * len(rles),)),
        (lambda: visops.rle_area(rles[1]), ()),
        (lambda: visops.rle_area([]), (0,)),
        (lambda: visops.rle_iou(rles, rles[:5]), (len(rles), 5)),
        (lambda: visops.rle_iou(rles[:3], rles, [1] * len(rles)), (3, len(rles))),
    ]
    assert _native.rle_areas(rles) is not None
    assert _native.rle_overlaps(rles, rles[:5], None) is not None
    assert _native.rle_overlaps(rles, others, None) is None
    found = [call() for call, _ in calls]
    for name in ("_rle_areas", "_rle_overlaps"):
        monkeypatch.setattr(f"visops.masks.rle.{name}", lambda *_: None)
    for (call, shape), value in zip(calls, found, strict=True):
        assert value.shape == shape
        assert same_bits(call(), value)


def test_boxes_without_common_pixels() -> None:
    """Runs of two masks in turn, in the same rows and columns."""
    masks = np.zeros((2, 20, 30), bool)
    masks[0, ::2], masks[1, 1::2] = True, True
    rles = visops.masks_to_rle(masks)
    assert visops.rle_iou(rles, rles).tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("shape", [(0, 4, 5), (2, 0, 5), (2, 4, 0), (0, 0, 0), (0, 0)])
def test_nothing(shape: tuple[int, ...]) -> None:
    masks = torch.ones(shape, dtype=torch.bool)
    size = shape[-2:]
    for form in (masks, visops.pack_masks(masks), masks.numpy()):
        rles = visops.masks_to_rle(form)
        plain = visops.masks_to_rle(form, compressed=False)
        if len(shape) == 2:
            assert (rles, plain) == (
                {"size": list(size), "counts": b"0"},
                {"size": list(size), "counts": [0]},
            )
        else:
            assert rles == [{"size": list(size), "counts": b"0"}] * shape[0]
            assert plain == [{"size": list(size), "counts": [0]}] * shape[0]
            assert rles == coco_encode(masks.numpy())
        for out in ("bool", "uint8"):
            assert visops.rle_to_masks(rles, size=size, out=out).shape == shape
        assert visops.rle_to_masks(rles, size=size, out="packed").unpack().shape == shape
        assert visops.rle_area(rles).shape == shape[:-2]
    if len(shape) == 3:
        assert visops.rle_iou(rles, rles).shape == (shape[0], shape[0])
        assert not visops.rle_iou(rles, rles).any()


def test_json() -> None:
    """As COCO's result files have them."""
    masks = sample(9, 70)
    rles = visops.masks_to_rle(masks)
    stored = json.dumps([{**rle, "counts": rle["counts"].decode("ascii")} for rle in rles])
    np.testing.assert_array_equal(visops.rle_to_masks(json.loads(stored)).numpy(), masks)


def test_bits_past_the_width() -> None:
    """Packed masks that somebody else made may have them."""
    masks = torch.from_numpy(sample(130, 70))
    packed = visops.pack_masks(masks)
    rng = np.random.default_rng(0)
    noise = torch.from_numpy(rng.integers(0, 2**63, packed.bits.shape))
    noise[..., 0], noise[..., 1] = 0, noise[..., 1] & ~0x3F
    assert noise.any()
    changed = packed.bits | noise
    for ours, wanted in zip(
        torch.ops.visops.masks_to_runs(changed, 70),
        torch.ops.visops.masks_to_runs(packed.bits, 70),
        strict=True,
    ):
        assert torch.equal(ours, wanted)
    made = visops.masks.PackedMasks(changed, packed.size)
    assert visops.masks_to_rle(made) == visops.masks_to_rle(masks)


def test_many_masks() -> None:
    """More than a group of them, of all lengths: memory for runs grows."""
    rng = np.random.default_rng(3)
    count = 20 if EMULATED else 150
    masks = rng.random((count, 90, 301)) < rng.choice([0, 0.001, 0.5, 1], (count, 1, 1))
    rles = visops.masks_to_rle(masks)
    assert rles == coco_encode(masks)
    np.testing.assert_array_equal(visops.rle_to_masks(rles).numpy(), masks)


def test_large_counts() -> None:
    """Numbers of all lengths up to seven characters."""
    height, width = 46_000, 46_000
    for first in (1, 15, 16, 1 << 9, 1 << 14, 1 << 19, 1 << 24, 1 << 29, height * width - 1):
        counts = [first, 1, height * width - first - 1]
        text = reference.text_of(counts)
        rle = {"size": [height, width], "counts": text}
        assert visops.rle_area([rle, {**rle, "counts": counts}]).tolist() == [1, 1]
        assert visops.rle_iou([rle], [{**rle, "counts": counts}]).item() == 1.0


@pytest.mark.matrix
def test_tall_and_wide() -> None:
    for height, width in ((3000, 2), (2, 3000), (1, 5000), (5000, 1)):
        masks = sample(height, width)
        rles = visops.masks_to_rle(masks)
        assert rles == coco_encode(masks)
        np.testing.assert_array_equal(visops.rle_to_masks(rles).numpy(), masks)
