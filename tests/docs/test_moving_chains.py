"""The tables of docs/moving.md on chains: what runs each row of them."""

import os

import numpy as np
import pytest
from torchvision.transforms import v2

from docs import chain_rows as rows
from docs import chain_rows_torchvision as v2_rows
from docs.chain_rows import Row
from docs.names import PAGE, lines_of
from docs.transform_rows import ALBUMENTATIONS, KORNIA

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
    "Pad": (("pad", "pad to a size"), ((rows.crops_larger_images, 0),)),
    "Rotate": (("rotate",), ()),
    "Affine(rotate=": (("affine", "affine's direction", "shear", "shift, scale, rotate"), ()),
    "Affine(fit_output=True)": ((), ((rows.expanded, 1),)),
    "Perspective": ((), ((rows.bent, 0),)),
    "ColorJitter": (("brightness", "contrast", "saturation", "hue"), ()),
    "RandomBrightnessContrast": (("the other contrast", "the other brightness"), ()),
    "HueSaturationValue": ((), ((rows.saturation, 0.06),)),
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
    "weather": ((), ((rows.a_callable, 0),)),
}
OF_KORNIA: dict[str, Runs] = {
    "AugmentationSequential": ((), ((rows.data_keys, 1e-3),)),
    "aug(x, params=": ((), ((rows.repeated_with_parameters, 0),)),
    "aug.inverse(x)": ((), ((rows.inverted, 1e-6),)),
    "same_on_batch=True": ((), ((rows.same_on_the_batch, 1e-6),)),
    "RandomAffine": (("affine",), ()),
    "RandomRotation": (("rotation",), ()),
    "RandomPerspective": ((), ((rows.corners_of_perspectives, 0.5), (rows.erased_shares, 0.01))),
    "RandomResizedCrop": (("resized crop", "resize", "resize by default"), ()),
    "CenterCrop": (("centre crop", "centre crop, odd"), ()),
    "SmallestMaxSize": (("shorter side", "longer side"), ()),
    "PadTo": (("pad",), ()),
    "RandomHorizontalFlip": (("flip", "vertical flip"), ()),
    "ColorJitter": (("brightness", "contrast", "saturation", "hue"), ()),
    "ColorJiggle": (("jiggled contrast", "jiggled brightness"), ()),
    "RandomGrayscale": (("grey",), ()),
    "Normalize": (("normalize",), ()),
    "RandomGaussianBlur": ((), ((rows.blurred_in_a_pass, 1e-6),)),
    "gradients with respect to parameters": ((), ((rows.gradients_of_parameters, 1e-4),)),
}
OF_TORCHVISION: dict[str, Runs] = {
    "all names of": ((), ((lambda: ("Compose" in vars(v2), True), 0),)),  # a table of its own
    "–": (
        (),
        (
            (lambda: v2_rows.only_here("Letterbox"), 0),
            (lambda: v2_rows.only_here("Mosaic"), 0),
        ),
    ),
    "a plain [T, C, H, W] tensor": ((), ((v2_rows.frames, 0),)),
    "images with more leading": ((), ((v2_rows.leading_dimensions, 0),)),
    "images of int32": ((), ((v2_rows.wide_integers, 0),)),
    "fill=": ((), ((v2_rows.fills_by_type, 0),)),
    "clamping_mode": ((), ((v2_rows.clamped_boxes, 0),)),
    "Compose.transforms": ((), ((v2_rows.lists_of_transforms, 0),)),
    "transforms of torchvision.transforms (v1)": ((), ((v2_rows.older_transforms, 0),)),
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
    lines = lines_of(PAGE, f"| {table} | visops | what differs |\n|-|-|-|\n")
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
