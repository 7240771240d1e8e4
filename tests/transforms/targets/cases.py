"""What tests of targets share: matrices, boxes, and ways to move targets without their image."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from visops.transforms.sample.images import image_sizes
from visops.transforms.sample.split import split_sample
from visops.transforms.targets.finish import finish_targets
from visops.transforms.targets.move import move_targets
from visops.transforms.targets.options import Geometry, TargetOptions

SIZE = (40, 60)

# Transforms with nothing left to chance, of torchvision's module and of ours.
PEERS: dict[str, Callable[[Any], Any]] = {
    "flip": lambda m: m.RandomHorizontalFlip(1.0),
    "vertical": lambda m: m.RandomVerticalFlip(1.0),
    "resize": lambda m: m.Resize((80, 120)),
    "squeeze": lambda m: m.Resize((80, 60)),
    "rotate": lambda m: m.RandomRotation((30, 30)),
    "shear": lambda m: m.RandomAffine((20, 20), (0.0, 0.0), (0.8, 0.8), (10, 10)),
    "shift": lambda m: m.RandomAffine((25, 25), None, (1.2, 1.2), center=(5, 3)),
    "crop": lambda m: m.CenterCrop((20, 30)),
    "pad": lambda m: m.Pad((1, 2, 3, 4)),
}


def affine(*rows: Any) -> np.ndarray:
    return np.array([[*rows[0]], [*rows[1]], [0.0, 0.0, 1.0]])


def random_affine(rng: np.random.Generator) -> np.ndarray:
    turn = np.linalg.qr(rng.normal(size=(2, 2)))[0] * rng.uniform(0.3, 2.0)
    middle = np.array([30.0, 20.0])
    shift = middle + rng.uniform(-10, 10, 2) - turn @ middle
    return affine([*turn[0], shift[0]], [*turn[1], shift[1]])


def random_perspective(rng: np.random.Generator) -> np.ndarray:
    """Draw a perspective: its horizon in the image or not, w of either sign at the centre."""
    matrix = random_affine(rng)
    matrix[2, :2] = rng.uniform(-0.1, 0.1, 2)
    matrix[2, 2] = 1.0 - matrix[2, :2] @ (30.0, 20.0)
    return matrix * rng.choice([-2.0, 1.0])


def random_boxes(rng: np.random.Generator, count: int) -> np.ndarray:
    first = rng.uniform(-10, 50, (count, 2))
    return np.concatenate((first, first + rng.uniform(0, 40, (count, 2))), 1)


def transformed(
    sample: Any,
    matrix: Any,
    size_out: Any = SIZE,
    window: Any = None,
    keys: Any = None,
    **options: Any,
) -> Any:
    """Move a sample's targets by a matrix [3, 3] or [B, 3, 3], but not its images."""
    leaves, rebuild = split_sample(sample, keys)
    sizes = image_sizes(leaves)
    matrices = np.broadcast_to(matrix, (len(sizes), 3, 3)).copy()
    sizes_out = np.broadcast_to(np.array(size_out), sizes.shape).copy()
    windows = None if window is None else np.broadcast_to(window, (len(sizes), 4)).copy()
    geometry = Geometry(matrices, sizes, sizes_out, windows)
    target_options = TargetOptions(**options)
    move_targets(leaves, geometry, target_options)
    finish_targets(leaves, sizes_out, target_options)
    return rebuild(leaves)


IMAGE = torch.zeros(3, *SIZE)


def moved_boxes(rows: Any, matrix: Any, **options: Any) -> Any:
    return transformed({"image": IMAGE, "boxes": rows}, matrix, **options)["boxes"]


def moved_points(points: Any, matrix: Any, **options: Any) -> tuple[Any, Any]:
    result = transformed({"image": IMAGE, "keypoints": points}, matrix, **options)
    return result["keypoints"], result.get("keypoints_visible")
