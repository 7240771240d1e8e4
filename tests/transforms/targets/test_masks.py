"""Masks against loops: every dtype, form, window and batch; their fill."""

from typing import Any

import numpy as np
import pytest
import torch
from references.targets import move_mask
from torchvision.transforms import v2
from visops import transforms as T
from visops.transforms.sample.split import split_sample
from visops.transforms.targets.masks import move_mask as move
from visops.transforms.targets.move import move_targets
from visops.transforms.targets.options import Geometry, TargetOptions

pil = pytest.importorskip("PIL.Image")
tv = pytest.importorskip("torchvision.tv_tensors")

SIZE = (11, 14)
OUT = (9, 12)
RNG = np.random.default_rng(0)
SHIFT = np.array([[1.0, 0, 3], [0, 1, -2], [0, 0, 1]])
# Numbers that leave no pixel halfway between two.
TURN = np.array([[0.9123, -0.5217, 4.117], [0.4531, 0.8579, -2.313], [0, 0, 1]])
PERSPECTIVE = np.array([[0.9, -0.2, 2.1], [0.1, 0.85, -1.3], [0.01, 0.02, 1]])


def geometry(matrices: Any, window: Any = None, out: Any = OUT, size: Any = SIZE) -> Geometry:
    m = np.array(matrices, np.float64).reshape(-1, 3, 3)
    windows = None if window is None else np.array([window] * len(m), np.float64)
    sizes = [np.broadcast_to(np.array(s), (len(m), 2)).copy() for s in (size, out)]
    return Geometry(m, sizes[0], sizes[1], windows)


@pytest.mark.matrix
@pytest.mark.parametrize("matrix", [SHIFT, TURN, PERSPECTIVE], ids=["shift", "turn", "perspective"])
@pytest.mark.parametrize("window", [None, [2.0, 3, 11, 9], [2.3, 3.4, 10.2, 8.6]], ids=str)
def test_masks_equal_loops(matrix: np.ndarray, window: list[float] | None) -> None:
    mask = RNG.integers(0, 200, SIZE).astype(np.uint8)
    result = move(mask, False, geometry(matrix, window), 255)
    expected = move_mask(mask, matrix, OUT, 255, window)
    assert len(np.unique(expected)) > 10  # otherwise the test shows nothing
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        (torch.bool, 0, 1),
        (torch.uint8, 0, 255),
        (torch.int8, -128, 127),
        (torch.int16, -(2**15), 2**15 - 1),
        (torch.uint16, 0, 2**16 - 1),
        (torch.int32, -(2**31), 2**31 - 1),
        (torch.uint32, 0, 2**32 - 1),
        (torch.int32, 0, 255),
        (torch.int32, 0, 256),
        (torch.int64, -(2**24), 2**24),
        (torch.int64, -(2**63), 2**63 - 1),
    ],
    ids=str,
)
def test_integers_are_exact(dtype: torch.dtype, low: int, high: int) -> None:
    values = RNG.integers(low, high, SIZE, dtype=np.int64, endpoint=True)
    values[4:6, 5:8] = [low, high, high - 1]
    mask = torch.from_numpy(values).to(dtype)
    fill = min(high, 200)
    result = move(mask, False, geometry(TURN), fill)
    assert result.dtype == dtype
    expected = move_mask(mask.numpy(), TURN, OUT, fill)
    np.testing.assert_array_equal(result.numpy(), expected)


def test_dtypes_move_alike() -> None:
    """Also where a pixel's centre falls on the border between two of the source."""
    mask = torch.from_numpy(RNG.integers(0, 100, (2, 40, 60)))
    shrink = np.array([[0.8, 0.0, 0.0], [0.0, 0.8, 0.0], [0.0, 0.0, 1.0]])
    for matrix in (shrink, PERSPECTIVE, TURN):
        geo = geometry(matrix, out=(32, 48), size=(40, 60))
        expected = move(mask.to(torch.uint8), False, geo, 101)
        for dtype in (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint64):
            assert torch.equal(move(mask.to(dtype), False, geo, 101).to(torch.uint8), expected)
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            assert torch.equal(move(mask.to(dtype), False, geo, 101).to(torch.uint8), expected)
        huge = mask + 2**40
        assert torch.equal(move(huge, False, geo, 2**40 + 101) - 2**40, expected.long())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_floating_masks(dtype: torch.dtype) -> None:
    mask = torch.rand(SIZE).to(dtype)
    result = move(mask, False, geometry(TURN), 0)
    assert result.dtype == dtype
    expected = move_mask(mask.double().numpy(), TURN, OUT, 0)
    np.testing.assert_array_equal(result.double().numpy(), expected)


def test_forms() -> None:
    masks = RNG.integers(0, 200, (3, *SIZE))
    expected = np.stack([move_mask(mask, TURN, OUT, 255) for mask in masks])
    one = geometry(TURN)
    for value in (
        masks,
        np.asfortranarray(masks),
        masks.astype(">i4"),
        torch.from_numpy(masks),
        torch.from_numpy(np.asfortranarray(masks)),
    ):
        result = move(value, False, one, 255)
        assert type(result) is type(value)
        np.testing.assert_array_equal(np.asarray(result), expected)
        np.testing.assert_array_equal(np.asarray(move(value[1], False, one, 255)), expected[1])
    flipped = masks[:, :, ::-1]  # negative strides
    np.testing.assert_array_equal(
        move(flipped, False, one, 255), np.stack([move_mask(m, TURN, OUT, 255) for m in flipped])
    )
    frozen = masks.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(move(frozen, False, one, 255), expected)
    assert move(torch.zeros(0, *SIZE), False, one, 255).shape == (0, *OUT)


def test_batches() -> None:
    matrices = [SHIFT, TURN, PERSPECTIVE]
    all_ = geometry(matrices)
    masks = torch.from_numpy(RNG.integers(0, 200, (3, 2, *SIZE)))
    expected = torch.stack(
        [
            torch.stack([torch.from_numpy(move_mask(m.numpy(), matrix, OUT, 255)) for m in pair])
            for matrix, pair in zip(matrices, masks, strict=True)
        ]
    )
    assert torch.equal(move(masks, True, all_, 255), expected)
    assert torch.equal(move(masks[:, 0], True, all_, 255), expected[:, 0])
    for own, other in zip(move(list(masks), True, all_, 255), expected, strict=True):
        assert torch.equal(own, other)
    for own, other in zip(move(list(masks[:, 0]), True, all_, 255), expected[:, 0], strict=True):
        assert torch.equal(own, other)
    # As bytes.
    huge = masks + 2**40
    for value in (huge, list(huge)):
        moved = move(value, True, all_, 2**40 + 255)
        stacked = torch.stack(moved) if isinstance(moved, list) else moved
        assert torch.equal(stacked - 2**40, expected)
    window = [2.0, 3, 11, 9]
    cut = move(masks, True, geometry(matrices, window), 255)
    assert torch.equal(move(huge, True, geometry(matrices, window), 2**40 + 255) - 2**40, cut)
    # Different numbers of masks, then different sizes.
    ragged = [masks[0], masks[1, :1], masks[2, :0]]
    moved = move(ragged, True, all_, 255)
    assert [tuple(m.shape) for m in moved] == [(2, *OUT), (1, *OUT), (0, *OUT)]
    assert torch.equal(moved[0], expected[0])
    assert torch.equal(moved[1], expected[1, :1])
    cut = [masks[0, 0], masks[1, 0, :7, :9]]
    both = geometry(matrices[:2], size=[[11, 14], [7, 9]])
    moved = move(cut, True, both, 255)
    assert torch.equal(moved[0], expected[0, 0])
    np.testing.assert_array_equal(moved[1].numpy(), move_mask(cut[1].numpy(), TURN, OUT, 255))
    # Results of different sizes can't be one tensor.
    sizes = geometry(matrices[:2], out=[[9, 12], [4, 5]])
    for value in (masks[:2, 0], list(masks[:2, 0])):
        moved = move(value, True, sizes, 255)
        assert torch.equal(moved[0], expected[0, 0])
        assert torch.equal(moved[1], expected[1, 0, :4, :5])


def filled(sample: Any, **options: Any) -> Any:
    """Move all pixels out of the picture, which leaves only fill."""
    leaves, rebuild = split_sample(sample)
    away = np.array([[1.0, 0, 99], [0, 1, 99], [0, 0, 1]])
    move_targets(leaves, geometry(away, out=SIZE), TargetOptions(**options))
    return rebuild(leaves)


def test_fill() -> None:
    image = torch.zeros(3, *SIZE)
    zeros = torch.zeros(SIZE)
    sample = {
        "image": image,
        "mask": zeros.to(torch.uint8),
        "target": {
            "boxes": torch.zeros(2, 4),
            "masks": torch.ones(2, *SIZE, dtype=torch.uint8),
            "mask": torch.ones(2, *SIZE, dtype=torch.int64),
        },
        "more": [tv.Mask(zeros.bool()), tv.Mask(zeros + 1), tv.Mask(zeros.int())],
        "numbers": {"mask": np.ones(SIZE, np.int32), "masks": torch.ones(2, *SIZE).to(torch.uint8)},
    }
    for fill in (255, 7, 0):
        result = filled(sample, mask_fill=fill)
        assert torch.equal(result["mask"], torch.full(SIZE, fill, dtype=torch.uint8))
        assert result["target"]["masks"].unique().tolist() == [0]  # one per box
        assert result["target"]["mask"].unique().tolist() == [fill]
        kinds = [mask.unique().tolist() for mask in result["more"]]
        assert kinds == [[False], [0.0], [fill]]
        assert [type(mask) for mask in result["more"]] == [tv.Mask] * 3
        assert np.unique(result["numbers"]["mask"]).tolist() == [fill]
        assert result["numbers"]["masks"].unique().tolist() == [fill]  # no boxes there


def test_pillow_masks_become_tensors() -> None:
    mask = RNG.integers(0, 200, SIZE).astype(np.uint8)
    leaves, rebuild = split_sample({"image": torch.zeros(3, *SIZE), "mask": pil.fromarray(mask)})
    assert torch.equal(rebuild(leaves)["mask"], torch.from_numpy(mask))
    move_targets(leaves, geometry(TURN), TargetOptions())
    result = rebuild(leaves)["mask"]
    np.testing.assert_array_equal(result.numpy(), move_mask(mask, TURN, OUT, 0))


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.int64, torch.float32], ids=str)
def test_masks_are_padded_as_their_image_is(mode: Any, dtype: torch.dtype) -> None:
    """torchvision's values; objects end at the image, as their boxes do."""
    mask = torch.from_numpy(RNG.integers(0, 2 if dtype == torch.bool else 9, SIZE)).to(dtype)
    image = torch.zeros(3, *SIZE, dtype=torch.uint8)
    expected = v2.Pad((2, 3, 4, 5), padding_mode=mode)(tv.Mask(mask))
    chain = T.Compose([T.Pad((2, 3, 4, 5), padding_mode=mode)])
    box = torch.tensor([[0.0, 0.0, 14.0, 11.0]])
    sample = {"image": image, "mask": mask, "boxes": box, "masks": mask[None]}
    found = chain(sample)
    assert torch.equal(found["mask"], expected)
    assert torch.equal(found["masks"][0, 3:-5, 2:-4], mask)
    assert found["masks"][0, :3].sum() == found["masks"][0, :, :2].sum() == 0
    assert torch.equal(chain({"image": image, "mask": mask})["mask"], expected)
    assert torch.equal(chain(tv.Image(image), tv.Mask(mask))[1], expected)
    assert np.array_equal(chain({"image": image, "mask": mask.numpy()})["mask"], expected)
    batch = chain({"image": torch.stack([image] * 2), "mask": torch.stack([mask] * 2)})["mask"]
    assert torch.equal(batch, torch.stack([expected] * 2))


@pytest.mark.parametrize(
    "step",
    [
        T.RandomCrop((30, 40), pad_if_needed=True, padding_mode="reflect"),
        T.GridDistortion(
            3, normalized=False, p=1.0, padding_mode="reflect", interpolation="nearest"
        ),
        T.OpticalDistortion((-1, -1), p=1.0, padding_mode="symmetric", interpolation="nearest"),
        T.ThinPlateSpline((2, 3), p=1.0, padding_mode="circular", interpolation="nearest"),
    ],
    ids=lambda v: type(v).__name__,
)
def test_masks_show_what_the_image_does(step: Any) -> None:
    mask = torch.from_numpy(RNG.integers(0, 200, (21, 24)).astype(np.uint8))
    chain = T.Compose([step, T.RandomHorizontalFlip()], seed=0)
    for index in range(4):
        found = chain({"image": mask[None], "mask": mask}, index=index)
        assert torch.equal(found["mask"], found["image"][0])
    batch = {"image": mask.expand(4, 1, -1, -1), "mask": mask.expand(4, -1, -1)}
    found = chain(batch, index=range(4))
    assert torch.equal(found["mask"], found["image"][:, 0])
