"""Random erasing."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .._native import Step
from .arguments import fail, interval, is_sequence, number
from .engine.effects import Effects
from .engine.integers import reject_out_of_range
from .engine.plan import Plan
from .engine.unfused import erase_with_noise
from .transform import RandomlyApplied


class RandomErasing(RandomlyApplied):
    """Erase a random rectangle, with probability `p`.

    Arguments and distribution match torchvision's: the area is uniform, the aspect ratio
    log-uniform; if none of ten attempts fits into the image, nothing is erased. Masks, boxes and
    key points are left alone.

    Parameters
    ----------
    p : float
        Probability, for each sample.
    scale : pair of float
        Range of the rectangle's area, as a fraction of the image's.
    ratio : pair of float
        Range of its height divided by its width.
    value : number, sequence of C numbers, or "random"
        The fill, in the image's units at that point, which have to be able to hold it: torchvision
        lets integers overflow. "random" draws every value from the normal distribution, identically
        on every device, in a separate pass.
    inplace : bool
        Ignored; accepted for compatibility with torchvision.

    Notes
    -----
    Parameters: ``apply``, ``top``, ``left``, ``height``, ``width``, and with random values
    ``noise``, the number that determines them all.

    Source: Z. Zhong et al., "Random Erasing Data Augmentation", AAAI 2020.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> erase = transforms.RandomErasing(p=1, scale=(0.25, 0.25), ratio=(1, 1), value=7)
    >>> int((erase(torch.zeros(1, 8, 8)) == 7).sum())
    16
    """

    draws = 24  # ten attempts

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

    def chain_step(self) -> Step | None:
        random = self.value is None
        return Step("RandomErasing", (self.p, *self.scale, *self._log_ratio, random))

    def settle(self, plan: Plan) -> None:
        if self.value is None:
            return
        if len(self.value) not in (1, plan.channels):
            raise ValueError(
                f"visops.transforms.RandomErasing: value has {len(self.value)} numbers, the image "
                f"has {plan.channels} channels"
            )
        reject_out_of_range("RandomErasing", "value", self.value, plan.dtype)
        plan.erase_value = self.value

    def run_images(self, leaf: Any, params: Mapping[str, Any]) -> None:
        erase_with_noise(leaf, params)

    def extra_repr(self) -> str:
        value = "random" if self.value is None else self.value
        return f"p={self.p}, scale={self.scale}, ratio={self.ratio}, value={value!r}"
