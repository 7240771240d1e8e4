"""Transforms of transforms: some of them, one of them, or all in a random order."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
from torch import nn

from ..._native import Step
from ..arguments import fail, is_sequence, number, probability
from ..base import Builtin, CallableContainer, Transform
from ..chain.decode import decoding_of
from ..chain.effects import Effects, Fusable, TargetStep, step_of
from ..chain.fuse import Pass, name_of
from ..chain.geometry import combined
from ..chain.nesting import OfBatches, flatten
from ..chain.options import OutputTypes
from ..chain.plan import Canvas, Number, Plan
from ..chain.random import fresh_key, uniforms, whole_number
from ..chain.source import index_of_samples
from ..compose import Compose
from ..sample.leaf import Leaf
from ..targets.options import TargetOptions

__all__ = ["RandomApply", "RandomChoice", "RandomOrder"]


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


_STREAM = 2**62  # of numbers that choose for a batch, beside those of its samples


class _Choosing(CallableContainer):
    """What the three have in common: groups of transforms, each a chain of its own."""

    def __init__(self, groups: Sequence[Sequence[Any]]) -> None:
        super().__init__()
        self._chains = [Compose(group) for group in groups]
        for chain in self._chains:
            decoding_of(chain.transforms, self._get_name())
            if chain.output_types != OutputTypes():
                fail(
                    self._get_name(),
                    "transforms",
                    list(chain.transforms),
                    "without a transform of types alone, which belongs into the chain itself",
                )

    def __repr__(self) -> str:
        inner = [
            f"    {line}"
            for chain in self._chains
            for t in chain.transforms
            for line in repr(t).splitlines()
        ]
        return "\n".join([f"{self._get_name()}({self.extra_repr()}", *inner, ")"])

    @abstractmethod
    def chosen(self, uniforms: Sequence[float]) -> Iterable[int]:
        """Return the groups to run, in order, by as many uniform numbers as there are groups."""

    def passes(self) -> list[Any]:
        return [part for chain in self._chains for part in chain.passes]

    def _chosen(self, seed: int) -> Iterable[int]:
        # Number 0 of the seed is this draw's, the others are those of the groups.
        return self.chosen(uniforms(seed, 0, [0], len(self._chains))[0].tolist())

    def run(self, leaves: list[Leaf], number: float) -> None:
        seed = whole_number(number)
        for group in self._chosen(seed):
            self._chains[group].run_within(leaves, seed, 1 + group)

    def geometry(self, number: float, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
        seed, mode = whole_number(number), "nearest"
        matrix = np.eye(3)[None]
        for group in self._chosen(seed):
            moved, sizes, own = self._chains[group].geometry_within(sizes, seed, 1 + group)
            matrix, mode = combined(matrix, moved), own if own != "nearest" else mode
        return matrix, sizes, mode


class _Fusing(_Choosing):
    """A choice that can be made within a fused pass, by conditions for each sample."""

    @abstractmethod
    def choice(self) -> tuple[str, Sequence[float]]:
        """Return the parameter that a uniform number decides, and where each group's range ends."""

    def draw_choice(self, uniforms: np.ndarray) -> dict[str, np.ndarray]:
        """Return the parameter that uniform numbers ``[B]`` decide."""
        name, ends = self.choice()
        if name == "apply":
            return {name: uniforms < ends[0]}
        return {name: np.searchsorted(ends, uniforms, side="right")}

    def conditions(self, params: Mapping[str, Any]) -> list[Number]:
        """Return which samples take each group."""
        name, ends = self.choice()
        if name == "apply":
            return [params[name]]
        return [params[name] == group for group in range(len(ends))]

    def fused(self, exact: bool) -> Fusable | None:
        only = [t for chain in self._chains for t in chain.transforms]
        if len(only) == 1 and isinstance(only[0], Fusable) and only[0].effects().alone is not None:
            return ChosenAlone(self, only[0])
        groups = self.groups(exact)
        return None if groups is None else Chosen(self, groups)

    def groups(self, exact: bool) -> list[list[Fusable]] | None:
        """Return the groups' transforms, if they fit into one pass together."""
        part, groups, masks = Pass(exact=exact), [], set()
        for chain in self._chains:
            group = list(flatten(chain.transforms, {**chain.named, "exact": exact} | chain.given))
            for transform in group:
                if not isinstance(transform, Fusable) or isinstance(transform, TargetStep):
                    return None
                effects = transform.effects()
                mixed = effects.alone or effects.normalizes or effects.dtype or effects.channels
                if mixed or not fits(part, transform, effects):
                    return None  # samples of a batch can't differ in that
                part.join(transform, effects)
                masks.add(getattr(getattr(transform, "fill", None), "mask", None))
            groups.append(group)
        return groups if len(masks - {None}) < 2 else None


def _listed(owner: str, transforms: Any) -> list[Any]:
    if not isinstance(transforms, (Sequence, nn.ModuleList)) or isinstance(transforms, str):
        fail(owner, "transforms", transforms, "a sequence of transforms", TypeError)
    if len(transforms) == 0:
        fail(owner, "transforms", list(transforms), "a sequence of at least one transform")
    return list(transforms)


class RandomApply(_Fusing):
    """Apply all of some transforms, or none, with probability `p` for each sample.

    It fuses with its neighbours if its transforms fit into one pass and don't normalise or convert.
    Otherwise it runs as it is, sample by sample.

    Parameters
    ----------
    transforms : sequence of callable
    p : float
        Probability.

    Notes
    -----
    Parameters: ``apply``, and those of each transform with its place before their name, as in
    ``0_angle``. If it doesn't fuse, ``seed``.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> chain = transforms.Compose(
    ...     [
    ...         transforms.RandomHorizontalFlip(),
    ...         transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8),
    ...     ]
    ... )
    >>> len(chain.passes)
    1
    >>> chain(torch.rand(4, 3, 8, 8)).shape
    torch.Size([4, 3, 8, 8])
    """

    def __init__(self, transforms: Sequence[Callable[..., Any]], p: float = 0.5) -> None:
        super().__init__([_listed("RandomApply", transforms)])
        self.transforms = tuple(transforms)
        self.p = probability("RandomApply", p)

    def chosen(self, uniforms: Sequence[float]) -> Iterable[int]:
        return (0,) if uniforms[0] < self.p else ()

    def choice(self) -> tuple[str, Sequence[float]]:
        return "apply", (self.p,)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class RandomChoice(_Fusing):
    """Apply one of some transforms, drawn for each sample.

    It fuses with its neighbours if its transforms fit into one pass and don't normalise or convert.
    Otherwise it runs as it is, sample by sample.

    Transforms that combine the samples of a batch, such as ``[MixUp(), CutMix()]``, are drawn for a
    whole batch. The choice is then called, or collates, as they are.

    Parameters
    ----------
    transforms : sequence of callable
    p : sequence of float, optional
        Weight of each transform. By default, all have the same.

    Notes
    -----
    Parameters: ``choice``, the place of the transform, and those of each transform with its place
    before their name, as in ``0_angle``. If it doesn't fuse, ``seed``.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> choice = transforms.RandomChoice(
    ...     [transforms.RandomHorizontalFlip(1.0), transforms.RandomVerticalFlip(1.0)], p=[1, 0]
    ... )
    >>> choice(torch.tensor([[[1.0, 2.0, 3.0]]]))
    tensor([[[3., 2., 1.]]])
    """

    def __new__(cls, transforms: Any = (), p: Any = None) -> Any:
        listed = transforms if isinstance(transforms, (list, tuple)) else ()
        if cls is RandomChoice and any(isinstance(t, OfBatches) for t in listed):
            return _BatchChoice(listed, p)
        return super().__new__(cls)

    def __init__(
        self, transforms: Sequence[Callable[..., Any]], p: Sequence[float] | None = None
    ) -> None:
        super().__init__([[transform] for transform in _listed("RandomChoice", transforms)])
        self.transforms = tuple(transforms)
        self.p, self._ends = _weights(p, len(self.transforms))

    def chosen(self, uniforms: Sequence[float]) -> Iterable[int]:
        return (int(np.searchsorted(self._ends, uniforms[0], side="right")),)

    def choice(self) -> tuple[str, Sequence[float]]:
        return "choice", self._ends.tolist()

    def extra_repr(self) -> str:
        return f"p={[round(p, 4) for p in self.p]}"


def _weights(p: Sequence[float] | None, count: int) -> tuple[list[float], np.ndarray]:
    """Check the weights of a choice; return probabilities, and their sums up to each."""
    owner, allowed = "RandomChoice", f"None or {count} numbers >= 0, not all of them 0"
    weights = [1.0] * count if p is None else p
    if not is_sequence(weights):
        fail(owner, "p", p, allowed, TypeError)
    weights = [number(owner, "p", w, 0.0, allowed=allowed, whole_value=p) for w in weights]
    if len(weights) != count or sum(weights) == 0.0:
        fail(owner, "p", p, allowed)
    shares = [weight / sum(weights) for weight in weights]
    # Upper ends; rounding must not leave numbers below 1 without a transform.
    ends = list(accumulate(shares))
    return shares, np.array([1.0 if end == ends[-1] else end for end in ends])


class _BatchChoice(OfBatches):
    """A `RandomChoice` of what combines the samples of a batch: one for each whole batch."""

    def __init__(self, transforms: Sequence[Any], p: Sequence[float] | None) -> None:
        super().__init__()
        listed = _listed("RandomChoice", transforms)
        if not all(isinstance(t, OfBatches) for t in listed):
            allowed = "all of them transforms of single samples, or all of batches"
            fail("RandomChoice", "transforms", listed, allowed, TypeError)
        self.transforms = nn.ModuleList(listed)
        self.p, self._ends = _weights(p, len(listed))

    def _get_name(self) -> str:
        return "RandomChoice"

    def forward(self, *sample: Any, **options: Any) -> Any:
        """Combine a batch by one of the transforms; the options are those of its call."""
        return self._drawn(options)(*sample, **options)

    def collate(self, samples: Sequence[Any], **options: Any) -> Any:
        """Collate samples and combine them by one of the transforms."""
        index = options.get("index")
        found = index_of_samples(samples) if index is None else index
        return self._drawn({**options, "index": found}).collate(samples, **options)

    def _drawn(self, options: Mapping[str, Any]) -> Any:
        """Draw a transform: by the batch's first index if there is one, else by a generator."""
        index = options.get("index")
        seeds: list[Any] = [t.seed for t in self.transforms if t.seed is not None]
        if index is None or not seeds:
            key, epoch, position = fresh_key(options.get("generator")), 0, 0
        else:
            key, epoch = int(seeds[0]), int(options.get("epoch") or 0)
            position = int(next(iter(index)))
        uniform = uniforms(key, epoch, [position], 1, _STREAM)[0, 0]
        return self.transforms[int(np.searchsorted(self._ends, uniform, side="right"))]


class RandomOrder(_Choosing):
    """Apply all of some transforms, in an order drawn for each sample.

    It doesn't fuse: it runs as it is, sample by sample.

    Parameters
    ----------
    transforms : sequence of callable

    Notes
    -----
    Parameters: ``seed``.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> order = transforms.RandomOrder([transforms.Pad(1), transforms.RandomHorizontalFlip(1.0)])
    >>> order(torch.zeros(3, 8, 8)).shape
    torch.Size([3, 10, 10])
    """

    def __init__(self, transforms: Sequence[Callable[..., Any]]) -> None:
        super().__init__([[transform] for transform in _listed("RandomOrder", transforms)])
        self.transforms = tuple(transforms)

    def chosen(self, uniforms: Sequence[float]) -> Iterable[int]:
        return np.argsort(uniforms).tolist()  # type: ignore[no-any-return]
