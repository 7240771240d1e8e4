"""Keeping memory that was freed.

glibc's malloc asks the kernel for every block of more than 32 MB anew and gives it back when it is
freed. A network's activations for 64 images are such blocks: their pages are mapped, cleared and
unmapped again in every layer, which takes longer than the arithmetic of a small network.
"""

import contextlib
import ctypes
from collections.abc import Iterator

from visops.infer import keep_freed_memory

# Parameters of mallopt(3), and the values glibc adapts to once such blocks have been freed.
TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4
DEFAULTS = {TRIM_THRESHOLD: 64 << 20, MMAP_THRESHOLD: 32 << 20, MMAP_MAX: 65536}


@contextlib.contextmanager
def kept_memory() -> Iterator[bool]:
    """Keep freed memory within the block; yield False if malloc is not glibc's."""
    if not keep_freed_memory():
        yield False
        return
    try:
        yield True
    finally:
        library = ctypes.CDLL(None)
        for parameter, value in DEFAULTS.items():
            library.mallopt(parameter, value)
        library.malloc_trim(0)
