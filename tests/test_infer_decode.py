"""Pixels of files: formats, orientation, reduced sizes, damage, and any number of workers."""

import io
import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from infer_folders import photo, save
from PIL import Image, ImageOps
from visops.infer.batch import Frame
from visops.infer.decode import Decoder
from visops.infer.listing import Entry
from visops.infer.loading import DIED, DecodedBatches
from visops.infer.plan import PlannedBatch
from visops.infer.preprocess import Preprocess

pytestmark = pytest.mark.slow


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


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
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
def test_reduced_pixels_are_where_whole_ones_are(
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
    # Placed by a pixel of the whole image elsewhere, this is 0.064 at least.
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


@pytest.mark.parametrize("reduced", [False, True])
def test_damage_is_a_reason_not_an_exception(tmp_path: Path, reduced: bool) -> None:
    cases = damaged()
    for i, (data, _) in enumerate(cases):
        (tmp_path / f"{i}.jpg").write_bytes(data)
    save(tmp_path / "good.jpg")
    names = [*(f"{i}.jpg" for i in range(len(cases))), "none.jpg", "good.jpg"]
    plan = PlannedBatch(0, tuple(map(Entry, names)))
    decoder = Decoder(str(tmp_path), (Preprocess((8, 8)),), reduced)
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


class Deadly(Decoder):
    """Ends the process at some images, as a crash in a decoder does."""

    def image(self, path: str) -> tuple[torch.Tensor, Frame]:
        if path == "2.png":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().image(path)


# A worker that is ended because another one has died.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_images_that_kill_workers_fail_and_the_others_go_on(tmp_path: Path) -> None:
    names = [f"{i}.png" for i in range(8)]
    for i, name in enumerate(names):
        save(tmp_path / name, i, 20 + i)
    plans = [PlannedBatch(n, tuple(map(Entry, names[n * 2 : n * 2 + 2]))) for n in range(3)]
    source = DecodedBatches(plans, Deadly(str(tmp_path)), 2)
    # In a thread, as in a run: in the main one DataLoader raises from a handler of signals.
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(list, source)
        while not future.done():
            with suppress(RuntimeError, TimeoutError):
                future.exception(0.1)
        batches: list[Any] = future.result()
    wanted = [Decoder(str(tmp_path)).batch(plan) for plan in plans]
    assert [batch.number for batch in batches] == [0, 1, 2]
    assert [batch.failures for batch in batches] == [{}, {0: DIED}, {}]
    for batch, whole in zip(batches, wanted, strict=True):
        pixels, expected = batch.pixels, whole.pixels
        assert pixels is not None
        assert expected is not None
        kept = [frame for frame in whole.frames if frame.index not in batch.failures]
        assert [frame.index for frame in batch.frames] == [frame.index for frame in kept]
        for frame, before in zip(batch.frames, kept, strict=True):
            size = frame.height * frame.width * 3
            found = pixels[frame.offset : frame.offset + size]
            assert torch.equal(found, expected[before.offset : before.offset + size])
