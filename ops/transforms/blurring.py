"""Blurs."""

import math
from collections.abc import Sequence
from typing import Any

from .._native import Step
from .arguments import fail, interval, is_sequence, number, whole
from .engine.effects import Effects
from .transform import Builtin


class GaussianBlur(Builtin):
    """Blur the image with a Gaussian of a random width.

    Arguments and distribution match torchvision's.

    Parameters
    ----------
    kernel_size : int or pair of int
        Width and height of the kernel in pixels, odd.
    sigma : float or pair of float
        Standard deviation in pixels, or its range.

    Raises
    ------
    ValueError
        An argument is wrong; the image is not larger than half of the kernel.

    Notes
    -----
    Parameters: ``sigma``. The image is mirrored at its rim. Masks, boxes and key points stay as
    they are.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> image = torch.zeros(1, 5, 5)
    >>> image[0, 2, 2] = 1.0
    >>> transforms.GaussianBlur(3, sigma=0.8)(image)[0, 2]
    tensor([0.0000, 0.1248, 0.2725, 0.1248, 0.0000])
    """

    draws = 1

    def __init__(
        self, kernel_size: int | Sequence[int], sigma: float | Sequence[float] = (0.1, 2.0)
    ) -> None:
        super().__init__()
        owner, allowed = "GaussianBlur", "an odd whole number or two of them (width, height)"
        given: Any = kernel_size if is_sequence(kernel_size) else (kernel_size, kernel_size)
        sizes = [whole(owner, "kernel_size", size, 1, allowed) for size in given]
        if len(sizes) != 2 or any(size % 2 == 0 for size in sizes):
            fail(owner, "kernel_size", kernel_size, allowed)
        self.kernel_size: tuple[int, int] = (sizes[0], sizes[1])
        allowed = "a number > 0 or two of them (min, max)"
        tiny = math.nextafter(0.0, 1.0)
        if is_sequence(sigma) and len(sigma) == 1:  # torchvision's second version takes one
            sigma = sigma[0]
        if is_sequence(sigma):
            self.sigma = interval(owner, "sigma", sigma, tiny, allowed=allowed)
        else:
            self.sigma = (number(owner, "sigma", sigma, tiny, allowed=allowed),) * 2

    def changes_values(self) -> bool:
        return True

    def effects(self) -> Effects:
        return Effects()

    def chain_step(self) -> Step | None:
        return Step("GaussianBlur", (*self.kernel_size, *self.sigma))
