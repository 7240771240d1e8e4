"""Runs a plan on one image of a sample: one call, and one more per contrast.

NOTE on the grey means. Contrast moves values away from the grey mean of the image at that point of
the chain. The mean is taken over a small picture of that image, made with the geometry and colour
steps up to there. The CPU never needs its value, so a CUDA image doesn't synchronize. Sums are of
integers: they don't depend on order, and hence not on batch, threads or device.

The picture has 32 x 32 points, one in each cell of a grid on the image. In the middle of each cell
they would all hit the same phase of a regular picture, such as lines of text or a solar panel. So
each row of points is shifted along x by its own share of a cell, and each column along y: point
(i, j) lies at (i + (j + 1/2) / 32, j + (i + 1/2) / 32) cells, which is an affine map.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from ..._torch.arrays import as_tensor
from ...warp.augment_autograd import augment as _augment
from ...warp.augment_autograd import augment_list as _augment_list
from ..sample.leaf import Leaf
from .fuse import Pass
from .integers import WHITES, computed_in, from_float, to_float
from .numbers import GREY, Number, columns
from .plan import Color, Plan, Snapshot

__all__ = [
    "DTYPES",
    "Pixels",
    "channels_first",
    "refuse_dtype",
    "run_all",
    "run_each",
    "run_plan",
    "sampling_of",
    "shows_window",
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
_are_transforms_active = torch._C._are_functorch_transforms_active
# Axes of an image, a batch or a video, and a batch of videos.
_CHANNELS_FIRST = {3: (2, 0, 1), 4: (0, 3, 1, 2), 5: (0, 1, 4, 2, 3)}
# Grid points along each axis for a grey mean that needn't be exact.
_GRID = 32
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
                _refuse_dtype(leaf, first.dtype)
            self.dtype, self.device, self.on_cpu = dtype, _CPU, True

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


def refuse_dtype(leaf: Leaf, dtype: torch.dtype) -> torch.dtype:
    """Refuse an image's dtype, or return it."""
    if dtype not in _DTYPES:
        _refuse_dtype(leaf, dtype)
    return dtype


def _refuse_dtype(leaf: Leaf, dtype: Any) -> NoReturn:
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
    plan: Plan, part: Pass, leaf: Leaf, pixels: Pixels, memory_format: torch.memory_format
) -> None:
    """Apply a plan to a leaf's value."""
    refuse_dtype(leaf, pixels.dtype)
    images, frames = to_float(pixels.tensors(leaf)), pixels.frames
    white = WHITES.get(plan.dtype)
    erase = None
    if plan.erased:
        corners = [corner for rectangle in plan.erased for corner in rectangle]
        boxes = columns(corners, plan.batch).astype(np.int64).reshape(plan.batch, -1, 4)
        erase = pixels.put(_repeat(boxes, frames))
    color = color_tensor(plan, part, images, pixels) if plan.colors else None
    value = [v / white for v in plan.erase_value] if white else plan.erase_value
    values = (color, color is not None, plan.mean, plan.std, erase, value, False, True)
    options = (
        *_sampling(part, pixels),
        _window(plan.window, part, plan, pixels),
        *values,
        computed_in(pixels.dtype) if white else plan.dtype,
        memory_format is torch.channels_last,
    )
    matrix = _put_matrix(_sampled(plan, options[0]), plan, pixels)
    size = plan.canvas.uniform()
    if size is None:
        sizes = plan.canvas.size(plan.batch).repeat(frames, 0).tolist()
        results: Any = run_each(images, matrix, sizes, options)
    else:
        results = run_all(images, matrix, size, options)
    pixels.store(leaf, from_float(results, plan.dtype) if white else results)


def _sampling(part: Pass, pixels: Pixels) -> tuple[Any, ...]:
    """Return the operator's sampling options for a leaf."""
    mode, padding_mode, fill, antialias = sampling_of(part)
    if pixels.dtype in WHITES:
        fill = [value / WHITES[pixels.dtype] for value in fill]
    return mode, padding_mode, fill, antialias


def sampling_of(part: Pass) -> tuple[str, str, list[float], bool]:
    """Return the operator's sampling options, with the fill in the image's units."""
    mode, antialias = part.interpolation or "nearest", bool(part.antialias)
    if part.fill is None:
        # Nothing outside can show, and none of it may leak into a resized image's rim.
        return mode, "replicate" if part.resizes and not antialias else "constant", [0.0], antialias
    return mode, part.padding_mode, list(part.fill), antialias


def shows_window(part: Pass) -> bool:
    """Whether the edge towards the fill must be made one output pixel wide, by a window.

    Without one it would be one pixel of the unresized image wide.
    """
    return part.resizes and part.fill is not None and not part.antialias


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


def _repeat(array: np.ndarray, frames: int) -> np.ndarray:
    """Repeat each sample's entry for every frame of its video."""
    return array.repeat(frames, 0) if frames > 1 else array


def _put_columns(numbers: Sequence[Number], plan: Plan, pixels: Pixels) -> Tensor:
    return pixels.put(_repeat(columns(numbers, plan.batch), pixels.frames))


def _window(
    window: Sequence[Number] | None, part: Pass, plan: Plan, pixels: Pixels
) -> Tensor | None:
    """Return windows [N, 4], which make the edge towards the fill one output pixel wide."""
    if window is None and shows_window(part):
        window = (0.0, 0.0, plan.source.width, plan.source.height)
    return None if window is None else _put_columns(window, plan, pixels)


def _sampled(at: Plan | Snapshot, mode: str) -> list[Number]:
    """Return the matrix by which pixels are sampled: NOTE on ties in plan.py."""
    if mode != "nearest" or len(at.matrix) == 9:
        return at.matrix
    a, b, c, d, e, f = at.matrix
    return [a, b, c + at.ties[0], d, e, f + at.ties[1]]


def _put_matrix(matrix: Sequence[Number], plan: Plan, pixels: Pixels) -> Tensor:
    """Return matrices in the operator's form, [N, 2 or 3, 3]."""
    return _put_columns(matrix, plan, pixels).view(-1, len(matrix) // 3, 3)


# Grey means [N], arrays or tensors, each with its weights in the offsets.
Means = list[tuple[Any, np.ndarray]]


def color_tensor(plan: Plan, part: Pass, images: Any, pixels: Pixels) -> Tensor:
    """Return the colour steps, [N, K, C, C + 1], grey means included."""
    channels, frames, batch = pixels.channels, pixels.frames, plan.batch
    means: Means = []  # with weights [N, C]
    if plan.exact:
        return _with_means(*_stepwise(plan, part, images, pixels), pixels)
    merged: list[Number] = []
    for step in plan.colors:
        mean = None
        if step.weight is not None:
            prefix = _chain(step.before, merged, channels)
            color = None
            if prefix:
                before = means
                if step.before is not None:
                    linear = _matrices(step.before, plan, pixels)
                    before = [(m, _times(linear, w)) for m, w in means]
                color = _one_step(prefix, before, plan, pixels)
            mean = _grey_means(plan, part, step, images, color, pixels)
        if means:
            linear = _matrices(step.matrix, plan, pixels)
            means = [(m, _times(linear, w)) for m, w in means]
        if step.weight is not None:
            means.append((mean, _repeat(columns([step.weight] * channels, batch), frames)))
        merged = _chain(step.matrix, merged, channels)
    return _one_step(merged, means, plan, pixels)


def _chain(second: list[Number] | None, first: list[Number], channels: int) -> list[Number]:
    """Compose two colour matrices; an empty one, or None, is the identity."""
    if not second or not first:
        return second or first
    row = channels + 1
    product = []
    for i in range(0, channels * row, row):
        for j in range(row):
            element = second[i + channels] if j == channels else 0.0
            for k in range(channels):
                element = element + second[i + k] * first[k * row + j]
            product.append(element)
    return product


def _matrices(matrix: list[Number], plan: Plan, pixels: Pixels) -> np.ndarray:
    """Return colour matrices as an array, [N, C, C + 1]."""
    elements = _repeat(columns(matrix, plan.batch), pixels.frames)
    return elements.reshape(-1, pixels.channels, pixels.channels + 1)


def _times(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Multiply the linear parts of [N, C, C + 1] by [N, C]."""
    return (matrix[..., :-1] * vector[:, None]).sum(-1)  # type: ignore[no-any-return]


def _one_step(matrix: list[Number], means: Means, plan: Plan, pixels: Pixels) -> Tensor:
    steps = _matrices(matrix, plan, pixels)[:, None]
    return _with_means(steps, [(m, w[:, None]) for m, w in means], pixels)


def _stepwise(plan: Plan, part: Pass, images: Any, pixels: Pixels) -> tuple[np.ndarray, Means]:
    """Return all steps [N, K, C, C + 1], each followed by a clamp, and the grey means."""
    steps = np.stack([_matrices(step.matrix, plan, pixels) for step in plan.colors], axis=1)
    means: Means = []  # with weights [N, K, 1]
    for geometry, weight in _rounds(plan, pixels.frames):
        # Pixels take the steps before their sample's contrast; the rest become the identity.
        place = (weight != 0.0).argmax(1)
        count = int(place.max())
        mean: Any = None
        if (place == 0).any():  # some have none: even the identity would clamp their values
            mean = _grey_means(plan, part, geometry, images, None, pixels)
        if count > 0:
            earlier = np.arange(count) < place[:, None]
            nothing = np.eye(*steps.shape[2:])
            head = np.where(earlier[..., None, None], steps[:, :count], nothing)
            before = [(m, w[:, :count] * earlier[..., None]) for m, w in means]
            prefix = _with_means(head, before, pixels)
            later = _grey_means(plan, part, geometry, images, prefix, pixels)
            mean = later if mean is None else _either(place == 0, mean, later, pixels)
        means.append((mean, weight[..., None]))
    return steps, means


def _either(condition: np.ndarray, first: Any, second: Any, pixels: Pixels) -> Any:
    """Return one of two means for each sample, arrays or tensors."""
    if isinstance(first, Tensor):
        return torch.where(pixels.put(condition), first, second)
    return np.where(condition, first, second)


def _rounds(plan: Plan, frames: int) -> list[tuple[Color, np.ndarray]]:
    """Group contrasts whose grey means can be taken together, with their weights [N, K].

    They are the steps of one jitter, which may place each sample's contrast differently.
    """
    rounds: list[tuple[Color, np.ndarray]] = []
    for place, step in enumerate(plan.colors):
        if step.weight is None:
            continue
        weight = _repeat(columns([step.weight], plan.batch), frames)[:, 0]
        if rounds:
            last, taken = rounds[-1]
            here = last.geometry is not None and step.geometry is not None
            same = here and last.geometry.matrix is step.geometry.matrix  # type: ignore[union-attr]
            if same and not (taken.any(1) & (weight != 0.0)).any():
                taken[:, place] = weight
                continue
        weights = np.zeros((weight.shape[0], len(plan.colors)))
        weights[:, place] = weight
        rounds.append((step, weights))
    return rounds


def _with_means(steps: np.ndarray, means: Means, pixels: Pixels) -> Tensor:
    """Add grey means [N], times weights [N, K, C or 1], to the steps' offsets."""
    if not any(isinstance(mean, Tensor) for mean, _ in means):
        for mean, weight in means:
            steps[..., -1] += mean[:, None, None] * weight
        return pixels.put(steps)
    color = pixels.put(steps)
    offsets = color[..., -1]
    for mean, weight in means:  # not in place: under vmap a mean is that of several images
        offsets = offsets + mean[:, None, None] * pixels.put(weight)
    return torch.cat([color[..., :-1], offsets[..., None]], -1)


def _grey_means(
    plan: Plan, part: Pass, step: Color, images: Any, prefix: Tensor | None, pixels: Pixels
) -> Any:
    """Return each image's grey mean at a contrast, float64 [N].

    It is an ndarray; or a tensor on CUDA, and under torch.func, where values can't be read.
    """
    at = step.geometry
    assert at is not None
    exact, as_array = plan.exact, pixels.on_cpu and not _are_transforms_active()
    matrix = _sampled(at, _sampling(part, pixels)[0]) if exact else at.matrix
    size = at.canvas.uniform() if exact else (_GRID, _GRID)
    if not exact:
        matrix = _grid_matrix(at)
    sampling = _sampling(part, pixels)
    options = (
        # A grid needs only the nearest pixels: reading them takes most of the time.
        *(sampling if exact else ("nearest", *sampling[1:3], False)),
        _window(at.window, part, plan, pixels),
        prefix,
        prefix is not None,
        *_NOTHING_MORE,
        torch.float32 if exact else torch.uint8,
        False,
    )
    placed = _put_matrix(matrix, plan, pixels)
    with torch.no_grad():
        if size is not None:
            sums: Any = _sums(run_all(images, placed, size, options))
        else:
            sizes = at.canvas.size(plan.batch).repeat(pixels.frames, 0).tolist()
            each = run_each(images, placed, sizes, options)
            sums = torch.cat([_sums(picture.unsqueeze(0)) for picture in each])
    sums = sums.numpy() if as_array else sums.to(torch.float64)
    if sums.shape[1] == 1:
        grey = sums[:, 0] * 1.0
    else:
        # Written out: a library would choose the order of a sum over the channels.
        grey = sums[:, 0] * GREY[0] + sums[:, 1] * GREY[1] + sums[:, 2] * GREY[2]
    if not exact:
        return grey * (1.0 / (255.0 * _GRID * _GRID))
    area = columns([at.canvas.height * at.canvas.width * _MEAN_SCALE], plan.batch)[:, 0]
    counts = _repeat(area, pixels.frames)
    return grey / (counts if as_array else pixels.put(counts))


def _grid_matrix(at: Snapshot) -> list[Number]:
    """Return the map from the source to the picture of a mean: NOTE on the grey means."""
    x_scale, y_scale = _GRID / at.canvas.width, _GRID / at.canvas.height
    own, other = _GRID * _GRID / (_GRID * _GRID - 1.0), _GRID / (_GRID * _GRID - 1.0)
    shift = 0.5 * (own - other)
    x = [m * x_scale for m in at.matrix[:3]]
    y = [m * y_scale for m in at.matrix[3:6]]
    first = [p * own - q * other for p, q in zip(x, y, strict=True)]
    second = [q * own - p * other for p, q in zip(x, y, strict=True)]
    bottom = at.matrix[6:]
    for row in (first, second):
        row[:] = [m + b * shift for m, b in zip(row, bottom or (0.0, 0.0, 1.0), strict=True)]
    return [*first, *second, *bottom]


# mean, std, erase, erase_value, inverse_map, half_pixel
_NOTHING_MORE: tuple[Any, ...] = ([], [], None, [0.0], False, True)


def _sums(picture: Tensor) -> Tensor:
    """Sum over the pixels, int64 [N, C]."""
    if picture.dtype is torch.uint8:
        return picture.sum((2, 3), dtype=torch.int64)
    values = torch.nan_to_num(picture.to(torch.float64), nan=0.0).clamp(-1024.0, 1024.0)
    return (values * _MEAN_SCALE).round().to(torch.int64).sum((2, 3))
