"""Quarter turns and mirrors: exact copies of the pixels."""

from .._native import Step
from .engine.effects import Effects
from .transform import RandomlyApplied


class _Symmetry(RandomlyApplied):
    draws = 3
    _mirrors = False
    _transposes = False

    def effects(self) -> Effects:
        return Effects(moves=True, aligned=False, size=(0, 0))

    def chain_step(self) -> Step | None:
        return Step("Symmetry", (self.p, self._mirrors, self._transposes))


class RandomRotate90(_Symmetry):
    """Turn the image by a random number of quarters, with probability `p`.

    albumentations' transform of this name.

    Parameters
    ----------
    p : float
        Probability, for each sample; the number may be 0.

    Notes
    -----
    Parameters: ``apply``, ``quarters``, from 0 to 3, counter-clockwise on screen. An odd number
    swaps height and width, so the images of a batch should be square.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> image = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    >>> params = transforms.Parameters(
    ...     ["RandomRotate90"], [{"apply": [True], "quarters": [1]}], torch.tensor([[2, 2]]).numpy()
    ... )
    >>> transforms.Compose([transforms.RandomRotate90()])(image, params=params)
    tensor([[[2., 4.],
             [1., 3.]]])
    """

    def __init__(self, p: float = 1.0) -> None:
        super().__init__(p)


class D4(_Symmetry):
    """Apply one of the eight symmetries of a square, each as likely as the others.

    albumentations' transform of this name: for images without an up, from above or through a
    microscope.

    Parameters
    ----------
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``, ``quarters`` as for :class:`RandomRotate90`, and ``mirror``, whether left
    and right are swapped before.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.D4()(torch.rand(3, 8, 8)).shape
    torch.Size([3, 8, 8])
    """

    _mirrors = True

    def __init__(self, p: float = 1.0) -> None:
        super().__init__(p)


class Transpose(_Symmetry):
    """Swap rows and columns, with probability `p`.

    albumentations' transform of this name.

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
    >>> transforms.Transpose(p=1)(torch.tensor([[[1.0, 2.0, 3.0]]]))
    tensor([[[1.],
             [2.],
             [3.]]])
    """

    _transposes = True

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)
