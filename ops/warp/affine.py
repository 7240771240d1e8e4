"""The affine warp: the public function, and its operators' fake kernels, gradients and vmap.

Their schemas are in csrc/library.cpp, the checks of their arguments in csrc/core/warp/affine.cpp.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._native import warp_affine as _warp_ndarray
from .._torch.arrays import as_tensor, number_list, reject_channels_first
from .._torch.call import renamed
from .._torch.declaring import operator
from .._torch.fakes import empty_maps, holds, prefers_channels_last
from .._torch.numbers import check_order, is_symbol, tensor_of_symbols
from .._torch.options import Convention, Interpolation, PaddingMode, check_word, flag
from .._torch.unsupported_inputs import called, require_plain
from .matrix_algebra import Array


def warp_affine(
    image: Array,
    matrix: Any,
    size: Sequence[int] | None = None,
    *,
    mode: Interpolation = "bilinear",
    padding_mode: PaddingMode = "constant",
    fill: float | Sequence[float] = 0,
    inverse_map: bool = False,
    convention: Convention = "integer",
    out: Array | None = None,
) -> Array:
    r"""Warp images with affine matrices: crop, resize, flip, rotate, shear and shift in one pass.

    Every output pixel :math:`(x, y)` takes the image's value at
    :math:`M^{-1} (x, y, 1)`, the definition of OpenCV's ``warpAffine``:

    .. math:: output(x, y) = image(p_0 x + p_1 y + p_2,\; p_3 x + p_4 y + p_5), \quad P = M^{-1}

    Pixel centres are integers. Matrices are inverted in float64. Coordinates are computed in
    float32 (float64 for float64 images) with their integer parts kept apart, whatever the image's
    dtype, also under autocast. Values accumulate in float32 (float64 for float64); integers are
    rounded half to even and saturate; nearest takes the pixel at ``floor(coordinate + 0.5)``.
    Integer shifts, flips and quarter turns reproduce the input exactly. Results are bit-identical
    on every instruction set, at every thread count, and on CPU and CUDA.

    Parameters
    ----------
    image : Tensor ``[B, C, H, W]`` or ``[C, H, W]``, or ndarray ``[H, W]`` or ``[H, W, C]``
        uint8, int16, uint16, float16, bfloat16, float32 or float64 in every mode; bool, int8, int32
        and int64 with ``mode="nearest"``, exact for every value. Read in place with any strides;
        only arrays that are unaligned or have foreign byte order are copied.
    matrix : Tensor or array_like, ``[2, 3]`` or ``[B, 2, 3]``
        In pixels, for columns (x, y). Maps source to destination, unless `inverse_map`. A tensor
        has any floating dtype and is on the image's device; anything else is converted to float64.
        A ``[2, 3]`` or ``[1, 2, 3]`` matrix applies to every sample; an array takes ``[2, 3]``.
    size : pair of int, optional
        Height and width of the result. Default: those of `out` where given, else the image's.
    mode : {"bilinear", "nearest", "bicubic"}
        Interpolation. Bicubic is Keys' cubic convolution with a = -0.75, as in OpenCV and torch.
    padding_mode : {"constant", "replicate", "reflect", "symmetric", "circular"}
        What lies outside the image: `fill`, blended with the border pixels; the border pixel; the
        image mirrored without or with repeating the border pixel; the image repeated.
    fill : number or sequence of C numbers
        The value outside the image where `padding_mode` is "constant". No gradient flows to it.
    inverse_map : bool
        `matrix` maps destination to source and is used as it is, as with OpenCV's
        ``WARP_INVERSE_MAP``.
    convention : {"integer", "half_pixel"}
        Where pixel (0, 0)'s centre is in `matrix`'s coordinates: at (0, 0) (OpenCV, kornia,
        scikit-image) or at (0.5, 0.5) (torchvision, Pillow; a box ``0, 0, W, H`` is the image).
    out : Tensor or ndarray, optional
        Where to write the result: its shape, dtype and device, any strides. Not together with
        gradients.

    Returns
    -------
    Tensor or ndarray
        Of the image's kind, dtype, device and rank. A channels_last image gives a channels_last
        result.

    Raises
    ------
    RuntimeError, TypeError, ValueError
        An argument has a wrong shape, type, device or value; a matrix is not finite or, if it has
        to be inverted, singular. The message names the argument and the sample. CUDA matrices are
        not checked, which would synchronize: a sample with such a matrix becomes `fill`.

    Notes
    -----
    Differentiable with respect to `image` and `matrix`, and twice with respect to `image`. The
    backward is a gather and fixed-order sums, hence deterministic. Works under ``torch.compile``
    (fullgraph, dynamic shapes), :func:`torch.vmap` and autocast.

    Sources: G. Bradski, "The OpenCV Library", 2000, for the definition; R. G. Keys, "Cubic
    convolution interpolation for digital image processing", IEEE Trans. ASSP 29(6), 1981.

    Examples
    --------
    >>> import torch, visops
    >>> image = torch.arange(12.0).reshape(1, 3, 4)  # one channel, 3 rows, 4 columns
    >>> right = [[1, 0, 1], [0, 1, 0]]  # one pixel to the right
    >>> visops.warp_affine(image, right, fill=-1)
    tensor([[[-1.,  0.,  1.,  2.],
             [-1.,  4.,  5.,  6.],
             [-1.,  8.,  9., 10.]]])
    >>> turn = visops.get_affine_matrix(center=(1.5, 1.0), angle=90)
    >>> image = torch.zeros(8, 3, 480, 640, dtype=torch.uint8)
    >>> visops.warp_affine(image, turn, size=(224, 224), padding_mode="reflect").shape
    torch.Size([8, 3, 224, 224])
    """
    check_word("warp_affine", "convention", convention, ("integer", "half_pixel"))
    half_pixel = convention == "half_pixel"
    check_order("warp_affine", "size", size, "a sequence of integers, height and width")
    inverse_map = flag("warp_affine", "inverse_map", inverse_map)
    if isinstance(image, np.ndarray):
        reject_channels_first("warp_affine", image)
        return _warp_ndarray(  # type: ignore[no-any-return]
            image, matrix, size, mode, padding_mode, fill, inverse_map, half_pixel, out
        )
    if not isinstance(image, Tensor):
        raise TypeError(
            f"visops.warp_affine: image is a {type(image).__name__}, "
            "must be a torch.Tensor or a numpy.ndarray"
        )
    if not isinstance(matrix, Tensor):
        matrix = _matrix_tensor(matrix, image.device)
    fills = number_list("warp_affine", "fill", fill)
    rank = image.dim()
    if rank != 4 and rank != 3:
        require_plain("warp_affine", image=image)
        raise ValueError(
            f"visops.warp_affine: image has shape {list(image.shape)}, "
            "must be [batch, channels, height, width] or [channels, height, width]"
        )
    options = (mode, padding_mode, fills, inverse_map, half_pixel)
    try:
        images = image if rank == 4 else image.unsqueeze(0)
        if matrix.dim() == 3 and holds(matrix.shape[0] == 1) and not holds(images.shape[0] == 1):
            matrix = matrix.squeeze(0)
        if out is not None:
            _warp_into(out, images, matrix, size, options)
            return out
        result = _affine(images, matrix, images.shape[2:] if size is None else size, *options)
    except RuntimeError as error:
        if not str(error).startswith(
            "visops."
        ):  # torch's, for views of sparse tensors and the like
            require_plain("warp_affine", image=image, matrix=matrix)
        raise renamed(error, "warp_affine", "affine", {"interpolation": "mode"}) from None
    return result if rank == 4 else result.squeeze(0)


def _matrix_tensor(matrix: Any, device: torch.device) -> Tensor:
    try:
        if isinstance(matrix, np.ndarray):
            matrix = as_tensor("warp_affine", "matrix", matrix)
        if is_symbol(matrix):
            return tensor_of_symbols(matrix, device)
        return torch.as_tensor(matrix, dtype=torch.float64, device=device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"visops.warp_affine: matrix is a {type(matrix).__name__}, must be a tensor or "
            f"convertible to one of float64: {error}"
        ) from None


def _warp_into(
    out: Any, images: Tensor, matrix: Tensor, size: Sequence[int] | None, options: tuple[Any, ...]
) -> None:
    op = "warp_affine"
    if not isinstance(out, Tensor):
        kind = type(out).__name__
        raise TypeError(f"visops.{op}: out is a {kind}, must be a torch.Tensor as image is")
    if torch.is_grad_enabled() and any(t.requires_grad for t in (images, matrix, out)):
        raise RuntimeError(
            f"visops.{op}: out can't be given where a gradient is required; "
            "call it without out, or under torch.no_grad()"
        )
    if size is not None and tuple(out.shape[-2:]) != tuple(size):
        raise ValueError(
            f"visops.{op}: out has shape {list(out.shape)}, size is {tuple(size)}; they must agree"
        )
    outs = out.unsqueeze(0) if out.dim() == 3 else out
    called(_affine_out, images, matrix, *options, outs)
    # `out` may be saved for a backward: tell autograd that it has changed.
    if not torch.compiler.is_compiling() and not out.is_inference():
        torch.autograd.graph.increment_version(out)


def _empty_like(images: Tensor, size: Sequence[int]) -> Tensor:
    """Make [B, C, *size], channels_last where `images` is."""
    return empty_maps(images, (*images.shape[:2], *size), prefers_channels_last(images))


def _affine_fake(image: Tensor, matrix: Tensor, size: Sequence[int], *_: Any) -> Tensor:
    return _empty_like(image, size)


def _affine_backward_image_fake(
    grad: Tensor, matrix: Tensor, image_size: Sequence[int], *_: Any
) -> Tensor:
    return _empty_like(grad, image_size)


def _affine_backward_matrix_fake(grad: Tensor, image: Tensor, matrix: Tensor, *_: Any) -> Tensor:
    return torch.empty(matrix.shape, dtype=matrix.dtype, device=matrix.device)


def _affine_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    image, matrix, _, mode, padding_mode, fill, inverse_map, half_pixel = inputs
    # The warp is linear in the image, so only the matrix's gradient needs it.
    ctx.save_for_backward(matrix, image if ctx.needs_input_grad[1] else None)
    ctx.image_size = image.shape[2:]
    ctx.fill = fill
    ctx.options = (mode, padding_mode, inverse_map, half_pixel)


def _affine_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    matrix, image = ctx.saved_tensors
    mode, padding_mode, *how = ctx.options
    grad_image = grad_matrix = None
    if ctx.needs_input_grad[0]:
        grad_image = _affine_backward_image(grad, matrix, ctx.image_size, *ctx.options)
    if ctx.needs_input_grad[1]:
        grad_matrix = _affine_backward_matrix(
            grad, image, matrix, mode, padding_mode, ctx.fill, *how
        )
    return grad_image, grad_matrix, None, None, None, None, None, None


def _affine_backward_image_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    grad, matrix, _, *ctx.options = inputs
    ctx.save_for_backward(matrix, grad if ctx.needs_input_grad[1] else None)
    ctx.grad_size = grad.shape[2:]


def _affine_backward_image_backward(ctx: Any, grad_grad: Tensor) -> tuple[Tensor | None, ...]:
    # <u, warp^T g> = <warp u, g>: the derivatives are those of a warp of u, without fill.
    matrix, grad = ctx.saved_tensors
    mode, padding_mode, *how = ctx.options
    options = (mode, padding_mode, [0.0], *how)
    grad_of_grad = grad_of_matrix = None
    if ctx.needs_input_grad[0]:
        grad_of_grad = _affine(grad_grad, matrix, ctx.grad_size, *options)
    if ctx.needs_input_grad[1]:
        grad_of_matrix = _affine_backward_matrix(grad, grad_grad, matrix, *options)
    return grad_of_grad, grad_of_matrix, None, None, None, None, None


def _affine_backward_matrix_backward(ctx: Any, _: Tensor) -> None:
    raise RuntimeError(
        "visops.warp_affine: the gradient with respect to the matrix can't be differentiated "
        "again; detach it, or the matrix, where that is not needed"
    )


def _fold(images: Tensor, dim: int | None, count: int) -> Tensor:
    """[B, ...] with a mapped dimension anywhere, or none, to [count * B, ...]."""
    images = images.expand(count, *images.shape) if dim is None else images.movedim(dim, 0)
    return images.flatten(0, 1)


def _fold_matrix(matrix: Tensor, dim: int | None, count: int, batch: int) -> Tensor:
    if dim is not None and matrix.dim() == 3:  # [2, 3] per mapped call
        matrix = matrix.movedim(dim, 0).unsqueeze(1).expand(count, batch, 2, 3)
        return matrix.flatten(0, 1)
    return _fold(matrix, dim, count) if dim is not None or matrix.dim() == 3 else matrix


def _unfold(folded: Tensor, count: int) -> tuple[Tensor, int]:
    return folded.reshape(count, folded.shape[0] // count, *folded.shape[1:]), 0


def _vmap(
    call: Any, info: Any, in_dims: Any, image: Tensor, matrix: Tensor, *rest: Any
) -> tuple[Tensor, int]:
    """Let entries be more images of one call; of its gradient by the image, more gradients."""
    images = _fold(image, in_dims[0], info.batch_size)
    batch = images.shape[0] // info.batch_size
    matrices = _fold_matrix(matrix, in_dims[1], info.batch_size, batch)
    return _unfold(call(images, matrices, *rest), info.batch_size)


def _backward_matrix_vmap(
    call: Any, info: Any, in_dims: Any, grad: Tensor, image: Tensor, matrix: Tensor, *rest: Any
) -> tuple[Tensor, int]:
    count = info.batch_size
    grads, images = _fold(grad, in_dims[0], count), _fold(image, in_dims[1], count)
    batch = images.shape[0] // count
    dim = in_dims[2]
    if matrix.dim() - (dim is not None) == 3:
        matrices = _fold_matrix(matrix, dim, count, batch)
        return _unfold(call(grads, images, matrices, *rest), count)
    # Each mapped call has its own gradient for the matrix that its samples share: summed here in
    # float64 and rounded once.
    matrix, dim = (matrix.expand(count, 2, 3), 0) if dim is None else (matrix, dim)
    matrices = _fold_matrix(matrix, dim, count, batch).double()
    per_sample = call(grads, images, matrices, *rest)
    return _unfold(per_sample, count)[0].sum(1).to(matrix.dtype), 0


_affine = operator(
    "affine",
    fake=_affine_fake,
    setup_context=_affine_setup,
    backward=_affine_backward,
    vmap=_vmap,
    onnx="warp",
    documented_as="warp_affine",
    note="The matrix [B, 2, 3] maps destination to source unless inverse_map is false.",
)
_affine_out = operator("affine_out", in_errors="affine", documented_as="warp_affine")
_affine_backward_image = operator(
    "affine_backward_image",
    fake=_affine_backward_image_fake,
    setup_context=_affine_backward_image_setup,
    backward=_affine_backward_image_backward,
    vmap=_vmap,
)
_affine_backward_matrix = operator(
    "affine_backward_matrix",
    fake=_affine_backward_matrix_fake,
    backward=_affine_backward_matrix_backward,
    vmap=_backward_matrix_vmap,
)
