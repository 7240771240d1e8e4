"""Polygons to masks, by COCO's rule, and masks to polygons, by OpenCV's."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from torch import Tensor

from .. import _native
from .._torch.options import check_word, flag
from .._torch.outside_graphs import outside_graphs
from .._torch.unsupported_inputs import require_values
from .packed import ArrayOrPacked, Device, PackedMasks
from .rle import masks_of_runs
from .runs import as_rles, offsets_of, runs_of_polygons, size_of

_OP = "polygons_to_masks"
_FARTHEST = 1e8  # pixels


@outside_graphs
def masks_to_polygons(
    masks: ArrayOrPacked,
    *,
    holes: bool = False,
    approximation: Literal["simple", "none"] = "simple",
) -> list[Any]:
    """Trace the borders of masks' regions as polygons.

    The vertices of ``cv2.findContours`` with ``RETR_CCOMP``, for all masks in one call. Computed on
    the CPU: masks on a GPU come over in one copy, packed ones as bits.

    Parameters
    ----------
    masks : Tensor or ndarray ``[N, H, W]`` or ``[H, W]``, bool or uint8, or PackedMasks
        Pixels that are not 0 are inside. Regions are connected by sides or corners.
    holes : bool
        Whether the borders of holes are wanted.
    approximation : {"simple", "none"}
        Vertices where a border turns, OpenCV's ``CHAIN_APPROX_SIMPLE``, or all of its pixels.

    Returns
    -------
    list of N lists of int32 ``[K, 2]``
        The polygons of each mask as arrays, one a region, in the order of their first pixels; of
        one mask ``[H, W]`` its list. Vertices are x, y of the centres of pixels within the region:
        (0, 0) is the first pixel, and a lone pixel has one vertex. With `holes`, each region is a
        list: its border, and then those of its holes, which run through the pixels around them.

    Raises
    ------
    TypeError, ValueError
        For a wrong type, shape or dtype, or another `approximation`.
    RuntimeError
        For tensors without values or strides, such as those on meta.

    Notes
    -----
    S. Suzuki and K. Abe, "Topological structural analysis of digitized binary images by border
    following", CVGIP 1985.

    COCO's "segmentation" measures from the corners of pixels, and wants three vertices or more:
    ``[(p + 0.5).ravel().tolist() for p in polygons if len(p) > 2]``. The rim of half a pixel that
    lies outside of the centres is lost there, as it is with OpenCV's contours; run lengths keep
    every pixel (:func:`visops.masks_to_rle`).

    Examples
    --------
    >>> import torch, visops
    >>> mask = torch.zeros(5, 7, dtype=torch.bool)
    >>> mask[1:4, 2:6] = True
    >>> visops.masks_to_polygons(mask)[0].tolist()
    [[2, 1], [2, 3], [5, 3], [5, 1]]
    """
    op = "masks_to_polygons"
    check_word(op, "approximation", approximation, ("simple", "none"))
    holes = flag(op, "holes", holes)
    array = _bytes_of(op, masks)
    one = array.ndim == 2
    whole = array[None] if one else array
    points, lengths, regions, borders = _native.contours(whole, approximation == "none")
    polygons = np.split(points, np.cumsum(lengths)[:-1]) if len(lengths) else []
    found: list[list[Any]] = [[] for _ in range(len(whole))]
    by_region: dict[int, list[np.ndarray]] = {}
    owners = np.arange(len(whole)).repeat(borders).tolist()
    pairs = zip(polygons, regions.tolist(), owners, strict=True)
    for border, (polygon, region, owner) in enumerate(pairs):
        if region == border:
            by_region[region] = [polygon]
            found[owner].append(by_region[region] if holes else polygon)
        else:
            by_region[region].append(polygon)
    return found[0] if one else found


def _bytes_of(op: str, masks: Any) -> np.ndarray:
    if isinstance(masks, PackedMasks):
        if isinstance(masks.bits, Tensor):
            require_values(op, "masks", masks.bits)
        bits = masks.bits.cpu() if isinstance(masks.bits, Tensor) else masks.bits
        masks = PackedMasks(bits, masks.size).unpack()
    if not isinstance(masks, (Tensor, np.ndarray)):
        raise TypeError(
            f"visops.{op}: masks is a {type(masks).__name__}, must be a torch.Tensor or a "
            "numpy.ndarray"
        )
    if masks.ndim not in (2, 3):
        raise ValueError(
            f"visops.{op}: masks has shape {list(masks.shape)}, must be [N, H, W] or [H, W]"
        )
    dtype = str(masks.dtype).removeprefix("torch.")
    if dtype not in ("bool", "uint8"):
        raise ValueError(f"visops.{op}: masks has dtype {dtype}, must be bool or uint8")
    if isinstance(masks, Tensor):
        require_values(op, "masks", masks)
    array = masks.detach().cpu().numpy() if isinstance(masks, Tensor) else masks
    return np.ascontiguousarray(array).view(np.uint8)


@outside_graphs
def polygons_to_masks(
    polygons: Sequence[Any],
    size: Sequence[int],
    *,
    device: Device = None,
    out: Literal["bool", "uint8", "packed", "rle"] = "bool",
) -> Any:
    """Draw objects' polygons as masks, by COCO's rule.

    Pixels are those of ``pycocotools.mask.frPyObjects`` and ``merge``.

    Parameters
    ----------
    polygons : list of lists of polygons
        For each object its polygons, whose union is the mask; an object without polygons is empty.
        A polygon has three corners or more: ``[x1, y1, x2, y2, ...]``, as in COCO's
        "segmentation", or an array or tensor ``[K, 2]``. In pixels, whose borders are at integers:
        the first pixel is from 0 to 1. Coordinates may be outside of the image.
    size : (int, int)
        Height and width of the masks.
    device : optional
        Where the masks are wanted; by default on the CPU. Runs are copied there, not masks.
    out : {"bool", "uint8", "packed", "rle"}
        Tensors of bool or of 0 and 1 in uint8, :class:`visops.masks.PackedMasks`, or a list of
        COCO's run lengths, as :func:`masks_to_rle` returns.

    Returns
    -------
    Tensor ``[N, H, W]``, PackedMasks, or list of dict

    Raises
    ------
    TypeError, ValueError
        For what is no list of objects of polygons, polygons of fewer than three corners or of an
        odd number of coordinates, and coordinates that are not finite or beyond ±10⁸.

    Notes
    -----
    Corners are rounded to fifths of a pixel and pixels are chosen along the sides, so a mask
    differs from the polygon's exact area by parts of pixels (cocodataset/cocoapi,
    common/maskApi.c). Where sides of one polygon cross, what is covered twice is outside.

    Examples
    --------
    >>> import visops
    >>> triangle, square = [0, 0, 4, 0, 0, 4], [4, 1, 6, 1, 6, 3, 4, 3]
    >>> visops.polygons_to_masks([[triangle, square]], (4, 6), out="uint8")
    tensor([[[1, 1, 1, 0, 0, 0],
             [1, 1, 0, 0, 1, 1],
             [1, 0, 0, 0, 1, 1],
             [0, 0, 0, 0, 0, 0]]], dtype=torch.uint8)
    """
    check_word(_OP, "out", out, ("bool", "uint8", "packed", "rle"))
    height_width = size_of(_OP, "size", size)
    corners: list[np.ndarray] = []
    lengths: list[int] = []
    for i, parts in enumerate(_sequence("polygons", polygons, "list of objects")):
        label = f"polygons[{i}]"
        parts = _sequence(label, parts, "list of polygons")
        corners += [_corners(f"{label}[{k}]", polygon) for k, polygon in enumerate(parts)]
        lengths.append(len(parts))
    points = np.concatenate([np.empty((0, 2)), *corners])
    polygon_offsets = offsets_of(lengths)
    point_offsets = offsets_of([len(each) for each in corners])
    _check_coordinates(points, point_offsets, polygon_offsets)
    runs = runs_of_polygons(points, point_offsets, polygon_offsets, height_width)
    if out == "rle":
        return as_rles(runs, height_width, compressed=True)
    return masks_of_runs(runs, height_width, device, out)


def _sequence(label: str, value: Any, allowed: str) -> Any:
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, (np.ndarray, Tensor)) and value.ndim == 3 and label != "polygons":
        return list(value)  # polygons of as many corners
    raise TypeError(f"visops.{_OP}: {label} is a {type(value).__name__}, must be a {allowed}")


def _corners(label: str, polygon: Any) -> np.ndarray:
    """Return a polygon's corners, float64 ``[K, 2]``."""
    if isinstance(polygon, Tensor):
        polygon = polygon.detach().cpu().numpy()
    if not isinstance(polygon, (list, tuple, np.ndarray)):
        raise TypeError(
            f"visops.{_OP}: {label} is a {type(polygon).__name__}, must be a list of coordinates"
        )
    try:
        corners = np.asarray(polygon)
        if corners.dtype.kind in "SU":  # float() reads strings
            raise TypeError
        corners = corners.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise ValueError(
            f"visops.{_OP}: {label} holds what is no number, must be x1, y1, x2, y2, ..."
        ) from None
    if corners.ndim == 1 and len(corners) % 2 == 0:
        corners = corners.reshape(-1, 2)
    if corners.ndim != 2 or corners.shape[1] != 2:
        raise ValueError(
            f"visops.{_OP}: {label} has shape {list(corners.shape)}, must be [2 K] or [K, 2]"
        )
    if len(corners) < 3:
        raise ValueError(f"visops.{_OP}: {label} has {len(corners)} corners, must have 3 or more")
    return corners


def _check_coordinates(
    points: np.ndarray, point_offsets: np.ndarray, polygon_offsets: np.ndarray
) -> None:
    good = np.abs(points) <= _FARTHEST  # not of NaN
    if good.all():
        return
    point, axis = (int(i) for i in np.argwhere(~good)[0])
    polygon = int(np.searchsorted(point_offsets, point, "right")) - 1
    item = int(np.searchsorted(polygon_offsets, polygon, "right")) - 1
    label = f"polygons[{item}][{polygon - polygon_offsets[item]}]"
    corner = point - point_offsets[polygon]
    raise ValueError(
        f"visops.{_OP}: {label} has {'xy'[axis]} = {points[point, axis]} at corner {corner}, must "
        "be finite and from -1e8 to 1e8"
    )
