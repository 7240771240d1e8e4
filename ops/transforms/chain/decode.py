"""Decodes what a pass reads of its images, and no more.

NOTE on decoding. Parameters are drawn for the whole image, whose size is in the file's header. So
the plan is as it would be for decoded images, and tells which of their pixels the pass reads: those
under its canvas, and under that of each contrast's mean. They are decoded, and the plan is moved to
where they begin. Targets follow the plan of the whole image.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...jpeg.file import Part
from ..sample.files import Encoded, EncodedOptions, reject_file
from ..sample.images import image_sizes
from ..sample.leaf import Leaf
from .effects import Fusable
from .fuse import Pass
from .nesting import Chain
from .operators import Pixels
from .plan import Plan
from .source import Draws, Source

# A window, (top, left, height, width), and a reduction.
Request = tuple[tuple[int, int, int, int], int]

# How far sampling reads: around the canvas in pixels of the result, since a filter that shrinks is
# that wide, and around its source in pixels of the image. One more than the filters need.
_AROUND = {
    "nearest": (1.0, 2.0),
    "bilinear": (2.0, 3.0),
    "bicubic": (3.0, 4.0),
    "lanczos": (4.0, 5.0),
}
_REPEATING = ("reflect", "symmetric", "circular")


class Decoding(Fusable):
    """The transform at whose place images are decoded; it must be the first of its chain.

    Attributes
    ----------
    reduced : bool or None
        Whether images may be decoded at 1/2, 1/4 or 1/8 of the scale; None: if the chain draws.
    options : EncodedOptions
    """

    reduced: bool | None
    options: EncodedOptions


def decoding_of(transforms: Sequence[Any], owner: str = "Compose") -> EncodedOptions | None:
    """Return how a chain reads files, or None if it takes decoded images."""
    for index, transform in enumerate(transforms):
        if isinstance(transform, Decoding) and (index > 0 or owner != "Compose"):
            raise ValueError(
                f"visops.transforms.{owner}: transforms holds a {transform._get_name()}, must be "
                "the first transform of a Compose or left out"
            )
    first = transforms[0] if transforms else None
    return first.options if isinstance(first, Decoding) else None


def decode_for(plan: Plan, pass_: Pass, leaf: Leaf) -> Any:
    """Decode what a pass reads of the files in a leaf.

    Parameters
    ----------
    plan : Plan
        For the whole images.
    pass_ : Pass
    leaf : Leaf
        Its value becomes an array ``[h, w, C]``, or a list of such; tensors where its files are
        decoded already (loading/on_device.py). If it holds no files, nothing happens.

    Returns
    -------
    Plan
        For the decoded pixels.
    """
    files = leaf.value if isinstance(leaf.value, list) else [leaf.value]
    if not isinstance(files[0], Encoded):
        return plan
    requests = requests_of(plan, pass_)

    def decode(index: int) -> tuple[np.ndarray, Part]:
        name = leaf.name if leaf.batch is None else f"{leaf.name}[{index}]"
        return decoded_part(files[index], requests[index], name)

    decoded = decode_all(decode, len(files))
    leaf.value = [pixels for pixels, _ in decoded]
    if leaf.batch is None:
        leaf.value = leaf.value[0]
    parts = [(*own, *pixels.shape[:2]) for pixels, own in decoded]
    return plan.for_parts(np.array(parts, np.int64))


def decoded_part(source: Encoded, request: Request, name: str) -> tuple[np.ndarray, Part]:
    """Decode what is asked of a file that has this name in its sample."""
    try:
        return source.file.decode(*request, source.shape[2])  # type: ignore[no-any-return]
    except ValueError as error:
        reject_file(name, error)


def requests_of(plan: Plan, pass_: Pass) -> list[Request]:
    """Return what a pass reads of each file."""
    windows = plan.windows(*reach_of(pass_))
    reduces = pass_.reduces and not plan.exact and pass_.antialias
    reductions = plan.reductions() if reduces else [1] * len(windows)
    return list(zip(windows, reductions, strict=True))


def reach_of(pass_: Pass) -> tuple[float, float, bool]:
    """Return how far a pass reads: around its canvas, around its source, from anywhere."""
    mode = pass_.interpolation or "nearest"
    modes = mode if isinstance(mode, tuple) else (mode,)
    around, beyond = max(_AROUND[own] for own in modes)
    anywhere = pass_.fill is not None and pass_.padding_mode in _REPEATING
    return around if pass_.antialias else 1.0, beyond, anywhere


def decode_all(decode: Any, count: int) -> list[Any]:
    """Return what a function makes of each number, by as many threads as torch may use."""
    threads = min(count, torch.get_num_threads())
    if threads < 2:
        return [decode(index) for index in range(count)]
    with ThreadPoolExecutor(threads) as pool:  # decoding releases the interpreter's lock
        return list(pool.map(decode, range(count)))


# Decoding before a chain runs: what its first pass will read, of files that several chains share.
#
# A chain's plan follows from its key and the images' sizes. So it can be drawn to learn which
# window it reads of each file, and at which reduction; when the chain runs, it asks for the same
# again, and finds it decoded.


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
