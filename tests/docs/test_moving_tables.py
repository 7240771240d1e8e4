"""The tables of docs/moving on OpenCV, kornia and convolutions: both sides of each row.

A row's call is found by the first cell. Rows that only rename an option are run in a call that uses
it.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.ndimage
import scipy.signal
import skimage.data
import torch
import torch.nn.functional as F
import visops
from numpy.lib.stride_tricks import sliding_window_view

from docs.names import MOVING, lines_of

cv2 = pytest.importorskip("cv2")
kornia = pytest.importorskip("kornia")

Pair = tuple[Any, Any]
PHOTO = skimage.data.astronaut()[:200, 60:320]
GREY = PHOTO[..., 1].astype(np.float32)
BATCH = torch.from_numpy(PHOTO).permute(2, 0, 1)[None].float() / 255
MATRIX = np.array([[0.8, -0.4, 60.0], [0.3, 0.9, -20.0]])
BENT = np.array([[0.9, 0.1, 5.0], [-0.1, 1.1, 9.0], [1e-4, 2e-4, 1.0]])
SIZE = (150, 240)  # height, width
RNG = np.random.default_rng(0)
POINTS = RNG.random((4, 2)) * 90
MOVED = POINTS @ np.array([[0.9, 0.2], [-0.2, 0.9]]) + [5.0, -3.0]
CORNERS = np.array([[0.0, 0], [90, 4], [85, 70], [-6, 60]])
SQUARE = np.array([[0.0, 0], [100, 0], [100, 100], [0, 100]])
KERNEL = RNG.random((5, 7)).astype(np.float32)
KERNEL /= KERNEL.sum()
MAPS = torch.from_numpy(RNG.random((2, 3, 12, 14))).float()
POSITIONS = RNG.random((2, *SIZE)).astype(np.float32) * 190


def single(points: np.ndarray) -> np.ndarray:
    return points.astype(np.float32)


def warped(mode: Any = "bilinear", padding: Any = "constant", **options: Any) -> np.ndarray:
    return visops.warp_affine(PHOTO, MATRIX, SIZE, mode=mode, padding_mode=padding, **options)


def opencv_warped(flags: int = 1, **options: Any) -> np.ndarray:
    result: np.ndarray = cv2.warpAffine(PHOTO, MATRIX, SIZE[::-1], flags=flags, **options)
    return result


def into(call: Callable[[np.ndarray], Any]) -> np.ndarray:
    out = np.zeros((*SIZE, 3), np.uint8)
    call(out)
    assert out.any()
    return out


def with_threads() -> Pair:
    before = cv2.getNumThreads(), torch.get_num_threads()
    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    found = torch.get_num_threads(), cv2.getNumThreads()
    cv2.setNumThreads(before[0])
    torch.set_num_threads(before[1])
    return found


OPENCV: dict[str, tuple[Callable[[], Pair], float]] = {
    "cv2.warpAffine(a, m, (w, h))": (lambda: (warped(), opencv_warped()), 1),
    "flags=cv2.INTER_CUBIC": (lambda: (warped("bicubic"), opencv_warped(cv2.INTER_CUBIC)), 1),
    "flags=… \\| cv2.WARP_INVERSE_MAP": (
        lambda: (warped(inverse_map=True), opencv_warped(1 | cv2.WARP_INVERSE_MAP)),
        1,
    ),
    "borderMode=cv2.BORDER_REPLICATE": (
        lambda: (warped(padding="replicate"), opencv_warped(borderMode=cv2.BORDER_REPLICATE)),
        1,
    ),
    "dst=out": (
        lambda: (into(lambda out: warped(out=out)), into(lambda out: opencv_warped(dst=out))),
        1,
    ),
    "cv2.getAffineTransform(src, dst)": (
        lambda: (
            visops.affine_from_points(POINTS[:3], MOVED[:3]),
            cv2.getAffineTransform(single(POINTS[:3]), single(MOVED[:3])),
        ),
        1e-4,
    ),
    "cv2.getRotationMatrix2D(c, angle, scale)": (
        lambda: (
            visops.get_rotation_matrix2d((30, 40), 25, 1.2),
            cv2.getRotationMatrix2D((30, 40), 25, 1.2),
        ),
        1e-9,
    ),
    "cv2.warpPerspective(a, m, (w, h))": (
        lambda: (
            visops.warp_perspective(PHOTO, BENT, SIZE),
            cv2.warpPerspective(PHOTO, BENT, SIZE[::-1]),
        ),
        1,
    ),
    "cv2.getPerspectiveTransform(src, dst)": (
        lambda: (
            visops.homography_from_points(SQUARE, CORNERS),
            cv2.getPerspectiveTransform(single(SQUARE), single(CORNERS)),
        ),
        1e-6,
    ),
    "cv2.estimateAffinePartial2D(src, dst)": (
        lambda: (
            visops.similarity_from_points(POINTS, MOVED),
            cv2.estimateAffinePartial2D(POINTS, MOVED)[0],
        ),
        1e-4,
    ),
    "cv2.findHomography(src, dst)": (
        lambda: (
            visops.homography_from_points(SQUARE, CORNERS),
            cv2.findHomography(SQUARE, CORNERS)[0],
        ),
        1e-6,
    ),
    "cv2.perspectiveTransform(points, m)": (
        lambda: (
            visops.transform_points(POINTS, BENT),
            cv2.perspectiveTransform(POINTS[None], BENT)[0],
        ),
        1e-9,
    ),
    "cv2.invertAffineTransform(m)": (
        lambda: (visops.invert_affine(MATRIX), cv2.invertAffineTransform(MATRIX)),
        1e-9,
    ),
    "cv2.transform(points, m)": (
        lambda: (visops.transform_points(POINTS, MATRIX), cv2.transform(POINTS[None], MATRIX)[0]),
        1e-9,
    ),
    "cv2.remap(a, x, y, cv2.INTER_LINEAR)": (
        lambda: (
            visops.remap(GREY, *POSITIONS),
            cv2.remap(GREY, POSITIONS[0], POSITIONS[1], cv2.INTER_LINEAR),
        ),
        # OpenCV 4 rounds positions to 1/32 of a pixel.
        1e-2 if int(cv2.__version__.split(".")[0]) >= 5 else 12,
    ),
    "cv2.setNumThreads(n)": (with_threads, 0),
}

K = kornia.geometry
MATRICES = torch.from_numpy(MATRIX)[None].float()
BENTS = torch.from_numpy(BENT)[None].float()


def kornia_warped(theirs: str, ours: Any, fill: Any = None) -> Pair:
    options = {} if fill is None else {"fill_value": torch.tensor(fill)}
    expected = K.warp_affine(BATCH, MATRICES, SIZE, padding_mode=theirs, **options)
    if fill is None:
        return visops.warp_affine(BATCH, MATRICES, SIZE, padding_mode=ours), expected
    return visops.warp_affine(BATCH, MATRICES, SIZE, padding_mode=ours, fill=fill), expected


def all_paddings() -> Pair:
    pairs = {"zeros": "constant", "border": "replicate", "reflection": "reflect"}
    results = [kornia_warped(theirs, ours) for theirs, ours in pairs.items()]
    return torch.stack([r[0] for r in results]), torch.stack([r[1] for r in results])


KORNIA: dict[str, tuple[Callable[[], Pair], float]] = {
    "kornia.geometry.warp_affine(x, m, (h, w))": (lambda: kornia_warped("zeros", "constant"), 1e-3),
    'padding_mode="zeros"': (all_paddings, 1e-3),
    'padding_mode="fill", fill_value=v': (
        lambda: kornia_warped("fill", "constant", [0.2, 0.5, 0.9]),
        1e-3,
    ),
    "get_rotation_matrix2d(c, angle, scale)": (
        lambda: (
            visops.get_rotation_matrix2d(
                torch.tensor([[30.0, 40]]), torch.tensor([25.0]), torch.tensor([[1.2, 1.2]])
            ),
            K.get_rotation_matrix2d(
                torch.tensor([[30.0, 40]]), torch.tensor([25.0]), torch.tensor([[1.2, 1.2]])
            ),
        ),
        1e-4,
    ),
    "kornia.geometry.warp_perspective(x, m, (h, w))": (
        lambda: (
            visops.warp_perspective(BATCH, BENTS, SIZE),
            K.warp_perspective(BATCH, BENTS, SIZE),
        ),
        1e-3,
    ),
    "invert_affine_transform(m)": (
        lambda: (visops.invert_affine(MATRICES), K.transform.invert_affine_transform(MATRICES)),
        1e-4,
    ),
}

INNER = (slice(3, -3), slice(3, -3))
BORDERS: dict[str, Any] = {
    "BORDER_REFLECT_101": "reflect_101",
    "BORDER_REFLECT": "reflect",
    "BORDER_REPLICATE": "replicate",
    "BORDER_CONSTANT": "constant",
}


def all_borders() -> Pair:
    ours = [visops.filter2d(PHOTO, KERNEL, border=name) for name in BORDERS.values()]
    theirs = [cv2.filter2D(PHOTO, -1, KERNEL, borderType=getattr(cv2, name)) for name in BORDERS]
    return np.stack(ours), np.stack(theirs)


ROW, COLUMN = KERNEL[0] / KERNEL[0].sum(), KERNEL[:, 0] / KERNEL[:, 0].sum()
WINDOWS: dict[str, Any] = {"dilation": 2, "padding": 1, "stride": 2}
CONVOLUTIONS: dict[str, tuple[Callable[[], Pair], float]] = {
    "scipy.signal.convolve2d(...)": (
        lambda: (
            np.stack(
                [f(GREY, KERNEL, "same", "symm") for f in (visops.convolve2d, visops.correlate2d)]
            ),
            np.stack(
                [
                    f(GREY, KERNEL, "same", "symm")
                    for f in (scipy.signal.convolve2d, scipy.signal.correlate2d)
                ]
            ),
        ),
        1e-3,
    ),
    "scipy.signal.fftconvolve(a, k)": (
        lambda: (
            np.stack([visops.convolve2d(GREY, KERNEL, method="fft")] * 2),
            np.stack(
                [scipy.signal.fftconvolve(GREY, KERNEL), scipy.signal.oaconvolve(GREY, KERNEL)]
            ),
        ),
        1e-2,
    ),
    'scipy.ndimage.convolve(a, k, mode="reflect")': (
        lambda: (
            visops.convolve2d(GREY, KERNEL, mode="same", boundary="symm"),
            scipy.ndimage.convolve(GREY, KERNEL, mode="reflect"),
        ),
        1e-3,
    ),
    "cv2.filter2D(a, -1, k, borderType=cv2.BORDER_REPLICATE)": (
        lambda: (
            visops.filter2d(PHOTO, KERNEL, border="replicate"),
            cv2.filter2D(PHOTO, -1, KERNEL, borderType=cv2.BORDER_REPLICATE),
        ),
        1,
    ),
    "borderType=cv2.BORDER_REFLECT_101": (all_borders, 1),
    "cv2.filter2D(a, cv2.CV_32F, k)": (
        lambda: (
            visops.filter2d(PHOTO, KERNEL, dtype=np.float32),
            cv2.filter2D(PHOTO, cv2.CV_32F, KERNEL),
        ),
        1e-3,
    ),
    "cv2.sepFilter2D(a, -1, row, column)": (
        lambda: (visops.filter2d(PHOTO, (ROW, COLUMN)), cv2.sepFilter2D(PHOTO, -1, ROW, COLUMN)),
        1,
    ),
    "cv2.GaussianBlur(a, (w, h), sigma)": (
        lambda: (visops.gaussian_blur(PHOTO, (5, 7), 1.5), cv2.GaussianBlur(PHOTO, (7, 5), 1.5)),
        1,
    ),
    "cv2.blur(a, (w, h))": (lambda: (visops.box_blur(PHOTO, (5, 3)), cv2.blur(PHOTO, (3, 5))), 1),
    "cv2.Sobel(a, cv2.CV_32F, dx, dy, ksize=k)": (
        lambda: (visops.sobel(PHOTO, 1, 0, 5), cv2.Sobel(PHOTO, cv2.CV_32F, 1, 0, ksize=5)),
        1e-2,
    ),
    "F.conv2d(x[:, None], k[:, None])": (
        lambda: (
            visops.correlate2d(MAPS[:, :1], torch.from_numpy(KERNEL)[None, None], mode="valid"),
            F.conv2d(MAPS[:, :1], torch.from_numpy(KERNEL)[None, None]),
        ),
        1e-5,
    ),
    "F.unfold(x, k, dilation=d, padding=p, stride=s)": (
        lambda: (visops.im2col(MAPS, (2, 3), **WINDOWS), F.unfold(MAPS, (2, 3), **WINDOWS)),
        0,
    ),
    "F.fold(y, size, k, …)": (
        lambda: (
            visops.col2im(F.unfold(MAPS, (2, 3), **WINDOWS), (12, 14), (2, 3), **WINDOWS),
            F.fold(F.unfold(MAPS, (2, 3), **WINDOWS), (12, 14), (2, 3), **WINDOWS),
        ),
        1e-6,
    ),
    "sliding_window_view(np.pad(a, 1), (3, 3))": (
        lambda: (
            visops.im2col(GREY, (3, 3), layout="patches"),
            sliding_window_view(np.pad(GREY, 1), (3, 3)),
        ),
        0,
    ),
}

TABLES = {
    ("OpenCV",): OPENCV,
    ("kornia",): KORNIA,
    ("OpenCV's filters", "SciPy, NumPy", "torch.nn.functional"): CONVOLUTIONS,
}
CALLS = [call for table in TABLES.values() for call in table.items()]


@pytest.mark.parametrize("headings", TABLES)
def test_every_row_is_run(headings: tuple[str, ...]) -> None:
    tables = [lines_of(MOVING, f"| {heading} | visops |\n|-|-|\n") for heading in headings]
    lines = [line for table in tables for line in table]
    found = re.findall(r"^\| `([^`]+)`", "\n".join(lines), re.MULTILINE)
    assert len(found) == len(lines)
    assert sorted(found) == sorted(TABLES[headings])


@pytest.mark.parametrize("row", range(len(CALLS)), ids=[name for name, _ in CALLS])
def test_both_agree(row: int) -> None:
    call, tolerance = CALLS[row][1]
    if "cv2" in CALLS[row][0] and int(cv2.__version__.split(".")[0]) < 5:
        tolerance = max(tolerance, 8 * (tolerance == 1))  # OpenCV 4's tables of weights
    ours, theirs = (np.asarray(a, np.float64) for a in call())
    assert ours.shape == theirs.shape
    difference = np.abs(ours - theirs)
    assert (difference > tolerance).mean() == 0, difference.max()
