"""Interpolations drawn for each sample, and Lanczos' filter in chains."""

import io
import re
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import v2
from visops import transforms as T

MODES = ("nearest", "bilinear", "bicubic", "lanczos")
RNG = np.random.default_rng(0)
SMALL = RNG.integers(60, 196, (12, 16, 3), np.uint8)  # far from where values are cut off
PHOTO = np.asarray(Image.fromarray(SMALL).resize((90, 70), Image.Resampling.BICUBIC))
IMAGE = torch.from_numpy(PHOTO.transpose(2, 0, 1).copy())
BATCH = 24

STEPS: dict[str, Any] = {
    "crop": lambda mode: T.RandomResizedCrop((24, 30), interpolation=mode),
    "resize": lambda mode: T.Resize((24, 30), mode),
    "shorter side": lambda mode: T.Resize(24, mode),
    "letterbox": lambda mode: T.Letterbox(40, interpolation=mode),
    "jitter": lambda mode: T.ScaleJitter((40, 40), (0.5, 0.9), mode),
    "affine": lambda mode: T.RandomAffine(20, interpolation=mode),
    "rotation": lambda mode: T.RandomRotation(20, mode),
    "perspective": lambda mode: T.RandomPerspective(0.4, 1.0, mode),
}


@pytest.mark.parametrize("name", STEPS)
def test_each_sample_draws_one(name: str) -> None:
    modes = (
        MODES if name in ("crop", "resize", "shorter side", "letterbox", "jitter") else MODES[:3]
    )
    color = [T.ColorJitter(0.3), T.ToDtype(torch.float32, scale=True)]
    chain = T.Compose([STEPS[name](modes), T.RandomHorizontalFlip(), *color], seed=0)
    assert len(chain.passes) == 1
    images = IMAGE.expand(BATCH, -1, -1, -1)
    if name == "jitter":  # results differ in size
        singles = [chain(IMAGE, index=i, return_params=True) for i in range(BATCH)]
        drawn = [int(params.steps[0]["interpolation"][0]) for _, params in singles]
    else:
        out, params = chain(images, index=range(BATCH), return_params=True)
        drawn = params.steps[0]["interpolation"].tolist()
        assert torch.equal(chain(images, index=range(BATCH)), out)
        assert torch.equal(chain(images, params=params), out)
        singles = [chain(IMAGE, index=i, return_params=True) for i in range(BATCH)]
        for index, (single, _) in enumerate(singles):
            assert torch.equal(single, out[index])
        listed = chain([IMAGE] * BATCH, index=range(BATCH))
        assert all(map(torch.equal, listed, out))
    assert set(drawn) == set(range(len(modes)))
    # Each is what a chain of that interpolation alone makes of the same parameters.
    for index, (single, params) in enumerate(singles):
        one = T.Compose([STEPS[name](modes[drawn[index]]), T.RandomHorizontalFlip(), *color])
        own = T.Parameters(params.names, [dict(p) for p in params.steps], params.size)
        del own.steps[0]["interpolation"]
        assert torch.equal(one(IMAGE, params=own), single)
        assert torch.equal(chain(IMAGE, index=index), single)  # without parameters: another path


def test_frequencies_and_neighbours() -> None:
    chain = T.Compose([T.RandomResizedCrop(8, interpolation="random")], seed=1)
    plain = T.Compose([T.RandomResizedCrop(8)], seed=1)
    images = torch.zeros(2000, 1, 9, 9)
    params = chain.make_params(images, index=range(2000)).steps[0]
    assert chain.transforms[0].interpolation == ("bilinear", "bicubic")
    assert abs(params["interpolation"].mean() - 0.5) < 0.05
    # What else is drawn stays the same.
    others = plain.make_params(images, index=range(2000)).steps[0]
    assert all(np.array_equal(params[name], others[name]) for name in others)


def test_masks_videos_targets_and_choices() -> None:
    crop = T.RandomResizedCrop(16, interpolation=MODES)
    chain = T.Compose([T.RandomApply([crop], 0.7), T.Resize((16, 16))], seed=2)
    assert len(chain.passes) == 2  # another interpolation after a drawn one
    sample = {"image": IMAGE.expand(8, -1, -1, -1), "mask": IMAGE[:1].expand(8, -1, -1)}
    out = chain(sample, index=range(8))
    assert out["image"].shape == (8, 3, 16, 16)
    assert {own.shape for own in out["mask"]} == {(16, 16)}
    for index in range(8):
        own = chain({"image": IMAGE, "mask": IMAGE[0]}, index=index)
        assert torch.equal(own["image"], out["image"][index])
        assert torch.equal(own["mask"], out["mask"][index])
    video = T.Compose([crop], seed=0, per_frame=False)
    clips = IMAGE.expand(6, 2, -1, -1, -1)
    moved = video(clips, index=range(6))
    assert torch.equal(moved[:, 0], moved[:, 1])
    last = T.Compose([crop], seed=0, memory_format=torch.channels_last)
    found = last(sample["image"], index=range(8))
    assert found.is_contiguous(memory_format=torch.channels_last)
    turned, params = T.Compose([crop], seed=0)(IMAGE, index=1, return_params=True)
    assert T.Compose([crop]).inverse(turned, params).shape == IMAGE.shape


def test_exact_chains_keep_colours_apart() -> None:
    steps = [T.RandomResizedCrop(16, interpolation="random"), T.ColorJitter(contrast=0.4)]
    reasons = [part.reason for part in T.Compose(steps, exact=True).passes]
    assert reasons == ["", "ColorJitter changes colours after a drawn interpolation"]
    reasons = [part.reason for part in T.Compose(steps[::-1], exact=True).passes]
    assert reasons == ["", "RandomResizedCrop draws its interpolation after a change of colours"]
    assert T.Compose(steps, exact=True, seed=0)(IMAGE, index=0).shape == (3, 16, 16)


def test_files() -> None:
    buffer = io.BytesIO()
    Image.fromarray(PHOTO).save(buffer, "JPEG", quality=95)
    file = buffer.getvalue()
    decoded = torch.from_numpy(np.asarray(Image.open(buffer)).transpose(2, 0, 1).copy())
    crop = T.RandomResizedCrop((24, 30), interpolation=MODES)
    chain = T.Compose([T.DecodeJpeg(reduced=False), crop], seed=0)
    plain = T.Compose([crop], seed=0)
    for index in range(8):
        difference = chain(file, index=index).int() - plain(decoded, index=index).int()
        assert difference.abs().max() <= 1


@pytest.mark.parametrize("size", [(24, 30), (70, 30), (160, 200)])
def test_lanczos_is_pillows(size: tuple[int, int]) -> None:
    lanczos = v2.InterpolationMode.LANCZOS
    expected = v2.Resize(size, lanczos)(Image.fromarray(PHOTO))
    for mode in ("lanczos", lanczos, Image.Resampling.LANCZOS):
        found = T.Resize(size, mode)(IMAGE).permute(1, 2, 0).numpy()
        # Pillow rounds between its two passes.
        assert np.abs(found.astype(int) - np.asarray(expected).astype(int)).max() <= 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: T.Resize(8, "box"),
            "Resize: interpolation is 'box', must be 'nearest', 'bilinear', 'bicubic' or 'lanczos'",
        ),
        (
            lambda: T.Resize(8, "lanczos", antialias=False),
            "'lanczos' is a filter of antialias=True",
        ),
        (lambda: T.RandomRotation(8, "lanczos"), "'nearest', 'bilinear' or 'bicubic', a sequence"),
        (lambda: T.RandomAffine(8, interpolation=()), "interpolation is (), must be 'nearest'"),
        (lambda: T.RandAugment(interpolation=("bilinear",)), "must be 'nearest', 'bilinear' or"),
        (
            lambda: T.Mosaic(8, interpolation="lanczos"),
            "must be 'nearest', 'bilinear' or 'bicubic'",
        ),
    ],
)
def test_bad_input(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        make()
