"""What docs/moving.md says of other libraries' transforms, at fixed parameters on a photo.

Where ranges hold a single value nothing is random, and the other library's result is the expected
one. `differs` marks what the page says is different: it must be, or the page is wrong.
"""

import importlib
import os
from typing import Any

import numpy as np
import pytest
import skimage.data
import torch
from visops import transforms as T

from docs.transform_rows import ALBUMENTATIONS, KORNIA, Make

PHOTO = skimage.data.astronaut()[:300, 60:500]
IMAGE = torch.from_numpy(PHOTO).permute(2, 0, 1)


def levels(image: Any) -> np.ndarray:
    """A result [C, H, W] in 255 levels."""
    array = image.numpy() if isinstance(image, torch.Tensor) else np.asarray(image)
    scale = 1.0 if array.dtype == np.uint8 else 255.0
    return array.astype(np.float64) * scale


def compare(ours: Any, theirs: Any, tolerance: float, differs: bool, share: float = 0.0) -> None:
    a, b = levels(ours), levels(theirs)
    assert a.shape == b.shape
    wrong = (np.abs(a - b) > tolerance).mean()
    assert (wrong > 0.01) if differs else (wrong <= share), (wrong, np.abs(a - b).max())


@pytest.mark.parametrize("name", ALBUMENTATIONS)
def test_albumentations(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "NO_ALBUMENTATIONS_UPDATE", "1")  # it would ask PyPI
    library = pytest.importorskip("albumentations")
    make, ours, differs = ALBUMENTATIONS[name]
    theirs = make(library)(image=PHOTO)["image"].transpose(2, 0, 1)
    chain = T.Compose(ours if isinstance(ours, list) else [ours], exact=True)
    # Two roundings to uint8: one level; OpenCV 4 takes its weights from a table.
    cv2 = importlib.import_module("cv2")
    tolerance = 1.01 if int(cv2.__version__.split(".")[0]) >= 5 else 8.0
    compare(chain(PHOTO), theirs, tolerance, differs)


@pytest.mark.parametrize("name", KORNIA)
def test_kornia(name: str) -> None:
    make, ours, differs = KORNIA[name]
    batch = IMAGE[None] / 255
    theirs = make(pytest.importorskip("kornia.augmentation"))(batch)
    # Its grid is float32 in [-1, 1]; its grey mean has other weights in the fourth digit.
    compare(T.Compose([ours], exact=True)(batch)[0], theirs[0], 0.6, differs)


TORCHVISION: dict[str, tuple[Make, T.Transform, bool]] = {
    "nearest by default": (
        lambda v2: v2.RandomRotation((17, 17)),
        T.RandomRotation((17, 17), interpolation="nearest"),
        False,
    ),
    "bilinear here": (lambda v2: v2.RandomRotation((17, 17)), T.RandomRotation((17, 17)), True),
    "nearest is exact": (
        lambda v2: v2.Resize((77, 91), v2.InterpolationMode.NEAREST_EXACT),
        T.Resize((77, 91), interpolation="nearest"),
        False,
    ),
    "nearest isn't their nearest": (
        lambda v2: v2.Resize((77, 91), v2.InterpolationMode.NEAREST),
        T.Resize((77, 91), interpolation="nearest"),
        True,
    ),
    "grey": (lambda v2: v2.Grayscale(3), T.RandomGrayscale(1), False),
    "hue": (lambda v2: v2.ColorJitter(hue=(0.1, 0.1)), T.ColorJitter(hue=(0.1, 0.1)), True),
    "dtype": (
        lambda v2: v2.ConvertImageDtype(torch.float32),
        T.ToDtype(torch.float32, scale=True),
        False,
    ),
}


@pytest.mark.parametrize("name", TORCHVISION)
def test_torchvision(name: str) -> None:
    make, ours, differs = TORCHVISION[name]
    theirs = make(pytest.importorskip("torchvision.transforms.v2"))(IMAGE)
    # Two roundings of grey, and in nearest ties the other of two pixels.
    compare(T.Compose([ours], exact=True)(IMAGE), theirs, 2.01, differs, 0.002)


def test_edges_are_blended_once() -> None:
    """A white image turned over black: what is left of it where the edge is half way."""
    v2 = pytest.importorskip("torchvision.transforms.v2")
    white = torch.ones(1, 40, 40)
    shift = {"degrees": (30, 30), "interpolation": v2.InterpolationMode.BILINEAR}
    ours, theirs = T.RandomAffine(**shift)(white), v2.RandomAffine(**shift, fill=0)(white)
    torch.testing.assert_close(theirs, ours.square(), rtol=0, atol=1e-3)
    assert ((ours > 0.3) & (ours < 0.7)).any()


def test_the_same_on_a_batch() -> None:
    chain = T.Compose([T.RandomRotation(30), T.ColorJitter(0.4)], seed=0)
    first, second = chain(torch.stack([IMAGE, IMAGE]), index=[0] * 2)
    assert torch.equal(first, second)
    first, second = chain(torch.stack([IMAGE, IMAGE]), index=[0, 1])
    assert not torch.equal(first, second)


def test_iou_crops_run_and_types_stay() -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2")
    tv = pytest.importorskip("torchvision.tv_tensors")
    rows = torch.tensor([[20.0, 20, 120, 90], [300, 200, 420, 290], [10, 200, 60, 280]])
    sample = {
        "image": tv.Image(IMAGE),
        "boxes": tv.BoundingBoxes(rows, format="XYXY", canvas_size=IMAGE.shape[-2:]),
        "names": ["a", "b", "c"],
    }
    steps = [v2.RandomIoUCrop(), T.Resize((64, 64))]
    keys = {"labels": ["names"]}
    keeping = T.Compose(steps, seed=0, keys=keys)
    dropping = T.Compose(steps, seed=0, boxes="sanitize", keys=keys)
    counts = set()
    for index in range(40):
        kept, rest = keeping(sample, index=index), dropping(sample, index=index)
        assert (type(kept["image"]), type(kept["boxes"])) == (tv.Image, tv.BoundingBoxes)
        assert len(kept["boxes"]) == 3
        full = ((kept["boxes"][:, 2:] - kept["boxes"][:, :2]) >= 1).all(1).tolist()
        assert rest["names"] == [n for n, there in zip("abc", full, strict=True) if there]
        assert len(rest["boxes"]) == len(rest["names"])
        counts.add(len(rest["names"]))
    assert {1, 3} <= counts
    assert type(T.Compose([v2.ToPureTensor()])(tv.Image(IMAGE))) is torch.Tensor
