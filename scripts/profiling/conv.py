"""Convolution of one float32 channel: by the size of the image, or by that of the kernel."""

import dataclasses
import functools

import cv2
import numpy as np
import references.conv as reference
import torch
import visops
from bench.harness import Tolerance
from scipy import signal
from torch import Tensor

from .ladder import Ladder, Rung, gpu, on_threads

KERNEL = 7
COLUMNS = 2**28  # bytes of a column matrix that is still made
SUMS = Tolerance(max_abs=1e-3, why="float32 sums in another order")


def convolve(image: Tensor, kernel: Tensor, method: str) -> Tensor:
    """Our convolution, whose result is as large as the image."""
    return visops.convolve2d(image, kernel, mode="same", method=method)


def build(image_size: int, kernel_size: int) -> list[Rung]:
    """Every rung that this machine can run."""
    rng = np.random.default_rng(0)
    image = rng.uniform(-1, 1, (image_size, image_size)).astype(np.float32)
    kernel = rng.uniform(-1, 1, (kernel_size, kernel_size)).astype(np.float32)
    tensors = torch.from_numpy(image), torch.from_numpy(kernel)
    turned = np.ascontiguousarray(np.flip(kernel))
    recursive = functools.partial(reference.im2col_recursive, fall_back_dim=1)
    threads = torch.get_num_threads()

    def product(im2col: reference.Im2col) -> np.ndarray:
        return reference.convolve_im2col(image, kernel, im2col=im2col)

    columns = [
        Rung("im2col in Python + product", lambda: product(reference.im2col_naive), profiled=True),
        Rung("im2col recursive + product", lambda: product(recursive), profiled=True),
    ]
    own_columns = Rung("visops im2col + product", lambda: convolve(*tensors, "im2col"))
    fits = 4 * image.size * kernel.size <= COLUMNS
    rungs = [
        Rung("Python loop", lambda: reference.convolve_naive(image, kernel), profiled=True),
        *(columns if fits else ()),
        Rung("NumPy slices", lambda: reference.convolve_slices(image, kernel), profiled=True),
        Rung("SciPy convolve2d", lambda: signal.convolve2d(image, kernel, "same"), peer=True),
        Rung(
            "OpenCV filter2D",
            lambda: cv2.filter2D(image, -1, turned, borderType=cv2.BORDER_CONSTANT),
            peer=True,
        ),
        *((own_columns,) if fits else ()),
        Rung("visops FFT, 1 thread", lambda: convolve(*tensors, "fft")),
        *on_threads("visops direct", lambda: convolve(*tensors, "direct"), threads),
    ]
    device = gpu()
    if device is not None:
        there = tensors[0].to(device), tensors[1].to(device)
        rungs.append(Rung("visops direct, GPU", lambda: convolve(*there, "direct"), device=device))
    return [dataclasses.replace(rung, tolerance=SUMS) for rung in rungs]


def by_image(kernel_size: int = KERNEL) -> Ladder:
    """Square images of any side, one kernel."""
    return Ladder(
        op="conv",
        job=f"a float32 image and a kernel of {kernel_size} × {kernel_size}",
        unit="side of the image",
        sizes=(16, 32, 64, 128, 256, 512, 1024),
        work=lambda size: size**2,
        build=lambda size: build(size, kernel_size),
    )


def by_kernel(image_size: int) -> Ladder:
    """Square kernels of any side, one image."""
    return Ladder(
        op="conv_kernel",
        job=f"a float32 image of {image_size} × {image_size}",
        unit="side of the kernel",
        sizes=(3, 5, 7, 11, 15, 25, 35, 51),
        work=lambda size: size**2,
        build=lambda size: build(image_size, size),
    )
