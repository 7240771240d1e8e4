"""Deformable convolution as a layer, with torchvision's parameters."""

import math
from typing import Any

import torch.fx
from torch import Tensor, nn

from .._torch.numbers import whole_number
from .._torch.options import flag
from .._torch.torchvision_bases import DeformConv2dBase
from .conv2d import deform_conv2d, pair_of

torch.fx.wrap("deform_conv2d")  # torch.fx records the call, instead of looking into it


class DeformConv2d(DeformConv2dBase):
    r"""A layer for :func:`visops.deform_conv2d`: ``torchvision.ops.DeformConv2d``.

    Arguments, parameters and their initial values are torchvision's, so state dicts load both ways.
    The caller computes offsets and masks, usually by a convolution of the same size.

    Parameters
    ----------
    in_channels, out_channels : int
        Multiples of `groups`.
    kernel_size : int or pair (y, x)
    stride, padding, dilation : int or pair (y, x)
    groups : int
    bias : bool
        Whether there is one.

    Raises
    ------
    ValueError, TypeError
        If a number is not positive (padding: negative), or groups don't divide the channels.

    Notes
    -----
    Where torchvision is installed this is a subclass of its module, for ``isinstance`` checks.

    Examples
    --------
    >>> import torch, visops
    >>> layer = visops.DeformConv2d(8, 16, kernel_size=3, padding=1)
    >>> x, offset, mask = torch.rand(1, 8, 5, 5), torch.zeros(1, 18, 5, 5), torch.ones(1, 9, 5, 5)
    >>> plain = torch.conv2d(x, layer.weight, layer.bias, padding=1)
    >>> torch.allclose(layer(x, offset, mask), plain, atol=1e-5)
    True
    """

    bias: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        kind = type(self).__name__
        self.in_channels = whole_number(kind, "in_channels", in_channels)
        self.out_channels = whole_number(kind, "out_channels", out_channels)
        self.groups = whole_number(kind, "groups", groups)
        self.kernel_size = self._pair("kernel_size", kernel_size, 1)
        self.stride = self._pair("stride", stride, 1)
        self.padding = self._pair("padding", padding, 0)
        self.dilation = self._pair("dilation", dilation, 1)
        self._check_channels()
        size = (self.out_channels, self.in_channels // self.groups, *self.kernel_size)
        self.weight = nn.Parameter(torch.empty(size))
        if flag("DeformConv2d", "bias", bias):
            self.bias = nn.Parameter(torch.empty(self.out_channels))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _pair(self, name: str, value: Any, least: int) -> tuple[int, int]:
        kind = type(self).__name__
        y, x = pair_of(kind, name, value)
        if min(y, x) < least:
            raise ValueError(f"visops.{kind}: {name} is {value}, must be >= {least}")
        return y, x

    def _check_channels(self) -> None:
        kind = f"visops.{type(self).__name__}"
        if self.groups < 1:
            raise ValueError(f"{kind}: groups is {self.groups}, must be >= 1")
        for name in ("in_channels", "out_channels"):
            channels = getattr(self, name)
            if channels < 1 or channels % self.groups != 0:
                raise ValueError(
                    f"{kind}: {name} is {channels}, must be a positive multiple of groups, "
                    f"{self.groups}"
                )

    def reset_parameters(self) -> None:
        """Set all parameters to their initial values, as those of ``torch.nn.Conv2d``."""
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.weight[0].numel())
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:
        """Convolve.

        Parameters
        ----------
        input : Tensor ``[N, in_channels, H, W]``
        offset : Tensor ``[N, 2 * G * K, OH, OW]``
        mask : Tensor ``[N, G * K, OH, OW]``, optional
            As in :func:`visops.deform_conv2d`.

        Returns
        -------
        Tensor ``[N, out_channels, OH, OW]``

        Raises
        ------
        RuntimeError, TypeError
            As :func:`visops.deform_conv2d`.
        """
        result: Tensor = deform_conv2d(
            input,
            offset,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self.dilation,
            mask,
        )
        return result

    def __repr__(self) -> str:
        """Return the arguments, as torchvision's class writes them."""
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        text += f", stride={self.stride}"
        for name, default in (("padding", (0, 0)), ("dilation", (1, 1)), ("groups", 1)):
            value = getattr(self, name)
            text += f", {name}={value}" if value != default else ""
        text += ", bias=False" if self.bias is None else ""
        return f"{type(self).__name__}({text})"
