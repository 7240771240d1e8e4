"""One image and one kernel: SciPy's convolution, against SciPy, OpenCV and torch.

What comes out has the size of the image. Numbers are whole and so few that all sums are exact. In
uint8 sums wrap, as in SciPy; OpenCV saturates, so it takes part where sums fit.
"""

from collections.abc import Callable

import cv2
import numpy as np
import torch
import visops
from bench.harness import EXACT, Case, Contender, Tolerance, pair, rows
from scipy import signal
from torch import Tensor
from torch.nn import functional

HEIGHT, WIDTH = 1080, 1920
DFT = Tolerance(max_abs=0.05, mean_abs=1e-3, why="Fourier transforms in the image's precision")
SATURATED = (3, 7)  # sides of kernels whose sums can fit into uint8
DTYPES = ("float32", "float64", "complex64", "uint8")


def numbers(dtype: str, height: int, width: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    """An image, and a kernel without zeros that isn't separable."""
    rng = np.random.default_rng(side)
    most = 5
    if dtype == "uint8":  # sums fit uint8 where OpenCV takes part, and wrap elsewhere
        most = 255 // (2 * side**2) + 1 if side in SATURATED else 256
    image = rng.integers(0, most, (height, width)).astype(dtype)
    kernel = rng.integers(1, 3, (side, side)).astype(dtype)
    if dtype == "complex64":
        image += 1j * rng.integers(0, most, image.shape).astype("float32")
        kernel += 1j * rng.integers(1, 3, kernel.shape).astype("float32")
    return image, kernel


def parts(result: np.ndarray | Tensor) -> Tensor:
    """View complex numbers as pairs to compare them."""
    tensor = torch.as_tensor(result)
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def with_torch(image: np.ndarray, kernel: np.ndarray) -> Callable[[], Tensor]:
    """``F.conv2d`` correlates, so the kernel is flipped beforehand."""
    pixels = torch.from_numpy(image)[None, None]
    turned = torch.from_numpy(np.ascontiguousarray(np.flip(kernel)))[None, None]
    return lambda: functional.conv2d(pixels, turned, padding="same")[0, 0]


def one_thread() -> bool:
    """SciPy and torch without oneDNN use one thread and take seconds: time them once."""
    return torch.get_num_threads() == 1


def allocating(dtype: str, side: int) -> list[Contender]:
    """Into a new array."""
    image, kernel = numbers(dtype, HEIGHT, WIDTH, side)
    turned = np.ascontiguousarray(np.flip(kernel))
    tolerance = EXACT if side < 11 or dtype == "uint8" else DFT
    contenders = [
        Contender("visops", lambda: visops.convolve2d(image, kernel, "same"), comparable=parts)
    ]
    if dtype in ("float32", "float64") or (dtype == "uint8" and side in SATURATED):

        def with_cv2() -> np.ndarray:
            return cv2.filter2D(image, -1, turned, borderType=cv2.BORDER_CONSTANT)

        loose = DFT if side >= 11 else EXACT
        contenders.append(Contender("cv2.filter2D", with_cv2, loose))
    if dtype in ("float32", "complex64") and side <= 25:
        close = tolerance if tolerance is not EXACT else Tolerance(max_abs=1e-3, why="a GEMM")
        contenders.append(Contender("F.conv2d", with_torch(image, kernel), close, comparable=parts))
    if one_thread() and side <= 25:
        contenders.append(
            Contender(
                "SciPy",
                lambda: signal.convolve2d(image, kernel, "same"),
                tolerance,
                comparable=parts,
            )
        )
    return contenders


def preallocated(dtype: str, side: int) -> list[Contender]:
    """Into an existing array: arithmetic without page faults."""
    image, kernel = numbers(dtype, HEIGHT, WIDTH, side)
    tensors = torch.from_numpy(image), torch.from_numpy(kernel)
    out, array = torch.empty_like(tensors[0]), np.empty_like(image)
    start = [(side - 1) // 2] * 2
    turned = np.ascontiguousarray(np.flip(kernel))

    def ours() -> Tensor:
        torch.ops.visops.convolve2d_out(*tensors, start, [HEIGHT, WIDTH], "fill", None, True, out)
        return out

    def with_cv2() -> np.ndarray:
        return cv2.filter2D(image, -1, turned, dst=array, borderType=cv2.BORDER_CONSTANT)

    loose = EXACT if side < 11 else DFT
    return pair("cv2.filter2D", ours, with_cv2, (), loose)


def without_onednn(side: int) -> list[Contender]:
    """float64, where torch copies all patches: an image for which that takes 0.6 GB, not ten."""
    image, kernel = numbers("float64", HEIGHT // 4, WIDTH // 4, side)
    tensors = torch.from_numpy(image), torch.from_numpy(kernel)
    theirs = with_torch(image, kernel)
    return pair("F.conv2d", lambda: visops.convolve2d(*tensors, "same"), theirs, (), DFT)


def cases() -> list[Case]:
    """The cases, in the order of the tables."""
    sides = (3, 5, 7, 11, 15, 25, 51)
    new = [("float32", side) for side in sides]
    new += [("float64", 3), ("float64", 15)]
    new += [(dtype, side) for dtype in ("uint8", "complex64") for side in (3, 7, 15)]
    found = []
    for dtype, side in new:
        wraps = dtype == "uint8" and side not in SATURATED
        group, label = f"new array, {dtype}{', wrapping' * wraps}", f"{side} × {side}, 1080 × 1920"
        found += rows(group, allocating, {label: (dtype, side)}, "^7", memory=dtype == "float32")
    # The direct kernel; larger kernels use transforms.
    existing = {f"float32, {side} × {side}": ("float32", side) for side in sides if side <= 25}
    found += rows("preallocated, 1080 × 1920", preallocated, existing, " 7 ")
    one = {"float64, 25 × 25": (25,)}
    found += rows("without oneDNN, 270 × 480", without_onednn, one, threads=1, memory=False)
    return found
