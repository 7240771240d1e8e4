"""Decoding files: formats, orientation, reduced sizes, damage, any number of workers."""

import errno
import io
import os
import re
import struct
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import visops.infer.images.decode
from memory import at_most_memory
from PIL import Image, ImageOps, PngImagePlugin
from visops.infer.images.decode import Decoder
from visops.infer.images.loading import DecodedBatches, decode_apart
from visops.infer.images.preprocess import Preprocess
from visops.infer.store.plan import Entry, PlannedBatch

from infer.folders import photo, save


def decode(folder: Path, name: str, **options: Any) -> Any:
    pixels, frame = Decoder(str(folder), **options).image(name)
    assert (frame.height, frame.width, 3) == pixels.shape
    return pixels.numpy(), (frame.full_height, frame.full_width)


@pytest.mark.parametrize("suffix", ["png", "bmp", "tiff", "gif", "webp", "ppm"])
def test_formats_without_loss(tmp_path: Path, suffix: str) -> None:
    pixels = save(tmp_path / f"a.{suffix}", **({"lossless": True} if suffix == "webp" else {}))
    found, size = decode(tmp_path, f"a.{suffix}")
    assert size == (24, 32)
    assert found.dtype == np.uint8
    limit = 40 if suffix == "gif" else 0  # a palette of 256
    assert np.abs(found.astype(int) - pixels).max() <= limit


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGBA", "1", "CMYK", "I;16"])
def test_other_colours_become_rgb(tmp_path: Path, mode: str) -> None:
    suffix = "jpg" if mode == "CMYK" else "png"
    grey = photo(0, 24, 32)[..., :1].repeat(3, 2)
    if mode == "I;16":
        Image.fromarray(grey[..., 0].astype(np.uint16) * 257).save(tmp_path / f"a.{suffix}")
    else:
        Image.fromarray(grey).convert(mode).save(tmp_path / f"a.{suffix}")
    found, _ = decode(tmp_path, f"a.{suffix}")
    assert found.shape == (24, 32, 3)
    if mode not in ("1", "P", "CMYK"):
        np.testing.assert_array_equal(found, grey)


WIDE = np.array([[0, 256, 257, 1000, 32896, 65535]], np.uint16)


@pytest.mark.parametrize("kind", ["png", "tiff", "big tiff", "pgm", "pgm of 10 bits"])
def test_grey_of_16_bits_is_scaled(tmp_path: Path, kind: str) -> None:
    name = f"a.{kind.split()[-1]}"
    expected: Any = WIDE // 257
    if kind == "pgm of 10 bits":
        values = np.array([[0, 4, 500, 1023]], ">u2")
        name, expected = "a.pgm", values * 65535.0 / 1023 // 257
        (tmp_path / name).write_bytes(b"P5\n4 1\n1023\n" + values.tobytes())
    elif kind == "big tiff":
        Image.frombytes("I;16B", (6, 1), WIDE.astype(">u2").tobytes()).save(tmp_path / name)
    else:
        Image.fromarray(WIDE).save(tmp_path / name)
    found, _ = decode(tmp_path, name)
    assert np.abs(found - expected[..., None]).max() <= (1 if "bits" in kind else 0)
    assert found.max() == 255


def test_colours_of_16_bits_are_scaled(tmp_path: Path) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        ends = struct.pack(">I", len(data)), struct.pack(">I", zlib.crc32(kind + data))
        return ends[0] + kind + data + ends[1]

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 1, 16, 2, 0, 0, 0))
    data = chunk(b"IDAT", zlib.compress(b"\0" + WIDE.astype(">u2").tobytes()))
    png = b"\x89PNG\r\n\x1a\n" + head + data + chunk(b"IEND", b"")
    (tmp_path / "a.png").write_bytes(png)
    found, _ = decode(tmp_path, "a.png")
    np.testing.assert_array_equal(found.reshape(1, 6), WIDE // 257)
    # torchvision's decoder crashes on some damaged files of this kind.
    (tmp_path / "b.png").write_bytes(png[:50] + bytes(8) + png[58:])
    batch = Decoder(str(tmp_path), exif=False).batch(PlannedBatch(0, (Entry("b.png"),)))
    assert list(batch.failures) == [0]


@pytest.mark.parametrize("type", [np.int32, np.float32])
def test_values_of_no_known_range_fail(tmp_path: Path, type: Any) -> None:
    """If clipped, they would be white and "ok"; OpenCV refuses such files too."""
    Image.fromarray(WIDE.astype(type)).save(tmp_path / "a.tiff")
    with pytest.raises(ValueError, match=r"its pixels are 32-bit .* how much is white"):
        decode(tmp_path, "a.tiff")


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tiff"])
@pytest.mark.parametrize("reduced", [False, True])
def test_orientation(tmp_path: Path, orientation: int, suffix: str, reduced: bool) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"a.{suffix}"
    save(path, 3, 64, 96, exif=exif)
    target = (Preprocess((16, 16)),)
    with Image.open(path) as image:
        upright = np.asarray(ImageOps.exif_transpose(image).convert("RGB")).astype(int)
    found, size = decode(tmp_path, path.name, reduced=reduced, targets=target)
    assert size == upright.shape[:2]
    if reduced and suffix == "jpg":
        assert found.shape[0] * 4 == size[0] or found.shape[0] * 2 == size[0]
        step = size[0] // found.shape[0]
        upright = upright.reshape(found.shape[0], step, found.shape[1], step, 3).mean((1, 3))
    assert found.shape == upright.shape
    assert np.abs(found - upright).max() < 16
    lying, size = decode(tmp_path, path.name, exif=False)
    assert size == lying.shape[:2] == (64, 96)
    assert np.abs(lying.astype(int) - photo(3, 64, 96)).max() < 16


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
@pytest.mark.parametrize("also", [None, 1, 3])
@pytest.mark.parametrize("reduced", [False, True])
def test_orientation_in_xmp(tmp_path: Path, suffix: str, also: Any, reduced: bool) -> None:
    """XMP counts if EXIF has no orientation, whichever library decodes; sizes agree with it."""
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf tiff:Orientation="6"/></x:xmpmeta>'
    options: dict[str, Any] = {"exif": Image.Exif()}
    if also is not None:
        options["exif"][0x0112] = also
    if suffix == "png":
        options["pnginfo"] = PngImagePlugin.PngInfo()
        options["pnginfo"].add_itxt("XML:com.adobe.xmp", xmp.decode())
    else:
        options["xmp"] = xmp
    pixels = save(tmp_path / f"a.{suffix}", 3, 64, 96, **options).astype(int)
    pixels = {None: np.rot90(pixels, -1), 1: pixels, 3: np.rot90(pixels, 2)}[also]
    target = (Preprocess((16, 16)),)
    found, size = decode(tmp_path, f"a.{suffix}", reduced=reduced, targets=target)
    assert size == pixels.shape[:2]
    step = size[0] // found.shape[0]
    assert step == (4 if reduced and suffix == "jpg" else 1)
    pixels = pixels.reshape(found.shape[0], step, found.shape[1], step, 3).mean((1, 3))
    assert np.abs(found - pixels).max() < 24


@pytest.mark.parametrize(
    ("size", "target", "expected"),
    [
        ((64, 96), Preprocess((33, 48)), (64, 96)),
        ((64, 96), Preprocess((32, 48)), (32, 48)),
        ((64, 96), Preprocess((17, 24)), (32, 48)),
        ((64, 96), Preprocess((16, 16)), (16, 24)),
        ((64, 96), Preprocess((1, 1)), (8, 12)),
        ((65, 97), Preprocess((30, 30), "letterbox"), (33, 49)),
        ((64, 96), Preprocess((28, 28), "crop", crop=28 / 32), (32, 48)),
        ((64, 96), Preprocess((28, 28), "crop", crop=0.5), (64, 96)),
    ],
)
def test_reduced_sizes_are_no_smaller_than_needed(
    tmp_path: Path, size: Any, target: Any, expected: Any
) -> None:
    save(tmp_path / "a.jpg", 1, *size)
    found, whole = decode(tmp_path, "a.jpg", reduced=True, targets=(target,))
    assert whole == size
    assert found.shape[:2] == expected


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("size", [(60, 90), (61, 95), (66, 89)])
def test_reduced_pixels_lie_where_whole_ones_do(
    tmp_path: Path, orientation: int, size: Any
) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    save(tmp_path / "a.jpg", 3, *size, quality=98, subsampling=0, exif=exif)
    preprocess = Preprocess((7, 7), mean=None, std=None)
    batches = []
    for reduced in (False, True):
        pixels, frame = Decoder(str(tmp_path), (preprocess,), reduced).image("a.jpg")
        assert frame.reduction == (8 if reduced else 1)
        batches.append(preprocess.run([pixels.permute(2, 0, 1)], [frame])[0])
    # If displaced by one pixel of the whole image, this is at least 0.064.
    assert (batches[0] - batches[1]).abs().max() < 0.06


def test_every_target_counts(tmp_path: Path) -> None:
    save(tmp_path / "a.jpg", 1, 64, 96)
    targets = (Preprocess((8, 8)), Preprocess((60, 60)))
    assert decode(tmp_path, "a.jpg", reduced=True, targets=targets)[0].shape[:2] == (64, 96)


def damaged() -> Any:
    buffer = io.BytesIO()
    Image.fromarray(photo(0, 64, 64)).save(buffer, "jpeg")
    jpeg = buffer.getvalue()
    buffer = io.BytesIO()
    Image.fromarray(photo(0, 64, 64)).save(buffer, "png")
    png = buffer.getvalue()
    return [
        (b"", "the file is empty"),
        (b"hello", "not an image of a known format"),
        (jpeg[: len(jpeg) // 2], "(?i)truncated"),
        (jpeg[:2], "not an image of a known format"),
        (png[: len(png) // 2], "."),
        (png[:60] + b"\0" * 60 + png[120:], "."),
    ]


@pytest.mark.parametrize("exif", [False, True])
@pytest.mark.parametrize("reduced", [False, True])
def test_damage_is_a_reason_not_an_exception(tmp_path: Path, reduced: bool, exif: bool) -> None:
    cases = damaged()
    for i, (data, _) in enumerate(cases):
        (tmp_path / f"{i}.jpg").write_bytes(data)
    save(tmp_path / "good.jpg")
    names = [*(f"{i}.jpg" for i in range(len(cases))), "none.jpg", "good.jpg"]
    plan = PlannedBatch(0, tuple(map(Entry, names)))
    decoder = Decoder(str(tmp_path), (Preprocess((8, 8)),), reduced, exif)
    batch = decoder.batch(plan)
    assert [frame.index for frame in batch.frames] == [len(names) - 1]
    assert sorted(batch.failures) == list(range(len(names) - 1))
    for i, (_, reason) in enumerate(cases):
        assert re.search(reason, batch.failures[i])
        assert str(tmp_path) not in batch.failures[i]
    assert batch.failures[len(cases)] == "No such file or directory"
    assert decoder.batch(plan).failures == batch.failures


def test_bombs_fail(tmp_path: Path) -> None:
    save(tmp_path / "a.png", 0, 100, 100)
    with pytest.raises(ValueError, match="100 x 100 pixels are more than 9999"):
        decode(tmp_path, "a.png", max_pixels=9999)


def test_files_that_are_too_large_fail_unread(tmp_path: Path) -> None:
    """A sparse file takes no room on the disk, but would fill the memory."""
    with open(tmp_path / "a.jpg", "wb") as file:
        file.truncate(3 << 30)
    plan = PlannedBatch(0, (Entry("a.jpg"),))
    with at_most_memory(1 << 30):
        batch = Decoder(str(tmp_path)).batch(plan)
    assert batch.failures == {0: "the file's 3221225472 bytes are more than 1073741824"}
    save(tmp_path / "a.jpg")
    size = (tmp_path / "a.jpg").stat().st_size
    assert not Decoder(str(tmp_path), max_bytes=size).batch(plan).failures
    assert Decoder(str(tmp_path), max_bytes=size - 1).batch(plan).failures == {
        0: f"the file's {size} bytes are more than {size - 1}"
    }


def several(folder: Path, sizes: Any, suffix: str = "png") -> PlannedBatch:
    """A batch of images of these sizes."""
    names = [f"{i}.{suffix}" for i in range(len(sizes))]
    for i, (name, size) in enumerate(zip(names, sizes, strict=True)):
        save(folder / name, i, *size)
    return PlannedBatch(0, tuple(map(Entry, names)))


@pytest.mark.parametrize("apart", [False, True])
def test_images_that_make_a_batch_too_large_fail(tmp_path: Path, apart: bool) -> None:
    """Images before them are decoded, and so are smaller ones after them."""
    plan = several(tmp_path, [(10, 20), (30, 10), (10, 25), (5, 30), (10, 5), (1, 1)])
    decoder = Decoder(str(tmp_path), max_batch_pixels=700)
    batch = decode_apart(decoder, plan, "fork") if apart else decoder.batch(plan)
    wanted = "{} decoded pixels are more than the {} left of the batch's 700: use smaller batches"
    assert batch.failures == {2: wanted.format(250, 200), 5: wanted.format(1, 0)}
    assert [frame.index for frame in batch.frames] == [0, 1, 3, 4]
    assert [frame.offset for frame in batch.frames] == [0, 600, 1500, 1950]
    assert batch.pixels is not None
    for frame in batch.frames:
        size = frame.height * frame.width * 3
        found = batch.pixels[frame.offset : frame.offset + size].numpy()
        expected = photo(frame.index, frame.height, frame.width)
        np.testing.assert_array_equal(found, expected.reshape(-1))


def test_reduced_images_take_less_of_a_batch(tmp_path: Path) -> None:
    plan = several(tmp_path, [(66, 97), (64, 96)], "jpg")
    sizes = [9 * 13, 8 * 12]  # at an eighth
    targets = (Preprocess((8, 8)),)
    for most, failed in ((sum(sizes), []), (sum(sizes) - 1, [1])):
        decoder = Decoder(str(tmp_path), targets, reduced=True, max_batch_pixels=most)
        batch = decoder.batch(plan)
        assert list(batch.failures) == failed
        decoded = [frame.height * frame.width for frame in batch.frames]
        assert decoded == sizes[: 2 - len(failed)]


def test_too_little_memory_for_a_batch_is_the_machines_fault(tmp_path: Path) -> None:
    def allocate(count: int) -> Any:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    plan = several(tmp_path, [(10, 20)])
    message = "no memory for 600 bytes of decoded images: use smaller batches, fewer workers"
    with pytest.raises(OSError, match=message) as caught:
        Decoder(str(tmp_path)).batch(plan, allocate)
    assert caught.value.errno == errno.ENOMEM


def test_too_little_memory_for_an_image_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(image: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(visops.infer.images.decode, "_as_rgb", full)
    batch = Decoder(str(tmp_path)).batch(several(tmp_path, [(10, 20)]))
    assert batch.failures == {0: "decoding it takes more memory than there is"}


@pytest.mark.parametrize("suffix", ["png", "tiff", "jpg"])
def test_pillows_own_limit_does_not_apply(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    save(tmp_path / f"a.{suffix}", 0, 60, 80)
    found, _ = decode(tmp_path, f"a.{suffix}", max_pixels=4800)
    assert found.shape == (60, 80, 3)
    with pytest.raises(ValueError, match="60 pixels are more than 4799"):
        decode(tmp_path, f"a.{suffix}", max_pixels=4799)
    assert Image.MAX_IMAGE_PIXELS == 1000


@pytest.mark.parametrize(
    ("code", "workers"),
    [("EIO", 0), ("EIO", 1), ("ESTALE", 0), ("EMFILE", 0), ("ENFILE", 0), ("ENOMEM", 0)],
)
def test_faults_of_the_machine_do_not_fail_images(
    tmp_path: Path, code: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If such errors were failures of a file, all remaining files would fail too."""
    number = getattr(errno, code)

    def failing(path: Any, *arguments: Any) -> Any:
        raise OSError(number, os.strerror(number))  # without a file name, as when reading fails

    monkeypatch.setattr(visops.infer.images.decode, "open", failing, raising=False)
    save(tmp_path / "a.png")
    source = DecodedBatches([PlannedBatch(0, (Entry("a.png"),))], Decoder(str(tmp_path)), workers)
    with closing(source), pytest.raises(OSError, match=r"a\.png") as caught:
        next(source)
    assert caught.value.errno == number
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize("root", ["gone", "empty"])
def test_a_missing_folder_does_not_fail_its_images(tmp_path: Path, root: str) -> None:
    folder = tmp_path / root
    if root == "empty":
        folder.mkdir()  # like an unmounted mount point
    plan = PlannedBatch(0, (Entry("a.png"), Entry("b.png")))
    with pytest.raises(FileNotFoundError, match=f"gone, or empty; is it mounted.*{root}"):
        Decoder(str(folder)).batch(plan)
    save(folder / "b.png")
    assert Decoder(str(folder)).batch(plan).failures == {0: "No such file or directory"}


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_workers_give_the_same_batches_in_order(tmp_path: Path, workers: int) -> None:
    sizes = [(20 + i, 30) for i in range(7)]
    pictures = [save(tmp_path / f"{i}.png", i, *size) for i, size in enumerate(sizes)]
    plans = [
        PlannedBatch(n, (Entry(f"{n}.png"), Entry("x.txt", "skipped", "no"), Entry("none.png")))
        for n in range(7)
    ]
    batches = list(DecodedBatches(plans, Decoder(str(tmp_path)), workers))
    assert [batch.number for batch in batches] == list(range(7))
    for batch, pixels in zip(batches, pictures, strict=True):
        (frame,) = batch.frames
        assert (frame.index, frame.offset) == (0, 0)
        assert list(batch.failures) == [2]
        found: Any = batch.pixels
        np.testing.assert_array_equal(found.numpy().reshape(pixels.shape), pixels)
