"""What modules derive from: torchvision's of the same name, where there is one.

``isinstance`` checks, such as those of ``torchvision.models.feature_extraction``, then take ours
for theirs. Only modules that are imported on first use import this one: torchvision is slow to
load. None of its code runs.
"""

from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:

    class DeformConv2dBase(nn.Module):
        """``torchvision.ops.DeformConv2d`` or nn.Module."""

    class RoIAlignBase(nn.Module):
        """``torchvision.ops.RoIAlign`` or nn.Module."""

    class RoIPoolBase(nn.Module):
        """``torchvision.ops.RoIPool`` or nn.Module."""

    class PSRoIAlignBase(nn.Module):
        """``torchvision.ops.PSRoIAlign`` or nn.Module."""
else:
    try:
        from torchvision import ops as _peers
    except (ImportError, RuntimeError):  # not installed, or built for another torch
        _peers = None

    def _base(name: str) -> type[nn.Module]:
        """Return a class that derives from torchvision's and behaves as nn.Module."""
        if _peers is None:
            return nn.Module
        own = {"__init__": nn.Module.__init__, "__repr__": nn.Module.__repr__}
        return type(f"{name}Base", (getattr(_peers, name),), own)

    DeformConv2dBase = _base("DeformConv2d")
    RoIAlignBase = _base("RoIAlign")
    RoIPoolBase = _base("RoIPool")
    PSRoIAlignBase = _base("PSRoIAlign")
