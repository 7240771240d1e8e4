"""RoIAlign, RoIPool and PSRoIAlign as modules, with torchvision's names and arguments."""

from collections.abc import Sequence
from typing import Literal

import torch.fx
from torch import Tensor

from .._torch.options import check_word
from .._torch.torchvision_bases import PSRoIAlignBase, RoIAlignBase, RoIPoolBase
from .align import roi_align
from .pooling import ps_roi_align, roi_pool

# torch.fx records calls of these from here, instead of looking into them.
torch.fx.wrap("roi_align")
torch.fx.wrap("roi_pool")
torch.fx.wrap("ps_roi_align")


class RoIAlign(RoIAlignBase):
    """:func:`visops.roi_align` as a module: ``torchvision.ops.RoIAlign``.

    Parameters
    ----------
    output_size : int or (int, int)
    spatial_scale : float
    sampling_ratio : int
    aligned : bool
    reduce : {"mean", "max"}
        As in :func:`visops.roi_align`; torchvision's module has no `reduce`.

    Examples
    --------
    >>> import torch, visops
    >>> pool = visops.RoIAlign(7, spatial_scale=1 / 16, sampling_ratio=2)
    >>> pool(torch.rand(1, 8, 20, 30), [torch.tensor([[40.0, 50, 200, 300]])]).shape
    torch.Size([1, 8, 7, 7])
    """

    def __init__(
        self,
        output_size: int | Sequence[int],
        spatial_scale: float,
        sampling_ratio: int,
        aligned: bool = False,
        *,
        reduce: Literal["mean", "max"] = "mean",
    ) -> None:
        super().__init__()
        check_word("RoIAlign", "reduce", reduce, ("mean", "max"))
        self.output_size = output_size
        self.spatial_scale = spatial_scale
        self.sampling_ratio = sampling_ratio
        self.aligned = aligned
        self.reduce = reduce

    def forward(self, input: Tensor, rois: Tensor | Sequence[Tensor]) -> Tensor:
        """Pool boxes ``[K, 5]``, or a list of ``[L, 4]``."""
        return roi_align(
            input,
            rois,
            self.output_size,
            self.spatial_scale,
            self.sampling_ratio,
            self.aligned,
            reduce=self.reduce,
        )

    def extra_repr(self) -> str:
        """Return the arguments."""
        text = (
            f"output_size={self.output_size}, spatial_scale={self.spatial_scale}, "
            f"sampling_ratio={self.sampling_ratio}, aligned={self.aligned}"
        )
        return text if self.reduce == "mean" else f"{text}, reduce={self.reduce!r}"


class RoIPool(RoIPoolBase):
    """:func:`visops.roi_pool` as a module: ``torchvision.ops.RoIPool``.

    Parameters
    ----------
    output_size : int or (int, int)
    spatial_scale : float
        As in :func:`visops.roi_pool`.

    Notes
    -----
    Where torchvision is installed this is a subclass of its module, for ``isinstance`` checks.

    Examples
    --------
    >>> import torch, visops
    >>> pool = visops.RoIPool(7, spatial_scale=1 / 16)
    >>> pool(torch.rand(1, 8, 20, 30), [torch.tensor([[40.0, 50, 200, 300]])]).shape
    torch.Size([1, 8, 7, 7])
    """

    def __init__(self, output_size: int | Sequence[int], spatial_scale: float) -> None:
        super().__init__()
        self.output_size = output_size
        self.spatial_scale = spatial_scale

    def forward(self, input: Tensor, rois: Tensor | Sequence[Tensor]) -> Tensor:
        """Pool boxes ``[K, 5]``, or a list of ``[L, 4]``."""
        return roi_pool(input, rois, self.output_size, self.spatial_scale)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"output_size={self.output_size}, spatial_scale={self.spatial_scale}"


class PSRoIAlign(PSRoIAlignBase):
    """:func:`visops.ps_roi_align` as a module: ``torchvision.ops.PSRoIAlign``.

    Parameters
    ----------
    output_size : int or (int, int)
    spatial_scale : float
    sampling_ratio : int
        As in :func:`visops.ps_roi_align`.

    Notes
    -----
    Where torchvision is installed this is a subclass of its module, for ``isinstance`` checks.

    Examples
    --------
    >>> import torch, visops
    >>> pool = visops.PSRoIAlign(2, spatial_scale=1 / 16, sampling_ratio=2)
    >>> pool(torch.rand(1, 8, 20, 30), [torch.tensor([[40.0, 50, 200, 300]])]).shape
    torch.Size([1, 2, 2, 2])
    """

    def __init__(
        self, output_size: int | Sequence[int], spatial_scale: float, sampling_ratio: int
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.spatial_scale = spatial_scale
        self.sampling_ratio = sampling_ratio

    def forward(self, input: Tensor, rois: Tensor | Sequence[Tensor]) -> Tensor:
        """Pool boxes ``[K, 5]``, or a list of ``[L, 4]``."""
        return ps_roi_align(input, rois, self.output_size, self.spatial_scale, self.sampling_ratio)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (
            f"output_size={self.output_size}, spatial_scale={self.spatial_scale}, "
            f"sampling_ratio={self.sampling_ratio}"
        )
