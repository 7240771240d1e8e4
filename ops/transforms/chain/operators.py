"""Runs a plan on one image of a sample by torch's operators: one call, and two per contrast."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from ..._native import GREY, MEAN_GRID
from ..._torch.arrays import as_tensor
from ..._torch.call import unwatched_ptr_and_strides as data_ptr_and_strides
from ...pixels.grey_means import add_grey_means
from ...warp.augment_arguments import AugmentOptions
from ..sample.files import Encoded
from ..sample.leaf import Leaf
from .compile import DTYPE_NAMES, Compiled
from .fuse import overshoots
from .integers import INTEGERS, WHITES, computed_in, float_fill, from_float, to_float
from .operator_calls import run_all, run_each, windows_for
from .plan import Plan

_MEAN_SCALE = 2.0**32


@dataclass
class _Round:
    """Where a grey mean is taken, and what the pixels go through before."""

    matrix: Tensor
    size: Sequence[int] | None  # of the picture; None: those of `sizes`
    sizes: np.ndarray
    window: Tensor | None
    area: Tensor | None  # of an exact picture
    before: tuple[Tensor, list[Tensor]] | None
    plain: Tensor | None  # where pixels go through nothing, although others' do; or None


class Colors:
    """The colour steps of a pass, grey means included."""

    def __init__(self, plan: Plan, native: Compiled, images: Any, pixels: "Pixels") -> None:
        self._plan, self._native, self._images, self._pixels = plan, native, images, pixels
        self._fill = float_fill("", native.sampling.fill, pixels.dtype)

    def tensor(self) -> Tensor:
        """Return the steps, [N, K, C, C + 1]."""
        plan, native = self._plan, self._native
        color = _colors_in_one_call(plan, native, self._images, self._pixels)
        if color is not None:
            return color
        rounds, whole = plan.color_program(native.sampling.modes[0] == "nearest")
        if plan.exact:
            return self._with_exact_means(list(map(self._round, rounds)), self._steps(whole))
        pictures: list[Tensor] = []
        for own in map(self._round, rounds):
            color = None if own.before is None else _with_pictures(own.before, pictures)
            with torch.no_grad():
                pictures.append(self._picture(own, color))
        return _with_pictures(self._steps(whole), pictures)

    def _with_exact_means(
        self, rounds: Sequence[_Round], whole: tuple[Tensor, list[Tensor]]
    ) -> Tensor:
        means: list[Tensor] = []
        for own in rounds:
            mean = None
            if own.before is None or own.plain is not None:
                mean = self._exact_mean(own, None)
            if own.before is not None:
                later = self._exact_mean(own, _with_means(own.before, means))
                # `plain` says of which samples there is a mean already.
                mean = later if mean is None else torch.where(own.plain, mean, later)  # type: ignore[arg-type]
            means.append(mean)  # type: ignore[arg-type]
        return _with_means(whole, means)

    def _steps(self, colors: tuple[Any, Any]) -> tuple[Tensor, list[Tensor]]:
        elements, weights = colors
        return self._pixels.put_each(elements), list(map(self._pixels.put_each, weights))

    def _round(self, numbers: Any) -> _Round:
        (matrices, size, sizes, window), before, plain = numbers
        plan, pixels = self._plan, self._pixels
        window = windows_for(window, self._native, plan.source_sizes)
        area = sizes[:, 0] * sizes[:, 1] * _MEAN_SCALE
        return _Round(
            pixels.put_each(matrices),
            size if plan.exact else (MEAN_GRID, MEAN_GRID),
            sizes.repeat(pixels.frames, 0),
            None if window is None else pixels.put_each(window),
            pixels.put_each(area) if plan.exact else None,
            None if before is None else self._steps(before),
            None if plain is None else pixels.put_each(plain),
        )

    def _picture(self, own: _Round, color: Tensor | None) -> Any:
        exact, sampling = self._plan.exact, self._native.sampling
        # A grid needs only the nearest pixels: reading them takes most of the time.
        mode = sampling.modes[0] if exact else "nearest"
        options = AugmentOptions(
            interpolation=mode,
            padding_mode=sampling.padding_mode,
            fill=self._fill,
            antialias=sampling.antialias and mode != "nearest",
            window=own.window,
            color=color,
            clamp=color is not None,
            half_pixel=True,
            out_dtype=torch.float32 if exact else torch.uint8,
        )
        if own.size is None:
            return run_each(self._images, own.matrix, own.sizes.tolist(), options)
        return run_all(self._images, own.matrix, own.size, options)

    def _exact_mean(self, own: _Round, color: Tensor | None) -> Tensor:
        """Return each image's grey mean, float64 [N]."""
        with torch.no_grad():
            picture = self._picture(own, color)
            if isinstance(picture, list):
                sums = torch.cat([_sums(each.unsqueeze(0)) for each in picture])
            else:
                sums = _sums(picture)
        sums = sums.to(torch.float64)
        if sums.shape[1] == 1:
            grey = sums[:, 0]
        else:
            # Written out: a library would choose the order of a sum over the channels.
            grey = sums[:, 0] * GREY[0] + sums[:, 1] * GREY[1] + sums[:, 2] * GREY[2]
        assert own.area is not None  # exact pictures have one
        return grey / own.area


def _colors_in_one_call(plan: Plan, native: Compiled, images: Any, pixels: Any) -> Tensor | None:
    """Return the colour steps of images on the CPU; None where there is no such call."""
    if plan.exact or pixels.frames != 1 or pixels.dtype not in DTYPE_NAMES:
        return None
    pointers: Any
    if isinstance(images, list):
        pointers = [data_ptr_and_strides(image) for image in images]
    else:
        pointers = data_ptr_and_strides(images)
    if pointers is None or None in pointers:
        return None
    return torch.from_numpy(native.chain.colors(plan, pointers, DTYPE_NAMES[pixels.dtype]))


def _with_pictures(colors: tuple[Tensor, list[Tensor]], pictures: Sequence[Tensor]) -> Tensor:
    """Add the grey means of pictures, times weights [N, K, C], to the steps' offsets."""
    color, weights = colors
    for picture, weight in zip(pictures, weights, strict=True):
        color = add_grey_means(picture, color, weight)
    return color


def _with_means(colors: tuple[Tensor, list[Tensor]], means: Sequence[Tensor]) -> Tensor:
    """Add grey means [N], times weights [N, K, C], to the steps' offsets."""
    color, weights = colors
    if not weights:
        return color
    offsets = color[..., -1]
    for mean, weight in zip(means, weights, strict=True):
        # Not in place: under vmap a mean is that of several images.
        offsets = offsets + mean[:, None, None] * weight
    return torch.cat([color[..., :-1], offsets[..., None]], -1)


def _sums(picture: Tensor) -> Tensor:
    """Sum over the pixels, int64 [N, C]."""
    values = torch.nan_to_num(picture.to(torch.float64), nan=0.0).clamp(-1024.0, 1024.0)
    return (values * _MEAN_SCALE).round().to(torch.int64).sum((2, 3))


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
MOST_COLOR_CHANNELS = 4  # that a change of colours may mix
_CPU = torch.device("cpu")
# Axes of an image, a batch or a video, and a batch of videos.
_CHANNELS_FIRST = {3: (2, 0, 1), 4: (0, 3, 1, 2), 5: (0, 1, 4, 2, 3)}


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
        """Return an array as a tensor on the images' device."""
        tensor = torch.from_numpy(array)
        return tensor if self.on_cpu else tensor.to(self.device, non_blocking=True)

    def put_each(self, array: np.ndarray, takes: np.ndarray | None = None) -> Tensor:
        """Return what an array holds for each sample, for each frame; with `takes`, of those."""
        if self.frames > 1:
            array = array.repeat(self.frames, 0)
        return self.put(array if takes is None else array[takes])


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
    if not plan.has_colors or pixels.channels <= MOST_COLOR_CHANNELS:
        results = _run_channels(plan, native, images, pixels, memory_format)
    else:  # colours that are alike for all channels see them one by one
        listed = isinstance(images, list)
        parts = []
        for c in range(pixels.channels):
            one = [image[c : c + 1] for image in images] if listed else images[:, c : c + 1]
            parts.append(_run_channels(plan, native, one, pixels, memory_format, c))
        if listed:
            results = [torch.cat(channels) for channels in zip(*parts, strict=True)]
        else:
            results = torch.cat(parts, 1).contiguous(memory_format=memory_format)
    if native.channels is not None:
        results = _of_channels(results, native.channels, memory_format)
    pixels.store(leaf, from_float(results, plan.dtype) if plan.dtype in WHITES else results)


def _of_channels(images: Any, count: int, memory_format: torch.memory_format) -> Any:
    """Return images, [N, C, H, W] or a list of [C, H, W], with so many of their equal channels."""
    if isinstance(images, list):
        return [_of_channels(image[None], count, memory_format)[0] for image in images]
    if images.shape[1] == count:
        return images
    return images[:, :1].expand(-1, count, -1, -1).contiguous(memory_format=memory_format)


def _run_channels(
    plan: Plan,
    native: Compiled,
    images: Any,
    pixels: Pixels,
    memory_format: torch.memory_format,
    channel: int | None = None,
) -> Any:
    """Run a plan on images, or on one channel of them; integers come out divided by white."""

    def of_channel(numbers: Sequence[float]) -> list[float]:
        alike = channel is None or len(numbers) <= 1
        return list(numbers) if alike else [numbers[channel]]  # type: ignore[index]

    white, erase_value = WHITES.get(plan.dtype), of_channel(plan.erase_value or [0.0])
    color = Colors(plan, native, images, pixels).tensor() if plan.has_colors else None
    shared = {
        "padding_mode": native.sampling.padding_mode,
        "fill": float_fill("", of_channel(native.sampling.fill), pixels.dtype),
        "color": color,
        "clamp": plan.clamps,
        "mean": of_channel(plan.mean),
        "std": of_channel(plan.std),
        "erase_value": [v / white for v in erase_value] if white else erase_value,
        "half_pixel": True,
        "out_dtype": computed_in(pixels.dtype) if white else plan.dtype,
        "channels_last": memory_format is torch.channels_last,
    }
    return _run_groups(plan, native, images, pixels, shared)


@dataclass
class _Group:
    """The images that share an interpolation."""

    mode: str
    antialias: bool
    takes: np.ndarray | None  # images; None: all
    matrix: Tensor
    window: Tensor | None
    erased: Tensor | None


def _groups(plan: Plan, native: Compiled, pixels: Pixels) -> list[_Group]:
    modes, drawn = native.sampling.modes, plan.modes
    numbers = [0] if drawn is None else np.unique(drawn).tolist()
    window, erased = windows_for(plan.window, native, plan.source_sizes), plan.erased
    groups = []
    for number in numbers:
        mode, takes = modes[number], None
        if len(numbers) > 1:
            takes = np.flatnonzero(np.asarray(drawn).repeat(pixels.frames) == number)
        antialias = native.sampling.antialias and mode != "nearest"
        matrix = pixels.put_each(plan.sampled(mode == "nearest"), takes)
        others = [None if a is None else pixels.put_each(a, takes) for a in (window, erased)]
        groups.append(_Group(mode, antialias, takes, matrix, *others))
    return groups


def _saturating(options: AugmentOptions, exact: bool) -> AugmentOptions:
    """Return options that clamp interpolated values, if exact before colours change."""
    color = options.color
    if color is not None and exact:
        first = torch.eye(*color.shape[-2:], dtype=color.dtype, device=color.device)
        color = torch.cat((first.expand_as(color[:, :1]), color), 1)
    return options._replace(color=color, clamp=True)


def _run_groups(
    plan: Plan,
    native: Compiled,
    images: Any,
    pixels: Pixels,
    shared: dict[str, Any],
) -> Any:
    """Run the samples of each interpolation together; return ``[N, C, H, W]``, or a list.

    `shared` are the operator's options by name that all groups share.
    """
    size = plan.size
    sizes = plan.sizes.repeat(pixels.frames, 0).tolist() if size is None else []
    found: list[Any] = [None] * len(images)
    for group in _groups(plan, native, pixels):
        own = AugmentOptions(
            interpolation=group.mode,
            antialias=group.antialias,
            window=group.window,
            erase=group.erased,
            **shared,
        )
        if native.sampling.saturates and pixels.dtype in INTEGERS and overshoots(group.mode):
            own = _saturating(own, plan.exact)
        matrix = group.matrix
        if group.takes is None:
            if size is None:
                return run_each(images, matrix, sizes, own)
            return run_all(images, matrix, size, own)
        takes = group.takes.tolist()
        some = [images[i] for i in takes]
        if own.color is not None:
            own = own._replace(color=own.color[pixels.put(group.takes)])
        if size is None:
            results: Any = run_each(some, matrix, [sizes[i] for i in takes], own)
        else:
            results = run_all(some, matrix, size, own)
        for i, result in zip(takes, results, strict=True):
            found[i] = result
    if size is None:
        return found
    form = torch.channels_last if shared["channels_last"] else torch.contiguous_format
    return torch.stack(found).contiguous(memory_format=form)
