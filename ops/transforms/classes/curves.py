"""Transforms that change pixels by their values, as no colour matrix can.

Most run in a pass of their own, one after another, in place. Values are those of
``torchvision.transforms.v2``.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..._native import Step
from ..arguments import check_channels, flag, interval, number, whole
from ..base import KEY, Keyed, OperationStep, RandomlyApplied, fixed
from ..chain.effects import Effects
from ..chain.pixel_kinds import PixelKind
from ..chain.plan import Plan, full_scale
from ..chain.random import Numbers

__all__ = [
    "FancyPCA",
    "RandomAdjustSharpness",
    "RandomAutocontrast",
    "RandomEqualize",
    "RandomGamma",
    "RandomInvert",
    "RandomPosterize",
    "RandomSolarize",
    "RandomToneCurve",
]


class _ValueStep(RandomlyApplied):
    """One operation, with probability `p`."""

    kind: PixelKind

    def changes_values(self) -> bool:
        return True

    def effects(self) -> Effects:
        return Effects()

    def chain_step(self) -> Step | None:
        fields = {"kind": self.kind, "p": self.p, "amount": self._amounts()}
        return Step("RandomOperation", fields)

    def _amounts(self) -> tuple[float, float]:
        """Return the range of the operation's amount."""
        return 0.0, 0.0


class RandomInvert(_ValueStep):
    """Invert all values, with probability `p`: white becomes black.

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
    >>> transforms.RandomInvert(p=1)(torch.tensor([[[0, 55, 255]]], dtype=torch.uint8))
    tensor([[[255, 200,   0]]], dtype=torch.uint8)
    """

    kind = PixelKind.INVERT

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)


class RandomPosterize(_ValueStep):
    """Keep the upper bits of every value, with probability `p`.

    Parameters
    ----------
    bits : int
        From 0 to 8. Floating values are rounded down to one of ``2**bits`` levels, and integers
        but uint8 to within 1 of the level that has only these bits.
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.RandomPosterize(2, p=1)(torch.tensor([[[0, 100, 255]]], dtype=torch.uint8))
    tensor([[[  0,  64, 192]]], dtype=torch.uint8)
    """

    kind = PixelKind.POSTERIZE

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p)
        self.bits = whole("RandomPosterize", "bits", bits, 0, "a whole number from 0 to 8", 8)

    def _amounts(self) -> tuple[float, float]:
        return float(self.bits), float(self.bits)


class RandomSolarize(_ValueStep):
    """Invert the values from a threshold on, with probability `p`.

    Parameters
    ----------
    threshold : float
        In the image's units, and not above white.
    p : float
        Probability, for each sample.

    Raises
    ------
    ValueError
        The threshold is above the image's white.

    Notes
    -----
    Parameters: ``apply``.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.RandomSolarize(128, p=1)(torch.tensor([[[0, 100, 255]]], dtype=torch.uint8))
    tensor([[[  0, 100,   0]]], dtype=torch.uint8)
    """

    kind = PixelKind.SOLARIZE_AT

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.threshold = number("RandomSolarize", "threshold", threshold, allowed="a finite number")

    def _amounts(self) -> tuple[float, float]:
        return self.threshold, self.threshold

    def set_constants(self, plan: Plan) -> None:
        white = full_scale(plan.dtype)
        if self.threshold > white:
            raise ValueError(
                f"visops.transforms.RandomSolarize: threshold is {self.threshold:g}, must not be "
                f"above {white:g}, the white of {plan.dtype}"
            )


class RandomAutocontrast(_ValueStep):
    """Stretch each channel so that its values reach from black to white, with probability `p`.

    Parameters
    ----------
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``. A channel of one value stays as it is.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.RandomAutocontrast(p=1)(torch.tensor([[[0.2, 0.3, 0.6]]]))
    tensor([[[0.0000, 0.2500, 1.0000]]])
    """

    kind = PixelKind.AUTOCONTRAST

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)


class RandomEqualize(_ValueStep):
    """Equalize the histogram of each channel, with probability `p`.

    Parameters
    ----------
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``. Pillow's scheme, on 256 levels; floating images and those of wider
    integers are brought to these first, and back with white as the greatest: torchvision's white
    of uint16 is 65280.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> image = torch.arange(64, dtype=torch.uint8).repeat(16).reshape(1, 32, 32)
    >>> int(transforms.RandomEqualize(p=1)(image).max())
    255
    """

    kind = PixelKind.EQUALIZE

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)


class RandomAdjustSharpness(_ValueStep):
    """Sharpen or blur the image, with probability `p`.

    Parameters
    ----------
    sharpness_factor : float
        0 blurs with a 3 x 3 kernel, 1 keeps the image, 2 doubles its distance from the blurred one.
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``. Pixels at the rim stay as they are.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> image = torch.zeros(1, 3, 3)
    >>> image[0, 1, 1] = 0.26
    >>> transforms.RandomAdjustSharpness(0, p=1)(image)[0, 1]
    tensor([0.0000, 0.1000, 0.0000])
    """

    kind = PixelKind.SHARPNESS

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p)
        allowed = "a finite number >= 0"
        self.sharpness_factor = number(
            "RandomAdjustSharpness", "sharpness_factor", sharpness_factor, 0.0, allowed=allowed
        )

    def _amounts(self) -> tuple[float, float]:
        return self.sharpness_factor, self.sharpness_factor

    def set_constants(self, plan: Plan) -> None:
        check_channels("RandomAdjustSharpness", plan.channels)


class RandomGamma(_ValueStep):
    """Raise values, with white at 1, to a random power, with probability `p`.

    Parameters
    ----------
    gamma : pair of float
        Range of the exponent, at most 20: below 1 brightens, above 1 darkens. albumentations' range
        is in per cent: (80, 120) there is (0.8, 1.2).
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``, and ``amount``, the exponent, where it is drawn. Values are those of
    ``torchvision.transforms.v2.functional.adjust_gamma``.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.RandomGamma((2, 2), p=1)(torch.tensor([[[0.0, 0.5, 1.0]]]))
    tensor([[[0.0000, 0.2500, 1.0000]]])
    """

    kind = PixelKind.GAMMA

    def __init__(self, gamma: Sequence[float] = (0.8, 1.2), p: float = 0.5) -> None:
        super().__init__(p)
        # The bound is for albumentations' (80, 120), by which nearly every pixel would be black.
        allowed = "two numbers > 0 and <= 20 (min, max): exponents, not per cent"
        self.gamma = interval("RandomGamma", "gamma", gamma, 1e-9, 20.0, allowed)

    def _amounts(self) -> tuple[float, float]:
        return self.gamma


class FancyPCA(Keyed):
    """Shift colours along the principal axes of the image's own, by random amounts.

    albumentations' transform of this name.

    Parameters
    ----------
    alpha : float
        Standard deviation of the amounts.
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply``, ``key``. As in albumentations, each pixel moves with its distance from
    the mean colour: a contrast along each axis. Theirs takes channels for axes there, and so
    depends on the signs of eigenvectors, which are arbitrary.

    Source: A. Krizhevsky et al., "ImageNet classification with deep convolutional neural networks",
    NIPS 2012, which moves all pixels alike.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.FancyPCA(p=1)(torch.rand(3, 20, 30)).shape
    torch.Size([3, 20, 30])
    """

    def __init__(self, alpha: float = 0.1, p: float = 0.5) -> None:
        super().__init__()
        self.alpha = number("FancyPCA", "alpha", alpha, 0.0, allowed="a number >= 0")
        self.take_p(p)

    def draw(self, numbers: Numbers, shape: Sequence[int]) -> np.ndarray:
        return self.alpha * numbers.normal(shape[0])

    def change(self, image: Tensor, drawn: np.ndarray) -> Tensor:
        pixels = image.contiguous().flatten(1)  # sums have an order of their own for other strides
        centred = pixels - pixels.mean(1, keepdim=True)
        if len(image) == 1:
            return image + float(drawn[0]) * centred.view_as(image) * centred.std(unbiased=False)
        covariance = torch.cov(pixels.double())
        if not covariance.isfinite().all():  # of a NaN or infinity no axis is known
            return torch.full_like(image, torch.nan)
        values, axes = torch.linalg.eigh(covariance)  # the greatest is the last
        amounts = torch.from_numpy(drawn[::-1].copy()).to(values) * values
        moved = (axes * amounts) @ (axes.mT @ centred.double())
        return image + moved.to(image.dtype).view_as(image)


class RandomToneCurve(OperationStep):
    """Bend the curve of tones: dark and light ones move by random amounts.

    albumentations' transform of this name.

    Parameters
    ----------
    scale : float
        Standard deviation of the two handles' heights, which are 1/4 and 3/4 where nothing moves.
    per_channel : bool
        Whether each channel has a curve of its own.
    p : float
        Probability, for each sample.

    Notes
    -----
    Parameters: ``apply`` and ``amounts`` ``[B, 10]``: scale, whether channels have curves of their
    own, key. The curve is Bezier's, of third degree, over evenly spaced parameters. Floating images
    keep their precision, which albumentations cuts to 256 levels.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.RandomToneCurve(0.0, p=1)(torch.tensor([[[0.0, 0.5, 1.0]]]))
    tensor([[[0.0000, 0.5000, 1.0000]]])
    """

    kind = PixelKind.TONE_CURVE

    def __init__(self, scale: float = 0.1, per_channel: bool = False, p: float = 0.5) -> None:
        deviation = number("RandomToneCurve", "scale", scale, 0.0, 1.0, "a number in [0, 1]")
        each = flag("RandomToneCurve", "per_channel", per_channel)
        super().__init__(p, [fixed(deviation), fixed(each), KEY])
        self.scale, self.per_channel = deviation, each
