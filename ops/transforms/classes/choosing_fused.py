"""What a choice of transforms is within a chain: one transform, that each sample takes or not."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..._native import Step
from ..base import Builtin, Transform
from ..chain.effects import Effects, Fusable, step_of
from ..chain.fuse import Pass, name_of
from ..chain.plan import Canvas, Number, Plan
from ..sample.leaf import Leaf
from ..targets.options import TargetOptions


class Choosing(Protocol):
    """What a choice says of itself."""

    def _get_name(self) -> str: ...

    def fused(self, exact: bool) -> Fusable | None:
        """Return the one transform, or None if the choice runs sample by sample."""

    def choice(self) -> tuple[str, Sequence[float]]:
        """Return the parameter that a uniform number decides, and where each group's range ends."""

    def draw_choice(self, uniforms: np.ndarray) -> dict[str, np.ndarray]:
        """Return the parameter that uniform numbers ``[B]`` decide."""

    def conditions(self, params: Mapping[str, Any]) -> list[Number]:
        """Return which samples take each group."""


def fits(pass_: Pass, transform: Fusable, effects: Effects) -> bool:
    """Whether a transform can join those of a group, which are of one kind of pass."""
    if not pass_.transforms and transform.changes_values():
        pass_.kind = "values"
    if transform.changes_values() or pass_.kind == "values":
        return transform.changes_values() and pass_.takes_values(effects)
    return pass_.refusal(name_of(transform), effects) is None


class Chosen(Builtin):
    """The fused form: all groups join one pass, and each sample keeps what its draw has chosen."""

    def __init__(self, owner: Choosing, groups: list[list[Fusable]]) -> None:
        super().__init__()
        self._owner = owner
        self._contents = [(g, t) for g, group in enumerate(groups) for t in group]
        self.draws = 1 + sum(t.draws for _, t in self._contents)

    def _get_name(self) -> str:
        return self._owner._get_name()

    def changes_values(self) -> bool:
        return self._contents[0][1].changes_values()

    def watched(self) -> list[Any]:
        return [self._owner, *(own for _, t in self._contents for own in t.watched())]

    def parts(self) -> list[Any]:
        """Return what runs where each step must be exact: the contents may not fit together."""
        return [self._owner.fused(exact=True) or self._owner]

    def __repr__(self) -> str:
        return repr(self._owner)

    @property
    def fill(self) -> Any:
        """The fill of masks, where a transform's `fill` has one."""
        fills = [getattr(t, "fill", None) for _, t in self._contents]
        return next((fill for fill in fills if getattr(fill, "mask", None) is not None), None)

    def effects(self) -> Effects:
        part, resizes = Pass(), False
        for _, transform in self._contents:
            own = transform.effects()
            resizes = resizes or own.size is not None
            part.join(transform, own)
        return Effects(
            moves=any(t.effects().moves for _, t in self._contents),
            aligned=part.aligned,
            interpolation=part.interpolation,
            antialias=part.antialias,
            fill=part.fill,
            padding_mode=part.padding_mode,
            size=(0, 0) if resizes else None,
            colors=part.colors,
            erases=part.erases,
        )

    def chain_step(self) -> Step | None:
        name, ends = self._owner.choice()
        groups: list[list[Step]] = [[] for _ in ends]
        for group, transform in self._contents:
            step = step_of(transform)
            if step is None:
                return None
            groups[group].append(step)
        return Step.choice(name, ends, groups)

    def set_constants(self, plan: Plan) -> None:
        for _, transform in self._contents:
            transform.set_constants(plan)

    # The same in Python, where a transform in it has no step.

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> dict[str, np.ndarray]:
        params = self._owner.draw_choice(uniforms[:, 0])
        conditions = self._owner.conditions(params)
        batch, start = len(uniforms), 1
        plan = Plan(canvas, batch)
        for index, (group, transform) in enumerate(self._contents):
            own = uniforms[:, start : start + transform.draws]
            step = transform.checked_params(own, plan.canvas)
            start += transform.draws
            params.update({f"{index}_{name}": value for name, value in step.items()})
            with plan.only(conditions[group]):
                transform.extend(plan, step)
        return params

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        conditions = self._owner.conditions(params)
        for index, (group, transform) in enumerate(self._contents):
            prefix = f"{index}_"
            own = {k.removeprefix(prefix): v for k, v in params.items() if k.startswith(prefix)}
            with plan.only(conditions[group]):
                transform.extend(plan, own)


class ChosenAlone(Transform):
    """A transform that joins no pass, for those samples that have drawn it."""

    def __init__(self, owner: Choosing, content: Fusable) -> None:
        super().__init__()
        self._owner, self._content = owner, content
        self.draws = 1 + content.draws

    def _get_name(self) -> str:
        return self._owner._get_name()

    def watched(self) -> list[Any]:
        return [self._owner, *self._content.watched()]

    def parts(self) -> list[Any]:
        return [self]

    def __repr__(self) -> str:
        return repr(self._owner)

    def effects(self) -> Effects:
        return self._content.effects()

    def make_params(self, uniforms: np.ndarray, canvas: Canvas) -> dict[str, np.ndarray]:
        params = self._owner.draw_choice(uniforms[:, 0])
        own = self._content.checked_params(uniforms[:, 1:], canvas)
        return {**params, **{f"0_{name}": value for name, value in own.items()}}

    def extend(self, plan: Plan, params: Mapping[str, Any]) -> None:
        """Add nothing: it joins no pass."""

    @property
    def no_inverse(self) -> str:  # type: ignore[override]
        return self._content.no_inverse

    def run_leaves(
        self, leaves: Sequence[Leaf], params: Mapping[str, Any], options: TargetOptions
    ) -> None:
        own = {k.removeprefix("0_"): v for k, v in params.items() if k.startswith("0_")}
        chosen = np.asarray(self._owner.conditions(params)[0])
        own["apply"] = chosen & own["apply"] if "apply" in own else chosen
        if own["apply"].any():
            self._content.run_leaves(leaves, own, options)
