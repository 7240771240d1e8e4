"""Decoding before a chain runs: what its first pass will read, of files that several chains share.

A chain's plan follows from its key and the images' sizes. So it can be drawn to learn which window
it reads of each file, and at which reduction; when the chain runs, it asks for the same again, and
finds it decoded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..sample.files import Encoded
from ..sample.images import image_sizes
from ..sample.leaf import Leaf
from .decode import Request, decode_all, decoded_part, requests_of
from .draws import Draws
from .nesting import Chain
from .operators import Pixels
from .plan import Plan
from .source import Source


@dataclass(slots=True)
class Decoded:
    """The part of a file that is decoded, in the file's place."""

    pixels: Any  # [h, w, C]: an array, then a tensor on the device
    part: tuple[int, int, int]  # its top and left in the upright image, and the reduction

    def decode(self, *_: Any) -> tuple[Any, tuple[int, int, int]]:
        return self.pixels, self.part


def decode_ahead(
    chains: Sequence[Chain], leaves: Sequence[Sequence[Leaf]], sources: Sequence[Source]
) -> None:
    """Decode what the first passes of chains will read of the same samples' files.

    Each file is decoded once: the union of their windows, at the least reduction of any.

    Parameters
    ----------
    chains : sequence of Chain
        They read files alike.
    leaves : sequence of sequence of Leaf
        Those of the samples, for each chain.
    sources : sequence of Source
        Those of the calls to come.
    """
    every = [_files(own) for own in leaves]
    if not every[0]:
        return
    wanted = [_requests(*own) for own in zip(chains, leaves, sources, strict=True)]
    names = [name for name, _ in every[0]]

    def decode(number: int) -> Decoded:
        requests = [own[number % len(own)] for own in wanted]
        return Decoded(*decoded_part(every[0][number][1], _united(requests), names[number]))

    for number, decoded in enumerate(decode_all(decode, len(names))):
        for own in every:
            own[number][1].file = decoded


def _files(leaves: Sequence[Leaf]) -> list[tuple[str, Encoded]]:
    """Return the files of samples, with names for messages, image by image."""
    found = []
    for leaf in leaves:
        if leaf.kind == "image":
            values = leaf.value if isinstance(leaf.value, list) else [leaf.value]
            for index, value in enumerate(values):
                if isinstance(value, Encoded):
                    name = leaf.name if leaf.batch is None else f"{leaf.name}[{index}]"
                    found.append((name, value))
    return found


def _requests(chain: Chain, leaves: Sequence[Leaf], source: Source) -> list[Request]:
    """Return what the first pass of a chain reads of each sample."""
    sizes = image_sizes(list(leaves))
    pixels = Pixels(next(leaf for leaf in leaves if leaf.kind == "image"))
    part = chain.passes[0]
    plan = Plan.of_images(sizes, pixels.channels, pixels.dtype, chain.exact)
    Draws(chain.slices, chain.draws, source, source.key(sizes)).fill(plan, part)
    return requests_of(plan, part)


def _united(requests: Sequence[Request]) -> Request:
    """Return the window that holds all windows, and the least reduction."""
    top = min(window[0] for window, _ in requests)
    left = min(window[1] for window, _ in requests)
    bottom = max(window[0] + window[2] for window, _ in requests)
    right = max(window[1] + window[3] for window, _ in requests)
    return (top, left, bottom - top, right - left), min(by for _, by in requests)
