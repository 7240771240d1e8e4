"""Runs pixel operations on the images of a leaf by torch's operators.

Values are those of C++ (execute.py), which computes in float32. Half precision, float64 and
integers without kernels go through that. What an operation leaves alone keeps all its digits.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from ..._native import pixel_turns
from ..._torch.call import modes_or_transforms_active
from ...convolution import gaussian_blur
from ...convolution.blurs import gaussian
from ...convolution.filter2d import MOST_TAPS, filter_separable
from ...pixels.adjust import adjust_pixels
from ...pixels.morphology import dilated
from ...warp.augment_arguments import AugmentOptions
from ..sample.leaf import Leaf
from ..targets.masks import change_each_mask
from .compile import Compiled
from .integers import WHITES, float_fill, from_float, to_float
from .operator_calls import per_image, run_all
from .operators import Pixels, reject_dtype
from .pixel_kinds import BY_VALUES, PixelKind
from .plan import Plan

_HALF = (torch.float16, torch.bfloat16)
# Each image's operation: kinds [N], amounts [N], and more numbers [N, MORE_NUMBERS].
Turn = tuple[np.ndarray, np.ndarray, np.ndarray]
_IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
_FILLING = (PixelKind.DROP_CHANNELS, PixelKind.HOLES, PixelKind.GRID_HOLES)  # by their amount


def run_pixels(
    plan: Plan, native: Compiled, leaf: Leaf, pixels: Pixels, memory_format: torch.memory_format
) -> None:
    """Apply each sample's operations to a leaf's value."""
    dtype, frames = reject_dtype(leaf, pixels.dtype), pixels.frames
    images = to_float(pixels.tensors(leaf))
    mode, fill = native.sampling.modes[0], float_fill("", native.sampling.fill, dtype)
    listed = isinstance(images, list)
    # Lists may hold samples of several sizes; their frames are alike.
    groups = [images]
    if listed:
        groups = [torch.stack(images[i : i + frames]) for i in range(0, len(images), frames)]
    count, white = 1 if listed else plan.batch, WHITES.get(dtype, 1.0)
    results = []
    for begin, group in enumerate(groups):
        values = group.float() if group.dtype in _HALF else group
        turns = [_with_white(turn, white) for turn in pixel_turns(plan, begin, count, frames)]
        if _wants_gradient(values):
            _reject_gradient(leaf, turns)
        for turn in turns:
            values = _one_each(turn, values, mode, fill)
        results.append(values)
    found: Any = [frame for result in results for frame in result] if listed else results[0]
    if dtype in WHITES:
        found = from_float(found, dtype)
    elif results[0].dtype is not dtype:
        found = [f.to(dtype) for f in found] if listed else found.to(dtype)
    if not listed:
        found = found.contiguous(memory_format=memory_format)
    pixels.store(leaf, found)


def _wants_gradient(images: Tensor) -> bool:
    if images.requires_grad and torch.is_grad_enabled():
        return True
    return forward_ad._current_level >= 0 and forward_ad.unpack_dual(images).tangent is not None


def _reject_gradient(leaf: Leaf, turns: Sequence[Turn]) -> None:
    """Refuse operations that have no gradient, rather than lose it."""
    found = {PixelKind(kind) for kinds, _, _ in turns for kind in np.unique(kinds)}
    for kind in sorted(found - _DIFFERENTIABLE):
        name = kind.name.lower().replace("_", " ")
        raise RuntimeError(
            f"visops.transforms: {leaf.name} wants a gradient, and a pixel operation ({name}) has "
            "none; must be detached, or the chain must do without it"
        )


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


def _one_each(turn: Turn, images: Tensor, mode: str, fill: list[float]) -> Tensor:
    """Run an operation for each image: those of a kind together, in as many calls as kinds."""
    kinds, amounts, numbers = turn
    present = set(kinds.tolist())
    if PixelKind.AFFINE in present:
        warped = (kinds == PixelKind.AFFINE)[:, None]
        images = _warp(images, np.where(warped, numbers[:, :6], _IDENTITY), mode, fill)
    if not present <= _DIFFERENTIABLE:
        known = np.where(np.isin(kinds, [*_DIFFERENTIABLE]), 0, kinds)
        if images.dtype not in BY_VALUES:
            images = _inverted(images, kinds, amounts)
            known = np.where(np.isin(kinds, _INVERTING), 0, known)
        more: list[float] = []
        if not _WITH_MORE.isdisjoint(present):
            takes = np.isin(kinds, [*_WITH_MORE])
            more = np.where(takes[:, None], numbers, 0.0).ravel().tolist()
        arguments = known.tolist(), amounts.tolist(), more
        if images.dtype in BY_VALUES:
            images = adjust_pixels(images, *arguments)
        else:
            plain = images.float()
            adjusted = adjust_pixels(plain, *arguments)
            images = torch.where(adjusted == plain, images, adjusted.to(images.dtype))
    if PixelKind.GAUSSIAN_BLUR in present:
        takes = kinds == PixelKind.GAUSSIAN_BLUR
        for size in sorted({(int(w), int(h)) for w, h in numbers[takes, :2]}):
            images = _blur(amounts, images, size, takes & (numbers[:, :2] == size).all(1))
    if PixelKind.MORPHOLOGY in present:
        images = torch.stack([_dilated(turn, i, image) for i, image in enumerate(images)])
    return images


def _dilated(turn: Turn, position: int, planes: Tensor) -> Tensor:
    """Dilate or erode what belongs to an image, if its operation is that."""
    kinds, amounts, numbers = turn
    if kinds[position] != PixelKind.MORPHOLOGY:
        return planes
    width, height = numbers[position, :2].tolist()
    return dilated(planes, int(width), int(height), bool(amounts[position]))


def dilate_masks(leaves: Sequence[Leaf], plan: Plan) -> None:
    """Dilate or erode masks as a plan does images."""
    for turn in pixel_turns(plan, 0, plan.batch, 1):
        if PixelKind.MORPHOLOGY in turn[0]:
            for leaf in leaves:
                if leaf.kind == "mask":
                    change_each_mask(leaf, partial(_dilated, turn))


def _inverted(images: Tensor, kinds: np.ndarray, amounts: np.ndarray) -> Tensor:
    """Invert what is at or above a threshold, in float64: integers of 32 bits keep all digits."""
    inverts = np.where(kinds == PixelKind.INVERT, -np.inf, amounts)
    thresholds = np.where(np.isin(kinds, _INVERTING), inverts, np.nan)  # which nothing reaches
    (rows,) = per_image(thresholds[None], torch.float64, images.device)
    return torch.where(images >= rows, 1.0 - images, images)


def _blur(sigmas: np.ndarray, images: Tensor, size: tuple[int, int], takes: np.ndarray) -> Tensor:
    """Blur some images by a kernel of this width and height; others stay as they are."""
    has_kernel = max(size) <= MOST_TAPS and images.dtype in BY_VALUES
    if not has_kernel or _wants_gradient(images) or modes_or_transforms_active():
        each = zip(images, sigmas.tolist(), takes.tolist(), strict=True)
        return torch.stack(
            [
                gaussian_blur(image, size[::-1], sigma, channels="first") if taken else image
                for image, sigma, taken in each
            ]
        )
    own_sigmas = np.where(takes, sigmas, 1.0)[:, None]
    weights: list[list[float]] = []
    for taps in size:
        own = gaussian(taps, own_sigmas)
        own[~takes] = np.arange(taps) == taps // 2
        weights.append(own.ravel().tolist())
    return filter_separable(images, weights[0], weights[1], shared=False, pairs=True)


def _warp(images: Tensor, matrices: np.ndarray, mode: str, fill: list[float]) -> Tensor:
    """Warp each image by a matrix of its own, or all by one."""
    given = torch.from_numpy(np.ascontiguousarray(matrices)).view(-1, 2, 3)
    rows = given.to(images.device, non_blocking=True).expand(len(images), 2, 3)
    options = AugmentOptions(mode, fill=fill, half_pixel=True, out_dtype=images.dtype)
    return run_all(images, rows, images.shape[-2:], options)


# Kinds that have operators of their own, with gradients.
_DIFFERENTIABLE = {
    *(PixelKind.IDENTITY, PixelKind.AFFINE, PixelKind.GAUSSIAN_BLUR, PixelKind.MORPHOLOGY)
}
_INVERTING = (PixelKind.INVERT, PixelKind.SOLARIZE, PixelKind.SOLARIZE_AT)
# Kinds of adjust_pixels() that take numbers behind their amount.
_WITH_MORE = {
    *(PixelKind.GAUSSIAN_NOISE, PixelKind.SHOT_NOISE, PixelKind.SALT_AND_PEPPER, PixelKind.HSV),
    *(PixelKind.DROP_CHANNELS, PixelKind.HOLES, PixelKind.GRID_HOLES, PixelKind.UNSHARP_MASK),
    *(PixelKind.MOTION_BLUR, PixelKind.EMBOSS, PixelKind.SHARPEN, PixelKind.CLAHE),
    *(PixelKind.TONE_CURVE, PixelKind.BLEACH, PixelKind.ADVANCED_BLUR),
    *(PixelKind.ILLUMINATION, PixelKind.SHADOWS),
}
