"""One JPEG file of a sample, from its bytes to a tensor: NOTE on direct calls in direct.py."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..._native import FilePass
from ..sample.forms import formed
from ..sample.leaf import Leaf
from ..sample.names import MOVING, PLAIN_ATOMS, named_kinds
from ..sample.passing import UNMOVABLE
from .file_pass import file_pass
from .native_passes import LARGEST
from .source import Source

if TYPE_CHECKING:
    from ..compose import Compose

_BUFFERS = (bytes, bytearray, memoryview)
_MOVED_NAMES = {*UNMOVABLE, "area"}


def run_file(chain: "Compose", sample: Any, source: Source) -> Any:
    """Transform a sample that is a file, or holds one and nothing else that moves; or return None.

    `run_passes` must then be given the same `source`, and says what is wrong with a damaged file.
    """
    found = _native_files(chain)
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


def _native_files(chain: "Compose") -> tuple[FilePass, torch.dtype] | None:
    """Return what runs a chain on a file, and the dtype of results; None: Python has to."""
    kept = chain.native_passes
    if not kept.files:
        plain = chain.memory_format is not torch.channels_last
        kept.files.append(file_pass(chain) if plain else None)
    return kept.files[0]  # type: ignore[no-any-return]


def _key_of_file(sample: Any, container: type, chain: "Compose") -> Any:
    """Return where the only file of a sample is; None: it holds something unusual."""
    if container is tuple:
        files = [index for index, value in enumerate(sample) if type(value) in _BUFFERS]
        items: Any = enumerate(sample)
    elif container is dict:
        kinds = named_kinds(chain.keys)
        files = [key for key in sample if kinds.get(key) == "image"]
        if any(kinds.get(key) in MOVING or key in _MOVED_NAMES for key in sample):
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
