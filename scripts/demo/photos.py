"""Photos for the demo: those inside scikit-image's and scikit-learn's packages, or a folder's."""

import re
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import skimage
import torch
from sklearn.datasets import load_sample_images
from torchvision.io import ImageReadMode, decode_image
from tqdm import tqdm

Photo = npt.NDArray[np.uint8]  # [height, width, 3]

# Files of scikit-image's package, best first; a version that leaves some out has fewer photos.
PACKAGED = (
    *("astronaut.png", "coffee.png", "chelsea.png", "rocket.jpg", "motorcycle_left.png"),
    *("hubble_deep_field.jpg", "retina.jpg", "ihc.png", "camera.png", "moon.png", "brick.png"),
    *("grass.png", "gravel.png", "coins.png"),
)
SUFFIXES = (".jpg", ".jpeg", ".png")


class DemoError(Exception):
    """A mistake that the user can fix, shown without a traceback."""


def read_photo(path: Path) -> Photo:
    """Read a JPEG or PNG as RGB; raises OSError or RuntimeError if it is neither."""
    image = decode_image(str(path), mode=ImageReadMode.RGB, apply_exif_orientation=True)
    if image.dtype != torch.uint8:  # 16-bit PNG
        image = (image.to(torch.int32) // 257).to(torch.uint8)
    photo: Photo = image.permute(1, 2, 0).contiguous().numpy()
    return photo


def packaged_photos() -> dict[str, Photo]:
    """The photos packaged with scikit-learn and scikit-image, by name; nothing is downloaded."""
    folder = Path(skimage.__file__).parent / "data"
    samples = load_sample_images()
    images = zip(samples.filenames, samples.images, strict=True)
    own = [(Path(name).name, np.array(image, dtype=np.uint8)) for name, image in images]
    photos = [(name, read_photo(folder / name)) for name in PACKAGED if (folder / name).is_file()]
    # The best-known photo first, near-monochrome ones last.
    return dict([*photos[:3], *own, *photos[3:]])


def folder_photos(folder: Path, limit: int) -> dict[str, Photo]:
    """The first `limit` photos of a folder; unreadable files are named and skipped."""
    if not folder.is_dir():
        raise DemoError(f"{folder} is not a folder")
    paths = sorted(p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
    if not paths:
        raise DemoError(f"{folder} holds no {', '.join(SUFFIXES)} file")
    photos: dict[str, Photo] = {}
    with tqdm(paths, desc="reading", unit="file", leave=False, disable=None) as bar:
        for path in bar:
            try:
                photos[str(path)] = read_photo(path)
            except (OSError, RuntimeError) as error:
                # torchvision's messages start with its function, file and line.
                reason = re.sub(r"^\w+, \S+:\d+, ", "", str(error)) or type(error).__name__
                bar.write(f"skipped {path}: not a readable image ({reason})", file=sys.stderr)
            if len(photos) == limit:
                break
    if not photos:
        raise DemoError(f"none of the {len(paths)} image files in {folder} could be read")
    return photos


def square(photo: Photo, size: int) -> Photo:
    """The largest centred square, resized."""
    height, width = photo.shape[:2]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    crop = torch.from_numpy(photo[top : top + side, left : left + side].copy()).permute(2, 0, 1)
    # A filter rather than a warp: four neighbours are too few when many pixels become one.
    resized = torch.nn.functional.interpolate(
        crop[None].float(), (size, size), mode="bilinear", antialias=True
    )
    out: Photo = resized[0].round().to(torch.uint8).permute(1, 2, 0).contiguous().numpy()
    return out
