"""visops.compat: the interface of the extension that visops replaces."""

import re
from typing import Any

import numpy as np
import pytest
import torch
import visops
from bad_input import check, table
from references.affine import random_matrix, warp
from visops import compat
from warp.affine_cases import assert_matches, to_hwc

FROM = np.array([[10, 20], [400, 30], [50, 300]], np.float32)
TO = np.array([[60, 90], [500, 10], [120, 700]], np.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_affine_torch(dtype: torch.dtype, channels: int) -> None:
    rng = np.random.default_rng(0)
    image = torch.from_numpy(rng.random((2, channels, 30, 40))).to(dtype)
    matrices = np.stack([random_matrix(rng, 30, 40, (50, 35)) for _ in range(2)])
    result = compat.affine_torch(image, torch.from_numpy(matrices).to(dtype), 50, 35)
    assert result.shape == (2, channels, 50, 35)
    for sample, matrix, output in zip(image, matrices, result, strict=True):
        expected = warp(
            to_hwc(sample),
            matrix,
            (50, 35),
            mode="bilinear",
            padding_mode="constant",
            inverse_map=True,
        )
        if dtype == torch.float32:  # the matrix was rounded to float32 as well
            np.testing.assert_allclose(to_hwc(output), expected, rtol=0, atol=1e-4)
        else:
            assert_matches(to_hwc(output), expected, dtype, "bilinear")


def test_affine_torch_rounds_down_left_of_the_image() -> None:
    """What python_cpp_extension got wrong: coordinates between -2 and 0."""
    image = torch.ones(1, 1, 1, 3)
    matrix = torch.tensor([[[1.0, 0.0, -1.75], [0.0, 1.0, 0.0]]])
    assert compat.affine_torch(image, matrix, 1, 5).tolist() == [[[[0, 0.25, 1, 1, 0.75]]]]


def test_affine_torch_has_gradients() -> None:
    image = torch.rand(1, 2, 5, 6, requires_grad=True)
    matrix = torch.tensor([[[0.9, 0.1, 0.3], [0.2, 1.1, -0.4]]], requires_grad=True)
    compat.affine_torch(image, matrix, 5, 6).sum().backward()
    assert image.grad is not None
    assert matrix.grad is not None


@pytest.mark.parametrize("shape", [(480, 640), (480, 640, 1), (480, 640, 3)], ids=str)
def test_affine_opencv(shape: tuple[int, ...]) -> None:
    image = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    result = compat.affine_opencv(image, FROM, TO)
    assert result.shape == (800, 600, *shape[2:])
    matrix = visops.affine_from_points(FROM.astype(np.float64), TO.astype(np.float64))
    expected = warp(
        image.reshape(480, 640, -1), matrix, (800, 600), mode="bilinear", padding_mode="constant"
    )
    assert_matches(result.reshape(expected.shape), expected, torch.uint8, "bilinear")
    assert compat.affine_opencv(image, FROM, TO, size=(20, 30)).shape[:2] == (20, 30)
    lists = compat.affine_opencv(image[:, ::-1][:, ::-1], FROM.tolist(), TO.tolist())
    np.testing.assert_array_equal(lists, result)


def test_affine_opencv_is_opencvs() -> None:
    cv2 = pytest.importorskip("cv2")
    data = pytest.importorskip("skimage.data")
    image = data.astronaut()
    expected = cv2.warpAffine(image, cv2.getAffineTransform(FROM, TO), (600, 800))
    result = compat.affine_opencv(image, FROM, TO)
    difference = np.abs(result.astype(int) - expected.astype(int))
    if int(cv2.__version__.split(".")[0]) >= 5:
        assert difference.max() <= 1
        assert np.count_nonzero(difference) <= 0.002 * difference.size
    else:
        assert difference.max() <= 8


def test_versions() -> None:
    assert re.fullmatch(r"(GCC|Clang|MSVC) \d+\.\d+", compat.get_compiler_version())
    version = compat.get_compiling_cuda_version()
    built = visops.build_info()["cuda_built"]
    assert version == (built or "not available")
    assert re.fullmatch(r"\d+\.\d+|not available", version)


def images(*shape: int, dtype: Any = torch.float32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


MATRIX = torch.tensor([[[1.0, 0, 0], [0, 1, 0]]])


@table(
    (
        TypeError,
        "compat.affine_torch: input is a ndarray, must be a torch.Tensor",
        lambda: compat.affine_torch(np.zeros((1, 1, 2, 2)), MATRIX, 2, 2),  # type: ignore[arg-type]
    ),
    (
        TypeError,
        "compat.affine_torch: affine_matrix is a list, must be a torch.Tensor",
        lambda: compat.affine_torch(images(1, 1, 2, 2), [[1]], 2, 2),  # type: ignore[arg-type]
    ),
    (
        TypeError,
        "compat.affine_torch: input has dtype torch.uint8, must be torch.float32 or torch.float64",
        lambda: compat.affine_torch(images(1, 1, 2, 2, dtype=torch.uint8), MATRIX, 2, 2),
    ),
    (
        ValueError,
        "compat.affine_torch: input has shape [1, 2, 2], must be [batch, channels, height, width]",
        lambda: compat.affine_torch(images(1, 2, 2), MATRIX, 2, 2),
    ),
    (
        TypeError,
        "compat.affine_torch: affine_matrix has layout sparse_coo, must be dense; call to_dense()",
        lambda: compat.affine_torch(images(1, 1, 2, 2), MATRIX.to_sparse(), 2, 2),
    ),
    (
        MemoryError,
        "warp_affine: result: Unable to allocate",
        lambda: compat.affine_opencv(
            np.zeros((4, 4, 3), np.uint8), FROM, TO, size=(2**31 - 1, 2**16)
        ),
    ),
    (
        RuntimeError,
        "warp_affine: matrix has batch 3, image has batch 2",
        lambda: compat.affine_torch(images(2, 1, 2, 2), MATRIX.expand(3, 2, 3), 2, 2),
    ),
    (
        TypeError,
        "compat.affine_opencv: image_uint8 is float64, must be a numpy.ndarray of uint8",
        lambda: compat.affine_opencv(np.zeros((4, 4)), FROM, TO),
    ),
    (
        TypeError,
        "compat.affine_opencv: image_uint8 is torch.uint8, must be a numpy.ndarray of uint8",
        lambda: compat.affine_opencv(images(4, 4, dtype=torch.uint8), FROM, TO),  # type: ignore[arg-type]
    ),
    (
        ValueError,
        "compat.affine_opencv: image_uint8 has shape [4, 4, 2], must be [height, width] or",
        lambda: compat.affine_opencv(np.zeros((4, 4, 2), np.uint8), FROM, TO),
    ),
    (
        ValueError,
        "compat.affine_opencv: from_point has shape [2, 2], must be [3, 2]",
        lambda: compat.affine_opencv(np.zeros((4, 4), np.uint8), FROM[:2], TO),
    ),
    (
        ValueError,
        "affine_from_points: src is collinear",
        lambda: compat.affine_opencv(np.zeros((4, 4), np.uint8), [[0, 0], [1, 1], [2, 2]], TO),
    ),
)
def test_bad_input(error: Any, message: str, call: Any) -> None:
    check(error, message, call)
