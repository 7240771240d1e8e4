"""Files, targets and chains for the loader's tests."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from jpeg.files import by_pillow, oriented, picture
from torch.utils.data import Dataset
from visops import transforms

COUNT = 23


def photo(index: int) -> bytes:
    """A small file; every seventh is turned by its EXIF orientation."""
    image = picture(60 + 7 * (index % 5), 90 - 5 * (index % 3), index)
    return oriented(image, 6) if index % 7 == 3 else by_pillow(image, quality=90)


FILES = [photo(index) for index in range(COUNT)]


def size_of(index: int) -> tuple[int, int]:
    """Height and width of the upright photo."""
    height, width = 60 + 7 * (index % 5), 90 - 5 * (index % 3)
    return (width, height) if index % 7 == 3 else (height, width)


def png(image: np.ndarray) -> bytes:
    return bytes(cv2.imencode(".png", image)[1].tobytes())


def write(folder: Path) -> list[str]:
    """Write the files, and return their paths."""
    paths = []
    for index, file in enumerate(FILES):
        paths.append(str(folder / f"{index:03}.jpg"))
        Path(paths[-1]).write_bytes(file)
    return paths


def chain(*more: Any, size: int = 24, **options: Any) -> transforms.Compose:
    """A chain of one pass, for training."""
    return transforms.Compose(
        [
            transforms.DecodeJpeg(),
            transforms.RandomResizedCrop(size, scale=(0.2, 1.0)),
            transforms.RandomHorizontalFlip(),
            transforms.ColorJitter(0.4, 0.4, 0.4, 0.1),
            *more,
            transforms.ToDtype(torch.float32, scale=True),
            transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ],
        **{"seed": 5, **options},
    )


class Detections(Dataset[Any]):
    """Photos with boxes, labels, a mask per photo, masks per box and key points."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> dict[str, Any]:
        rng = np.random.default_rng(index)
        height, width = size_of(index)
        count = index % 4
        corners = torch.from_numpy(rng.uniform(0, 30, (count, 4)).astype(np.float32))
        corners[:, 2:] += corners[:, :2] + 10
        return {
            "image": FILES[index],
            "boxes": corners,
            "labels": torch.arange(count),
            "mask": torch.from_numpy(rng.integers(0, 5, (height, width), dtype=np.uint8)),
            "masks": torch.from_numpy(rng.integers(0, 2, (count, height, width), dtype=np.uint8)),
            "keypoints": torch.from_numpy(rng.uniform(0, 60, (count, 3, 2)).astype(np.float32)),
            "name": f"photo {index}",
            "number": index,
        }


def equal(found: Any, expected: Any, within: float = 0.0) -> bool:
    """Whether two batches have the same structure, types and bytes; or numbers within a limit."""
    if type(found) is not type(expected):
        return False
    if isinstance(found, torch.Tensor):
        same = found.dtype == expected.dtype and found.shape == expected.shape
        return same and torch.allclose(found, expected, rtol=0.0, atol=within, equal_nan=True)
    if isinstance(found, dict):
        return found.keys() == expected.keys() and all(
            equal(found[key], expected[key], within) for key in found
        )
    if isinstance(found, (list, tuple)):
        return len(found) == len(expected) and all(
            equal(own, other, within) for own, other in zip(found, expected, strict=True)
        )
    if isinstance(found, np.ndarray):
        return bool(np.array_equal(found, expected))
    return bool(found == expected)
