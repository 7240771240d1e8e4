"""The base classes of the transforms."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._torch.outside_graphs import outside_graphs
from .arguments import number
from .compose import Compose
from .engine.effects import Fusable
from .engine.plan import Canvas, Plan


class Transform(Fusable):
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


class Builtin(Transform):
    """A transform of this package, which is a step in C++."""

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
        self.settle(plan)


class RandomlyApplied(Builtin):
    """A transform applied to each sample with a given probability."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = number(type(self).__name__, "p", p, 0.0, 1.0, "a probability in [0, 1]")
