"""Pooling of regions of interest: the public functions.

The schemas are in csrc/library.cpp, the arguments' checks in csrc/torch/roi/align.cpp, fake kernels,
gradients and vmap in align_autograd.py and multiscale_autograd.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from .align_autograd import roi_align as _mean
from .align_autograd import roi_align_max as _max
from .arguments import as_boxes, output_pair
from .multiscale_autograd import multiscale_roi_align as _multiscale

__all__ = ["multiscale_roi_align", "roi_align"]


def roi_align(
    input: Tensor,
    boxes: Tensor | Sequence[Tensor],
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
    *,
    reduce: str = "mean",
) -> Tensor:
    """Pool regions of maps to one size: RoIAlign, as in Mask R-CNN.

    A box is divided into bins, samples in a regular grid within each bin are interpolated
    bilinearly, and their mean (or the largest) is the bin's value. Arguments and values are those
    of ``torchvision.ops.roi_align``. Results are bit-identical on every instruction set, at every
    thread count, and on CPU and CUDA; so are gradients.

    Parameters
    ----------
    input : Tensor ``[N, C, H, W]``
        float16, bfloat16, float32, float64 or uint8; any strides. channels_last is faster than
        NCHW.
    boxes : Tensor ``[K, 5]``, or a list of Tensor ``[L, 4]``
        Batch index, ``x1, y1, x2, y2``; or ``x1, y1, x2, y2``, a tensor for each image. Any
        floating dtype or integers, whatever that of `input`. In pixels of the maps divided by
        `spatial_scale`; may lie beyond them.
    output_size : int or (int, int)
        Bins: height and width.
    spatial_scale : float
        Pixels of `input` per unit of `boxes`, > 0: 1/16 for boxes of an image and a map of 1/16 of
        its size.
    sampling_ratio : int
        A bin has ``sampling_ratio × sampling_ratio`` samples, at most 4096². If <= 0, about one per
        pixel: the bin's height and width in pixels, rounded up.
    aligned : bool
        Whether the centre of pixel (0, 0) is at (0.5, 0.5) as detectors have it (detectron2's
        version 2), with boxes of any size. Otherwise it is at (0, 0), which moves all regions by
        half a pixel, and boxes smaller than a pixel are taken for one of 1 × 1.
    reduce : {"mean", "max"}
        What becomes of a bin's samples.

    Returns
    -------
    Tensor ``[K, C, *output_size]``
        Of the dtype of `input`, computed in float32 (float64 for float64); uint8 is rounded half
        to even. channels_last if `input` is.

    Raises
    ------
    RuntimeError
        For wrong shapes, dtypes, devices or numbers; on the CPU also for boxes with a batch index
        that is none, that are not finite, or with ``x2 < x1`` or ``y2 < y1`` where `aligned`. On
        CUDA such boxes give zeros and have no gradient, as finding them would take a wait.
    TypeError, ValueError
        For arguments of a wrong type, and lists of wrong lengths and shapes.

    Notes
    -----
    A sample up to a pixel outside of the map's outermost centres has the value at the border,
    beyond that it is 0. The mean counts all samples.

    Differentiable with respect to `input`, any number of times, and to `boxes`, once. The boxes'
    gradient treats the number of samples as a constant, and is one-sided where a sample lies on a
    pixel's centre. The backward is deterministic, without atomics.

    Work grows with the pixels under the boxes, not with the samples beyond the map: the time that
    a huge box takes is that for the whole map.

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
    _require_tensor(op, "input", input)
    if reduce not in ("mean", "max"):
        raise ValueError(f"visops.{op}: reduce is {reduce!r}, must be 'mean' or 'max'")
    rows = as_boxes(op, boxes, input)
    bins = output_pair(op, output_size)
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
    canonical_level: int = 4,
    aligned: bool = False,
    level_rule: str = "torchvision",
) -> Tensor:
    """Pool regions from the level of a feature pyramid that fits their size, in one operator.

    :func:`roi_align` of each box on one of several maps. Values are those of
    ``torchvision.ops.MultiScaleRoIAlign``, or of detectron2's ``ROIPooler``, whose loops over
    levels wait for the device and break compiled graphs; the level is chosen by the kernel here.

    Parameters
    ----------
    features : list (or dict) of Tensor ``[N, C, H, W]``
        One to eight maps, from the finest; of one dtype, as :func:`roi_align` takes them.
    boxes : Tensor ``[K, 5]``, or a list of Tensor ``[L, 4]``
        As in :func:`roi_align`; in pixels of the images.
    output_size : int or (int, int)
        Bins: height and width.
    scales : list of float
        Pixels of each map per pixel of the images, such as ``[1/4, 1/8, 1/16, 1/32]``.
    sampling_ratio : int
        As in :func:`roi_align`.
    canonical_scale : float
        A box of that size (the root of its area) is pooled from `canonical_level`, one of twice the
        size from the next level, and so on: equation 1 of the paper.
    canonical_level : int
        Level k has a scale of ``2 ** -k``.
    aligned : bool
        As in :func:`roi_align`.
    level_rule : {"torchvision", "detectron2"}
        What is added so that rounding does not decide: 1e-6 to the logarithm, or 1e-8 to what it is
        taken of. They differ for sizes that are about a power of two times `canonical_scale`.

    Returns
    -------
    Tensor ``[K, C, *output_size]``
        As :func:`roi_align`; channels_last if the first map is.

    Raises
    ------
    RuntimeError
        As :func:`roi_align`. Also where maps and scales differ in number, maps in batch size,
        channels or dtype, or, with several levels, for boxes with ``x2 < x1`` or ``y2 < y1``.
    TypeError, ValueError
        As :func:`roi_align`.

    Notes
    -----
    The number of a map is ``-log2`` of its scale, rounded. A box whose level is not there is pooled
    from the next finer one, or from the finest. Gradients with respect to the maps and boxes: see
    :func:`roi_align`; the choice of a level has none.

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
        _require_tensor(op, f"features[{i}]", level)
    if not maps:
        raise ValueError(f"visops.{op}: features is empty, must have 1 to 8 maps")
    rows = as_boxes(op, boxes, maps[0])
    bins = output_pair(op, output_size)
    pooled: Tensor = _multiscale(
        maps,
        rows,
        bins,
        list(scales),
        sampling_ratio,
        aligned,
        canonical_scale,
        canonical_level,
        level_rule,
    )
    return pooled


def _listed(op: str, features: Any) -> list[Tensor]:
    if not isinstance(features, (list, tuple)):
        kind = type(features).__name__
        raise TypeError(f"visops.{op}: features is a {kind}, must be a list or dict of tensors")
    return list(features)


def _require_tensor(op: str, name: str, value: Any) -> None:
    if not isinstance(value, Tensor):
        kind = type(value).__name__
        raise TypeError(f"visops.{op}: {name} is a {kind}, must be a torch.Tensor")
