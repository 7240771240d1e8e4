"""The passes of a chain that reads files, as C++ runs them on one file: csrc/python/files.cpp."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from ..._native import FilePass
from ...jpeg.file import decoder
from ...jpeg.library import TurboDecoder
from .decode import Decoding, reach_of
from .fuse import Pass
from .pipeline import reason_for_operators, stages_of

if TYPE_CHECKING:
    from ..compose import Compose


def slow_passes(chain: "Compose") -> list[tuple[Pass, str]]:
    """Return the passes of a chain that hold the interpreter's lock, and why they do.

    One that does makes all of them.
    """
    reasons = [_reason(chain, part) for part in chain.passes]
    if not any(reasons):
        return []
    other = "another pass does"
    return [(part, own or other) for part, own in zip(chain.passes, reasons, strict=True)]


def _reason(chain: "Compose", pass_: Pass) -> str:
    if not chain.reads_files and pass_.kind in ("fused", "values"):
        return "the chain does not begin with DecodeJpeg"
    if pass_.kind == "values" and pass_ is chain.passes[-1]:
        return "the last pass must make floats or change geometry"
    own = reason_for_operators(chain, pass_)
    if not own and not isinstance(decoder(), TurboDecoder):
        return "visops was built without libjpeg-turbo"
    return own


def file_pass(chain: "Compose") -> tuple[FilePass, torch.dtype] | None:
    """Return what runs a chain on a file, and the dtype of results; None: Python has to.

    The passes of the chain must be formed.
    """
    return None if slow_passes(chain) else _made(chain, chain.passes)


def first_file_pass(chain: "Compose") -> FilePass | None:
    """Return what decodes what the first pass of a chain reads of a file; None: Python has to."""
    first = chain.passes[0]
    if not chain.reads_files or first.kind != "fused" or _reason(chain, first):
        return None
    found = _made(chain, [first])
    return None if found is None else found[0]


def _made(chain: "Compose", passes: Sequence[Pass]) -> tuple[FilePass, torch.dtype] | None:
    first = passes[0]
    transform = first.transforms[0]
    assert isinstance(transform, Decoding)
    options = transform.options
    found = stages_of(chain, passes, torch.uint8, options.channels)
    if found is None:
        return None
    stages, dtype = found
    around, beyond, anywhere = reach_of(first)
    turbo = decoder()
    assert isinstance(turbo, TurboDecoder)
    made = FilePass(
        stages,
        *turbo.addresses(),
        options.channels,
        options.max_pixels,
        options.exif,
        first.reduces and not chain.exact and bool(first.antialias),
        chain.exact,
        around,
        beyond,
        anywhere,
    )
    return made, dtype
