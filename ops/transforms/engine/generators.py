"""The global generators, borrowed for other libraries' transforms.

NOTE on borrowing. Such a transform draws from torch's global generator, or from those of Python and
NumPy. For a sample's draws to depend on the chain's numbers alone, they are seeded for each sample,
and get their former states back when the chain goes on. Generators are one for the whole process:
one thread borrows them at a time, and the others wait. Only the CPU's is borrowed, and that of the
GPU which holds the image: ``torch.manual_seed`` would reseed every GPU, and with it whatever a
model draws there.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

__all__ = ["borrowed", "whole_number"]

_lock = threading.RLock()  # a transform may call a chain of its own


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()  # in a process that was forked while another thread held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def whole_number(uniform: float) -> int:
    """Return the whole number that stands for a number in [0, 1), a multiple of 2^-53."""
    return int(uniform * 2.0**53)


@contextmanager
def borrowed(device: torch.device, torch_alone: bool) -> Iterator[Callable[[float], None]]:
    """Borrow the global generators; yield what seeds them by a number in [0, 1).

    Parameters
    ----------
    device : torch.device
        Where the images are.
    torch_alone : bool
        Leave those of Python and NumPy alone.
    """
    own = [torch.default_generator]
    if device.type == "cuda":
        own.append(torch.cuda.default_generators[device.index or 0])

    def seed(uniform: float) -> None:
        number = whole_number(uniform)
        for generator in own:
            generator.manual_seed(number)
        if not torch_alone:
            random.seed(number)
            np.random.seed(number & 0xFFFFFFFF)

    with _lock:
        states = [generator.get_state() for generator in own]
        others = None if torch_alone else (random.getstate(), np.random.get_state())
        try:
            yield seed
        finally:
            for generator, state in zip(own, states, strict=True):
                generator.set_state(state)
            if others is not None:
                random.setstate(others[0])
                np.random.set_state(others[1])
