"""Convolutions of signals and of networks, and im2col."""

from .conv2d import conv2d
from .convolve2d import convolve2d, correlate2d
from .im2col import col2im, im2col

__all__ = [
    "col2im",
    "conv2d",
    "convolve2d",
    "correlate2d",
    "im2col",
]
