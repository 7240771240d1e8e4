"""A plan carried out on the pixels of one image of the sample: one call, and one for a contrast.

NOTE on the grey means. Contrast moves values away from the grey mean of the image as it is at that
point of the chain. A small picture of that image, made with the geometry and the colour steps up to
there, gives the mean; nothing of it is known to the CPU, so a CUDA image doesn't stop the device.
Sums are of integers: they don't depend on the order, hence not on batch, threads or device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._augment_formulas import augment as _augment
from .._augment_formulas import augment_list as _augment_list
from ._color import GREY
from ._fuse import Pass
from ._leaf import Leaf
from ._plan import Canvas, ColorBlock, Plan, compose_colors

__all__ = ["DTYPES", "Pixels", "run_plan"]

DTYPES = {
    np.dtype(np.uint8): torch.uint8,
    np.dtype(np.float16): torch.float16,
    np.dtype(np.float32): torch.float32,
    np.dtype(np.float64): torch.float64,
}
# Points, along each axis, that a grey mean is taken of where it needn't be exact.
_GRID = 32
_MEAN_SCALE = 2.0**32


class Pixels:
    """The pixels of an image leaf, and where they are."""

    def __init__(self, leaf: Leaf) -> None:
        value = leaf.value
        self.listed = isinstance(value, list)
        self.frames = value.shape[-4] if leaf.frames else 1
        first = value[0] if self.listed else value
        self.channels: int = first.shape[-1 if leaf.layout == "HWC" else -3]
        if isinstance(first, Tensor):
            self.dtype, self.device = first.dtype, first.device
        else:
            dtype = DTYPES.get(first.dtype)
            if dtype is None:
                raise TypeError(
                    f"visops.transforms: {leaf.name} has dtype {first.dtype}, must be uint8, "
                    "float16, float32 or float64"
                )
            self.dtype, self.device = dtype, torch.device("cpu")

    def tensors(self, leaf: Leaf) -> Any:
        """Return [N, C, H, W], or a list of [C, H, W]: views where torch has one."""
        if self.listed:
            return [_channels_first(value, leaf.layout) for value in leaf.value]
        value = _channels_first(leaf.value, leaf.layout)
        if value.dim() == 3:
            return value.unsqueeze(0)
        return value.flatten(0, 1) if value.dim() == 5 else value

    def store(self, leaf: Leaf, images: Any) -> None:
        """Make a leaf's value of [N, C, H, W], or of a list of [C, H, W]."""
        leaf.layout = "CHW"
        if not isinstance(images, list):
            if leaf.batch is None and not leaf.frames:
                images = images.squeeze(0)
            elif leaf.batch is not None and leaf.frames:
                images = images.unflatten(0, (leaf.batch, self.frames))
        elif leaf.frames:
            # Frames of one sample share their size, those of different samples need not.
            count = self.frames
            images = [torch.stack(images[i : i + count]) for i in range(0, len(images), count)]
        leaf.value = images

    def put(self, array: np.ndarray) -> Tensor:
        """Return an array as a tensor on the images' device."""
        tensor = torch.from_numpy(array)
        return tensor if self.device.type == "cpu" else tensor.to(self.device, non_blocking=True)


def _channels_first(value: Any, layout: str) -> Tensor:
    if isinstance(value, np.ndarray):
        if not value.flags.writeable or min(value.strides, default=0) < 0:
            value = _readable(value)
        value = torch.from_numpy(value)
    return value.movedim(-1, -3) if layout == "HWC" else value  # type: ignore[no-any-return]


def _readable(array: np.ndarray) -> np.ndarray:
    """Return an array that torch takes without a warning or a refusal: images are only read."""
    from .._augment_arguments import _array_tensor

    return _array_tensor(array, "the image").numpy()  # type: ignore[no-any-return]


def run_plan(
    plan: Plan, part: Pass, leaf: Leaf, pixels: Pixels, memory_format: torch.memory_format
) -> None:
    """Set the leaf's value to what the plan makes of it."""
    images = pixels.tensors(leaf)
    frames = pixels.frames
    color = _color_tensor(plan, part, images, pixels)
    erase = None
    if plan.erased:
        stacked = np.stack(plan.erased, 1) if len(plan.erased) > 1 else plan.erased[0][:, None]
        erase = pixels.put(_repeat(stacked, frames))
    call = _Call(
        mode=part.interpolation or "nearest",
        padding_mode=part.padding_mode,
        fill=list(part.fill or (0.0,)),
        antialias=bool(part.antialias),
        color=color,
        clamp=color is not None,
        mean=plan.mean,
        std=plan.std,
        erase=erase,
        erase_value=plan.erase_value,
        dtype=plan.dtype,
        channels_last=memory_format is torch.channels_last,
    )
    matrix = pixels.put(_repeat(_matrices(plan.rows, plan.projective), frames))
    window = None if plan.window is None else pixels.put(_repeat(plan.window.T, frames))
    size = uniform_size(plan.canvas)
    if size is not None:
        pixels.store(leaf, call.all(images, matrix, window, size))
        return
    sizes = plan.canvas.size.repeat(frames, 0).tolist()
    pixels.store(leaf, [call.one(images, i, matrix, window, s)[0] for i, s in enumerate(sizes)])


class _Call:
    """What calls of the operator have in common."""

    def __init__(
        self,
        *,
        mode: str,
        padding_mode: str,
        fill: list[float],
        antialias: bool,
        color: Tensor | None,
        clamp: bool,
        dtype: torch.dtype,
        mean: list[float] | None = None,
        std: list[float] | None = None,
        erase: Tensor | None = None,
        erase_value: list[float] | None = None,
        channels_last: bool = False,
    ) -> None:
        self.before = (mode, padding_mode, fill, antialias)
        self.color, self.erase = color, erase
        self.values = (clamp, mean or [], std or [])
        self.after = (erase_value or [0.0], False, True, dtype, channels_last)

    def all(self, images: Any, matrix: Tensor, window: Tensor | None, size: list[int]) -> Tensor:
        run = _augment_list if isinstance(images, list) else _augment
        options = (*self.before, window, self.color, *self.values, self.erase, *self.after)
        return run(images, matrix, size, *options)  # type: ignore[no-any-return]

    def one(
        self, images: Any, i: int, matrix: Tensor, window: Tensor | None, size: list[int]
    ) -> Tensor:
        """Run sample i alone: its size is its own."""
        image = images[i].unsqueeze(0) if isinstance(images, list) else images[i : i + 1]
        one = slice(i, i + 1)
        own = [None if t is None else t[one] for t in (window, self.color, self.erase)]
        options = (*self.before, own[0], own[1], *self.values, own[2], *self.after)
        return _augment(image, matrix[one], size, *options)  # type: ignore[no-any-return]


def uniform_size(canvas: Canvas) -> list[int] | None:
    """Return height and width of all samples, None if they differ."""
    height, width = canvas.height, canvas.width
    if height.shape[0] > 1 and not ((height == height[0]).all() and (width == width[0]).all()):
        return None
    return [int(height[0]), int(width[0])]


def _repeat(array: np.ndarray, frames: int) -> np.ndarray:
    """Give every frame of a video what its sample has."""
    if frames > 1:
        return array.repeat(frames, 0)
    return np.ascontiguousarray(array)


def _matrices(rows: np.ndarray, projective: bool) -> np.ndarray:
    """Matrices as the operator takes them, [B, 2 or 3, 3], of those laid out [3, 3, B]."""
    return (rows if projective else rows[:2]).transpose(2, 0, 1)


def _color_tensor(plan: Plan, part: Pass, images: Any, pixels: Pixels) -> Tensor | None:
    """Return the colour steps, [N, K, C, C + 1], with the grey means that they need."""
    blocks = plan.colors
    if not blocks:
        return None
    steps = blocks[0].matrices
    if len(blocks) > 1:
        steps = np.concatenate([block.matrices for block in blocks], axis=1)
    steps = _repeat(steps, pixels.frames) if pixels.frames > 1 else steps
    # Each grey mean [N] with its weights [N, K], the part of it that steps add to every channel.
    means: list[tuple[Any, np.ndarray]] = []
    first = 0
    for block in blocks:
        if block.weight is not None:
            weight = np.zeros(steps.shape[:2])
            own = _repeat(block.weight, pixels.frames)
            weight[:, first : first + own.shape[1]] = own
            prefix = _prefix(steps, means, weight, pixels)
            means.append((_grey_means(plan, part, block, images, prefix, pixels), weight))
        first += block.matrices.shape[1]
    if plan.exact:
        return _with_means(steps, [(m, w[..., None]) for m, w in means], pixels)
    merged, weights = _merge(steps, [w for _, w in means])
    offsets = [(m, w[:, None]) for (m, _), w in zip(means, weights, strict=True)]
    return _with_means(merged[:, None], offsets, pixels)


def _prefix(
    steps: np.ndarray, means: list[tuple[Any, np.ndarray]], weight: np.ndarray, pixels: Pixels
) -> Tensor | None:
    """Return the steps before a contrast: its own and later ones do nothing."""
    place = (weight != 0.0).argmax(1)  # 0 too where a sample has none: its mean is not used
    count = int(place.max())
    if count == 0:
        return None
    before = np.arange(count) < place[:, None]
    channels = steps.shape[2]
    steps = np.where(before[..., None, None], steps[:, :count], np.eye(channels, channels + 1))
    earlier = [(m, (w[:, :count] * before)[..., None]) for m, w in means]
    return _with_means(steps, earlier, pixels)


def _with_means(steps: np.ndarray, means: list[tuple[Any, np.ndarray]], pixels: Pixels) -> Tensor:
    """Add grey means [N], times weights [N, K, C or 1], to the offsets of steps."""
    if pixels.device.type == "cpu":
        if means:
            steps = steps.copy()
        for mean, weight in means:
            steps[..., -1] += mean[:, None, None] * weight
        return torch.from_numpy(np.ascontiguousarray(steps))
    color = pixels.put(np.ascontiguousarray(steps))
    for mean, weight in means:
        color[..., -1] += mean[:, None, None] * pixels.put(weight)
    return color


def _merge(steps: np.ndarray, weights: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Make one step [N, C, C + 1] of all, and of each mean's weights one for each channel."""
    channels = steps.shape[2]
    merged = steps[:, 0]
    moved = [np.repeat(w[:, :1], channels, 1) for w in weights]
    for k in range(1, steps.shape[1]):
        step = steps[:, k]
        merged = compose_colors(step, merged)
        for i, weight in enumerate(weights):
            moved[i] = (step[..., :channels] * moved[i][:, None]).sum(-1) + weight[:, k, None]
    return merged, moved


def _grey_means(
    plan: Plan,
    part: Pass,
    block: ColorBlock,
    images: Any,
    prefix: Tensor | None,
    pixels: Pixels,
) -> Any:
    """Grey mean [N] of each image at a contrast, float64: an ndarray, on CUDA a Tensor."""
    at = block.geometry
    assert at is not None
    exact = plan.exact
    rows, size = at.rows, uniform_size(at.canvas)
    if not exact:
        rows, size = rows.copy(), [_GRID, _GRID]
        rows[0] *= _GRID / at.canvas.width
        rows[1] *= _GRID / at.canvas.height
    call = _Call(
        mode=part.interpolation or "nearest",
        padding_mode=part.padding_mode,
        fill=list(part.fill or (0.0,)),
        antialias=bool(part.antialias) and exact,
        color=prefix,
        clamp=prefix is not None,
        dtype=torch.float32 if exact else torch.uint8,
    )
    matrix = pixels.put(_repeat(_matrices(rows, at.projective), pixels.frames))
    window = None if at.window is None else pixels.put(_repeat(at.window.T, pixels.frames))
    with torch.no_grad():
        if size is not None:
            sums = _sums(call.all(images, matrix, window, size))
        else:
            sizes = at.canvas.size.repeat(pixels.frames, 0).tolist()
            each = [call.one(images, i, matrix, window, s) for i, s in enumerate(sizes)]
            sums = torch.cat([_sums(picture) for picture in each])
    counts: Any = np.full(1, float(_GRID * _GRID))
    if exact:
        counts = np.repeat(at.canvas.height * at.canvas.width, pixels.frames)
    values: Any = sums
    if pixels.device.type == "cpu":
        values = sums.numpy()
    else:
        counts, values = pixels.put(counts), sums.to(torch.float64)
    if values.shape[1] == 1:
        grey = values[:, 0] * 1.0
    else:
        # Written out: the order of a sum over the channels would be the library's.
        grey = values[:, 0] * GREY[0] + values[:, 1] * GREY[1] + values[:, 2] * GREY[2]
    return grey / (counts * (_MEAN_SCALE if exact else 255.0))


def _sums(picture: Tensor) -> Tensor:
    """Sum over the pixels, int64 [N, C]."""
    if picture.dtype is torch.uint8:
        return picture.sum((2, 3), dtype=torch.int64)
    values = torch.nan_to_num(picture.to(torch.float64), nan=0.0).clamp(-1024.0, 1024.0)
    return (values * _MEAN_SCALE).round().to(torch.int64).sum((2, 3))
