"""Blurs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ..convolution.blurs import gaussian, gaussian_blur
from ..convolution.filter_separable import DTYPES, MOST_TAPS, filter_separable
from .arguments import fail, interval, is_sequence, number, whole
from .engine.effects import Effects
from .engine.integers import WHITES, from_float, to_float
from .engine.plan import Canvas, Plan
from .engine.run import Pixels, refuse_dtype
from .sample.leaf import Leaf
from .transform import Transform

__all__ = ["GaussianBlur"]


class GaussianBlur(Transform):
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
    Parameters: ``sigma``. It runs by itself, sample by sample: :func:`visops.gaussian_blur`, with
    the image mirrored at its rim. Masks, boxes and key points stay as they are.

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
        tiny = float(np.nextafter(0.0, 1.0))
        if is_sequence(sigma):
            self.sigma = interval(owner, "sigma", sigma, tiny, allowed=allowed)
        else:
            self.sigma = (number(owner, "sigma", sigma, tiny, allowed=allowed),) * 2

    def effects(self) -> Effects:
        return Effects(alone="it reads neighbours")

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> dict[str, np.ndarray]:
        low, high = self.sigma
        return {"sigma": low + uniforms[:, 0] * (high - low)}

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        """Add nothing: it joins no pass."""

    def run_images(self, leaf: Leaf, params: Mapping[str, Any]) -> None:
        pixels = Pixels(leaf)
        dtype = refuse_dtype(leaf, pixels.dtype)
        width, height = self.kernel_size
        images, sigmas = to_float(pixels.tensors(leaf)), params["sigma"].tolist()
        frames = pixels.frames
        applies = params["apply"].tolist() if "apply" in params else [True] * len(sigmas)
        for image in images if pixels.listed else images[:1]:
            self._check_size(leaf, image)
        if _takes_batches(images) and max(self.kernel_size) <= MOST_TAPS:
            blurred = self._blur_batch(images, sigmas, applies, frames)
            pixels.store(leaf, from_float(blurred, dtype) if dtype in WHITES else blurred)
            return
        parts: list[Any] = []
        for sample, sigma in enumerate(sigmas):
            part = images[sample * frames : (sample + 1) * frames]
            own = [image.unsqueeze(0) for image in part] if isinstance(part, list) else [part]
            for image in own:
                parts.append(
                    gaussian_blur(image, (height, width), sigma) if applies[sample] else image
                )
        out: Any = [image[0] for image in parts] if pixels.listed else torch.cat(parts)
        pixels.store(leaf, from_float(out, dtype) if dtype in WHITES else out)

    def _check_size(self, leaf: Leaf, image: torch.Tensor) -> None:
        width, height = self.kernel_size
        if min(image.shape[-2] - height // 2, image.shape[-1] - width // 2) < 1:
            raise ValueError(
                f"visops.transforms.GaussianBlur: kernel_size is {self.kernel_size}, "
                f"{leaf.name} has {image.shape[-2]} rows and {image.shape[-1]} columns; "
                "must be less than twice as large"
            )

    def _blur_batch(
        self, images: torch.Tensor, sigmas: list[float], applies: list[bool], frames: int
    ) -> torch.Tensor:
        """Blur all images at once, each with its own width."""
        width, height = self.kernel_size
        kept = ~np.array(applies)
        weights = []
        for size in (width, height):
            own = gaussian(size, np.array(sigmas)[:, None])
            own[kept] = np.arange(size) == size // 2
            weights.append(own.repeat(frames, 0).ravel().tolist())
        return filter_separable(images, *weights, shared=False)


def _takes_batches(images: Any) -> bool:
    return (
        isinstance(images, torch.Tensor)
        and images.is_cuda
        and images.dtype in DTYPES
        and not (images.requires_grad and torch.is_grad_enabled())
    )
