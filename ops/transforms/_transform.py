"""The base class of the transforms, and what each of them tells about itself to be fused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from ._arguments import number
from ._numbers import Number, Params, as_arrays
from ._plan import Canvas, Plan

__all__ = ["Builtin", "Effects", "RandomlyApplied", "Transform"]


@dataclass(frozen=True, slots=True)
class Effects:
    """What a transform does, as far as its type and its arguments say it.

    Passes are formed from this, before any image is seen.
    """

    moves: bool = False  # has geometry
    aligned: bool = True  # its geometry keeps the axes
    interpolation: str | None = None  # None: moves by whole pixels, or not at all
    antialias: bool | None = None  # None: does what the others of its pass do
    fill: tuple[float, ...] | None = None  # what it can bring in from outside; None: nothing
    padding_mode: str = "constant"  # what it can bring in, where `fill` is not None
    inside: tuple[int, int] | None = None  # it brings nothing into images at least of this size
    size: tuple[int, int] | None = None  # its result has at least this size; None: that it got
    colors: int = 0  # number of colour steps
    normalizes: bool = False
    dtype: torch.dtype | None = None  # that it converts to
    erases: tuple[float, ...] | None = None
    alone: str | None = None  # why it can't be part of a fused pass


class Transform(nn.Module):
    """A transform that can be fused with others.

    Call it on a sample, or put it into a :class:`Compose`: calling it is calling
    ``Compose([transform])``, with the same keyword arguments.

    A transform of your own is a subclass with three methods: `effects` says what it does,
    `make_params` turns uniform numbers into parameters, `extend` puts them into a plan.

    Attributes
    ----------
    draws : int
        Number of uniform numbers a sample.

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
    ...         plan.color([1.0 - 2.0 * apply, 1.0 * apply])  # of one channel: A | a
    >>> chain = transforms.Compose([RandomInvert(), transforms.RandomHorizontalFlip()])
    >>> len(chain.passes)
    1
    >>> chain(torch.zeros(4, 1, 8, 8)).shape
    torch.Size([4, 1, 8, 8])
    """

    draws: int = 0

    def effects(self) -> Effects:
        """Say what the transform does, for any image and any draw."""
        raise NotImplementedError

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> dict[str, np.ndarray]:
        """Turn uniform numbers into parameters.

        Parameters
        ----------
        uniforms : ndarray, float64 ``[B, draws]``
            In [0, 1).
        canvas : Canvas
            The images that the transform gets.

        Returns
        -------
        dict of ndarray
            The first dimension of each is B.
        """
        return {}

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        """Add to a plan what the transform does with these parameters."""
        raise NotImplementedError

    def draw(self, uniforms: Sequence[Number], canvas: Canvas) -> Params:
        """Call `make_params` with numbers as a plan has them: floats or arrays [B]."""
        return self.make_params(np.array(uniforms).reshape(self.draws, -1).T, canvas)  # type: ignore[return-value]

    def parts(self) -> list[Transform]:
        """Return the steps that may have to fall into different passes to be exact."""
        return [self]

    def forward(self, *sample: Any, **options: Any) -> Any:
        """Transform a sample, as ``Compose([self])`` does."""
        alone = self.__dict__.get("_alone")
        if alone is None:
            from ._compose import Compose

            # Not an attribute: nn.Module would make it a part of this module, which it contains.
            alone = self.__dict__["_alone"] = Compose([self])
        return alone(*sample, **options)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_alone"}

    def extra_repr(self) -> str:
        shown = []
        for name, value in self.__dict__.items():
            hidden = name.startswith("_") or name in ("training", "draws")
            if not hidden and value is not None:
                shown.append(f"{name}={value!r}")
        return ", ".join(shown)


class Builtin(Transform):
    """A transform of this package: its `draw` takes floats and arrays alike."""

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> dict[str, np.ndarray]:
        """Turn uniform numbers ``[B, draws]`` into parameters."""
        return as_arrays(self.draw(uniforms.T, canvas), uniforms.shape[0])  # type: ignore[arg-type]

    def draw(self, uniforms: Sequence[Number], canvas: Canvas) -> Params:
        return {}


class RandomlyApplied(Builtin):
    """A transform that is applied to each sample with a probability."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = number(type(self).__name__, "p", p, 0.0, 1.0, "a probability in [0, 1]")
