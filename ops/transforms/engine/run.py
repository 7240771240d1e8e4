"""Runs a plan on one image of a sample: one call, and one more per contrast.

Grey means: NOTE in csrc/core/chain/color_program.h. Their sums are of integers, so they don't
depend on order, and hence not on batch, threads or device. The CPU never needs the value of a mean
that is on a GPU: a CUDA image doesn't synchronize.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from ..._native import GREY, MEAN_GRID
from ..._torch.arrays import as_tensor
from ...warp.augment_autograd import augment as _augment
from ...warp.augment_autograd import augment_list as _augment_list
from ..sample.encoded import Encoded
from ..sample.leaf import Leaf
from ..sample.native import data_ptr_and_strides
from ..targets.options import canvas_windows
from .compiled import DTYPE_NAMES, Compiled
from .integers import WHITES, computed_in, from_float, to_float
from .plan import Plan

__all__ = [
    "DTYPES",
    "NOTHING_MORE",
    "Pixels",
    "channels_first",
    "reject_dtype",
    "run_all",
    "run_each",
    "run_plan",
    "sampling_for",
]

DTYPES = {
    np.dtype(np.uint8): torch.uint8,
    np.dtype(np.uint16): torch.uint16,
    np.dtype(np.int8): torch.int8,
    np.dtype(np.int16): torch.int16,
    np.dtype(np.int32): torch.int32,
    np.dtype(np.int64): torch.int64,
    np.dtype(np.float16): torch.float16,
    np.dtype(np.float32): torch.float32,
    np.dtype(np.float64): torch.float64,
}
_DTYPES = {*DTYPES.values(), torch.bfloat16}
_CPU = torch.device("cpu")
# Axes of an image, a batch or a video, and a batch of videos.
_CHANNELS_FIRST = {3: (2, 0, 1), 4: (0, 3, 1, 2), 5: (0, 1, 4, 2, 3)}
_MEAN_SCALE = 2.0**32


class Pixels:
    """How an image leaf holds its pixels: dtype, device, channels, frames."""

    def __init__(self, leaf: Leaf) -> None:
        value = leaf.value
        self.listed = isinstance(value, list)
        first = value[0] if self.listed else value
        self.frames = first.shape[-4] if leaf.frames else 1
        self.channels: int = first.shape[-1 if leaf.layout == "HWC" else -3]
        if isinstance(first, Tensor):
            self.dtype, self.device, self.on_cpu = first.dtype, first.device, first.is_cpu
        else:
            dtype = DTYPES.get(first.dtype) or DTYPES.get(first.dtype.newbyteorder("="))
            if dtype is None:
                _reject_dtype(leaf, first.dtype)
            self.dtype = dtype
            self.device = first.device if isinstance(first, Encoded) else _CPU
            self.on_cpu = self.device.type == "cpu"

    def tensors(self, leaf: Leaf) -> Any:
        """Return [N, C, H, W], or a list of [C, H, W]: views where possible."""
        if self.listed:
            values = [channels_first(value, leaf.layout) for value in leaf.value]
            return [frame for clip in values for frame in clip] if leaf.frames else values
        value = channels_first(leaf.value, leaf.layout)
        if value.dim() == 3:
            return value.unsqueeze(0)
        return value.flatten(0, 1) if value.dim() == 5 else value

    def store(self, leaf: Leaf, images: Any) -> None:
        """Set a leaf's value from [N, C, H, W], or from a list of [C, H, W]."""
        leaf.layout = "CHW"
        if not isinstance(images, list):
            if leaf.batch is None and not leaf.frames:
                images = images.squeeze(0)
            elif leaf.batch is not None and leaf.frames:
                images = images.unflatten(0, (leaf.batch, self.frames))
        elif leaf.frames:
            # The frames of a sample share their size, the samples need not.
            count = self.frames
            images = [torch.stack(images[i : i + count]) for i in range(0, len(images), count)]
        leaf.value = images

    def put(self, array: np.ndarray) -> Tensor:
        """Return an array as a tensor on the image's device."""
        tensor = torch.from_numpy(array)
        return tensor if self.on_cpu else tensor.to(self.device, non_blocking=True)

    def put_each(self, array: np.ndarray) -> Tensor:
        """Return what an array holds for each sample, for each frame of its video."""
        return self.put(array.repeat(self.frames, 0) if self.frames > 1 else array)


def reject_dtype(leaf: Leaf, dtype: torch.dtype) -> torch.dtype:
    """Refuse an image's dtype, or return it."""
    if dtype not in _DTYPES:
        _reject_dtype(leaf, dtype)
    return dtype


def _reject_dtype(leaf: Leaf, dtype: Any) -> NoReturn:
    raise TypeError(
        f"visops.transforms: {leaf.name} has dtype {dtype}, must be uint8, uint16, int8, int16, "
        "int32, int64, float16, bfloat16, float32 or float64"
    )


def channels_first(value: Any, layout: str) -> Tensor:
    """Return an image, or several, as a tensor [..., C, H, W]: a view where possible."""
    if isinstance(value, np.ndarray):
        plain = value.flags.writeable and value.dtype.isnative
        if not plain or min(value.strides) < 0:
            value = _readable(value)
        if layout == "HWC":  # NumPy takes a fraction of torch's time to swap axes
            value = value.transpose(_CHANNELS_FIRST[value.ndim])
        return torch.from_numpy(value)
    return value.movedim(-1, -3) if layout == "HWC" else value  # type: ignore[no-any-return]


def _readable(array: np.ndarray) -> np.ndarray:
    """Return an array that torch accepts without a warning: images are only read."""
    return as_tensor("augment", "the image", array).numpy()


def run_plan(
    plan: Plan, native: Compiled, leaf: Leaf, pixels: Pixels, memory_format: torch.memory_format
) -> None:
    """Apply the plan of a pass to a leaf's value."""
    reject_dtype(leaf, pixels.dtype)
    images = to_float(pixels.tensors(leaf))
    white, erase_value = WHITES.get(plan.dtype), plan.erase_value or [0.0]
    erased = plan.erased
    options = (
        *sampling_for(native, pixels),
        _window(plan.window, native, plan.source_sizes, pixels),
        colors_of(plan, native, images, pixels) if plan.has_colors else None,
        plan.clamps,
        plan.mean,
        plan.std,
        None if erased is None else pixels.put_each(erased),
        [v / white for v in erase_value] if white else erase_value,
        False,
        True,
        computed_in(pixels.dtype) if white else plan.dtype,
        memory_format is torch.channels_last,
    )
    results: Any = _run_modes(plan, native, images, pixels, options)
    pixels.store(leaf, from_float(results, plan.dtype) if white else results)


def _run_modes(
    plan: Plan, native: Compiled, images: Any, pixels: Pixels, options: tuple[Any, ...]
) -> Any:
    """Run the samples of each interpolation together; return ``[N, C, H, W]``, or a list."""
    modes, drawn, size = native.sampling[0], plan.modes, plan.size
    numbers = [0] if drawn is None else np.unique(drawn).tolist()
    sizes = plan.sizes.repeat(pixels.frames, 0).tolist() if size is None else []
    found: list[Any] = [None] * len(images)
    for number in numbers:
        mode = modes[number]
        antialias = native.sampling[3] and mode != "nearest"
        own = (mode, *options[1:3], antialias, *options[4:])
        matrix = pixels.put_each(plan.sampled(mode == "nearest"))
        if len(numbers) == 1:
            if size is None:
                return run_each(images, matrix, sizes, own)
            return run_all(images, matrix, size, own)
        takes = np.flatnonzero(np.asarray(drawn).repeat(pixels.frames) == number).tolist()
        some = [images[i] for i in takes]
        rows = pixels.put(np.array(takes))
        own = tuple(value[rows] if isinstance(value, Tensor) else value for value in own)
        if size is None:
            results: Any = run_each(some, matrix[rows], [sizes[i] for i in takes], own)
        else:
            results = run_all(some, matrix[rows], size, own)
        for i, result in zip(takes, results, strict=True):
            found[i] = result
    if size is None:
        return found
    form = torch.channels_last if options[-1] else torch.contiguous_format
    return torch.stack(found).contiguous(memory_format=form)


def sampling_for(native: Compiled, pixels: Pixels) -> tuple[Any, ...]:
    """Return the operator's sampling options for a leaf, with the first interpolation."""
    modes, padding_mode, fill, antialias = native.sampling
    if pixels.dtype in WHITES:
        fill = [value / WHITES[pixels.dtype] for value in fill]
    return modes[0], padding_mode, fill, antialias and modes[0] != "nearest"


def _window(
    window: np.ndarray | None, native: Compiled, sizes: np.ndarray, pixels: Pixels
) -> Tensor | None:
    """Return windows [N, 4], which make the edge towards the fill one output pixel wide."""
    if window is None and native.shows_window:
        window = canvas_windows(sizes)
    return None if window is None else pixels.put_each(window)


def run_all(images: Any, matrix: Tensor, size: Sequence[int], options: tuple[Any, ...]) -> Tensor:
    """Run samples that share their size in one call."""
    run = _augment_list if isinstance(images, list) else _augment
    return run(images, matrix, size, *options)  # type: ignore[no-any-return]


def run_each(
    images: Any, matrix: Tensor, sizes: list[list[int]], options: tuple[Any, ...]
) -> list[Tensor]:
    """Run the samples one by one, as their sizes differ."""
    results = []
    for i, size in enumerate(sizes):
        one = slice(i, i + 1)
        image = images[i].unsqueeze(0) if isinstance(images, list) else images[one]
        own = [option[one] if isinstance(option, Tensor) else option for option in options]
        results.append(_augment(image, matrix[one], size, *own)[0])
    return results


def colors_of(plan: Plan, native: Compiled, images: Any, pixels: Pixels) -> Tensor:
    """Return the colour steps, [N, K, C, C + 1], grey means included."""
    if not plan.exact and pixels.frames == 1 and pixels.dtype in DTYPE_NAMES:
        pointers: Any
        if isinstance(images, list):
            pointers = [data_ptr_and_strides(image) for image in images]
        else:
            pointers = data_ptr_and_strides(images)
        if pointers is not None and None not in pointers:
            return torch.from_numpy(native.chain.colors(plan, pointers, DTYPE_NAMES[pixels.dtype]))
    rounds, whole = plan.color_program(native.sampling[0][0] == "nearest")
    means: list[Tensor] = []
    for geometry, before, plain in rounds:
        mean = None
        if before is None or plain is not None:
            mean = _grey_means(plan, native, geometry, images, None, pixels)
        if before is not None:
            color = _with_means(before, means, pixels)
            later = _grey_means(plan, native, geometry, images, color, pixels)
            mean = later if mean is None else torch.where(pixels.put_each(plain), mean, later)
        means.append(mean)  # type: ignore[arg-type]
    return _with_means(whole, means, pixels)


def _with_means(colors: tuple[Any, Any], means: Sequence[Tensor], pixels: Pixels) -> Tensor:
    """Add grey means [N], times weights [N, K, C], to the steps' offsets."""
    elements, weights = colors
    color = pixels.put_each(elements)
    if not weights:
        return color
    offsets = color[..., -1]
    for mean, weight in zip(means, weights, strict=True):
        # Not in place: under vmap a mean is that of several images.
        offsets = offsets + mean[:, None, None] * pixels.put_each(weight)
    return torch.cat([color[..., :-1], offsets[..., None]], -1)


def _grey_means(
    plan: Plan,
    native: Compiled,
    geometry: tuple[Any, ...],
    images: Any,
    color: Tensor | None,
    pixels: Pixels,
) -> Tensor:
    """Return each image's grey mean at a contrast, float64 [N]."""
    matrices, size, sizes, window = geometry
    exact, sampling = plan.exact, sampling_for(native, pixels)
    options = (
        # A grid needs only the nearest pixels: reading them takes most of the time.
        *(sampling if exact else ("nearest", *sampling[1:3], False)),
        _window(window, native, plan.source_sizes, pixels),
        color,
        color is not None,
        *NOTHING_MORE,
        torch.float32 if exact else torch.uint8,
        False,
    )
    matrix = pixels.put_each(matrices)
    if not exact:
        size = (MEAN_GRID, MEAN_GRID)
    with torch.no_grad():
        if size is not None:
            sums = _sums(run_all(images, matrix, size, options))
        else:
            each = run_each(images, matrix, sizes.repeat(pixels.frames, 0).tolist(), options)
            sums = torch.cat([_sums(picture.unsqueeze(0)) for picture in each])
    sums = sums.to(torch.float64)
    if sums.shape[1] == 1:
        grey = sums[:, 0]
    else:
        # Written out: a library would choose the order of a sum over the channels.
        grey = sums[:, 0] * GREY[0] + sums[:, 1] * GREY[1] + sums[:, 2] * GREY[2]
    if not exact:
        return grey * (1.0 / (255.0 * MEAN_GRID * MEAN_GRID))
    area = sizes[:, 0] * sizes[:, 1] * _MEAN_SCALE
    return grey / pixels.put_each(area)


# mean, std, erase, erase_value, inverse_map, half_pixel
NOTHING_MORE: tuple[Any, ...] = ([], [], None, [0.0], False, True)


def _sums(picture: Tensor) -> Tensor:
    """Sum over the pixels, int64 [N, C]."""
    if picture.dtype is torch.uint8:
        return picture.sum((2, 3), dtype=torch.int64)
    values = torch.nan_to_num(picture.to(torch.float64), nan=0.0).clamp(-1024.0, 1024.0)
    return (values * _MEAN_SCALE).round().to(torch.int64).sum((2, 3))
