"""Connected components of masks and label maps, and the removal of small ones.

The schemas are in csrc/library.cpp, the checks of arguments in csrc/torch/masks/components.cpp.
"""

from typing import Any, Generic, Literal, NamedTuple, TypeVar, overload

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree

from .._torch.call import call_operator
from .._torch.numbers import as_index, is_symbol
from .._torch.options import flag
from .operators import component_stats as _component_stats
from .operators import connected_components as _connected_components
from .operators import remove_small_regions as _remove_small_regions

Array = TypeVar("Array", Tensor, np.ndarray)

_OP = "connected_components"


_Class = TypeVar("_Class", bound=type)


def _exportable(cls: _Class) -> _Class:
    """Let torch.export save programs that return this named tuple."""
    _pytree._register_namedtuple(cls, serialized_type_name=f"visops.{cls.__name__}")
    return cls


@_exportable
class ComponentStats(NamedTuple, Generic[Array]):
    """What :func:`connected_components` measures.

    Row r of each array is the component with label r + 1; rows past a mask's count are zeros.

    Attributes
    ----------
    counts : int32 ``[...]``
        Components of each mask.
    areas : int64 ``[..., K]``
        In pixels.
    boxes : int64 ``[..., K, 4]``
        ``x1, y1, x2, y2`` in pixels. ``x2`` and ``y2`` are exclusive: the component lies in
        ``labels[y1:y2, x1:x2]``.
    centroids : float64 ``[..., K, 2]``
        Mean ``x, y`` of the pixels' centres, which are at integers.
    """

    counts: Array
    areas: Array
    boxes: Array
    centroids: Array


@overload
def connected_components(
    masks: Array,
    *,
    connectivity: int = 8,
    return_stats: Literal[False] = False,
    max_components: None = None,
    device: torch.device | str | None = None,
) -> Array: ...


@overload
def connected_components(
    masks: Array,
    *,
    connectivity: int = 8,
    return_stats: Literal[True],
    max_components: int | None = None,
    device: torch.device | str | None = None,
) -> tuple[Array, ComponentStats[Array]]: ...


def connected_components(
    masks: Any,
    *,
    connectivity: int = 8,
    return_stats: bool = False,
    max_components: int | None = None,
    device: torch.device | str | None = None,
) -> Any:
    """Label the connected regions of masks or label maps.

    Takes a batch at once, on the CPU or a GPU. Components are numbered in the raster order of their
    first pixels, as by ``scipy.ndimage.label``, so results are the same on every instruction set,
    at every thread count, and on CPU and CUDA.

    Parameters
    ----------
    masks : Tensor or ndarray ``[..., H, W]``, bool or integers
        In bool masks, neighbouring True pixels connect. Integers are label maps, in which
        neighbours connect where their values are equal and not 0. Fewer than 2³¹ pixels a mask.
    connectivity : {8, 4}
        Whether diagonal neighbours connect.
    return_stats : bool
        Also return areas, boxes and centroids.
    max_components : int >= 0, optional
        With `return_stats`: the K of its arrays, which measure the first so many components. By
        default the largest count of the batch, which CUDA must synchronize to learn.
    device : optional
        For arrays: where to compute. They are copied there and the result back.

    Returns
    -------
    labels : int32 ``[..., H, W]``
        From 1; 0 is the background.
    stats : ComponentStats
        Only with `return_stats`.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For a wrong shape, dtype, connectivity or `max_components`.

    Notes
    -----
    Union-find over runs of pixels: L. He, Y. Chao and K. Suzuki, "A Run-Based Two-Scan Labeling
    Algorithm" (IEEE Transactions on Image Processing, 2008). On CUDA, over pixels: S. Allegretti,
    F. Bolelli and C. Grana, "Optimized Block-Based Algorithms to Label Connected Components on
    GPUs" (IEEE Transactions on Parallel and Distributed Systems, 2020) surveys such algorithms. To
    connect all non-zero pixels of an integer image, pass ``image != 0``.

    Examples
    --------
    >>> import torch, visops
    >>> mask = torch.tensor([[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 0, 1]], dtype=torch.bool)
    >>> labels, stats = visops.connected_components(mask, return_stats=True)
    >>> labels
    tensor([[1, 0, 0, 2],
            [0, 1, 0, 2],
            [0, 0, 0, 2]], dtype=torch.int32)
    >>> stats.areas, stats.boxes
    (tensor([2, 3]), tensor([[0, 0, 2, 2],
            [3, 0, 4, 3]]))
    """
    if not flag(_OP, "return_stats", return_stats):
        if max_components is not None:
            raise TypeError(f"visops.{_OP}: max_components is for return_stats=True")
        return call_operator(_OP, _labels, device, {"masks": masks}, connectivity)
    limit = _limit(max_components, of_arrays=isinstance(masks, np.ndarray))
    labels, *stats = call_operator(
        _OP, _labels_and_stats, device, {"masks": masks}, connectivity, limit
    )
    return labels, ComponentStats(*stats)


def remove_small_regions(
    masks: Array,
    min_area: int,
    mode: Literal["holes", "islands"] = "holes",
    *,
    connectivity: int = 8,
    device: torch.device | str | None = None,
) -> tuple[Array, Array]:
    """Fill small holes of masks, or remove small islands.

    The clean-up that Segment Anything applies to its masks, for a batch at once.

    Parameters
    ----------
    masks : Tensor or ndarray ``[..., H, W]``, bool or uint8
        Pixels that are not 0 are inside.
    min_area : int >= 0
        Regions of fewer pixels go.
    mode : {"holes", "islands"}
        "holes" fills connected regions of pixels outside of the mask, those that touch the border
        too. "islands" removes those inside; if all are small, the largest stays, the first of equal
        ones in raster order.
    connectivity : {8, 4}
        Whether diagonal neighbours connect.
    device : optional
        For arrays: where to compute. They are copied there and the result back.

    Returns
    -------
    masks : bool ``[..., H, W]``
    changed : bool ``[...]``
        Whether any pixel of the mask changed.

    Raises
    ------
    RuntimeError (tensors), ValueError (arrays)
        For a wrong shape, dtype, `mode`, `connectivity` or `min_area`.

    Notes
    -----
    A. Kirillov et al., "Segment Anything" (ICCV 2023), appendix B. Its own function says `changed`
    also of a mask whose only island is small, and stays.

    Examples
    --------
    >>> import torch, visops
    >>> mask = torch.ones(3, 5, dtype=torch.bool)
    >>> mask[1, 1] = False
    >>> filled, changed = visops.remove_small_regions(mask, 2)
    >>> bool(filled.all()), bool(changed)
    (True, True)
    """
    op = "remove_small_regions"
    area = _integer(op, "min_area", min_area)
    cleaned: tuple[Array, Array] = call_operator(
        op, _remove_small_regions, device, {"masks": masks}, area, mode, connectivity
    )
    return cleaned


def _labels(masks: Tensor, connectivity: int) -> Tensor:
    labels: Tensor = _connected_components(masks, connectivity)[0]
    return labels


def _labels_and_stats(
    masks: Tensor, connectivity: int, limit: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    labels, counts = _connected_components(masks, connectivity)
    if limit is None:
        if torch.compiler.is_compiling() or is_symbol(counts.numel()):
            # There may be no masks. Elsewhere a check would import SymPy.
            limit = torch.nn.functional.pad(counts.flatten(), (0, 1)).max().item()
            torch._check(limit >= 0)
        else:
            limit = 0 if counts.numel() == 0 else int(counts.max())
    return labels, counts, *_component_stats(labels, limit)


def _limit(max_components: Any, *, of_arrays: bool) -> Any:
    if max_components is None:
        return None
    limit = _integer(_OP, "max_components", max_components)
    if limit < 0:
        error = ValueError if of_arrays else RuntimeError
        raise error(f"visops.{_OP}: max_components is {limit}, must be >= 0")
    return limit


def _integer(op: str, name: str, value: Any) -> Any:
    try:
        return as_index(value)
    except TypeError:
        raise TypeError(f"visops.{op}: {name} is {value!r}, must be an integer") from None
