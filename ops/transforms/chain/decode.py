"""Decodes what a pass reads of its images, and no more.

NOTE on decoding. Parameters are drawn for the whole image, whose size is in the file's header. So
the plan is as it would be for decoded images, and tells which of their pixels the pass reads: those
under its canvas, and under that of each contrast's mean. They are decoded, and the plan is moved to
where they begin. Targets follow the plan of the whole image.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from ...jpeg.header import Part
from ..sample.files import Encoded, EncodedOptions, reject_file
from ..sample.leaf import Leaf
from .effects import Fusable
from .fuse import Pass
from .plan import Plan

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
