"""The parameters of one call: drawn, or given, transform by transform."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._native import Step
from .compile import compiled
from .effects import Fusable
from .fuse import Pass, name_of
from .plan import Params, Plan
from .random import uniforms
from .source import Key, Parameters, Source


def recorded(transforms: Sequence[Any], steps: list[Params], sizes: np.ndarray) -> Parameters:
    """Return what a chain drew for images of these sizes, [B, 2]."""
    names = [name_of(transform) for transform in transforms]
    return Parameters(names, steps, sizes)


def check_params(transforms: Sequence[Any], params: Any, owner: str = "Compose") -> None:
    """Raise unless `params` were drawn by a chain of such transforms."""
    names = [name_of(transform) for transform in transforms]
    if not isinstance(params, Parameters):
        raise TypeError(
            f"visops.transforms.{owner}: params is a {type(params).__name__}, must be the "
            "Parameters that a call has returned"
        )
    if params.names != names:
        raise ValueError(
            f"visops.transforms.{owner}: params is for {params.names}, must be for {names}"
        )


class Draws:
    """The parameters of one call.

    Parameters
    ----------
    slices : sequence of slice
        Where each transform's uniform numbers lie among a sample's.
    count : int
        How many numbers a sample has.
    source : Source
    key : Key, optional
        None: `source` has recorded parameters.
    record : bool
        Whether parameters are wanted; else `steps` may hold empty dicts.
    only_geometry : bool
        Plans are for no images in particular: nothing is added that depends on dtype or channels.

    Attributes
    ----------
    steps : list of dict of ndarray
        The parameters of each transform so far, each with a first dimension of B.
    """

    def __init__(
        self,
        slices: Sequence[slice],
        count: int,
        source: Source,
        key: Key | None,
        *,
        record: bool = False,
        only_geometry: bool = False,
    ) -> None:
        self.slices, self.count, self.key = slices, count, key
        self.record, self.only_geometry = record, only_geometry
        self.given = None if source.params is None else source.params.steps
        self.numbers: np.ndarray | None = None
        self.steps: list[Params] = []

    def fill(self, plan: Plan, pass_: Pass) -> None:
        """Add a pass's transforms to a plan."""
        native = compiled(pass_, self.slices)
        whole = native.is_whole if self.only_geometry else native.draws_together
        if whole and self.key is not None:
            in_python = None
            if not self.only_geometry:
                native.set_constants(plan)  # it refuses images that steps don't expect
                in_python = native.in_python(plan.source_dtype, plan.channels)
            drawn = native.chain.draw(plan, *self.key, self.record, in_python)
            self.steps += [{}] * len(native.steps) if drawn is None else drawn
            return
        for transform, step in zip(pass_.transforms, native.steps, strict=True):
            self.add(plan, transform, step)

    def add(self, plan: Plan, transform: Fusable, step: Step | None) -> None:
        """Add one transform to a plan."""
        position = len(self.steps)
        if step is None:
            if self.given is None:
                params = transform.checked_params(self.uniforms(position), plan.canvas)
            else:
                params = self.given[position]
            if transform.effects().moves or not self.only_geometry:
                transform.extend(plan, _as_numbers(params) if self.given is not None else params)
            self.steps.append(params)
            return
        if not self.only_geometry:
            transform.set_constants(plan)
        if self.given is None:
            drawn = plan.draw(step, self.uniforms(position))
            params = step.unpack(drawn) if self.record else {}
        else:
            params = self.given[position]
            drawn = step.pack(params, plan.batch)
        plan.add(step, drawn)
        self.steps.append(params)

    def alone(self, plan: Plan, transform: Any) -> Params:
        """Return the parameters of a transform that joins no pass."""
        position = len(self.steps)
        if self.given is not None:
            params = self.given[position]
        elif isinstance(transform, Fusable):
            params = transform.checked_params(self.uniforms(position), plan.canvas)
        else:
            params = {"seed": self.uniforms(position)[:, 0]}
        self.steps.append(params)
        return params

    def uniforms(self, position: int) -> np.ndarray:
        """Return a transform's uniform numbers, [B, draws]."""
        if self.numbers is None:
            assert self.key is not None
            self.numbers = uniforms(*self.key, self.count)
        return self.numbers[:, self.slices[position]]


def _as_numbers(params: Params) -> Params:
    """Return a single sample's parameters as numbers; those of a batch unchanged."""
    return {
        name: array[0].tolist() if array.shape[0] == 1 else array for name, array in params.items()
    }
