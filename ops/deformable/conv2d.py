"""Deformable convolution: the public function.

The schema is in csrc/library.cpp, checks of arguments in csrc/torch/deformable/conv2d.cpp and
csrc/core/deformable/conv2d.cpp, fake kernels, gradients and vmap in conv2d_autograd.py.
"""

from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._torch.call import call_operator
from .._torch.numbers import as_index
from .conv2d_autograd import deform_conv2d as _call

Array = TypeVar("Array", Tensor, np.ndarray)
_Device = torch.device | str | None
_OP = "deform_conv2d"


def deform_conv2d(
    input: Array,
    offset: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | tuple[int, int] = (1, 1),
    padding: int | tuple[int, int] = (0, 0),
    dilation: int | tuple[int, int] = (1, 1),
    mask: Array | None = None,
    *,
    device: _Device = None,
) -> Array:
    r"""Convolve with a kernel whose taps are moved for each output pixel: DCN and DCNv2.

    Tap k of the kernel, which a convolution would read at :math:`p + p_k`, is read at
    :math:`p + p_k + \Delta_k(p)` and weighted by the mask:

    .. math:: \mathrm{out}(p) = b + \sum_k w_k \, m_k(p) \, x(p + p_k + \Delta_k(p))

    x is interpolated bilinearly between pixel centres at integers, and is 0 outside the map.
    The arguments, their order and the result are those of ``torchvision.ops.deform_conv2d``.
    Samples are made for some output pixels at a time and multiplied while they are in the cache:
    there is no column matrix. Sums are float32 (float64 for float64) and rounded once. Results and
    gradients don't depend on the number of threads. Products are fused with sums where the
    processor can, so bits may differ between processors, as those of :func:`visops.conv2d` do.

    Parameters
    ----------
    input : Tensor or ndarray ``[N, C, H, W]``
        float16, bfloat16, float32 or float64.
    offset : Tensor or ndarray ``[N, 2 * G * K, OH, OW]``
        In pixels, for K = kernel height x width and G offset groups, which share the channels
        evenly. Channels 2k and 2k + 1 of a group are y and x of kernel element k (row by row).
        Any floating type up to float32; float64 for float64 input. Samples whose location is not
        finite are 0 and have no gradient.
    weight : Tensor or ndarray ``[M, C / groups, KH, KW]``
        The number of groups follows from its second size. Dtype of `input`.
    bias : Tensor or ndarray ``[M]``, optional
        Dtype of `input`.
    stride, padding, dilation : int or pair (y, x)
        As for a convolution; padding is on each side.
    mask : Tensor or ndarray ``[N, G * K, OH, OW]``, optional
        Factors of the samples (DCNv2). Dtypes as for `offset`.
    device : optional
        For arrays: where to compute. Arrays are copied there, and the result back.

    Returns
    -------
    Tensor or ndarray ``[N, M, OH, OW]``
        The dtype is that of `input`; channels_last if the input is.

    Raises
    ------
    RuntimeError, TypeError, ValueError
        For wrong shapes, dtypes, devices and options.

    Notes
    -----
    Differentiable with respect to all tensors, but not twice. Gradients are sums in a fixed order
    without atomics, hence deterministic. Where a location is on a pixel, its offset's gradient is
    that towards larger coordinates; a sample at -1 or beyond has none.

    Within ``torch.autocast``, `input`, `weight` and `bias` are cast as for convolutions, `offset`
    and `mask` to float32.

    Dai et al., "Deformable Convolutional Networks", 2017; Zhu et al., "Deformable ConvNets v2: More
    Deformable, Better Results", 2019.

    Examples
    --------
    >>> import torch, visops
    >>> image = torch.arange(16.0).reshape(1, 1, 4, 4)
    >>> offset = torch.full((1, 2, 4, 4), 0.5)  # a kernel of one element, moved by half a pixel
    >>> visops.deform_conv2d(image, offset, torch.ones(1, 1, 1, 1))[0, 0, :2, :2]
    tensor([[2.5000, 3.5000],
            [6.5000, 7.5000]])
    """
    options = [
        pair_of(_OP, name, value)
        for name, value in (("stride", stride), ("padding", padding), ("dilation", dilation))
    ]
    tensors = {"input": input, "offset": offset, "weight": weight, "bias": bias, "mask": mask}
    return call_operator(  # type: ignore[no-any-return]
        _OP, _call, device, tensors, *options, optional=("bias", "mask")
    )


def pair_of(op: str, name: str, value: Any) -> list[Any]:
    """Return one integer, or two for y and x, as two."""
    try:
        if isinstance(value, (list, tuple, torch.Size)):
            numbers = [as_index(number) for number in value]
        else:
            numbers = [as_index(value)] * 2
    except TypeError:
        numbers = []
    if len(numbers) != 2:
        raise TypeError(f"visops.{op}: {name} is {value!r}, must be an integer or a pair (y, x)")
    return numbers
