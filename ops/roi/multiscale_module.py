"""RoIAlign on pyramids as a module, imported on first use because it may import torchvision."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .._torch.arrays import no_boxes
from .._torch.numbers import whole_number
from .align import multiscale_roi_align
from .arguments import as_boxes, output_pair
from .multiscale_autograd import box_levels, level_number, pool_by_position

if TYPE_CHECKING:
    _Pooler = nn.Module
else:
    try:  # torchvision's detectors accept only poolers derived from theirs
        from torchvision.ops import MultiScaleRoIAlign as _Pooler
    except (ImportError, RuntimeError):  # not installed, or built for another torch
        _Pooler = nn.Module


class MultiScaleRoIAlign(_Pooler):
    """:func:`visops.multiscale_roi_align` as a module: ``torchvision.ops.MultiScaleRoIAlign``.

    Parameters
    ----------
    featmap_names : list of str
        Which maps of those that the module is called with are the pyramid.
    output_size : int or (int, int)
    sampling_ratio : int
    canonical_scale : int
    canonical_level : int
        As in :func:`visops.multiscale_roi_align`.

    Attributes
    ----------
    scales : list of float, optional
        Of each map; None until the first call, which takes the nearest powers of two of what its
        maps and images have. To have them inferred again, set None.

    Notes
    -----
    Where torchvision is installed this is a subclass of its module, because its detectors take no
    other: ``FasterRCNN(..., box_roi_pool=visops.MultiScaleRoIAlign(["0", "1", "2", "3"], 7, 2))``.
    It does not use it, and cannot be scripted by ``torch.jit``.

    Where several maps have the same scale, as in torchvision's MobileNet detectors, the first is
    pooled for the boxes of its level, the next for those of the following level, as torchvision
    does: by position. Then every map pools all boxes.

    Examples
    --------
    >>> import torch, visops
    >>> pool = visops.MultiScaleRoIAlign(["fine", "coarse"], output_size=7, sampling_ratio=2)
    >>> maps = {"fine": torch.rand(1, 5, 64, 64), "coarse": torch.rand(1, 5, 32, 32)}
    >>> pool(maps, [torch.tensor([[10.0, 20, 90, 100], [0, 0, 256, 256]])], [(256, 256)]).shape
    torch.Size([2, 5, 7, 7])
    >>> pool.scales
    [0.25, 0.125]
    """

    scales: list[float] | None

    def __init__(
        self,
        featmap_names: Sequence[str],
        output_size: int | Sequence[int],
        sampling_ratio: int,
        *,
        canonical_scale: int = 224,
        canonical_level: int = 4,
    ) -> None:
        nn.Module.__init__(self)
        self.featmap_names = list(featmap_names)
        self.output_size = output_pair("MultiScaleRoIAlign", output_size)
        self.sampling_ratio = sampling_ratio
        self.scales = None
        self.canonical_scale = canonical_scale
        self.canonical_level = canonical_level

    def forward(
        self,
        x: Mapping[str, Tensor],
        boxes: Sequence[Tensor],
        image_shapes: Sequence[tuple[int, int]],
    ) -> Tensor:
        """Pool boxes ``[L, 4]`` of each image; images' (height, width) give the maps' scales."""
        named = {name: level for name, level in x.items() if name in self.featmap_names}
        for name, level in named.items():
            if not isinstance(level, Tensor):
                raise TypeError(
                    f"visops.MultiScaleRoIAlign: x[{name!r}] is a {type(level).__name__}, must be "
                    "a torch.Tensor"
                )
        maps = list(named.values())
        if not maps:
            raise ValueError(
                f"visops.MultiScaleRoIAlign: x has {list(x)}, none of {self.featmap_names}"
            )
        # Under autocast a pyramid's levels may differ in dtype.
        maps = [level.to(maps[0].dtype) for level in maps]
        if self.scales is None:
            self.scales = _inferred_scales(maps, image_shapes)
        by_position = self._scales_by_position()
        if by_position is not None:
            return self._pool_by_position(maps, boxes, by_position)
        return multiscale_roi_align(
            maps,
            boxes,
            self.output_size,
            self.scales,
            self.sampling_ratio,
            canonical_scale=self.canonical_scale,
            canonical_level=self.canonical_level,
        )

    def _scales_by_position(self) -> list[float] | None:
        """Return the scales by which boxes choose their map, where some maps share theirs."""
        assert self.scales is not None
        levels = [level_number(scale) for scale in self.scales]
        if all(a < b for a, b in itertools.pairwise(levels)):
            return None
        count = min(max(levels[-1] - levels[0], 0) + 1, len(levels))
        return [2.0 ** -(levels[0] + i) for i in range(count)]

    def _pool_by_position(
        self, maps: list[Tensor], boxes: Sequence[Tensor], chosen_by: list[float]
    ) -> Tensor:
        """Take maps for successive levels, from the first one's to the last one's."""
        count = len(chosen_by)
        assert self.scales is not None
        return pool_by_position(
            maps[:count],
            as_boxes("MultiScaleRoIAlign", boxes, maps[0]),
            self.output_size,
            self.scales[:count],
            self.sampling_ratio,
            False,
            chosen_by,
            self.canonical_scale,
            whole_number("MultiScaleRoIAlign", "canonical_level", self.canonical_level),
            "torchvision",
        )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(featmap_names={self.featmap_names}, "
            f"output_size={self.output_size}, sampling_ratio={self.sampling_ratio})"
        )

    def map_levels(self, boxlists: Sequence[Tensor]) -> Tensor:
        """Return which of the pyramid's maps each box is pooled from, int64 ``[K]``.

        Boxes are ``[L, 4]`` of each image. The maps' scales are known after the first call.
        """
        if self.scales is None:
            raise RuntimeError(
                "visops.MultiScaleRoIAlign: map_levels was called before the module, which infers "
                "the maps' scales; set scales, or call the module first"
            )
        boxes = torch.cat([no_boxes(part, 4) for part in boxlists])
        rows = torch.cat([boxes[:, :1], boxes], 1)  # a column of batch indices, which has no effect
        scales = self._scales_by_position() or self.scales
        return box_levels(rows, scales, self.canonical_scale, self.canonical_level, "torchvision")


def _inferred_scales(maps: Sequence[Tensor], image_shapes: Sequence[Any]) -> list[float]:
    """Return the powers of two nearest to map height / height of the tallest image."""
    if not image_shapes:
        raise ValueError("visops.MultiScaleRoIAlign: image_shapes is empty, must have every image")
    height = max(int(shape[0]) for shape in image_shapes)
    return [2.0 ** round(math.log2(int(level.shape[2]) / height)) for level in maps]
