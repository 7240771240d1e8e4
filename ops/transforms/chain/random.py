"""Random numbers that depend only on a key and a position, not on who draws them or in what order.

Philox (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) turns a key and a
counter into random bits. The key is (seed, epoch) and the counter holds the sample's index, so any
worker draws the same numbers for a sample, alone or within any batch. A call without an index has a
key of its own, drawn by a generator or by (seed, epoch, worker, number of the call). Bits are
always drawn on the CPU, whatever the images' device.

Numbers the calls of a seeded chain that are given no index.

NOTE on epochs without an epoch. A data set that knows nothing of indices or epochs calls its chain
with a sample and nothing else. Each worker process has its own copy of the chain, so a call is
known by its worker and its number there. But unless workers persist, each epoch starts new ones,
whose numbers start again. So every worker notes in shared memory that one with its number has
started; how many did before is the epoch.
"""

import math
import os
import random
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils.data import get_worker_info

from ..._native import call_key
from ..._native import uniforms as native_uniforms
from ..._torch.call import BLIND_MODES, modes_or_transforms_active

_NAMED = 2**32 + 1  # no data loader has as many workers, so no call of a chain draws these keys


class _Word(threading.local):
    """Where torch's generators put a number: a new tensor would take longer than the draw."""

    tensor: torch.Tensor | None = None  # made in a call that nothing watches
    array: np.ndarray

    def draw(self, generator: torch.Generator | None) -> int:
        if self.tensor is None:
            with torch.inference_mode(False):  # else only that mode could write to it
                self.tensor = torch.zeros((), dtype=torch.int64, device="cpu")
            self.array = self.tensor.numpy()
        self.tensor.random_(generator=generator)
        return int(self.array)


_word = _Word()


def uniforms(
    seed: int, epoch: int, indices: Sequence[int], count: int, stream: int = 0
) -> np.ndarray:
    """Draw `count` numbers in [0, 1) for each sample.

    Parameters
    ----------
    seed, epoch : int
        The key; only the lower 64 bits matter.
    indices : sequence of int
        Position of each sample in the data set.
    count : int
        Numbers per sample. The leading ones don't depend on it.
    stream : int
        Draws of another stream are independent.

    Returns
    -------
    ndarray, float64 ``[B, count]``
        Multiples of 2^-53. Stored column by column, so that arithmetic on a column is the same
        whatever B is.

    Examples
    --------
    >>> from visops.transforms.chain.random import uniforms
    >>> batch = uniforms(seed=1, epoch=0, indices=[5, 6, 7], count=4)
    >>> bool((batch[1] == uniforms(seed=1, epoch=0, indices=[6], count=9)[0, :4]).all())
    True
    """
    return native_uniforms(seed, epoch, indices, count, stream)


class Numbers:
    """Uniform numbers of a key in [0, 1), one after another."""

    def __init__(self, key: float) -> None:
        self._key, self._drawn, self._position = int(key * 2.0**53), np.empty(0), 0

    def array(self, *shape: int) -> np.ndarray:
        """Return the next numbers in [0, 1)."""
        count = math.prod(shape)
        end = self._position + count
        if end > len(self._drawn):
            self._drawn = uniforms(self._key, 0, [0], end + len(self._drawn) + 64)[0]
        found = self._drawn[self._position : end].reshape(shape)
        self._position = end
        return found

    def next(self) -> float:
        return float(self.array(1)[0])

    def whole(self, count: int) -> int:
        """Return one of 0, ..., count - 1."""
        return int(self.next() * count)

    def between(self, ends: Sequence[float]) -> float:
        return ends[0] + self.next() * (ends[1] - ends[0])

    def normal(self, *shape: int) -> np.ndarray:
        """Return normally distributed numbers."""
        return normal(self.array(*shape), self.array(*shape))


def normal(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return normally distributed numbers from two sets of uniform ones: Box and Muller's way."""
    found: np.ndarray = np.sqrt(-2.0 * np.log1p(-first)) * np.cos(2.0 * np.pi * second)
    return found


def fresh_key(generator: torch.Generator | None) -> int:
    """Draw a key from the given generator, or from torch's global one."""
    if generator is not None and generator.device.type != "cpu":
        raise ValueError(
            f"visops.transforms.Compose: generator is on {generator.device}, must be on the CPU "
            "(where parameters are drawn, whatever the images' device)"
        )
    if modes_or_transforms_active():
        return int(torch.empty((), dtype=torch.int64, device="cpu").random_(generator=generator))
    return _word.draw(generator)


def seed_for(seed: int, name: str) -> int:
    """Return the seed of what has this name, so that it shares no number with a chain's seed."""
    return call_key(seed, zlib.crc32(name.encode()), _NAMED, 0)


_SLOTS = 1024


def in_shared_memory(values: Tensor) -> Tensor:
    """Return the values where processes started later see them change."""
    if values.is_shared():
        return values
    try:
        return values.clone().share_memory_()
    except RuntimeError:  # a system without any: data loaders can't have workers there either
        return values.clone()


class CallCounter:
    """Counts calls, in this process and as this worker of a data loader."""

    def __init__(self) -> None:
        self._starts = in_shared_memory(torch.zeros(_SLOTS, dtype=torch.int64, device="cpu"))
        self._worker = 0  # that of the process; workers are 1, 2, ...
        self._started = 0  # how many workers of this number started before
        self._epoch: int | None = None
        self._number = 0
        self._lock = threading.Lock()
        self._process: int | None = None

    def next(self, epoch: int | None) -> tuple[int, int, int]:
        """Return epoch, worker and number of a call; numbers start anew with each epoch."""
        if self._process != os.getpid():
            self._enter_process()
        with self._lock:
            if epoch != self._epoch:
                self._epoch, self._number = epoch, 0
            number = self._number
            self._number += 1
        return self._started if epoch is None else epoch, self._worker, number

    def _enter_process(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()  # a thread of the process that was forked may hold the old
        info = get_worker_info()
        if info is None:
            return
        self._worker, self._number = info.id + 1, 0
        slot = self._starts[info.id % _SLOTS]
        self._started = int(slot)
        slot += 1

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None, "_process": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
        # Sending it to a process shares the memory; any other copy has its own.
        self._starts = in_shared_memory(self._starts)


# NOTE on Beta. Numbers with a Beta distribution are made from uniform ones. Both its parameters are
# `alpha`. A Beta number is G / (G + H), where G and H have a Gamma distribution. Source of the
# latter: G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables", ACM TOMS
# 26(3), 2000.
_ATTEMPTS = 8  # of which one suffices for 95 % of all numbers
HALF = 1 + 3 * _ATTEMPTS  # uniform numbers for each Gamma number
DRAWS = 2 * HALF  # uniform numbers for each Beta number


def beta(uniforms: Sequence[float], alpha: float) -> float:
    """Return a number in [0, 1], from `DRAWS` uniform numbers in [0, 1).

    Examples
    --------
    >>> from visops.transforms.chain.random import DRAWS, beta
    >>> beta([0.25] * DRAWS, 1.0)
    0.5
    """
    difference = log_gamma(uniforms[:HALF], alpha) - log_gamma(uniforms[HALF:], alpha)
    # G / (G + H), where neither may underflow.
    return 0.5 + 0.5 * math.tanh(0.5 * difference)


def log_gamma(uniforms: Sequence[float], alpha: float) -> float:
    """Return the logarithm of a number with a Gamma distribution, from `HALF` uniform numbers."""
    first, *rest = uniforms
    if alpha < 1.0:
        return log_gamma([first, *rest], alpha + 1.0) + math.log(1.0 - first) / alpha
    d = alpha - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    for attempt in range(_ATTEMPTS):
        radius, angle, u = rest[3 * attempt : 3 * attempt + 3]
        x = math.sqrt(-2.0 * math.log(1.0 - radius)) * math.cos(2.0 * math.pi * angle)
        root = 1.0 + c * x
        if root <= 0.0:
            continue
        v = root * root * root
        if math.log(1.0 - u) < 0.5 * x * x + d - d * v + d * math.log(v):
            return math.log(d * v)
    return math.log(d)  # once in 10^10


# Generators for other libraries' transforms and users' functions, which draw from global ones.
#
# NOTE on borrowing. Such a transform draws from torch's global generator, or from those of Python
# and NumPy. For a sample's draws to depend on the chain's numbers alone, they are seeded for each
# sample, and get their former states back when the chain goes on. Generators are one for the whole
# process: one thread borrows them at a time, and the others wait. Only the CPU's is borrowed, and
# that of the GPU which holds the image: ``torch.manual_seed`` would reseed every GPU, and with it
# whatever a model draws there.
#
# NOTE on threads. Nothing makes the caller's own draws wait for a thread that has borrowed. So in
# the threads of a loader, torch's functions are given a generator of the thread's instead, which
# draws the same numbers. Python's and NumPy's can't be given one: what may draw from them runs in
# the thread that asks for batches (loading/threads.py).

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
