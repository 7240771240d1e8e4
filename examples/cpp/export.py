"""Compile the detector, and write photos and what Python finds in them.

    python export.py FOLDER

FOLDER then has detector.pt2; a .ppm file for each photo; expected.txt, the lines that detect must
print; and requests.txt, the paths of 200 photos.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import skimage.data
import torch
from detector import Detector, line
from torch import Tensor

PHOTOS = ("astronaut", "chelsea", "coffee")
REQUESTS = 200


def packaged_photo(name: str) -> Tensor:
    """Return a photo that scikit-image's package holds, as uint8 ``[3, height, width]``."""
    pixels = np.array(getattr(skimage.data, name)())
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()


def write_photo(path: Path, photo: Tensor) -> None:
    """Write a photo ``[3, height, width]`` as a binary PPM."""
    height, width = photo.shape[1:]
    pixels = photo.permute(1, 2, 0).contiguous().numpy().tobytes()
    path.write_bytes(f"P6 {width} {height} 255\n".encode() + pixels)


def compile_detector(path: Path, photo: Tensor) -> None:
    """Compile the detector for photos of any size."""
    sizes = {1: torch.export.Dim("height", min=2, max=16384)}
    sizes[2] = torch.export.Dim("width", min=2, max=16384)
    program = torch.export.export(Detector().eval(), (photo,), dynamic_shapes=[sizes])
    torch._inductor.aoti_compile_and_package(program, package_path=str(path))


def main(folder: Path) -> None:
    """Write all files."""
    folder.mkdir(parents=True, exist_ok=True)
    photos = {name: packaged_photo(name) for name in PHOTOS}
    package = folder / "detector.pt2"
    compile_detector(package, photos[PHOTOS[0]])
    compiled, eager = torch._inductor.aoti_load_package(str(package)), Detector().eval()
    expected = []
    for name, photo in photos.items():
        path = folder / f"{name}.ppm"
        write_photo(path, photo)
        found = compiled(photo)
        for one, other in zip(found, eager(photo), strict=True):
            torch.testing.assert_close(one, other)
        expected.append(line(str(path), found))
        print(f"{path}: {len(found[0])} blobs")
    (folder / "expected.txt").write_text("\n".join(expected) + "\n")
    paths = itertools.islice(itertools.cycle(f"{folder}/{name}.ppm" for name in PHOTOS), REQUESTS)
    (folder / "requests.txt").write_text("\n".join(paths) + "\n")


if __name__ == "__main__":
    with torch.inference_mode():
        main(Path(sys.argv[1]))
