"""A folder of JPEG files like users' folders of photos: many sizes, some files broken.

File n depends on n alone, so that a folder of 200 files has the first 200 of one of 2,000.
"""

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
from bench.augmentation.pictures import cut, jpeg
from demo.photos import packaged_photos
from PIL import Image

Size = tuple[int, int]  # width, height

# Four of eight photos have sizes from data sets, two from the web, two from screens.
SIZES: tuple[Size, ...] = (
    *((640, 480), (1024, 768), (480, 640), (1920, 1080)),
    *((640, 427), (768, 1024), (500, 375), (1920, 1080)),
)
FOLDER = 128  # files per folder; the next folder repeats their names
BROKEN_EVERY = 96
BROKEN = ("truncated", "empty", "text", "head only")
GRAIN = 4.0  # standard deviation, of 255; enlarged photos are smoother than a camera's
SIDE = 320  # smallest side to enlarge a photo from


def file_name(index: int) -> str:
    """Return the path of file `index` below the folder; not all of it is ASCII."""
    return f"{index // FOLDER:02d} été/photo_{index % FOLDER:03d}.jpg"


def defect(index: int) -> str | None:
    """Return what is wrong with file `index`."""
    which, rest = divmod(index, BROKEN_EVERY)
    return BROKEN[which % len(BROKEN)] if rest == BROKEN_EVERY // 2 else None


def _damaged(file: bytes, kind: str) -> bytes:
    return {
        "truncated": file[: len(file) // 2],
        "empty": b"",
        "text": b"<html><body>404: no such photo</body></html>\n",
        "head only": file[:200],
    }[kind]


def _grain() -> npt.NDArray[np.int16]:
    """Return noise to cut pieces from, [height, width, 3]."""
    height, width = (max(size[axis] for size in SIZES) + 64 for axis in (1, 0))
    noise = np.random.default_rng(0).normal(scale=GRAIN, size=(height, width, 1))
    return np.rint(noise).astype(np.int16).repeat(3, axis=2)


def _jpeg(index: int, photos: Sequence[Image.Image], grain: npt.NDArray[np.int16]) -> bytes:
    """Return a part of a photo, resized, with grain."""
    rng = np.random.default_rng((1, index))
    width, height = SIZES[index % len(SIZES)]
    resized = cut(photos[int(rng.integers(len(photos)))], (height, width), 0.6, rng)
    y, x = rng.integers(64, size=2)
    pixels = np.asarray(resized, np.int16) + grain[y : y + height, x : x + width]
    return jpeg(Image.fromarray(pixels.clip(0, 255).astype(np.uint8)))


def make_photos(root: Path, count: int) -> Path:
    """Return the folder of `count` files below `root`; it is made once.

    Beside them is a file that is no image, ``notes.txt``, in each folder.
    """
    folder = root / f"photos_{count}"
    if folder.is_dir():
        return folder
    unfinished = root / f"photos_{count}.tmp"
    shutil.rmtree(unfinished, ignore_errors=True)
    photos = [Image.fromarray(p) for p in packaged_photos().values() if min(p.shape[:2]) >= SIDE]
    grain = _grain()

    def write(index: int) -> None:
        path = unfinished / file_name(index)
        if index % FOLDER == 0:
            path.with_name("notes.txt").write_text("Photos of a journey.\n")
        file, kind = _jpeg(index, photos, grain), defect(index)
        path.write_bytes(file if kind is None else _damaged(file, kind))

    for index in range(0, count, FOLDER):
        (unfinished / file_name(index)).parent.mkdir(parents=True)
    with ThreadPoolExecutor() as pool:
        list(pool.map(write, range(count)))
    unfinished.rename(folder)
    return folder
