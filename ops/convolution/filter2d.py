"""Filters of images, colour images too, by OpenCV's rules: filter2d.

Images become planes ``[..., H, W]``, extended beyond their borders; correlate2d does the rest.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .._torch.arrays import as_tensor, rounded_to
from .._torch.call import modes_or_transforms_active, renamed
from .._torch.declaring import operator
from .._torch.fakes import any_zero, contiguous_like, separable_flops
from .._torch.numbers import real_number
from .._torch.options import check_word
from .._torch.unsupported_inputs import require_plain
from .convolve2d import correlate2d
from .convolve2d_problem import extended_along

# Separable filters of a batch, with weights for each image.
#
# The schema is in csrc/library.cpp, checks of arguments in csrc/core/pixels/filters/filter.cpp.

DTYPES = (torch.uint8, torch.float16, torch.bfloat16, torch.float32)
MOST_TAPS = 33


def filter_separable(
    images: Tensor,
    rows: Sequence[float],
    columns: Sequence[float],
    shared: bool = True,
    pairs: bool = False,
) -> Tensor:
    """Filter images along their rows, then along their columns.

    Parameters
    ----------
    images : Tensor ``[B, C, H, W]``
        uint8, float16, bfloat16 or float32; mirrored at the rim without repeating it.
    rows, columns : sequence of float
        Weights, at most 33 of each; the middle of n is number n // 2.
    shared : bool
        Whether all images have the same weights. Else each has as many of its own, one image's
        after another's.
    pairs : bool
        Whether weights to both sides of the middle are equal: then two neighbours are added before
        they are multiplied, and the sum begins with the middle.

    Returns
    -------
    Tensor ``[B, C, H, W]``
        Contiguous; the images' dtype. Integers are rounded half to even.

    Raises
    ------
    RuntimeError
        If the dtype is another, there are too many weights, or they don't fit the images.

    Notes
    -----
    Computed in float32, in the order of the taps: the bits are the same on every device. No
    gradient.

    Examples
    --------
    >>> import torch
    >>> from visops.convolution.filter2d import filter_separable
    >>> filter_separable(torch.eye(3)[None, None], [0.25, 0.5, 0.25], [1.0])[0, 0]
    tensor([[0.5000, 0.2500, 0.0000],
            [0.5000, 0.5000, 0.5000],
            [0.0000, 0.2500, 0.5000]])
    """
    return _filter_separable(  # type: ignore[no-any-return]
        images, list(rows), list(columns), shared, pairs
    )


_filter_separable = operator(
    "filter_separable",
    fake=contiguous_like(0),
    without_gradient=True,
    flops=separable_flops,
    private=True,
    documented_as="transforms.Compose",
)


Array = TypeVar("Array", Tensor, np.ndarray)

# OpenCV's names, and those of extended_along().
_BORDERS = {
    "reflect_101": "mirror",
    "reflect": "symm",
    "replicate": "replicate",
    "wrap": "wrap",
    "constant": "constant",
}
_MOST_CHANNELS = 4  # more may be rows: [Z, Y, X], [T, H, W] or [C, H, W]
# Shorter sides of kernels are left as they are, and so are the bits of their results.
_LONG = 1024
_IN_SINGLE = (
    torch.uint8,
    torch.int8,
    torch.uint16,
    torch.int16,
    torch.float16,
    torch.bfloat16,
    torch.float32,
)
_IN_DOUBLE = (torch.uint32, torch.int32, torch.uint64, torch.int64, torch.float64)


def filter2d(
    image: Array,
    kernel: Any,
    *,
    border: Literal["reflect_101", "reflect", "replicate", "wrap", "constant"] = "reflect_101",
    fill: float = 0.0,
    channels: Literal["last", "first"] | None = None,
    dtype: Any = None,
    method: str = "auto",
) -> Array:
    """Filter images with a kernel, each channel for itself: ``cv2.filter2D``.

    It is a correlation: the kernel is not turned. The result has the image's size and, unless
    `dtype` says otherwise, its dtype: integers are rounded half to even and saturate.

    Parameters
    ----------
    image : Tensor ``[..., H, W]``, or ndarray ``[H, W]`` or ``[..., H, W, C]``
        Any integer or floating dtype.
    kernel : Tensor or array_like ``[height, width]``, or a pair of them ``[width]``, ``[height]``
        Its middle, element ``[height // 2, width // 2]``, lies on the pixel. A pair is a row and a
        column, as ``cv2.sepFilter2D`` takes them; their product need not be formed. Kernels on the
        CPU that are such a product are found, and applied so where that is faster.
    border : {"reflect_101", "reflect", "replicate", "wrap", "constant"}
        What lies outside: the image mirrored without or with repeating the border pixel, the border
        pixel, the image repeated, or `fill`.
    fill : float
        For "constant".
    channels : {"last", "first"}, optional
        Whether the last dimension of `image` holds channels, or they come before height and width.
        By default they are last in arrays of three or more dimensions, and first in tensors.
    dtype : torch.dtype or NumPy dtype, optional
        The result's, such as float32 for derivatives of uint8 images.
    method : str
        As in :func:`correlate2d`.

    Returns
    -------
    Tensor or ndarray
        The image's shape.

    Raises
    ------
    ValueError
        For unknown words, wrong shapes and dtypes; for an array whose last dimension has more than
        4 entries and a tensor that looks like ``[H, W, C]``, unless `channels` says what is meant.
    TypeError
        For an image that is neither a tensor nor an array.
    RuntimeError
        For tensors on two devices.

    Notes
    -----
    Computed in float32, in float64 for float64 images and integers of 32 bits and more, of which
    those beyond 2**53 are rounded; :func:`correlate2d` is exact. Values of floating images are
    OpenCV's but for rounding; of uint8 images too, except that a sum halfway between two levels may
    round the other way. Differentiable with respect to floating images and the kernel, as
    :func:`correlate2d`.

    Source: G. Bradski, "The OpenCV Library", 2000, for the definition.

    Examples
    --------
    >>> import numpy as np, visops
    >>> photo = np.zeros((3, 4, 3), np.uint8)  # rows, columns, channels
    >>> photo[1, 1] = 90, 180, 255
    >>> visops.filter2d(photo, np.full((3, 3), 1 / 9))[1, 2]
    array([10, 20, 28], dtype=uint8)
    """
    op = "filter2d"
    return filtered(  # type: ignore[no-any-return]
        op, image, _factors(op, kernel), border, fill, channels, dtype, method
    )


def computed_in(op: str, dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which images of `dtype` are filtered."""
    if dtype in _IN_SINGLE:
        return torch.float32
    if dtype in _IN_DOUBLE:
        return torch.float64
    name = str(dtype).removeprefix("torch.")
    raise ValueError(f"visops.{op}: image has dtype {name}, must be an integer or floating type")


def filtered(
    op: str,
    image: Any,
    kernels: Sequence[Any],
    border: str,
    fill: float,
    channels: str | None,
    dtype: Any,
    method: str = "auto",
    divisor: int = 1,
) -> Any:
    """Filter with `kernels`, each [height, width], in turn; borders are those of the image itself.

    Sums are divided by `divisor` before they are rounded. The rest is as in filter2d().
    """
    check_word(op, "border", border, _BORDERS, f"one of {', '.join(map(repr, _BORDERS))}")
    require_plain(op, image=image, kernel=list(kernels))
    fill = real_number(op, "fill", fill)
    planes, last = _planes(op, image, channels)
    result_dtype = planes.dtype if dtype is None else _torch_dtype(op, dtype)
    wide = computed_in(op, planes.dtype)
    sides = planes.shape[-2:]
    by_itself = isinstance(method, str) and method == "auto"
    plain = border == "reflect_101" and divisor == 1 and by_itself
    if plain and _takes_separable(planes, kernels, result_dtype):
        row, column = (kernel.ravel().tolist() for kernel in kernels)
        batch = planes.reshape(1, -1, *sides)
        result = filter_separable(batch, row, column).view(planes.shape)
        return result.movedim(-3, -1) if last else result
    folded = [_folded(kernel, sides, _BORDERS[border]) for kernel in kernels]
    read = [_kernel(op, kernel, planes.device, wide) for kernel in folded]
    values = planes.to(wide)
    if not any_zero(planes.shape):
        try:
            values = _correlated(values, read, _BORDERS[border], fill, method)
        except (RuntimeError, TypeError, ValueError) as error:
            raise renamed(error, op, "correlate2d", {"in1": "image", "in2": "kernel"}) from None
    result = rounded_to(values if divisor == 1 else values / divisor, result_dtype)
    if last:
        result = result.movedim(-3, -1)
    return result.detach().contiguous().numpy() if isinstance(image, np.ndarray) else result


def _takes_separable(planes: Tensor, kernels: Sequence[Any], dtype: torch.dtype) -> bool:
    """Whether one kernel on a GPU does all: of a row and a column, with the same bits."""
    return (
        planes.is_cuda
        and planes.dtype == dtype
        and dtype in DTYPES
        and len(kernels) == 2
        and all(isinstance(k, np.ndarray) and k.size <= MOST_TAPS for k in kernels)
        and not (planes.requires_grad and torch.is_grad_enabled())
        and not torch.compiler.is_compiling()
        and not modes_or_transforms_active()
        and kernels[0].shape[0] == kernels[1].shape[1] == 1
    )


def _planes(op: str, image: Any, channels: str | None) -> tuple[Tensor, bool]:
    """Return [..., H, W], and whether channels came last."""
    if not isinstance(image, (Tensor, np.ndarray)):
        kind = type(image).__name__
        raise TypeError(
            f"visops.{op}: image is a {kind}, must be a torch.Tensor or a numpy.ndarray"
        )
    if channels is not None:
        check_word(op, "channels", channels, ("last", "first"))
    shape = tuple(image.shape)
    is_array = isinstance(image, np.ndarray)
    if len(shape) < (3 if channels == "last" else 2):
        raise ValueError(
            f"visops.{op}: image has shape {list(shape)}, must have height and width"
            + (", and channels" if channels == "last" else "")
        )
    last = len(shape) > 2 and is_array if channels is None else channels == "last"
    if channels is None and len(shape) > 2:
        _reject_doubtful(op, shape, is_array)
    planes: Tensor = as_tensor(op, "image", image) if isinstance(image, np.ndarray) else image
    return (planes.movedim(-1, -3) if last else planes), last


def _reject_doubtful(op: str, shape: tuple[int, ...], is_array: bool) -> None:
    if is_array and shape[-1] > _MOST_CHANNELS:
        raise ValueError(
            f"visops.{op}: image has shape {list(shape)}, whose last dimension may be columns or "
            "channels; say channels='first' for [..., height, width], or channels='last'"
        )
    if not is_array and shape[-1] in (1, 3, 4) and shape[-3] not in (1, 3, 4):
        raise ValueError(
            f"visops.{op}: image has shape {list(shape)}, a tensor is [..., height, width]; say "
            "channels='last' for [height, width, channels], or channels='first'"
        )


def _factors(op: str, kernel: Any) -> Sequence[Any]:
    """Return one kernel, or the row and the column of a pair as kernels."""
    if not isinstance(kernel, (tuple, list)) or len(kernel) != 2:
        return (kernel,)
    parts = [part if isinstance(part, Tensor) else np.asarray(part) for part in kernel]
    if all(part.ndim == 1 for part in parts) and isinstance(kernel, tuple):
        return parts[0][None, :], parts[1][:, None]
    return (kernel,)


def _folded(kernel: Any, sides: Sequence[int], border: str) -> Any:
    """Return a kernel no longer than what it can see of the image, where it is an array.

    Far from its middle, a kernel that is much longer than the image reads the same pixels again,
    or what lies outside: the weights of equal pixels become one. An image of one row would
    otherwise be extended to as many rows as the kernel has. Dynamo can't trace this.
    """
    if torch.compiler.is_compiling() or not isinstance(kernel, np.ndarray) or kernel.ndim != 2:
        return kernel
    if kernel.dtype.kind not in "biuf":
        return kernel  # to be refused
    for axis, size in enumerate(sides):
        if kernel.shape[axis] <= _LONG or size == 0:
            continue
        side = int(size)  # a tensor under torch.jit.trace
        taps = np.arange(kernel.shape[axis]) - kernel.shape[axis] // 2  # from the pixel
        if border in ("constant", "replicate"):
            # From this distance on, every pixel reads the fill, or the border's pixel.
            reach = side if border == "constant" else side - 1
            positions, length = taps.clip(-reach, reach) + reach, 2 * reach + 1
        else:
            length = {"wrap": side, "symm": 2 * side, "mirror": max(2 * side - 2, 1)}[border]
            positions = (taps + length // 2) % length
        if len(taps) > 2 * length:
            sums = np.zeros((length, kernel.shape[1 - axis]))
            np.add.at(sums, positions, np.moveaxis(kernel, axis, 0))
            kernel = np.moveaxis(sums, 0, axis)
    return kernel


def _kernel(op: str, kernel: Any, device: torch.device, dtype: torch.dtype) -> Tensor:
    if not isinstance(kernel, Tensor):
        try:
            # Complex ones are refused below; dynamo can't ask.
            imaginary = not torch.compiler.is_compiling() and np.iscomplexobj(kernel)
            host = torch.from_numpy(np.array(kernel, np.complex128 if imaginary else np.float64))
            kernel = host.to(device, non_blocking=True)
        except (TypeError, ValueError) as error:
            raise TypeError(f"visops.{op}: kernel is not an array of numbers: {error}") from None
    if kernel.dim() != 2 or 0 in kernel.shape:
        raise ValueError(
            f"visops.{op}: kernel has shape {list(kernel.shape)}, must be [height, width], or a "
            "tuple of a row [width] and a column [height]"
        )
    if kernel.is_complex():
        raise ValueError(f"visops.{op}: kernel is complex, must be real")
    if kernel.device != device:
        raise RuntimeError(
            f"visops.{op}: kernel is on {kernel.device}, image is on {device}; all tensors must be "
            "on one device"
        )
    result: Tensor = kernel.to(dtype)
    return result


def _extended(values: Tensor, kernel: Tensor, border: str, fill: float) -> Tensor:
    """Return the image with all that the kernel reads."""
    for dim in (-2, -1):
        before, after = kernel.shape[dim] // 2, (kernel.shape[dim] - 1) // 2
        if border == "constant":
            widths = [before, after, 0, 0] if dim == -1 else [0, 0, before, after]
            values = F.pad(values, widths, value=fill)
        else:
            values = extended_along(values, dim, -before, values.shape[dim] + after, border)
    return values


def _correlated(
    values: Tensor, kernels: Sequence[Tensor], border: str, fill: float, method: str
) -> Tensor:
    """Correlate with one kernel, or with a row and then a column.

    The image is extended along one dimension at a time: along both, a row and a column of 10,000
    elements would take gigabytes on a small image.
    """
    beyond = border == "constant" and len(kernels) == 2
    if beyond:  # a row of what lies outside, filtered as the image is
        values = F.pad(values, [0, 0, 1, 0], value=fill)
    for i, kernel in enumerate(kernels):
        if beyond and i == 1:
            outside, values = values[..., :1, :], values[..., 1:, :]
            sides = (kernel.shape[-2] // 2, (kernel.shape[-2] - 1) // 2)
            above, below = (outside.expand(*outside.shape[:-2], n, -1) for n in sides)
            values = torch.cat([above, values, below], -2)
        else:
            values = _extended(values, kernel, border, fill)
        values = correlate2d(values, kernel, mode="valid", method=method)
    return values


def _torch_dtype(op: str, dtype: Any) -> torch.dtype:
    if isinstance(dtype, torch.dtype):
        found = dtype
    else:
        try:
            found = torch.from_numpy(np.empty(0, dtype)).dtype
        except TypeError:
            raise TypeError(
                f"visops.{op}: dtype is {dtype!r}, must be a torch or NumPy dtype"
            ) from None
    if found == torch.bool or found.is_complex:
        name = str(found).removeprefix("torch.")
        raise ValueError(f"visops.{op}: dtype is {name}, must be an integer or floating type")
    return found
