"""What all transforms that combine the samples of a batch have in common."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._torch.options import SampleBoxFormat
from ..._torch.outside_graphs import outside_graphs
from ..arguments import number
from ..chain.draws import check_params
from ..chain.nesting import OfBatches
from ..chain.operators import Pixels
from ..chain.options import given_options
from ..chain.random import CallCounter, seed_for, uniforms
from ..chain.source import Parameters, Source, as_whole, index_of_samples
from ..sample.batches import as_batch
from ..sample.images import image_sizes
from ..sample.leaf import Leaf, Reading
from ..sample.split import split_sample
from ..targets.options import TargetOptions, check_options

Params = Mapping[str, np.ndarray]


class Mixing(OfBatches, ABC):
    """A transform of whole batches. Its calls and draws follow the rules of a `Compose`.

    Its numbers are others than those of a chain, or of another class, with the same seed.

    Attributes
    ----------
    draws : int
        How many uniform numbers it needs per sample.
    """

    draws = 0

    def __init__(
        self,
        seed: int | None,
        keys: Mapping[str, Sequence[str]] | None,
        box_format: SampleBoxFormat,
        p: float,
        *,
        stacks: bool,
    ) -> None:
        super().__init__()
        if seed is not None and as_whole(seed) is None:
            raise TypeError(
                f"visops.transforms.{self._get_name()}: seed is {seed!r}, must be a whole number "
                "or None"
            )
        self.seed, self.keys = as_whole(seed), keys
        self._calls = None if seed is None else CallCounter()
        check_options([], TargetOptions(box_format=box_format))
        self.box_format, self._reading = box_format, Reading(box_format=box_format)
        self.p = number(self._get_name(), "p", p, 0.0, 1.0, "a number in [0, 1]")
        self._stacks = stacks  # whether images must have one size

    @abstractmethod
    def draw(self, uniforms: np.ndarray, sizes: np.ndarray) -> dict[str, np.ndarray]:
        """Turn uniform numbers ``[B, draws]`` into parameters; sizes are ``[B, 2]``."""

    @abstractmethod
    def mix(
        self, leaves: Sequence[Leaf], params: Params, sizes: np.ndarray, sample: Callable[[], Any]
    ) -> None:
        """Combine the samples in `leaves`, in place; `sample` returns them as they were given."""

    @outside_graphs
    def forward(
        self,
        *sample: Any,
        generator: torch.Generator | None = None,
        index: Sequence[int] | Tensor | None = None,
        epoch: int | Tensor | None = None,
        params: Parameters | None = None,
        return_params: bool = False,
    ) -> Any:
        """Combine the samples of a batch.

        Parameters
        ----------
        *sample : dict, tuple or list of Tensor, ndarray or tv_tensor
            A batch, as :class:`Compose` takes it. Several arguments count as one tuple.
        generator, index, epoch, params, return_params
            As in a call of :class:`Compose`.

        Returns
        -------
        A batch like the one given, or (batch, Parameters)
        """
        batch = sample[0] if len(sample) == 1 else sample
        leaves, rebuild = split_sample(batch, self.keys, self._reading)
        source = self._source(generator, index, epoch, params)
        drawn = self._run(leaves, source, lambda: batch)
        result = rebuild(leaves)
        return (result, drawn) if return_params else result

    @outside_graphs
    def collate(
        self,
        samples: Sequence[Any],
        *,
        generator: torch.Generator | None = None,
        index: Sequence[int] | Tensor | None = None,
        epoch: int | Tensor | None = None,
    ) -> Any:
        """Collate samples and combine them, as a ``collate_fn``.

        Samples are collated as :meth:`Compose.collate` does it. If the transform has a seed and
        every sample is a dict with an ``"index"``, `index` defaults to those.
        """
        if index is None and self.seed is not None:
            index = index_of_samples(samples)
        keys, reading = self.keys, self._reading
        leaves, rebuild = as_batch(samples, lambda sample: split_sample(sample, keys, reading))
        self._run(leaves, self._source(generator, index, epoch, None), lambda: rebuild(leaves))
        return rebuild(leaves)

    def _source(self, generator: Any, index: Any, epoch: Any, params: Any) -> Source:
        if params is not None:
            check_params([self], params, self._get_name())
        name = self._get_name()
        seed = None if self.seed is None else seed_for(self.seed, name)
        return Source(seed, self._calls, generator, index, epoch, params, name)

    def _run(self, leaves: Sequence[Leaf], source: Source, sample: Callable[[], Any]) -> Parameters:
        sizes = image_sizes(list(leaves))
        image = next(leaf for leaf in leaves if leaf.kind == "image")
        name = self._get_name()
        if image.batch is None:
            raise ValueError(
                f"visops.transforms.{name}: {image.name} is one image, must be a batch of them"
            )
        if self._stacks:
            same_size(name, image, sizes)
        key = source.key(sizes)
        if source.params is not None:
            step = source.params.steps[0]
        else:
            assert key is not None
            drawn = uniforms(*key, self.draws + (self.p < 1.0))
            step = self.draw(drawn[:, : self.draws], sizes)
            if self.p < 1.0:
                step["mixed"] = drawn[:, self.draws] < self.p
        self.mix(leaves, step, sizes, sample)
        return Parameters([name], [step], sizes)


def mixed_samples(params: Params, batch: int) -> np.ndarray:
    """Return which samples are mixed, bool ``[B]``: all, unless `p` has left some out."""
    mixed = params.get("mixed")
    return np.ones(batch, bool) if mixed is None else np.asarray(mixed, bool)


def same_size(owner: str, image: Leaf, sizes: np.ndarray) -> None:
    """Refuse images of different sizes."""
    different = (sizes != sizes[:1]).any(1)
    if different.any():
        index = int(different.argmax())
        raise ValueError(
            f"visops.transforms.{owner}: {image.name}[{index}] has {sizes[index, 0]} rows and "
            f"{sizes[index, 1]} columns, {image.name}[0] has {sizes[0, 0]} and {sizes[0, 1]}; must "
            "be the same"
        )


def pictures(leaf: Leaf) -> tuple[list[Tensor], Pixels]:
    """Return each sample's image as a tensor ``[T, C, H, W]``, T being 1 except for videos."""
    pixels = Pixels(leaf)
    tensors = pixels.tensors(leaf)
    if pixels.listed:
        return [image.unsqueeze(0) for image in tensors], pixels
    return list(tensors.split(pixels.frames)), pixels


def restacked(leaf: Leaf, values: Sequence[Any]) -> Any:
    """Return each sample's masks in the form of the leaf's: a list, or one tensor or array."""
    if isinstance(leaf.value, list) or not values:
        return values if isinstance(leaf.value, list) else leaf.value
    return torch.stack(list(values)) if isinstance(values[0], Tensor) else np.stack(values)


def target_options(owner: str, given: Mapping[str, Any]) -> TargetOptions:
    """Check the options for targets, as `Compose` has them."""
    names = {field.name for field in fields(TargetOptions)}
    options = given_options({"seed": None, **given}, owner)
    found = TargetOptions(**{name: value for name, value in options.items() if name in names})
    check_options([], found)
    return found
