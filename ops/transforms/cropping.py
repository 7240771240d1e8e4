"""Transforms that shift by whole pixels or mirror: crops, padding and flips."""

from collections.abc import Sequence

from .._native import Step
from .arguments import FillArgument, fail, fill_values, padding_ltrb, padding_name, size_pair
from .engine.effects import Effects
from .transform import Builtin, RandomlyApplied


class CenterCrop(Builtin):
    """Crop the middle of the image, padding it where it is too small.

    Parameters
    ----------
    size : int or pair of int
        Height and width of the result.
    fill : number or sequence of C numbers
        The padding's value, in the image's units (white is 255 for uint8).

    Notes
    -----
    Parameters: ``top``, ``left`` of the crop, negative where the image is padded.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.CenterCrop((2, 4))(torch.arange(24.0).reshape(1, 4, 6))
    tensor([[[ 7.,  8.,  9., 10.],
             [13., 14., 15., 16.]]])
    """

    def __init__(self, size: int | Sequence[int], *, fill: float | Sequence[float] = 0) -> None:
        super().__init__()
        owner = type(self).__name__
        self.size = size_pair(owner, "size", size)
        self.fill = fill_values(owner, fill)

    def effects(self) -> Effects:
        return Effects(moves=True, fill=self.fill, inside=self.size, size=self.size)

    def chain_step(self) -> Step | None:
        return Step("CenterCrop", self.size)


class RandomCrop(Builtin):
    """Crop the image at a random place.

    Parameters
    ----------
    size : int or pair of int
        Height and width of the result.
    padding : int or sequence of 2 or 4 int, optional
        Pixels to add first: on all sides; left and right, top and bottom; or left, top, right,
        bottom.
    pad_if_needed : bool or "end"
        Pad an image smaller than `size` by what is missing, on both sides, or with "end" at the
        right and the bottom only, as segmentation's recipes do; otherwise such an image is an
        error.
    fill : number, sequence of C numbers, or dict of such by type
        The padding's value, in the image's units (white is 255 for uint8).
    padding_mode : {"constant", "edge", "reflect", "symmetric", "circular"}

    Notes
    -----
    Parameters: ``top``, ``left`` of the crop in the unpadded image.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.RandomCrop(32, padding=4)(torch.rand(3, 32, 32)).shape
    torch.Size([3, 32, 32])
    """

    draws = 2

    def __init__(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool | str = False,
        fill: FillArgument = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        self.size = size_pair(owner, "size", size)
        self.padding = None if padding is None else padding_ltrb(owner, padding)
        if isinstance(pad_if_needed, str) and pad_if_needed != "end":
            fail(owner, "pad_if_needed", pad_if_needed, "a bool or 'end'")
        self.pad_if_needed = pad_if_needed if pad_if_needed == "end" else bool(pad_if_needed)
        self.fill = fill_values(owner, fill)
        self.padding_mode = padding_name(owner, padding_mode)

    def effects(self) -> Effects:
        if self.padding is not None and any(self.padding):
            mode = self.padding_mode
            return Effects(moves=True, fill=self.fill, padding_mode=mode, size=self.size)
        if not self.pad_if_needed:
            return Effects(moves=True, size=self.size)
        return Effects(
            moves=True,
            fill=self.fill,
            padding_mode=self.padding_mode,
            inside=self.size,
            size=self.size,
        )

    def chain_step(self) -> Step | None:
        padding = self.padding or (0, 0, 0, 0)
        padded = 1 if self.pad_if_needed == "end" else 2 * bool(self.pad_if_needed)
        return Step("RandomCrop", (*self.size, *padding, padded))


class Pad(Builtin):
    """Add pixels around the image.

    Parameters
    ----------
    padding : int or sequence of 2 or 4 int
        On all sides; left and right, top and bottom; or left, top, right, bottom.
    fill : number, sequence of C numbers, or dict of such by type
        Their value, in the image's units (white is 255 for uint8).
    padding_mode : {"constant", "edge", "reflect", "symmetric", "circular"}

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.Pad((1, 0), fill=9)(torch.ones(1, 2, 2))
    tensor([[[9., 1., 1., 9.],
             [9., 1., 1., 9.]]])
    """

    def __init__(
        self,
        padding: int | Sequence[int],
        fill: FillArgument = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        self.padding = padding_ltrb(owner, padding)
        self.fill = fill_values(owner, fill)
        self.padding_mode = padding_name(owner, padding_mode)

    def effects(self) -> Effects:
        return Effects(moves=True, fill=self.fill, padding_mode=self.padding_mode)

    def chain_step(self) -> Step | None:
        return Step("Pad", self.padding)


class _Flip(RandomlyApplied):
    draws = 1

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)

    def effects(self) -> Effects:
        return Effects(moves=True)


class RandomHorizontalFlip(_Flip):
    """Swap left and right, with probability `p`.

    Parameters
    ----------
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.RandomHorizontalFlip(p=1)(torch.tensor([[[1.0, 2.0, 3.0]]]))
    tensor([[[3., 2., 1.]]])
    """

    def chain_step(self) -> Step | None:
        return Step("RandomHorizontalFlip", (self.p,))


class RandomVerticalFlip(_Flip):
    """Swap top and bottom, with probability `p`.

    Parameters
    ----------
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.RandomVerticalFlip(p=1)(torch.tensor([[[1.0], [2.0]]]))
    tensor([[[2.],
             [1.]]])
    """

    def chain_step(self) -> Step | None:
        return Step("RandomVerticalFlip", (self.p,))
