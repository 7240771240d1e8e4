"""Pixel operations of several numbers by torch's operators, where C++ can't run them.

What only C++ knows is asked of it: random numbers, and which pixels are filled, by running the
operation on black. A few operations run there altogether, on a copy.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ... import _native
from ...convolution import box_blur, filter2d, gaussian_blur
from ...pixels.adjust import adjust_pixels
from .compiled import DTYPE_NAMES
from .pixel_kinds import PixelKind

More = Sequence[float]


def run_more(kind: PixelKind, images: Tensor, amount: float, more: More) -> Tensor:
    """Return images ``[N, C, H, W]``, uint8 or floating, after an operation."""
    if images.numel() == 0:
        return images
    own = _OPERATIONS.get(kind)
    return _on_cpu(kind, images, amount, more) if own is None else own(kind, images, amount, more)


def _native_run(kind: PixelKind, image: Tensor, amount: float, more: More) -> Tensor:
    """Run C++ on an image ``[C, H, W]`` of its own memory on the CPU."""
    shape = (image.shape[0], image.shape[1], image.shape[2])
    name = DTYPE_NAMES[image.dtype]
    _native.run_operation(int(kind), amount, list(more), image.data_ptr(), name, *shape)
    return image


def _on_cpu(kind: PixelKind, images: Tensor, amount: float, more: More) -> Tensor:
    dtype = torch.uint8 if images.dtype == torch.uint8 else torch.float32
    plain = images.detach().to("cpu", dtype, copy=True).contiguous()
    for image in plain:
        _native_run(kind, image, amount, more)
    return plain.to(images.device, images.dtype)


def _filled(kind: PixelKind, images: Tensor, amount: float, more: More) -> Tensor:
    """Fill the pixels that C++ fills in a black image."""
    filling = {PixelKind.HOLES: 7, PixelKind.GRID_HOLES: 8}.get(kind)
    if filling is not None and more[filling] != 0.0:
        return _on_cpu(kind, images, amount, more)
    black = torch.zeros(images.shape[1:], dtype=torch.float32, device="cpu")
    mask = _native_run(kind, black, 1.0, more).to(images.device, non_blocking=True) > 0.0
    value = min(max(amount, 0.0), 255.0) if images.dtype == torch.uint8 else amount
    own = torch.full((), value, dtype=torch.float64, device=images.device)
    return torch.where(mask, own.to(images.dtype), images)


def _salted(kind: PixelKind, images: Tensor, amount: float, more: More) -> Tensor:
    grey = torch.full(images.shape[1:], 0.5, dtype=torch.float32, device="cpu")
    found = _native_run(kind, grey, amount, more).to(images.device, non_blocking=True)
    white = 255 if images.dtype == torch.uint8 else 1.0
    out = torch.where(found == 1.0, torch.full_like(images, white), images)
    return torch.where(found == 0.0, torch.zeros_like(images), out)


def _gaussian_noise(kind: PixelKind, images: Tensor, sigma: float, more: More) -> Tensor:
    mean, clip, key = more[:3]
    normal = torch.empty(images.shape[1:], dtype=torch.float32, device="cpu")
    _native.random_floats(key, True, normal.data_ptr(), normal.numel())
    normal = normal.to(images.device, non_blocking=True)
    if images.dtype == torch.uint8:
        noise = _float32(mean) * 255.0 + normal * (_float32(sigma) * 255.0)
        out = images.int() + noise.int()
        return (out.clamp(0, 255) if clip else out & 255).to(torch.uint8)
    out = images + (mean + normal * sigma).to(images.dtype)
    return out.clamp(0.0, 1.0) if clip else out


def _float32(value: float) -> float:
    return float(torch.tensor(value, dtype=torch.float32, device="cpu"))


def _hsv(kind: PixelKind, images: Tensor, shift: float, more: More) -> Tensor:
    if images.dtype == torch.uint8:
        return _hsv_bytes(images, shift, more)
    red, green, blue = images.unbind(-3)
    value = torch.maximum(red, torch.maximum(green, blue))
    span = value - torch.minimum(red, torch.minimum(green, blue))
    share = torch.where(span > 0, 1.0 / torch.where(span > 0, span, 1.0), 0.0)
    hue = torch.where(
        value == red,
        (green - blue) * share,
        torch.where(value == green, (blue - red) * share + 2.0, (red - green) * share + 4.0),
    )
    hue = (hue + shift * 6.0).remainder(6.0)
    saturation = torch.where(value > 0, span / torch.where(value > 0, value, 1.0), 0.0)
    saturation = (saturation * (1.0 + more[0])).clamp(0.0, 1.0)
    return _from_hsv(hue, saturation, (value * (1.0 + more[1])).clamp(0.0, 1.0))


def _from_hsv(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    sector = hue.floor()
    rest = hue - sector
    least = value * (1.0 - saturation)
    falling = value * (1.0 - saturation * rest)
    rising = value * (1.0 - saturation * (1.0 - rest))
    s = [sector == k for k in range(5)]
    where = torch.where
    red = where(s[1], falling, where(s[2] | s[3], least, where(s[4], rising, value)))
    green = where(s[0], rising, where(s[1] | s[2], value, where(s[3], falling, least)))
    blue = where(s[0] | s[1], least, where(s[2], rising, where(s[3] | s[4], value, falling)))
    return torch.stack((red, green, blue), -3)


def _hsv_bytes(images: Tensor, shift: float, more: More) -> Tensor:
    levels = torch.arange(256, dtype=torch.float64, device="cpu")
    turned = torch.fmod(levels + shift * 180.0, 180.0)
    hues = torch.where(turned < 0.0, turned + 180.0, turned).int() % 180
    gains = [(levels * (gain + 1.0)).clamp(0.0, 255.0).int() for gain in more[:2]]
    gains[0][0] = 0
    ratios = [
        (full * 4096.0 / levels).nan_to_num(posinf=0.0).round().int() for full in (255.0, 30.0)
    ]
    tables = [table.to(images.device) for table in (hues, *gains, *ratios)]
    red, green, blue = images.int().unbind(-3)
    value = torch.maximum(red, torch.maximum(green, blue))
    span = value - torch.minimum(red, torch.minimum(green, blue))
    saturation = (span * tables[3][value] + 2048) >> 12
    sixths = torch.where(
        value == red,
        green - blue,
        torch.where(value == green, blue - red + 2 * span, red - green + 4 * span),
    )
    hue = (sixths * tables[4][span] + 2048) >> 12
    hue = torch.where(hue < 0, hue + 180, hue)
    out = _from_hsv(
        tables[0][hue].float() * _float32(6.0 / 180.0),
        tables[1][saturation].float() * _float32(1.0 / 255.0),
        tables[2][value].float() * _float32(1.0 / 255.0),
    )
    return (out * 255.0).round().clamp(0.0, 255.0).to(torch.uint8)


def _box(kind: PixelKind, images: Tensor, side: float, more: More) -> Tensor:
    return box_blur(images, int(side), channels="first")


def _gaussian(kind: PixelKind, images: Tensor, sigma: float, more: More) -> Tensor:
    return gaussian_blur(images, (int(more[1]), int(more[0])), sigma, channels="first")


def _motion(kind: PixelKind, images: Tensor, side: float, more: More) -> Tensor:
    # The kernel is what C++ makes of a single white pixel, turned by half a circle.
    shape = 1, 2 * int(side) + 1, 2 * int(side) + 1
    dot = torch.zeros(shape, dtype=torch.float32, device="cpu")
    dot[0, int(side), int(side)] = 1.0
    return _correlated(images, _native_run(kind, dot, side, more)[0].flip(0, 1))


def _correlated(images: Tensor, kernel: Tensor) -> Tensor:
    return filter2d(images, kernel.to(images.device), border="reflect_101", channels="first")


def _embossed(kind: PixelKind, images: Tensor, alpha: float, more: More) -> Tensor:
    s = more[0]
    return _blended(images, [[-1 - s, -s, 0], [-s, 1, s], [0, s, 1 + s]], alpha)


def _sharpened(kind: PixelKind, images: Tensor, alpha: float, more: More) -> Tensor:
    return _blended(images, [[-1, -1, -1], [-1, 8.0 + more[0], -1], [-1, -1, -1]], alpha)


def _blended(images: Tensor, effect: list[list[float]], alpha: float) -> Tensor:
    same = [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    one, other = (torch.tensor(k, dtype=torch.float32, device="cpu") for k in (same, effect))
    out = _correlated(images, (1.0 - alpha) * one + alpha * other)
    return out.clamp(0.0, 1.0) if images.is_floating_point() else out


def _unsharp(kind: PixelKind, images: Tensor, alpha: float, more: More) -> Tensor:
    side, sigma = int(more[0]), more[1] if more[1] > 0.0 else None
    values = images.float() / 255.0 if images.dtype == torch.uint8 else images
    residual = values - gaussian_blur(values, side, sigma, channels="first")
    edges = (residual.detach().abs() * 255.0 > more[2]).to(values.dtype)
    soft = gaussian_blur(edges, side, sigma, channels="first")
    sharp = (values + alpha * residual).clamp(0.0, 1.0)
    out = (sharp * soft + values * (1.0 - soft)).clamp(0.0, 1.0)
    return (out * 255.0).round().to(torch.uint8) if images.dtype == torch.uint8 else out


def _median(kind: PixelKind, images: Tensor, side: float, more: More) -> Tensor:
    radius, (height, width) = int(side) // 2, images.shape[-2:]
    rows, columns = (
        torch.arange(-radius, n + radius, device=images.device).clamp(0, n - 1)
        for n in (height, width)
    )
    wide = images[..., rows, :][..., columns]
    windows = wide.unfold(-2, int(side), 1).unfold(-2, int(side), 1)
    return windows.flatten(-2).median(-1).values


def _downscaled(kind: PixelKind, images: Tensor, factor: float, more: More) -> Tensor:
    rows, columns = (
        torch.tensor(_positions(n, factor), device=images.device) for n in images.shape[-2:]
    )
    return images[..., rows, :][..., columns]


def _jpeg(kind: PixelKind, images: Tensor, quality: float, more: More) -> Tensor:
    plain = images.detach().to(torch.uint8 if images.dtype == torch.uint8 else torch.float32)
    count = len(images)
    return adjust_pixels(plain, [int(kind)] * count, [quality] * count).to(images.dtype)


def _positions(side: int, factor: float) -> list[int]:
    small = max(round(side * factor), 1)
    up = 1.0 / (side / small)  # as in core/pixels/downscale.h
    at = [min(math.floor(i * up), small - 1) for i in range(side)]
    return [min(math.floor(i * (1.0 / factor)), side - 1) for i in at]


_OPERATIONS: dict[PixelKind, Callable[[PixelKind, Tensor, float, More], Tensor]] = {
    PixelKind.GAUSSIAN_NOISE: _gaussian_noise,
    PixelKind.SALT_AND_PEPPER: _salted,
    PixelKind.HSV: _hsv,
    PixelKind.DROP_CHANNELS: _filled,
    PixelKind.HOLES: _filled,
    PixelKind.GRID_HOLES: _filled,
    PixelKind.BOX_BLUR: _box,
    PixelKind.GAUSSIAN_BLUR: _gaussian,
    PixelKind.MEDIAN_BLUR: _median,
    PixelKind.MOTION_BLUR: _motion,
    PixelKind.UNSHARP_MASK: _unsharp,
    PixelKind.EMBOSS: _embossed,
    PixelKind.SHARPEN: _sharpened,
    PixelKind.DOWNSCALE: _downscaled,
    PixelKind.JPEG: _jpeg,
}
