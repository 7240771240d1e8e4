"""One-pass augmentation: the public function.

augment_arguments.py brings its arguments into the operators' forms. Fake kernels, gradients and
vmap are in augment_autograd.py, schemas in csrc/library.cpp, checks in csrc/core/warp/augment.cpp.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from .._torch.arrays import as_float64, number_list
from .._torch.fakes import holds
from .._torch.numbers import check_order
from .._torch.options import Convention, Layout, PaddingMode, check_word, flag
from .._torch.unsupported_inputs import called, require_plain
from .augment_arguments import (
    SHARED,
    AugmentOptions,
    batch_tensor,
    color_tensor,
    erase_tensor,
    image_list,
    window_tensor,
)
from .augment_autograd import augment as _augment
from .augment_autograd import augment_list as _augment_list
from .augment_autograd import augment_list_out as _augment_list_out
from .augment_autograd import augment_out as _augment_out
from .augment_displaced import displaced, displacement_tensor


def augment(
    images: Tensor | np.ndarray | Sequence[Tensor | np.ndarray],
    matrix: Any,
    size: Sequence[int],
    *,
    color: Any = None,
    clamp: bool = False,
    mean: Any = None,
    std: Any = None,
    fill: Any = 0.0,
    mode: Literal["bilinear", "nearest", "bicubic", "lanczos"] = "bilinear",
    padding_mode: PaddingMode = "constant",
    antialias: bool = False,
    window: Any = None,
    erase: Any = None,
    erase_value: Any = 0.0,
    displacement: Any = None,
    displacement_grid: Literal["bilinear", "spline"] = "bilinear",
    out_dtype: torch.dtype = torch.float32,
    memory_format: torch.memory_format = torch.contiguous_format,
    convention: Convention = "integer",
    inverse_map: bool = False,
    layout: Layout | None = None,
    out: Tensor | None = None,
) -> Tensor:
    r"""Geometry, colour, normalisation, erasing, dtype and layout of a batch, in one pass.

    Every output pixel :math:`(x, y)` is sampled once, at :math:`M^{-1} (x, y, 1)`, or displaced by
    :math:`d` before, and what is sampled goes through the rest before it is stored:

    .. math::

       v_0 &= \text{image}(M^{-1} (x + d_x, y + d_y, 1)) / s_{in} \\
       v_k &= \text{clamp}(A_k v_{k-1} + a_k) \qquad k = 1 \dots K \\
       \text{output}(x, y) &= s_{out} (v_K - \text{mean}) / \text{std}

    :math:`s` is how a dtype stores 1: as 255 in uint8, as 1 in floating types. So for `color`,
    `clamp`, `mean` and `std` white is 1, whatever the dtypes; `fill` is in the images' own units
    and goes through colour like a pixel; `erase_value` is in the output's units.

    Coordinates and values are computed as in :func:`warp_affine`, in float32 (float64 for float64
    images). Results are bit-identical on every instruction set, at every thread count, and on CPU
    and CUDA.

    Parameters
    ----------
    images : Tensor or ndarray ``[B, C, H, W]`` or ``[B, H, W, C]``, or a list of images
        uint8, float16, bfloat16, float32 or float64; any strides, read in place. A list holds one
        ``[C, H, W]`` or ``[H, W, C]`` per sample (arrays also ``[H, W]``), each with its own height
        and width, all with the same dtype, channels and device.
    matrix : Tensor or array_like, ``[2, 3]``, ``[3, 3]``, ``[B, 2, 3]`` or ``[B, 3, 3]``
        In pixels, for columns (x, y). Maps source to destination, unless `inverse_map`; ``[3, 3]``
        may be a perspective map. A tensor has any floating dtype and is on the images' device;
        anything else is converted to float64. Without a batch, or with a batch of 1, it applies to
        every sample.
    size : pair of int
        Height and width of the result.
    color : Tensor or array_like ``[C, C + 1]``, ``[B, C, C + 1]``, ``[B, K, C, C + 1]``, optional
        Linear colour maps, rows :math:`A | a`, for images of at most 4 channels; K of them (at most
        8) apply in turn. If B is 1, they apply to every sample.
    clamp : bool
        Clamp to [0, 1] after every colour step, or once if there is none; NaN stays NaN.
    mean, std : number or sequence of C numbers, optional
        Subtracted and divided by, after colour.
    fill : number or sequence of C numbers
        The value outside the image where `padding_mode` is "constant". No gradient flows to it.
    mode : {"bilinear", "nearest", "bicubic", "lanczos"}
        Interpolation. Bicubic is Keys' cubic convolution with a = -0.75, as in OpenCV and torch;
        with `antialias` it has a = -0.5, as in Pillow and torch. Lanczos is Pillow's filter of
        three lobes, with `antialias` only.
    padding_mode : {"constant", "replicate", "reflect", "symmetric", "circular"}
        What lies outside the image or the window, as in :func:`warp_affine`.
    antialias : bool
        Where the image shrinks, sample with a filter as wide as an output pixel's footprint in the
        source, separately along the source's x and y. For axis-aligned maps that is
        ``F.interpolate(antialias=True)``; of uint8 images with padding "constant" it is computed in
        integers, within 0.4 levels of 255 before rounding. Not with "nearest".
    window : Tensor or array_like, ``[4]`` or ``[B, 4]``, optional
        The part x1, y1, x2, y2 of the images that exists, half-open. Pixel (0, 0) covers 0 to 1 in
        both conventions, so a whole image is 0, 0, W, H. Only pixels in the window are sampled;
        `padding_mode` decides what lies beyond it. With a window, or with `antialias`, the edge
        towards `fill` is one output pixel wide.
    erase : integer Tensor or array_like, ``[B, 4]`` or ``[B, R, 4]``, optional
        Rectangles x1, y1, x2, y2 of output pixels, half-open, that become `erase_value`. They may
        be empty or reach beyond the output.
    erase_value : number or sequence of C numbers
        In the output's own units, after normalisation.
    displacement : Tensor or array_like, ``[gh, gw, 2]`` or ``[B, gh, gw, 2]``, optional
        What is added to the position of each output pixel, x and y in output pixels, before the
        matrix leads it to the source: elastic and other bends in the same single interpolation. It
        is given at points that are evenly spaced over the output, those in the corners on its
        corner pixels' centres; one point for each pixel is a dense field. Not together with
        `antialias` or `window`.
    displacement_grid : {"bilinear", "spline"}
        How `displacement` is interpolated between its points: bilinearly, or by cubic B-splines, of
        which it holds the coefficients, and which go on as at their rim.
    out_dtype : torch.dtype
        uint8, float16, bfloat16, float32 or float64. uint8 is rounded half to even and saturates.
    memory_format : torch.memory_format
        The result's: ``torch.contiguous_format`` or ``torch.channels_last``.
    convention : {"integer", "half_pixel"}
        Where pixel (0, 0)'s centre is in `matrix`'s coordinates: at (0, 0) (OpenCV, kornia,
        scikit-image) or at (0.5, 0.5) (torchvision, Pillow; a box ``0, 0, W, H`` is the image).
    inverse_map : bool
        `matrix` maps destination to source and is used as it is.
    layout : {"CHW", "HWC"}, optional
        Where the images' channels are. By default, the first or the last axis, whichever has 1, 3
        or 4 elements (in a list, of the first image where only one does); if that does not decide,
        the last axis of arrays and the first of tensors.
    out : Tensor, optional
        Where to write the result: ``[B, C, *size]`` on the images' device, any strides. Its dtype
        and strides replace `out_dtype` and `memory_format`. Not together with gradients.

    Returns
    -------
    Tensor
        ``[B, C, *size]`` in `out_dtype`, on the images' device (CPU for arrays).

    Raises
    ------
    RuntimeError, TypeError, ValueError
        An argument has a wrong shape, type, device or value, is not finite, or can't be inverted.
        The message names the argument and the sample; nothing has been written. Values on a CUDA
        device are not checked, which would synchronize: a sample with a singular or non-finite
        matrix, or an empty window, becomes `fill`.

    Notes
    -----
    Where a perspective map has no finite source coordinates, the result is `fill`. Its footprint
    for `antialias` is computed at the middle of every 128 pixels of a row.

    With `antialias`, a footprint counts as no wider than the window. A map that shrinks the whole
    window into every output pixel, as a degenerate homography can, reads up to 4 (bicubic: 16,
    Lanczos: 36) times the window's pixels for each of them.

    Differentiable once with respect to `images` (floating), `matrix`, `color` and `displacement`.
    In the gradient of `matrix` the widths of the filter and the edge count as constants; no
    gradient passes where `clamp` has clamped. The backward is deterministic. Works under
    ``torch.compile`` (fullgraph, dynamic shapes), :func:`torch.vmap` and autocast.

    With a displacement, positions are as in :func:`remap`, the samples are held in float32 between
    geometry and the rest, and the gradients of the geometry are formulas of torch's operators. No
    dense field is made of a grid, on CPU or CUDA. A list is then a launch for each image.

    A list is one launch on CUDA and needs neither a common size nor a collated copy. Arrays are
    shared, read-only ones too; only those with foreign byte order, unaligned data or negative
    strides are copied.

    Sources: G. Bradski, "The OpenCV Library", 2000, for the geometry; R. G. Keys, "Cubic
    convolution interpolation for digital image processing", IEEE Trans. ASSP 29(6), 1981; P. S.
    Heckbert, "Fundamentals of texture mapping and image warping", 1989, for filters of the
    footprint's width; P. Haeberli and D. Voorhies, "Image processing by interpolation and
    extrapolation", 1994, for colour as matrices.

    Examples
    --------
    Two photos of different sizes, mirrored, resized, normalised and collated:

    >>> import numpy as np, torch, visops
    >>> photos = [np.full((480, 640, 3), 51, np.uint8), np.full((300, 200, 3), 255, np.uint8)]
    >>> mirrored = [
    ...     [[-224 / width, 0, 224], [0, 224 / height, 0]]
    ...     for height, width, _ in (photo.shape for photo in photos)
    ... ]
    >>> batch = visops.augment(
    ...     photos, mirrored, (224, 224), convention="half_pixel", antialias=True, mean=0.5, std=0.5
    ... )
    >>> batch.shape, batch.dtype
    (torch.Size([2, 3, 224, 224]), torch.float32)
    >>> batch[:, 0, 100, 100]
    tensor([-0.6000,  1.0000])

    Half the contrast, about middle grey:

    >>> grey = torch.tensor([[[[0.0, 0.5, 1.0]]]])
    >>> identity = [[1, 0, 0], [0, 1, 0]]
    >>> visops.augment(grey, identity, (1, 3), color=[[0.5, 0.25]])
    tensor([[[[0.2500, 0.5000, 0.7500]]]])

    Stretched from left to right, by shifts of 0 and 1 pixels at the two ends:

    >>> row = torch.tensor([[[[0.0, 0.3, 0.6, 0.9]]]])
    >>> shifts = [[[0.0, 0.0], [1.0, 0.0]]]
    >>> visops.augment(row, identity, (1, 4), displacement=shifts, padding_mode="replicate")
    tensor([[[[0.0000, 0.4000, 0.8000, 0.9000]]]])
    """
    if not isinstance(mode, str):
        check_word("augment", "mode", mode, ("nearest", "bilinear", "bicubic", "lanczos"))
    check_word("augment", "convention", convention, ("integer", "half_pixel"))
    half_pixel = convention == "half_pixel"
    if layout is not None:
        check_word("augment", "layout", layout, ("CHW", "HWC"), "'CHW', 'HWC' or None")
    check_word("augment", "displacement_grid", displacement_grid, ("bilinear", "spline"))
    channels_last = memory_format is torch.channels_last
    if not channels_last and memory_format is not torch.contiguous_format:
        raise ValueError(
            f"visops.augment: memory_format is {memory_format}, "
            "must be torch.contiguous_format or torch.channels_last"
        )
    if out is not None and not isinstance(out, Tensor):
        kind = type(out).__name__
        raise TypeError(f"visops.augment: out is a {kind}, must be a torch.Tensor")
    check_order("augment", "size", size, "a sequence of integers, height and width")
    clamp, antialias = flag("augment", "clamp", clamp), flag("augment", "antialias", antialias)
    inverse_map = flag("augment", "inverse_map", inverse_map)
    pixels: Any
    if listed := isinstance(images, (list, tuple)):
        pixels = image_list(images, layout)
        first, batch, channel_axis = pixels[0], len(pixels), 0
    else:
        pixels = first = batch_tensor(images, layout)
        batch, channel_axis = first.shape[0], 1
    device = first.device
    if not isinstance(matrix, Tensor):
        matrix = as_float64("augment", "matrix", matrix, device)
    if matrix.dim() == 3 and holds(matrix.shape[0] == 1) and not holds(batch == 1):
        require_plain("augment", matrix=matrix)
        matrix = matrix.squeeze(0)
    if color is not None:
        channels = first.shape[channel_axis] if first.dim() > channel_axis else 0
        color = color_tensor(color, batch, channels, device)
    fills = number_list("augment", "fill", fill)
    if displacement is not None:
        for name, given in (("antialias", antialias), ("window", window is not None)):
            if given:
                raise ValueError(
                    f"visops.augment: {name} can't be given together with displacement; must be "
                    "left out"
                )
        plain = color is None and not clamp and erase is None and mean is None and std is None
        pixels = displaced(
            pixels,
            matrix,
            size,
            displacement_tensor(displacement, displacement_grid, batch, first, size),
            (mode, padding_mode, fills),
            inverse_map=inverse_map,
            half_pixel=half_pixel,
            keeps_dtype=plain and (out_dtype if out is None else out.dtype) == first.dtype,
        )
        if plain and out is None and pixels.dtype == out_dtype and not channels_last:
            return pixels
        # What is left has no geometry.
        matrix = torch.eye(2, 3, dtype=torch.float64, device=device)
        listed, mode, padding_mode, fills = False, "nearest", "constant", [0.0]
        inverse_map, half_pixel = True, False
    options = AugmentOptions(
        interpolation=mode,
        padding_mode=padding_mode,
        fill=fills,
        antialias=antialias,
        window=None if window is None else window_tensor(window, batch, device),
        color=color,
        clamp=clamp,
        mean=[] if mean is None else number_list("augment", "mean", mean),
        std=[] if std is None else number_list("augment", "std", std),
        erase=None if erase is None else erase_tensor(erase, batch, device),
        erase_value=number_list("augment", "erase_value", erase_value),
        inverse_map=inverse_map,
        half_pixel=half_pixel,
        out_dtype=out_dtype,
        channels_last=channels_last,
    )
    if out is not None:
        _check_out(out, size, (*(pixels if listed else [pixels]), matrix, color, out))
        op = _augment_list_out if listed else _augment_out
        called(op, pixels, matrix, *options[:SHARED], out)
        # `out` may be saved for a backward: tell autograd that it has changed.
        if not torch.compiler.is_compiling() and not out.is_inference():
            torch.autograd.graph.increment_version(out)
        return out
    if not isinstance(out_dtype, torch.dtype):
        raise TypeError(f"visops.augment: out_dtype is {out_dtype!r}, must be a torch.dtype")
    run = _augment_list if listed else _augment
    return run(pixels, matrix, size, *options)  # type: ignore[no-any-return]


def _check_out(out: Tensor, size: Sequence[int], tensors: Sequence[Tensor | None]) -> None:
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        raise RuntimeError(
            "visops.augment: out can't be given where a gradient is required; "
            "call it without out, or under torch.no_grad()"
        )
    if tuple(out.shape[-2:]) != tuple(size):
        raise ValueError(
            f"visops.augment: out has shape {list(out.shape)}, size is {tuple(size)}; "
            "they must agree"
        )
