"""Grey images of as many channels as are asked for."""

from typing import Any

import numpy as np
import torch

from ..arguments import fail
from ..base import CallableContainer
from ..chain.compile import compiled
from ..chain.execute import run_native
from ..chain.nesting import outer_options
from ..chain.operators import Pixels
from ..chain.options import DEFAULTS
from ..chain.plan import Plan
from ..compose import Compose
from ..sample.images import image_sizes
from ..sample.leaf import TARGETS, Leaf
from .color import RandomGrayscale


class Grayscale(CallableContainer):
    """Make the image grey.

    A pass of its own gives the image the channels that are asked for: one by default, as in
    torchvision. :class:`RandomGrayscale` with ``p=1`` keeps the number of channels, and fuses.

    Parameters
    ----------
    num_output_channels : {1, 3}
        An image of one channel gets three equal ones.

    Notes
    -----
    Grey is 0.2989 R + 0.587 G + 0.114 B.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> red = torch.tensor([1.0, 0.0, 0.0]).reshape(3, 1, 1)
    >>> transforms.Grayscale()(red)
    tensor([[[0.2989]]])
    """

    fixed = ("num_output_channels",)  # a chain has formed its passes by it
    takes_batches = True

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        if num_output_channels not in (1, 3):
            fail("Grayscale", "num_output_channels", num_output_channels, "1 or 3")
        self.num_output_channels = num_output_channels
        self._chain = Compose([RandomGrayscale(1.0)])

    def extra_repr(self) -> str:
        return f"num_output_channels={self.num_output_channels}"

    def first_channels(self) -> tuple[Any, int] | None:
        return self._chain, self.num_output_channels

    def passes(self) -> list[Any]:
        return list(self._chain.passes)

    def geometry(self, number: float, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
        return np.eye(3)[None], sizes, "nearest"

    def run(self, leaves: list[Leaf], number: float) -> None:
        if not any(leaf.kind in TARGETS for leaf in leaves):
            leaves = [own for own in leaves if own.kind == "image" and not self._run_native(own)]
        if not leaves:
            return
        self._chain.run_within(leaves, 0, 0)
        for leaf in leaves:
            if leaf.kind == "image" and leaf.value.shape[-3] != self.num_output_channels:
                grey = leaf.value[..., :1, :, :]
                shape = (*grey.shape[:-3], self.num_output_channels, *grey.shape[-2:])
                leaf.value = grey.expand(shape).contiguous()

    def _run_native(self, leaf: Leaf) -> bool:
        """Read each image once, and write only the channels that are wanted, if C++ can."""
        outer, pixels = outer_options() or DEFAULTS, Pixels(leaf)
        if outer["exact"] or pixels.listed:
            return False
        chain, sizes = self._chain, image_sizes([leaf])
        plan = Plan.of_images(sizes, pixels.channels, pixels.dtype)
        native = compiled(chain.passes[0], chain.slices)
        native.set_constants(chain.passes[0], plan)
        native.chain.draw(plan, 0, 0, range(plan.batch), False)
        stages, form = [(native, False)], torch.contiguous_format
        return run_native(stages, [plan], leaf, form, self.num_output_channels)
