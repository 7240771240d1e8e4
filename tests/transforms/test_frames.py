"""Videos that are plain tensors: one draw for all frames."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from visops import transforms

T: Any = transforms
CHAIN = [
    T.RandomResizedCrop((20, 24)),
    T.RandomRotation(40),
    T.ColorJitter(0.5, 0.5),
    T.RandomErasing(1.0),
]
CLIP = torch.randint(0, 256, (5, 3, 40, 50), dtype=torch.uint8)


def test_frames_share_their_draws() -> None:
    tv = pytest.importorskip("torchvision.tv_tensors")
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
    v2 = pytest.importorskip("torchvision.transforms.v2")
    tv = pytest.importorskip("torchvision.tv_tensors")
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
    v2 = pytest.importorskip("torchvision.transforms.v2")
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
    v2 = pytest.importorskip("torchvision.transforms.v2")
    tv = pytest.importorskip("torchvision.tv_tensors")
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
    tv = pytest.importorskip("torchvision.tv_tensors")
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
    tv = pytest.importorskip("torchvision.tv_tensors")
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
