"""The colour steps of a pass, with the grey means that its contrasts take.

Grey means: NOTE in csrc/core/chain/color_program.h. Their sums are of integers, so they don't
depend on order, and hence not on batch, threads or device. The CPU never needs the value of a mean
that is on a GPU: a CUDA image doesn't synchronize.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._native import GREY, MEAN_GRID
from ..._torch.native import unwatched_ptr_and_strides as data_ptr_and_strides
from ...pixels.grey_means import add_grey_means
from ...warp.augment_options import AugmentOptions
from .compile import DTYPE_NAMES, Compiled
from .integers import float_fill
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
