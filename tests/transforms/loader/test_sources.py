"""Data sets as they are, paths in the places of files, and what print() and stats() say."""

import importlib
import io
import json
import struct
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import visops
from PIL import Image
from torch.utils.data import ConcatDataset, Subset
from torchvision.datasets import CocoDetection, ImageFolder
from torchvision.transforms import v2
from visops import transforms
from visops.transforms.loading.sources import read_png

from transforms.loader.cases import expected, loaded

from .photos import COUNT, FILES, chain, equal, png, size_of, write


def folders(root: Path) -> None:
    for name in ("cat", "dog"):
        (root / name).mkdir()
    for index, file in enumerate(FILES):
        (root / ("cat", "dog")[index % 2] / f"{index:02}.jpg").write_bytes(file)


@pytest.fixture
def no_pillow_photos(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a photo is opened by Pillow."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a photo was decoded by Pillow")

    monkeypatch.setattr(Image, "open", refuse)


@pytest.mark.parametrize("kind", ["str", "Path", "tuple", "dict", "Hugging Face", "bytes there"])
def test_paths(kind: str, tmp_path: Path) -> None:
    paths = write(tmp_path)
    own = chain()
    samples: dict[str, Any] = {
        "str": paths,
        "Path": [Path(path) for path in paths],
        "tuple": [(path, index) for index, path in enumerate(paths)],
        "dict": [{"img": path, "label": index} for index, path in enumerate(paths)],
        "Hugging Face": [{"image": {"path": path, "bytes": None}, "id": 3} for path in paths],
        "bytes there": [
            {"image": {"path": "elsewhere.jpg", "bytes": file}, "id": 3} for file in FILES
        ],
    }
    contents: dict[str, Any] = {
        "tuple": [(file, index) for index, file in enumerate(FILES)],
        "dict": [{"img": file, "label": index} for index, file in enumerate(FILES)],
        "Hugging Face": [{"image": file, "id": 3} for file in FILES],
        "bytes there": [{"image": file, "id": 3} for file in FILES],
    }
    found = loaded(samples[kind], own)
    assert equal(found, expected(contents.get(kind, FILES), own))
    slow = transforms.Compose([*own.transforms, transforms.ImageOnly(torch.neg)], seed=2)
    assert equal(loaded(samples[kind], slow), expected(contents.get(kind, FILES), slow))


def test_image_folder(tmp_path: Path, no_pillow_photos: None) -> None:
    folders(tmp_path)
    dataset, own = ImageFolder(str(tmp_path)), chain()
    samples = [(Path(path).read_bytes(), label) for path, label in dataset.samples]
    assert equal(loaded(dataset, own), expected(samples, own))
    part = Subset(dataset, [5, 1, 9])
    assert equal(loaded(part, own), expected([samples[i] for i in (5, 1, 9)], own))
    several: Any = ConcatDataset([part, dataset])
    both = [samples[i] for i in (5, 1, 9)] + samples
    assert equal(loaded(several, own), expected(both, own))
    last = loaded(several, own, sampler=[-1])
    assert last[0][1].tolist() == [samples[-1][1]]
    changed = ImageFolder(str(tmp_path), target_transform=lambda label: label + 10)
    found = torch.cat([labels for _, labels in loaded(changed, own)])
    assert found.tolist() == [label + 10 for _, label in samples]


def test_image_folders_that_read_for_themselves(tmp_path: Path) -> None:
    folders(tmp_path)
    steps = chain().transforms[1:]
    own = transforms.Compose(steps, seed=5)
    plain = loaded(ImageFolder(str(tmp_path)), own)

    class Own(ImageFolder):
        def __getitem__(self, index: int) -> Any:
            image, label = super().__getitem__(index)
            return image, label + 1

    assert equal([b[0] for b in loaded(Own(str(tmp_path)), own)], [b[0] for b in plain])
    with pytest.raises(TypeError, match="DecodeJpeg"):
        loaded(Own(str(tmp_path)), chain())


def test_coco_detection(tmp_path: Path, no_pillow_photos: None) -> None:
    paths = write(tmp_path)
    images: list[Any] = []
    annotations: list[Any] = []
    for index, path in enumerate(paths):
        height, width = size_of(index)
        own = {"id": index, "file_name": Path(path).name, "height": height, "width": width}
        images.append(own)
        for box in range(1 + index % 3):
            annotations.append(
                {
                    "id": len(annotations),
                    "image_id": index,
                    "category_id": box,
                    "bbox": [3 + box, 4, 20, 30],
                    "area": 600,
                    "iscrowd": 0,
                    "segmentation": [[3, 4, 23, 4, 23, 34]],
                }
            )
    file = tmp_path / "annotations.json"
    content = {"images": images, "annotations": annotations, "categories": [{"id": 0}]}
    file.write_text(json.dumps(content), "utf-8")
    dataset = CocoDetection(str(tmp_path), str(file))
    own_chain = chain(boxes="sanitize")
    coco = dataset.coco
    samples = [(FILES[i], coco.loadAnns(coco.getAnnIds(i))) for i in range(COUNT)]
    assert equal(loaded(dataset, own_chain), expected(samples, own_chain))
    # Most data sets have photos of nothing and crowds.
    samples[0][1].clear()
    mask = np.zeros(size_of(1), bool)
    mask[3:20, 4:9] = True
    samples[1][1][0]["segmentation"] = visops.masks_to_rle(mask)
    assert equal(loaded(samples, own_chain), expected(samples, own_chain))


def test_masks_in_png_files(tmp_path: Path) -> None:
    paths, own = write(tmp_path), chain()
    rng = np.random.default_rng(0)
    masks = [rng.integers(0, 9, size_of(i), dtype=np.uint8) for i in range(COUNT)]
    files = []
    for index, mask in enumerate(masks):
        files.append(str(tmp_path / f"{index}.png"))
        Path(files[-1]).write_bytes(png(mask))
    found = loaded([{"image": p, "mask": m} for p, m in zip(paths, files, strict=True)], own)
    content = [
        {"image": path, "mask": Path(m).read_bytes()} for path, m in zip(paths, files, strict=True)
    ]
    arrays = [{"image": file, "mask": mask} for file, mask in zip(FILES, masks, strict=True)]
    want = expected(arrays, own)
    assert equal(found, want)
    assert equal(loaded(content, own), want)
    assert found[0]["mask"].shape == (5, 24, 24)
    photos = [visops.decode_jpeg(file) for file in FILES]
    decoded = [{"image": p, "mask": m} for p, m in zip(photos, files, strict=True)]
    plain = transforms.Compose([transforms.RandomCrop(24)], seed=1)
    assert loaded(decoded, plain)[0]["mask"].shape == (5, 24, 24)


def pillow_png(array: np.ndarray, **options: Any) -> bytes:
    file = io.BytesIO()
    image = Image.fromarray(array)
    if "palette" in options:
        image.putpalette(options.pop("palette"))
    image.save(file, "PNG", **options)
    return file.getvalue()


def filtered(array: np.ndarray, filters: list[int]) -> bytes:
    """A PNG file whose rows have these filters in turn, as the standard defines them."""
    height, width = array.shape
    rows = bytearray()
    wide = np.zeros((height + 1, width + 1), np.int64)
    wide[1:, 1:] = array
    for y in range(1, height + 1):
        left, above, corner = wide[y, :-1], wide[y - 1, 1:], wide[y - 1, :-1]
        guess = left + above - corner
        near = np.abs(np.stack([guess - left, guess - above, guess - corner])).argmin(0)
        paeth = np.choose(near, [left, above, corner])
        own = filters[y % len(filters)]
        guesses = [0 * left, left, above, (left + above) // 2, paeth]
        rows += bytes([own]) + ((wide[y, 1:] - guesses[own]) % 256).astype(np.uint8).tobytes()

    def chunk(name: bytes, content: bytes) -> bytes:
        check = zlib.crc32(name + content)
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = zlib.compress(bytes(rows))
    half = len(data) // 2
    parts = [chunk(b"IDAT", data[:half]), chunk(b"IDAT", data[half:]), chunk(b"tEXt", b"a\0b")]
    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    return start + b"".join(parts) + chunk(b"IEND", b"")


def test_png_files_are_read_as_pillow_reads_them() -> None:
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (23, 31), dtype=np.uint8)
    smooth = (np.add.outer(np.arange(23), np.arange(31)) * 3).astype(np.uint8)
    for array in (noise, smooth, noise[:1, :1]):
        for filters in ([0], [1], [2], [3], [4], [0, 1, 2, 3, 4]):
            content = filtered(array, filters)
            found = read_png(content)
            assert found is not None
            assert np.array_equal(found, array)
            assert np.array_equal(np.asarray(Image.open(io.BytesIO(content))), array)
        assert np.array_equal(read_png(pillow_png(array, optimize=True)), array)  # type: ignore[arg-type]
    colours = rng.integers(0, 256, 768).tolist()
    assert np.array_equal(read_png(pillow_png(noise, palette=colours)), noise)  # type: ignore[arg-type]


def test_other_png_files_are_left_to_pillow() -> None:
    array = np.arange(20, dtype=np.uint8).reshape(4, 5)
    good = filtered(array, [1])
    others = {
        "colours": pillow_png(np.zeros((4, 5, 3), np.uint8)),
        "bits": pillow_png(array > 9),
        "few colours": pillow_png(array % 4, palette=list(range(12))),
        "16 bits": pillow_png(array.astype(np.uint16)),
        "cut": good[:50],
        "codes": good[:60] + bytes(5) + good[65:],
        "filter": filtered(array, [0]).replace(b"IHDR", b"IHDX"),
        "too many pixels": good[:16] + struct.pack(">II", 1 << 15, 1 << 15) + good[24:],
        "fewer rows": good[:20] + struct.pack(">I", 9) + good[24:],
        "more rows": good[:20] + struct.pack(">I", 2) + good[24:],
        "no picture": b"no picture",
        "nothing": b"",
    }
    assert read_png(good) is not None
    for name, content in others.items():
        assert read_png(content) is None, name


def test_a_damaged_mask_is_skipped(tmp_path: Path) -> None:
    mask = png(np.zeros(size_of(0), np.uint8))
    samples: list[dict[str, Any]] = [{"image": FILES[0], "mask": mask}] * 4
    samples[2] = {"image": FILES[0], "mask": b"no picture"}
    with pytest.raises(ValueError, match=r"sample 2: .*sample\['mask'\] can't be decoded"):
        loaded(samples, chain())
    assert loaded(samples, chain(), on_error="skip")[0]["mask"].shape[0] == 3
    samples[2] = {"image": FILES[0], "mask": str(tmp_path / "missing.png")}
    with pytest.raises(FileNotFoundError):
        loaded(samples, chain())
    assert loaded(samples, chain(), on_error="skip")[0]["mask"].shape[0] == 3


@pytest.mark.parametrize("own", [chain(), chain(transforms.JPEG(90))], ids=["C++", "Python"])
def test_masks_may_be_in_a_dict_within_a_sample(own: transforms.Compose, tmp_path: Path) -> None:
    mask = np.random.default_rng(0).integers(0, 9, (2, *size_of(0)), np.uint8)
    files: list[Any] = [png(mask[0]), tmp_path / "1.png"]
    files[1].write_bytes(png(mask[1]))
    boxes = [[1.0, 2.0, 30.0, 40.0]] * 2

    def found(one: Any, several: Any) -> list[Any]:
        target = {"masks": several, "boxes": boxes}
        samples = [(FILES[0], target, 3), (FILES[0], {"mask": one}, 3)]
        nested = {"image": FILES[0], "target": target}
        return [loaded([sample], own) for sample in (*samples, nested)]

    assert equal(found(files[0], files), found(mask[0], mask))
    samples = [(FILES[0], {"masks": [files[0], png(mask[0][:9])]})]
    with pytest.raises(ValueError, match=r"sample\[1\]\['masks'\]\[1\] has shape \[9, "):
        loaded(samples, own)


def test_masks_of_another_size_are_refused() -> None:
    samples = [{"image": FILES[0], "mask": np.zeros((9, 9), np.uint8)}]
    with pytest.raises(ValueError, match="mask") as caught:
        loaded(samples, chain())
    assert "sample 0" in caught.value.__notes__[0]


def test_what_print_says() -> None:
    lines = repr(transforms.Loader(FILES, chain(), 5, threads=2)).splitlines()
    assert lines[0] == "Loader(23 samples, 5 batches of 5, 2 threads, prefetch=2"
    assert lines[2].startswith("  pass 1: DecodeJpeg, RandomResizedCrop")
    assert lines[2].endswith("Normalize: without the lock")
    slow = transforms.Compose([*chain().transforms, v2.GaussianNoise()], seed=1)
    text = repr(transforms.Loader(FILES, slow, 5))
    assert "pass 1: DecodeJpeg" in text
    assert "holds it, but for pixels: another pass does" in text
    assert "pass 2: GaussianNoise: holds it, but for pixels: it is not of visops" in text
    decoded = transforms.Compose([transforms.CenterCrop(8)], seed=0)
    assert "CenterCrop: without the lock" in repr(transforms.Loader([], decoded, 1))


def test_what_stats_say() -> None:
    loader = transforms.Loader(FILES, chain(), 5, threads=2)
    with pytest.raises(RuntimeError, match="nothing was loaded yet"):
        loader.stats()
    for _ in loader:
        pass
    stats = loader.stats()
    assert stats.images == COUNT
    assert stats.images_per_second == pytest.approx(COUNT / stats.seconds)
    assert sum(stats.shares.values()) == pytest.approx(1.0)
    assert set(stats.shares) == {
        *("reading", "decoding", "transforming", "python", "collating", "waiting"),
    }
    assert stats.shares["decoding"] > 0
    assert stats.shares["transforming"] > 0
    assert str(COUNT) in str(stats)


@pytest.mark.parametrize(
    ("slow", "stage", "in_one_call"),
    [
        ("sources.read_png", "decoding", True),
        ("sources.read_png", "decoding", False),
        ("samples.follow_image", "transforming", True),
        ("samples.split_sample", "python", True),
    ],
)
def test_stages_of_masks(
    slow: str, stage: str, in_one_call: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of masks are decoded and moved without the lock, so that is not Python's time."""
    module, name = f"visops.transforms.loading.{slow}".rsplit(".", 1)
    real = getattr(importlib.import_module(module), name)

    def late(*args: Any, **kwargs: Any) -> Any:
        time.sleep(0.05)
        return real(*args, **kwargs)

    monkeypatch.setattr(f"{module}.{name}", late)
    samples = [
        {"image": file, "mask": png(np.zeros(size_of(index), np.uint8))}
        for index, file in enumerate(FILES[:4])
    ]
    # Python moves targets whose visible shares count.
    policy: dict[str, Any] = (
        {"boxes": "sanitize", "min_visibility": 0.1} if slow.startswith("samples") else {}
    )
    own = chain(*([] if in_one_call else [v2.Identity()]), **policy)
    loader = transforms.Loader(samples, own, 4, threads=1)
    assert len(list(loader)) == 1
    assert loader.stats().shares[stage] > 0.5


def test_what_limits() -> None:
    from visops.transforms.loading.statistics import Times, summary

    def limit(threads: int = 2, cpus: int = 4, consumer: float = 8.0, **stages: float) -> str:
        return summary([Times(images=1, **stages)], 10.0, consumer, [], threads, cpus).limit

    assert limit(decoding=5.0, reading=1.0) == (
        "decoding: more threads help (2 of 4 CPUs are in use)"
    )
    assert limit(4, decoding=5.0) == "decoding: all 4 CPUs are in use"
    assert limit(reading=5.0).startswith("reading: more threads help")
    assert limit(python=5.0).startswith("Python: what print(loader) marks")
    assert limit(decoding=1.0, waiting=9.0, consumer=0.1).startswith("the consumer: batches are")
    assert limit(reading=2.0, waiting=8.0).startswith("prefetch: threads wait for batches to be")
    assert summary([], 1.0, 0.0, [], 1, 1).limit == "nothing was loaded yet"
