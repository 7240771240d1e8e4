"""mmcv's layers of deformable convolution, with its arguments and parameters."""

import math
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from .._torch.numbers import whole_number
from .._torch.options import flag
from ..deformable.conv2d import deform_conv2d, pair_of

Pair = int | tuple[int, int]


class _Pack(nn.Module, ABC):
    """A deformable convolution with one that computes its locations: ``conv_offset``."""

    _version = 2
    _numbers = 2  # that conv_offset computes for each tap
    bias: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Pair,
        stride: Pair = 1,
        padding: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
        deform_groups: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        kind = f"compat.{type(self).__name__}"
        self.in_channels = whole_number(kind, "in_channels", in_channels)
        self.out_channels = whole_number(kind, "out_channels", out_channels)
        self.groups = whole_number(kind, "groups", groups)
        self.deform_groups = whole_number(kind, "deform_groups", deform_groups)
        for name in ("groups", "deform_groups"):
            if getattr(self, name) < 1 or self.in_channels % getattr(self, name) != 0:
                raise ValueError(
                    f"visops.{kind}: {name} is {getattr(self, name)}, must divide "
                    f"in_channels, {in_channels}"
                )
        if self.out_channels % self.groups != 0:
            raise ValueError(
                f"visops.{kind}: out_channels is {out_channels}, must be a multiple of "
                f"groups, {groups}"
            )
        self.kernel_size, self.stride, self.padding, self.dilation = (
            tuple(pair_of(kind, name, value))
            for name, value in (
                ("kernel_size", kernel_size),
                ("stride", stride),
                ("padding", padding),
                ("dilation", dilation),
            )
        )
        self.weight = nn.Parameter(
            torch.empty(self.out_channels, self.in_channels // self.groups, *self.kernel_size)
        )
        if flag(kind, "bias", bias):
            self.bias = nn.Parameter(torch.empty(self.out_channels))
        else:
            self.register_parameter("bias", None)
        taps = self.kernel_size[0] * self.kernel_size[1]
        self.conv_offset = nn.Conv2d(
            self.in_channels,
            self.deform_groups * self._numbers * taps,
            kernel_size=self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
        )
        self.init_weights()

    @abstractmethod
    def init_weights(self) -> None:
        """Set all parameters to their initial values; locations are those of a convolution."""

    def init_offset(self) -> None:
        """Let all locations be those of a convolution."""
        nn.init.zeros_(self.conv_offset.weight)
        assert self.conv_offset.bias is not None
        nn.init.zeros_(self.conv_offset.bias)

    def _convolve(self, x: Tensor, offset: Tensor, mask: Tensor | None) -> Tensor:
        options = (self.stride, self.padding, self.dilation)
        found: Tensor = deform_conv2d(x, offset, self.weight, self.bias, *options, mask)
        return found

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        version = local_metadata.get("version", None)
        # mmcv's first format has `conv2_offset.weight` beside `conv2.weight`. torch's loader hands
        # a layer what begins with "conv2." only, mmengine's hands it everything.
        if version is None or version < 2:
            for name in ("weight", "bias"):
                old, new = f"{prefix[:-1]}_offset.{name}", f"{prefix}conv_offset.{name}"
                if new not in state_dict and old in state_dict:
                    state_dict[new] = state_dict.pop(old)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"groups={self.groups}, deform_groups={self.deform_groups}, "
            f"bias={self.bias is not None}"
        )


class DeformConv2dPack(_Pack):
    """mmcv's layer of that name: :func:`visops.deform_conv2d` with its own offsets.

    Parameters are ``weight``, ``conv_offset.weight`` and ``conv_offset.bias``; state dicts of mmcv
    load; those from before its version 1.0 by mmengine's loader.

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size, stride, padding, dilation : int or pair (y, x)
    groups : int
    deform_groups : int
        Groups of channels with offsets of their own.
    bias : bool
        Must be False: mmcv's layer has none.
    im2col_step : int
        Ignored: there is no column matrix.

    Raises
    ------
    ValueError, TypeError
        If groups don't divide the channels, or there is to be a bias.

    Examples
    --------
    >>> import torch
    >>> from visops import compat
    >>> layer = compat.DeformConv2dPack(8, 16, 3, padding=1)
    >>> layer(torch.rand(1, 8, 5, 5)).shape
    torch.Size([1, 16, 5, 5])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Pair,
        stride: Pair = 1,
        padding: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
        deform_groups: int = 1,
        bias: bool = False,
        im2col_step: int = 32,
    ) -> None:
        if bias:
            raise ValueError("visops.compat.DeformConv2dPack: bias is True, must be False")
        options = (stride, padding, dilation, groups, deform_groups)
        super().__init__(in_channels, out_channels, kernel_size, *options)

    def init_weights(self) -> None:
        """Set all parameters to their initial values; locations are those of a convolution."""
        nn.init.kaiming_uniform_(self.weight, nonlinearity="relu")
        self.init_offset()

    def forward(self, x: Tensor) -> Tensor:
        """Convolve.

        Parameters
        ----------
        x : Tensor ``[N, in_channels, H, W]``

        Returns
        -------
        Tensor ``[N, out_channels, OH, OW]``
        """
        return self._convolve(x, self.conv_offset(x), None)


class ModulatedDeformConv2dPack(_Pack):
    """mmcv's layer of that name: :func:`visops.deform_conv2d` with its own offsets and masks.

    Parameters are ``weight``, ``bias``, ``conv_offset.weight`` and ``conv_offset.bias``; state
    dicts of mmcv load; those from before its version 1.0 by mmengine's loader. Masks are sigmoids,
    initially 0.5.

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size, stride, padding, dilation : int or pair (y, x)
    groups : int
    deform_groups : int
        Groups of channels with offsets and masks of their own.
    bias : bool
        Whether there is one.

    Raises
    ------
    ValueError, TypeError
        If groups don't divide the channels.

    Examples
    --------
    >>> import torch
    >>> from visops import compat
    >>> layer = compat.ModulatedDeformConv2dPack(8, 16, 3, padding=1)
    >>> layer(torch.rand(1, 8, 5, 5)).shape
    torch.Size([1, 16, 5, 5])
    """

    _numbers = 3

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Pair,
        stride: Pair = 1,
        padding: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
        deform_groups: int = 1,
        bias: bool = True,
    ) -> None:
        options = (stride, padding, dilation, groups, deform_groups, bias)
        super().__init__(in_channels, out_channels, kernel_size, *options)

    def init_weights(self) -> None:
        """Set all parameters to their initial values; locations are those of a convolution."""
        taps = self.kernel_size[0] * self.kernel_size[1]
        bound = 1 / math.sqrt(self.in_channels * taps)
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        self.init_offset()

    def forward(self, x: Tensor) -> Tensor:
        """Convolve.

        Parameters
        ----------
        x : Tensor ``[N, in_channels, H, W]``

        Returns
        -------
        Tensor ``[N, out_channels, OH, OW]``
        """
        found = self.conv_offset(x)
        positions = found.shape[1] // 3 * 2
        return self._convolve(x, found[:, :positions], found[:, positions:].sigmoid())
