"""The base classes of the transforms."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._native import Step
from .._torch.outside_graphs import outside_graphs
from .arguments import (
    FillArgument,
    check_channels,
    fail,
    fill_values,
    flag,
    interpolation_modes,
    interval,
    is_sequence,
    number,
    padding_name,
    probability,
    whole,
)
from .chain.effects import Effects, Fusable
from .chain.integers import WHITES, from_float, rounded, to_float
from .chain.nesting import Container
from .chain.operators import Pixels, reject_dtype
from .chain.pixel_kinds import PixelKind
from .chain.plan import Canvas, Plan
from .chain.random import Numbers
from .chain.source import Called
from .compose import Compose
from .sample.images import sizes_of
from .sample.leaf import Leaf


class Transform(Called, Fusable):
    """A transform that can be fused with others.

    Call it on a sample, or put it into a :class:`Compose`. Calling it is the same as calling
    ``Compose([transform])``, with the same keyword arguments.

    To write your own, subclass it and define three methods: `effects` says what the transform does,
    `make_params` turns uniform numbers into parameters, `extend` adds them to a plan.

    Attributes
    ----------
    draws : int
        How many uniform numbers it needs per sample.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> class RandomInvert(transforms.Transform):
    ...     draws = 1
    ...
    ...     def effects(self):
    ...         return transforms.Effects(colors=1)
    ...
    ...     def make_params(self, uniforms, canvas):
    ...         return {"apply": uniforms[:, 0] < 0.5}
    ...
    ...     def extend(self, plan, params):
    ...         apply = params["apply"]
    ...         plan.color([1.0 - 2.0 * apply, 1.0 * apply])  # for one channel: A | a
    >>> chain = transforms.Compose([RandomInvert(), transforms.RandomHorizontalFlip()])
    >>> len(chain.passes)
    1
    >>> chain(torch.zeros(4, 1, 8, 8)).shape
    torch.Size([4, 1, 8, 8])
    """

    @outside_graphs
    def forward(self, *sample: Any, **options: Any) -> Any:
        """Transform a sample, as ``Compose([self])`` does."""
        return alone(self).forward(*sample, **options)  # as a module, it would look for hooks again

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.picklable().items() if name != "_alone"}

    def extra_repr(self) -> str:
        shown = []
        for name, value in self.__dict__.items():
            hidden = name.startswith("_") or name in ("training", "draws")
            if not hidden and value is not None:
                shown.append(f"{name}={value!r}")
        return ", ".join(shown)


def alone(transform: Any) -> Compose:
    """Return ``Compose([transform])``, which the transform keeps."""
    found: Compose | None = transform.__dict__.get("_alone")
    if found is None:
        # nn.Module's own attributes would register it as a child of this module: a cycle.
        found = transform.__dict__["_alone"] = Compose([transform])
    return found


class _NumUniforms:
    """`draws` of a transform that is a step in C++, unless it or a subclass says its own."""

    def __get__(self, transform: Any, cls: type) -> Any:
        step = None if transform is None else transform.chain_step()
        return 0 if step is None else step.num_uniforms


class Builtin(Transform):
    """A transform of this package, which is a step in C++."""

    draws: Any = _NumUniforms()

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> dict[str, np.ndarray]:
        """Turn uniform numbers ``[B, draws]`` into parameters."""
        step = self.chain_step()
        assert step is not None
        return step.unpack(Plan(canvas, len(uniforms)).draw(step, uniforms))

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        """Add to a plan what the transform does with these parameters."""
        step = self.chain_step()
        assert step is not None
        plan.add(step, step.pack(params, plan.batch))
        self.set_constants(plan)


class RandomlyApplied(Builtin):
    """A transform applied to each sample with a given probability."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = probability(type(self).__name__, p)


class Sampled(Builtin):
    """A transform with the arguments `interpolation` and perhaps `antialias`.

    Each sample draws one of several interpolations, by a uniform number after the transform's own.
    """

    interpolation: str | tuple[str, ...]
    antialias: bool

    def sample_by(self, interpolation: Any, antialias: bool | None = None) -> None:
        """Check the arguments, and keep them; None: the transform has no `antialias`."""
        modes = interpolation_modes(type(self).__name__, interpolation, bool(antialias))
        self.interpolation = modes
        if antialias is not None:
            self.antialias = bool(antialias) and modes != "nearest"

    def sampled(self, step: Step) -> Step:
        """Return a step that draws the interpolation as well, if it is drawn."""
        if isinstance(self.interpolation, tuple):
            return Step.interpolated(step, len(self.interpolation))
        return step


class Probable(Transform):
    """A transform that is applied to each sample with probability `p`."""

    p: float

    def take_p(self, p: float) -> None:
        """Check the probability, and keep it."""
        self.p = probability(type(self).__name__, p)


class Occasional(Probable):
    """A change of geometry with probability `p`; what is None concerns some subclasses."""

    interpolation: Any = None
    antialias: Any = None
    fill: tuple[float, ...] | None = None
    padding_mode: str = "constant"

    def take_padding(self, fill: FillArgument, padding_mode: str | None = None) -> None:
        """Check the arguments, and keep them; None: there is no such argument."""
        owner = type(self).__name__
        self.fill = fill_values(owner, fill)
        if padding_mode is not None:
            self.padding_mode = padding_name(owner, padding_mode)

    def take_sampling(self, interpolation: Any, antialias: bool | None = None) -> None:
        """Check the arguments, and keep them; None: there is no such argument."""
        owner = type(self).__name__
        filters = flag(owner, "antialias", antialias or False)
        mode = interpolation_modes(owner, interpolation, filters)
        if isinstance(mode, tuple):
            fail(owner, "interpolation", interpolation, "one interpolation")
        self.interpolation = mode
        if antialias is not None:
            self.antialias = filters and mode != "nearest"


# Least, greatest, and how to draw between them: 0 any number, 1 a whole one, 2 an odd one.
Range = tuple[float, float, int]

KEY: Range = (0.0, 1.0, 0)  # of random numbers


def real(ends: Sequence[float]) -> Range:
    """Return the range of a real number."""
    return ends[0], ends[1], 0


def fixed(value: float) -> Range:
    """Return the range of a number that isn't drawn."""
    return float(value), float(value), 0


class OperationStep(RandomlyApplied):
    """One operation of csrc/core/chain/plan.h, with probability `p`."""

    kind: PixelKind

    def __init__(self, p: float, ranges: Iterable[Range]) -> None:
        super().__init__(p)
        self._ranges = [number for own in ranges for number in own]

    def changes_values(self) -> bool:
        return True

    def effects(self) -> Effects:
        return Effects()

    def chain_step(self) -> Step | None:
        fields = {"kind": self.kind, "p": self.p, "ranges": self._ranges}
        return Step("RandomOperationOf", fields)


# Taps along a kernel's side, as filters take them: more than an image is wide.
MOST_TAPS = 65535
# The same for a kernel that is no product of two lines, and so has a million taps.
MOST_SQUARE_TAPS = 1023


def odd_side(owner: str, name: str, value: Any, least: int = 1, most: int = MOST_TAPS) -> int:
    """Check one odd side."""
    allowed = f"an odd whole number >= {least} and <= {most}"
    side = whole(owner, name, value, least, allowed, most)
    if side % 2 == 0:
        fail(owner, name, value, allowed)
    return side


def odd_sides(owner: str, name: str, value: Any, most: int = MOST_TAPS) -> Range:
    """Return a range of odd sides: of a pair, or from 3 to a number."""
    allowed = f"an odd whole number >= 3 and <= {most}, or two of them (min, max)"
    low, high = value if is_sequence(value) and len(value) == 2 else (3, value)
    sides = [odd_side(owner, name, side, 3, most) for side in (low, high)]
    if sides[0] > sides[1]:
        fail(owner, name, value, f"{allowed}, the smaller first")
    return float(sides[0]), float(sides[1]), 2


def limits(
    owner: str, name: str, value: Any, low: float, high: float, allowed: str
) -> tuple[float, float]:
    """Return a range: of a pair, or of one number for both ends."""
    if is_sequence(value):
        return interval(owner, name, value, low, high, allowed)
    same = number(owner, name, value, low, high, allowed)
    return same, same


_HALF = (torch.float16, torch.bfloat16)


class ByKey(Probable):
    """Is applied with probability `p`, by itself; all that it does follows from a key."""

    draws = 2

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> dict[str, np.ndarray]:
        return {"apply": uniforms[:, 0] < self.p, "key": uniforms[:, 1].copy()}

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        """Add nothing: it joins no pass."""


class Keyed(ByKey):
    """Changes each image: `draw` says how, and `change` does it.

    It runs sample by sample, by torch's operators and this package's.
    """

    channels: Sequence[int] = ()  # that it takes; none: any number
    rounds_bytes = False  # whether `change` takes images of uint8 as well, and rounds

    def effects(self) -> Effects:
        return Effects(alone="it changes an image by numbers of its key")

    @abstractmethod
    def draw(self, numbers: Numbers, shape: Sequence[int]) -> Any:
        """Return what changes an image of this shape ``[C, H, W]``."""

    @abstractmethod
    def change(self, image: Tensor, drawn: Any) -> Tensor:
        """Return the changed image ``[C, H, W]``, floating, with white at 1; it is clamped."""

    def changed(self, image: Tensor, drawn: Any) -> Tensor:
        """Return the changed image ``[C, H, W]``, of its dtype."""
        if self.rounds_bytes and image.dtype is torch.uint8:
            return self.change(image, drawn)
        return _as(image.dtype, self.change(_floating(image), drawn).clamp(0.0, 1.0))

    def run_leaves(self, leaves: Any, params: Mapping[str, Any], options: Any) -> None:
        images = [leaf for leaf in leaves if leaf.kind == "image"]
        sizes = sizes_of(images[0]).tolist()
        draws: dict[int, list[Any]] = {}  # by the number of channels, in which images may differ
        for leaf in images:
            pixels = Pixels(leaf)
            reject_dtype(leaf, pixels.dtype)
            if self.channels:
                check_channels(type(self).__name__, pixels.channels, self.channels)
            if pixels.channels not in draws:
                draws[pixels.channels] = self._draw_each(params, pixels.channels, sizes)
            self._change_images(leaf, pixels, draws[pixels.channels])
        self.move(leaves, next(iter(draws.values())), options)

    def _draw_each(
        self, params: Mapping[str, Any], channels: int, sizes: Sequence[Sequence[int]]
    ) -> list[Any]:
        """Return what changes each sample; None: it stays."""
        drawn = zip(params["key"], params["apply"], sizes, strict=True)
        return [
            self.draw(Numbers(float(key)), (channels, *size)) if applies else None
            for key, applies, size in drawn
        ]

    def move(self, leaves: Sequence[Leaf], draws: Sequence[Any], options: Any) -> None:
        """Change targets; None among the draws: the sample stays."""

    def _change_images(self, leaf: Leaf, pixels: Pixels, draws: Sequence[Any]) -> None:
        changed = []
        for position, image in enumerate(pixels.tensors(leaf)):
            drawn = draws[position // pixels.frames]
            changed.append(image if drawn is None else self.changed(image, drawn))
        found: Any = changed
        if not pixels.listed:
            is_new = len(changed) == 1 and draws[0] is not None  # else it may be the caller's
            found = changed[0].unsqueeze(0) if is_new else torch.stack(changed)
        pixels.store(leaf, found)


def _floating(image: Tensor) -> Tensor:
    """Return an image in float32 or float64, with white at 1."""
    if image.dtype is torch.uint8:
        return image.float().div_(255.0)
    values: Tensor = to_float(image)
    return values.float() if values.dtype in _HALF else values


def _as(dtype: torch.dtype, values: Tensor) -> Tensor:
    if dtype is torch.uint8:
        return rounded(values * 255.0, dtype)
    found: Tensor = from_float(values, dtype) if dtype in WHITES else values.to(dtype)
    return found


class CallableContainer(Container):
    """A container that is called on a sample as a transform is: alone in a chain."""

    forward = Transform.forward
    __getstate__ = Transform.__getstate__
