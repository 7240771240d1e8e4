"""filter2d, gaussian_blur, box_blur and sobel, against OpenCV and the definition."""

from typing import Any

import numpy as np
import pytest
import skimage.data
import torch
import visops
from torch.autograd import gradcheck
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from convolution.filter2d_cases import BORDERS, PAD


def photo(dtype: str = "uint8") -> np.ndarray:
    return skimage.data.astronaut()[100:160, 80:150].astype(dtype)


def reference(image: np.ndarray, kernel: np.ndarray, border: str, fill: float = 0) -> np.ndarray:
    """[H, W, C] in float64, tap by tap."""
    (height, width), (kh, kw) = image.shape[:2], kernel.shape
    options: Any = {"constant_values": fill} if border == "constant" else {}
    widths = [(kh // 2, (kh - 1) // 2), (kw // 2, (kw - 1) // 2), (0, 0)]
    mode: Any = PAD[border]
    padded = np.pad(image.astype(np.float64), widths, mode, **options)
    result = np.zeros(image.shape)
    for i in range(kh):
        for j in range(kw):
            result += kernel[i, j] * padded[i : i + height, j : j + width]
    return result


def close(ours: Any, theirs: np.ndarray) -> None:
    """Equal but for rounding: in integers, of sums halfway between two levels."""
    ours = np.asarray(ours)
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    difference = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
    if ours.dtype.kind == "f":
        assert difference.max() <= 4e-6 * max(np.abs(theirs).max(), 1)
    else:
        assert difference.max() <= 1
        assert (difference > 0).mean() < 0.01


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("size", [(3, 3), (5, 2), (4, 7), (1, 1)], ids=str)
def test_agrees_with_opencv(border: str, size: tuple[int, int]) -> None:
    cv2 = pytest.importorskip("cv2")
    kernel = np.random.default_rng(0).uniform(-0.3, 0.5, size)
    for dtype in ("uint8", "uint16", "int16", "float32", "float64"):
        for image in (photo(dtype), photo(dtype)[..., 1]):
            if border == "wrap":  # cv2.filter2D refuses it
                widths = (size[0] // 2, (size[0] - 1) // 2, size[1] // 2, (size[1] - 1) // 2)
                around = cv2.copyMakeBorder(image, *widths, cv2.BORDER_WRAP)
                whole = cv2.filter2D(around, -1, kernel)
                rows, columns = image.shape[:2]
                theirs = whole[widths[0] : widths[0] + rows, widths[2] : widths[2] + columns]
            else:
                theirs = cv2.filter2D(image, -1, kernel, borderType=getattr(cv2, BORDERS[border]))
            close(visops.filter2d(image, kernel, border=border), theirs)


@pytest.mark.parametrize("border", BORDERS)
def test_definition(border: str) -> None:
    """Also where the kernel is larger than the image, which OpenCV can't mirror."""
    rng = np.random.default_rng(1)
    for shape in ((9, 8, 3), (2, 3, 1), (1, 1, 2), (1, 6, 2)):
        image, kernel = rng.random(shape), rng.random((7, 10))
        expected = reference(image, kernel, border, 0.7)
        result = visops.filter2d(image, kernel, border=border, fill=0.7)
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("border", BORDERS)
def test_long_rows_and_columns_take_little_memory(border: str) -> None:
    """On a small image; the image extended along both would have 16 million pixels."""
    sizes: list[int] = []

    class Largest(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            sizes.extend(t.numel() for t in tree_leaves(result) if isinstance(t, torch.Tensor))
            return result

    image = np.arange(12.0).reshape(3, 4)
    with Largest():
        found = visops.box_blur(image, (4095, 4097), border=border, fill=1.0)
    assert max(sizes) < 10 * 4097
    expected = reference(image[..., None], np.ones((45, 47)), border, 1.0)[..., 0] / (45 * 47)
    small = visops.box_blur(image, (45, 47), border=border, fill=1.0)
    np.testing.assert_allclose(small, expected, rtol=0, atol=1e-11)
    assert found.shape == image.shape


def test_layouts() -> None:
    image, kernel = photo(), np.random.default_rng(2).random((3, 5)) / 15
    expected = visops.filter2d(image, kernel)
    for i in range(3):  # every channel for itself
        np.testing.assert_array_equal(expected[..., i], visops.filter2d(image[..., i], kernel))
    chw = torch.from_numpy(image).permute(2, 0, 1)
    np.testing.assert_array_equal(visops.filter2d(chw, kernel).permute(1, 2, 0), expected)
    batch = torch.stack([chw, chw.flip(-1)])
    assert torch.equal(visops.filter2d(batch, kernel)[0], visops.filter2d(chw, kernel))
    hwc = torch.from_numpy(image)
    np.testing.assert_array_equal(visops.filter2d(hwc, kernel, channels="last"), expected)
    planes = np.ascontiguousarray(image.transpose(2, 0, 1))
    result = visops.filter2d(planes, kernel, channels="first")
    np.testing.assert_array_equal(result.transpose(1, 2, 0), expected)
    np.testing.assert_array_equal(visops.filter2d(image[None], kernel)[0], expected)
    assert expected.flags.c_contiguous
    assert visops.filter2d(image[:0], kernel).shape == (0, 70, 3)


@pytest.mark.parametrize("border", BORDERS)
def test_a_row_and_a_column(border: str) -> None:
    cv2 = pytest.importorskip("cv2")
    rng = np.random.default_rng(3)
    row, column = rng.uniform(-1, 1, 5), rng.uniform(-1, 1, 4)
    for dtype in ("float32", "float64"):
        image = photo(dtype)
        ours = visops.filter2d(image, (row, column), border=border)
        scale = np.abs(ours).max()
        whole = visops.filter2d(image, np.outer(column, row), border=border)
        np.testing.assert_allclose(ours, whole, rtol=0, atol=4e-6 * scale)
        if border != "wrap":
            flag = getattr(cv2, BORDERS[border])
            theirs = cv2.sepFilter2D(image, -1, row, column, borderType=flag)
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=4e-6 * scale)


def test_result_dtypes() -> None:
    image = photo()
    kernel = np.array([[-1.0, 0.0, 1.0]])
    for dtype in (torch.float32, np.float32, "float32"):
        signed = visops.filter2d(image, kernel, dtype=dtype)
        assert signed.dtype == np.float32
        assert signed.min() < 0
    assert visops.filter2d(image, kernel).min() == 0  # saturated
    assert visops.filter2d(image, 99 * kernel).max() == 255
    halves = torch.tensor([[1, 2, 3, 4]], dtype=torch.uint8)
    assert visops.filter2d(halves, [[0.5]]).tolist() == [[0, 1, 2, 2]]  # half to even
    for dtype in (torch.int32, torch.int64):
        limit = torch.iinfo(dtype).max
        large = torch.tensor([[limit, -limit - 1, 5]], dtype=dtype)
        doubled = visops.filter2d(large, [[2.0]])
        assert doubled.tolist() == [[limit, -limit - 1, 10]]
    half = torch.rand(3, 8, 9).half()
    result = visops.filter2d(half, torch.full((3, 3), 1 / 9))
    assert result.dtype == torch.float16
    torch.testing.assert_close(
        result, visops.filter2d(half.float(), torch.full((3, 3), 1 / 9)).half()
    )


def test_gradients() -> None:
    torch.manual_seed(0)
    image = torch.rand(2, 4, 5, dtype=torch.float64, requires_grad=True)
    kernel = torch.rand(3, 3, dtype=torch.float64, requires_grad=True)
    for border in BORDERS:
        assert gradcheck(
            lambda i, k, b=border: visops.filter2d(i, k, border=b), (image, kernel), fast_mode=True
        )
    assert gradcheck(lambda i: visops.gaussian_blur(i, 3, 1.2), (image,), fast_mode=True)


def test_compile() -> None:
    image = torch.rand(3, 12, 14)
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda i: visops.sobel(visops.gaussian_blur(i, 3, 1.2), 1, 0), backend="eager"
    )
    expected = visops.sobel(visops.gaussian_blur(image, 3, 1.2), 1, 0)
    torch.testing.assert_close(compiled(image), expected)


@pytest.mark.parametrize("size", [3, 5, 7, 9, (2047, 3)], ids=str)
def test_compile_of_kernels_by_size(size: Any) -> None:
    """Dynamo computes the kernel by a NumPy of its own."""
    image = torch.rand(3, 12, 14, dtype=torch.float64)
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda i: visops.gaussian_blur(i, size), backend="eager", fullgraph=True
    )
    torch.testing.assert_close(compiled(image), visops.gaussian_blur(image, size))


@pytest.mark.parametrize("border", ["reflect_101", "reflect", "replicate", "constant"])
def test_gaussian_blur_agrees_with_opencv(border: str) -> None:
    cv2 = pytest.importorskip("cv2")
    flag = getattr(cv2, BORDERS[border])
    for size, sigma in (((3, 3), None), ((9, 7), None), ((5, 11), None), ((13, 1), (2.5, 1.0))):
        vertical, horizontal = sigma or (0, 0)
        for dtype in ("uint8", "float32", "float64"):
            image = photo(dtype)
            theirs = cv2.GaussianBlur(
                image, size[::-1], horizontal, sigmaY=vertical, borderType=flag
            )
            ours = visops.gaussian_blur(image, size, sigma, border=border)
            assert ours.dtype == image.dtype
            tolerance = 1 if dtype == "uint8" else 255 * 2e-6
            assert np.abs(ours.astype(float) - theirs.astype(float)).max() <= tolerance
    for dtype in ("uint8", "float32"):  # the size from sigma
        theirs = cv2.GaussianBlur(photo(dtype), (0, 0), 1.3)
        ours = visops.gaussian_blur(photo(dtype), sigma=1.3)
        assert np.abs(ours.astype(float) - theirs.astype(float)).max() <= (
            1 if dtype == "uint8" else 1e-3
        )


def test_box_blur_agrees_with_opencv() -> None:
    cv2 = pytest.importorskip("cv2")
    for size in ((3, 3), (4, 5), (1, 8)):
        for dtype in ("int16", "float32", "float64"):
            close(visops.box_blur(photo(dtype), size), cv2.blur(photo(dtype), size[::-1]))
        image = photo()
        np.testing.assert_array_equal(
            visops.box_blur(image, size), visops.box_blur(image.astype(np.int16), size)
        )
        difference = visops.box_blur(image, size) - cv2.blur(image, size[::-1]).astype(float)
        assert np.abs(difference).max() <= 1  # theirs rounds 174.375 to 175


@pytest.mark.parametrize("size", [1, 3, 5, 7])
def test_sobel_agrees_with_opencv(size: int) -> None:
    cv2 = pytest.importorskip("cv2")
    for dx, dy in ((1, 0), (0, 1), (2, 0), (1, 1), (2, 1)):
        for dtype in ("uint8", "float64"):
            depth = cv2.CV_32F if dtype == "uint8" else cv2.CV_64F
            theirs = cv2.Sobel(photo(dtype), depth, dx, dy, ksize=size)
            np.testing.assert_array_equal(visops.sobel(photo(dtype), dx, dy, size), theirs)
    saturated = cv2.Sobel(photo(), cv2.CV_8U, 1, 0, ksize=size)
    np.testing.assert_array_equal(visops.sobel(photo(), 1, 0, size, dtype=np.uint8), saturated)
