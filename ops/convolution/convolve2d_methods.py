"""The methods of convolve2d and correlate2d that need no transform: direct and im2col."""

import math

import torch
from torch import Tensor

from .._torch.autocast import full_product
from .._torch.shapes import holds, is_known
from .convolve2d_extension import extended, windows
from .convolve2d_narrow import convolve_rows
from .convolve2d_problem import SIGNED, Problem, fill_tensor, of_one_size, turned

# Elements of the matrix of windows that im2col may make at once.
_MATRIX = 1 << 22

_HALVES = (torch.float16, torch.bfloat16)


def convolve_direct(p: Problem) -> Tensor:
    """Return the sums over the kernel, in the same order on every device."""
    fill = fill_tensor(p.fill, p.image.dtype)
    return convolve_rows(p.image, p.kernel, p.start, p.size, p.boundary, fill, p.flip)


def convolve_im2col(p: Problem) -> Tensor:
    """Return matrix products with windows of the image, some rows of the output at a time."""
    dtype = p.image.dtype
    p = extended(of_one_size(p))
    kernel = turned(p.kernel) if p.flip else p.kernel
    image = p.image
    if dtype in _HALVES:  # sums in float32
        image, kernel = image.float(), kernel.float()
    kh, kw = kernel.shape[-2:]
    top, left = (s - (k - 1) * p.flip for s, k in zip(p.start, (kh, kw), strict=True))
    height, width = p.size
    images = math.prod(image.shape[:-2])
    rows = max(1, _MATRIX // max(1, images * kh * kw * width)) if is_known(images) else height
    parts = []
    for first in range(0, height, rows):
        last = min(height, first + rows)
        ends = (top + first, left), (top + last + kh - 1, left + width + kw - 1)
        parts.append(_windows_times(image, kernel, ends, p.fill, p.lead))
    found = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
    return found.reshape(*p.lead, height, width).to(dtype)


def _windows_times(
    image: Tensor,
    kernel: Tensor,
    ends: tuple[tuple[int, int], tuple[int, int]],
    fill: int | float | complex,
    lead: tuple[int, ...],
) -> Tensor:
    """Return the sums [*lead, pixels] of windows within rows and columns `ends`."""
    kh, kw = kernel.shape[-2:]
    images = image.reshape(-1, 1, *image.shape[-2:])
    columns = windows(images, *ends, (kh, kw), (1, 1), fill, "unfold")  # [N, kh * kw, pixels]
    weights = kernel.flatten(-2)  # [..., kh * kw]
    split = _bank(image.shape[:-2], kernel.shape[:-2])
    if split is not None:  # one product: every kernel with every image
        weights = weights.reshape(-1, kh * kw)  # [F, kh * kw]
    else:
        columns = columns.reshape(*image.shape[:-2], *columns.shape[-2:])
        weights = weights[..., None, :]
    found = _product(weights, columns)
    return found.reshape(*lead, found.shape[-1])


def _bank(images: torch.Size, kernels: torch.Size) -> int | None:
    """Return where dimensions of images end and dimensions of kernels begin; None if they mix."""
    dims = max(len(images), len(kernels))
    of_images = (1,) * (dims - len(images)) + tuple(images)
    of_kernels = (1,) * (dims - len(kernels)) + tuple(kernels)
    for split in range(dims + 1):
        if all(holds(n == 1) for n in (*of_kernels[:split], *of_images[split:])):
            return split
    return None


def _product(weights: Tensor, columns: Tensor) -> Tensor:
    """Return ``weights @ columns``; integers modulo 2^n."""
    dtype = weights.dtype
    if dtype.is_floating_point or dtype.is_complex:
        return full_product(weights, columns)
    # torch doesn't multiply matrices of unsigned integers; the bits are those of signed ones.
    signed = SIGNED.get(dtype, dtype)
    weights, columns = weights.view(signed), columns.view(signed)
    if weights.device.type == "cpu":
        return (weights @ columns).view(dtype)
    products = weights[..., :, :, None] * columns[..., None, :, :]
    return products.sum(-2, dtype=signed).view(dtype)
