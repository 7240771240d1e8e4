"""The picture of the page on inference: `python scripts/figures` draws it."""

import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import skimage
import torch
import torch.nn.functional as F
from demo.photos import packaged_photos
from matplotlib.figure import Figure
from PIL import Image
from skimage.feature import Cascade
from torch import Tensor, nn
from visops import infer

from figures.drawing import BLUE, panels

NAMES = ("astronaut.png", "chelsea.png")  # one with a face, one without
INPUT = 256


class Faces:
    """A detector without weights: scikit-image's cascade, one image at a time."""

    def __init__(self) -> None:
        data = Path(skimage.__file__).parent / "data"
        self.cascade = Cascade(str(data / "lbpcascade_frontalface_opencv.xml"))

    def __call__(self, batch: Tensor) -> list[dict[str, Tensor]]:
        """Return boxes and scores of images [N, 3, h, w], as torchvision's detectors do."""
        return [self.faces(image.permute(1, 2, 0).numpy()) for image in batch]

    def faces(self, image: npt.NDArray[np.float32]) -> dict[str, Tensor]:
        """Return boxes and scores of one image [h, w, 3], in [0, 1]."""
        found = self.cascade.detect_multi_scale(
            img=image, scale_factor=1.1, step_ratio=1, min_size=(40, 40), max_size=(160, 160)
        )
        boxes = [(f["c"], f["r"], f["c"] + f["width"], f["r"] + f["height"]) for f in found]
        return {
            "boxes": torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4),
            "scores": torch.ones(len(boxes)),
        }


class Mosaic(nn.Module):
    """Turns a region into a mosaic: tiles of one colour each."""

    def forward(self, patches: Tensor) -> Tensor:
        """Return the mosaics, with the size of the patches."""
        tiles = F.adaptive_avg_pool2d(patches, (12, 12))
        return F.interpolate(tiles, size=patches.shape[-2:], mode="nearest")


def regions() -> infer.Regions:
    """Faces cut out of whole images, turned into mosaics, and pasted back."""
    preprocess = infer.Preprocess((INPUT, INPUT), "letterbox", mean=None, std=None)
    detector = infer.Model("faces", Faces(), preprocess)
    return infer.Regions("anonymous", detector, Mosaic(), (96, 96), paste="feather", feather=12)


def anonymised() -> Figure:
    """Photos, and the pictures that a run writes for them."""
    photos = packaged_photos()
    first, second = NAMES
    with tempfile.TemporaryDirectory() as folder:
        images, out = Path(folder) / "images", Path(folder) / "out"
        images.mkdir()
        for name in NAMES:
            Image.fromarray(photos[name]).save(images / name)
        infer.run(images, out, [regions()], annotate="png", batch_size=2, workers=0)
        shown = {
            first: images / first,
            f"annotated/{first}.png": out / "annotated" / f"{first}.png",
            f"pictures/anonymous/{first}.png": out / "pictures" / "anonymous" / f"{first}.png",
            f"pictures/anonymous/{second}.png": out / "pictures" / "anonymous" / f"{second}.png",
        }
        figure, grid = panels(4, 13.4, 3.1, width_ratios=[1, 1, 1, 1.5])
        for axes, (title, file) in zip(grid, shown.items(), strict=True):
            axes.imshow(np.asarray(Image.open(file)))
            axes.set_title(title, fontsize=8.5, color="black" if title == first else BLUE, pad=4)
            axes.set_axis_off()
    return figure
