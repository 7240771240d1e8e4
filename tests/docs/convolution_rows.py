"""Rows of convolve2d.md on SciPy, and of im2col.md on torch: what both give, or what each gives."""

import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.signal
import torch
import visops
from torch.nn import functional as F

Pair = tuple[Any, Any]
Row = tuple[Callable[[], Pair], float]

RNG = np.random.default_rng(6)
IMAGE, KERNEL = RNG.random((9, 11)).astype(np.float32), RNG.random((3, 4)).astype(np.float32)
theirs = scipy.signal.convolve2d


def more_dimensions() -> Pair:
    images = torch.from_numpy(RNG.random((2, 1, 9, 11))).float()
    kernels = torch.from_numpy(RNG.random((3, 3, 4))).float()
    with pytest.raises(ValueError, match="2-D"):
        theirs(images, kernels)
    expected = [[theirs(image[0], kernel) for kernel in kernels] for image in images]
    return visops.convolve2d(images, kernels), np.stack([np.stack(row) for row in expected])


def tensors() -> Pair:
    image, kernel = torch.from_numpy(IMAGE), torch.from_numpy(KERNEL)
    found, expected = visops.convolve2d(image, kernel), theirs(image, kernel)
    assert (type(found), type(expected)) == (torch.Tensor, np.ndarray)
    half = image.half(), kernel.half()
    for dtype in (torch.float16, torch.bfloat16):
        with pytest.raises((TypeError, ValueError)):
            theirs(image.to(dtype), kernel.to(dtype))
    wide = visops.convolve2d(half[0].float(), half[1].float())
    return (
        np.stack([found, visops.convolve2d(*half).float()]),
        np.stack([expected, wide.half().float()]),
    )


def lists() -> Pair:
    with pytest.raises(TypeError):
        visops.convolve2d(IMAGE.tolist(), KERNEL.tolist())
    found = visops.convolve2d(np.asarray(IMAGE.tolist()), np.asarray(KERNEL.tolist()))
    return found, theirs(IMAGE.tolist(), KERNEL.tolist())


def long_doubles() -> Pair:
    with pytest.raises((TypeError, ValueError), match=r"longdouble|float128"):
        visops.convolve2d(IMAGE.astype(np.longdouble), KERNEL.astype(np.longdouble))
    wide = theirs(IMAGE.astype(np.longdouble), KERNEL.astype(np.longdouble))
    assert wide.dtype == np.longdouble
    return visops.convolve2d(IMAGE.astype(np.float64), KERNEL.astype(np.float64)), wide


def nothing_repeated() -> Pair:
    """SciPy dies of it: in a process of its own."""
    call = "import numpy, scipy.signal as s; s.convolve2d(numpy.ones((0, 3)), numpy.ones((2, 2)), "
    ends = []
    for boundary in ("wrap", "symm"):
        with pytest.raises(ValueError, match="boundary"):
            visops.convolve2d(np.ones((0, 3)), np.ones((2, 2)), boundary=boundary)
        done = subprocess.run(
            [sys.executable, "-c", f"{call}boundary={boundary!r})"],
            capture_output=True,
            check=False,
        )
        ends.append(done.returncode)
    return ends, [-signal.SIGFPE] * 2


def fills_of_other_types() -> Pair:
    for fill in ("3", None):
        with pytest.raises(TypeError, match="fillvalue"):
            visops.convolve2d(IMAGE, KERNEL, fillvalue=fill)  # type: ignore[arg-type]
    found = [visops.convolve2d(IMAGE, KERNEL, fillvalue=fill) for fill in (3, np.nan)]
    return np.stack(found), np.stack([theirs(IMAGE, KERNEL, fillvalue=f) for f in ("3", None)])


SCIPY: dict[str, Row] = {
    "dimensions": (more_dimensions, 1e-5),
    "tensors": (tensors, 1e-5),
    "lists": (lists, 1e-12),
    "longdouble": (long_doubles, 1e-12),
    "an empty image with ": (nothing_repeated, 0),
    "fillvalue of strings, None": (fills_of_other_types, 1e-5),
}

MAPS = torch.from_numpy(RNG.random((2, 3, 8, 9)))


def columns_of_any_dimension() -> Pair:
    found = []
    for dims in (1, 2, 3, 4):
        window = (2,) * dims
        maps = torch.from_numpy(RNG.random((2, 3, *(6, 5, 4, 3)[:dims])))
        columns = visops.im2col(maps, window)
        if dims == 2:
            assert torch.equal(F.unfold(maps, window), columns)
        else:
            with pytest.raises((NotImplementedError, RuntimeError)):
                F.unfold(maps, window)
        found.append((columns.shape[1], 3 * 2**dims))
    return [a for a, _ in found], [b for _, b in found]


def leading_dimensions() -> Pair:
    with pytest.raises((IndexError, RuntimeError)):
        F.unfold(MAPS[0, 0], 3)
    patches = visops.im2col(MAPS[None, None], 3, layout="patches", padding=0)
    assert patches.shape == (1, 1, *MAPS.shape[:2], 6, 7, 3, 3)
    expected = F.unfold(MAPS, 3)
    return (
        torch.cat([visops.im2col(MAPS, 3)[0], visops.im2col(MAPS[0], 3)]),
        torch.cat([expected[0], F.unfold(MAPS[0], 3)]),
    )


def dtypes() -> Pair:
    whole = (MAPS * 9).to(torch.int32)
    columns = visops.im2col(whole, 3)
    for call in (lambda: F.unfold(whole, 3), lambda: F.fold(columns, (8, 9), 3)):
        with pytest.raises(RuntimeError, match="not implemented"):
            call()
    for dtype in (torch.float16, torch.complex64, torch.bool):
        of_dtype = MAPS.to(dtype)
        assert torch.equal(visops.im2col(of_dtype, 3), F.unfold(of_dtype, 3))
    found = torch.stack(
        [visops.col2im(columns, (8, 9), 3), visops.im2col(whole, 1).view(whole.shape)]
    )
    folded = F.fold(F.unfold(whole.double(), 3), (8, 9), 3)
    return found, torch.stack([folded, whole.double()])


def outside() -> Pair:
    found = [visops.im2col(MAPS, 3, padding=1, fill_value=fill) for fill in (0, 7)]
    return torch.stack(found), torch.stack(
        [F.unfold(MAPS, 3, padding=1), F.unfold(F.pad(MAPS, (1,) * 4, value=7.0), 3)]
    )


def paddings() -> Pair:
    """The operator takes each side: one row above, two columns to the right."""
    with pytest.raises(TypeError):
        F.unfold(MAPS, 3, padding="same")  # type: ignore[arg-type]
    same = visops.im2col(MAPS, 3, padding="same")
    sides = torch.ops.visops.im2col(MAPS, [3, 3], [1, 1], [1, 0, 0, 2], [1, 1])
    return torch.cat([same, sides], -1), torch.cat(
        [F.unfold(MAPS, 3, padding=1), F.unfold(F.pad(MAPS, (0, 2, 1, 0)), 3)], -1
    )


def nothing() -> Pair:
    with pytest.raises(RuntimeError):
        F.unfold(MAPS[:, :0], 3)
    shapes = [visops.im2col(maps, 3).shape for maps in (MAPS[:0], MAPS[:, :0])]
    return [list(s) for s in shapes], [list(F.unfold(MAPS[:0], 3).shape), [2, 0, 42]]


def sums_of_halves() -> Pair:
    """2048 and ones: halves that are rounded after each addition never grow."""
    columns = torch.ones(1, 9, 9, dtype=torch.float16)
    columns[:, 0] = 2048
    options: dict[str, Any] = {"output_size": (5, 5), "kernel_size": 3, "padding": 1, "stride": 2}
    found = visops.col2im(columns, **options)
    once = F.fold(columns.float(), **options).half()
    rounded = F.fold(columns, **options)
    assert not torch.equal(rounded, found)
    return found, once


COLUMNS: dict[str, Row] = {
    "dimensions": (columns_of_any_dimension, 0),
    "input": (leading_dimensions, 0),
    "dtypes": (dtypes, 0),
    "outside the image": (outside, 0),
    "padding": (paddings, 0),
    "empty dimensions": (nothing, 0),
    "half-precision sums": (sums_of_halves, 0),
}
