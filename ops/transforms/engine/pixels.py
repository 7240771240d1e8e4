"""Runs pixel operations on the images of a leaf: csrc/core/pixels, or torch's own operators.

torch's run where the kernels can't: on float64, where a gradient is wanted, and on a GPU for those
operations that have no kernel there, or are larger than it takes.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._native import (
    GREY,
    MOST_BLUR_SIDE,
    MOST_CLAHE_TILES,
    MOST_GRID_CELLS,
    MOST_HOLES,
    MOST_MEDIAN_SIDE,
    MOST_MOTION_SIDE,
    pixel_turns,
)
from ..._native import run_pixels as run_native
from ..._torch.native import modes_or_transforms_active
from ...convolution.blurs import gaussian
from ...convolution.filter_separable import MOST_TAPS, filter_separable
from ...pixels.adjust import adjust_pixels
from ...warp.augment_options import AugmentOptions
from ..sample.leaf import Leaf
from .compiled import DTYPE_NAMES, Compiled
from .integers import WHITES, float_fill, from_float, to_float
from .more_pixels import run_more
from .pixel_kinds import BY_VALUES, PixelKind
from .plan import Plan
from .run import Pixels, reject_dtype
from .sampling import run_all

_HALF = (torch.float16, torch.bfloat16)
# Each image's operation: kinds [N], amounts [N], and more numbers [N, MORE_NUMBERS].
Turn = tuple[np.ndarray, np.ndarray, np.ndarray]
_IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
_CELLS_GIVEN = 2.0  # the kind of grid whose numbers are cells
_FILLING = (PixelKind.DROP_CHANNELS, PixelKind.HOLES, PixelKind.GRID_HOLES)  # by their amount


def run_pixels(
    plan: Plan, native: Compiled, leaf: Leaf, pixels: Pixels, memory_format: torch.memory_format
) -> None:
    """Apply each sample's operations to a leaf's value."""
    dtype = reject_dtype(leaf, pixels.dtype)
    images = to_float(pixels.tensors(leaf))
    if dtype in _HALF:
        images = [i.float() for i in images] if isinstance(images, list) else images.float()
    white = WHITES.get(dtype, 1.0)
    mode, fill = native.sampling.modes[0], float_fill("", native.sampling.fill, pixels.dtype)
    listed = isinstance(images, list)
    frames = pixels.frames
    # Lists may hold samples of several sizes; their frames are alike.
    groups = [images]
    if listed:
        groups = [torch.stack(images[i : i + frames]) for i in range(0, len(images), frames)]
    count = 1 if listed else plan.batch
    results = [
        _run(plan, group, mode, fill, begin, count, frames, white)
        for begin, group in enumerate(groups)
    ]
    found: Any = [frame for result in results for frame in result] if listed else results[0]
    if dtype in WHITES:
        found = from_float(found, dtype)
    elif dtype in _HALF:
        found = [f.to(dtype) for f in found] if listed else found.to(dtype)
    if not listed:
        found = found.contiguous(memory_format=memory_format)
    pixels.store(leaf, found)


def _run(
    plan: Plan,
    images: Tensor,
    mode: str,
    fill: list[float],
    begin: int,
    count: int,
    frames: int,
    white: float,
) -> Tensor:
    """Return images [count * frames, C, H, W] after the operations of their samples.

    Images of integers have been divided by `white`.
    """
    watched = images.requires_grad or modes_or_transforms_active()
    if images.is_cpu and images.dtype in BY_VALUES and not watched:
        # clone() would take three times as long: it does not see that this is one piece of memory.
        out = torch.empty(images.shape, dtype=images.dtype, device="cpu").copy_(images)
        height, width = images.shape[-2:]
        options = (mode, fill, begin, count, frames, white)
        run_native(plan, out.data_ptr(), DTYPE_NAMES[out.dtype], height, width, *options)
        return out
    turns = [_with_white(turn, white) for turn in pixel_turns(plan, begin, count, frames)]
    if not turns:
        return images
    if images.dtype in BY_VALUES and not watched:
        for turn, rows in zip(turns, _rows_of(turns, images.device), strict=True):
            images = _one_each(turn, rows, images, mode, fill)
        return images
    parts = []
    for index in range(count * frames):
        part = images[index : index + 1]
        for turn in turns:
            number, amount, numbers = (values[index] for values in turn)
            kind = PixelKind(number)
            if kind == PixelKind.AFFINE:
                part = _warp(part, _uploaded(numbers[:6], images.device), mode, fill)
            elif kind in _OPERATIONS:
                part = _OPERATIONS[kind](part, float(amount))
            elif kind != PixelKind.IDENTITY:
                part = run_more(kind, part, float(amount), numbers.tolist())
        parts.append(part)
    return torch.cat(parts) if parts else images


def _with_white(turn: Turn, white: float) -> Turn:
    """Divide values that fill or are compared by `white`, as those of images of integers were.

    A threshold goes between two integers, so that no rounding matters.
    """
    if white == 1.0:
        return turn
    kinds, amounts, numbers = turn
    amounts = np.where(kinds == PixelKind.SOLARIZE_AT, np.ceil(amounts) - 0.5, amounts)
    divided = np.isin(kinds, (*_FILLING, PixelKind.SOLARIZE_AT))
    return kinds, np.where(divided, amounts / white, amounts), numbers


def _rows_of(turns: Sequence[Turn], device: torch.device) -> list[Tensor | None]:
    """Return the matrices [N, 2, 3] of each turn that warps images, uploaded in one copy."""
    warps = [kinds == PixelKind.AFFINE for kinds, _, _ in turns]
    matrices = [
        np.where(warped[:, None], numbers[:, :6], _IDENTITY)
        for warped, (_, _, numbers) in zip(warps, turns, strict=True)
        if warped.any()
    ]
    if not matrices:
        return [None] * len(turns)
    rows = iter(_uploaded(np.concatenate(matrices), device).split(len(turns[0][0])))
    return [next(rows) if warped.any() else None for warped in warps]


def _uploaded(matrices: np.ndarray, device: torch.device) -> Tensor:
    rows = torch.from_numpy(np.array(matrices, np.float64).reshape(-1, 2, 3))
    return rows.to(device, non_blocking=True)


def _one_each(
    turn: Turn, rows: Tensor | None, images: Tensor, mode: str, fill: list[float]
) -> Tensor:
    """Run an operation for each image: those of a kind together, in as many calls as kinds."""
    kinds, amounts, numbers = turn
    present = set(kinds.tolist())
    alone = ~_IS_DONE[kinds]  # no kernel for a batch has them
    if not _LIMITED.isdisjoint(present):
        alone |= _beyond_limits(turn)
    if rows is not None:
        images = _warp(images, rows, mode, fill)
    if not _ADJUSTED.isdisjoint(present):
        known = np.where(_IS_ADJUSTED[kinds] & ~alone, kinds, 0)
        more: list[float] = []
        if not _WITH_MORE.isdisjoint(present):
            more = np.where(_HAS_MORE[kinds][:, None], numbers, 0.0).ravel().tolist()
        images = adjust_pixels(images, known.tolist(), amounts.tolist(), more)
    if PixelKind.GAUSSIAN_BLUR in present:
        takes = kinds == PixelKind.GAUSSIAN_BLUR
        for size in sorted({(int(w), int(h)) for w, h in numbers[takes, :2]}):
            images = _blur(amounts, images, size, takes & (numbers[:, :2] == size).all(1))
    if alone.any():
        images = images.clone()
        for i in np.flatnonzero(alone).tolist():
            kind, one = PixelKind(kinds[i]), slice(i, i + 1)
            images[one] = run_more(kind, images[one], float(amounts[i]), numbers[i].tolist())
    return images


def _beyond_limits(turn: Turn) -> np.ndarray:
    """Return which operations are larger than adjust_pixels() takes."""
    kinds, amounts, numbers = turn
    tiles, cells = numbers[:, :2].max(1, initial=0.0), numbers[:, 4:6].max(1, initial=0.0)
    beyond = np.zeros(len(kinds), bool)
    for kind, found in (
        (PixelKind.MEDIAN_BLUR, amounts > MOST_MEDIAN_SIDE),
        (PixelKind.MOTION_BLUR, amounts > MOST_MOTION_SIDE),
        (PixelKind.BOX_BLUR, amounts > MOST_BLUR_SIDE),
        (PixelKind.UNSHARP_MASK, numbers[:, 0] > MOST_BLUR_SIDE),
        (PixelKind.CLAHE, tiles > MOST_CLAHE_TILES),
        (PixelKind.HOLES, numbers[:, 2] > MOST_HOLES),
        (PixelKind.GRID_HOLES, (numbers[:, 3] == _CELLS_GIVEN) & (cells > MOST_GRID_CELLS)),
    ):
        beyond |= (kinds == kind) & found
    return beyond


def _blur(sigmas: np.ndarray, images: Tensor, size: tuple[int, int], takes: np.ndarray) -> Tensor:
    """Blur some images by a kernel of this width and height; others stay as they are."""
    if max(size) > MOST_TAPS:
        images = images.clone()
        for i in np.flatnonzero(takes).tolist():
            one = slice(i, i + 1)
            images[one] = run_more(PixelKind.GAUSSIAN_BLUR, images[one], float(sigmas[i]), size)
        return images
    own_sigmas = np.where(takes, sigmas, 1.0)[:, None]
    weights: list[list[float]] = []
    for taps in size:
        own = gaussian(taps, own_sigmas)
        own[~takes] = np.arange(taps) == taps // 2
        weights.append(own.ravel().tolist())
    return filter_separable(images, weights[0], weights[1], shared=False, pairs=True)


def _warp(images: Tensor, rows: Tensor, mode: str, fill: list[float]) -> Tensor:
    """Warp each image by a matrix of its own, or all by one."""
    rows = rows.expand(len(images), 2, 3)
    options = AugmentOptions(mode, fill=fill, half_pixel=True, out_dtype=images.dtype)
    return run_all(images, rows, images.shape[-2:], options)


def _white(images: Tensor) -> float:
    return 255.0 if images.dtype == torch.uint8 else 1.0


def _grey(images: Tensor) -> Tensor:
    values = images if images.is_floating_point() else images.float()
    if images.shape[-3] < 3:
        return values[..., :1, :, :]
    red, green, blue = (values[..., c : c + 1, :, :] for c in range(3))
    grey = red * GREY[0] + green * GREY[1] + blue * GREY[2]
    return grey if images.is_floating_point() else grey.floor()


def _stored(values: Tensor, like: Tensor) -> Tensor:
    values = values.clamp(0.0, _white(like))
    return values if like.is_floating_point() else values.to(like.dtype)


def _blend(images: Tensor, others: Tensor, ratio: float) -> Tensor:
    values = images if images.is_floating_point() else images.float()
    return _stored(values * ratio + others * (1.0 - ratio), images)


def _brightness(images: Tensor, factor: float) -> Tensor:
    values = images if images.is_floating_point() else images.float()
    return _stored(values * factor, images)


def _contrast(images: Tensor, factor: float) -> Tensor:
    mean = _grey(images).to(torch.float64).mean((-3, -2, -1), keepdim=True)
    dtype = images.dtype if images.is_floating_point() else torch.float32
    return _blend(images, mean.to(dtype), factor)


def _saturation(images: Tensor, factor: float) -> Tensor:
    return images if images.shape[-3] < 3 else _blend(images, _grey(images), factor)


def _sharpness(images: Tensor, factor: float) -> Tensor:
    height, width = images.shape[-2:]
    if height <= 2 or width <= 2:
        return images
    values = images if images.is_floating_point() else images.float()
    # Sums of rows, then of columns, and four more of the middle.
    rows = values[..., :-2] + values[..., 1:-1] + values[..., 2:]
    sums = rows[..., :-2, :] + rows[..., 1:-1, :] + rows[..., 2:, :]
    middle = values[..., 1:-1, 1:-1]
    blurred = (sums + 4.0 * middle) * (1.0 / 13.0)
    if not images.is_floating_point():
        blurred = blurred.round()
    inner = _stored(middle + (1.0 - factor) * (blurred - middle), images)
    out = images.clone()
    out[..., 1:-1, 1:-1] = inner
    return out if images.dtype == torch.uint8 else out.clamp(0.0, 1.0)


def _posterize(images: Tensor, bits: float) -> Tensor:
    count = min(max(int(bits), 0), 8)
    if images.dtype == torch.uint8:
        return images if count >= 8 else images & (((1 << count) - 1) << (8 - count))
    levels = float(1 << count)
    return (images * levels).floor().clamp(0.0, levels - 1.0) * (1.0 / levels)


def _invert(images: Tensor, _: float) -> Tensor:
    return 255 - images if images.dtype == torch.uint8 else 1.0 - images


def _solarize(images: Tensor, share: float) -> Tensor:
    return _solarize_at(images, share * _white(images))


def _solarize_at(images: Tensor, threshold: float) -> Tensor:
    # torch would compare integers with a fraction in its default dtype.
    values = images if images.is_floating_point() else images.float()
    return torch.where(values >= threshold, _invert(images, 0.0), images)


def _solarize_add(images: Tensor, levels: float) -> Tensor:
    if images.dtype == torch.uint8:
        added = (images.float() + levels).clamp(0.0, 255.0).to(torch.uint8)
        return torch.where(images < 128, added, images)
    added = (images + levels / 255.0).clamp(0.0, 1.0)
    return torch.where(images < 128.0 / 255.0, added, images)


def _autocontrast(images: Tensor, _: float) -> Tensor:
    if images.numel() == 0:
        return images
    values = images if images.is_floating_point() else images.float()
    low, high = values.amin((-2, -1), keepdim=True), values.amax((-2, -1), keepdim=True)
    scale = (high - low) * (1.0 / _white(images))
    flat = ~(low < high)
    stretched = (values - low) / torch.where(flat, torch.ones_like(scale), scale)
    return torch.where(flat, images, _stored(stretched, images))


def _equalize(images: Tensor, _: float) -> Tensor:
    if images.numel() == 0:
        return images
    levels = images
    if images.is_floating_point():
        levels = (images.detach() * (256.0 - 1e-3)).clamp(0.0, 255.0).to(torch.uint8)
    flat = levels.flatten(-2).long()
    zeros = torch.zeros((*flat.shape[:-1], 256), dtype=torch.int64, device=images.device)
    counts = zeros.scatter_add(-1, flat, torch.ones_like(flat))
    sums = counts.cumsum(-1)
    last = counts.gather(-1, sums.argmax(-1, keepdim=True))  # of the greatest value there is
    step = (flat.shape[-1] - last) // 255
    before = sums - counts
    table = ((before + step // 2) // step.clamp(min=1)).clamp(max=255)
    table[..., 0] = 0
    moved = torch.where(step > 0, table.gather(-1, flat), flat).view_as(images)
    if images.is_floating_point():
        return moved.to(images.dtype) / 255.0
    return moved.to(torch.uint8)


def _gamma(images: Tensor, exponent: float) -> Tensor:
    if images.is_floating_point():
        return images.pow(exponent)
    values = (images.float() / 255.0).pow(exponent)
    return (values * (256.0 - 1e-3)).clamp(0.0, 255.0).to(torch.uint8)


_OPERATIONS: dict[PixelKind, Callable[[Tensor, float], Tensor]] = {
    PixelKind.BRIGHTNESS: _brightness,
    PixelKind.CONTRAST: _contrast,
    PixelKind.SATURATION: _saturation,
    PixelKind.SHARPNESS: _sharpness,
    PixelKind.POSTERIZE: _posterize,
    PixelKind.SOLARIZE: _solarize,
    PixelKind.AUTOCONTRAST: _autocontrast,
    PixelKind.EQUALIZE: _equalize,
    PixelKind.INVERT: _invert,
    PixelKind.GAMMA: _gamma,
    PixelKind.SOLARIZE_AT: _solarize_at,
    PixelKind.SOLARIZE_ADD: _solarize_add,
}
# Kinds of adjust_pixels() that take numbers behind their amount; and all of its kinds.
_WITH_MORE = {
    *(PixelKind.GAUSSIAN_NOISE, PixelKind.SHOT_NOISE, PixelKind.SALT_AND_PEPPER, PixelKind.HSV),
    *(PixelKind.DROP_CHANNELS, PixelKind.HOLES, PixelKind.GRID_HOLES, PixelKind.UNSHARP_MASK),
    *(PixelKind.MOTION_BLUR, PixelKind.EMBOSS, PixelKind.SHARPEN, PixelKind.CLAHE),
}
_WITHOUT = {PixelKind.BOX_BLUR, PixelKind.MEDIAN_BLUR, PixelKind.DOWNSCALE, PixelKind.JPEG}
_ADJUSTED = _WITH_MORE | _OPERATIONS.keys() | _WITHOUT
# Kinds with numbers that may be larger than adjust_pixels() takes.
_LIMITED = {
    *(PixelKind.MEDIAN_BLUR, PixelKind.MOTION_BLUR, PixelKind.BOX_BLUR, PixelKind.UNSHARP_MASK),
    *(PixelKind.CLAHE, PixelKind.HOLES, PixelKind.GRID_HOLES),
}
_DONE = {PixelKind.IDENTITY, PixelKind.AFFINE, PixelKind.GAUSSIAN_BLUR, *_ADJUSTED}
# The same by number.
_HAS_MORE, _IS_ADJUSTED, _IS_DONE = (
    np.array([kind in kinds for kind in PixelKind]) for kinds in (_WITH_MORE, _ADJUSTED, _DONE)
)
