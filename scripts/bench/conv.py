"""Convolutions, im2col and network layers against other libraries.

One image and one kernel: SciPy, OpenCV and F.conv2d, with a new array for each result, then with
the same one for all. im2col: a copy of its own result, F.unfold. Layers: F.conv2d, that is oneDNN.
"""

from bench.convolution import columns, images, networks
from bench.harness import Case


def all_cases() -> list[Case]:
    """The cases that this machine can run."""
    return images.cases() + columns.cases() + networks.cases()
