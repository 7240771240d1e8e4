"""Generators for other libraries' transforms and users' functions, which draw from global ones.

NOTE on borrowing. Such a transform draws from torch's global generator, or from those of Python and
NumPy. For a sample's draws to depend on the chain's numbers alone, they are seeded for each sample,
and get their former states back when the chain goes on. Generators are one for the whole process:
one thread borrows them at a time, and the others wait. Only the CPU's is borrowed, and that of the
GPU which holds the image: ``torch.manual_seed`` would reseed every GPU, and with it whatever a
model draws there.

NOTE on threads. Nothing makes the caller's own draws wait for a thread that has borrowed. So in the
threads of a loader, torch's functions are given a generator of the thread's instead, which draws
the same numbers. Python's and NumPy's can't be given one: what may draw from them runs in the
thread that asks for batches (loading/threads.py).
"""

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from ..._native import call_key
from ..._torch.native import BLIND_MODES

_lock = threading.RLock()  # a transform may call a chain of its own
_APART = 2**32 + 2  # no data loader has as many workers, so no call of a chain draws these keys


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()  # in a process that was forked while another thread held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class _Thread(threading.local):
    of_loader = False


_thread = _Thread()


def in_loader_thread() -> None:
    """Note that this thread belongs to a loader, so that it borrows no generator."""
    _thread.of_loader = True


# What takes a generator, and what draws like something that does.
_DRAWING = {
    *("rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson"),
    *("uniform_", "normal_", "random_", "exponential_", "cauchy_", "log_normal_", "geometric_"),
    *("bernoulli_", "binomial", "_standard_gamma", "_sample_dirichlet"),
}
_LIKE = {"rand_like": "uniform_", "randn_like": "normal_", "randint_like": "random_"}


class _Apart(TorchFunctionMode):
    """Gives a generator to torch's functions that were given none."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.generator = generator

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if (name in _DRAWING or name in _LIKE) and kwargs.get("generator") is None:
            like = args[0].device if args and isinstance(args[0], torch.Tensor) else "cpu"
            if torch.device(kwargs.get("device") or like).type == "cpu":
                if name in _LIKE and args:
                    return self._like(name, *args, **kwargs)
                kwargs = {**kwargs, "generator": self.generator}
        return func(*args, **kwargs)

    def _like(
        self, name: str, like: torch.Tensor, *bounds: int, generator: None = None, **options: Any
    ) -> torch.Tensor:
        names = [own for own in ("low", "high") if own in options]
        ends = (*bounds, *(options.pop(own) for own in names))
        ends = (0, *ends) if len(ends) == 1 else ends
        made = torch.empty_like(like, **options)
        return getattr(made, _LIKE[name])(*ends, generator=self.generator)  # type: ignore[no-any-return]


BLIND_MODES.add(_Apart)


def drawing_apart(seed: int, epoch: int, number: int) -> _Apart:
    """Let torch's functions draw from a generator of their own, seeded by three numbers."""
    key = call_key(seed, epoch, _APART, number & (2**64 - 1))
    return _Apart(torch.Generator().manual_seed(key))


def other_states() -> tuple[Any, Any]:
    """Return the states of Python's and NumPy's generators."""
    state: Any = np.random.get_state()
    return random.getstate(), (state[0], state[1].tobytes(), *state[2:])


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
    apart = _thread.of_loader and device.type == "cpu"
    own = [torch.Generator() if apart else torch.default_generator]
    if device.type == "cuda":
        own.append(torch.cuda.default_generators[device.index or 0])

    def seed(uniform: float) -> None:
        number = whole_number(uniform)
        for generator in own:
            generator.manual_seed(number)
        if not torch_alone:
            random.seed(number)
            np.random.seed(number & 0xFFFFFFFF)

    if apart and torch_alone:
        with _Apart(own[0]):
            yield seed
        return
    with _lock:
        states = [generator.get_state() for generator in own]
        others = None if torch_alone else (random.getstate(), np.random.get_state())
        try:
            if apart:
                with _Apart(own[0]):
                    yield seed
            else:
                yield seed
        finally:
            for generator, state in zip(own, states, strict=True):
                generator.set_state(state)
            if others is not None:
                random.setstate(others[0])
                np.random.set_state(others[1])
