"""Several views of one sample, for self-supervised training."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Generator, Tensor, nn

from ..._native import call_key
from ..._torch.outside_graphs import outside_graphs
from ..arguments import fail, is_sequence
from ..chain.decode_ahead import decode_ahead
from ..chain.draws import recorded
from ..chain.nesting import outer_options
from ..chain.source import Parameters, index_of_samples
from ..compose import Compose
from ..sample.batches import Split, as_batch

__all__ = ["Views"]

_WORKER = 2**32  # no data loader has as many workers, so no call of a chain draws this key


class Views(nn.Module):
    """Make several views of each sample, drawn independently of each other.

    Two chains with one seed draw the same numbers for the same index: their crops would be equal,
    and a network that is to find them similar would have nothing to learn. Here each view draws
    from a seed of its own, which follows from its chain's and its place.

    Parameters
    ----------
    chains : sequence of Compose, transforms, or sequences of transforms
        One for each view. A chain may stand several times: ``[wide] * 2 + [narrow] * 8``.
    seed : int, optional
        In place of the chains' seeds.

    Attributes
    ----------
    chains : list of Compose
        Those that are called, with seeds of their own.

    Notes
    -----
    A call has the arguments of :class:`Compose`'s, and `collate` those of its; both return a tuple
    with a result for each view. With a seed it can be the transform of an :class:`IndexedDataset`.
    A :class:`Loader` gives ``([views], labels)``: the images as a list of batches, one for each
    view, and all else once; where boxes, masks or other targets move, a tuple of batches, one for
    each view.

    If all chains begin with a :class:`DecodeJpeg` of the same options, files are decoded once: the
    union of the windows that the views read, at the least reduction that any of them would decode
    at. A view that alone would be decoded at another reduction thus comes out as it would of the
    photo decoded at that one.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> crop = transforms.Compose([transforms.RandomResizedCrop(32)], seed=0)
    >>> views = transforms.Views([crop, crop])
    >>> first, second = views(torch.rand(3, 60, 80), index=7)
    >>> first.shape, torch.equal(first, second)
    (torch.Size([3, 32, 32]), False)
    """

    def __init__(self, chains: Sequence[Any], *, seed: int | None = None) -> None:
        super().__init__()
        if not is_sequence(chains) or len(chains) == 0:
            fail("Views", "chains", chains, "a sequence of at least one chain", TypeError)
        made = [_as_chain(chain) for chain in chains]
        seeds = [chain.seed if seed is None else seed for chain in made]
        self.seed = next((s for s in seeds if s is not None), None)
        if any((s is None) != (self.seed is None) for s in seeds):
            fail("Views", "chains", list(chains), "all with a seed, or all without")
        self.chains = [
            Compose(chain.transforms, **{**chain.given, "seed": _seed_of(own, index)})
            for index, (chain, own) in enumerate(zip(made, seeds, strict=True))
        ]

    @property
    def reads_files(self) -> bool:
        """Whether all chains begin with ``DecodeJpeg``: what :class:`Loader` asks."""
        return all(chain.reads_files for chain in self.chains)

    @property
    def decodes_once(self) -> bool:
        """Whether they read files alike."""
        if not all(chain.passes and chain.reads_files for chain in self.chains):
            return False
        options = [vars(chain.transforms[0].options) for chain in self.chains]
        return all(own == options[0] for own in options)

    def forward(
        self,
        *sample: Any,
        generator: Generator | None = None,
        index: int | Sequence[int] | Tensor | None = None,
        epoch: int | Tensor | None = None,
        params: Sequence[Parameters] | None = None,
        return_params: bool = False,
    ) -> tuple[Any, ...]:
        """Return a tuple of views; the arguments are those of a call of :class:`Compose`.

        With `return_params`, returns the views and a tuple of their parameters, as `params` takes
        them.
        """
        options: dict[str, Any] = {"generator": generator, "index": index, "epoch": epoch}
        each: list[Parameters | None] = [None] * len(self.chains)
        if params is not None:
            each = list(params)
        if len(each) != len(self.chains):
            raise ValueError(
                f"visops.transforms.Views: params has {len(each)} parts, must have "
                f"{len(self.chains)}"
            )
        if not self.decodes_once or outer_options() is not None:
            options["return_params"] = return_params
            pairs = zip(self.chains, each, strict=True)
            made = [chain(*sample, **options, params=own) for chain, own in pairs]
            return tuple(zip(*made, strict=True)) if return_params else tuple(made)
        given = sample[0] if len(sample) == 1 else sample
        split = [chain.split(given) for chain in self.chains]
        views, drawn = self._decoded_once(split, options, each, return_params)
        return (views, drawn) if return_params else views

    def collate(
        self,
        samples: Sequence[Any],
        *,
        generator: Generator | None = None,
        index: Sequence[int] | Tensor | None = None,
        epoch: int | Tensor | None = None,
    ) -> tuple[Any, ...]:
        """Return a tuple of batches, one for each view, as a ``collate_fn``."""
        if index is None and self.seed is not None:
            index = index_of_samples(samples)
        options: dict[str, Any] = {"generator": generator, "index": index, "epoch": epoch}
        if not self.decodes_once or outer_options() is not None:
            return tuple(chain.collate(samples, **options) for chain in self.chains)
        split = [as_batch(samples, chain.split) for chain in self.chains]
        return self._decoded_once(split, options, [None] * len(self.chains), record=False)[0]

    @outside_graphs
    def _decoded_once(
        self,
        split: list[Split],
        options: dict[str, Any],
        params: list[Parameters | None],
        record: bool,
    ) -> tuple[tuple[Any, ...], tuple[Parameters, ...]]:
        """Return the views of samples that were split for each chain, and recorded parameters."""
        pairs = zip(self.chains, params, strict=True)
        sources = [chain.source(**options, params=own) for chain, own in pairs]
        leaves = [own for own, _ in split]
        decode_ahead(self.chains, leaves, sources)
        views, drawn = [], []
        for chain, source, (own, rebuild) in zip(self.chains, sources, split, strict=True):
            steps, sizes = chain._transform(own, source, record=record)
            if record:
                drawn.append(recorded(chain.transforms, steps, sizes))
            chain.output_types.apply(own)
            views.append(rebuild(own))
        return tuple(views), tuple(drawn)

    def __repr__(self) -> str:
        lines = [f"  {line}" for chain in self.chains for line in repr(chain).splitlines()]
        return "\n".join(["Views(", *lines, ")"])


def _as_chain(chain: Any) -> Compose:
    if isinstance(chain, Compose):
        return chain
    steps: Sequence[Callable[..., Any]] = chain if is_sequence(chain) else [chain]
    return Compose(list(steps))


def _seed_of(seed: int | None, position: int) -> int | None:
    """Return the seed of a view."""
    return None if seed is None else call_key(seed, 0, _WORKER, position)
