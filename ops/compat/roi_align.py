"""RoIAlign with the interface of the extension that visops replaces; public as visops.compat."""

from collections.abc import Sequence

from torch import Tensor, nn

from ..roi.align import roi_align as _roi_align
from ..roi.arguments import output_pair


def roi_align(
    features: Tensor,
    rois: Tensor,
    out_size: int | Sequence[int],
    spatial_scale: float,
    sample_num: int = 0,
    aligned: bool = True,
) -> Tensor:
    """Pool regions of maps to one size.

    Same as ``visops.roi_align(features, rois, out_size, spatial_scale, sample_num, aligned)``.

    Parameters
    ----------
    features : Tensor ``[N, C, H, W]``
    rois : Tensor ``[K, 5]``
        Batch index, ``x1, y1, x2, y2``.
    out_size : int or (int, int)
        Bins: height and width.
    spatial_scale : float
        Pixels of `features` per unit of `rois`.
    sample_num : int
        Samples of a bin along each axis; 0 for about one per pixel.
    aligned : bool
        Whether to shift regions by half a pixel to their true position; see
        :func:`visops.roi_align`.

    Returns
    -------
    Tensor ``[K, C, *out_size]``
        Differentiable with respect to both tensors.

    Raises
    ------
    TypeError, ValueError, RuntimeError
        As for :func:`visops.roi_align`.

    Notes
    -----
    Unlike python_cpp_extension, it supports both values of `aligned` on the CPU too, and raises
    there for boxes with a batch index out of range.

    Examples
    --------
    >>> import torch
    >>> from visops.compat import roi_align
    >>> image = torch.arange(16.0).reshape(1, 1, 4, 4)
    >>> roi_align(image, torch.tensor([[0.0, 0, 0, 4, 4]]), 2, 1.0)
    tensor([[[[ 2.5000,  4.5000],
              [10.5000, 12.5000]]]])
    """
    return _roi_align(features, rois, out_size, spatial_scale, sample_num, aligned)


class RoIAlign(nn.Module):
    """:func:`roi_align` as a module.

    Parameters
    ----------
    out_size : int or (int, int)
    spatial_scale : float
    sample_num : int
        As in :func:`roi_align`.
    use_torchvision : bool
        Call ``torchvision.ops.roi_align`` instead; torchvision must be installed.
    aligned : bool
        As in :func:`roi_align`.

    Examples
    --------
    >>> import torch
    >>> from visops.compat import RoIAlign
    >>> pool = RoIAlign(7, spatial_scale=1 / 16, sample_num=2)
    >>> pool(torch.rand(1, 8, 20, 30), torch.tensor([[0.0, 40, 50, 200, 300]])).shape
    torch.Size([1, 8, 7, 7])
    """

    def __init__(
        self,
        out_size: int | Sequence[int],
        spatial_scale: float,
        sample_num: int = 0,
        use_torchvision: bool = False,
        aligned: bool = True,
    ) -> None:
        super().__init__()
        self.out_size = output_pair("compat.RoIAlign", out_size)
        self.spatial_scale = float(spatial_scale)
        self.sample_num = int(sample_num)
        self.use_torchvision = use_torchvision
        self.aligned = aligned

    def forward(self, features: Tensor, rois: Tensor) -> Tensor:
        """Pool boxes ``[K, 5]``."""
        options = (self.out_size, self.spatial_scale, self.sample_num, self.aligned)
        if self.use_torchvision:
            import torchvision

            pooled: Tensor = torchvision.ops.roi_align(features, rois, *options)
            return pooled
        return roi_align(features, rois, *options)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (
            f"out_size={self.out_size}, spatial_scale={self.spatial_scale}, "
            f"sample_num={self.sample_num}, use_torchvision={self.use_torchvision}, "
            f"aligned={self.aligned}"
        )
