"""A trace of the first batches, with the threads of all stages."""

import os
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from ..batch import Batch
from .stages import Chain

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
