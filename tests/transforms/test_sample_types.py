"""Values that are neither tensors nor arrays; videos that are plain tensors."""

import collections
import dataclasses
import decimal
import enum
import functools
import itertools
import sys
import types
import uuid
from typing import Any

import numpy as np
import pytest
import torch
from bad_input import check
from visops import transforms
from visops.transforms.sample.leaf import is_pil

pil = pytest.importorskip("PIL.Image")
tv = pytest.importorskip("torchvision.tv_tensors")
v2 = pytest.importorskip("torchvision.transforms.v2")
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
    check(ValueError, message, lambda: transforms.Compose([FLIP], layout="NCHW"))  # type: ignore[arg-type]
    chain = transforms.Compose([FLIP], seed=0)
    _, params = chain(COLORS, index=0, return_params=True)
    maps = RNG.random((21, 6, 8))
    assert np.array_equal(chain.inverse(maps, params), maps[..., ::-1])
    assert np.array_equal(chain.inverse(COLORS, params), COLORS[:, ::-1].transpose(2, 0, 1))


T: Any = transforms

CHAIN = [
    T.RandomResizedCrop((20, 24)),
    T.RandomRotation(40),
    T.ColorJitter(0.5, 0.5),
    T.RandomErasing(1.0),
]

CLIP = torch.randint(0, 256, (5, 3, 40, 50), dtype=torch.uint8)


def test_frames_share_their_draws() -> None:
    shared = T.Compose(CHAIN, per_frame=False, seed=0)
    expected = shared(tv.Video(CLIP), index=3)
    result = shared(CLIP, index=3)
    assert type(result) is torch.Tensor
    assert torch.equal(result, expected)
    still = CLIP[:1].expand(5, -1, -1, -1)
    frames = shared(still, index=3)
    assert all(torch.equal(frame, frames[0]) for frame in frames)
    frames = T.Compose(CHAIN, seed=0)(still, index=range(5))
    assert not torch.equal(frames[1], frames[0])
    for sample in ((CLIP, 7), {"image": CLIP, "label": 7}):
        found = shared(sample, index=3)
        assert torch.equal(found[0] if isinstance(found, tuple) else found["image"], expected)


@pytest.mark.parametrize("array", [False, True])
def test_batches_of_clips(array: bool) -> None:
    shared = T.Compose(CHAIN, per_frame=False, seed=0)
    clips: Any = torch.stack([CLIP, CLIP])
    if array:
        clips = clips.movedim(-3, -1).numpy()
    for sample in (clips, (clips, 3), {"image": clips}):
        result = shared(sample, index=[3, 4])
        found = result[0] if isinstance(result, tuple) else result
        found = found["image"] if isinstance(found, dict) else found
        assert found.shape == (2, 5, 3, 20, 24)
        assert torch.equal(found[0], shared(CLIP, index=3))
        assert torch.equal(found[1], shared(CLIP, index=4))


def test_single_images_and_targets() -> None:
    shared = T.Compose([T.RandomHorizontalFlip(1.0)], per_frame=False)
    image = CLIP[0]
    assert torch.equal(shared(image), image.flip(-1))
    assert torch.equal(shared(np.asarray(image[0])), image[:1].flip(-1))
    for clips in (CLIP[:1], torch.stack([CLIP[:1]] * 2)):
        assert torch.equal(shared(clips), clips.flip(-1))
    masks = torch.zeros(5, 40, 50, dtype=torch.uint8)
    masks[:, :, 0] = 1
    result = shared({"image": CLIP, "mask": masks, "boxes": [[0, 0, 5, 6]]})
    assert torch.equal(result["mask"], masks.flip(-1))
    assert result["boxes"] == [[45, 0, 50, 6]]


LEADING = ((2, 3), (1, 2, 3), (2, 0), (1, 1, 2, 3))


@pytest.mark.parametrize("lead", LEADING, ids=str)
def test_more_leading_dimensions(lead: tuple[int, ...]) -> None:
    """They are one batch: every image draws, or with per_frame=False every clip."""
    images = torch.randint(0, 256, (*lead, 3, 20, 24), dtype=torch.uint8)
    count = images[..., 0, 0, 0].numel()
    flat = images.reshape(count, 3, 20, 24)
    for fixed in (T.RandomHorizontalFlip(1.0), T.Pad(3), T.CenterCrop(9)):
        expected = fixed(flat).unflatten(0, lead)
        for form in (images, tv.Image(images), images.movedim(-3, -1).numpy()):
            assert torch.equal(fixed(form), expected)
    assert torch.equal(T.RandomHorizontalFlip(1.0)(images), v2.RandomHorizontalFlip(1.0)(images))
    chain = T.Compose(CHAIN, seed=0)
    expected = chain(flat, index=range(count)).unflatten(0, lead)
    for sample in (images, (images, 3), {"image": images, "label": 3}):
        found = chain(sample, index=range(count))
        found = found[0] if isinstance(found, tuple) else found
        found = found["image"] if isinstance(found, dict) else found
        assert torch.equal(found, expected)
    clips = T.Compose(CHAIN, seed=0, per_frame=False)
    if len(lead) > 2:
        expected = clips(images.flatten(0, -5), index=range(count // 3))
        assert torch.equal(clips(images, index=range(count // 3)), expected.unflatten(0, lead[:-1]))
    if count:
        masks = torch.zeros(count, 20, 24, dtype=torch.uint8)
        moved = T.RandomHorizontalFlip(1.0)({"image": images, "mask": masks})
        assert moved["mask"].shape == masks.shape
        foreign = T.Compose([v2.RandomHorizontalFlip(1.0)])(images)
        assert torch.equal(foreign, images.flip(-1))


NARROW = CLIP[..., :30].flip(0)
SHARED = T.Compose([*CHAIN, T.Resize((20, 24))], per_frame=False, seed=0)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("kind", ["foreign", "noise", "contrast"])
def test_clips_of_different_sizes_between_passes(kind: str, exact: bool) -> None:
    between = {
        "foreign": v2.RandomHorizontalFlip(),
        "noise": T.RandomErasing(1.0, value="random"),
        "contrast": T.ColorJitter(0.5, 0.5, 0.5, 0.1),
    }[kind]
    chain = T.Compose([T.RandomResize(20, 60), between, T.CenterCrop(16)], seed=0, exact=exact)
    shared = T.Compose(chain.transforms, per_frame=False, seed=0, exact=exact)
    clips = torch.stack([CLIP, CLIP.flip(0)]).float() / 255
    found = shared(clips, index=[0, 5])
    assert found.shape == (2, 5, 3, 16, 16)
    for clip, frames, index in zip(clips, found, (0, 5), strict=True):
        assert torch.equal(shared(clip, index=index), frames)
        for image, frame in zip(clip, frames, strict=True):
            assert torch.equal(chain(image, index=index), frame)


def test_foreign_transforms_see_videos() -> None:
    seen = []

    class Watch(v2.Transform):  # type: ignore[misc,name-defined]
        def transform(self, inpt: Any, params: Any) -> Any:
            seen.append((type(inpt), tuple(inpt.shape)))
            return inpt

    for chain, count in ((T.Compose([Watch()], per_frame=False), 1), (T.Compose([Watch()]), 5)):
        assert torch.equal(chain(CLIP), CLIP)
        kind = tv.Video if count == 1 else tv.Image
        assert seen == [(kind, CLIP.shape if count == 1 else CLIP.shape[1:])] * count
        seen.clear()


@pytest.mark.parametrize("form", ["plain", "typed", "array"])
def test_collate_of_clips(form: str) -> None:
    """They may differ in size, but not in their number of frames."""
    make = {
        "plain": lambda clip: clip,
        "typed": tv.Video,
        "array": lambda clip: clip.movedim(1, -1).numpy(),
    }[form]
    samples = [(make(clip), label) for label, clip in enumerate((CLIP, NARROW))]
    clips, labels = SHARED.collate(samples, index=[3, 4])
    assert type(clips) is (tv.Video if form == "typed" else torch.Tensor)
    assert (clips.shape, labels.tolist()) == ((2, 5, 3, 20, 24), [0, 1])
    assert torch.equal(clips[0], SHARED(CLIP, index=3))
    assert torch.equal(clips[1], SHARED(NARROW, index=4))
    layout = "HWC" if form == "array" else "CHW"
    message = (
        rf"of sample 1 has 3 frames of 3 channels \({layout}\) of uint8, that of sample 0 has 5 "
        rf"frames of 3 channels \({layout}\) of uint8; must be the same"
    )
    with pytest.raises(ValueError, match=message):
        SHARED.collate([make(CLIP), make(CLIP[:3])])
    with pytest.raises(ValueError, match=rf"1 has 3 channels \({layout}\) .* 0 has 5 frames of"):
        SHARED.collate([make(CLIP), tv.Image(CLIP[0]) if form == "typed" else make(CLIP)[0]])


def test_what_is_no_clip_is_refused() -> None:
    for clip in (CLIP, tv.Video(CLIP)):
        with pytest.raises(
            ValueError, match=r"\[0\] has shape \[5, 3, 40, 50\], must be one image"
        ):
            SHARED([clip, clip])
    for nothing in (CLIP[:0], torch.stack([CLIP[:0]] * 2), tv.Video(CLIP[:0])):
        with pytest.raises(ValueError, match="sample has no frames, must have at least one"):
            SHARED(nothing)
    with pytest.raises(ValueError, match="sample has no frames, must have at least one"):
        SHARED.collate([CLIP[:0], NARROW[:0]])
    assert SHARED(CLIP.new_zeros(0, 5, 3, 40, 50)).shape == (0, 5, 3, 20, 24)


@pytest.mark.parametrize("array", [False, True])
def test_a_list_is_a_clip(array: bool) -> None:
    """Frames in a list share their draws wherever the list is, and come back as a list."""
    shared = T.Compose([*CHAIN, T.GaussianBlur(3)], per_frame=False, seed=0)
    expected = shared(CLIP, index=3)
    frames: Any = list(CLIP.movedim(1, -1).numpy() if array else CLIP)
    samples = (frames, {"image": frames}, (frames, 1), {"frames": frames}, ({"clip": frames}, 2))
    for sample in samples:
        found: Any = shared(sample, index=3)
        while not isinstance(found, list):
            found = next(iter(found.values())) if isinstance(found, dict) else found[0]
        assert torch.equal(torch.stack(found), expected)
    assert len(T.Compose([T.UniformTemporalSubsample(2)], per_frame=False)(frames)) == 2
    batch, labels = shared.collate([(frames, 1), (frames, 2)], index=[3, 4])
    assert torch.equal(batch[0], expected)
    assert labels.tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"\[1\] has shape .* frames must be alike"):
        shared([CLIP[0], CLIP[1, :, :10]])


NOISES = [
    T.GaussianNoise(sigma=0.1),
    T.ShotNoise(p=1),
    T.SaltAndPepper((0.3, 0.3), p=1),
]


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_noise_is_of_each_frame_and_image(noise: Any, dtype: torch.dtype) -> None:
    white = 255 if dtype is torch.uint8 else 1
    grey = torch.full((3, 8, 9), 0.5 * white, dtype=torch.float64).to(dtype)
    for steps in ([noise], [noise, T.GaussianBlur(3)]):
        chain = T.Compose(steps, per_frame=False, seed=0)
        still = torch.stack([grey] * 4)
        frames = chain(still, index=3)
        assert torch.equal(frames[0], T.Compose(steps, seed=0)(grey, index=3))
        assert not any(torch.equal(a, b) for a, b in itertools.combinations(frames, 2))
        clips = chain(torch.stack([still, still]), index=[3, 4])
        assert torch.equal(clips[0], frames)
        listed = chain.collate([still, still], index=[3, 4])
        assert torch.equal(listed[0], frames)
        both = T.Compose(steps, seed=0)({"image": grey, "img": grey}, index=3)
        assert torch.equal(both["image"], frames[0])
        assert not torch.equal(both["img"], both["image"])


def test_pillow_may_be_half_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """By another thread: its module is there, and has no class yet."""
    monkeypatch.setitem(sys.modules, "PIL.Image", types.ModuleType("PIL.Image"))
    sample = {"image": np.zeros((4, 5, 3), np.uint8), "name": object()}
    assert transforms.Compose([transforms.Pad(1)])(sample)["image"].shape == (3, 6, 7)
    assert not is_pil(sample["name"])
