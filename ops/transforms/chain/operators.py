"""Runs a plan on one image of a sample: one call, and one more per contrast (operators.py)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from ..._native import GREY, MEAN_GRID
from ..._torch.arrays import as_tensor
from ..._torch.native import unwatched_ptr_and_strides as data_ptr_and_strides
from ...pixels.grey_means import add_grey_means
from ...warp.augment_options import AugmentOptions
from ..sample.encoded import Encoded
from ..sample.leaf import Leaf
from .compile import DTYPE_NAMES, Compiled
from .fuse import overshoots
from .integers import INTEGERS, WHITES, computed_in, float_fill, from_float, to_float
from .operator_calls import Later, Upload, got, run_all, run_each, windows_for
from .plan import Plan

_MEAN_SCALE = 2.0**32


@dataclass
class _Round:
    """Where a grey mean is taken, and what the pixels go through before."""

    matrix: Later
    size: Sequence[int] | None  # of the picture; None: those of `sizes`
    sizes: np.ndarray
    window: Later | None
    area: Later | None  # of an exact picture
    before: tuple[Later, list[Later]] | None
    plain: Later | None  # 1 where pixels go through nothing, although others' do; or None


class Colors:
    """The colour steps of a pass, grey means included.

    Their numbers are added to `upload` at once; pictures are taken when the tensor is asked for.
    """

    def __init__(
        self, plan: Plan, native: Compiled, images: Any, pixels: Any, upload: Upload
    ) -> None:
        self._plan, self._native, self._images = plan, native, images
        self._fill = float_fill("", native.sampling.fill, pixels.dtype)
        self._color = _colors_in_one_call(plan, native, images, pixels)
        if self._color is not None:
            return

        def steps(colors: tuple[Any, Any]) -> tuple[Later, list[Later]]:
            elements, weights = colors
            return upload.add_each(elements), [upload.add_each(weight) for weight in weights]

        rounds, whole = plan.color_program(native.sampling.modes[0] == "nearest")
        self._whole = steps(whole)
        self._rounds: list[_Round] = []
        for (matrices, size, sizes, window), before, plain in rounds:
            window = windows_for(window, native, plan.source_sizes)
            area = sizes[:, 0] * sizes[:, 1] * _MEAN_SCALE
            self._rounds.append(
                _Round(
                    upload.add_each(matrices),
                    size if plan.exact else (MEAN_GRID, MEAN_GRID),
                    sizes.repeat(pixels.frames, 0),
                    None if window is None else upload.add_each(window),
                    upload.add_each(area) if plan.exact else None,
                    None if before is None else steps(before),
                    None if plain is None else upload.add_each(plain.astype(np.int64)),
                )
            )

    def tensor(self) -> Tensor:
        """Return the steps, [N, K, C, C + 1]."""
        if self._color is not None:
            return self._color
        if not self._plan.exact:
            pictures: list[Tensor] = []
            for own in self._rounds:
                color = None if own.before is None else _with_pictures(own.before, pictures)
                with torch.no_grad():
                    pictures.append(self._picture(own, color))
            return _with_pictures(self._whole, pictures)
        means: list[Tensor] = []
        for own in self._rounds:
            mean = None
            if own.before is None or own.plain is not None:
                mean = self._exact_mean(own, None)
            if own.before is not None:
                later = self._exact_mean(own, _with_means(own.before, means))
                # `plain` says of which samples there is a mean already.
                mean = later if mean is None else torch.where(own.plain() != 0, mean, later)  # type: ignore[misc]
            means.append(mean)  # type: ignore[arg-type]
        return _with_means(self._whole, means)

    def _picture(self, own: _Round, color: Tensor | None) -> Any:
        exact, sampling = self._plan.exact, self._native.sampling
        # A grid needs only the nearest pixels: reading them takes most of the time.
        mode = sampling.modes[0] if exact else "nearest"
        options = AugmentOptions(
            interpolation=mode,
            padding_mode=sampling.padding_mode,
            fill=self._fill,
            antialias=sampling.antialias and mode != "nearest",
            window=got(own.window),
            color=color,
            clamp=color is not None,
            half_pixel=True,
            out_dtype=torch.float32 if exact else torch.uint8,
        )
        if own.size is None:
            return run_each(self._images, own.matrix(), own.sizes.tolist(), options)
        return run_all(self._images, own.matrix(), own.size, options)

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
        return grey / own.area()


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


def _with_pictures(colors: tuple[Later, list[Later]], pictures: Sequence[Tensor]) -> Tensor:
    """Add the grey means of pictures, times weights [N, K, C], to the steps' offsets."""
    color, weights = colors[0](), colors[1]
    for picture, weight in zip(pictures, weights, strict=True):
        color = add_grey_means(picture, color, weight())
    return color


def _with_means(colors: tuple[Later, list[Later]], means: Sequence[Tensor]) -> Tensor:
    """Add grey means [N], times weights [N, K, C], to the steps' offsets."""
    color, weights = colors[0](), colors[1]
    if not weights:
        return color
    offsets = color[..., -1]
    for mean, weight in zip(means, weights, strict=True):
        # Not in place: under vmap a mean is that of several images.
        offsets = offsets + mean[:, None, None] * weight()
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
        """Return an array as a tensor on the image's device."""
        tensor = torch.from_numpy(array)
        return tensor if self.on_cpu else tensor.to(self.device, non_blocking=True)


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
    upload = Upload(pixels)
    groups = _groups(plan, native, pixels, upload)
    colors = Colors(plan, native, images, pixels, upload) if plan.has_colors else None
    color = None if colors is None else colors.tensor()
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
    return _run_groups(plan, native, groups, images, pixels, shared)


@dataclass
class _Group:
    """The images that share an interpolation."""

    mode: str
    antialias: bool
    kinds: int  # of samples, as the operator takes them
    takes: np.ndarray | None  # images; None: all
    rows: Later | None  # `takes` where the images are
    matrix: Later
    window: Later | None
    erased: Later | None


def _groups(plan: Plan, native: Compiled, pixels: Pixels, upload: Upload) -> list[_Group]:
    modes, drawn = native.sampling.modes, plan.modes
    numbers = [0] if drawn is None else np.unique(drawn).tolist()
    window, erased = windows_for(plan.window, native, plan.source_sizes), plan.erased
    groups = []
    for number in numbers:
        mode, takes, rows = modes[number], None, None
        if len(numbers) > 1:
            takes = np.flatnonzero(np.asarray(drawn).repeat(pixels.frames) == number)
            rows = upload.add(takes) if plan.has_colors else None
        antialias = native.sampling.antialias and mode != "nearest"
        # Only a GPU has kernels to choose from.
        known = antialias and not pixels.on_cpu
        kinds = native.chain.kinds(plan, pixels.dtype is torch.uint8, number) if known else 0
        matrix = upload.add_each(plan.sampled(mode == "nearest"), takes)
        others = [None if a is None else upload.add_each(a, takes) for a in (window, erased)]
        groups.append(_Group(mode, antialias, kinds, takes, rows, matrix, *others))
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
    groups: Sequence[_Group],
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
    for group in groups:
        own = AugmentOptions(
            interpolation=group.mode,
            antialias=group.antialias,
            window=got(group.window),
            erase=got(group.erased),
            kinds=group.kinds,
            **shared,
        )
        if native.sampling.saturates and pixels.dtype in INTEGERS and overshoots(group.mode):
            own = _saturating(own, plan.exact)
        matrix = group.matrix()
        if group.takes is None:
            if size is None:
                return run_each(images, matrix, sizes, own)
            return run_all(images, matrix, size, own)
        takes = group.takes.tolist()
        some = [images[i] for i in takes]
        if group.rows is not None and own.color is not None:
            own = own._replace(color=own.color[group.rows()])
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
