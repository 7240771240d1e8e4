"""Objects in the demo's photos: outlined by hand in the first one, else the middle of the photo.

An object is a name and a polygon in pixels from the photo's upper left corner; its mask is what
the polygon encloses, its box the polygon's bounds. Points are key points of the whole photo.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from skimage import draw

from demo.photos import Photo

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Scene:
    """A photo with the annotations of a detection and segmentation data set."""

    photo: Photo
    boxes: npt.NDArray[np.float32]  # [N, 4] x1, y1, x2, y2
    labels: list[str]  # N
    mask: npt.NDArray[np.uint8]  # [height, width], 0 or the number of the object, from 1
    keypoints: npt.NDArray[np.float32]  # [K, 2] x, y

    def sample(self) -> dict[str, Any]:
        """Return it as a data set's ``__getitem__`` would."""
        return {
            "image": self.photo,
            "boxes": self.boxes,
            "labels": self.labels,
            "mask": self.mask,
            "keypoints": self.keypoints,
        }


def ellipse(x: float, y: float, rx: float, ry: float, degrees: float = 0.0) -> Points:
    """Points on an ellipse's outline."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    turns = [2 * math.pi * i / 40 for i in range(40)]
    offsets = [(rx * math.cos(t), ry * math.sin(t)) for t in turns]
    return [(x + cos * dx - sin * dy, y + sin * dx + cos * dy) for dx, dy in offsets]


# Back to front: later outlines cover earlier ones.
ASTRONAUT: list[tuple[str, Points]] = [
    (
        "suit",
        [
            *[(20, 512), (42, 400), (75, 330), (120, 270), (130, 200), (180, 165), (270, 165)],
            *[(305, 215), (340, 270), (362, 340), (300, 380), (275, 440), (285, 512)],
        ],
    ),
    ("face", ellipse(228, 105, 76, 88)),
    ("helmet", ellipse(395, 440, 112, 92, -15)),
]
EYES_AND_NOSE: Points = [(197, 110), (256, 107), (226, 150)]


def scene(name: str, photo: Photo) -> Scene:
    """Return the astronaut with her annotations, or any photo with its middle."""
    height, width = photo.shape[:2]
    middle = ellipse(width / 2, height / 2, width / 4, height / 4)
    outlines: list[tuple[str, Points]] = [("middle", middle)]
    points: Points = []
    if name == "astronaut.png":
        outlines, points = ASTRONAUT, EYES_AND_NOSE
    mask = np.zeros((height, width), np.uint8)
    boxes = []
    for number, (_, corners) in enumerate(outlines, start=1):
        # Here pixel (0, 0) covers 0 to 1; in skimage it is the point (0, 0).
        columns, rows = np.array(corners).T - 0.5
        mask[draw.polygon(rows, columns, mask.shape)] = number
        inside = np.array(corners).clip(0, (width, height))
        boxes.append([*inside.min(0), *inside.max(0)])
    return Scene(
        photo,
        np.array(boxes, np.float32).reshape(-1, 4),
        [label for label, _ in outlines],
        mask,
        np.array(points, np.float32).reshape(-1, 2),
    )
