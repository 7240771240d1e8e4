"""Pooling of regions of interest: the public functions.

Schemas are in csrc/library.cpp, checks of arguments in csrc/torch/roi/align.cpp, and fake kernels,
gradients and vmap in align_autograd.py and multiscale_autograd.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from torch import Tensor

from .._torch.numbers import listed, real_number, whole_number
from .._torch.options import check_word, flag
from .._torch.unsupported_inputs import require_tensors
from .align_autograd import roi_align as _mean
from .align_autograd import roi_align_max as _max
from .arguments import as_boxes, output_pair
from .multiscale_autograd import multiscale_roi_align as _multiscale


def roi_align(
    input: Tensor,
    boxes: Tensor | Sequence[Tensor],
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
    *,
    reduce: Literal["mean", "max"] = "mean",
) -> Tensor:
    """Pool regions of maps to one size: RoIAlign, as in Mask R-CNN.

    A box is divided into bins. Each bin has a regular grid of samples, interpolated bilinearly;
    their mean, or the largest of them, is the bin's value. Arguments and values are those of
    ``torchvision.ops.roi_align``. Results are bit-identical on every instruction set, at every
    thread count, and on CPU and CUDA; so are gradients.

    Parameters
    ----------
    input : Tensor ``[N, C, H, W]``
        float16, bfloat16, float32, float64 or uint8; any strides. channels_last is faster than
        NCHW.
    boxes : Tensor ``[K, 5]``, or a list of Tensor ``[L, 4]``
        Batch index, ``x1, y1, x2, y2``; or ``x1, y1, x2, y2``, with one tensor per image. Any
        floating or integer dtype, whatever that of `input`. In pixels of the maps divided by
        `spatial_scale`; boxes may extend beyond the maps.
    output_size : int or (int, int)
        Bins: height and width.
    spatial_scale : float
        Pixels of `input` per unit of `boxes`, > 0: 1/16 for boxes of an image and a map of 1/16 of
        its size.
    sampling_ratio : int
        A bin has ``sampling_ratio × sampling_ratio`` samples, at most 4096² (256² for maxima). If
        <= 0, it has about one per pixel: as many as its height and width in pixels, rounded up.
    aligned : bool
        Whether the centre of pixel (0, 0) is at (0.5, 0.5), as detectors assume (detectron2's
        version 2), and boxes may have any size. Otherwise it is at (0, 0), which shifts all regions
        by half a pixel, and sides shorter than a pixel count as one pixel.
    reduce : {"mean", "max"}
        How a bin's samples are combined.

    Returns
    -------
    Tensor ``[K, C, *output_size]``
        Has the dtype of `input`; computed in float32 (float64 for float64), uint8 rounded half to
        even. channels_last if `input` is.

    Raises
    ------
    RuntimeError
        For wrong shapes, dtypes, devices or numbers. On the CPU also for boxes that have a batch
        index out of range, are not finite, or, if `aligned`, have ``x2 < x1`` or ``y2 < y1``. On
        CUDA such boxes give zeros and have no gradient: finding them would synchronize.
    TypeError, ValueError
        For arguments of the wrong type, and lists of the wrong length or shape.

    Notes
    -----
    A sample up to one pixel beyond the map's outermost pixel centres has the value at the border;
    further out it is 0. The mean counts all samples.

    Differentiable with respect to `input`, any number of times, and to `boxes`, once. The boxes'
    gradient treats the number of samples as constant, and is one-sided where a sample lies on a
    pixel's centre. The backward is deterministic, without atomics.

    Work grows with the pixels under the boxes, not with the samples beyond the map: a huge box
    takes as long as the whole map.

    Source: K. He et al., "Mask R-CNN", ICCV 2017; aligned: detectron2.

    Examples
    --------
    >>> import torch, visops
    >>> image = torch.arange(16.0).reshape(1, 1, 4, 4)
    >>> box = torch.tensor([[0.0, 0, 0, 4, 4]])
    >>> visops.roi_align(image, box, 2, aligned=True)
    tensor([[[[ 2.5000,  4.5000],
              [10.5000, 12.5000]]]])
    >>> visops.roi_align(image, [box[:, 1:]], 2, aligned=True, reduce="max")
    tensor([[[[ 5.,  7.],
              [13., 15.]]]])
    """
    op = "roi_align"
    require_tensors(op, input=input)
    check_word(op, "reduce", reduce, ("mean", "max"))
    rows = as_boxes(op, boxes, input)
    bins = output_pair(op, output_size)
    aligned = flag(op, "aligned", aligned)
    if reduce == "max":
        largest: Tensor = _max(input, rows, bins, spatial_scale, sampling_ratio, aligned)[0]
        return largest
    mean: Tensor = _mean(input, rows, bins, spatial_scale, sampling_ratio, aligned)
    return mean


def multiscale_roi_align(
    features: Sequence[Tensor] | Mapping[str, Tensor],
    boxes: Tensor | Sequence[Tensor],
    output_size: int | Sequence[int],
    scales: Sequence[float],
    sampling_ratio: int = -1,
    *,
    canonical_scale: float = 224,
    canonical_level: float = 4,
    aligned: bool = False,
    level_rule: Literal["torchvision", "detectron2"] = "torchvision",
) -> Tensor:
    """Pool regions from the level of a feature pyramid that fits their size, in one operator.

    Applies :func:`roi_align` to each box on one of several maps. Values are those of
    ``torchvision.ops.MultiScaleRoIAlign``, or of detectron2's ``ROIPooler``. Their loops over
    levels synchronize with the device and break compiled graphs; here the kernel chooses the level.

    Parameters
    ----------
    features : list (or dict) of Tensor ``[N, C, H, W]``
        One to eight maps, finest first, all of one dtype that :func:`roi_align` takes.
    boxes : Tensor ``[K, 5]``, or a list of Tensor ``[L, 4]``
        As in :func:`roi_align`; in pixels of the images.
    output_size : int or (int, int)
        Bins: height and width.
    scales : list of float
        Pixels of each map per pixel of the images, for example ``[1/4, 1/8, 1/16, 1/32]``.
    sampling_ratio : int
        As in :func:`roi_align`.
    canonical_scale : float
        A box of this size (the square root of its area) is pooled from `canonical_level`, one twice
        as large from the next level, and so on: equation 1 of the paper.
    canonical_level : int
        Level k has a scale of ``2 ** -k``. A float without a fraction, such as ``-log2(scale)``,
        does too.
    aligned : bool
        As in :func:`roi_align`.
    level_rule : {"torchvision", "detectron2"}
        Keeps rounding from deciding the level: adds 1e-6 to the logarithm (torchvision), or 1e-8 to
        its argument (detectron2). The two differ only for sizes very close to a power of two times
        `canonical_scale`.

    Returns
    -------
    Tensor ``[K, C, *output_size]``
        As for :func:`roi_align`; channels_last if the first map is.

    Raises
    ------
    RuntimeError
        As for :func:`roi_align`. Also if maps and scales differ in number, if maps differ in batch
        size, channels or dtype, or, with several levels, if a box has ``x2 < x1`` or ``y2 < y1``.
    TypeError, ValueError
        As for :func:`roi_align`.

    Notes
    -----
    The level of a map is ``-log2`` of its scale, rounded. A box whose level is missing is pooled
    from the next finer one, or from the finest. Differentiable with respect to maps and boxes as
    :func:`roi_align`; the choice of a level has no gradient.

    Source: T.-Y. Lin et al., "Feature pyramid networks for object detection", CVPR 2017.

    Examples
    --------
    >>> import torch, visops
    >>> finest, coarsest = torch.full((1, 3, 64, 64), 1.0), torch.full((1, 3, 32, 32), 2.0)
    >>> boxes = torch.tensor([[0.0, 10, 10, 90, 90], [0, 10, 10, 240, 240]])
    >>> pooled = visops.multiscale_roi_align(
    ...     [finest, coarsest], boxes, 7, [1 / 4, 1 / 8], canonical_level=3
    ... )
    >>> pooled.shape, pooled[:, 0, 0, 0]
    (torch.Size([2, 3, 7, 7]), tensor([1., 2.]))
    """
    op = "multiscale_roi_align"
    maps = list(features.values()) if isinstance(features, Mapping) else _listed(op, features)
    for i, level in enumerate(maps):
        require_tensors(op, **{f"features[{i}]": level})
    if not maps:
        raise ValueError(f"visops.{op}: features is empty, must have 1 to 8 maps")
    rows = as_boxes(op, boxes, maps[0])
    bins = output_pair(op, output_size)
    pooled: Tensor = _multiscale(
        maps,
        rows,
        bins,
        listed(op, "scales", scales, "a number for each map"),
        sampling_ratio,
        flag(op, "aligned", aligned),
        real_number(op, "canonical_scale", canonical_scale),
        whole_number(op, "canonical_level", canonical_level),
        level_rule,
    )
    return pooled


def _listed(op: str, features: Any) -> list[Tensor]:
    if not isinstance(features, (list, tuple)):
        kind = type(features).__name__
        raise TypeError(f"visops.{op}: features is a {kind}, must be a list or dict of tensors")
    return list(features)
