"""DALI's column of the table "Names elsewhere" of docs/conventions.md.

DALI runs on the CPU, but takes a gigabyte, so it is not among the packages of the tests:
`pip install nvidia-dali-cuda120`, and these tests don't skip.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import visops

from docs.names import names_elsewhere

fn = pytest.importorskip("nvidia.dali.fn")
dali = pytest.importorskip("nvidia.dali")

COLUMN = {row: cells[4] for row, cells in names_elsewhere().items()}
PADDINGS = [row for row in COLUMN if "abcd" in row]
NONE = "–"

LINE = np.arange(1.0, 6.0, dtype=np.float32)[None]
SHIFT = np.array([[1.0, 0.0, 3.0], [0.0, 1.0, 0.0]], np.float32)
NOISE = np.random.default_rng(0).random((40, 50, 3), np.float32)
MATRIX = np.array([[0.8137, -0.3719, 12.3411], [0.2917, 0.9341, -6.7213]], np.float32)


def feed(batch: list[np.ndarray], **options: Any) -> Any:
    """A node of a pipeline that gives these arrays."""
    return fn.external_source(source=lambda: batch, batch=True, **options)


def run(images: list[np.ndarray], operator: str = "warp_affine", **options: Any) -> list[Any]:
    """What a pipeline of one CPU operator makes of a batch; the matrix may be a list of arrays."""
    layout = options.pop("layout", None)
    pipeline = dali.Pipeline(batch_size=len(images), num_threads=1, device_id=None)
    with pipeline:
        if isinstance(options.get("matrix"), list) and isinstance(options["matrix"][0], np.ndarray):
            options["matrix"] = feed(options["matrix"])
        source = feed(images, layout=layout)
        pipeline.set_outputs(getattr(fn, operator)(source, device="cpu", **options))
    pipeline.build()
    (outputs,) = pipeline.run()
    return [np.array(outputs.at(i)) for i in range(len(images))]


def warp(image: np.ndarray, matrix: np.ndarray, **options: Any) -> Any:
    """Warp an image, HW or HWC, by DALI with the fill 0 unless `fill_value` is None."""
    given = {"fill_value": 0.0, **options}
    if given["fill_value"] is None:
        del given["fill_value"]
    image3 = image if image.ndim > 2 else image[..., None]
    result = run([image3], matrix=np.asarray(matrix, np.float32), **given)[0]
    return result if image.ndim > 2 else result[..., 0]


def ours(image: np.ndarray, matrix: np.ndarray, **options: Any) -> Any:
    """The same by visops, in DALI's direction and with its centres."""
    given = {"inverse_map": True, "convention": "half_pixel", **options}
    return visops.warp_affine(image, matrix.astype(np.float64), **given)


def images() -> None:
    assert COLUMN["image"] == "HWC, FHWC; volumes DHWC, FDHWC"
    shapes = {
        "HWC": (8, 9, 3),
        "FHWC": (2, 8, 9, 3),
        "DHWC": (4, 8, 9, 3),
        "FDHWC": (2, 4, 8, 9, 3),
    }
    for layout, shape in shapes.items():
        image = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
        same = np.eye(3, 4, dtype=np.float32) if "D" in layout else np.eye(2, 3, dtype=np.float32)
        kept = run([image], layout=layout, matrix=same, fill_value=0.0)[0]
        np.testing.assert_array_equal(kept, image)
    with pytest.raises(ValueError, match="HWC"):
        run([np.ones((8, 9), np.uint8)], matrix=SHIFT)


def matrices() -> None:
    """Six numbers for all samples, or an array for each."""
    lines = [LINE[..., None]] * 2
    moved = run(lines, matrix=SHIFT.flatten().tolist(), fill_value=0.0)
    np.testing.assert_array_equal(moved[0], moved[1])
    each = run(lines, matrix=[SHIFT, np.eye(2, 3, dtype=np.float32)], fill_value=0.0)
    np.testing.assert_array_equal(each[0], moved[0])
    np.testing.assert_array_equal(each[1], lines[1])


def directions() -> None:
    assert COLUMN["maps"] == "destination → source ¹"
    assert warp(LINE, SHIFT).tolist() == [[4.0, 5.0, 0.0, 0.0, 0.0]]
    np.testing.assert_array_equal(warp(LINE, SHIFT), ours(LINE, SHIFT))


def the_other_way() -> None:
    assert COLUMN["the other way"] == "inverse_map=False ¹"
    moved = warp(LINE, SHIFT, inverse_map=False)
    assert moved.tolist() == [[0.0, 0.0, 0.0, 1.0, 2.0]]
    np.testing.assert_array_equal(moved, visops.warp_affine(LINE, SHIFT.astype(np.float64)))


def centres() -> None:
    """Twice as large: each pixel becomes two, and no centre stays where it is."""
    assert COLUMN["centre of pixel (0, 0)"] == "(0.5, 0.5)"
    double = np.array([[2.0, 0, 0], [0, 1, 0]], np.float32)
    wide = warp(
        np.array([[0.0, 8.0]], np.float32), double, inverse_map=False, size=(1, 4), fill_value=None
    )
    assert wide.tolist() == [[0.0, 2.0, 6.0, 8.0]]


def no_other_centre() -> None:
    assert COLUMN["the other centre"] == NONE
    assert not {"convention", "align_corners", "pixel_origin"} & {*arguments()}


def arguments() -> list[str]:
    """The names of the operator's arguments."""
    return dali.backend.GetSchema("WarpAffine").GetArgumentNames()  # type: ignore[no-any-return]


def sizes() -> None:
    assert COLUMN["size"] == "(height, width)"
    assert warp(NOISE, MATRIX, size=(30, 20)).shape == (30, 20, 3)


def angles() -> None:
    """The right column becomes the top row."""
    assert COLUMN["angle of get_affine_matrix"] == "rotate: counter-clockwise"
    image = np.arange(25, dtype=np.float32).reshape(5, 5)
    (turned,) = run([image[..., None]], "rotate", angle=90.0, fill_value=0.0)
    np.testing.assert_allclose(turned[..., 0], np.rot90(image), atol=1e-4)
    matrix = visops.get_affine_matrix((2.5, 2.5), -90.0)
    mine = visops.warp_affine(image, matrix, convention="half_pixel")
    np.testing.assert_allclose(turned[..., 0], mine, atol=1e-4)
    assert math.isclose(float(turned[0, 0, 0]), 4.0, abs_tol=1e-4)


def fills() -> None:
    away = np.array([[1.0, 0, 50], [0, 1, 0]], np.float32)
    np.testing.assert_array_equal(warp(NOISE, away, fill_value=2.0), np.full_like(NOISE, 2.0))
    with pytest.raises(TypeError):
        warp(NOISE, away, fill_value=[1.0, 2.0, 3.0])


def rounding() -> None:
    """Halfway between two levels: up, where visops takes the even one."""
    assert COLUMN["uint8 rounding"] == "half up"
    line = np.arange(8, dtype=np.uint8)[None]  # 0.5, 1.5, 2.5, …
    half = np.array([[1.0, 0, 0.5], [0, 1, 0]], np.float32)
    assert warp(line, half)[0, :7].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert ours(line, half)[0, :7].tolist() == [0, 2, 2, 4, 4, 6, 6]


def mode(row: str) -> None:
    if COLUMN[row] == NONE:
        with pytest.raises(RuntimeError, match="Only nearest and linear"):
            warp(NOISE, MATRIX, interp_type=dali.types.INTERP_CUBIC)
        return
    theirs = warp(NOISE, MATRIX, interp_type=getattr(dali.types, COLUMN[row]))
    np.testing.assert_allclose(theirs, ours(NOISE, MATRIX, mode=row), rtol=0.0, atol=1e-4)


def padding(row: str) -> None:
    """An image of four pixels, and three beyond each of its ends."""
    name = COLUMN[row]
    if name == NONE:
        assert not {"border", "border_mode", "padding_mode", "border_type"} & {*arguments()}
        return
    before, inside, after = (part.strip() for part in row.split("¦"))
    parts = [part.replace("fill", "f" * 3) for part in (before, inside, after)]
    value = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0, "f": 9.0}
    wanted = [value[letter] for part in parts for letter in part]
    given = {"with fill_value": 9.0, "without fill_value": None}[name]
    shift = np.array([[1.0, 0, -3], [0, 1, 0]], np.float32)
    assert warp(LINE[:, :4], shift, size=(1, 10), fill_value=given).tolist() == [wanted]


ROWS: dict[str, Callable[[], None]] = {
    "image": images,
    "matrix": matrices,
    "maps": directions,
    "the other way": the_other_way,
    "centre of pixel (0, 0)": centres,
    "the other centre": no_other_centre,
    "size": sizes,
    "fill": fills,
    "angle of get_affine_matrix": angles,
    "uint8 rounding": rounding,
}
MODES = ("nearest", "bilinear", "bicubic, a = −0.75")


@pytest.mark.parametrize("row", COLUMN)
def test_row(row: str) -> None:
    if row in MODES:
        mode(row)
    elif row in PADDINGS:
        padding(row)
    else:
        ROWS[row]()
