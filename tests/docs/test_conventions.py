"""The table "Names elsewhere" of docs/conventions.md: what each name does in its library."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import skimage.data
import torch
import visops
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as TF

from docs.names import names_elsewhere

cv2 = pytest.importorskip("cv2")
kornia = pytest.importorskip("kornia")

PHOTO = skimage.data.astronaut()[:90, 100:220]
IMAGE = torch.from_numpy(PHOTO).permute(2, 0, 1).float() / 255
MATRIX = np.array([[0.81, -0.37, 30.3], [0.29, 0.93, -10.7]])  # few exact ties
MATRICES = torch.from_numpy(MATRIX)[None].float()
SIZE = (70, 110)
NONE = "–"
# DALI, the last column, has a test of its own.
TABLE = {row: cells[:4] for row, cells in names_elsewhere().items()}
MODES = ("nearest", "bilinear", "bicubic, a = −0.75")
# An image of four pixels, and what lies beyond them.
PADDINGS = [row for row in TABLE if "abcd" in row]


def close(ours: Any, theirs: Any, tolerance: float, share: float = 0.0) -> None:
    difference = np.abs(np.asarray(ours, np.float64) - np.asarray(theirs, np.float64))
    assert difference.shape == np.shape(ours)
    assert (difference > tolerance).mean() <= share, difference.max()


def test_every_row_is_run() -> None:
    assert set(TABLE) == {*MODES, *PADDINGS, *ROWS, "fill", "uint8 rounding"}
    assert len(PADDINGS) == 5


@pytest.mark.parametrize("row", MODES)
def test_modes(row: str) -> None:
    ours, opencv, torchvision, of_kornia = TABLE[row]
    warped = visops.warp_affine(PHOTO, MATRIX, SIZE, mode=ours)
    theirs = cv2.warpAffine(PHOTO, MATRIX, SIZE[::-1], flags=getattr(cv2, opencv))
    close(warped, theirs, 1 if cv2.__version__ >= "5" else 16, 0.001)
    single = visops.warp_affine(IMAGE, MATRIX, SIZE, mode=ours)
    name = of_kornia.removesuffix(" (undocumented)")
    close(single, kornia.geometry.warp_affine(IMAGE[None], MATRICES, SIZE, name)[0], 2e-3, 0.002)
    turn = visops.get_affine_matrix((60, 45), 20.0)
    given: dict[str, Any] = {"angle": 20.0, "translate": [0, 0], "scale": 1.0, "shear": [0.0, 0.0]}
    if torchvision.startswith(NONE):
        with pytest.raises(ValueError, match="bicubic"):
            TF.affine(IMAGE, interpolation=InterpolationMode.BICUBIC, **given)
        return
    mode = getattr(InterpolationMode, torchvision)
    turned = visops.warp_affine(IMAGE, turn, mode=ours, convention="half_pixel")
    close(turned, TF.affine(IMAGE, interpolation=mode, **given), 2e-3, 0.002)


@pytest.mark.parametrize("row", PADDINGS)
def test_paddings(row: str) -> None:
    ours, opencv, _, of_kornia = TABLE[row]
    before, inside, after = (part.strip() for part in row.split("¦"))
    value = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}
    parts = [part.replace("fill", "f" * 3) for part in (before, inside, after)]
    wanted = [value.get(letter, 9.0) for part in parts for letter in part]
    shift = np.array([[1.0, 0, 3], [0, 1, 0]])
    line = np.array([[1.0, 2, 3, 4]], np.float32)
    found = visops.warp_affine(line, shift, (1, 10), padding_mode=ours, fill=9)
    assert found.tolist() == [wanted]
    theirs = cv2.warpAffine(
        line, shift, (10, 1), borderMode=getattr(cv2, opencv), borderValue=9, flags=cv2.INTER_LINEAR
    )
    np.testing.assert_allclose(found, theirs)
    for name in [] if of_kornia == NONE else of_kornia.split(", "):
        fill = torch.tensor([0.2, 0.4, 0.6]) if name == "fill" else torch.zeros(3)
        given = visops.warp_affine(IMAGE, MATRIX, SIZE, padding_mode=ours, fill=fill.tolist())
        other = kornia.geometry.warp_affine(
            IMAGE[None], MATRICES, SIZE, padding_mode=name, fill_value=fill
        )
        close(given, other[0], 2e-3)


def kinds_of_images() -> None:
    for shape in ((2, 3, 8, 9), (3, 8, 9)):
        assert visops.warp_affine(torch.rand(shape), MATRIX).shape == shape
    for array in (np.ones((8, 9, 3), np.uint8), np.ones((8, 9), np.uint8)):
        assert visops.warp_affine(array, MATRIX).shape == array.shape
        assert cv2.warpAffine(array, MATRIX, (9, 8)).shape == array.shape
    assert kornia.geometry.warp_affine(torch.rand(2, 3, 8, 9), MATRICES, SIZE).shape[-2:] == SIZE
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        kornia.geometry.warp_affine(torch.rand(3, 8, 9), MATRICES, SIZE)


def kinds_of_matrices() -> None:
    batch = torch.rand(2, 3, 8, 9)
    one, many = torch.from_numpy(MATRIX), torch.from_numpy(MATRIX).expand(2, 2, 3)
    assert torch.equal(visops.warp_affine(batch, one), visops.warp_affine(batch, many))
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        kornia.geometry.warp_affine(batch, one.float(), SIZE)
    with pytest.raises(cv2.error):
        cv2.warpAffine(PHOTO, MATRIX[None], (9, 8))


def directions() -> None:
    shift = np.array([[1.0, 0, 3], [0, 1, 0]])
    line = np.arange(1.0, 6, dtype=np.float32)[None]
    moved = [[0.0, 0, 0, 1, 2]]
    assert visops.warp_affine(line, shift).tolist() == moved
    assert cv2.warpAffine(line, shift, (5, 1)).tolist() == moved
    tensor = torch.from_numpy(line).expand(1, 1, 3, 5)
    theirs = kornia.geometry.warp_affine(tensor, torch.from_numpy(shift)[None].float(), (3, 5))
    close(theirs[0, 0, 1], moved[0], 1e-4)


def the_other_way() -> None:
    ours = visops.warp_affine(PHOTO, MATRIX, SIZE, inverse_map=True)
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    close(ours, cv2.warpAffine(PHOTO, MATRIX, SIZE[::-1], flags=flags), 8)


def centres() -> None:
    """Twice as large: pixel (0, 0) stays where its centre is (0, 0)."""
    double = np.array([[2.0, 0, 0], [0, 2, 0]])
    line = np.array([[0.0, 8]], np.float32)
    wanted = [[0.0, 4, 8, 4]]
    assert visops.warp_affine(line, double, (1, 4)).tolist() == wanted
    assert cv2.warpAffine(line, double, (4, 1)).tolist() == wanted
    maps = torch.from_numpy(line).expand(1, 1, 2, 2)
    theirs = kornia.geometry.warp_affine(maps, torch.from_numpy(double)[None].float(), (2, 4))
    close(theirs[0, 0, 0], wanted[0], 1e-4)


def the_other_centre() -> None:
    """Half the size about the middle of torchvision's image."""
    half = visops.get_affine_matrix((60, 45), 0, scale=0.5)
    theirs = TF.affine(IMAGE, 0, [0, 0], 0.5, [0.0, 0.0], InterpolationMode.BILINEAR)
    close(visops.warp_affine(IMAGE, half, convention="half_pixel"), theirs, 1e-4)
    assert (visops.warp_affine(IMAGE, half) - theirs).abs().max() > 0.1


def sizes() -> None:
    assert visops.warp_affine(PHOTO, MATRIX, SIZE).shape[:2] == SIZE
    assert cv2.warpAffine(PHOTO, MATRIX, SIZE).shape[:2] == SIZE[::-1]
    assert kornia.geometry.warp_affine(IMAGE[None], MATRICES, SIZE).shape[-2:] == SIZE
    assert TF.affine(IMAGE, 9, [0, 0], 1, [0.0, 0.0]).shape == IMAGE.shape


def angles() -> None:
    clockwise = math.cos(math.radians(30)), math.sin(math.radians(30))
    ours = visops.get_affine_matrix((0, 0), 30)
    # y points down, so x turns towards y clockwise.
    assert (ours[0, 0], ours[1, 0]) == pytest.approx(clockwise)
    one = torch.ones(1)
    for theirs in (
        cv2.getRotationMatrix2D((0, 0), 30, 1),
        kornia.geometry.get_rotation_matrix2d(torch.zeros(1, 2), 30 * one, torch.ones(1, 2))[0],
    ):
        assert (float(theirs[0][0]), -float(theirs[1][0])) == pytest.approx(clockwise)
    middle = visops.get_affine_matrix((60, 45), 30), visops.get_affine_matrix((60, 45), -30)
    bilinear = InterpolationMode.BILINEAR
    for matrix, theirs in (
        (middle[0], TF.affine(IMAGE, 30, [0, 0], 1, [0.0, 0.0], bilinear)),
        (middle[1], TF.rotate(IMAGE, 30, bilinear)),
    ):
        close(visops.warp_affine(IMAGE, matrix, convention="half_pixel"), theirs, 2e-3)


ROWS: dict[str, Callable[[], None]] = {
    "image": kinds_of_images,
    "matrix": kinds_of_matrices,
    "maps": directions,
    "the other way": the_other_way,
    "centre of pixel (0, 0)": centres,
    "the other centre": the_other_centre,
    "size": sizes,
    "angle of get_affine_matrix": angles,
}


@pytest.mark.parametrize("row", ROWS)
def test_row(row: str) -> None:
    ROWS[row]()


def test_fill() -> None:
    """One value or one per channel; OpenCV has four at most."""
    away = np.array([[1.0, 0, 50], [0, 1, 0]])
    wide = np.zeros((4, 5, 6), np.uint8)
    for fill in (7, [1, 2, 3, 4, 5, 6]):
        found = visops.warp_affine(wide, away, fill=fill)
        np.testing.assert_array_equal(found, np.broadcast_to(fill, wide.shape))
    theirs = cv2.warpAffine(wide[..., :4].copy(), away, (5, 4), borderValue=[1, 2, 3, 4])
    assert theirs[0, 0].tolist() == [1, 2, 3, 4]
    with pytest.raises(cv2.error):
        cv2.warpAffine(wide, away, (5, 4), borderValue=[1, 2, 3, 4, 5, 6])
    for given in (0.5, [0.1, 0.2, 0.3]):
        far = TF.affine(IMAGE, 0, [500, 0], 1, [0.0, 0.0], fill=given)
        close(far[:, 0, 0], np.broadcast_to(given, 3), 1e-6)


def test_rounding_of_bytes() -> None:
    """Halfway between two levels: to the even one."""
    half = np.array([[1.0, 0, 0.5], [0, 1, 0]])
    line = np.arange(8, dtype=np.uint8)[None]  # 0.5, 1.5, 2.5, …
    ours = visops.warp_affine(line, half)
    assert ours[0, 1:].tolist() == [0, 2, 2, 4, 4, 6, 6]
    if cv2.__version__ >= "5":
        np.testing.assert_array_equal(cv2.warpAffine(line, half, (8, 1))[0, 1:], ours[0, 1:])
    shifted = TF.affine(
        torch.from_numpy(line)[None], 0, [0.5, 0], 1, [0.0, 0.0], InterpolationMode.BILINEAR
    )
    assert shifted[0, 0, 1:].tolist() == ours[0, 1:].tolist()
