"""Values that are neither tensors nor arrays: Pillow's modes, and objects of any class."""

import collections
import dataclasses
import decimal
import enum
import functools
import types
import uuid
from typing import Any

import numpy as np
import pytest
import torch
from bad_input import check
from visops import transforms

pil = pytest.importorskip("PIL.Image")
tv = pytest.importorskip("torchvision.tv_tensors")

FLIP = transforms.RandomHorizontalFlip(1.0)
RNG = np.random.default_rng(0)
COLORS = RNG.integers(0, 256, (6, 8, 3), np.uint8)
CLASSES = RNG.choice(np.array([0, 7, 200], np.uint8), (6, 8))
PHOTO = pil.fromarray(COLORS)
SINGLE_BAND = ("1", "L", "P", "I", "I;16", "F")


def mask_of(mode: str) -> Any:
    return pil.fromarray(CLASSES).convert("I" if mode == "I;16" else mode).convert(mode)


@pytest.mark.parametrize("mode", ["1", "L", "P", "F"])
def test_pil_masks_beside_images_must_be_marked(mode: str) -> None:
    mask = mask_of(mode)
    message = (
        f"transforms: sample[1] is a PIL image of mode {mode!r} beside sample[0], and may be a "
        "mask; must be in a dict under 'mask' or 'image' (add names with keys={'mask': [...]}), or "
        "a tv_tensors.Mask or tv_tensors.Image"
    )
    check(TypeError, message, lambda: FLIP((PHOTO, mask)))
    message = message.replace("[1]", "['seg']").replace("[0]", "['image']")
    check(TypeError, message, lambda: FLIP({"image": PHOTO, "seg": mask}))


def test_which_of_two_pil_images_is_named() -> None:
    grey = mask_of("L")
    for sample, name, other in (((grey, PHOTO), 0, 1), ((grey, grey), 1, 0)):
        message = f"transforms: sample[{name}] is a PIL image of mode 'L' beside sample[{other}]"
        check(TypeError, message, lambda sample=sample: FLIP(sample))  # type: ignore[misc]


@pytest.mark.parametrize("mode", SINGLE_BAND)
def test_marked_pil_masks_keep_their_classes(mode: str) -> None:
    mask = mask_of(mode)
    expected = np.asarray(mask)
    half = transforms.Resize((3, 4))
    seen = half({"image": PHOTO, "mask": mask})["mask"]
    assert set(seen.unique().tolist()) <= set(expected.ravel().tolist())
    marked = transforms.Compose([FLIP], keys={"mask": ["seg"]})({"image": PHOTO, "seg": mask})
    np.testing.assert_array_equal(marked["seg"].numpy(), expected[:, ::-1])


def test_other_ways_to_mark() -> None:
    mask = mask_of("L")
    _, typed = FLIP((PHOTO, tv.Mask(mask)))
    np.testing.assert_array_equal(typed.numpy()[0], CLASSES[:, ::-1])
    both = FLIP({"image": PHOTO, "img": mask})  # two pictures
    np.testing.assert_array_equal(both["img"].numpy()[0], CLASSES[:, ::-1])
    left, right = FLIP((PHOTO, PHOTO))
    assert torch.equal(left, right)
    assert FLIP((mask, 3))[0].shape == (1, 6, 8)
    assert FLIP([mask, mask]).shape == (2, 1, 6, 8)  # a batch


def test_palettes_are_read_as_colours_in_images() -> None:
    palette = PHOTO.quantize(16)
    expected = np.asarray(palette.convert("RGB"))[:, ::-1]
    np.testing.assert_array_equal(FLIP(palette).permute(1, 2, 0).numpy(), expected)


def test_palettes_with_alpha() -> None:
    palette = PHOTO.quantize(16)
    with_alpha = palette.convert("PA")
    expected = np.asarray(with_alpha.convert("RGBA"))[:, ::-1]
    np.testing.assert_array_equal(FLIP(with_alpha).permute(1, 2, 0).numpy(), expected)
    mask = FLIP({"image": PHOTO, "mask": with_alpha})["mask"]
    np.testing.assert_array_equal(mask.numpy(), np.asarray(with_alpha)[:, ::-1, 0])


def test_bits_are_black_and_white() -> None:
    bits = mask_of("1")
    assert sorted(FLIP(bits).unique().tolist()) == [0, 255]
    assert FLIP({"image": PHOTO, "mask": bits})["mask"].dtype == torch.bool


@pytest.mark.parametrize("mode", ["RGBX", "RGBa", "La"])
def test_modes_that_are_read_as_another(mode: str) -> None:
    image = PHOTO.convert({"La": "LA", "RGBa": "RGBA"}.get(mode, mode)).convert(mode)
    expected = np.asarray(image.convert({"La": "LA", "RGBa": "RGBA", "RGBX": "RGB"}[mode]))
    np.testing.assert_array_equal(FLIP(image).permute(1, 2, 0).numpy(), expected[:, ::-1])


@pytest.mark.parametrize("mode", ["I", "I;16", "I;16B"])
def test_modes_with_more_bits_are_refused_by_name(mode: str) -> None:
    message = (
        f"transforms: sample is a PIL image of mode {mode!r}, must be of mode L, LA, RGB, RGBA, F, "
        "CMYK, YCbCr, LAB, HSV, 1, P, PA, La, RGBa, RGBX; for 16 bits give an array of uint16, or "
        "of floats with white at 1; a mask must be in a dict under 'mask'"
    )
    check(TypeError, message, lambda: FLIP(pil.new(mode, (8, 6))))


@pytest.mark.parametrize("mode", ["RGB", "LA"])
def test_masks_have_one_band(mode: str) -> None:
    message = (
        f"transforms: sample['mask'] is a PIL image of mode {mode!r}, must have one band to be a "
        "mask: mode 1, L, P, PA, I, I;16 or F"
    )
    check(TypeError, message, lambda: FLIP({"image": PHOTO, "mask": PHOTO.convert(mode)}))


class Color(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Record:
    name: str
    vector: Any = None
    inner: Any = None


OBJECTS = [
    Color.RED,
    Record("a", torch.zeros(9)),
    Record("a", inner={"weight": 3.0, "more": [Record("b")]}),
    decimal.Decimal("0.1"),
    uuid.UUID(int=5),
    {1, 2},
    range(3),
    slice(2),
    object(),
    types.SimpleNamespace(id=3, boxes=None),
    types.MappingProxyType({"a": 1}),
    len,
    Record,
    torch.float32,
]


@pytest.mark.parametrize("value", OBJECTS, ids=[type(value).__name__ for value in OBJECTS])
def test_objects_that_hold_nothing_movable_pass(value: Any) -> None:
    image = torch.zeros(3, 50, 80)
    assert FLIP((image, value))[1] is value
    assert FLIP({"image": image, "target": {"extra": value}})["target"]["extra"] is value


def refused(sample: Any) -> None:
    with pytest.raises(TypeError, match="which may have to move with the image; must be"):
        FLIP(sample)


TABLES = [
    torch.zeros(7, 300),
    torch.zeros(1, 5),  # one object of YOLO's
    torch.zeros(3, 56),  # three poses
    torch.zeros(0, 5),
    torch.zeros(1, 1),  # a column of classes
    torch.zeros(2, 1, dtype=torch.int64),
    np.zeros((6, 1)),
    torch.zeros(2, 9, 11, 5),
    np.full((1, 4), None),
    [torch.zeros(5), torch.zeros(5)],
    [np.zeros(5)],
    ([0.0, 1.0, 2.0],),
    collections.deque([[1, 2, 3, 4, 5]]),
    collections.UserList([torch.zeros(5)]),
]


@pytest.mark.parametrize("value", TABLES, ids=range(len(TABLES)))
def test_tables_without_a_name_are_refused_whatever_their_size(value: Any) -> None:
    image = torch.zeros(3, 50, 80)
    allowed = transforms.Compose([transforms.RandomHorizontalFlip(1.0)], keys={"other": ["table"]})
    for sample in (
        (image, value),
        {"image": image, "table": value},
        {"image": image, "x": [value]},
    ):
        refused(sample)
    assert allowed({"image": image, "table": value})["table"] is value


def test_tables_of_boxes_are_refused_under_a_box_s_name() -> None:
    for count in (0, 1, 3):
        sample = {"image": torch.zeros(3, 50, 80), "bbox": torch.zeros(count, 5)}
        message = "transforms: sample['bbox'] is a plain Tensor of"
        check(TypeError, message, functools.partial(FLIP, sample))


def test_a_batch_has_a_row_for_each_sample() -> None:
    images = torch.zeros(4, 3, 50, 80)
    one_hot = torch.eye(4)
    rows = [torch.zeros(2), torch.zeros(3), torch.zeros(0), torch.zeros(1)]
    words = np.array([["a", "b"]])
    for value in (one_hot, rows, words):
        assert FLIP((images, value))[1] is value
    assert FLIP((torch.zeros(3, 50, 80), words))[1] is words  # no numbers
    for table in (torch.zeros(5, 6), torch.zeros(4, 2, 6), [torch.zeros(2, 6)] * 4):
        refused((images, table))


def test_layouts_are_certain_or_said() -> None:
    """Bands, slices and frames in an array may not be taken for rows."""
    bands = RNG.integers(0, 256, (8, 40, 50), np.uint8)
    message = "transforms: the sample is an array of shape [8, 40, 50], and may be [C, H, W] or"
    check(ValueError, message, lambda: FLIP(bands))
    check(
        ValueError, message.replace("the sample", "sample['image']"), lambda: FLIP({"image": bands})
    )
    for batch in (bands[None], [bands]):
        with pytest.raises(ValueError, match="must have 1, 3 or 4 channels, be a tensor"):
            FLIP(batch)
    assert torch.equal(FLIP(torch.from_numpy(bands)), torch.from_numpy(bands).flip(-1))
    first = transforms.Compose([FLIP], layout="CHW")
    last = transforms.Compose([FLIP], layout="HWC")
    for _ in range(2):
        assert np.array_equal(first(bands), bands[..., ::-1])
        assert np.array_equal(first({"image": bands})["image"], bands[..., ::-1])
        assert np.array_equal(first([bands, bands])[1], bands[..., ::-1])
        assert np.array_equal(last(bands), bands[:, ::-1].transpose(2, 0, 1))
        assert np.array_equal(last(torch.from_numpy(bands)), bands[:, ::-1].transpose(2, 0, 1))
    assert FLIP(COLORS).shape == (3, 6, 8)
    assert FLIP(COLORS.transpose(2, 0, 1)).shape == (3, 6, 8)
    message = "transforms.Compose: layout is 'NCHW', must be 'CHW', 'HWC' or None"
    check(ValueError, message, lambda: transforms.Compose([FLIP], layout="NCHW"))
    chain = transforms.Compose([FLIP], seed=0)
    _, params = chain(COLORS, index=0, return_params=True)
    maps = RNG.random((21, 6, 8))
    assert np.array_equal(chain.inverse(maps, params), maps[..., ::-1])
    assert np.array_equal(chain.inverse(COLORS, params), COLORS[:, ::-1].transpose(2, 0, 1))
