"""What a run changes in its process: how malloc keeps memory, what signals do, a trace."""

import ctypes
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from ..batch import Batch
from .stages import Chain

# Reuse of freed memory on the CPU.

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


# A trace of the first batches, with the threads of all stages.

TRACE = "trace.json"
_BATCHES = 20  # viewers can't open longer traces


class Trace:
    """Records until some batches are written, then writes trace.json for chrome://tracing.

    It starts threads: create it after the decoding workers have been forked.

    Parameters
    ----------
    out : str
        The folder of outputs.
    """

    def __init__(self, out: str) -> None:
        self._out = out
        activities = [ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(ProfilerActivity.CUDA)
        self._profile: Any = profile(activities=activities, experimental_config=_all_threads())
        self._profile.start()

    def tick(self, chain: Chain[Batch]) -> None:
        """Stop once enough batches are recorded."""
        if chain.times[-1].batches >= _BATCHES:
            self.close()

    def close(self) -> None:
        """Stop recording, and write the file."""
        if self._profile is not None:
            self._profile.stop()
            self._profile.export_chrome_trace(os.path.join(self._out, TRACE))
            self._profile = None


def _all_threads() -> Any:
    """Return the setting that records all threads, not only the current one."""
    try:
        from torch._C._profiler import _ExperimentalConfig

        return _ExperimentalConfig(profile_all_threads=True)
    except (ImportError, TypeError):
        return None


# Signals: the first drains the run, the second kills the process.

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Draining:
    """A context in which SIGINT and SIGTERM call what :meth:`bind` was given; a second one kills.

    Outside the main thread, where Python can't install handlers, signals act as before.

    Attributes
    ----------
    received : int or None
        The signal received.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._stop: Callable[[], None] | None = None
        self._before: dict[int, Any] = {}

    def bind(self, stop: Callable[[], None]) -> None:
        """Set the function that stops the work; call it now if a signal has already come."""
        self._stop = stop
        if self.received is not None:
            stop()

    def __enter__(self) -> "Draining":
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.received = number
        if self._stop is not None:
            self._stop()
