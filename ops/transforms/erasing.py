"""Erasing of rectangles."""

# ruff: noqa: D102 (`engine/effects.py` documents the methods of a transform)

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .arguments import fail, interval, is_sequence, number
from .engine.effects import Effects
from .engine.numbers import Number, Params, floor
from .engine.plan import Canvas, Plan
from .engine.rectangles import ATTEMPTS, draw_rectangles, rectangle
from .transform import RandomlyApplied

__all__ = ["RandomErasing"]


class RandomErasing(RandomlyApplied):
    """Erase a random rectangle, with probability `p`.

    The arguments and the distribution are those of torchvision's: the area is uniform, the aspect
    ratio log-uniform; if ten attempts don't fit into the image, nothing is erased. Masks, boxes and
    key points stay.

    Parameters
    ----------
    p : float
        Probability, for each sample.
    scale : pair of float
        Range of the rectangle's area, as a fraction of the image's.
    ratio : pair of float
        Range of its height divided by its width.
    value : number, sequence of C numbers, or "random"
        The value, in the units that the image has by then; "random": each value of the normal
        distribution, the same on every device, in a pass of its own.
    inplace : bool
        Without effect; it is there for code written for torchvision.

    Notes
    -----
    Parameters: ``apply``, ``top``, ``left``, ``height``, ``width``; with random values ``noise``, a
    number that stands for all of them.

    Source: Z. Zhong et al., "Random Erasing Data Augmentation", AAAI 2020.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> erase = transforms.RandomErasing(p=1, scale=(0.25, 0.25), ratio=(1, 1), value=7)
    >>> int((erase(torch.zeros(1, 8, 8)) == 7).sum())
    16
    """

    draws = 1 + 2 * ATTEMPTS + 3

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float | Sequence[float] | str = 0.0,
        inplace: bool = False,
    ) -> None:
        super().__init__(p)
        owner = "RandomErasing"
        tiny = math.nextafter(0.0, 1.0)
        self.scale = interval(owner, "scale", scale, 0.0, 1.0, "two numbers in [0, 1] (min, max)")
        self.ratio = interval(owner, "ratio", ratio, tiny, allowed="two numbers > 0 (min, max)")
        self._log_ratio = (math.log(self.ratio[0]), math.log(self.ratio[1]))
        allowed = "a finite number, one per channel, or 'random'"
        self.value: list[float] | None = None
        if isinstance(value, str):
            if value != "random":
                fail(owner, "value", value, allowed)
        elif is_sequence(value):
            if len(value) == 0:
                fail(owner, "value", value, allowed)
            self.value = [number(owner, "value", v, allowed=allowed) for v in value]
        else:
            self.value = [number(owner, "value", value, allowed=allowed)]

    def effects(self) -> Effects:
        if self.value is None:
            return Effects(alone="it erases with random values")
        return Effects(erases=tuple(self.value))

    def draw(self, uniforms: Sequence[Number], canvas: Canvas) -> Params:
        if self.value is not None and len(self.value) not in (1, canvas.channels):
            raise ValueError(
                f"visops.transforms.RandomErasing: value has {len(self.value)} numbers, the image "
                f"has {canvas.channels} channels"
            )
        height, width, fits = draw_rectangles(
            uniforms[1:], canvas, self.scale, self._log_ratio, strict=True
        )
        params = {
            "apply": (uniforms[0] < self.p) & fits,
            "top": floor(uniforms[-3] * (canvas.height - height + 1.0)),
            "left": floor(uniforms[-2] * (canvas.width - width + 1.0)),
            "height": height,
            "width": width,
        }
        if self.value is None:
            params["noise"] = uniforms[-1]
        return params

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        """Add the rectangle; random values are no part of a plan."""
        plan.erase(rectangle(params), self.value or [0.0])

    def extra_repr(self) -> str:
        value = "random" if self.value is None else self.value
        return f"p={self.p}, scale={self.scale}, ratio={self.ratio}, value={value!r}"
