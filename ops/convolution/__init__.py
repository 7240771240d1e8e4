"""Convolutions of signals and of networks, and im2col."""

from .blurs import box_blur, gaussian_blur, sobel
from .conv2d import conv2d
from .convolve2d import convolve2d, correlate2d
from .filter2d import filter2d
from .im2col import col2im, im2col

__all__ = [
    "box_blur",
    "col2im",
    "conv2d",
    "convolve2d",
    "correlate2d",
    "filter2d",
    "gaussian_blur",
    "im2col",
    "sobel",
]
