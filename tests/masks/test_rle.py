"""Run lengths: against loops over pixels and pycocotools; errors; at random; within torch."""

import json
from typing import Any

import numpy as np
import pytest
import torch
import visops
from bad_input import check
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kernels import use_slot
from recorder import Recorder
from references import rle as reference
from roi.align_cases import same_bits
from torch import Tensor
from visops import _native

from masks.cases import KINDS, LAYOUTS, SIZES, some_masks

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
def test_decode(out: Any) -> None:
    coco = pytest.importorskip("pycocotools.mask")
    for i, (height, width) in enumerate(ALL_SIZES):
        masks = sample(height, width, i)
        rles = coco_encode(masks)
        np.testing.assert_array_equal(coco.decode(rles).transpose(2, 0, 1), masks)
        mixed = [
            {"size": (height, width), "counts": [bytes, str, list][k % 3](_counts_in(rle, k % 3))}
            for k, rle in enumerate(rles)
        ]
        for form in (rles, tuple(mixed)):
            found = visops.rle_to_masks(form, out=out, size=(height, width))
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
        boxes = visops.rle_to_boxes(rles).numpy()
        np.testing.assert_array_equal(boxes, visops.masks_to_boxes(masks))
        boxes[:, 2:] += np.asarray(masks.any((1, 2)))[:, None] - boxes[:, :2]
        np.testing.assert_array_equal(boxes, coco.toBbox(rles))
    assert visops.rle_area(rles[0]).shape == ()
    assert visops.rle_to_boxes(rles[0]).shape == (4,)
    several = [{"size": [2, 3], "counts": [1, 4, 1]}, {"size": [4, 1], "counts": [1, 2, 1]}]
    assert visops.rle_to_boxes(several).tolist() == [[0, 0, 2, 1], [0, 1, 0, 2]]


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
    rles = visops.masks_to_rle(masks, text=True)
    decoded = [rle["counts"].decode("ascii") for rle in visops.masks_to_rle(masks)]
    assert [rle["counts"] for rle in rles] == decoded
    assert visops.masks_to_rle(masks[0], text=True) == rles[0]
    stored = json.dumps(rles)
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


OPS = torch.ops.visops
ENDS, OFFSETS = torch.tensor([3, 6], dtype=torch.int32), torch.tensor([0, 2])


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


few = settings(max_examples=25)
seeds = st.integers(0, 2**32 - 1)
heights, widths = st.integers(0, 200), st.integers(0, 200)
densities = st.sampled_from([0.0, 0.01, 0.5, 0.99, 1.0])


@few
@given(seed=seeds, height=heights, width=widths, count=st.integers(0, 4), density=densities)
def test_coding_loses_nothing(
    seed: int, height: int, width: int, count: int, density: float
) -> None:
    masks = np.random.default_rng(seed).random((count, height, width)) < density
    rles = visops.masks_to_rle(masks)
    assert rles == visops.masks_to_rle(visops.pack_masks(masks))
    counts = [rle["counts"] for rle in visops.masks_to_rle(masks, compressed=False)]
    assert all(sum(c) == height * width and 0 not in c[1:] for c in counts)
    assert [rle["counts"] for rle in rles] == [reference.text_of(c) for c in counts]
    np.testing.assert_array_equal(visops.rle_to_masks(rles, size=(height, width)).numpy(), masks)
    np.testing.assert_array_equal(visops.rle_area(rles).numpy(), masks.sum((1, 2)))
    np.testing.assert_array_equal(visops.rle_to_boxes(rles), visops.masks_to_boxes(masks))


@settings(max_examples=200)
@example(b"0")
@example(b"")
@example(b"P" * 40)
@given(text=st.binary(max_size=12) | st.text("0123456789:;OPQnop", max_size=9).map(str.encode))
def test_any_text_is_read_or_refused(text: bytes) -> None:
    rle = {"size": [5, 4], "counts": text}
    try:
        mask = visops.rle_to_masks(rle)
    except ValueError as error:
        message = str(error)
    else:
        message = ""
    if message:
        assert message.startswith("visops.rle_to_masks: rles[0]['counts'] ")
        return
    assert mask.shape == (5, 4)
    assert visops.rle_area(rle).item() == mask.sum().item()


@settings(max_examples=60)
@given(counts=st.lists(st.integers(-2, 12), max_size=8))
def test_any_counts_are_read_or_refused(counts: list[int]) -> None:
    rle = {"size": [5, 4], "counts": counts}
    if min(counts, default=0) < 0 or sum(counts) != 20:
        with pytest.raises(ValueError, match=r"rles\[0\]\['counts'\] has the (count|sum) "):
            visops.rle_to_masks(rle)
        return
    np.testing.assert_array_equal(visops.rle_to_masks(rle).numpy(), reference.mask_of(counts, 5, 4))


def test_strided_runs() -> None:
    masks = some_masks()
    ends, offsets = OPS.masks_to_runs(masks)
    apart = [torch.stack([part, part + 1], 1)[:, 0] for part in (ends, offsets)]
    assert not apart[0].is_contiguous()
    assert torch.equal(OPS.runs_to_bits(*apart, masks.shape[1:]), OPS.pack_masks(masks))


def test_compile_of_the_operators() -> None:
    """The number of runs stays open."""

    def step(masks: Tensor) -> Tensor:
        ends, offsets = OPS.masks_to_runs(masks)
        bits: Tensor = OPS.runs_to_bits(ends, offsets, masks.shape[1:])
        return OPS.unpack_masks(bits, masks.shape[2])  # type: ignore[no-any-return]

    torch._dynamo.reset()
    with torch._dynamo.config.patch(error_on_recompile=True):
        compiled = torch.compile(step, fullgraph=True, dynamic=True, backend="aot_eager")
        for masks in (some_masks(), some_masks(3, 20, 133), some_masks(5, 8, 96)):
            assert torch.equal(compiled(masks), masks)


def test_functions_break_graphs() -> None:
    """They are called between two graphs."""

    def step(masks: Tensor) -> Tensor:
        rles = visops.masks_to_rle(masks.logical_not())
        decoded: Tensor = visops.rle_to_masks(rles)
        return decoded.logical_not() & (visops.rle_area(rles)[:, None, None] >= 0)

    torch._dynamo.reset()
    masks = some_masks()
    assert torch.equal(torch.compile(step, backend="eager")(masks), masks)
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="its Python reads values"):
        torch.compile(step, backend="eager", fullgraph=True)(masks)


def test_one_wait_for_the_runs() -> None:
    """Emulated CUDA reads how many there are, and no masks."""
    masks = torch.rand((4, 30, 70), generator=torch.Generator().manual_seed(0)) < 0.6
    with use_slot("cuda_emulated"), Recorder() as found:
        OPS.masks_to_runs(masks)
    copies = [args[0] for name, args, _ in found.calls if name == "_to_copy"]
    assert [copy.numel() for copy in copies] == [1]
    assert len(found.waits) == 1
