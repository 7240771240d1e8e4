"""docs/moving: what it says of other libraries' transforms and chains."""

import importlib
import os
from typing import Any

import numpy as np
import pytest
import skimage.data
import torch
from torchvision.transforms import v2
from visops import transforms as T

from docs import chain_rows as rows
from docs.chain_rows import Row
from docs.names import MOVING, lines_of
from docs.transform_rows import ALBUMENTATIONS, DIFFERENT, KORNIA, Make

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
    make, ours = ALBUMENTATIONS[name]
    theirs = make(library)(image=PHOTO)["image"].transpose(2, 0, 1)
    chain = T.Compose(ours if isinstance(ours, list) else [ours], exact=True)
    # Two roundings to uint8: one level; OpenCV 4 takes its weights from a table.
    cv2 = importlib.import_module("cv2")
    tolerance = 1.01 if int(cv2.__version__.split(".")[0]) >= 5 else 8.0
    compare(chain(PHOTO), theirs, tolerance, name in DIFFERENT)


@pytest.mark.parametrize("name", KORNIA)
def test_kornia(name: str) -> None:
    make, ours = KORNIA[name]
    batch = IMAGE[None] / 255
    theirs = make(pytest.importorskip("kornia.augmentation"))(batch)
    # Its grid is float32 in [-1, 1]; its grey mean has other weights in the fourth digit.
    compare(T.Compose([ours], exact=True)(batch)[0], theirs[0], 0.6, name in DIFFERENT)


TORCHVISION: dict[str, tuple[Make, T.Transform]] = {
    "nearest by default": (
        lambda v2: v2.RandomRotation((17, 17)),
        T.RandomRotation((17, 17), interpolation="nearest"),
    ),
    "bilinear here": (lambda v2: v2.RandomRotation((17, 17)), T.RandomRotation((17, 17))),
    "nearest is exact": (
        lambda v2: v2.Resize((77, 91), v2.InterpolationMode.NEAREST_EXACT),
        T.Resize((77, 91), interpolation="nearest"),
    ),
    "nearest isn't their nearest": (
        lambda v2: v2.Resize((77, 91), v2.InterpolationMode.NEAREST),
        T.Resize((77, 91), interpolation="nearest"),
    ),
    "grey": (lambda v2: v2.Grayscale(3), T.RandomGrayscale(1)),
    "hue": (lambda v2: v2.ColorJitter(hue=(0.1, 0.1)), T.ColorJitter(hue=(0.1, 0.1))),
    "dtype": (lambda v2: v2.ConvertImageDtype(torch.float32), T.ToDtype(torch.float32, scale=True)),
}


@pytest.mark.parametrize("name", TORCHVISION)
def test_torchvision(name: str) -> None:
    make, ours = TORCHVISION[name]
    theirs = make(pytest.importorskip("torchvision.transforms.v2"))(IMAGE)
    # Two roundings of grey, and in nearest ties the other of two pixels.
    compare(T.Compose([ours], exact=True)(IMAGE), theirs, 2.01, name in DIFFERENT, 0.002)


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


# A row by the beginning of its first cell: those of transform_rows.py that compare its transforms,
# and calls of chain_rows*.py with what their results may differ by.
Runs = tuple[tuple[str, ...], tuple[Row, ...]]

OF_ALBUMENTATIONS: dict[str, Runs] = {
    "Compose(bbox_params=": ((), ((rows.names_of_targets, 1e-6),)),
    "Compose(seed=)": ((), ((rows.seeds, 0),)),
    "ReplayCompose": ((), ((rows.replayed, 0),)),
    "HorizontalFlip": (("flip", "vertical flip"), ()),
    "RandomResizedCrop": (("resized crop",), ()),
    "Resize": (("resize", "resize is filtered", "area is another filter"), ()),
    "SmallestMaxSize": (("shorter side", "longer side"), ((rows.sizes_round_down, 0),)),
    "CenterCrop": (("centre crop", "centre crop, odd"), ((rows.crops_to_the_whole, 0),)),
    "Pad": (("pad", "pad to a size"), ((rows.cut_and_padded, 0),)),
    "BBoxSafeRandomCrop": ((), ((rows.boxes_stay_whole, 1e-5),)),
    "Rotate": (("rotate",), ()),
    "Affine(rotate=": (("affine", "affine's direction", "shear", "shift, scale, rotate"), ()),
    "Affine(fit_output=True)": ((), ((rows.expanded, 1),)),
    "Perspective": ((), ((rows.bent, 0),)),
    "ColorJitter": (("brightness", "contrast", "saturation", "hue"), ()),
    "RandomBrightnessContrast": (("the other contrast", "the other brightness"), ()),
    "HueSaturationValue": ((), ((rows.shifted_in_hsv, 3),)),
    "ToGray": (("grey",), ()),
    "Normalize": (("normalize",), ()),
    "ToFloat": (("float",), ((rows.to_tensors, 0),)),
    "Erasing": ((), ((rows.one_rectangle, 0),)),
    "fill_mask=0": ((), ((rows.filled_masks, 0),)),
    "interpolation=cv2": ((), ((rows.bicubic_by_name, 1),)),
    "KeypointParams": ((), ((rows.invisible_points, 1e-6),)),
    "BboxParams": ((), ((rows.dropped_boxes, 1e-6), (rows.slivers_are_dropped, 0))),
    "OneOf": ((), ((rows.some_of_several, 0),)),
    "RandomGamma": ((), ((rows.gammas_in_per_cent, 1),)),
    "RandomRotate90": ((), ((rows.transposed, 0),)),
    "GridDistortion": ((), ((rows.unbent_fisheye, 1),)),
    "MotionBlur": ((), ((rows.medians, 0),)),
    "ShotNoise": ((), ((rows.holes_in_a_grid, 0), (rows.rows_of_holes_come_first_there, 0))),
    "Plasma": ((), ((rows.dilated, 0),)),
    "rain": ((), ((rows.a_callable, 0),)),
}

OF_KORNIA: dict[str, Runs] = {
    "AugmentationSequential": ((), ((rows.data_keys, 1e-3),)),
    "aug(x, params=": ((), ((rows.repeated_with_parameters, 0),)),
    "aug.inverse(x)": ((), ((rows.inverted, 1e-6),)),
    "same_on_batch=True": ((), ((rows.same_on_the_batch, 1e-6),)),
    "RandomAffine": (("affine", "rotation"), ()),
    "RandomPerspective": (
        ("flip", "vertical flip", "grey", "normalize"),
        ((rows.corners_of_perspectives, 0.5), (rows.erased_shares, 0.01)),
    ),
    "RandomResizedCrop": (("resized crop", "resize", "resize by default"), ()),
    "CenterCrop": (("centre crop", "centre crop, odd"), ()),
    "SmallestMaxSize": (("shorter side", "longer side"), ()),
    "PadTo": (("pad",), ()),
    "ColorJitter": (("brightness", "contrast", "saturation", "hue"), ()),
    "ColorJiggle": (("jiggled contrast", "jiggled brightness"), ()),
    "RandomGaussianBlur": ((), ((rows.blurred_in_a_pass, 1e-6),)),
    "gradients with respect to parameters": ((), ((rows.gradients_of_parameters, 1e-4),)),
}

OF_TORCHVISION: dict[str, Runs] = {
    "all names of": ((), ((lambda: ("Compose" in vars(v2), True), 0),)),  # a table of its own
    "–": (
        (),
        (
            (lambda: rows.only_here("Letterbox"), 0),
            (lambda: rows.only_here("Mosaic"), 0),
        ),
    ),
    "a plain [T, C, H, W] tensor": ((), ((rows.frames, 0),)),
    "images with more leading": ((), ((rows.leading_dimensions, 0),)),
    "images of int32": ((), ((rows.wide_integers, 0),)),
    "fill=": ((), ((rows.fills_by_type, 0),)),
    "clamping_mode": ((), ((rows.clamped_boxes, 0),)),
    "Compose.transforms": ((), ((rows.lists_of_transforms, 0),)),
    "transforms of torchvision.transforms (v1)": ((), ((rows.older_transforms, 0),)),
}

TABLES: dict[str, tuple[dict[str, Runs], set[str]]] = {
    "albumentations": (OF_ALBUMENTATIONS, set(ALBUMENTATIONS)),
    "kornia": (OF_KORNIA, set(KORNIA)),
    "torchvision v2": (OF_TORCHVISION, set()),
}

CALLS = [
    (table, name, i)
    for table, (runs, _) in TABLES.items()
    for name, (_, calls) in runs.items()
    for i in range(len(calls))
]


@pytest.mark.parametrize("table", TABLES)
def test_every_row_is_run(table: str) -> None:
    lines = lines_of(MOVING, f"| {table} | visops | what differs |\n|-|-|-|\n")
    cells = [line.removeprefix("| ").split(" | ")[0].replace("`", "") for line in lines]
    runs, cases = TABLES[table]
    found = sorted(
        {max((name for name in runs if cell.startswith(name)), key=len) for cell in cells}
    )
    assert found == sorted(runs)
    assert len(cells) == len(runs) + (table == "torchvision v2")  # two rows have no name of theirs
    assert all(names or calls for names, calls in runs.values())
    assert {name for names, _ in runs.values() for name in names} == cases


@pytest.mark.parametrize(("table", "row", "i"), CALLS)
def test_both_agree(table: str, row: str, i: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if table != "torchvision v2":
        monkeypatch.setitem(os.environ, "NO_ALBUMENTATIONS_UPDATE", "1")  # it would ask PyPI
        pytest.importorskip(table)
    call, tolerance = TABLES[table][0][row][1][i]
    ours, theirs = (np.asarray(a, np.float64) for a in call())
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance)
