"""Reuse of freed memory on the CPU."""

import ctypes

# Parameters of mallopt(3).
_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8


def keep_freed_memory() -> bool:
    """Let glibc's malloc keep freed memory, for the rest of the process.

    By default malloc takes every block of more than 32 MB from the kernel, and returns it as soon
    as it is freed. A network's activations for 64 images are such blocks: their pages are mapped,
    cleared and unmapped again in every layer, which takes longer than the arithmetic of a small
    network.

    Call it first, before a second thread allocates: networks run in a thread of their own, and the
    arenas that glibc makes for other threads can't hold such blocks. All threads share one arena
    afterwards.

    Returns
    -------
    bool
        False if malloc is not glibc's; nothing has changed then.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt") or not hasattr(library, "gnu_get_libc_version"):
        return False
    # A threshold of -1 is the largest possible.
    wanted = {_ARENA_MAX: 1, _MMAP_MAX: 0, _TRIM_THRESHOLD: -1}
    return all(library.mallopt(parameter, value) for parameter, value in wanted.items())
