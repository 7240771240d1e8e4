"""Other poolings of regions than RoIAlign: the public functions.

Schemas are in csrc/library.cpp, checks of arguments in csrc/torch/roi/pooling.cpp, fake
kernels, gradients and vmap in pooling_autograd.py.
"""

from collections.abc import Sequence

from torch import Tensor

from .._torch.options import flag
from .._torch.unsupported_inputs import require_tensors
from .arguments import as_boxes, output_pair
from .pooling_autograd import ps_roi_align as _ps_roi_align
from .pooling_autograd import roi_align_rotated as _roi_align_rotated
from .pooling_autograd import roi_pool as _roi_pool


def roi_align_rotated(
    input: Tensor,
    boxes: Tensor | Sequence[Tensor],
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    *,
    aligned: bool = True,
    clockwise: bool = False,
    degrees: bool = False,
) -> Tensor:
    r"""Pool rotated regions of maps to one size: RoIAlign in the frame of each box.

    The bins of a box :math:`(x, y, w, h, a)` are those of :func:`roi_align`, with the origin at the
    box's centre. Their sample at :math:`(u, v)` lies at
    :math:`(x + u \cos a + v \sin a,\; y - u \sin a + v \cos a)` on the map. Results are
    bit-identical on every instruction set, at every thread count, and on CPU and CUDA; so are
    gradients.

    Parameters
    ----------
    input : Tensor ``[N, C, H, W]``
        float16, bfloat16, float32, float64 or uint8; any strides.
    boxes : Tensor ``[K, 6]``, or a list of Tensor ``[L, 5]``
        Batch index, centre ``x, y``, ``width``, ``height``, ``angle``; or the last five, with one
        tensor per image. Any floating or integer dtype. In pixels of the maps divided by
        `spatial_scale`; boxes may extend beyond the maps.
    output_size : int or (int, int)
        Bins: height and width.
    spatial_scale : float
        Pixels of `input` per unit of `boxes`, > 0. Angles are not scaled.
    sampling_ratio : int
        A bin has ``sampling_ratio × sampling_ratio`` samples, at most 256². If <= 0, it has about
        one per pixel: as many as its height and width in pixels, rounded up.
    aligned : bool
        As in :func:`roi_align`: whether the centre of pixel (0, 0) is at (0.5, 0.5), and boxes may
        have any size.
    clockwise : bool
        Which way a positive angle turns, as seen in an image (y points down). The angles of
        :func:`nms_rotated` and :func:`box_iou_rotated` are clockwise.
    degrees : bool
        Whether angles are in degrees; else in radians.

    Returns
    -------
    Tensor ``[K, C, *output_size]``
        Has the dtype of `input`; computed in float32 (float64 for float64), uint8 rounded half to
        even. channels_last if `input` is.

    Raises
    ------
    RuntimeError
        For wrong shapes, dtypes, devices or numbers. On the CPU also for boxes that have a batch
        index out of range, are not finite, are larger than 16,777,216 pixels or as far from the
        map's corner, or, if `aligned`, have negative sides. On CUDA such boxes give zeros and have
        no gradient: finding them would synchronize.
    TypeError, ValueError
        For arguments of the wrong type, and lists of the wrong length or shape.

    Notes
    -----
    ``degrees=True`` is detectron2's ``ROIAlignRotated``. Angles in radians are those of mmcv's
    ``RoIAlignRotated``, with its `aligned` and `clockwise`.

    Differentiable with respect to `input`, any number of times; boxes have no gradient, as in those
    libraries, and the result requires none because of them. The backward is deterministic, without
    atomics.

    Source: J. Ma et al., "Arbitrary-oriented scene text detection via rotation proposals", IEEE
    Transactions on Multimedia 2018; the arithmetic is detectron2's.

    Examples
    --------
    A quarter of a turn counter-clockwise: the box's x axis points up.

    >>> import torch, visops
    >>> image = torch.arange(16.0).reshape(1, 1, 4, 4)
    >>> box = torch.tensor([[0.0, 2, 2, 4, 4, 90]])
    >>> visops.roi_align_rotated(image, box, 2, degrees=True)
    tensor([[[[10.5000,  2.5000],
              [12.5000,  4.5000]]]])
    """
    op = "roi_align_rotated"
    require_tensors(op, input=input)
    rows = as_boxes(op, boxes, input, columns=5)
    size = output_pair(op, output_size)
    flags = {"aligned": aligned, "clockwise": clockwise, "degrees": degrees}
    checked = (flag(op, name, value) for name, value in flags.items())
    options = (spatial_scale, sampling_ratio, *checked)
    result: Tensor = _roi_align_rotated(input, rows, size, *options)
    return result


def roi_pool(
    input: Tensor,
    boxes: Tensor | Sequence[Tensor],
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
) -> Tensor:
    """Pool regions of maps to one size: the largest element of each bin, as in Fast R-CNN.

    Boxes and bins are rounded to whole pixels. Arguments and values are those of
    ``torchvision.ops.roi_pool``. Results are bit-identical on every instruction set, at every
    thread count, and on CPU and CUDA; so are gradients.

    Parameters
    ----------
    input : Tensor ``[N, C, H, W]``
        float16, bfloat16, float32, float64 or uint8; any strides.
    boxes : Tensor ``[K, 5]``, or a list of Tensor ``[L, 4]``
        As in :func:`roi_align`. Both corners are rounded to the nearest pixel, halves away from
        zero, and both pixels are inside.
    output_size : int or (int, int)
        Bins: height and width. Two bins share a pixel if their border lies within it.
    spatial_scale : float
        Pixels of `input` per unit of `boxes`, > 0.

    Returns
    -------
    Tensor ``[K, C, *output_size]``
        Has the dtype of `input`; channels_last if `input` is. A bin without pixels of the map is 0.
        NaN is larger than all numbers (torchvision skips it).

    Raises
    ------
    RuntimeError
        For wrong shapes, dtypes, devices or numbers. On the CPU also for boxes that have a batch
        index out of range or are not finite. On CUDA such boxes give zeros and have no gradient:
        finding them would synchronize.
    TypeError, ValueError
        For arguments of the wrong type, and lists of the wrong length or shape.

    Notes
    -----
    Differentiable with respect to `input`, any number of times: a bin's gradient goes to the
    element it took, the first by rows among equal ones. Boxes have no gradient, and the
    result requires none because of them. The backward is deterministic, without atomics.

    Source: R. Girshick, "Fast R-CNN", ICCV 2015.

    Examples
    --------
    >>> import torch, visops
    >>> image = torch.arange(16.0).reshape(1, 1, 4, 4)
    >>> visops.roi_pool(image, torch.tensor([[0.0, 0, 0, 3, 3]]), 2)
    tensor([[[[ 5.,  7.],
              [13., 15.]]]])
    """
    op = "roi_pool"
    require_tensors(op, input=input)
    rows = as_boxes(op, boxes, input)
    result: Tensor = _roi_pool(input, rows, output_pair(op, output_size), spatial_scale)[0]
    return result


def ps_roi_align(
    input: Tensor,
    boxes: Tensor | Sequence[Tensor],
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
) -> Tensor:
    """Pool regions of maps, each bin from its own channels, as in Light-Head R-CNN.

    Bin (i, j) of output channel c is that of :func:`roi_align`, with ``aligned=True``, of input
    channel ``(c × height + i) × width + j``. Arguments and values are those of
    ``torchvision.ops.ps_roi_align``. Results are bit-identical on every instruction set, at every
    thread count, and on CPU and CUDA; so are gradients.

    Parameters
    ----------
    input : Tensor ``[N, C × height × width, H, W]``
        float16, bfloat16, float32, float64 or uint8; any strides.
    boxes : Tensor ``[K, 5]``, or a list of Tensor ``[L, 4]``
        As in :func:`roi_align`.
    output_size : int or (int, int)
        Bins: height and width.
    spatial_scale : float
        Pixels of `input` per unit of `boxes`, > 0.
    sampling_ratio : int
        As in :func:`roi_align`.

    Returns
    -------
    Tensor ``[K, C, height, width]``
        Has the dtype of `input`; computed in float32 (float64 for float64), uint8 rounded half to
        even. channels_last if `input` is. A box without area gives 0 (torchvision: NaN if
        ``sampling_ratio`` is <= 0).

    Raises
    ------
    RuntimeError
        For wrong shapes, dtypes, devices or numbers. On the CPU also for boxes that have a batch
        index out of range, are not finite, or have ``x2 < x1`` or ``y2 < y1``. On CUDA such boxes
        give zeros and have no gradient: finding them would synchronize.
    TypeError, ValueError
        For arguments of the wrong type, and lists of the wrong length or shape.

    Notes
    -----
    Differentiable with respect to `input`, any number of times; boxes have no gradient, and
    the result requires none because of them. The backward is deterministic, without atomics.

    Source: Z. Li et al., "Light-Head R-CNN: in defense of two-stage object detector", 2017.

    Examples
    --------
    >>> import torch, visops
    >>> image = torch.arange(4.0).reshape(1, 4, 1, 1).expand(1, 4, 6, 6)
    >>> visops.ps_roi_align(image, torch.tensor([[0.0, 1, 1, 5, 5]]), 2)
    tensor([[[[0., 1.],
              [2., 3.]]]])
    """
    op = "ps_roi_align"
    require_tensors(op, input=input)
    rows = as_boxes(op, boxes, input)
    options = (spatial_scale, sampling_ratio)
    result: Tensor = _ps_roi_align(input, rows, output_pair(op, output_size), *options)
    return result
