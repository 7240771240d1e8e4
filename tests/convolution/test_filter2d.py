"""filter2d, gaussian_blur, box_blur, sobel, separable filters: against OpenCV and definitions."""

from typing import Any

import numpy as np
import pytest
import skimage.data
import torch
import visops
from bad_input import Call, check, table
from kernels import every_slot, use_slot
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from visops.convolution.blurs import gaussian
from visops.convolution.filter2d import DTYPES, filter_separable

from convolution.convolve2d_cases import BORDERS, PAD


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
def test_agrees_with_opencv(border: Any, size: tuple[int, int]) -> None:
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
def test_definition(border: Any) -> None:
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
def test_a_row_and_a_column(border: Any) -> None:
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


def summed(image: np.ndarray, kernel: np.ndarray, axis: int, border: str, fill: float) -> Any:
    """Correlate along an axis, by NumPy's padding; `fill` lies outside."""
    before, after = len(kernel) // 2, (len(kernel) - 1) // 2
    widths = [(0, 0), (0, 0)]
    widths[axis] = (before, after)
    options: Any = {"constant_values": fill} if border == "constant" else {}
    mode: Any = PAD[border]
    padded = np.pad(image, widths, mode, **options)
    windows = np.lib.stride_tricks.sliding_window_view(padded, len(kernel), axis)
    return windows @ kernel


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (7, 3), (2, 30)])
@pytest.mark.parametrize("length", [1500, 1501])
@pytest.mark.parametrize("axis", [0, 1])
def test_long_kernels(border: Any, shape: tuple[int, int], length: int, axis: int) -> None:
    rng = np.random.default_rng(length + axis)
    image, kernel = rng.random(shape), rng.random(length)
    found = visops.filter2d(
        image, kernel[:, None] if axis == 0 else kernel[None], border=border, fill=0.7
    )
    np.testing.assert_allclose(found, summed(image, kernel, axis, border, 0.7), rtol=1e-11)


@pytest.mark.parametrize("border", BORDERS)
def test_sums_of_bytes_are_exact(border: str) -> None:
    image = np.random.default_rng(3).integers(0, 256, (5, 8)).astype(np.uint8)
    size = (1501, 1200)
    rows = summed(image.astype(np.float64), np.ones(size[1]), 1, border, 9.0)
    outside = 9.0 * size[1]  # a row of the fill, summed as the image's rows are
    wanted = summed(rows, np.ones(size[0]), 0, border, outside) / (size[0] * size[1])
    found = visops.box_blur(image, size, border=border, fill=9)
    np.testing.assert_array_equal(found, np.rint(wanted).astype(np.uint8))


class Largest(TorchDispatchMode):
    """Notes the number of elements of the largest result."""

    found = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        self.found = max([self.found, *sizes])
        return result


@pytest.mark.parametrize("border", BORDERS)
def test_one_row_is_not_extended_to_as_many_as_the_kernel_has(border: str) -> None:
    image = torch.rand(1, 1, 300, dtype=torch.float64, requires_grad=True)
    with Largest() as largest:
        blurred = visops.gaussian_blur(image, (32767, 3), border=border)
        (gradient,) = torch.autograd.grad(blurred.sum(), image)
    assert largest.found < 10_000
    assert gradient.shape == image.shape


matrix = pytest.mark.matrix


def separable_reference(image: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """[H, W] in float64, tap by tap."""
    found = image.astype(np.float64)
    for axis, weights in ((1, row), (0, column)):
        before, after = len(weights) // 2, (len(weights) - 1) // 2
        pad = [(0, 0), (0, 0)]
        pad[axis] = (before, after)
        mode: Any = "reflect" if found.shape[axis] > 1 else "edge"
        padded = np.pad(found, pad, mode)
        size = found.shape[axis]
        found = sum(  # type: ignore[assignment]
            weight * padded.take(range(k, k + size), axis) for k, weight in enumerate(weights)
        )
    return found


@matrix
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("size", "taps"),
    [
        ((1, 1), (3, 5)),
        ((9, 1), (5, 3)),
        ((5, 7), (33, 33)),
        ((40, 90), (9, 4)),
        ((33, 64), (1, 1)),
    ],
)
def test_values(dtype: torch.dtype, size: tuple[int, int], taps: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    images = torch.from_numpy(rng.uniform(0, 255, (3, 2, *size))).to(dtype)
    rows, columns = (rng.dirichlet(np.ones(n), 3) for n in taps)
    found = filter_separable(images, rows.ravel().tolist(), columns.ravel().tolist(), False)
    assert found.dtype == dtype
    assert found.is_contiguous()
    for i in range(3):
        for c in range(2):
            expected = separable_reference(images[i, c].double().numpy(), rows[i], columns[i])
            error = np.abs(found[i, c].double().numpy() - expected).max()
            rounding = 0.5 if dtype == torch.uint8 else 256 * torch.finfo(dtype).eps
            assert error <= rounding * 1.001 + 1e-4


@every_slot
def test_gaussian_blur_has_the_same_bits(slot: str) -> None:
    images = (torch.rand(2, 3, 50, 70) * 255).to(torch.uint8)
    for picture in (images, images.float() / 255, images.half()):
        blurred = visops.gaussian_blur(picture, (5, 9), (0.8, 2.0))
        with use_slot(slot):
            row, column = gaussian(9, 2.0).tolist(), gaussian(5, 0.8).tolist()
            assert torch.equal(filter_separable(picture, row, column), blurred)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64])
def test_gaussian_blur_on_a_gpu_has_the_cpu_s_bits(dtype: torch.dtype) -> None:
    images = (torch.rand(2, 3, 90, 70) * 255).to(dtype)
    for size, sigma in (((5, 9), (0.8, 2.0)), (3, None), (41, 6.0)):
        on_cpu = visops.gaussian_blur(images, size, sigma)
        assert torch.equal(visops.gaussian_blur(images.cuda(), size, sigma).cpu(), on_cpu)


@every_slot
def test_images_without_a_filter_are_copied(slot: str) -> None:
    """Infinities don't reach their neighbours, and -0 keeps its sign."""
    images = torch.zeros(2, 1, 4, 5)
    images[:, 0, 1, 2], images[:, 0, 0, 0] = float("inf"), -0.0
    with use_slot(slot):
        found = filter_separable(images, [0, 1, 0, 0.5, 0.25, 0.25], [1, 1], False)
    assert torch.equal(found[0].view(torch.int32), images[0].view(torch.int32))
    assert int(found[1].isinf().sum()) == 3


IMAGES = torch.zeros(2, 1, 3, 4)
OP = "filter_separable: "


def call(**arguments: Any) -> Call:
    given: dict[str, Any] = {"images": IMAGES, "rows": [1.0], "columns": [1.0], **arguments}
    return lambda: filter_separable(**given)


@table(
    (
        RuntimeError,
        OP + "images have shape [1, 3, 4], must be [B, C, H, W]",
        call(images=IMAGES[0]),
    ),
    (
        RuntimeError,
        OP + "images have dtype float64, must be uint8, float16, bfloat16 or float32",
        call(images=IMAGES.double()),
    ),
    (RuntimeError, OP + "rows have 0 taps, must have 1 to 33", call(rows=[])),
    (RuntimeError, OP + "columns have 34 taps, must have 1 to 33", call(columns=[1.0] * 34)),
    (
        RuntimeError,
        OP + "rows has 3 numbers, must have as many for each of 2 images",
        call(rows=[1.0] * 3, shared=False),
    ),
)
def test_errors(error: type[Exception], message: str, call: Call) -> None:
    check(error, message, call)


def test_symbolic_traces_of_filters() -> None:
    """Sizes that are symbols outside of torch.compile."""
    from torch.fx.experimental.proxy_tensor import make_fx

    traced = make_fx(lambda x, k: visops.convolve2d(x, k), tracing_mode="symbolic")
    wide = torch.rand(1, 3, 20, 30)
    for image in (wide, wide[..., :17]):
        kernel = torch.rand(3, 5)
        found = traced(image, kernel)(image, kernel)
        assert torch.equal(found, visops.convolve2d(image, kernel, method="direct"))
