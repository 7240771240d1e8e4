"""torchvision's transforms of types: what form images and targets come out in.

A chain reads images of any type and works on tensors, so none of these costs a pass.
"""

import torch

from .._native import Step
from .arguments import fail
from .dtypes import ToDtype
from .engine.effects import NO_STEP, Effects
from .engine.nesting import REPLACEMENTS
from .transform import Builtin


class FormStep(Builtin):
    """A transform that changes types alone: `form` says to which."""

    def effects(self) -> Effects:
        return Effects()

    def chain_step(self) -> Step | None:
        return NO_STEP


class Identity(FormStep):
    """Do nothing.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.Identity()(torch.ones(1, 1, 2))
    tensor([[[1., 1.]]])
    """


class PILToTensor(FormStep):
    """Make a tensor of a PIL image, with the same numbers.

    A chain does so anyhow, but reads a palette's colours, and the bits of mode "1" as black and
    white; with this, the numbers are the palette's indices, and 0 and 1, uint8 ``[1, H, W]``.

    Examples
    --------
    >>> import numpy as np
    >>> from PIL import Image
    >>> from visops import transforms
    >>> transforms.PILToTensor()(Image.fromarray(np.full((1, 2), 7, np.uint8)))
    tensor([[[7, 7]]], dtype=torch.uint8)
    """

    reads_numbers = True


class ToImage(FormStep):
    """Return images as ``tv_tensors.Image``, videos as ``tv_tensors.Video``; numbers stay.

    They are those of :class:`PILToTensor`.

    Needs torchvision.

    Examples
    --------
    >>> import numpy as np
    >>> from visops import transforms
    >>> type(transforms.ToImage()(np.zeros((4, 6, 3), np.uint8))).__name__
    'Image'
    """

    form = "image"
    reads_numbers = True


class ToPureTensor(FormStep):
    """Return images and targets as plain tensors, also where they came as tv_tensors.

    Examples
    --------
    >>> import torch
    >>> from torchvision import tv_tensors
    >>> from visops import transforms
    >>> type(transforms.ToPureTensor()(tv_tensors.Image(torch.zeros(3, 4, 6)))).__name__
    'Tensor'
    """

    form = "pure"


class ToPILImage(FormStep):
    """Return images as PIL images, at the end of a chain.

    Parameters
    ----------
    mode : str, optional
        The mode to convert to. By default that of the channels: L, LA, RGB or RGBA.

    Raises
    ------
    ValueError
        Another transform follows it; the result is a batch or a video; its dtype or number of
        channels is not one of a PIL image.

    Notes
    -----
    Floats are multiplied by 255 and truncated, as in torchvision.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.ToPILImage()(torch.zeros(3, 4, 6)).size
    (6, 4)
    """

    def __init__(self, mode: str | None = None) -> None:
        super().__init__()
        if mode is not None and not isinstance(mode, str):
            fail("ToPILImage", "mode", mode, "the name of a PIL mode or None", TypeError)
        self.mode = mode

    @property
    def form(self) -> str:  # type: ignore[override]
        return "pil" if self.mode is None else f"pil:{self.mode}"


class ToTensor(ToDtype):
    """Convert images to float32 in [0, 1]: ``ToDtype(torch.float32, scale=True)``.

    Examples
    --------
    >>> import numpy as np
    >>> from visops import transforms
    >>> transforms.ToTensor()(np.full((1, 1), 255, np.uint8))
    tensor([[[1.]]])
    """

    def __init__(self) -> None:
        super().__init__(torch.float32, scale=True)


class ConvertImageDtype(ToDtype):
    """Convert images to a dtype, white staying white: ``ToDtype(dtype, scale=True)``.

    Parameters
    ----------
    dtype : torch.dtype

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.ConvertImageDtype()(torch.full((1, 1, 1), 255, dtype=torch.uint8))
    tensor([[[1.]]])
    """

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__(dtype, scale=True)


# torchvision's own do nothing to the tensors of a chain, or can't take them.
REPLACEMENTS.update(
    {
        "ConvertImageDtype": lambda given: ConvertImageDtype(given.dtype),
        "PILToTensor": lambda _: PILToTensor(),
        "ToImage": lambda _: ToImage(),
        "ToPILImage": lambda given: ToPILImage(given.mode),
        "ToPureTensor": lambda _: ToPureTensor(),
        "ToTensor": lambda _: ToTensor(),
    }
)
