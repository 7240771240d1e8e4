"""Transforms that bend the image: each pixel is read at a position of its own.

They run by themselves, sample by sample, in C++: a field of displacements is made of a few numbers,
and images, masks, boxes, key points and polygons follow it. Results don't depend on threads or
batches.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ..._torch.options import PadMode
from ...warp.remap import remap_batch
from ..arguments import (
    FillArgument,
    InterpolationArgument,
    fail,
    fill_values,
    flag,
    interpolation_mode,
    interval,
    is_sequence,
    number,
    one_of,
    padding_name,
    probability,
    whole,
)
from ..base import MOST_TAPS, Transform
from ..chain.effects import Effects
from ..chain.integers import WHITES, float_fill, from_float, to_float
from ..chain.operators import Pixels, reject_dtype
from ..chain.plan import Canvas, Plan
from ..sample.images import sizes_of
from ..sample.leaf import Leaf
from ..targets.bent import Fields, bend_batch, bend_targets
from ..targets.options import TargetOptions

__all__ = ["ElasticTransform", "GridDistortion", "OpticalDistortion", "ThinPlateSpline"]


class _Bending(Transform):
    """A field for each sample, with probability `p`."""

    no_inverse = "bends images, as no matrix undoes"
    padding_mode = "constant"
    numbered = False  # whether an interpolation may be a number: Pillow's, as in torchvision

    def __init__(self, p: float, interpolation: Any, fill: FillArgument) -> None:
        super().__init__()
        owner = type(self).__name__
        self.p = probability(owner, p)
        if isinstance(interpolation, int) and not self.numbered:
            allowed = "'nearest', 'bilinear' or 'bicubic' (numbers differ from library to library)"
            fail(owner, "interpolation", interpolation, allowed, TypeError)
        self.interpolation = interpolation_mode(owner, interpolation)
        self.fill = fill_values(owner, fill)

    @abstractmethod
    def field_of(
        self, params: Mapping[str, Any], sample: int, size: tuple[int, int]
    ) -> tuple[str, dict[str, Any]]:
        """Return the kind of a sample's field and its values: csrc/core/warp/fields.cpp."""

    def effects(self) -> Effects:
        return Effects(alone="it bends the image", size=None)

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        """Add nothing: it joins no pass."""

    def applies(self, uniforms: np.ndarray) -> np.ndarray:
        """Return which samples have drawn it, by numbers ``[B]``."""
        return uniforms < self.p

    def run_leaves(
        self, leaves: Sequence[Leaf], params: Mapping[str, Any], options: TargetOptions
    ) -> None:
        images = [leaf for leaf in leaves if leaf.kind == "image"]
        sizes = [(height, width) for height, width in sizes_of(images[0]).tolist()]
        fields = Fields(
            [
                self.field_of(params, sample, size)
                if params["apply"][sample] and size[0] * size[1] > 0
                else None
                for sample, size in enumerate(sizes)
            ],
            sizes,
        )
        for leaf in images:
            self._bend(leaf, fields)
        bend_targets(leaves, fields, options, self.padding_mode)

    def _bend(self, leaf: Leaf, fields: Fields) -> None:
        pixels = Pixels(leaf)
        dtype = reject_dtype(leaf, pixels.dtype)
        if len(self.fill) not in (1, pixels.channels):
            raise ValueError(
                f"visops.transforms.{self._get_name()}: fill has {len(self.fill)} numbers, "
                f"{leaf.name} has {pixels.channels} channels; must be one, or one for each"
            )
        images = to_float(pixels.tensors(leaf))
        fill = float_fill(self._get_name(), self.fill, dtype)
        how = True, self.interpolation, self.padding_mode, fill
        listed = isinstance(images, list)
        found: Any
        if listed:  # images may be of several sizes
            found = list(images)
            for index, image in enumerate(images):
                field = fields[index // pixels.frames]
                if field is not None:
                    found[index] = remap_batch(image[None], *field.on(image), how)[0]
        else:
            found = bend_batch(images, fields, pixels.frames, how)
        pixels.store(leaf, from_float(found, dtype) if dtype in WHITES else found)


def _pair(
    owner: str, name: str, value: Any, allowed: str, low: float, high: float = math.inf
) -> tuple[float, float]:
    given = value if is_sequence(value) else (value, value)
    if len(given) not in (1, 2):
        fail(owner, name, value, allowed)
    numbers = [number(owner, name, v, low, high, allowed, value) for v in given]
    return numbers[0], numbers[-1]


# The noise is blurred by kernels of 8 sigma + 1 taps.
_MOST_SIGMA = MOST_TAPS // 8


class ElasticTransform(_Bending):
    """Move every pixel by random numbers that are alike for neighbours.

    torchvision's transform of this name, with its arguments and distribution.

    Parameters
    ----------
    alpha : float or pair of float
        Strength along x and y: uniform noise in [-1, 1], blurred, is multiplied by half of it, in
        pixels.
    sigma : float or pair of float
        Standard deviation of the blur along x and y, in pixels.
    interpolation : {"bilinear", "nearest", "bicubic"} or InterpolationMode
    fill : number, sequence of C numbers, or dict of such by type
        The value outside the image, in the image's units.

    Notes
    -----
    Parameters: ``apply``, always true, and ``key``, from which all of the noise follows. Boxes
    become the bounds of their moved outline, and key points are found by the field's inverse, to
    1e-4 pixels; torchvision takes minus the field for its inverse. `inverse` refuses a chain with
    it.

    Source: P. Simard et al., "Best practices for convolutional neural networks applied to visual
    document analysis", ICDAR 2003.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> bend = transforms.Compose([transforms.ElasticTransform(60.0, 4.0)], seed=0)
    >>> sample = {"image": torch.rand(3, 64, 64), "keypoints": torch.tensor([[20.0, 30.0]])}
    >>> bent = bend(sample, index=5)
    >>> bent["image"].shape, bool((bent["keypoints"] - sample["keypoints"]).abs().max() > 0.1)
    (torch.Size([3, 64, 64]), True)
    """

    draws = 1
    numbered = True

    def __init__(
        self,
        alpha: float | Sequence[float] = 50.0,
        sigma: float | Sequence[float] = 5.0,
        interpolation: InterpolationArgument = "bilinear",
        fill: FillArgument = 0,
    ) -> None:
        super().__init__(1.0, interpolation, fill)
        owner = type(self).__name__
        self.alpha = _pair(owner, "alpha", alpha, "a finite number or two (x, y)", -math.inf)
        allowed = f"a number >= 0 and <= {_MOST_SIGMA} or two (x, y)"
        self.sigma = _pair(owner, "sigma", sigma, allowed, 0.0, _MOST_SIGMA)
        if (self.sigma[0] > 0.0) != (self.sigma[1] > 0.0):
            fail(owner, "sigma", sigma, "0 for both directions or for none")

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> dict[str, np.ndarray]:
        return {"apply": np.ones(len(uniforms), bool), "key": uniforms[:, 0].copy()}

    def field_of(
        self, params: Mapping[str, Any], sample: int, size: tuple[int, int]
    ) -> tuple[str, dict[str, Any]]:
        # torchvision's kernels: 8 sigma + 1 taps, made odd.
        radius = [float((int(8 * sigma + 1) | 1) // 2) for sigma in self.sigma]
        factor = [alpha / 2.0 for alpha in self.alpha]
        fields = {"key": float(params["key"][sample]), "factor": factor, "sigma": self.sigma}
        return "elastic", {**fields, "radius": radius}


class GridDistortion(_Bending):
    """Stretch and shrink the columns and rows of a grid, with probability `p`.

    albumentations' transform of this name.

    Parameters
    ----------
    num_steps : int
        Cells along each side.
    distort_limit : float or pair of float
        Range of what is added to 1 for the factor of each cell; one number x means [-x, x].
    interpolation : {"bilinear", "nearest", "bicubic"} or InterpolationMode
    normalized : bool
        Scale the factors so that nothing outside the image shows.
    p : float
        Probability, for each sample.
    padding_mode : {"constant", "edge", "reflect", "symmetric", "circular"}
        What lies outside the image.
    fill : number, sequence of C numbers, or dict of such by type
        The value outside, for "constant".

    Notes
    -----
    Parameters: ``apply``, ``x_factors`` and ``y_factors`` ``[B, num_steps + 1]``; the last is of
    what is left of the image beyond whole cells. Targets follow as for :class:`ElasticTransform`.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.GridDistortion(p=1)(torch.rand(3, 50, 60)).shape
    torch.Size([3, 50, 60])
    """

    def __init__(
        self,
        num_steps: int = 5,
        distort_limit: float | Sequence[float] = (-0.3, 0.3),
        interpolation: InterpolationArgument = "bilinear",
        normalized: bool = True,
        p: float = 0.5,
        padding_mode: PadMode = "constant",
        fill: FillArgument = 0,
    ) -> None:
        super().__init__(p, interpolation, fill)
        owner = type(self).__name__
        self.num_steps = whole(owner, "num_steps", num_steps, 1, "a whole number >= 1")
        self.distort_limit = _limits(owner, distort_limit, -0.99)
        self.normalized = flag(owner, "normalized", normalized)
        self.padding_mode = padding_name(owner, padding_mode)
        self.draws = 1 + 2 * (self.num_steps + 1)

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> dict[str, np.ndarray]:
        low, high = self.distort_limit
        sides = canvas.sides(len(uniforms))
        if (sides < self.num_steps).any():
            raise ValueError(
                f"visops.transforms.GridDistortion: num_steps is {self.num_steps}, an image has "
                f"{int(sides.min())} rows or columns; must have as many"
            )
        count = self.num_steps + 1
        factors = 1.0 + low + uniforms[:, 1:] * (high - low)
        columns = self._whole(factors[:, :count], sides[:, 1])
        rows = self._whole(factors[:, count:], sides[:, 0])
        return {"apply": self.applies(uniforms[:, 0]), "x_factors": columns, "y_factors": rows}

    def _whole(self, factors: np.ndarray, side: np.ndarray) -> np.ndarray:
        """Scale factors so that the source's cells fill the image."""
        if not self.normalized:
            return factors
        step = np.floor(side / self.num_steps)
        factors = factors.copy()
        whole = self.num_steps * step  # columns of whole cells
        factors[:, -1] *= (np.minimum(side, whole + step) - whole) / step
        total = factors[:, 0].copy()
        for index in range(1, factors.shape[1]):  # in turn: a sum's order is the library's
            total += factors[:, index]
        return factors * (side / step / total)[:, None]

    def field_of(
        self, params: Mapping[str, Any], sample: int, size: tuple[int, int]
    ) -> tuple[str, dict[str, Any]]:
        x, y = params["x_factors"][sample].tolist(), params["y_factors"][sample].tolist()
        return "steps", {"x_steps": x, "y_steps": y}


def _limits(owner: str, value: Any, low: float) -> tuple[float, float]:
    allowed = "a number >= 0 or two (min, max)"
    if is_sequence(value):
        return interval(owner, "distort_limit", value, low, allowed=allowed)
    limit = number(owner, "distort_limit", value, 0.0, -low, allowed)
    return -limit, limit


class OpticalDistortion(_Bending):
    """Distort the image as a lens does, with probability `p`.

    albumentations' transform of this name.

    Parameters
    ----------
    distort_limit : float or pair of float
        Range of the coefficient k; one number x means [-x, x].
    interpolation : {"bilinear", "nearest", "bicubic"} or InterpolationMode
    mode : {"camera", "fisheye"}
        OpenCV's radial model with k1 = k2 = k and a focal length of the image's sides, or r' = r (1
        + k r^2) with r = 1 in the corners.
    p : float
        Probability, for each sample.
    padding_mode : {"constant", "edge", "reflect", "symmetric", "circular"}
        What lies outside the image.
    fill : number, sequence of C numbers, or dict of such by type
        The value outside, for "constant".

    Notes
    -----
    Parameters: ``apply`` and ``k``. Targets follow as for :class:`ElasticTransform`. The camera's
    middle is the middle pixel; in albumentations the image is also shifted by half a pixel, even
    for k = 0.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.OpticalDistortion(0.3, mode="fisheye", p=1)(torch.rand(3, 50, 60)).shape
    torch.Size([3, 50, 60])
    """

    draws = 2

    def __init__(
        self,
        distort_limit: float | Sequence[float] = (-0.05, 0.05),
        interpolation: InterpolationArgument = "bilinear",
        mode: Literal["camera", "fisheye"] = "camera",
        p: float = 0.5,
        padding_mode: PadMode = "constant",
        fill: FillArgument = 0,
    ) -> None:
        super().__init__(p, interpolation, fill)
        owner = type(self).__name__
        self.distort_limit = _limits(owner, distort_limit, -math.inf)
        one_of(owner, "mode", mode, ("camera", "fisheye"))
        self.mode = mode
        self.padding_mode = padding_name(owner, padding_mode)

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> dict[str, np.ndarray]:
        low, high = self.distort_limit
        return {"apply": self.applies(uniforms[:, 0]), "k": low + uniforms[:, 1] * (high - low)}

    def field_of(
        self, params: Mapping[str, Any], sample: int, size: tuple[int, int]
    ) -> tuple[str, dict[str, Any]]:
        return "lens", {"k": float(params["k"][sample]), "fisheye": self.mode == "fisheye"}


class ThinPlateSpline(_Bending):
    """Move the points of a grid at random, and bend the image between them as a thin plate.

    albumentations' transform of this name.

    Parameters
    ----------
    scale_range : pair of float
        Ten times the standard deviation of the points' shifts, as a share of the image's sides, is
        drawn from it.
    num_control_points : int
        Points along each side; 2 stands for the corners and the middle.
    interpolation : {"bilinear", "nearest", "bicubic"} or InterpolationMode
    p : float
        Probability, for each sample.
    padding_mode : {"constant", "edge", "reflect", "symmetric", "circular"}
        What lies outside the image.
    fill : number, sequence of C numbers, or dict of such by type
        The value outside, for "constant".

    Notes
    -----
    Parameters: ``apply`` and ``shifts`` ``[B, 2 N]``, x and y of each point. The spline is
    evaluated at some pixels, and bilinearly between, to 0.05 pixels. Its kernel is Duchon's
    r^2 log r; albumentations takes r^4 log r^2 for the weights and r^2 log r^2 for the pixels, so
    there the points don't arrive where they should. Targets follow as for
    :class:`ElasticTransform`.

    Source: F. L. Bookstein, "Principal warps: thin-plate splines and the decomposition of
    deformations", IEEE Trans. PAMI 11(6), 1989.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> transforms.ThinPlateSpline(p=1)(torch.rand(3, 50, 60)).shape
    torch.Size([3, 50, 60])
    """

    def __init__(
        self,
        scale_range: Sequence[float] = (0.2, 0.4),
        num_control_points: int = 4,
        interpolation: InterpolationArgument = "bilinear",
        p: float = 0.5,
        padding_mode: PadMode = "constant",
        fill: FillArgument = 0,
    ) -> None:
        super().__init__(p, interpolation, fill)
        owner = type(self).__name__
        self.scale_range = interval(
            owner, "scale_range", scale_range, 0.0, allowed="two numbers >= 0 (min, max)"
        )
        self.num_control_points = whole(
            owner, "num_control_points", num_control_points, 2, "a whole number from 2 to 16", 16
        )
        self.padding_mode = padding_name(owner, padding_mode)
        self.draws = 2 + 2 * len(self._points())

    def _points(self) -> list[tuple[float, float]]:
        count = self.num_control_points
        if count == 2:
            return [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0), (0.5, 0.5)]
        positions = [i / (count - 1) for i in range(count)]
        return [(x, y) for y in positions for x in positions]

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> dict[str, np.ndarray]:
        low, high = self.scale_range
        scale = (low + uniforms[:, 1:2] * (high - low)) / 10.0
        shifts = scale * np.array([_normals(row) for row in uniforms[:, 2:].tolist()])
        return {"apply": self.applies(uniforms[:, 0]), "shifts": shifts}

    def field_of(
        self, params: Mapping[str, Any], sample: int, size: tuple[int, int]
    ) -> tuple[str, dict[str, Any]]:
        points = [value for point in self._points() for value in point]
        shifts = np.asarray(params["shifts"])[sample].tolist()
        moved = [a + b for a, b in zip(points, shifts, strict=True)]
        return "spline", {"points": points, "moved": moved}


def _normals(uniforms: Sequence[float]) -> list[float]:
    """Return as many normal numbers, by Box and Muller's method; their count is even."""
    out: list[float] = []
    for u, v in zip(uniforms[::2], uniforms[1::2], strict=True):
        radius = math.sqrt(-2.0 * math.log(1.0 - u))
        out += [radius * math.cos(2.0 * math.pi * v), radius * math.sin(2.0 * math.pi * v)]
    return out
