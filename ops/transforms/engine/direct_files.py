"""One JPEG file of a sample, from its bytes to a tensor: NOTE on direct calls in direct.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..._native import FilePass
from ..sample.forms import formed
from ..sample.leaf import Leaf
from ..sample.names import PLAIN_ATOMS, named_kinds
from ..sample.passing import UNMOVABLE
from .file_pass import file_pass
from .native_passes import LARGEST
from .source import Source

if TYPE_CHECKING:
    from ..compose import Compose

__all__ = ["NativeFiles", "run_file"]

_BUFFERS = (bytes, bytearray, memoryview)
_MOVING = ("mask", "masks", "boxes", "keypoints", "polygons")
_MOVED_NAMES = {*UNMOVABLE, "area"}
_UNKNOWN: Any = object()


class NativeFiles:
    """What runs a chain on a file in C++, found at the first one."""

    def __init__(self) -> None:
        self.found: Any = _UNKNOWN

    def __reduce__(self) -> tuple[Any, ...]:
        return NativeFiles, ()  # copies and other processes find their own

    def find(self, chain: Compose) -> tuple[FilePass, torch.dtype] | None:
        """Return it, and the dtype of results; None: the chain needs Python."""
        if self.found is _UNKNOWN:
            plain = chain.memory_format is not torch.channels_last
            self.found = file_pass(chain) if plain else None
        return self.found  # type: ignore[no-any-return]


def run_file(chain: Compose, sample: Any, source: Source) -> Any:
    """Transform a sample that is a file, or holds one and nothing else that moves; or return None.

    `run_passes` must then be given the same `source`, and says what is wrong with a damaged file.
    """
    found = chain.native_files.find(chain)
    if found is None:
        return None
    container = type(sample)
    if container in _BUFFERS:
        key, content = None, sample
    else:
        key = _key_of_file(sample, container, chain)
        if key is None:
            return None
        content = sample[key]
    native, dtype = found
    seed, epoch, indices = source.key_for(1)
    arguments = (content, False, seed, epoch, indices[0])
    try:
        planned = native.load(*arguments, None, 0, 0)
        if planned is None:
            return None
        _, height, width, plans, _ = planned
        channels = plans[0].channels
        if not 0 < channels * height * width <= LARGEST:
            return None
        image = torch.empty((channels, height, width), dtype=dtype, device="cpu")
        stored = native.load(*arguments, (image.data_ptr(), image.stride()), height, width)
    except (TypeError, ValueError, BufferError):
        return None
    if stored is None:
        return None
    form = chain.forms.image
    if form:
        image = formed(image, Leaf("image", image, name="the sample", form=form))
    if key is None:
        return image
    if container is dict:
        return {**sample, key: image}
    values = list(sample)
    values[key] = image
    return tuple(values)


def _key_of_file(sample: Any, container: type, chain: Compose) -> Any:
    """Return where the only file of a sample is; None: it holds something unusual."""
    if container is tuple:
        files = [index for index, value in enumerate(sample) if type(value) in _BUFFERS]
        items: Any = enumerate(sample)
    elif container is dict:
        kinds = named_kinds(chain.keys)
        files = [key for key in sample if kinds.get(key) == "image"]
        if any(kinds.get(key) in _MOVING or key in _MOVED_NAMES for key in sample):
            return None
        items = sample.items()
    else:
        return None
    if len(files) != 1 or type(sample[files[0]]) not in _BUFFERS:
        return None
    own = files[0]
    return own if all(key == own or _is_plain(value) for key, value in items) else None


def _is_plain(value: Any) -> bool:
    cls = type(value)
    if cls is Tensor:
        return value.ndim == 0  # type: ignore[no-any-return]
    return cls in PLAIN_ATOMS and cls is not bytes
