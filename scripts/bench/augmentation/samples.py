"""What a chain costs beyond the operators for one small photo, with and without targets.

A chain of seven, as in a Dataset. Beside it, what remains if the parameters are known: the operator
on the photo, the operator on the mask, and NumPy on the corners of boxes and on points. Subtract:
the aim is 60 microseconds for the photo alone, 120 with targets.
"""

from typing import Any

import numpy as np
import torch
from bench.augmentation.libraries import finish
from bench.augmentation.prepared import operator_calls
from bench.harness import EXACT, Case, Contender, Tolerance, rows
from torchvision import tv_tensors
from visops import transforms as V

SIZE, TARGET = (64, 64), (32, 32)
# Rows whose draws turn and mirror, and erase something.
_INDEX = 2


def _chain() -> V.Compose:
    return V.Compose(
        [
            V.RandomResizedCrop(TARGET),
            V.RandomHorizontalFlip(),
            V.RandomRotation(10),
            V.ColorJitter(0.2, 0.2, 0.2, 0.1),
            *finish(V),
            V.RandomErasing(),
        ],
        seed=0,
    )


def _sample(typed: bool) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    image = torch.randint(0, 256, (3, *SIZE), dtype=torch.uint8, generator=generator)
    mask = torch.randint(0, 5, SIZE, dtype=torch.uint8, generator=generator)
    boxes = torch.tensor([[5.0, 5, 40, 40], [10, 12, 50, 60]])
    points = torch.rand(5, 2, generator=generator) * 60
    if not typed:
        return {"image": image, "boxes": boxes, "mask": mask, "keypoints": points}
    return {
        "image": tv_tensors.Image(image),
        "boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=SIZE),  # type: ignore[call-overload]
        "mask": tv_tensors.Mask(mask),
        "keypoints": tv_tensors.KeyPoints(points, canvas_size=SIZE),
    }


def image_contenders() -> list[Contender]:
    """A photo by itself."""
    chain, image = _chain(), _sample(False)["image"]

    def whole() -> torch.Tensor:
        return chain(image, index=_INDEX)  # type: ignore[no-any-return]

    calls, _ = operator_calls(whole)

    def by_hand() -> torch.Tensor:
        return calls[-1]()[0]

    return [
        Contender("visops.transforms", whole),
        Contender("operators by hand", by_hand, EXACT, bound=True),
    ]


def _moved_corners(boxes: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Return the bounds of boxes whose corners have moved."""
    corners = boxes[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 2) @ matrix[:, :2].T + matrix[:, 2]
    corners = corners.reshape(-1, 4, 2)
    return np.concatenate((corners.min(1), corners.max(1)), 1)


def target_contenders(typed: bool) -> list[Contender]:
    """A photo with boxes, a mask and key points."""
    chain, sample = _chain(), _sample(typed)

    def whole() -> dict[str, torch.Tensor]:
        return chain(sample, index=_INDEX)  # type: ignore[no-any-return]

    calls, _ = operator_calls(whole)
    image, mask = calls[-2:]
    matrix = image.arguments[1][0].float().numpy()
    shifted = matrix.copy()  # for points where pixel (0, 0) has its centre at (0, 0)
    shifted[:, 2] += matrix[:, :2].sum(1) * 0.5 - 0.5
    boxes, points = (sample[key].as_subclass(torch.Tensor) for key in ("boxes", "keypoints"))

    def by_hand() -> dict[str, torch.Tensor]:
        return {
            "image": image()[0],
            "boxes": torch.from_numpy(_moved_corners(boxes.numpy(), matrix)),
            "mask": mask()[0, 0],
            "keypoints": torch.from_numpy(points.numpy() @ shifted[:, :2].T + shifted[:, 2]),
        }

    def values(result: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        named = [result[name] for name in ("image", "boxes", "mask", "keypoints")]
        return [value.as_subclass(torch.Tensor) for value in named]

    rounding = Tolerance(max_abs=1e-4, why="boxes and points in float32")
    return [
        Contender("visops.transforms", whole, comparable=values),
        Contender("operators by hand", by_hand, rounding, comparable=values, bound=True),
    ]


def cases() -> list[Case]:
    """One row without targets, and one for each form that targets may have."""
    group = "a chain of seven on one photo, 64² → 32², against the operators called by hand"
    label = "photo, boxes, mask, key points"
    forms = {label: (False,), f"{label} as tv_tensors": (True,)}
    return [
        *rows(group, image_contenders, {"photo": ()}, "", threads=1),
        *rows(group, target_contenders, forms, "", threads=1),
    ]
