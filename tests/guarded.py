"""Memory that ends at pages which none may touch."""

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

PAGE = mmap.PAGESIZE

PAGES = 32


@contextmanager
def guarded_memory() -> Iterator[np.ndarray]:
    """PAGES readable pages between two that are not."""
    memory = mmap.mmap(-1, (PAGES + 2) * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    whole = np.frombuffer(memory, dtype=np.uint8)
    mprotect = ctypes.CDLL(None, use_errno=True).mprotect
    guards = [ctypes.c_void_p(whole.ctypes.data + page * PAGE) for page in (0, PAGES + 1)]
    none, readable = 0, mmap.PROT_READ | mmap.PROT_WRITE
    for guard in guards:
        assert mprotect(guard, ctypes.c_size_t(PAGE), none) == 0
    try:
        yield whole[PAGE:-PAGE]
    finally:
        for guard in guards:
            assert mprotect(guard, ctypes.c_size_t(PAGE), readable) == 0
