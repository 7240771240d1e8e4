"""DecodeJpeg: what a chain makes of a file is what it makes of the image in it."""

import io
import pickle
from typing import Any

import numpy as np
import pytest
import torch
import visops
from jpeg.files import by_pillow, oriented, picture
from PIL import Image
from threads import torch_threads
from torch import Tensor
from torchvision import tv_tensors
from visops import _native, transforms
from visops.jpeg.file import JpegFile
from visops.transforms import presets

HEIGHT, WIDTH = 120, 161
FILE = by_pillow(picture(HEIGHT, WIDTH), quality=90)
IMAGE: Tensor = visops.decode_jpeg(FILE)
FILES = [FILE, by_pillow(picture(97, 140, 1)), by_pillow(picture(150, 90, 2))]
CROP = transforms.RandomResizedCrop(24, scale=(0.05, 0.4))
NEAREST = transforms.RandomResizedCrop(24, interpolation="nearest")
FLIP = transforms.RandomHorizontalFlip()
JITTER = transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)

# Each with the share of the pixels that may be decoded at most, on average over draws.
CHAINS: dict[str, tuple[list[Any], float]] = {
    "crop": ([CROP, FLIP], 0.5),
    "bicubic": ([transforms.RandomResizedCrop(24, (0.05, 0.4), interpolation="bicubic")], 0.6),
    "without antialias": ([transforms.RandomResizedCrop(24, (0.05, 0.4), antialias=False)], 0.5),
    "nearest": ([NEAREST], 0.8),
    "whole pixels": ([transforms.RandomCrop(32), FLIP, transforms.RandomVerticalFlip()], 0.1),
    "turned": ([CROP, transforms.RandomAffine(30, (0.1, 0.1), (0.8, 1.2), 5), JITTER], 0.7),
    "perspective": ([CROP, transforms.RandomPerspective(0.4, 1.0)], 0.7),
    "mean of the whole": ([JITTER, CROP], 1.0),
    "enlarged": ([transforms.RandomCrop(10), transforms.Resize((40, 50))], 0.05),
    "bars": ([transforms.RandomCrop(40), transforms.Letterbox((32, 48))], 0.2),
    "reflected": ([transforms.RandomCrop(48, padding=20, padding_mode="reflect")], 0.9),
    "edge": ([transforms.RandomAffine(0, (0.9, 0.9)), transforms.CenterCrop(16)], 0.5),
    "replicated": ([transforms.RandomCrop(32, 30, padding_mode="edge"), FLIP], 0.2),
    "zoomed out": ([transforms.RandomZoomOut(), transforms.Resize((32, 32))], 1.0),
    "two passes": ([CROP, transforms.ToDtype(torch.float32, True), JITTER, NEAREST], 0.5),
    "nothing": ([], 1.0),
}


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Collect how many pixels of each file are asked for, and at which reduction."""
    found: list[tuple[int, int]] = []
    original = JpegFile.decode

    def recording(self: JpegFile, window: Any, reduction: int, channels: int) -> Any:
        found.append((window[2] * window[3], reduction))
        return original(self, window, reduction, channels)

    monkeypatch.setattr(JpegFile, "decode", recording)
    monkeypatch.setattr(_native.Pipeline, "run", lambda *_: (False, None))
    return found


def differ(found: Any, expected: Any) -> float:
    """Return the largest difference, in units of 1 of 255."""
    scale = 255.0 if expected.is_floating_point() else 1.0
    assert found.dtype == expected.dtype
    return (found.double() - expected.double()).abs().max().item() * scale


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", CHAINS)
def test_chains_give_what_they_give_for_the_image(
    name: str, exact: bool, decoded: list[tuple[int, int]]
) -> None:
    """Same parameters, and at most coordinates are rounded elsewhere; only a part is decoded."""
    steps, most = CHAINS[name]
    decode = transforms.DecodeJpeg(reduced=False)
    ours = transforms.Compose([decode, *steps], seed=1, exact=exact)
    plain = transforms.Compose(steps or [transforms.Pad(0)], seed=1, exact=exact)
    for index in range(12):
        found, params = ours(FILE, index=index, return_params=True)
        expected, drawn = plain(IMAGE, index=index, return_params=True)
        assert params.names == ["DecodeJpeg", *(drawn.names if steps else [])]
        assert (params.size == drawn.size).all()
        for own, other in zip(params.steps[1:], drawn.steps if steps else [], strict=True):
            assert own.keys() == other.keys()
            assert all((own[key] == other[key]).all() for key in own)
        assert differ(found, expected) <= 1.0
        assert torch.equal(ours(FILE, params=params), found)
    shares = [pixels / (HEIGHT * WIDTH) for pixels, _ in decoded]
    assert np.mean(shares) <= most
    assert {reduction for _, reduction in decoded} == {1}


@pytest.mark.parametrize("name", ["crop", "turned", "mean of the whole", "perspective", "bars"])
def test_batches_are_their_samples(name: str) -> None:
    steps, _ = CHAINS[name]
    chain = transforms.Compose([transforms.DecodeJpeg(), *steps], seed=3)
    single = torch.stack([chain(file, index=i) for i, file in enumerate(FILES)])
    assert torch.equal(chain(FILES, index=range(3)), single)
    assert torch.equal(chain.collate(FILES, index=range(3)), single)
    with torch_threads(2 if torch.get_num_threads() == 1 else 1):
        assert torch.equal(chain(FILES, index=range(3)), single)


@pytest.mark.parametrize(
    ("side", "angle", "expected"),
    [(120, 0, 1), (60, 0, 2), (61, 0, 1), (30, 0, 4), (15, 0, 8), (59, 45, 2), (14, 45, 8)],
)
def test_reduction_leaves_at_least_the_target(
    side: int, angle: float, expected: int, decoded: list[tuple[int, int]]
) -> None:
    """The crop is as large as the target, or larger, once it is reduced."""
    steps: list[Any] = [transforms.CenterCrop(120), transforms.Resize((side, side))]
    steps += [transforms.RandomRotation((angle, angle))] if angle else []
    chain = transforms.Compose([transforms.DecodeJpeg(reduced=True), *steps])
    ramp = np.add.outer(np.arange(120.0), 0.8 * np.arange(161.0))
    file = by_pillow(np.repeat(ramp.astype(np.uint8)[..., None], 3, 2), quality=95)
    found = chain(file)
    assert [reduction for _, reduction in decoded] == [expected]
    # Means of blocks are not the filter that they replace, but in the same place.
    resized = transforms.Compose(steps)(visops.decode_jpeg(file))
    assert (found.double() - resized.double()).abs().mean() < 0.7


@pytest.mark.parametrize(
    "steps",
    [
        [transforms.Resize((15, 15), interpolation="nearest")],
        [transforms.Resize((15, 15), antialias=False)],
        [transforms.RandomPerspective(0.4, 1.0), transforms.Resize((15, 15))],
    ],
    ids=["nearest", "without antialias", "perspective"],
)
def test_what_is_not_reduced(steps: list[Any], decoded: list[tuple[int, int]]) -> None:
    transforms.Compose([transforms.DecodeJpeg(), *steps])(FILE)
    transforms.Compose([transforms.DecodeJpeg(), transforms.Resize(15)], exact=True)(FILE)
    assert [reduction for _, reduction in decoded] == [1, 1]


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_reduced_crops_are_where_they_belong(orientation: int) -> None:
    """Blocks start at the stored edge, which a turned image's window must allow for."""
    ramp = np.add.outer(np.arange(83.0), 1.5 * np.arange(101.0)).astype(np.uint8)
    file = oriented(np.repeat(ramp[..., None], 3, 2), orientation)
    image = visops.decode_jpeg(file)
    crop = transforms.RandomResizedCrop(8, scale=(0.3, 0.9))
    chain = transforms.Compose([transforms.DecodeJpeg(), crop], seed=0)
    for index in range(20):
        expected = transforms.Compose([crop], seed=0)(image, index=index)
        assert differ(chain(file, index=index), expected) < 5.0  # a block is 12 levels wide


def test_targets_move_with_the_image() -> None:
    targets = {
        "mask": np.arange(HEIGHT * WIDTH, dtype=np.int64).reshape(HEIGHT, WIDTH) % 250,
        "boxes": torch.tensor([[20.0, 30.0, 80.0, 90.0]]),
        "labels": ["cat"],
        "keypoints": torch.tensor([[50.0, 60.0]]),
    }
    steps = [CROP, transforms.RandomRotation(20)]
    ours = transforms.Compose([transforms.DecodeJpeg(), *steps], seed=2, boxes="clamp")
    plain = transforms.Compose(steps, seed=2, boxes="clamp")
    found = ours({"image": FILE, **targets}, index=4)
    expected = plain({"image": IMAGE, **targets}, index=4)
    assert found.keys() == expected.keys()
    assert (found["mask"] == expected["mask"]).all()
    assert torch.equal(found["boxes"], expected["boxes"])
    assert torch.equal(found["keypoints"], expected["keypoints"])
    typed = tv_tensors.BoundingBoxes([[1, 2, 30, 40]], format="XYXY", canvas_size=(HEIGHT, WIDTH))
    _, boxes, label = ours((FILE, typed, 7), index=0)
    assert isinstance(boxes, tv_tensors.BoundingBoxes)
    assert label == 7
    _, params = ours(FILE, index=4, return_params=True)
    back = ours.inverse({"boxes": found["boxes"]}, params)
    assert back["boxes"].shape == (1, 4)


def test_kinds_of_samples() -> None:
    chain = transforms.Compose([transforms.DecodeJpeg(), transforms.Resize((16, 16))])
    expected = chain(FILE)
    array = np.frombuffer(FILE, np.uint8)
    for same in (bytearray(FILE), memoryview(FILE), array, torch.from_numpy(array.copy())):
        assert torch.equal(chain(same), expected)
    image, label, name = chain((FILE, 3, b"note"))
    assert torch.equal(image, expected)
    assert (label, name) == (3, b"note")
    found = chain({"id": b"first", "image": FILE, "seg": FILE[:9].hex()})
    assert torch.equal(found["image"], expected)
    assert found["id"] == b"first"
    batch = chain({"image": [FILE, FILE], "label": torch.tensor([1, 2])})
    assert torch.equal(batch["image"], torch.stack([expected, expected]))
    renamed = transforms.Compose(
        [transforms.DecodeJpeg(), transforms.Resize((16, 16))], keys={"image": ["photo"]}
    )
    assert torch.equal(renamed({"photo": FILE})["photo"], expected)
    twins = chain({"image": FILE, "img": FILE})
    assert torch.equal(twins["img"], expected)
    assert torch.equal(transforms.DecodeJpeg()(FILE), IMAGE)
    grey = transforms.DecodeJpeg("gray")(FILE)
    assert torch.equal(grey, visops.decode_jpeg(FILE, mode="gray"))
    assert torch.equal(pickle.loads(pickle.dumps(chain))(FILE), expected)


def test_orientation_is_an_option() -> None:
    file = oriented(picture(40, 60), 6)
    assert transforms.DecodeJpeg()(file).shape == (3, 60, 40)
    assert transforms.DecodeJpeg(exif=False)(file).shape == (3, 40, 60)
    params = transforms.Compose([transforms.DecodeJpeg(), CROP]).make_params(file)
    assert params.size.tolist() == [[60, 40]]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda d: transforms.Compose([FLIP, d]), "Compose: transforms holds a DecodeJpeg, must"),
        (lambda d: transforms.Compose([d, d]), "Compose: transforms holds a DecodeJpeg, must be"),
        (lambda d: transforms.RandomApply([d]), "RandomApply: transforms holds a DecodeJpeg, must"),
        (lambda d: transforms.RandomChoice([d, FLIP]), "RandomChoice: transforms holds a Decode"),
    ],
)
def test_chains_that_are_refused(build: Any, message: str) -> None:
    with pytest.raises(ValueError, match=rf"^visops\.transforms\.{message}"):
        build(transforms.DecodeJpeg())


@pytest.mark.parametrize(
    ("sample", "error", "message"),
    [
        (IMAGE, TypeError, r"DecodeJpeg: found the sample, which is decoded already;"),
        ((IMAGE, 3), TypeError, r"DecodeJpeg: found sample\[0\], which is decoded already; must"),
        ((3, None), TypeError, r"DecodeJpeg: found no image; must be a JPEG file"),
        (b"", ValueError, "DecodeJpeg: the sample is empty, must be a JPEG file"),
        (
            b"%PDF-1.7",
            ValueError,
            r"DecodeJpeg: the sample is not a JPEG: it starts with the bytes 0x25 0x50 \(PNG, ",
        ),
        ((FILE[:-900], 3), ValueError, r"DecodeJpeg: sample\[0\] (is truncated|can't)"),
        ([FILE, FILE[:30]], ValueError, r"DecodeJpeg: the sample\[1\] (is truncated|can't)"),
        ([FILE, FILE[:-900]], ValueError, r"DecodeJpeg: the sample\[1\] (is truncated|can't)"),
        ({"image": [FILE, b""]}, ValueError, r"DecodeJpeg: sample\['image'\]\[1\] is empty, must"),
        ((FILE, FILE), TypeError, r"sample\[1\] is a JPEG file beside the image, which may have"),
        ({"image": FILE, "mask": FILE}, TypeError, r"sample\['mask'\] is bytes, must be a mask"),
    ],
)
def test_samples_that_are_refused(sample: Any, error: type[Exception], message: str) -> None:
    chain = transforms.Compose([transforms.DecodeJpeg(), transforms.Resize((16, 16))])
    with pytest.raises(error, match=rf"^visops\.transforms(\.|: ){message}"):
        chain(sample)


def test_files_for_a_chain_that_does_not_decode() -> None:
    with pytest.raises(
        TypeError, match=r"sample\['image'\] is bytes, must be an image \(DecodeJpeg"
    ):
        FLIP({"image": FILE})


def test_size_limit() -> None:
    chain = transforms.Compose([transforms.DecodeJpeg(max_pixels=HEIGHT * WIDTH - 1), CROP])
    with pytest.raises(ValueError, match="DecodeJpeg: the sample is an image of 120 rows and 161"):
        chain(FILE)


@pytest.mark.parametrize("by", ["call", "loader"])
def test_only_chains_that_draw_reduce_by_themselves(by: str) -> None:
    """A chain for evaluation gives what it gives of the decoded photo."""

    def run(decode: transforms.DecodeJpeg, *steps: Any) -> torch.Tensor:
        chain = transforms.Compose([decode, transforms.Resize((15, 15)), *steps], seed=0)
        if by == "call":
            return chain(FILE, index=0)  # type: ignore[no-any-return]
        return next(iter(transforms.Loader([FILE], chain, 1)))[0]  # type: ignore[no-any-return]

    def decoded(reduced: bool | None) -> transforms.DecodeJpeg:
        return transforms.DecodeJpeg(reduced=reduced)

    still = [transforms.CenterCrop(8), transforms.ToDtype(torch.float32, scale=True)]
    drawing = [transforms.RandomErasing(p=0.0)]
    inner = [transforms.RandomOrder([transforms.RandomInvert(p=0.0), *still])]
    for steps, reduces in ((still, False), ([torch.clone], False), (drawing, True), (inner, True)):
        given = {reduced: run(decoded(reduced), *steps) for reduced in (None, True, False)}
        assert torch.equal(given[None], given[reduces])
        assert not torch.equal(given[True], given[False])
    chain = transforms.Compose([transforms.DecodeJpeg(), *presets.classification_eval().transforms])
    whole = [transforms.DecodeJpeg(reduced=False), *presets.classification_eval().transforms]
    assert torch.equal(chain(FILE), transforms.Compose(whole)(FILE))


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
@pytest.mark.parametrize("kind", ["GIF", "BMP", "TIFF", "PPM"])
@pytest.mark.parametrize("mode", ["RGB", "L", "1"])
def test_files_that_have_no_orientation(kind: str, mode: str) -> None:
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (30, 40, 3), np.uint8))
    file = io.BytesIO()
    image.convert(mode).save(file, kind)
    chain = transforms.Compose([transforms.DecodeJpeg()], seed=0)
    with Image.open(file) as opened:
        expected = np.array(opened.convert("RGB"))
    assert np.array_equal(chain(file.getvalue()).permute(1, 2, 0).numpy(), expected)
    loaded = next(iter(transforms.Loader([(file.getvalue(), 3)], chain, 1)))
    assert np.array_equal(loaded[0][0].permute(1, 2, 0).numpy(), expected)
    with pytest.raises(ValueError, match=r"(damaged|decoded|truncated)"):
        chain(file.getvalue()[:40])
    deep = io.BytesIO()
    Image.fromarray(np.zeros((4, 4), np.uint16)).save(deep, "TIFF")
    with pytest.raises(TypeError, match="pixels of mode 'I;16', must have 8 bits"):
        chain(deep.getvalue())
    with pytest.raises(TypeError, match="must have 8 bits"):  # nothing is wrong with the file
        list(transforms.Loader([(deep.getvalue(), 3)] * 2, chain, 1, on_error="skip"))


@pytest.mark.parametrize("kind", ["PNG", "WebP"])
def test_other_files_of_a_mixed_folder(kind: str) -> None:
    """They give what Pillow's pixels give, whatever part of them is needed."""
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (90, 120, 3), np.uint8))
    steps: list[Any] = [transforms.RandomResizedCrop(32), transforms.RandomHorizontalFlip()]
    ours = transforms.Compose([transforms.DecodeJpeg(), *steps], seed=3)
    decoded = transforms.Compose(steps, seed=3)
    for orientation in (1, 6):
        exif = Image.Exif()
        exif[0x0112] = orientation
        file = io.BytesIO()
        image.save(file, kind, lossless=True, exif=exif)
        upright = image.transpose(Image.Transpose.ROTATE_270) if orientation == 6 else image
        for index in range(4):
            found = ours(file.getvalue(), index=index)
            assert torch.equal(found, decoded(upright, index=index))
    grey = transforms.Compose([transforms.DecodeJpeg("gray")])(file.getvalue())
    assert torch.equal(grey[0], torch.from_numpy(np.array(upright.convert("L"))))
    jpeg = io.BytesIO()
    image.save(jpeg, "JPEG")
    batch = ours([jpeg.getvalue(), file.getvalue(), jpeg.getvalue()], index=range(3))
    assert torch.equal(batch[1], ours(file.getvalue(), index=1))
    collated = ours.collate([(jpeg.getvalue(), 0), (file.getvalue(), 1)], index=range(2))
    assert torch.equal(collated[0][1], ours(file.getvalue(), index=1))
    with pytest.raises(ValueError, match=r"the sample (is truncated|can.t be decoded)"):
        ours(file.getvalue()[:300])
    plain = io.BytesIO()
    image.save(plain, kind, lossless=True)  # where Pillow looks for EXIF data behind the pixels
    with pytest.raises(ValueError, match=r"the sample (is truncated|can.t be decoded)"):
        ours(plain.getvalue()[: len(plain.getvalue()) // 2])
    limited = transforms.Compose([transforms.DecodeJpeg(max_pixels=100)])
    with pytest.raises(ValueError, match="must not have more than max_pixels=100 pixels"):
        limited(file.getvalue())
    sixteen = io.BytesIO()
    Image.fromarray(np.zeros((4, 4), np.uint16)).save(sixteen, "PNG")
    with pytest.raises(TypeError, match="DecodeJpeg: the sample has pixels of mode 'I;16'"):
        ours(sixteen.getvalue())
