"""Interpolations drawn for each sample, nearest pixels, letterboxes and centre crops."""

import io
import math
from typing import Any

import numpy as np
import pytest
import torch
import visops
from PIL import Image
from torch import Tensor
from torchvision.transforms import v2
from visops import transforms as T

from transforms.chains import photo

MODES: Any = ("nearest", "bilinear", "bicubic", "lanczos")
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


DTYPES = (torch.float32, torch.float64, torch.uint8)


def expected(length: int, size: int) -> Tensor:
    """Return floor((i + 1/2) length / size) for each i, without rounding errors."""
    return torch.tensor([(2 * i + 1) * length // (2 * size) for i in range(size)])


def has_ties(length: int, size: int) -> bool:
    return any((2 * i + 1) * length % (2 * size) == 0 for i in range(size))


def resized(chain: Any, length: int, dtype: torch.dtype) -> list[Tensor]:
    """Return the columns and rows that a chain takes, of an image and of a mask."""
    pixels = torch.arange(length)
    columns, rows = pixels.expand(1, 3, length), pixels[:, None].expand(1, length, 3)
    found = []
    for image in (columns, rows):
        out = chain({"image": image.to(dtype), "mask": image[0]})
        take = (lambda x: x[0, 0]) if image is columns else (lambda x: x[0, :, 0])
        found += [take(out["image"]).long(), take(out["mask"][None])]
    return found


def test_the_ties_of_an_axis_depend_on_its_own_length() -> None:
    """Four and a half of nine pixels lie between two; the other axis has one pixel, or 90."""
    wanted = expected(2, 9)
    for other in (1, 90):
        down = T.Resize((9, other), "nearest")(torch.tensor([[[0.0], [1.0]]]))
        across = T.Resize((other, 9), "nearest")(torch.tensor([[[0.0, 1.0]]]))
        assert torch.equal(down[0, :, 0].long(), wanted)
        assert torch.equal(across[0, 0].long(), wanted)


def test_a_perspective_has_no_ties() -> None:
    """A shift would be another one at each pixel: results are those of the matrix itself."""
    warp = T.RandomPerspective(0.4, 1.0, "nearest", fill=300)
    chain = T.Compose([T.Resize(224, "nearest"), warp], seed=0, mask_fill=300)
    assert len(chain.passes) == 1
    image = torch.arange(256.0).expand(1, 256, 256)
    sample = {"image": image, "mask": image[0].long()}
    for index in range(3):
        out, params = chain(sample, index=index, return_params=True)
        plan = T.Plan(T.Canvas(256.0, 256.0, 1), dtype=torch.float32)
        for step, drawn in zip(chain.transforms, params.steps, strict=True):
            step.extend(plan, {name: value[0] for name, value in drawn.items()})
        options: Any = {"mode": "nearest", "fill": 300, "convention": "half_pixel"}
        wanted = visops.augment(image[None], plan.matrices, (224, 224), **options)[0]
        for found in (out, chain(sample, index=index)):
            assert torch.equal(found["image"], wanted)
            assert torch.equal(found["mask"], wanted[0].long())


def test_every_size_is_exact() -> None:
    rng = np.random.default_rng(3)
    pairs = [(256, 224), (640, 416), (2, 5), (250, 60), *rng.integers(1, 250, (40, 2)).tolist()]
    assert sum(has_ties(*pair) for pair in pairs) > 12
    for case, (length, size) in enumerate(pairs):
        dtype = DTYPES[case % 3] if length <= 256 else torch.float32
        for own in resized(T.Resize((size, size), "nearest"), length, dtype):
            assert torch.equal(own, expected(length, size)), (length, size, dtype)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_masks_are_exact_whatever_the_image_takes(interpolation: Any, exact: bool) -> None:
    mask = torch.arange(256).expand(256, 256)
    chain = T.Compose([T.Resize(224, interpolation)], exact=exact)
    out = chain({"image": torch.zeros(3, 256, 256), "mask": mask})["mask"]
    assert torch.equal(out[0], expected(256, 224))


def test_ties_survive_flips_crops_and_turns() -> None:
    wanted = expected(256, 224)
    resize = T.Resize(224, "nearest")
    mirrored, turned = T.RandomHorizontalFlip(1.0), T.RandomRotation((90, 90), "nearest")
    chains = {
        (resize, T.CenterCrop(200)): wanted[12:-12],
        (resize, mirrored): wanted.flip(0),
        (mirrored, resize): 255 - wanted,
        (resize, turned): wanted,
    }
    for chain, columns in chains.items():
        composed = T.Compose(list(chain))
        assert len(composed.passes) == 1
        image = torch.arange(256.0).expand(1, 256, 256)
        for _ in range(3):  # the first call runs in Python, and those after it in C++
            out = composed({"image": image, "mask": image[0].long()})
            for own in (out["image"][0], out["mask"]):
                # A quarter turn to the left takes the columns, last first, to the rows.
                taken = own[:, 0].flip(0) if turned in chain else own[0]
                assert torch.equal(taken.long(), columns), chain


def test_samples_of_a_batch_have_ties_of_their_own() -> None:
    lengths = [256, 224, 448, 2]
    images = [torch.arange(float(n)).expand(1, n, n) for n in lengths]
    for out, n in zip(T.Resize((224, 224), "nearest")(images), lengths, strict=True):
        assert torch.equal(out[0, 0].long(), expected(n, 224)), n
        assert torch.equal(out[0, :, 0], torch.full((224,), out[0, 0, 0].item()))


def test_cropped_and_resized() -> None:
    crop = T.RandomResizedCrop(60, (0.2, 0.9), interpolation="nearest")
    image = torch.arange(250.0).expand(1, 250, 250)
    chain = T.Compose([crop], seed=0)
    ties = 0
    for index in range(30):
        out, params = chain(image, index=index, return_params=True)
        left, width = (int(params.steps[0][name][0]) for name in ("left", "width"))
        assert torch.equal(out[0, 0].long(), left + expected(width, 60))
        ties += has_ties(width, 60)
    assert ties > 5


def test_boxes_do_not_move_with_ties() -> None:
    sample = {"image": torch.zeros(1, 256, 256), "boxes": torch.tensor([[0.0, 16, 128, 256]])}
    boxes = T.Resize(224, "nearest")(sample)["boxes"]
    assert boxes.tolist() == [[0.0, 14.0, 112.0, 224.0]]


def test_mirrors_of_nothing_are_nothing() -> None:
    for shape in ((3, 0, 10), (3, 10, 0)):
        plan = T.Plan(T.Canvas(float(shape[1]), float(shape[2])))
        T.RandomHorizontalFlip(1.0).extend(plan, {"apply": True})
        assert plan.ties.tolist() == [[0.0, 0.0]]


def test_very_long_images_are_exact() -> None:
    for length, size in ((20000, 17500), (20000, 17499), (20000, 128), (16384, 20000)):
        image = torch.arange(length, dtype=torch.float64).expand(1, 1, length)
        out = T.Resize((1, size), "nearest")(image.float())
        assert torch.equal(out[0, 0].long(), expected(length, size)), (length, size)


SIZES = [(48, 64), (64, 48), (31, 97), (20, 20), (1, 200)]


def slow(image: Tensor, size: tuple[int, int], center: bool, scaleup: bool) -> Tensor:
    """Letterbox by torch's own resize and a copy into the bars."""
    height, width = image.shape[-2:]
    factor = min(size[0] / height, size[1] / width)
    factor = factor if scaleup else min(factor, 1.0)
    rows, columns = (max(1, round(side * factor)) for side in (height, width))
    resized = torch.nn.functional.interpolate(
        image[None], (rows, columns), mode="bilinear", antialias=True
    )[0]
    out = torch.full((image.shape[0], *size), 0.25, dtype=image.dtype)
    top, left = ((size[0] - rows) // 2, (size[1] - columns) // 2) if center else (0, 0)
    out[:, top : top + rows, left : left + columns] = resized
    return out


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("scaleup", [True, False])
def test_letterbox_is_a_resize_between_bars(center: bool, scaleup: bool) -> None:
    for height, width in SIZES:
        image = torch.rand(3, height, width, dtype=torch.float64)
        for size in ((40, 40), (80, 61)):
            transform = T.Letterbox(size, 0.25, center, scaleup)
            expected = slow(image, size, center, scaleup)
            torch.testing.assert_close(transform(image), expected, rtol=0.0, atol=1e-6)


def test_batches_of_different_sizes_and_their_targets() -> None:
    images = [torch.rand(3, *size) for size in SIZES]
    boxes = [torch.tensor([[0.0, 0.0, width, height]]) for height, width in SIZES]
    chain = T.Compose([T.Letterbox(64, fill=0.5)])
    out, params = chain({"image": images, "boxes": boxes}, return_params=True)
    for i, (height, width) in enumerate(SIZES):
        assert torch.equal(out["image"][i], chain(images[i]))
        rows, columns, top, left = (
            float(params.steps[0][name][i]) for name in ("height", "width", "top", "left")
        )
        factor = 64 / max(height, width)
        assert (rows, columns) == (max(1, round(height * factor)), round(width * factor))
        assert (top, left) == (math.floor((64 - rows) / 2), math.floor((64 - columns) / 2))
        assert out["boxes"][i].tolist() == [[left, top, left + columns, top + rows]]
    back = chain.inverse({"boxes": out["boxes"]}, params)["boxes"]
    for one, other in zip(back, boxes, strict=True):
        torch.testing.assert_close(one, other, rtol=0.0, atol=1e-4)


@pytest.mark.parametrize("size", [(640, 100), (33, 500)])
def test_nearest_takes_exact_pixels(size: tuple[int, int]) -> None:
    for length in (50, 64, 250):
        image = torch.arange(1.0, length + 1).expand(1, length, length)
        out, params = T.Letterbox(size, 0.0, interpolation="nearest")(image, return_params=True)
        side, top, left = (int(params.steps[0][n][0]) for n in ("width", "top", "left"))
        wanted = [1 + (2 * i + 1) * length // (2 * side) for i in range(side)]
        assert out[0, top, left : left + side].tolist() == wanted
        assert (out[0, :, :left] == 0).all()
        assert (out[0, top + side :] == 0).all()


def test_masks_have_their_own_fill() -> None:
    sample = {"image": photo(), "mask": np.zeros((380, 440), np.uint8)}
    out = T.Compose([T.Letterbox(100)], mask_fill=7)(sample)
    assert (out["image"][:, :7] == 114).all()
    assert (out["mask"][:7] == 7).all()
    assert (out["mask"][7:93] == 0).all()


def test_letterbox_joins_its_neighbours() -> None:
    chain: list[Any] = [
        T.RandomHorizontalFlip(1.0),
        T.Letterbox(96),
        T.ColorJitter(0.2),
        T.ToDtype(torch.float32, scale=True),
    ]
    assert len(T.Compose(chain).passes) == 1
    assert len(T.Compose([T.Pad(4, fill=114), *chain]).passes) == 1
    reasons = [p.reason for p in T.Compose([T.Pad(4, fill=3), *chain]).passes]
    assert reasons == ["", "Letterbox has fill 114 after 3"]


def test_center_crop_fills_with_a_value() -> None:
    image = torch.arange(6, dtype=torch.uint8).reshape(1, 2, 3) + 1
    assert T.CenterCrop((4, 3), fill=9)(image)[0].tolist() == [
        *([9, 9, 9], [1, 2, 3], [4, 5, 6], [9, 9, 9])
    ]
    colours = T.CenterCrop((2, 5), fill=(7, 8, 9))(image.expand(3, -1, -1))
    assert colours[:, 0, 0].tolist() == [7, 8, 9]
    assert T.CenterCrop(4)(image)[0, 0].tolist() == [0] * 4
    with pytest.raises(TypeError, match="positional"):
        T.CenterCrop(4, 6)  # type: ignore[call-arg]  # albumentations' height and width
    reasons = [p.reason for p in T.Compose([T.Pad(1, fill=3), T.CenterCrop(9, fill=4)]).passes]
    assert reasons == ["", "CenterCrop has fill 4 after 3"]


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("scaleup", [True, False])
@pytest.mark.parametrize("size", [(31, 53), (90, 17), (12, 12), (80, 64)], ids=str)
def test_boxes_move_by_the_matrix_of_the_function(
    size: tuple[int, int], center: bool, scaleup: bool
) -> None:
    """visops.letterbox rounds as the transform does."""
    boxes = torch.tensor([[1.0, 2.0, size[1] - 1.0, size[0] - 3.0]])
    chain = T.Compose([T.Letterbox((64, 80), 0, center=center, scaleup=scaleup)])
    moved = chain({"image": torch.zeros(3, *size), "boxes": boxes})["boxes"]
    matrix = visops.letterbox(size, (64, 80), center=center, scaleup=scaleup)
    torch.testing.assert_close(moved, visops.transform_boxes(boxes, matrix.float()))
